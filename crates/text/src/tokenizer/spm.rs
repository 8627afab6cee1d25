//! SentencePiece BPE ("llama"): text starts as code points, and the adjacent pair whose joined text
//! is the token of the highest score is joined, the leftmost of equals first. What is then no
//! token is written as bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::error::TokenizerError;
use super::split::text::unit_len;
use super::vocab::{self, SPACE_MARK, TokenKind, Vocab};

pub(super) struct Spm {
    /// Sort keys of the scores: higher scores have higher keys.
    score_keys: Vec<u32>,
    byte_tokens: Box<[Option<u32>; 256]>,
    unknown: Option<u32>,
    space_prefix: bool,
    longest: usize,
}

/// A stretch of text that is a token or may become part of one; the list skips empty ones.
struct Symbol {
    start: usize,
    len: usize,
    next: usize,
    previous: usize,
}

/// Score, place of the left symbol, length of the joined text, token: the greatest is joined next.
type Candidate = (u32, Reverse<usize>, usize, u32);

impl Spm {
    pub(super) fn new(
        vocab: &Vocab,
        scores: &[f32],
        unknown: Option<u32>,
        space_prefix: bool,
    ) -> Result<Spm, TokenizerError> {
        if scores.len() != vocab.len() {
            return Err(TokenizerError::LengthMismatch { array: "scores", len: scores.len(), tokens: vocab.len() });
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::BadScore { id: id as u32 });
        }
        Ok(Spm {
            score_keys: scores.iter().map(|&score| sort_key(score)).collect(),
            byte_tokens: vocab.byte_tokens(),
            unknown,
            space_prefix,
            longest: vocab.longest(),
        })
    }

    /// Whether encoding puts a space before text, and decoding takes it away.
    pub(super) fn has_space_prefix(&self) -> bool {
        self.space_prefix
    }

    /// Appends the tokens of `text`, which holds no special tokens. `leading` text is the first of
    /// an input or follows a special token.
    pub(super) fn encode(&self, vocab: &Vocab, text: &[u8], leading: bool, out: &mut Vec<u32>) {
        let mut marked = Vec::with_capacity(text.len() + text.len() / 4 + SPACE_MARK.len());
        if leading && self.space_prefix {
            marked.extend_from_slice(SPACE_MARK);
        }
        vocab::marked(text, &mut marked);
        let symbols = self.join(vocab, &marked);
        let mut at = 0;
        while let Some(symbol) = symbols.get(at) {
            let text = &marked[symbol.start..symbol.start + symbol.len];
            match self.token(vocab, text) {
                Some(id) => out.push(id),
                None => self.write_bytes(text, out),
            }
            at = symbol.next;
        }
    }

    fn join(&self, vocab: &Vocab, marked: &[u8]) -> Vec<Symbol> {
        let mut symbols = code_points(marked);
        let mut heap: BinaryHeap<Candidate> =
            (0..symbols.len()).filter_map(|left| self.candidate(vocab, marked, &symbols, left)).collect();
        while let Some((_, Reverse(left), len, _)) = heap.pop() {
            let right = symbols[left].next;
            // Symbols only grow, so a pair whose length still fits is the pair that was meant.
            if symbols[left].len == 0 || right >= symbols.len() || symbols[left].len + symbols[right].len != len {
                continue;
            }
            symbols[right].len = 0;
            symbols[left].len = len;
            let next = symbols[right].next;
            symbols[left].next = next;
            if let Some(symbol) = symbols.get_mut(next) {
                symbol.previous = left;
            }
            heap.extend(self.candidate(vocab, marked, &symbols, left));
            if left > 0 {
                let previous = symbols[left].previous;
                heap.extend(self.candidate(vocab, marked, &symbols, previous));
            }
        }
        symbols
    }

    /// The joining of symbol `left` with the one after it, if that gives a token.
    fn candidate(&self, vocab: &Vocab, marked: &[u8], symbols: &[Symbol], left: usize) -> Option<Candidate> {
        let first = symbols.get(left)?;
        let len = first.len + symbols.get(first.next)?.len;
        if len > self.longest {
            return None;
        }
        let id = self.token(vocab, &marked[first.start..first.start + len])?;
        Some((self.score_keys[id as usize], Reverse(left), len, id))
    }

    /// The token that `text` is. What only special splitting may produce is not text.
    fn token(&self, vocab: &Vocab, text: &[u8]) -> Option<u32> {
        let is_text =
            |id: &u32| matches!(vocab.kind(*id), Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused));
        vocab.find(text).filter(is_text).filter(|&id| !vocab.steers(id))
    }

    /// Byte tokens; where there are none, one unknown token or nothing.
    fn write_bytes(&self, text: &[u8], out: &mut Vec<u32>) {
        let bytes = text.iter().map(|&byte| self.byte_tokens[usize::from(byte)]);
        if bytes.clone().all(|token| token.is_some()) {
            out.extend(bytes.flatten());
        } else {
            out.extend(self.unknown);
        }
    }
}

fn code_points(marked: &[u8]) -> Vec<Symbol> {
    let mut symbols = Vec::with_capacity(marked.len());
    let mut start = 0;
    while start < marked.len() {
        let len = unit_len(&marked[start..]);
        let index = symbols.len();
        symbols.push(Symbol { start, len, next: index + 1, previous: index.wrapping_sub(1) });
        start += len;
    }
    symbols
}

/// An integer that orders as the score does; the two zeros are equal.
fn sort_key(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

#[cfg(test)]
#[path = "spm_tests.rs"]
mod tests;
