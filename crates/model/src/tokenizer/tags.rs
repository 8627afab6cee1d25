//! Tokens that files call user-defined and that steer a model all the same: tags of reasoning and of calls.
//!
//! User-defined tokens are matched in any text; most are text, such as runs of spaces or the tags of HTML. One is a tag
//! if the parser of outputs knows it, or if it looks like one and the chat template writes it.

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

const KNOWN: [(&str, &str); 4] = [THINK, CALL, KEY, VALUE];

/// Longest tag, in bytes: bounds the search in a template. Real ones stay under 40.
const MAX_TAG_BYTES: usize = 64;

/// The user-defined tokens that are tags with this template.
pub(super) fn find(vocab: &Vocab, template: &str) -> BTreeSet<u32> {
    let known = KNOWN.iter().flat_map(|(open, close)| [open, close]);
    let is_user_defined = |id: &u32| vocab.kind(*id) == Some(TokenKind::UserDefined);
    let mut tags: BTreeSet<u32> = known.filter_map(|tag| vocab.find(tag.as_bytes())).filter(is_user_defined).collect();
    let candidates = Index::new(vocab, false, |kind, text| kind == TokenKind::UserDefined && looks_like_one(text));
    candidates.each(template.as_bytes(), |id| {
        tags.insert(id);
    });
    tags
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
