//! PLaMo 2's vocabularies: of all ways to write a text with tokens the one whose scores add up to most, and where it is
//! written alike, that with the longer token first. A character that costs too much otherwise is written as bytes.

use super::error::TokenizerError;
use super::prefixes::Prefixes;
use super::split::text::unit_len;
use super::vocab::Vocab;

/// Scores are compared as integers, in these steps.
const STEPS: f32 = 1e4;

/// What a character written as bytes costs, in steps.
const BYTES_COST: i64 = 10_000_000;

/// A token that costs so much is not used.
const TOO_MUCH: i64 = 20_000_000;

/// A mark of byte order, which is left out at the beginning of a text.
const BYTE_ORDER: &[u8] = "\u{feff}".as_bytes();

pub(super) struct Plamo2 {
    prefixes: Prefixes,
    /// By token.
    costs: Vec<i64>,
    byte_tokens: Box<[Option<u32>; 256]>,
}

/// How the text from some place on is written best.
#[derive(Clone, Copy)]
struct Best {
    cost: i64,
    /// What it begins with: a token, or the bytes of a character.
    token: Option<u32>,
    len: usize,
}

impl Plamo2 {
    pub(super) fn new(vocab: &Vocab, scores: &[f32]) -> Result<Plamo2, TokenizerError> {
        if scores.len() != vocab.len() {
            return Err(TokenizerError::LengthMismatch { array: "scores", len: scores.len(), tokens: vocab.len() });
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::BadScore { id: id as u32 });
        }
        let cost = |score: &f32| if score.is_finite() { -(score * STEPS).round() as i64 } else { TOO_MUCH };
        let costs = scores.iter().map(|score| cost(score).max(-TOO_MUCH)).collect();
        Ok(Plamo2 { prefixes: Prefixes::new(vocab), costs, byte_tokens: vocab.byte_tokens() })
    }

    /// Appends the tokens of `text`, which holds no special tokens.
    pub(super) fn encode(&self, text: &[u8], out: &mut Vec<u32>) {
        let text = text.strip_prefix(BYTE_ORDER).unwrap_or(text);
        let mut best = vec![Best { cost: 0, token: None, len: 0 }; text.len() + 1];
        for start in starts(text).into_iter().rev() {
            let rest = &text[start..];
            let len = unit_len(rest);
            let mut found = Best { cost: best[start + len].cost + BYTES_COST, token: None, len };
            self.prefixes.each(rest, |len, id| {
                let cost = self.costs[id as usize];
                let whole = best[start + len].cost + cost;
                // The shortest comes first, so that a longer one of the same cost takes its place.
                if cost < TOO_MUCH && whole <= found.cost {
                    found = Best { cost: whole, token: Some(id), len };
                }
            });
            best[start] = found;
        }
        let mut at = 0;
        while at < text.len() {
            let Best { token, len, .. } = best[at];
            match token {
                Some(id) => out.push(id),
                None => out.extend(text[at..at + len].iter().filter_map(|&byte| self.byte_tokens[usize::from(byte)])),
            }
            at += len;
        }
    }
}

/// Where the characters of a text start.
fn starts(text: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (vec![], 0);
    while at < text.len() {
        starts.push(at);
        at += unit_len(&text[at..]);
    }
    starts
}
