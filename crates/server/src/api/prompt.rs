//! Prompts as text, as tokens, or as both.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use serde_json::Value;
use text::fill::Gap;

/// Prompts of a request at most.
const MOST_PROMPTS: usize = 128;

/// The token sequences of a field such as `prompt`: a string, a list of tokens (and strings between them), or a list of
/// such.
///
/// # Errors
/// Anything else.
pub fn prompts(field: &str, value: Option<&Value>, model: &Model) -> Result<Vec<Vec<u32>>, ApiError> {
    let wrong = |problem: &str| ApiError::field(field, problem);
    let all = match value {
        None | Some(Value::Null) => return Err(wrong("it is missing")),
        Some(Value::Array(list)) if list.is_empty() => return Err(wrong("the list is empty")),
        // Tokens alone are one prompt, strings alone are one prompt each.
        Some(Value::Array(list)) if !list.iter().any(Value::is_number) => list.iter().collect(),
        Some(one) => vec![one],
    };
    if all.len() > MOST_PROMPTS {
        return Err(wrong(&format!("more than {MOST_PROMPTS} prompts")));
    }
    all.into_iter().map(|prompt| tokens(field, prompt, model)).collect()
}

/// The prompt for a gap in a text, with room for as many tokens as are asked for. What is near the gap is never cut.
///
/// # Errors
/// Why the model cannot fill in text.
pub fn of_gap(gap: &Gap<'_>, model: &Model, limit: Option<usize>) -> Result<Vec<u32>, String> {
    let fill = model.fill.as_ref().map_err(|why| format!("this model cannot fill in text: {why}"))?;
    let context = model.worker.limits().context;
    Ok(fill.prompt(&model.tokenizer, gap, context - limit.unwrap_or(context / 4).min(context / 2)))
}

/// The prompt for the gap between `prompt` and a `suffix`, if there is one.
///
/// # Errors
/// A model that cannot fill in text, and prompts that are no text.
pub fn before_suffix(fields: Fields<'_>, model: &Model, limit: Option<usize>) -> Result<Option<Vec<u32>>, ApiError> {
    let Some(after) = fields.text("suffix")?.filter(|suffix| !suffix.is_empty()) else { return Ok(None) };
    let before = match fields.get("prompt") {
        None => "",
        Some(Value::String(text)) => text,
        Some(_) => return Err(ApiError::field("suffix", "it goes with a prompt that is one text")),
    };
    let gap = Gap { before, after, ..Gap::default() };
    of_gap(&gap, model, limit).map(Some).map_err(|why| ApiError::field("suffix", why))
}

/// The id of a token.
///
/// # Errors
/// Anything that is none of the model's.
pub fn token(field: &str, value: &Value, model: &Model) -> Result<u32, ApiError> {
    let vocab = model.worker.limits().vocab;
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < vocab);
    id.ok_or_else(|| ApiError::field(field, format!("{value} is no token (there are {vocab})")))
}

fn tokens(field: &str, prompt: &Value, model: &Model) -> Result<Vec<u32>, ApiError> {
    let wrong = |problem: String| ApiError::field(field, problem);
    match prompt {
        Value::String(text) => Ok(model.tokenizer.encode(text, true, true)),
        Value::Array(parts) => {
            let mut out = vec![];
            for part in parts {
                match part {
                    Value::String(text) => out.extend(model.tokenizer.encode(text, out.is_empty(), true)),
                    part => out.push(token(field, part, model)?),
                }
            }
            Ok(out)
        }
        // As llama-server has it: text, or a list of parts that are text.
        Value::Object(fields) if fields.contains_key("multimodal_data") => {
            Err(wrong("this model reads text only, and there is multimodal_data".into()))
        }
        Value::Object(fields) => {
            let parts = fields.get("content").and_then(Value::as_array).filter(|parts| !parts.is_empty());
            let part = |part: &Value| part["text"].as_str().filter(|_| part["type"] == "text").map(str::to_owned);
            let text = match fields.get("prompt_string").and_then(Value::as_str) {
                Some(text) => Some(text.to_owned()),
                None => parts.and_then(|parts| parts.iter().map(part).collect::<Option<String>>()),
            };
            let text = text.ok_or_else(|| wrong("it is an object without prompt_string or content of text".into()))?;
            Ok(model.tokenizer.encode(&text, true, true))
        }
        _ => Err(wrong("it is neither a string nor a list of tokens".into())),
    }
}
