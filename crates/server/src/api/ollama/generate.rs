//! `/api/generate`: an answer to one prompt, or with `raw` what follows a text.

use super::chat::reply;
use super::line::Head;
use super::reply::{Form, Loaded, Reply};
use super::{format, keep_alive, options, think};
use crate::api::chat::{parses_special, render_conversation};
use crate::api::prompt;
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::stream::Prepared;
use crate::tools::Tools;
use serde_json::json;
use std::sync::Arc;
use text::chat::{Conversation, OutputParser};

/// Prepares an answer.
///
/// # Errors
/// A request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let head = Head::new(fields, model)?;
    let mut settings = options::read(fields, model)?;
    settings.stay = keep_alive::stay(fields)?;
    refuse(fields)?;
    let text = fields.text("prompt")?.unwrap_or_default();
    if let Some(tokens) = prompt::before_suffix(fields, model, settings.limit)? {
        settings.rule = format::read(fields, false)?;
        return Ok(plain(head, settings, tokens, model));
    }
    if text.is_empty() {
        let loaded = Loaded { head, form: Form::Generate, unloads: keep_alive::unloads(settings.stay) };
        return Ok(Prepared { prompts: vec![], settings, protocol: Box::new(loaded) });
    }
    if fields.flag("raw")?.unwrap_or(false) {
        if ["system", "context"].iter().any(|name| fields.get(name).is_some_and(|value| *value != json!(""))) {
            return Err(ApiError::field("raw", "a text as it is has neither a system prompt nor a context"));
        }
        settings.rule = format::read(fields, false)?;
        let tokens = model.tokenizer.encode(text, true, true);
        return Ok(plain(head, settings, tokens, model));
    }
    let system = fields.text("system")?.filter(|system| !system.is_empty());
    let system = system.map(|system| json!({ "role": "system", "content": system }));
    let messages = system.into_iter().chain([json!({ "role": "user", "content": text })]).collect();
    let mut conversation = Conversation::new(messages);
    think::apply(&mut conversation, fields, model)?;
    conversation.parse_special = parses_special(fields, model)?;
    let mut rendered = render_conversation(&conversation, None, Tools::default(), false, model)?;
    settings.rule = format::read(fields, rendered.prompt.opens_reasoning)?;
    rendered.tokens = after_context(fields, rendered.tokens, model)?;
    let mut reply = reply(head, Form::Generate, &settings, &rendered, app, model);
    reply.context = Some(rendered.tokens.clone());
    Ok(Prepared { prompts: vec![rendered.tokens], settings, protocol: Box::new(reply) })
}

/// An answer that is what follows these tokens, without a template.
fn plain(head: Head, settings: Settings, tokens: Vec<u32>, model: &Arc<Model>) -> Prepared {
    let parser = OutputParser::new(false, &[]).without_reasoning();
    let mut reply = Reply::new(head, Form::Generate, settings.stream, parser);
    reply.scores_of = settings.sampling.logprobs.map(|_| model.clone());
    Prepared { prompts: vec![tokens], settings, protocol: Box::new(reply) }
}

/// Refuses what would give another answer than was asked for.
fn refuse(fields: Fields<'_>) -> Result<(), ApiError> {
    options::refuse_images(fields)?;
    let is_there = |name: &str| fields.text(name).map(|text| text.is_some_and(|text| !text.is_empty()));
    if is_there("template")? {
        return Err(ApiError::field(
            "template",
            "templates of Go are not read here; the model's own is used, or raw text",
        ));
    }
    Ok(())
}

/// The tokens of an earlier answer's `context`, and then these, which begin no second text.
fn after_context(fields: Fields<'_>, tokens: Vec<u32>, model: &Model) -> Result<Vec<u32>, ApiError> {
    let given = fields.list("context")?.unwrap_or_default();
    let mut all = given.iter().map(|id| prompt::token("context", id, model)).collect::<Result<Vec<_>, _>>()?;
    let begins_again = !all.is_empty() && tokens.first().is_some_and(|&first| model.tokenizer.bos() == Some(first));
    all.extend(&tokens[usize::from(begins_again)..]);
    Ok(all)
}
