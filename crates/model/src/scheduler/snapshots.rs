//! Texts that a model that remembers can go on from.
//!
//! Such a model goes on from the last position that it read, and nowhere else, but for those of which a snapshot was kept:
//! of a prompt at every so many tokens, and at the border of a page before its end; of a sequence where it ended or had to
//! make room. Pages hold what the layers with attention need of the same texts, so both must be there still.

use super::{BLOCK, Scheduler, Task};
use crate::snapshot::Snapshot;

/// Tokens between two snapshots of a long text.
const APART: usize = 1024;

/// What a chat changes at the end of a prompt when it goes on: the beginning of an answer, and an empty thought.
const CHANGED: usize = 8;

/// Snapshots with their texts, the one used last at the end.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    kept: Vec<(Vec<u32>, Snapshot)>,
    most: usize,
}

impl Snapshots {
    /// Room for so many.
    pub fn new(most: usize) -> Snapshots {
        Snapshots { kept: vec![], most }
    }

    /// Whether any are kept.
    pub fn any(&self) -> bool {
        self.most > 0
    }

    /// Lengths of the texts that begin these tokens and leave one at least, the longest first.
    pub fn lengths(&self, tokens: &[u32]) -> Vec<usize> {
        let begins = |text: &&Vec<u32>| text.len() < tokens.len() && tokens.starts_with(text);
        let mut lengths: Vec<usize> = self.kept.iter().map(|(text, _)| text).filter(begins).map(Vec::len).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths
    }

    /// Whether one of this text is kept.
    pub fn has(&self, text: &[u32]) -> bool {
        self.kept.iter().any(|(known, _)| known == text)
    }

    /// The snapshot of a text, which is used.
    pub fn get(&mut self, text: &[u32]) -> Option<&Snapshot> {
        let at = self.kept.iter().position(|(known, _)| known == text)?;
        let used = self.kept.remove(at);
        self.kept.push(used);
        self.kept.last().map(|(_, snapshot)| snapshot)
    }

    fn keep(&mut self, text: &[u32], snapshot: Snapshot) {
        if self.kept.len() >= self.most {
            self.kept.remove(0);
        }
        self.kept.push((text.to_vec(), snapshot));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

/// Where a snapshot is wanted next of a text of so many tokens, of which some are read.
fn next(read: usize, tokens: usize) -> Option<usize> {
    let last = tokens.saturating_sub(CHANGED) / BLOCK * BLOCK;
    let regular = (read / APART + 1) * APART;
    [regular, last].into_iter().filter(|&at| at > read && at < tokens).min()
}

/// Whether a snapshot is wanted where a text of so many tokens was read to.
fn is_wanted(read: usize, tokens: usize) -> bool {
    read > 0 && next(read - 1, tokens) == Some(read)
}

impl Scheduler {
    /// Whether the engine goes on from snapshots, and some are kept.
    pub(super) fn snaps(&self) -> bool {
        self.options.reuse && self.snapshots.any() && !self.engine.rewinds()
    }

    /// Tokens of a prompt that the next step should read at most, so that it ends where a snapshot is wanted.
    pub(super) fn until_snapshot(&self, task: &Task) -> usize {
        let read = task.behind();
        let wanted = next(read, task.tokens().len()).filter(|_| self.snaps() && !task.is_read_whole());
        wanted.map_or(usize::MAX, |at| at - read)
    }

    /// Whether a sequence is to be kept where its next step goes on.
    fn is_due(&self, task: &Task) -> bool {
        let read = task.behind();
        let wanted = self.snaps() && !task.is_read_whole() && is_wanted(read, task.tokens().len());
        wanted && !self.snapshots.has(&task.tokens()[..read])
    }

    /// Whether a sequence is to be kept that steps in flight are not through with.
    pub(super) fn waits_for_snapshot(&self) -> bool {
        self.running.iter().any(|(_, task)| task.sent > 0 && self.is_due(task))
    }

    /// Keeps the sequences that are where a snapshot is wanted.
    pub(super) fn keep_due(&mut self) {
        for at in 0..self.running.len() {
            let (place, task) = &self.running[at];
            if task.sent == 0 && self.is_due(task) {
                let (place, text) = (*place, task.tokens()[..task.computed].to_vec());
                self.keep(place, &text);
            }
        }
    }

    /// Keeps a sequence that leaves its place, if all its steps are over.
    pub(super) fn keep_leaving(&mut self, place: usize, task: &Task) {
        let whole = task.computed >= BLOCK && task.sent == 0 && !task.is_read_whole();
        if whole && self.snaps() && !self.snapshots.has(&task.tokens()[..task.computed]) {
            self.keep(place, &task.tokens()[..task.computed]);
        }
    }

    /// What cannot be copied is read again, and a device that is gone says so in the next step.
    fn keep(&mut self, place: usize, text: &[u32]) {
        if let Ok(Some(snapshot)) = self.engine.remember(place)
            && snapshot.position() == text.len()
        {
            self.snapshots.keep(text, snapshot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_wanted_at_borders_of_pages() {
        assert_eq!((next(0, 60), next(0, 71), next(0, 200), next(192, 200)), (None, None, Some(192), None));
        assert_eq!((next(0, 72), next(64, 72)), (Some(64), None));
        assert_eq!((next(0, 5000), next(1024, 5000), next(4096, 5000)), (Some(1024), Some(2048), Some(4992)));
        assert!(is_wanted(192, 200) && is_wanted(1024, 5000) && is_wanted(4992, 5000));
        assert!(!is_wanted(0, 200) && !is_wanted(64, 200) && !is_wanted(200, 200));
    }

    #[test]
    fn the_text_used_longest_ago_goes() {
        let mut kept = Snapshots::new(2);
        let of = |n: usize| Snapshot::new(n, vec![]);
        kept.keep(&[1], of(1));
        kept.keep(&[1, 2], of(2));
        assert_eq!(kept.lengths(&[1, 2, 3]), [2, 1]);
        assert_eq!(kept.lengths(&[1, 2]), [1]);
        assert_eq!(kept.get(&[1]), Some(&of(1)));
        kept.keep(&[7], of(1));
        assert!(kept.has(&[1]) && !kept.has(&[1, 2]) && kept.has(&[7]));
        kept.clear();
        assert_eq!(kept.lengths(&[1, 2, 3]), [0; 0]);
    }
}
