//! DRY, "don't repeat yourself": a penalty for tokens that would go on repeating a passage, the greater the longer it is
//! already (p-e-w, text-generation-webui pull request 5677, in llama.cpp's variant).

use crate::tokenizer::Tokenizer;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What ends a passage unless somebody says otherwise.
pub const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// Bytes of a breaker that count, and tokens.
const LONGEST: (usize, usize) = (40, 20);

/// Texts that end a passage, as a vocabulary spells them: for each token with which one may begin, the tokens that follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breakers(Arc<FxHashMap<u32, Vec<Vec<u32>>>>);

impl Breakers {
    /// Of these texts. A token that has one in it is one; so is a token that ends with the beginning of one, with the tokens
    /// of its rest.
    pub fn of<S: AsRef<str>>(texts: &[S], tokenizer: &Tokenizer) -> Breakers {
        let mut all: FxHashMap<u32, Vec<Vec<u32>>> = FxHashMap::default();
        for text in texts {
            let text = text.as_ref();
            let text = &text.as_bytes()[..text.len().min(LONGEST.0)];
            let Some(&first) = text.first() else { continue };
            // The rest of a text, by how many of its bytes a token has.
            let mut rests: FxHashMap<usize, Vec<u32>> = FxHashMap::default();
            for id in 0..tokenizer.vocab_len() as u32 {
                let Some(bytes) = tokenizer.token_bytes(id) else { continue };
                let mut add = |rest: Vec<u32>| {
                    let known = all.entry(id).or_default();
                    if !known.contains(&rest) {
                        known.push(rest);
                    }
                };
                for at in bytes.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(at, _)| at) {
                    let shared = bytes[at..].len().min(text.len());
                    if bytes[at..at + shared] != text[..shared] {
                        continue;
                    }
                    if shared == text.len() {
                        add(vec![]);
                        break;
                    }
                    let rest = || {
                        let mut rest = tokenizer.encode(&text[shared..], false, false);
                        rest.truncate(LONGEST.1);
                        rest
                    };
                    add(rests.entry(shared).or_insert_with(rest).clone());
                }
            }
        }
        Breakers(Arc::new(all))
    }

    /// Tokens of the longest breaker behind its first token, if one begins at the token that lies `back` before the last.
    fn at(&self, tokens: &[u32], back: usize) -> Option<usize> {
        let head = tokens.len() - 1 - back;
        let rests = self.0.get(&tokens[head])?;
        let fits = |rest: &&Vec<u32>| tokens[head + 1..].starts_with(rest);
        rests.iter().filter(fits).map(Vec::len).max()
    }
}

/// For each token that would go on repeating a passage, the length of that passage; `tokens` is the recent text, and what
/// is shorter than `least` is no passage.
pub(super) fn repetitions(tokens: &[u32], least: usize, breakers: &Breakers) -> FxHashMap<u32, usize> {
    let n = tokens.len();
    // No passage reaches across a breaker.
    let limit = (0..n).find_map(|back| breakers.at(tokens, back).map(|rest| back - rest)).unwrap_or(n);
    let mut longest = FxHashMap::default();
    if limit < least {
        return longest;
    }
    for (back, length) in common_ends(tokens).into_iter().enumerate().skip(1) {
        let length = length.min(limit);
        if length >= least {
            let next = longest.entry(tokens[n - back]).or_insert(0);
            *next = length.max(*next);
        }
    }
    longest
}

/// How many of its last tokens a text shares with itself, shifted by 0, 1, 2 and so on: the Z function of its reverse.
fn common_ends(tokens: &[u32]) -> Vec<usize> {
    let n = tokens.len();
    let at = |back: usize| tokens[n - 1 - back];
    let mut z = vec![n; n];
    // What is known to be equal is the part of the reverse in [left, right).
    let (mut left, mut right) = (0, 0);
    for k in 1..n {
        let mut length = if k < right { z[k - left].min(right - k) } else { 0 };
        while k + length < n && at(length) == at(k + length) {
            length += 1;
        }
        z[k] = length;
        if k + length > right {
            (left, right) = (k, k + length);
        }
    }
    z
}

/// What a passage of `length` takes from the logit of the token that would go on.
pub(super) fn penalty(multiplier: f32, base: f32, least: usize, length: usize) -> f32 {
    // Greater powers are infinite.
    let most = if base > 1.000_001 { (f64::from(f32::MAX).ln() / f64::from(base).ln()) as usize } else { usize::MAX };
    multiplier * base.powf((length - least).min(most) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths(tokens: &[u32], least: usize, breakers: &Breakers) -> Vec<(u32, usize)> {
        let mut all: Vec<_> = repetitions(tokens, least, breakers).into_iter().collect();
        all.sort_unstable();
        all
    }

    fn single(tokens: &[u32]) -> Breakers {
        Breakers(Arc::new(tokens.iter().map(|&token| (token, vec![vec![]])).collect()))
    }

    #[test]
    fn the_token_after_the_same_passage_is_found() {
        let none = Breakers::default();
        // 1 2 3 came before, followed by 4.
        assert_eq!(lengths(&[1, 2, 3, 4, 9, 1, 2, 3], 2, &none), [(4, 3)]);
        assert_eq!(lengths(&[1, 2, 3, 4, 9, 1, 2, 3], 4, &none), []);
        assert_eq!(lengths(&[5, 5, 5, 5], 1, &none), [(5, 3)]);
        assert_eq!(lengths(&[7], 1, &none), []);
        assert_eq!(lengths(&[], 0, &none), []);
        // A breaker among them leaves what lies behind it.
        assert_eq!(lengths(&[1, 2, 3, 4, 9, 1, 2, 3], 2, &single(&[1])), [(4, 2)]);
        assert_eq!(lengths(&[1, 2, 3, 4, 9, 1, 2, 3], 2, &single(&[2])), []);
        // One of two tokens counts only as a whole.
        let two = Breakers(Arc::new([(1, vec![vec![2]])].into_iter().collect()));
        assert_eq!(lengths(&[1, 2, 3, 4, 9, 1, 2, 3], 1, &two), [(4, 1)]);
        let other = Breakers(Arc::new([(1, vec![vec![3]])].into_iter().collect()));
        assert_eq!(lengths(&[1, 2, 3, 4, 9, 1, 2, 3], 2, &other), [(4, 3)]);
    }

    #[test]
    fn penalties_grow_and_stay_finite() {
        assert_eq!(penalty(0.8, 1.75, 2, 2), 0.8);
        assert!((penalty(0.8, 1.75, 2, 4) - 0.8 * 1.75 * 1.75).abs() < 1e-6);
        assert!(penalty(1.0, 2.0, 2, 1 << 20).is_finite());
        assert_eq!(penalty(1.0, 1.0, 2, 1 << 20), 1.0);
    }

    proptest! {
        #[test]
        fn common_ends_by_their_definition(tokens in prop::collection::vec(0u32..3, 0..60)) {
            let n = tokens.len();
            let shared = |k: usize| (0..n - k).take_while(|&i| tokens[n - 1 - i] == tokens[n - 1 - i - k]).count();
            prop_assert_eq!(common_ends(&tokens), (0..n).map(shared).collect::<Vec<_>>());
        }
    }
}
