//! The pieces of an output that was told apart.

/// The next piece of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// What the model thinks.
    Reasoning(String),
    /// What the model says.
    Content(String),
    /// A call of this tool begins.
    Call(String),
    /// Arguments of the call that began last: all pieces together are a JSON object as text, unless the output was cut.
    Arguments(String),
}

/// A complete call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// A JSON object as text.
    pub arguments: String,
}

/// Adds a piece, to the last one if that is possible.
pub(super) fn add(out: &mut Vec<Delta>, delta: Delta) {
    match (&delta, out.last_mut()) {
        (Delta::Content(text) | Delta::Reasoning(text) | Delta::Arguments(text), _) if text.is_empty() => {}
        (Delta::Content(text), Some(Delta::Content(last))) => last.push_str(text),
        (Delta::Arguments(text), Some(Delta::Arguments(last))) => last.push_str(text),
        _ => out.push(delta),
    }
}
