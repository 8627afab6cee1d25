//! Rows repacked by runs of bytes, as fast as memory allows.
//!
//! [`Planes::pack`] goes by values, which is slow and plainly right. What it does is a map of bits, the same for every row:
//! each bit of a row in planes is a bit of the row in the file, or 0. [`Repack`] learns that map by packing a few rows
//! whose bits count, and keeps it as runs of bytes that are moved alike.

use super::Planes;
use crate::dequant::DequantError;

/// Consecutive bytes of a row in planes, each with some bits of consecutive bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    from: u32,
    to: u32,
    bytes: u32,
    /// Bits of the source byte are moved down, cut out, and moved up.
    down: u8,
    mask: u8,
    up: u8,
}

/// How the rows of a tensor are repacked.
#[derive(Clone, Debug)]
pub struct Repack {
    from_bytes: usize,
    to_bytes: usize,
    runs: Vec<Run>,
}

impl Repack {
    /// Learns how rows go into planes.
    ///
    /// # Errors
    /// Those of [`Planes::pack`].
    pub fn new(planes: &Planes) -> Result<Repack, DequantError> {
        let (from_bytes, to_bytes) = planes.row_bytes();
        let bits = from_bytes * 8;
        // Of each bit of a row in planes, the number of its bit in the file plus 1; 0 where there is none.
        let mut source = vec![0u32; to_bytes * 8];
        let (mut row, mut packed) = (vec![0u8; from_bytes], vec![0u8; to_bytes]);
        for digit in 0..usize::BITS - bits.leading_zeros() {
            for (index, byte) in row.iter_mut().enumerate() {
                *byte = (0..8).fold(0, |byte, bit| byte | ((((index * 8 + bit + 1) >> digit & 1) as u8) << bit));
            }
            planes.pack(&row, &mut packed)?;
            for (bit, number) in source.iter_mut().enumerate() {
                *number |= u32::from(packed[bit / 8] >> (bit % 8) & 1) << digit;
            }
        }
        let mut runs: Vec<Run> = vec![];
        // Runs that end at the byte before, by how they move.
        let mut open: Vec<usize> = vec![];
        for (to, numbers) in source.chunks(8).enumerate() {
            let mut here = vec![];
            for mut run in moves(numbers) {
                run.to = to as u32;
                let follows = |&&index: &&usize| {
                    let last: &Run = &runs[index];
                    (last.down, last.mask, last.up, last.from + last.bytes) == (run.down, run.mask, run.up, run.from)
                };
                let index = match open.iter().find(follows) {
                    Some(&index) => {
                        runs[index].bytes += 1;
                        index
                    }
                    None => {
                        runs.push(run);
                        runs.len() - 1
                    }
                };
                here.push(index);
            }
            open = here;
        }
        Ok(Repack { from_bytes, to_bytes, runs })
    }

    /// Repacks whole rows; bytes between planes become 0.
    ///
    /// # Panics
    /// If `data` and `out` are not as many whole rows.
    pub fn run(&self, data: &[u8], out: &mut [u8]) {
        assert_eq!(data.len() / self.from_bytes, out.len() / self.to_bytes, "rows");
        assert!(data.len().is_multiple_of(self.from_bytes) && out.len().is_multiple_of(self.to_bytes), "whole rows");
        for (row, out) in data.chunks_exact(self.from_bytes).zip(out.chunks_exact_mut(self.to_bytes)) {
            out.fill(0);
            for run in &self.runs {
                let (from, to, bytes) = (run.from as usize, run.to as usize, run.bytes as usize);
                let (from, to) = (&row[from..from + bytes], &mut out[to..to + bytes]);
                if run.mask == u8::MAX {
                    to.copy_from_slice(from);
                    continue;
                }
                for (to, from) in to.iter_mut().zip(from) {
                    *to |= (from >> run.down & run.mask) << run.up;
                }
            }
        }
    }
}

/// The moves that make a byte, from the numbers of its bits' sources.
fn moves(numbers: &[u32]) -> Vec<Run> {
    let mut found: Vec<Run> = vec![];
    let mut last = 0;
    for (bit, &number) in numbers.iter().enumerate() {
        let Some(source) = number.checked_sub(1) else {
            last = 0;
            continue;
        };
        match found.last_mut() {
            // The next bit of the same byte.
            Some(run) if number == last + 1 && source / 8 == run.from => run.mask = run.mask << 1 | 1,
            _ => {
                found.push(Run { from: source / 8, to: 0, bytes: 1, down: (source % 8) as u8, mask: 1, up: bit as u8 })
            }
        }
        last = number;
    }
    found
}
