//! Weights of any amount from a few MiB of random blocks.
//!
//! A tensor walks over the pool of its type and spread in steps of a stride that is its own and that changes at each
//! lap. The pool has a prime number of pieces, so every lap visits each of them once, and no two rows of two or more
//! pieces are equal.

use super::PlannedTensor;
use super::blocks;
use super::random::Random;
use super::tensors::Fill;
use gguf::{GgmlType, ternary};
use ir::index::gcd;
use std::collections::HashMap;
use std::io;

/// Bytes of a pool at most; it should stay in a processor's cache.
const POOL: u64 = 2 << 20;

/// Values of a plain type that stay together at most.
const PLAIN_PIECE: u64 = 64;

/// Bytes that are put together before they are written.
const CHUNK: usize = 1 << 20;

/// What tensors of one pool have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    ty: GgmlType,
    /// Bits of the standard deviation.
    std: u32,
    /// Values of a piece.
    piece: u64,
}

impl Key {
    fn new(tensor: &PlannedTensor, std: f32) -> Key {
        let piece = match u64::from(tensor.ty.block_len()) {
            1 => gcd(tensor.shape[0] as i64, PLAIN_PIECE as i64) as u64,
            block => block,
        };
        Key { ty: tensor.ty, std: std.to_bits(), piece }
    }

    fn bytes(self) -> u64 {
        self.ty.row_bytes(self.piece).expect("a piece is whole")
    }
}

/// The pools of a file, made when they are first needed.
pub(super) struct Pools {
    seed: u64,
    /// Pieces of the largest tensor of each pool.
    largest: HashMap<Key, u64>,
    made: HashMap<Key, Vec<u8>>,
    chunk: Vec<u8>,
}

impl Pools {
    pub(super) fn new(seed: u64, tensors: &[PlannedTensor]) -> Pools {
        let mut largest = HashMap::new();
        for tensor in tensors {
            if let Fill::Weights { std } = tensor.fill {
                let key = Key::new(tensor, std);
                let pieces = largest.entry(key).or_insert(0);
                *pieces = tensor.bytes.div_ceil(key.bytes()).max(*pieces);
            }
        }
        Pools { seed, largest, made: HashMap::new(), chunk: Vec::new() }
    }

    /// Gives the data of a tensor to `put`, in parts.
    pub(super) fn stream(
        &mut self,
        tensor: &PlannedTensor,
        std: f32,
        random: &mut Random,
        put: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let key = Key::new(tensor, std);
        let seed = self.seed;
        let largest = self.largest[&key];
        let pool = self.made.entry(key).or_insert_with(|| {
            let pieces = prime(largest.min(POOL / key.bytes()));
            let purpose = format!("{} {} {}", key.ty, key.std, key.piece);
            let mut random = Random::new(seed, &purpose);
            let values = pieces * key.piece;
            match key.ty.format() {
                Some(format) => blocks::random(format, std, values, &mut random),
                None => {
                    let wide = blocks::random(ternary::levels(), std, values, &mut random);
                    let mut packed = vec![0; key.ty.row_bytes(values).expect("whole blocks") as usize];
                    ternary::pack(&wide, &mut packed);
                    packed
                }
            }
        });
        let piece = key.bytes() as usize;
        let mut walk = Walk::new(pool.len() / piece, random);
        let mut left = tensor.bytes as usize;
        while left > 0 {
            let n = left.min(CHUNK / piece * piece);
            self.chunk.resize(n, 0);
            for out in self.chunk.chunks_exact_mut(piece) {
                let at = walk.next() * piece;
                out.copy_from_slice(&pool[at..at + piece]);
            }
            put(&self.chunk)?;
            left -= n;
        }
        Ok(())
    }
}

/// Pieces in the order of one tensor.
struct Walk {
    /// A prime.
    pieces: usize,
    at: usize,
    stride: usize,
    /// Steps until the stride changes.
    left: usize,
}

impl Walk {
    fn new(pieces: usize, random: &mut Random) -> Walk {
        Walk {
            pieces,
            at: random.below(pieces as u64) as usize,
            stride: 1 + random.below(pieces as u64 - 1) as usize,
            left: pieces,
        }
    }

    fn next(&mut self) -> usize {
        let at = self.at;
        self.at += self.stride;
        if self.at >= self.pieces {
            self.at -= self.pieces;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.pieces;
            self.stride = self.stride % (self.pieces - 1) + 1;
        }
        at
    }
}

/// The least prime that is not below `n`, and at least 3.
fn prime(n: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (n.max(3)..).find(is_prime).expect("there are primes above any number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_rows_are_equal() {
        for (pieces, per_row) in [(101, 2), (101, 3), (257, 8), (1009, 64)] {
            let mut walk = Walk::new(pieces, &mut Random::new(1, "walk"));
            let rows = (pieces - 1) * pieces / per_row;
            let mut seen = HashSet::new();
            for row in 0..rows {
                let row_pieces: Vec<usize> = (0..per_row).map(|_| walk.next()).collect();
                assert!(seen.insert(row_pieces), "row {row} of {per_row} of {pieces} pieces");
            }
        }
    }

    #[test]
    fn a_lap_visits_every_piece() {
        let mut walk = Walk::new(13, &mut Random::new(2, "lap"));
        for _ in 0..30 {
            let lap: HashSet<usize> = (0..13).map(|_| walk.next()).collect();
            assert_eq!(lap.len(), 13);
        }
    }

    #[test]
    fn primes() {
        let primes: Vec<u64> = [0, 4, 5, 90, 65536].map(prime).to_vec();
        assert_eq!(primes, [3, 5, 5, 97, 65537]);
    }
}
