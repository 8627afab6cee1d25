//! Byte-level BPE: a piece starts as single bytes, and the adjacent pair whose merge was learned
//! first is joined, the leftmost of equals first, until no pair can be. A byte without a token is
//! left out; vocabularies lack at most some that valid UTF-8 never has.
//!
//! Vocabularies that spell tokens as SentencePiece does start as code points; one without a token is written as bytes.
//!
//! Short pieces scan for the best pair; long ones (a megabyte without a space is one piece) keep
//! the pairs in a heap over a linked list. Both give the same tokens.

use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::byte_alphabet;
use super::data::ByteStrings;
use super::error::{TokenizerError, shown};
use super::split::Splitter;
use super::split::text::unit_len;
use super::vocab::{self, Spelling, Vocab};

/// Stands for a byte that has no token; it takes part in no merge and is left out of the result.
const NO_TOKEN: u32 = u32::MAX;

/// Rank of a pair that cannot be merged.
const NO_RANK: u32 = u32::MAX;

/// Up to here scanning all pairs again after every merge beats a heap.
const SCANNED_SYMBOLS: usize = 48;

pub(super) struct Bpe {
    splitter: Splitter,
    /// The token of each byte, or [`NO_TOKEN`].
    byte_tokens: Box<[u32; 256]>,
    merges: HashMap<(u32, u32), Merge>,
}

#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    token: u32,
}

impl Bpe {
    pub(super) fn new(vocab: &Vocab, merges: &ByteStrings, splitter: Splitter) -> Result<Bpe, TokenizerError> {
        let raw = vocab.byte_tokens();
        let byte_tokens = Box::new(std::array::from_fn(|byte| {
            if splitter.spelling == Spelling::SentencePiece {
                return raw[byte].unwrap_or(NO_TOKEN);
            }
            let mut stored = Vec::with_capacity(2);
            byte_alphabet::spell(byte as u8, &mut stored);
            // Some files have added tokens that read like a byte, such as "ö", but print as text.
            let is_byte = |id: &u32| vocab.printed(*id) == Some(&[byte as u8]);
            vocab.find(&stored).filter(is_byte).unwrap_or(NO_TOKEN)
        }));
        Ok(Bpe { splitter, byte_tokens, merges: read_merges(vocab, merges)? })
    }

    /// Appends the tokens of `text`, which holds no special tokens.
    pub(super) fn encode(&self, vocab: &Vocab, text: &[u8], out: &mut Vec<u32>) {
        let mut scratch = Scratch::default();
        let mut marked = vec![];
        let text = match self.splitter.spelling {
            Spelling::SentencePiece => {
                vocab::marked(text, &mut marked);
                &marked
            }
            _ => text,
        };
        self.splitter.split(text, &mut |piece| {
            self.encode_piece(vocab, piece, &mut scratch, out);
        });
    }

    fn encode_piece(&self, vocab: &Vocab, piece: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        let breaks = || self.splitter.gemma && piece.iter().all(|&byte| byte == b'\n');
        if (self.splitter.ignore_merges && piece.len() > 1 || breaks())
            && let Some(id) = self.whole(vocab, piece, &mut scratch.stored)
        {
            out.push(id);
            return;
        }
        scratch.symbols.clear();
        match self.splitter.spelling {
            Spelling::ByteAlphabet => scratch.symbols.extend(self.bytes(piece)),
            _ => self.code_points(vocab, piece, &mut scratch.symbols),
        }
        if scratch.symbols.len() <= SCANNED_SYMBOLS {
            self.merge_by_scanning(&mut scratch.symbols, &mut scratch.pairs);
        } else {
            self.merge_by_heap(&mut scratch.symbols);
        }
        out.extend(scratch.symbols.iter().filter(|&&id| id != NO_TOKEN));
    }

    fn bytes(&self, text: &[u8]) -> impl Iterator<Item = u32> {
        text.iter().map(|&byte| self.byte_tokens[usize::from(byte)])
    }

    /// The tokens of the code points of `text`; those of the bytes of one that has none.
    fn code_points(&self, vocab: &Vocab, text: &[u8], symbols: &mut Vec<u32>) {
        let mut rest = text;
        while !rest.is_empty() {
            let (point, after) = rest.split_at(unit_len(rest));
            match vocab.find(point).filter(|&id| !vocab.steers(id)) {
                Some(id) => symbols.push(id),
                None => symbols.extend(self.bytes(point)),
            }
            rest = after;
        }
    }

    /// The token that `piece` is as a whole. What steers the model is never text.
    fn whole(&self, vocab: &Vocab, piece: &[u8], stored: &mut Vec<u8>) -> Option<u32> {
        stored.clear();
        match self.splitter.spelling {
            Spelling::ByteAlphabet => piece.iter().for_each(|&byte| byte_alphabet::spell(byte, stored)),
            _ => stored.extend_from_slice(piece),
        }
        vocab.find(stored).filter(|&id| !vocab.steers(id))
    }

    fn merge_of(&self, left: u32, right: u32) -> Option<Merge> {
        self.merges.get(&(left, right)).copied()
    }

    /// Joins `symbols` in place; `pairs` is scratch.
    fn merge_by_scanning(&self, symbols: &mut Vec<u32>, pairs: &mut Vec<Merge>) {
        const NONE: Merge = Merge { rank: NO_RANK, token: NO_TOKEN };
        let pair = |left, right| self.merge_of(left, right).unwrap_or(NONE);
        pairs.clear();
        pairs.extend(symbols.windows(2).map(|two| pair(two[0], two[1])));
        while let Some((at, &best)) = pairs.iter().enumerate().min_by_key(|(_, pair)| pair.rank)
            && best.rank != NO_RANK
        {
            symbols[at] = best.token;
            symbols.remove(at + 1);
            pairs.remove(at);
            if at > 0 {
                pairs[at - 1] = pair(symbols[at - 1], symbols[at]);
            }
            if at < pairs.len() {
                pairs[at] = pair(symbols[at], symbols[at + 1]);
            }
        }
    }

    /// Joins `symbols` in place, in time n log n.
    fn merge_by_heap(&self, symbols: &mut Vec<u32>) {
        let count = symbols.len();
        // Neighbours that are still there; the slot of a symbol joined to its left is empty.
        let mut next: Vec<usize> = (1..=count).collect();
        let mut previous: Vec<usize> = (0..count).map(|i| i.wrapping_sub(1)).collect();
        let mut joined = vec![false; count];
        let mut heap: BinaryHeap<Candidate> =
            (1..count).filter_map(|right| self.candidate(symbols, right - 1, right)).collect();
        while let Some(Reverse((_, left, pair, token))) = heap.pop() {
            let right = next[left];
            if joined[left] || right == count || (symbols[left], symbols[right]) != pair {
                continue;
            }
            symbols[left] = token;
            joined[right] = true;
            next[left] = next[right];
            if next[left] < count {
                previous[next[left]] = left;
                heap.extend(self.candidate(symbols, left, next[left]));
            }
            if left > 0 {
                heap.extend(self.candidate(symbols, previous[left], left));
            }
        }
        let mut gone = joined.iter();
        symbols.retain(|_| gone.next() != Some(&true));
    }

    fn candidate(&self, symbols: &[u32], left: usize, right: usize) -> Option<Candidate> {
        let pair = (symbols[left], symbols[right]);
        let merge = self.merge_of(pair.0, pair.1)?;
        Some(Reverse((merge.rank, left, pair, merge.token)))
    }
}

/// Rank, place of the left symbol, the two symbols, their merge: the least is merged next.
type Candidate = Reverse<(u32, usize, (u32, u32), u32)>;

#[derive(Default)]
struct Scratch {
    symbols: Vec<u32>,
    pairs: Vec<Merge>,
    stored: Vec<u8>,
}

fn read_merges(vocab: &Vocab, merges: &ByteStrings) -> Result<HashMap<(u32, u32), Merge>, TokenizerError> {
    let mut table = HashMap::with_capacity(merges.len());
    let mut joined = Vec::new();
    for (index, merge) in merges.iter().enumerate() {
        // A token may begin with a space in files that do not spell it; the separator is later.
        let space = merge.iter().skip(1).position(|&byte| byte == b' ');
        let Some(space) = space.map(|at| at + 1).filter(|&at| at + 1 < merge.len()) else {
            return Err(TokenizerError::MergeWithoutSpace { index, merge: shown(merge) });
        };
        let (left, right) = (&merge[..space], &merge[space + 1..]);
        joined.clear();
        joined.extend_from_slice(left);
        joined.extend_from_slice(right);
        let find = |part: &[u8]| {
            vocab.find(part).ok_or_else(|| TokenizerError::MergeUnknown {
                index,
                merge: shown(merge),
                part: shown(part),
            })
        };
        let pair = (find(left)?, find(right)?);
        let token = find(&joined)?;
        // Such a token is only ever found as a whole, where it may be.
        if vocab.may_steer(token) {
            continue;
        }
        let rank = index as u32;
        table.entry(pair).or_insert(Merge { rank, token });
    }
    Ok(table)
}

#[cfg(test)]
#[path = "bpe_tests.rs"]
mod tests;
