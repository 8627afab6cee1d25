//! Tokens that files call user-defined and that steer a model all the same: tags of reasoning and of calls.
//!
//! User-defined tokens are matched in any text; most are text, such as runs of spaces or the tags of HTML. One is a tag
//! of the model's if it is known, if it is spelled like a marker of turns, or if it looks like a tag and the chat template
//! writes it.

/// Around reasoning.
pub(crate) const THINK: (&str, &str) = ("<think>", "</think>");
/// Around a call of a tool.
pub(crate) const CALL: (&str, &str) = ("<tool_call>", "</tool_call>");
/// Around the name of an argument.
pub(crate) const KEY: (&str, &str) = ("<arg_key>", "</arg_key>");
/// Around the value of an argument.
pub(crate) const VALUE: (&str, &str) = ("<arg_value>", "</arg_value>");

/// Around the result of a call.
const RESULT: (&str, &str) = ("<tool_response>", "</tool_response>");

const KNOWN: [(&str, &str); 5] = [THINK, CALL, KEY, VALUE, RESULT];

/// What markers of turns begin or end with; nobody writes these by accident.
const MARKERS: [(&str, &str); 2] = [("<|", "|>"), ("<｜", "｜>")];

/// Longest tag, in bytes: bounds the search in a template. Real ones stay under 40.
const MAX_TAG_BYTES: usize = 64;

/// Whether a text is a tag with any template.
pub(super) fn is_one(text: &[u8]) -> bool {
    let is_known = |(open, close): &(&str, &str)| [open.as_bytes(), close.as_bytes()].contains(&text);
    let is_marker =
        |(open, close): &(&str, &str)| text.starts_with(open.as_bytes()) || text.ends_with(close.as_bytes());
    KNOWN.iter().any(is_known) || looks_like_one(text) && MARKERS.iter().any(is_marker)
}

/// Whether a text begins and ends with punctuation, has a letter and no white space.
pub(super) fn looks_like_one(text: &[u8]) -> bool {
    let is_mark = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_punctuation);
    text.len() <= MAX_TAG_BYTES
        && is_mark(text.first())
        && is_mark(text.last())
        && text.iter().any(u8::is_ascii_alphabetic)
        && !text.iter().any(u8::is_ascii_whitespace)
}
