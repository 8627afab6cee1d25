//! `format`: JSON, or what a schema says.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammar::Rule;
use serde_json::{Value, json};

/// What a text has to follow, if a request says so. `after_thought` says that the model thinks first.
///
/// # Errors
/// A format that is none, or a schema that cannot be followed.
pub fn read(fields: Fields<'_>, after_thought: bool) -> Result<Option<Rule>, ApiError> {
    let schema = match fields.get("format") {
        None => return Ok(None),
        Some(Value::String(word)) if word.is_empty() => return Ok(None),
        Some(Value::String(word)) if word == "json" => json!({ "type": "object" }),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err(ApiError::field("format", "it is neither \"json\" nor a JSON schema")),
    };
    Rule::of_schema("format", schema, after_thought).map(Some)
}
