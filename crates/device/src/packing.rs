//! Weights on their way to the memory of a device: as they are in a file, repacked or unpacked, a piece at a time and by
//! several threads.

use crate::error::Result;
use crate::heap::not_packed;
use gguf::dequant::DequantError;
use gguf::format::{Planes, Repack};
use std::ops::Range;
use std::thread;

/// Bytes that are worth a thread.
const WORTH: usize = 1 << 20;

/// Bytes of whole rows that each of the threads fills that fill so many together.
fn share(bytes: usize, row: usize) -> usize {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(bytes / WORTH).max(1);
    bytes.div_ceil(threads).next_multiple_of(row)
}

/// Fills rows from others by several threads, where each has so many bytes here and there.
pub(crate) fn fill_by_threads(
    from: &[u8],
    to: &mut [u8],
    row: (usize, usize),
    fill: impl Fn(&[u8], &mut [u8]) + Copy + Send,
) {
    let share = share(to.len(), row.1);
    if to.len() <= share {
        return fill(from, to);
    }
    thread::scope(|scope| {
        for (from, to) in from.chunks(share / row.1 * row.0).zip(to.chunks_mut(share)) {
            scope.spawn(move || fill(from, to));
        }
    });
}

/// The bytes of a weight on a device.
pub struct Packing<'a> {
    source: &'a [u8],
    repack: Option<Repack>,
    /// Bytes of a row in the file, and on the device; 1 where rows stay as they are.
    row: (usize, usize),
    bytes: usize,
}

impl Packing<'_> {
    /// Those of `source`, in `planes` if they are given.
    ///
    /// # Errors
    /// [`Error::Repack`](crate::Error::Repack) if these are not whole rows.
    pub fn new<'a>(weight: &str, source: &'a [u8], planes: Option<&Planes>) -> Result<Packing<'a>> {
        let Some(planes) = planes else {
            return Ok(Packing { source, repack: None, row: (1, 1), bytes: source.len() });
        };
        let row = planes.row_bytes();
        let Some(bytes) = planes.packed_bytes(source.len()) else {
            let (format, bytes) = (planes.to().name.to_string(), source.len());
            return Err(not_packed(weight, DequantError::PartBlock { format, bytes, block_bytes: row.0 }));
        };
        let repack = Repack::new(planes).map_err(|problem| not_packed(weight, problem))?;
        Ok(Packing { source, repack: Some(repack), row, bytes })
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them in pieces of at most so many, but at least a row.
    pub fn pieces(&self, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bytes, piece) = (self.bytes, self.whole_rows(most));
        (0..bytes).step_by(piece).map(move |start| start..(start + piece).min(bytes))
    }

    /// Bytes that each of the threads fills that fill so many together; whole rows.
    pub fn share(&self, bytes: usize) -> usize {
        share(bytes, self.row.1)
    }

    /// Bytes of the largest piece of whole rows that has at most so many, or of a row.
    pub fn whole_rows(&self, most: usize) -> usize {
        (most / self.row.1).max(1) * self.row.1
    }

    /// What the bytes of so many that begin at this one are made of.
    fn source(&self, start: usize, bytes: usize) -> &[u8] {
        let first = start / self.row.1 * self.row.0;
        &self.source[first..][..bytes / self.row.1 * self.row.0]
    }

    fn make(&self, from: &[u8], to: &mut [u8]) {
        match &self.repack {
            Some(repack) => repack.run(from, to),
            None => to.copy_from_slice(from),
        }
    }

    /// Writes what begins at this byte, where a row does.
    pub fn fill(&self, start: usize, to: &mut [u8]) {
        self.make(self.source(start, to.len()), to);
    }

    /// The same by several threads.
    pub fn fill_by_threads(&self, start: usize, to: &mut [u8]) {
        fill_by_threads(self.source(start, to.len()), to, self.row, |from, to| self.make(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use gguf::format::rows;

    const VALUES: u64 = 64;

    fn planes() -> Planes {
        let q4_0 = rows().iter().find(|row| row.name == "Q4_0").expect("a row of the table");
        Planes::of(q4_0, VALUES).expect("planes")
    }

    fn source(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    #[test]
    fn pieces_together_are_the_weight() {
        let planes = planes();
        let (from_row, to_row) = planes.row_bytes();
        // Enough for several threads.
        let rows = 3 * WORTH / to_row + 5;
        let source = source(rows * from_row);
        let mut want = vec![0; rows * to_row];
        planes.pack(&source, &mut want).expect("whole rows");
        for (planes, want) in [(Some(&planes), &want), (None, &source)] {
            let packing = Packing::new("w", &source, planes).expect("a packing");
            assert_eq!(packing.bytes(), want.len());
            for most in [1, 100_000, 2 * WORTH + 3, usize::MAX / 2] {
                let mut got = vec![];
                for range in packing.pieces(most) {
                    assert!(range.start == got.len() && range.len() <= packing.whole_rows(most), "{range:?}");
                    got.resize(range.end, 1);
                    packing.fill_by_threads(range.start, &mut got[range]);
                    if got.len() > 1000 && most == 1 {
                        // The rest is alike, and slow.
                        break;
                    }
                }
                assert!(got == want[..got.len()], "pieces of {most}");
                assert!(most == 1 || got.len() == want.len(), "pieces of {most}");
            }
        }
    }

    #[test]
    fn a_part_of_a_row_is_refused() {
        let planes = planes();
        let (row, _) = planes.row_bytes();
        let problem = Packing::new("w", &source(row + 1), Some(&planes)).err().expect("no whole rows");
        assert!(matches!(problem, Error::Repack { .. }), "{problem}");
        assert!(problem.to_string().contains("weight w cannot be repacked"), "{problem}");
    }
}
