//! How workers go through the stages of a step together, without locks.
//!
//! A stage is a number of *units* of work, split into one contiguous *share*
//! per worker. A worker takes units from the front of its own share, a quarter
//! of what is left at a time, then helps with the shares of others. The stage
//! is over when all its units are done: not when all workers have arrived. A
//! worker that the system has put to sleep delays the others only by the units
//! that it holds.
//!
//! Stages have consecutive *epochs*. Every shared word carries the epoch that
//! it was last used in, and a word of an older epoch counts as untouched, so
//! nothing is ever reset. A worker that slept through several stages finds
//! newer epochs everywhere and can do no harm: a claim counts only if the
//! stage was still open after it was made.
//!
//! This file knows nothing of threads: how to wait and what a unit does are
//! [`crate::cpu::pool`]'s.

use std::ops::Range;

use super::atomic::{AtomicU64, Ordering};

/// Bits of a shared word below its epoch. At a million stages a second the
/// epoch above them lasts nine years.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The largest number of units of a stage.
pub(crate) const MAX_UNITS: u32 = COUNT_MASK as u32;

/// A worker takes this part of what is left of a share.
const CLAIM_PART: u32 = 4;

/// Above this number of workers, finished shares are counted in two levels.
pub(crate) const GROUP: usize = 8;

/// A value on cache lines of its own; two, as lines are fetched in pairs.
#[repr(align(128))]
struct Padded<T>(T);

/// The shared words of one share.
struct Slot {
    /// Epoch and next unit.
    cursor: AtomicU64,
    /// Epoch and units done, if more than one worker took part.
    done: AtomicU64,
}

/// How the units of a stage are shared out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    units: u32,
    count: usize,
}

impl Shares {
    pub(crate) fn new(units: u32, workers: usize) -> Shares {
        Shares { units, count: workers.min(units as usize) }
    }

    /// How many there are; none is empty.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn range(&self, share: usize) -> Range<u32> {
        let cut = |i: usize| (u64::from(self.units) * i as u64 / self.count as u64) as u32;
        cut(share)..cut(share + 1)
    }
}

/// The shared state of all workers.
pub(crate) struct StageQueue {
    /// Epoch of the open stage and how many shares (or groups) are done.
    front: Padded<AtomicU64>,
    slots: Box<[Padded<Slot>]>,
    groups: Box<[Padded<AtomicU64>]>,
    /// Shares per group.
    group: usize,
}

fn pack(epoch: u64, count: u32) -> u64 {
    epoch << COUNT_BITS | u64::from(count)
}

fn epoch_of(word: u64) -> u64 {
    word >> COUNT_BITS
}

fn count_of(word: u64) -> u32 {
    (word & COUNT_MASK) as u32
}

impl StageQueue {
    /// `group` is [`GROUP`] but in tests.
    pub(crate) fn new(workers: usize, group: usize) -> StageQueue {
        let slot = |_| Padded(Slot { cursor: AtomicU64::new(0), done: AtomicU64::new(0) });
        let groups = if workers > group { workers.div_ceil(group) } else { 0 };
        StageQueue {
            front: Padded(AtomicU64::new(pack(1, 0))),
            slots: (0..workers).map(slot).collect(),
            groups: (0..groups).map(|_| Padded(AtomicU64::new(0))).collect(),
            group,
        }
    }

    /// The epoch that is open: everything of older ones has happened before.
    pub(crate) fn epoch(&self) -> u64 {
        // Sequentially consistent for the pool's sleepers; a plain load where
        // it counts (x86), and no dearer than acquire elsewhere (AArch64).
        epoch_of(self.front.0.load(Ordering::SeqCst))
    }

    /// Moves on from an epoch in which nobody holds work.
    pub(crate) fn open(&self, epoch: u64) {
        self.front.0.store(pack(epoch, 0), Ordering::SeqCst);
    }

    /// Takes units of a share of the stage `epoch`; `None` if none are left or
    /// the stage is over.
    ///
    /// The caller must have read `shares` with acquire ordering after it saw
    /// `epoch` open, and whoever changes the units of a stage must do so with
    /// release ordering and only while no stage is open.
    pub(crate) fn claim(&self, epoch: u64, shares: Shares, share: usize) -> Option<Range<u32>> {
        let Range { start, end } = shares.range(share);
        let cursor = &self.slots[share].0.cursor;
        let mut seen = cursor.load(Ordering::Acquire);
        loop {
            let next = match epoch_of(seen).cmp(&epoch) {
                std::cmp::Ordering::Less => start,
                std::cmp::Ordering::Equal => count_of(seen),
                std::cmp::Ordering::Greater => return None,
            };
            if next >= end {
                return None;
            }
            let take = (end - next).div_ceil(CLAIM_PART);
            match cursor.compare_exchange_weak(seen, pack(epoch, next + take), Ordering::AcqRel, Ordering::Acquire) {
                // If the stage is over, `shares` may have been of a later step:
                // these units do not exist, and nobody will miss them.
                Ok(_) => return (self.epoch() == epoch).then_some(next..next + take),
                Err(now) => seen = now,
            }
        }
    }

    /// Reports units of a share as done, and opens the epoch `next()` if they
    /// were the last of the stage. Says whether they were.
    ///
    /// A worker reports once for each share, when the share has no units left
    /// to claim. Everything done before is seen by whoever sees the new epoch.
    pub(crate) fn finish(
        &self,
        epoch: u64,
        shares: Shares,
        share: usize,
        units: u32,
        next: impl FnOnce() -> u64,
    ) -> bool {
        let range = shares.range(share);
        let length = range.end - range.start;
        if units < length && add(&self.slots[share].0.done, epoch, units) < length {
            return false;
        }
        let mut counted = shares.count();
        if !self.groups.is_empty() {
            let group = share / self.group;
            let members = self.group.min(shares.count() - group * self.group) as u32;
            if members > 1 && add(&self.groups[group].0, epoch, 1) < members {
                return false;
            }
            counted = counted.div_ceil(self.group);
        }
        self.pass(epoch, counted as u32, next)
    }

    /// Counts one of `counted` parts of the stage as done; the last of them
    /// opens the epoch `next()` in the same write.
    fn pass(&self, epoch: u64, counted: u32, next: impl FnOnce() -> u64) -> bool {
        let front = &self.front.0;
        let mut seen = front.load(Ordering::Relaxed);
        let mut opened = None;
        let mut next = Some(next);
        loop {
            debug_assert_eq!(epoch_of(seen), epoch, "a stage ended with work left");
            let count = count_of(seen) + 1;
            let new = if count < counted {
                pack(epoch, count)
            } else {
                if let Some(next) = next.take() {
                    opened = Some(pack(next(), 0));
                }
                opened.unwrap_or(seen)
            };
            match front.compare_exchange_weak(seen, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return count == counted,
                Err(now) => seen = now,
            }
        }
    }
}

/// Adds to a word that counts from zero in each epoch; the new count.
fn add(word: &AtomicU64, epoch: u64, amount: u32) -> u32 {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let count = if epoch_of(seen) == epoch { count_of(seen) } else { 0 };
        let new = count + amount;
        match word.compare_exchange_weak(seen, pack(epoch, new), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return new,
            Err(now) => seen = now,
        }
    }
}
