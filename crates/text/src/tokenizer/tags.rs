//! Tokens that files call user-defined and that steer a model all the same: tags of reasoning and of calls.
//!
//! User-defined tokens are matched in any text; most are text, such as runs of spaces or the tags of HTML. One is a tag
//! of the model's if it is known, if it is spelled like a marker of turns, or if it looks like a tag and the chat template
//! writes it.

/// Around reasoning.
pub(crate) const THINK: (&str, &str) = ("<think>", "</think>");
/// Around reasoning, in all families. No opening tag is the beginning of another one.
pub(crate) const THOUGHTS: [(&str, &str); 7] = [
    THINK,
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    // MiniCPM 3 and 4.
    ("<|thought_start|>", "<|thought_end|>"),
    // Gemma 4.
    ("<|channel>thought", "<channel|>"),
];

/// Tokens by which an output is told apart, and which are printed for that even if a file calls them control tokens.
#[rustfmt::skip]
pub(crate) const SPOKEN: &[&str] = &[
    "<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "<|START_THINKING|>",
    "<|END_THINKING|>", "<|inner_prefix|>", "<|inner_suffix|>", "<|thought_start|>", "<|thought_end|>", "<|channel>",
    "<channel|>", "<|python_start|>", "<|python_end|>",
    "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<seed:tool_call>",
    "</seed:tool_call>", "<minimax:tool_call>", "</minimax:tool_call>", "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
    "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "<|tool_call_start|>", "<|tool_call|>", "<TOOLCALL>", "</TOOLCALL>",
    "<|START_ACTION|>", "<|END_ACTION|>", "<tool_calls>", "</tool_calls>", "<|tools_prefix|>", "<|tools_suffix|>",
    "<|tool_call>", "<tool_call|>", "<|\"|>", "<start_function_call>", "<end_function_call>", "<escape>",
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "｜DSML｜",
];

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
