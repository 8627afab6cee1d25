//! WordPiece ("bert"): words between spaces, of which each punctuation mark and each CJK ideograph is one, and the longest token
//! that the rest of a word begins with. A word that is not written so is one unknown token.
//!
//! Files spell what begins a word with a space (`▁`), and all other pieces without.

use super::prefixes::Prefixes;
use super::vocab::Vocab;
use std::ops::RangeInclusive;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

/// Characters of a word at most that is looked up.
const LONGEST: usize = 100;

/// Blocks of ideographs of Chinese, Japanese and Korean, as Hugging Face's tokenizers list them.
const IDEOGRAPHS: [RangeInclusive<char>; 8] = [
    '\u{4E00}'..='\u{9FFF}',
    '\u{3400}'..='\u{4DBF}',
    '\u{20000}'..='\u{2A6DF}',
    '\u{2A700}'..='\u{2B73F}',
    '\u{2B740}'..='\u{2B81F}',
    '\u{2B920}'..='\u{2CEAF}',
    '\u{F900}'..='\u{FAFF}',
    '\u{2F800}'..='\u{2FA1F}',
];

pub(super) struct WordPiece {
    prefixes: Prefixes,
    unknown: Option<u32>,
    lowercase: bool,
    strips_accents: bool,
}

/// What a character is to the splitting of text.
enum Kind {
    /// Between words.
    Space,
    /// No part of the text.
    Dropped,
    /// A word by itself.
    Alone,
    /// In a word.
    Letter,
}

impl Kind {
    fn of(ch: char) -> Kind {
        use GeneralCategory::*;
        if matches!(ch, '\t' | '\n' | '\r') {
            return Kind::Space;
        }
        if ch.is_ascii_punctuation() || IDEOGRAPHS.iter().any(|block| block.contains(&ch)) {
            return Kind::Alone;
        }
        match get_general_category(ch) {
            Control | Format | PrivateUse | Surrogate | Unassigned => Kind::Dropped,
            ConnectorPunctuation | DashPunctuation | OpenPunctuation | ClosePunctuation | InitialPunctuation
            | FinalPunctuation | OtherPunctuation => Kind::Alone,
            _ if ch.is_whitespace() => Kind::Space,
            // In place of bytes that are no text.
            _ if ch == char::REPLACEMENT_CHARACTER => Kind::Dropped,
            _ => Kind::Letter,
        }
    }
}

impl WordPiece {
    pub(super) fn new(vocab: &Vocab, unknown: Option<u32>, lowercase: bool, strips_accents: bool) -> WordPiece {
        WordPiece { prefixes: Prefixes::new(vocab), unknown, lowercase, strips_accents }
    }

    /// Appends the tokens of `text`, which holds no special tokens.
    pub(super) fn encode(&self, text: &[u8], out: &mut Vec<u32>) {
        let text = String::from_utf8_lossy(text);
        let mut word = vec![];
        let mut take = |ch: char| match Kind::of(ch) {
            Kind::Dropped => {}
            Kind::Space => self.end(&mut word, out),
            kind => {
                if matches!(kind, Kind::Alone) {
                    self.end(&mut word, out);
                }
                if word.is_empty() {
                    word.push(b' ');
                }
                let mut push = |ch: char| word.extend_from_slice(ch.encode_utf8(&mut [0; 4]).as_bytes());
                if self.lowercase {
                    ch.to_lowercase().for_each(&mut push)
                } else {
                    push(ch)
                }
                if matches!(kind, Kind::Alone) {
                    self.end(&mut word, out);
                }
            }
        };
        match self.strips_accents {
            true => text.nfd().filter(|&ch| get_general_category(ch) != GeneralCategory::NonspacingMark).for_each(take),
            false => text.chars().for_each(&mut take),
        }
        self.end(&mut word, out);
    }

    /// Appends the tokens of a word, with a space before it, and empties it.
    fn end(&self, word: &mut Vec<u8>, out: &mut Vec<u32>) {
        let (mut rest, first) = (&word[..], out.len());
        // What begins a word is no character of it.
        let long = String::from_utf8_lossy(word).chars().count() > LONGEST + 1;
        while !rest.is_empty() {
            let mut longest = None;
            if !long {
                self.prefixes.each(rest, |len, id| longest = Some((len, id)));
            }
            let Some((len, id)) = longest else {
                out.truncate(first);
                out.extend(self.unknown);
                break;
            };
            out.push(id);
            rest = &rest[len..];
        }
        word.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::tokenizer::{Tokenizer, TokenizerData};

    /// Pieces as files spell them.
    const TOKENS: [&str; 25] = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "aff", "able", "▁naive", "▁,", "▁!", "▁中", "▁国", "▁cafe", "s",
        "▁a", "ab", "abc", "▁ᄒ", "ᅡ", "ᆫ", "▁$", "▁é", "▁E", "▁É", "▁²",
    ];

    fn tokenizer(lowercase: Option<bool>) -> Tokenizer {
        let token_type = (0..TOKENS.len()).map(|id| if id < 4 { 3 } else { 1 }).collect();
        Tokenizer::new(TokenizerData {
            model: "bert".into(),
            tokens: TOKENS.iter().collect(),
            token_type,
            unk: Some(1),
            lowercase,
            ..TokenizerData::default()
        })
        .unwrap()
    }

    fn encode(text: &str) -> Vec<u32> {
        tokenizer(None).encode(text, false, false)
    }

    // Expected are the ids of Hugging Face's BertNormalizer, BertPreTokenizer and WordPiece with the same pieces.
    #[test]
    fn the_longest_pieces_are_taken() {
        assert_eq!(encode("Unaffable"), [4, 5, 6]);
        assert_eq!(encode("aabc"), [14, 16]);
        assert_eq!(encode("aabab"), [14, 15, 15]);
        assert_eq!(encode("unaffablex a"), [1, 14], "a word that has no pieces is unknown as a whole");
        assert_eq!(encode("abc"), [1], "a piece of the middle begins no word");
    }

    #[test]
    fn words_are_cleaned_and_split() {
        assert_eq!(encode("  Naïve,\tcafés!\n"), [7, 8, 12, 13, 9]);
        assert_eq!(encode("a中国a"), [14, 10, 11, 14]);
        assert_eq!(encode("a\u{200d}\u{0}\u{b}s\u{3000}$a"), [14, 13, 20, 14]);
        assert_eq!(encode("한"), [17, 18, 19], "syllables come apart");
        assert_eq!(encode("²"), [24]);
        assert_eq!(encode(""), [0; 0]);
    }

    #[test]
    fn files_say_whether_case_and_accents_matter() {
        assert_eq!(tokenizer(Some(false)).encode("É E", false, false), [23, 22]);
        assert_eq!(tokenizer(Some(true)).encode("É A", false, false), [1, 14]);
    }

    #[test]
    fn texts_stand_between_marks_and_print_as_words() {
        let tokenizer = tokenizer(None);
        let ids = tokenizer.encode("naive [SEP] !", true, true);
        assert_eq!(ids, [2, 7, 3, 9, 3]);
        assert_eq!(tokenizer.decode(&ids, false), b"naive !");
    }
}
