//! Pre-tokenisation: cutting text into the pieces inside which byte-level BPE may merge.
//!
//! Each vocabulary was trained with a list of regular expressions; `tokenizer.ggml.pre` names the
//! list. Every expression cuts each piece left by the one before it, and both its matches and the
//! gaps between them become pieces. The matchers here are written by hand: they take time linear
//! in the text, need no look-ahead engine, and work on bytes that are not valid UTF-8 (a stray byte
//! counts as a symbol). The tests compare every one with the expression it stands for.

mod rows;
mod rules;
mod sets;
pub(super) mod text;
mod thousands;

use super::vocab::Spelling;
use rules::Rule;

/// How a named pre-tokeniser splits and what else its name implies.
#[derive(Clone, Copy)]
pub(super) struct Splitter {
    rules: &'static [Rule],
    /// How the tokens are spelled. Where a space is `▁`, it is so in the text that is split, too.
    pub(super) spelling: Spelling,
    /// A piece that is a token is taken whole, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Line breaks that are a token are taken whole, and a text begins with a token even where the file says not.
    pub(super) gemma: bool,
    /// Whether a beginning-of-text token is added when the file does not say.
    pub(super) add_bos: bool,
    /// Whether a separator stands between two texts when the file does not say.
    pub(super) add_sep: bool,
}

impl Splitter {
    /// Hands the pieces of `text` to `sink` in order; together they are `text`.
    pub(super) fn split<'t>(&self, text: &'t [u8], sink: &mut impl FnMut(&'t [u8])) {
        split(self.rules, text, sink);
    }
}

fn split<'t, S: FnMut(&'t [u8])>(rules: &[Rule], text: &'t [u8], sink: &mut S) {
    match rules.split_first() {
        None if text.is_empty() => {}
        None => sink(text),
        Some((rule, rest)) => rule.cut(text, &mut |piece| split(rest, piece, sink)),
    }
}

#[cfg(test)]
mod tests;
