//! RWKV's vocabularies: the longest token that the text begins with, again and again. Tokens are any bytes, which a file
//! spells with escapes as Python does.

use super::prefixes::Prefixes;
use super::vocab::Vocab;

pub(super) struct Rwkv {
    prefixes: Prefixes,
    unknown: Option<u32>,
}

impl Rwkv {
    pub(super) fn new(vocab: &Vocab, unknown: Option<u32>) -> Rwkv {
        Rwkv { prefixes: Prefixes::new(vocab), unknown }
    }

    /// Appends the tokens of `text`, which holds no special tokens. What no token begins with is unknown, or left out.
    pub(super) fn encode(&self, text: &[u8], out: &mut Vec<u32>) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut longest = None;
            self.prefixes.each(rest, |len, id| longest = Some((len, id)));
            let (len, id) = longest.map_or((1, self.unknown), |(len, id)| (len, Some(id)));
            out.extend(id);
            rest = &rest[len..];
        }
    }
}
