//! `think`: whether a model thinks before it answers, or how hard.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use serde_json::Value;
use text::chat::{ChatTemplate, Conversation};

/// Words for how hard to think; they reach templates as `reasoning_effort`.
const LEVELS: [&str; 4] = ["low", "medium", "high", "max"];

/// Tells a conversation what a request says.
///
/// # Errors
/// A word that is none, and a model that cannot think and should.
pub fn apply(conversation: &mut Conversation, fields: Fields<'_>, model: &Model) -> Result<(), ApiError> {
    let think = match fields.get("think") {
        None => return Ok(()),
        Some(Value::Bool(think)) => *think,
        Some(Value::String(level)) if LEVELS.contains(&level.as_str()) => {
            conversation.variables.insert("reasoning_effort".into(), level.as_str().into());
            true
        }
        Some(_) => {
            let problem = format!("it is neither true, false nor one of {}", LEVELS.join(", "));
            return Err(ApiError::field("think", problem));
        }
    };
    if think && !model.template.as_ref().is_ok_and(ChatTemplate::can_think) {
        return Err(ApiError::invalid(format!("\"{}\" does not support thinking", model.name())));
    }
    conversation.enable_thinking = Some(think);
    Ok(())
}
