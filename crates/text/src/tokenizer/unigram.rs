//! SentencePiece's unigram models ("t5"): of all ways to write a text with tokens the one whose scores, which are logarithms of
//! probabilities, add up to most (arXiv 1804.10959). Characters without a token are one unknown token together.

use super::charsmap::Charsmap;
use super::data::TokenizerData;
use super::error::TokenizerError;
use super::prefixes::Prefixes;
use super::split::text::unit_len;
use super::vocab::{TokenKind, Vocab};

/// How much less than the worst token an unknown character scores.
const UNKNOWN_PENALTY: f32 = 10.0;

pub(super) struct Unigram {
    prefixes: Prefixes,
    /// By token.
    scores: Vec<f64>,
    unknown: Option<u32>,
    unknown_score: f64,
    charsmap: Charsmap,
    /// Whether a space goes before text.
    space_prefix: bool,
    /// Whether spaces that follow each other are one, and those around a text none.
    merges_spaces: bool,
}

/// How the text until some place is written best.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Where its last token begins.
    start: usize,
    /// That token; `None` for an unknown character.
    token: Option<u32>,
}

impl Unigram {
    pub(super) fn new(vocab: &Vocab, data: &TokenizerData) -> Result<Unigram, TokenizerError> {
        let scores = &data.scores;
        if scores.len() != vocab.len() {
            return Err(TokenizerError::LengthMismatch { array: "scores", len: scores.len(), tokens: vocab.len() });
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::BadScore { id: id as u32 });
        }
        let kind = |id: usize| vocab.kind(id as u32);
        let normal = scores.iter().enumerate().filter(|(id, _)| kind(*id) == Some(TokenKind::Normal));
        let worst = normal.map(|(_, &score)| score).fold(f32::MAX, f32::min);
        let score = |(id, &score): (usize, &f32)| match kind(id) {
            Some(TokenKind::UserDefined) => 0.0,
            _ => f64::from(score),
        };
        Ok(Unigram {
            prefixes: Prefixes::new(vocab),
            scores: scores.iter().enumerate().map(score).collect(),
            unknown: data.unk,
            unknown_score: f64::from(worst - UNKNOWN_PENALTY),
            charsmap: Charsmap::new(&data.charsmap)?,
            space_prefix: data.add_space_prefix.unwrap_or(false),
            merges_spaces: data.remove_extra_whitespaces.unwrap_or(false),
        })
    }

    /// Whether encoding puts a space before text, and decoding takes it away.
    pub(super) fn has_space_prefix(&self) -> bool {
        self.space_prefix || self.merges_spaces
    }

    /// Appends the tokens of `text`, which holds no special tokens.
    pub(super) fn encode(&self, text: &[u8], out: &mut Vec<u32>) {
        let text = self.normalised(text);
        let nothing = Best { score: f64::NEG_INFINITY, start: 0, token: None };
        let mut best = vec![nothing; text.len() + 1];
        best[0].score = 0.0;
        let mut start = 0;
        while start < text.len() {
            let (before, len) = (best[start].score, unit_len(&text[start..]));
            let mut offer = |len: usize, score: f64, token: Option<u32>| {
                let other = &mut best[start + len];
                if before + score > other.score {
                    *other = Best { score: before + score, start, token };
                }
            };
            let mut has_character = false;
            self.prefixes.each(&text[start..], |of_token, id| {
                has_character |= of_token == len;
                offer(of_token, self.scores[id as usize], Some(id));
            });
            if !has_character {
                offer(len, self.unknown_score, None);
            }
            start += len;
        }
        let (first, mut end, mut last) = (out.len(), text.len(), Some(0));
        while end > 0 {
            let Best { start, token, .. } = best[end];
            if token.is_some() || last.is_some() {
                out.extend(token.or(self.unknown));
            }
            (end, last) = (start, token);
        }
        out[first..].reverse();
    }

    /// Text with its replacements, and with spaces as tokens have them.
    fn normalised(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 1);
        let (mut at, mut in_word) = (0, false);
        while at < text.len() {
            let rest = &text[at..];
            let (written, len) = self.charsmap.replacement(rest).unwrap_or_else(|| {
                let len = unit_len(rest);
                let stray = len == 1 && !rest[0].is_ascii();
                (if stray { "\u{fffd}".as_bytes() } else { &rest[..len] }, len)
            });
            for &byte in written {
                if byte != b' ' {
                    if !in_word && (self.merges_spaces || self.space_prefix && out.is_empty()) {
                        out.push(b' ');
                    }
                    out.push(byte);
                } else if !self.merges_spaces {
                    out.push(b' ');
                }
                in_word = byte != b' ';
            }
            at += len;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::tokenizer::{Tokenizer, TokenizerData};

    const TOKENS: [(&str, f32, i32); 11] = [
        ("<s>", 0.0, 3),
        ("<pad>", 0.0, 3),
        ("</s>", 0.0, 3),
        ("<unk>", 0.0, 2),
        ("▁", -2.0, 1),
        ("▁a", -3.0, 1),
        ("a", -2.5, 1),
        ("b", -2.5, 1),
        ("ab", -4.0, 1),
        ("▁ab", -8.0, 1),
        ("ba", -5.5, 1),
    ];

    fn tokenizer(merges_spaces: bool) -> Tokenizer {
        Tokenizer::new(TokenizerData {
            model: "t5".into(),
            tokens: TOKENS.iter().map(|(text, ..)| text).collect(),
            scores: TOKENS.iter().map(|(_, score, _)| *score).collect(),
            token_type: TOKENS.iter().map(|(.., kind)| *kind).collect(),
            bos: Some(0),
            eos: Some(2),
            unk: Some(3),
            add_bos: Some(true),
            add_space_prefix: Some(true),
            remove_extra_whitespaces: Some(merges_spaces),
            ..TokenizerData::default()
        })
        .unwrap()
    }

    fn encode(text: &str) -> Vec<u32> {
        tokenizer(true).encode(text, false, false)
    }

    #[test]
    fn the_best_sum_is_taken() {
        // -3 -2.5 is more than -8, and than -2 -4.
        assert_eq!(encode("ab"), [5, 7]);
        // -3 -2.5 -2.5 is less than -3 -5.5 and -2 -4 -2.5 alike only by a half.
        assert_eq!(encode("aba"), [5, 7, 6]);
        assert_eq!(encode("bab"), [4, 7, 8]);
    }

    #[test]
    fn spaces_are_one_and_go_before_words() {
        assert_eq!(encode("  a   a "), [5, 5]);
        assert_eq!(tokenizer(false).encode("a  a", false, false), [5, 4, 5]);
        assert_eq!(encode("   "), [0; 0]);
    }

    #[test]
    fn unknown_characters_are_one_token_together() {
        assert_eq!(encode("xyza"), [4, 3, 6]);
        assert_eq!(tokenizer(true).encode(b"\xffa", false, false), [4, 3, 6]);
    }

    #[test]
    fn texts_stand_between_marks() {
        let tokenizer = tokenizer(true);
        let ids = tokenizer.encode("a a", true, false);
        assert_eq!(ids, [0, 5, 5, 2]);
        assert_eq!(tokenizer.decode(&ids, false), b"a a");
    }
}
