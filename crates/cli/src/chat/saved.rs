//! Conversations in files: the messages of an OpenAI request, `{"messages": [...]}`.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::Path;

/// Writes messages. A file that is something else is left alone.
pub fn save(path: &Path, messages: &[Value]) -> anyhow::Result<()> {
    if path.exists() && load(path).is_err() {
        bail!("{} is there and is no conversation; choose another name", path.display());
    }
    let text = serde_json::to_string_pretty(&json!({ "messages": messages }))?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// Reads messages: an object that has them, or the bare list.
pub fn load(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: Value = serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    let list = value.get("messages").unwrap_or(&value).as_array();
    let list = list.with_context(|| format!("{} has no list of messages", path.display()))?;
    for (i, message) in list.iter().enumerate() {
        let role = message["role"].as_str();
        if !role.is_some_and(|role| ["system", "user", "assistant", "tool"].contains(&role)) {
            bail!("message {} of {} has no role of system, user, assistant or tool", i + 1, path.display());
        }
        if !message["content"].is_string() && !message["content"].is_null() {
            bail!("message {} of {} has no text as its content", i + 1, path.display());
        }
    }
    Ok(list.clone())
}
