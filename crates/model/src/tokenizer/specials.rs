//! Finding special tokens in text.
//!
//! The leftmost match wins, and of the tokens that match there the longest. A table of first bytes
//! passes over ordinary text; from a possible start the tokens, sorted by their text, are narrowed
//! byte by byte, so the cost does not grow with how many special tokens there are.

use super::vocab::{TokenKind, Vocab};

/// A stretch of text, or a special token found in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t [u8]),
    Special(u32),
}

struct Special {
    text: Box<[u8]>,
    id: u32,
    /// Takes the whitespace to its right with it.
    absorbs_right: bool,
}

/// Special tokens sorted by text.
struct Index {
    tokens: Vec<Special>,
    starts: [bool; 256],
}

pub(super) struct Specials {
    /// Matched in any text.
    user_defined: Index,
    /// Matched where the text may hold control tokens.
    all: Index,
}

impl Specials {
    /// `name` is the model's name: Phi-3 files do not say that their turn markers absorb the
    /// whitespace after them.
    pub(super) fn new(vocab: &Vocab, name: Option<&str>) -> Specials {
        let name = name.unwrap_or_default().to_lowercase();
        let absorbing = name.contains("phi-3") || name.contains("phi3");
        Specials {
            user_defined: Index::new(vocab, |kind| kind == TokenKind::UserDefined, absorbing),
            all: Index::new(vocab, |_| true, absorbing),
        }
    }

    /// Cuts `text` at its special tokens. Control tokens count only if `control`.
    pub(super) fn split<'t>(&self, text: &'t [u8], control: bool, mut sink: impl FnMut(Fragment<'t>)) {
        let index = if control { &self.all } else { &self.user_defined };
        let mut from = 0;
        while let Some((start, special)) = index.find(text, from) {
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
    fn new(vocab: &Vocab, wanted: impl Fn(TokenKind) -> bool, absorbing: bool) -> Index {
        const NEVER_ABSORB: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        let wanted = vocab.specials().filter(|&(_, kind, _)| wanted(kind));
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

    /// The first match at or after `from`, and where it starts.
    fn find(&self, text: &[u8], from: usize) -> Option<(usize, &Special)> {
        let mut at = from;
        loop {
            let mut rest = text[at..].iter();
            at += rest.position(|&b| self.starts[usize::from(b)])?;
            if let Some(special) = self.longest(&text[at..]) {
                return Some((at, special));
            }
            at += 1;
        }
    }

    /// The longest token that `text` begins with.
    fn longest(&self, text: &[u8]) -> Option<&Special> {
        let mut tokens = &self.tokens[..];
        let mut longest = None;
        for (depth, &byte) in text.iter().enumerate() {
            // All of `tokens` share text[..depth]; one that ends here sorts first.
            let key = |special: &Special| special.text.get(depth).copied();
            let low = tokens.partition_point(|special| key(special) < Some(byte));
            let high = tokens.partition_point(|special| key(special) <= Some(byte));
            tokens = &tokens[low..high];
            match tokens.first() {
                None => break,
                Some(special) if special.text.len() == depth + 1 => longest = Some(special),
                Some(_) => {}
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::ByteStrings;
    use super::super::vocab::Spelling;
    use super::*;

    fn specials(tokens: &[(&str, i32)], name: Option<&str>) -> Specials {
        let texts: ByteStrings = tokens.iter().map(|(text, _)| text).collect();
        let kinds: Vec<i32> = tokens.iter().map(|&(_, kind)| kind).collect();
        let vocab = Vocab::new(texts, &kinds, Spelling::SentencePiece).unwrap();
        Specials::new(&vocab, name)
    }

    fn split(specials: &Specials, text: &str, control: bool) -> String {
        let mut shown = String::new();
        specials.split(text.as_bytes(), control, |fragment| {
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
