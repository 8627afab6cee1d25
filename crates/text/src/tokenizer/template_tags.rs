//! Which user-defined tokens of a vocabulary are tags of the model's, with a chat template.

use std::collections::BTreeSet;

use super::specials::Index;
use super::tags;
use super::vocab::{TokenKind, Vocab};

/// The user-defined tokens that are tags with this template.
pub(super) fn find(vocab: &Vocab, template: &str) -> BTreeSet<u32> {
    let user_defined = vocab.specials().filter(|(_, kind, _)| *kind == TokenKind::UserDefined);
    let mut found: BTreeSet<u32> =
        user_defined.filter(|(_, _, text)| tags::is_one(text)).map(|(id, _, _)| id).collect();
    let candidates =
        Index::new(vocab, false, |kind, text| kind == TokenKind::UserDefined && tags::looks_like_one(text));
    candidates.each(template.as_bytes(), |id| {
        found.insert(id);
    });
    found
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
