//! Which threads of a block touched scratch since the last barrier.
//!
//! Between two barriers nothing says which of two threads comes first, not even in one warp. So a byte that one thread
//! writes may be neither read nor written by another.

use std::ops::Range;

/// The history of one scratch array since the last barrier, byte by byte.
#[derive(Debug)]
pub(super) struct Races {
    /// Number of the stretch between two barriers.
    stretch: u32,
    bytes: Vec<Byte>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    /// The stretch in which it was written last, and by whom.
    written: (u32, u16),
    /// The stretch in which it was read last, and by whom.
    read: (u32, u16),
}

/// Stands for several threads.
const SEVERAL: u16 = u16::MAX;

impl Races {
    pub fn new(bytes: usize) -> Races {
        Races { stretch: 1, bytes: vec![Byte::default(); bytes] }
    }

    /// Forgets everything.
    pub fn barrier(&mut self) {
        self.stretch += 1;
    }

    /// Notes a read; whether nobody else has written it.
    pub fn read(&mut self, range: Range<usize>, thread: usize) -> bool {
        let (stretch, thread) = (self.stretch, thread as u16);
        self.bytes[range].iter_mut().all(|b| {
            b.read = match b.read {
                (s, t) if s == stretch && t != thread => (stretch, SEVERAL),
                _ => (stretch, thread),
            };
            b.written.0 != stretch || b.written.1 == thread
        })
    }

    /// Notes a write; whether nobody else has read or written it.
    pub fn write(&mut self, range: Range<usize>, thread: usize) -> bool {
        let (stretch, thread) = (self.stretch, thread as u16);
        self.bytes[range].iter_mut().all(|b| {
            let alone = [b.written, b.read].iter().all(|&(s, t)| s != stretch || t == thread);
            b.written = (stretch, thread);
            alone
        })
    }
}
