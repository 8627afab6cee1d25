//! A beam search over the settings of one kernel.
//!
//! The neighbours of the best few settings are tried, then those of the best few of all that were tried, until the best
//! ones have no neighbours that are new. It knows nothing of kernels: what a setting is worth is told to it.

use compiler::{Machine, Setting};
use std::collections::{HashSet, VecDeque};

/// Settings whose neighbours are tried.
const WIDTH: usize = 2;

/// The search of one kernel.
pub(crate) struct Beam {
    machine: Machine,
    /// What was measured, best first: the time over that of the plan of the heuristics.
    best: Vec<(Setting, f64)>,
    /// What comes next.
    queue: VecDeque<Setting>,
    /// What was in the queue once.
    seen: HashSet<Setting>,
    /// Whose neighbours were in the queue.
    expanded: HashSet<Setting>,
}

impl Beam {
    /// Begins with the plan of the heuristics, and tries `first` before anything else.
    pub(crate) fn new(machine: &Machine, first: Option<Setting>) -> Beam {
        let start = Setting::of(machine);
        let mut seen = HashSet::from([start]);
        let queue = first.into_iter().filter(|&setting| seen.insert(setting)).collect();
        Beam { machine: machine.clone(), best: vec![(start, 1.0)], queue, seen, expanded: HashSet::new() }
    }

    /// The next setting to try; `None` if the search is at its end.
    pub(crate) fn next(&mut self) -> Option<Setting> {
        if self.queue.is_empty() {
            for (setting, _) in &self.best[..self.best.len().min(WIDTH)] {
                if self.expanded.insert(*setting) {
                    let new = setting.neighbours(&self.machine).into_iter().filter(|next| self.seen.insert(*next));
                    self.queue.extend(new);
                }
            }
        }
        self.queue.pop_front()
    }

    /// A setting that was taken and not tried is the next one again.
    pub(crate) fn put_back(&mut self, setting: Setting) {
        self.queue.push_front(setting);
    }

    /// What a setting is worth: its time over that of the plan of the heuristics. One that is not told of was the same
    /// as another, or is no good.
    pub(crate) fn measured(&mut self, setting: Setting, ratio: f64) {
        let at = self.best.partition_point(|known| known.1 <= ratio);
        self.best.insert(at, (setting, ratio));
    }

    /// The best setting, and its time over that of the plan of the heuristics.
    pub(crate) fn winner(&self) -> (Setting, f64) {
        self.best[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compiler::cpu::plan::Plan;
    use compiler::{Numerics, Options};

    fn machine() -> Machine {
        Options::cpu(Numerics::Int8, 64).machine
    }

    fn plan(setting: &Setting) -> Plan {
        setting.on(&machine()).plan().expect("a plan").clone()
    }

    /// Searches with a price; what was tried.
    fn search(price: impl Fn(&Plan) -> f64) -> (Beam, usize) {
        let mut beam = Beam::new(&machine(), None);
        let start = Setting::of(&machine());
        let base = price(&plan(&start));
        let mut tried = 0;
        while let Some(setting) = beam.next() {
            tried += 1;
            beam.measured(setting, price(&plan(&setting)) / base);
        }
        (beam, tried)
    }

    #[test]
    fn it_ends_with_the_best_where_numbers_are_independent() {
        let (beam, tried) = search(|p| {
            (p.rows - 8).abs() as f64
                + (p.stream_rows - 3).abs() as f64
                + (p.prefetch_l2 - 1152).abs() as f64 / 1e3
                + 1.0
        });
        let best = plan(&beam.winner().0);
        assert_eq!((best.rows, best.stream_rows, best.prefetch_l2), (8, 3, 1152));
        assert!(tried < 200, "{tried} of thousands");
    }

    #[test]
    fn where_nothing_is_better_the_heuristics_stay() {
        let (beam, tried) = search(|p| if *p == plan(&Setting::of(&machine())) { 1.0 } else { 2.0 });
        assert_eq!(beam.winner(), (Setting::of(&machine()), 1.0));
        assert!(tried > 10);
    }

    #[test]
    fn what_is_put_back_and_what_is_known_come_first() {
        let known = Setting::of(&machine()).neighbours(&machine())[5];
        let mut beam = Beam::new(&machine(), Some(known));
        assert_eq!(beam.next(), Some(known));
        beam.put_back(known);
        assert_eq!(beam.next(), Some(known));
        assert_ne!(beam.next(), Some(known));
    }

    #[test]
    fn what_cannot_be_measured_does_not_keep_it_from_ending() {
        let mut beam = Beam::new(&machine(), None);
        let mut tried = 0;
        while beam.next().is_some() {
            tried += 1;
        }
        assert!(tried > 10 && tried < 200);
    }
}
