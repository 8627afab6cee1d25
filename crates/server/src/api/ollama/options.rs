//! `options`: how tokens are chosen and how many, under Ollama's names.
//!
//! What belongs to loading a model (`num_ctx`, `num_batch`, `num_gpu`, `main_gpu`, `low_vram`, `f16_kv`, `logits_all`,
//! `vocab_only`, `use_mmap`, `use_mlock`, `numa`, `num_thread`, `embedding_only`) was decided when the server began, and
//! `num_keep` is about texts that are cut, which they are not here: none of them can change an answer.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;

/// How a request wants its text.
///
/// # Errors
/// The first field that makes no sense, or that asks for what is not there.
pub fn read(fields: Fields<'_>, model: &Model) -> Result<Settings, ApiError> {
    let mut settings = Settings::of_defaults(&model.defaults);
    settings.stream = fields.flag("stream")?.unwrap_or(true);
    settings.read_logprobs(fields)?;
    let Some(options) = fields.object("options")? else { return Ok(settings) };
    refuse(options)?;
    settings.read_sampling(options, model)?;
    settings.read_stops(options)?;
    if let Some(limit) = options.integer("num_predict")? {
        // Below 0 is no limit: -1 until the end, -2 until the context is full.
        settings.limit = usize::try_from(limit).ok();
    }
    Ok(settings)
}

/// Refuses what would give another text than was asked for.
fn refuse(options: Fields<'_>) -> Result<(), ApiError> {
    // Tail-free sampling: 1 and more keeps all.
    if options.number("tfs_z")?.is_some_and(|share| share < 1.0) {
        return Err(ApiError::field("tfs_z", "this way of sampling is not there"));
    }
    if options.flag("penalize_newline")? == Some(false) {
        return Err(ApiError::field("penalize_newline", "a new line counts for repeat_penalty like any other token"));
    }
    Ok(())
}

/// Refuses images, which may be an empty list.
///
/// # Errors
/// Images.
pub fn refuse_images(of: Fields<'_>) -> Result<(), ApiError> {
    match of.list("images")? {
        Some(images) if !images.is_empty() => {
            Err(ApiError::field("images", "this model reads text only, and there is an image"))
        }
        _ => Ok(()),
    }
}
