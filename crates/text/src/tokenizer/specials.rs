//! Finding special tokens in text.
//!
//! The leftmost match wins, and of the tokens that match there the longest. A table of first bytes
//! passes over ordinary text; from a possible start the tokens, sorted by their text, are narrowed
//! byte by byte, so the cost does not grow with how many special tokens there are.
//!
//! In data, which is text that nobody may steer the model with, only user-defined tokens are found that are text.

use std::ops::Range;

use super::vocab::{TokenKind, Vocab};

/// A stretch of text, or a special token found in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t [u8]),
    Special(u32),
}

pub(super) struct Special {
    text: Box<[u8]>,
    id: u32,
    /// Takes the whitespace to its right with it.
    absorbs_right: bool,
}

/// Special tokens sorted by text.
pub(super) struct Index {
    tokens: Vec<Special>,
    starts: [bool; 256],
}

pub(super) struct Specials {
    index: Index,
}

/// Ranges of bytes in which no token is found that steers the model, in order.
struct Data<'r> {
    ranges: &'r [Range<usize>],
}

impl Data<'_> {
    /// Whether any of `part` is data; no later part begins before this one.
    fn touches(&mut self, part: Range<usize>) -> bool {
        while let Some((_, later)) = self.ranges.split_first().filter(|(first, _)| first.end <= part.start) {
            self.ranges = later;
        }
        self.ranges.iter().find(|range| !range.is_empty()).is_some_and(|range| range.start < part.end)
    }
}

impl Specials {
    /// `name` is the model's name: Phi-3 files do not say that their turn markers absorb the
    /// whitespace after them.
    pub(super) fn new(vocab: &Vocab, name: Option<&str>) -> Specials {
        let name = name.unwrap_or_default().to_lowercase();
        let absorbing = name.contains("phi-3") || name.contains("phi3");
        Specials { index: Index::new(vocab, absorbing, |_, _| true) }
    }

    /// Cuts `text` at its special tokens. Those that steer the model count only where all of their text is outside of
    /// `data`, ranges in order.
    pub(super) fn split<'t>(
        &self,
        vocab: &Vocab,
        text: &'t [u8],
        data: &[Range<usize>],
        mut sink: impl FnMut(Fragment<'t>),
    ) {
        let mut data = Data { ranges: data };
        let mut from = 0;
        let mut counts =
            |special: &Special, at: usize| !vocab.steers(special.id) || !data.touches(at..at + special.text.len());
        while let Some((start, special)) = self.index.find(text, from, &mut counts) {
            if from < start {
                sink(Fragment::Text(&text[from..start]));
            }
            sink(Fragment::Special(special.id));
            from = start + special.text.len();
            if special.absorbs_right {
                let rest = text[from..].iter();
                from += rest.take_while(|b| b.is_ascii_whitespace()).count();
            }
        }
        if from < text.len() {
            sink(Fragment::Text(&text[from..]));
        }
    }
}

impl Index {
    pub(super) fn new(vocab: &Vocab, absorbing: bool, wanted: impl Fn(TokenKind, &[u8]) -> bool) -> Index {
        const NEVER_ABSORB: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        let wanted = vocab.specials().filter(|&(_, kind, text)| wanted(kind, text));
        let mut tokens: Vec<Special> = wanted
            .map(|(id, _, text)| Special {
                text: text.into(),
                id,
                absorbs_right: absorbing && !NEVER_ABSORB.contains(&text),
            })
            .collect();
        tokens.sort_by(|a, b| (&a.text, a.id).cmp(&(&b.text, b.id)));
        tokens.dedup_by(|later, earlier| later.text == earlier.text);
        let mut starts = [false; 256];
        for special in &tokens {
            starts[usize::from(special.text[0])] = true;
        }
        Index { tokens, starts }
    }

    /// The first match at or after `from` that counts there, and where it starts.
    fn find(
        &self,
        text: &[u8],
        from: usize,
        counts: &mut impl FnMut(&Special, usize) -> bool,
    ) -> Option<(usize, &Special)> {
        let mut at = from;
        loop {
            at += self.start(&text[at..])?;
            let mut longest = None;
            self.matches(&text[at..], |special| {
                if counts(special, at) {
                    longest = Some(special);
                }
            });
            if let Some(special) = longest {
                return Some((at, special));
            }
            at += 1;
        }
    }

    /// Every token of the index that is somewhere in `text`.
    pub(super) fn each(&self, text: &[u8], mut sink: impl FnMut(u32)) {
        let mut at = 0;
        while let Some(start) = self.start(&text[at..]) {
            self.matches(&text[at + start..], |special| sink(special.id));
            at += start + 1;
        }
    }

    /// Where a token may begin first.
    fn start(&self, text: &[u8]) -> Option<usize> {
        text.iter().position(|&b| self.starts[usize::from(b)])
    }

    /// The tokens that `text` begins with, the shortest first.
    fn matches<'s>(&'s self, text: &[u8], mut sink: impl FnMut(&'s Special)) {
        let mut tokens = &self.tokens[..];
        for (depth, &byte) in text.iter().enumerate() {
            // All of `tokens` share text[..depth]; one that ends here sorts first.
            let key = |special: &Special| special.text.get(depth).copied();
            let low = tokens.partition_point(|special| key(special) < Some(byte));
            let high = tokens.partition_point(|special| key(special) <= Some(byte));
            tokens = &tokens[low..high];
            match tokens.first() {
                None => break,
                Some(special) if special.text.len() == depth + 1 => sink(special),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::ByteStrings;
    use super::super::vocab::Spelling;
    use super::*;

    fn specials(tokens: &[(&str, i32)], name: Option<&str>) -> (Vocab, Specials) {
        let texts: ByteStrings = tokens.iter().map(|(text, _)| text).collect();
        let kinds: Vec<i32> = tokens.iter().map(|&(_, kind)| kind).collect();
        let vocab = Vocab::new(texts, &kinds, Spelling::SentencePiece).unwrap();
        let specials = Specials::new(&vocab, name);
        (vocab, specials)
    }

    fn split(specials: &(Vocab, Specials), text: &str, control: bool) -> String {
        let whole = 0..text.len();
        split_with(specials, text, if control { &[] } else { std::slice::from_ref(&whole) })
    }

    fn split_with((vocab, specials): &(Vocab, Specials), text: &str, data: &[Range<usize>]) -> String {
        let mut shown = String::new();
        specials.split(vocab, text.as_bytes(), data, |fragment| {
            shown += &match fragment {
                Fragment::Text(text) => format!("'{}' ", String::from_utf8_lossy(text)),
                Fragment::Special(id) => format!("{id} "),
            }
        });
        shown
    }

    #[test]
    fn the_longest_token_at_the_leftmost_place() {
        let s = specials(&[("<a", 3), ("<a>", 3), ("<a>b", 3), ("word", 1), ("  ", 4)], None);
        assert_eq!(split(&s, "x<a>bc<a>", true), "'x' 2 'c' 1 ");
        assert_eq!(split(&s, "<a<a>word", true), "0 1 'word' ");
        assert_eq!(split(&s, "<a>  c   ", false), "'<a>' 4 'c' 4 ' ' ");
        assert_eq!(split(&s, "<", true), "'<' ");
        assert_eq!(split(&s, "", true), "");
    }

    #[test]
    fn what_touches_data_is_text() {
        let s = specials(&[("<a", 3), ("<a>", 3), ("<b>", 3), ("  ", 4)], None);
        for (text, data, expected) in [
            ("<b>x<b>", &[(3, 4)][..], "2 'x' 2 "),
            ("<b>x<b>", &[(0, 3)], "'<b>x' 2 "),
            ("<b>x<b>", &[(2, 3)], "'<b>x' 2 "),
            ("<b>x<b>", &[(4, 7)], "2 'x<b>' "),
            ("<b>x<b>", &[(0, 1), (6, 7)], "'<b>x<b>' "),
            // The rest of the longest token is data; the shorter one is not.
            ("<a>", &[(2, 3)], "0 '>' "),
            ("<b>  <b>", &[(2, 4)], "'<b>' 3 2 "),
            ("<b><b>", &[(3, 3)], "2 2 "),
            ("<b><b>", &[(1, 1), (4, 5)], "2 '<b>' "),
        ] {
            let ranges: Vec<Range<usize>> = data.iter().map(|&(start, end)| start..end).collect();
            assert_eq!(split_with(&s, text, &ranges), expected, "{text} {data:?}");
        }
    }

    #[test]
    fn phi_3_markers_take_the_whitespace_after_them() {
        let tokens = [("<s>", 3), ("<|end|>", 3)];
        let s = specials(&tokens, Some("Phi-3 mini"));
        assert_eq!(split(&s, "<s> a<|end|>\n b", true), "0 ' a' 1 'b' ");
        let s = specials(&tokens, Some("other"));
        assert_eq!(split(&s, "<|end|>\n b", true), "1 '\n b' ");
    }

    #[test]
    fn thousands_of_tokens_cost_no_more_than_their_length() {
        let names: Vec<String> = (0..5000).map(|i| format!("<extra_{i}>")).collect();
        let tokens: Vec<(&str, i32)> = names.iter().map(|name| (name.as_str(), 3)).collect();
        let s = specials(&tokens, None);
        assert_eq!(split(&s, "<extra_499><extra_4999><extra_", true), "499 4999 '<extra_' ");
    }
}
