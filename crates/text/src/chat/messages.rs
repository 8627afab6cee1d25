//! Messages as templates expect them.
//!
//! The messages of an API and those of the templates differ in four ways: content can be null,
//! content can come in parts, the arguments of tool calls are JSON text in one and an object in
//! the other, and the system speaks as `developer` too. What a template wants is found out by trying.

use serde_json::{Value as Json, json};

use super::ChatError;

/// The forms that a template wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Forms {
    /// The arguments of a tool call as JSON text.
    pub(super) text_arguments: bool,
    /// Content always as a list of parts.
    pub(super) content_parts: bool,
    /// The role `developer` as it is; it is `system` to most.
    pub(super) developer: bool,
}

impl Forms {
    /// Finds out what `render` wants.
    pub(super) fn of(render: impl Fn(&[Json]) -> Option<String>) -> Forms {
        let mut forms = Forms::default();
        let shows = |messages: &[Json], word: &str| render(messages).filter(|rendered| rendered.contains(word));
        let plain = json!({ "role": "user", "content": "needle" });
        let parted = json!({ "role": "user", "content": [{ "type": "text", "text": "needle" }] });
        if shows(std::slice::from_ref(&plain), "needle").is_none()
            && shows(std::slice::from_ref(&parted), "needle").is_some()
        {
            forms.content_parts = true;
        }
        let question = if forms.content_parts { parted } else { plain };
        let call = |arguments: Json| {
            [
                question.clone(),
                json!({
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{
                        "id": "call00001",
                        "type": "function",
                        "function": { "name": "probe", "arguments": arguments },
                    }],
                }),
                json!({ "role": "tool", "tool_call_id": "call00001", "name": "probe", "content": "x" }),
            ]
        };
        let object = shows(&call(json!({ "pin_name": "pin" })), "pin_name");
        // Python's notation gives away an object that was printed as if it were text.
        if object.is_none_or(|rendered| rendered.contains("{'pin_name'")) {
            let text = call(json!("{\"pin_name\": \"pin\"}"));
            forms.text_arguments = shows(&text, "pin_name").is_some();
        }
        forms
    }

    /// The messages in these forms.
    pub(super) fn apply(&self, messages: &[Json]) -> Result<Vec<Json>, ChatError> {
        let messages = messages.iter().enumerate();
        messages.map(|(index, message)| self.apply_to(index, message)).collect()
    }

    fn apply_to(&self, index: usize, message: &Json) -> Result<Json, ChatError> {
        let bad = |reason: &'static str| ChatError::BadMessage { index, reason };
        let mut message = message.clone();
        let Some(fields) = message.as_object_mut() else {
            return Err(bad("it is not an object"));
        };
        if !fields.get("role").is_some_and(Json::is_string) {
            return Err(bad("it has no role"));
        }
        if !self.developer && fields["role"] == "developer" {
            fields.insert("role".into(), "system".into());
        }
        let content = match fields.get("content") {
            None | Some(Json::Null) => json!(""),
            Some(Json::Array(parts)) => joined(parts).unwrap_or_else(|| json!(parts)),
            Some(content) => content.clone(),
        };
        let content = match content {
            Json::String(text) if self.content_parts => json!([{ "type": "text", "text": text }]),
            content => content,
        };
        fields.insert("content".into(), content);
        match fields.get_mut("tool_calls") {
            Some(Json::Array(calls)) => {
                for call in calls {
                    let function = match call.get_mut("function") {
                        Some(function) => function,
                        None => call,
                    };
                    if let Some(arguments) = function.get_mut("arguments") {
                        self.arguments(arguments);
                    }
                }
            }
            Some(Json::Null) => drop(fields.remove("tool_calls")),
            Some(_) => return Err(bad("its tool_calls are not a list")),
            None => {}
        }
        Ok(message)
    }

    fn arguments(&self, arguments: &mut Json) {
        match arguments {
            Json::String(text) if !self.text_arguments => {
                // What is no object was no call; the template may still print it.
                match serde_json::from_str::<Json>(text) {
                    Ok(object @ Json::Object(_)) => *arguments = object,
                    _ if text.trim().is_empty() => *arguments = json!({}),
                    _ => {}
                }
            }
            Json::Object(_) if self.text_arguments => {
                *arguments = Json::String(arguments.to_string());
            }
            _ => {}
        }
    }
}

/// The text of content that is nothing but text.
fn joined(parts: &[Json]) -> Option<Json> {
    let mut text = String::new();
    for part in parts {
        match part {
            Json::String(part) => text.push_str(part),
            part if part["type"] == "text" => text.push_str(part["text"].as_str()?),
            _ => return None,
        }
    }
    Some(Json::String(text))
}
