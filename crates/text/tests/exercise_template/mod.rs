//! Any bytes as a chat template and the messages for it: an error or a text within bounds, and never long.

use serde_json::Value;
use std::time::SystemTime;
use text::chat::{ChatTemplate, Conversation, Limits};

/// What stands between the template and the request, which has `messages`, `tools` and further variables.
pub const BETWEEN: u8 = 0;

/// Renders, if that is possible; the length of the text.
pub fn exercise(bytes: &[u8]) -> Option<usize> {
    let (source, request) = match bytes.iter().position(|byte| *byte == BETWEEN) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}"[..]),
    };
    let limits = Limits { steps: 20_000, memory: 1 << 20, output: 1 << 16 };
    let template = ChatTemplate::parse(std::str::from_utf8(source).ok()?, "<s>", "</s>").ok()?.with_limits(limits);
    let request: Value = serde_json::from_slice(request).ok()?;
    let mut conversation = Conversation::new(request["messages"].as_array()?.clone());
    conversation.tools = request["tools"].as_array().cloned().unwrap_or_default();
    conversation.variables = request["variables"].as_object().cloned().unwrap_or_default();
    conversation.enable_thinking = request["enable_thinking"].as_bool();
    conversation.now = SystemTime::UNIX_EPOCH;
    let prompt = template.render(&conversation).ok()?;
    assert!(prompt.text.len() <= limits.output, "{} bytes", prompt.text.len());
    Some(prompt.text.len())
}
