//! Tokens that files call user-defined and that steer a model all the same: tags of reasoning and of calls.
//!
//! User-defined tokens are matched in any text; most are text, such as runs of spaces or the tags of HTML. One is a tag
//! of the model's if it is known, if it is spelled like a marker of turns, or if it looks like a tag and the chat template
//! writes it.

use std::collections::BTreeSet;

use super::specials::Index;
use super::vocab::{TokenKind, Vocab};

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

/// The user-defined tokens that are tags with this template.
pub(super) fn find(vocab: &Vocab, template: &str) -> BTreeSet<u32> {
    let user_defined = vocab.specials().filter(|(_, kind, _)| *kind == TokenKind::UserDefined);
    let mut tags: BTreeSet<u32> = user_defined.filter(|(_, _, text)| is_one(text)).map(|(id, _, _)| id).collect();
    let candidates = Index::new(vocab, false, |kind, text| kind == TokenKind::UserDefined && looks_like_one(text));
    candidates.each(template.as_bytes(), |id| {
        tags.insert(id);
    });
    tags
}

/// Whether a text is a tag with any template.
fn is_one(text: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::vocab::Spelling;

    #[test]
    fn tags_steer_and_other_user_defined_tokens_are_text() {
        let tokens = [
            ("<think>", true),
            ("</tool_response>", true),
            ("<|channel>", true),
            ("<channel|>", true),
            ("<seed:think>", true),
            ("]~b]", true),
            // The template writes these, too, but they are no tags, or not all of it.
            ("  ", false),
            ("ö", false),
            ("ed", false),
            ("<h1>", false),
            ("<seed:thin>", false),
            ("|>", false),
        ];
        let texts = tokens.iter().map(|(text, _)| text).collect();
        let vocab = Vocab::new(texts, &[4; 12], Spelling::ByteAlphabet).unwrap();
        let found = find(&vocab, "]~b]  <seed:think> öed {{ '<h' ~ 1 ~ '>' }}");
        for (id, (text, steers)) in tokens.iter().enumerate() {
            assert_eq!(found.contains(&(id as u32)), *steers, "{text}");
        }
    }
}
