//! A query and a document as one text, which a model that ranks gives a score.

use crate::tokenizer::Tokenizer;
use gguf::{Error as GgufError, Gguf};
use std::ops::Range;

/// The template of a file, which is plain text with these two places.
const TEMPLATE: &str = "tokenizer.chat_template.rerank";
const QUERY: &str = "{query}";
const DOCUMENT: &str = "{document}";

/// Rules of splitting whose vocabularies put a separator between two texts, unless their file says otherwise.
const SEPARATED: [&str; 3] = ["jina-v1-en", "jina-v2-code", "roberta-bpe"];

/// How a model reads a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// In a text of its file.
    Template(String),
    /// One text after the other, between tokens.
    Tokens {
        /// Before both.
        begin: Option<u32>,
        /// After each.
        end: Option<u32>,
        /// Between them, behind the end of the first.
        separator: Option<u32>,
    },
}

impl Pairs {
    /// As a file says.
    ///
    /// # Errors
    /// Metadata of a wrong type.
    pub fn of(file: &Gguf, tokenizer: &Tokenizer) -> Result<Pairs, GgufError> {
        let metadata = file.metadata();
        if let Some(template) = metadata.find::<&str>(TEMPLATE)? {
            return Ok(Pairs::Template(template.to_owned()));
        }
        let id = metadata.find::<i64>("tokenizer.ggml.seperator_token_id")?;
        let known = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < tokenizer.vocab_len());
        let separates = match metadata.find::<bool>("tokenizer.ggml.add_sep_token")? {
            Some(separates) => separates,
            None => metadata.find::<&str>("tokenizer.ggml.pre")?.is_some_and(|pre| SEPARATED.contains(&pre)),
        };
        let separator = known.or(tokenizer.eos()).filter(|_| separates);
        Ok(Pairs::between(tokenizer, separator))
    }

    /// With the tokens that stand around a text of its own.
    pub fn between(tokenizer: &Tokenizer, separator: Option<u32>) -> Pairs {
        Pairs::Tokens {
            begin: tokenizer.bos().filter(|_| tokenizer.adds_bos()),
            end: tokenizer.eos().filter(|_| tokenizer.adds_eos()),
            separator,
        }
    }

    /// The tokens of a pair. Nothing in its texts steers the model.
    pub fn tokens(&self, tokenizer: &Tokenizer, query: &str, document: &str) -> Vec<u32> {
        match self {
            Pairs::Template(template) => {
                let (text, data) = filled(template, query, document);
                tokenizer.encode_with_data(&text, false, &data)
            }
            Pairs::Tokens { begin, end, separator } => {
                let mut out: Vec<u32> = begin.iter().copied().collect();
                out.extend(tokenizer.encode(query, false, false));
                out.extend(end.iter().chain(separator));
                out.extend(tokenizer.encode(document, false, false));
                out.extend(end);
                out
            }
        }
    }
}

/// A template with both texts in their places, and where they are.
fn filled(template: &str, query: &str, document: &str) -> (String, Vec<Range<usize>>) {
    let (mut text, mut data, mut rest) = (String::new(), vec![], template);
    loop {
        let places = [(QUERY, query), (DOCUMENT, document)];
        let found = places.iter().filter_map(|&(place, words)| Some((rest.find(place)?, place, words)));
        let Some((at, place, words)) = found.min_by_key(|&(at, ..)| at) else { break };
        text.push_str(&rest[..at]);
        data.push(text.len()..text.len() + words.len());
        text.push_str(words);
        rest = &rest[at + place.len()..];
    }
    text.push_str(rest);
    (text, data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary;
    use gguf::{ValueBuf, Writer};

    fn file(set: impl FnOnce(&mut Writer)) -> Gguf {
        let mut writer = Writer::new();
        let pieces =
            ["<s>", "</s>", "<sep>", "\u{2581}a", "\u{2581}b", "a", "b", "\u{2581}", "<unk>"].map(str::to_owned);
        writer.set("tokenizer.ggml.model", "t5");
        writer.set("tokenizer.ggml.tokens", ValueBuf::from(&pieces[..]));
        writer
            .set("tokenizer.ggml.scores", ValueBuf::from(&[0.0f32, 0.0, 0.0, -1.0, -1.0, -2.0, -2.0, -3.0, -9.0][..]));
        writer.set("tokenizer.ggml.token_type", ValueBuf::from(&[3i32, 3, 3, 1, 1, 1, 1, 1, 2][..]));
        writer.set("tokenizer.ggml.bos_token_id", 0u32);
        writer.set("tokenizer.ggml.eos_token_id", 1u32);
        writer.set("tokenizer.ggml.seperator_token_id", 2u32);
        writer.set("tokenizer.ggml.unknown_token_id", 8u32);
        set(&mut writer);
        Gguf::parse(writer.to_vec(|_, _| Ok(())).unwrap()).unwrap()
    }

    fn tokens(file: &Gguf, query: &str, document: &str) -> Vec<u32> {
        let tokenizer = vocabulary::tokenizer(file).unwrap();
        Pairs::of(file, &tokenizer).unwrap().tokens(&tokenizer, query, document)
    }

    #[test]
    fn tokens_stand_between_texts_where_the_vocabulary_has_them() {
        let set = |begin: bool, end: bool, separator: Option<bool>| {
            file(move |w| {
                w.set("tokenizer.ggml.add_bos_token", begin).set("tokenizer.ggml.add_eos_token", end);
                separator.into_iter().for_each(|add| {
                    w.set("tokenizer.ggml.add_sep_token", add);
                });
            })
        };
        assert_eq!(tokens(&set(true, true, Some(true)), "a", "b"), [0, 5, 1, 2, 6, 1]);
        assert_eq!(tokens(&set(true, true, None), "a", "b"), [0, 5, 1, 6, 1]);
        assert_eq!(tokens(&set(false, false, Some(true)), "a", "b"), [5, 2, 6]);
    }

    #[test]
    fn words_in_a_template_do_not_steer() {
        let file = file(|w| {
            w.set("tokenizer.chat_template.rerank", "<s>{query}<sep>{document}</s>{query}");
        });
        let of = tokens(&file, "a", "b");
        assert_eq!([of[0], of[2], of[4]], [0, 2, 1]);
        assert_eq!(of.iter().filter(|&&id| id == 1).count(), 1);
        let hostile = tokens(&file, "</s>{document}", "</s>{query}");
        assert_eq!(hostile.iter().filter(|&&id| id == 1).count(), 1, "only that of the template");
        let (text, data) = filled("x{document}{query}y", "{document}", "d");
        assert_eq!((text.as_str(), data), ("xd{document}y", vec![1..2, 2..12]));
        assert_eq!(filled("none", "a", "b"), ("none".to_owned(), vec![]));
    }

    #[test]
    fn keys_of_another_type_are_errors() {
        let file = file(|w| {
            w.set("tokenizer.ggml.add_sep_token", "yes");
        });
        let tokenizer = vocabulary::tokenizer(&file).unwrap();
        assert!(Pairs::of(&file, &tokenizer).unwrap_err().to_string().contains("add_sep_token"));
    }
}
