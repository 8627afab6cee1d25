//! How many tokens each sequence has in the next step.
//!
//! A sequence that decodes has one. Prompts share what is left: those with the fewest tokens to read first, so that a step
//! reads few prompts, each of which then costs the reading of its past once for many tokens; but half of it is the eldest's, so
//! that none waits for ever. Texts of a model whose tokens see what follows are read whole, each in one step.
//!
//! Beside a long past it may cost less to read the weights twice than to read prompts as sequences that decode are best read,
//! or the other way round ([`Reach::apart`](crate::prefill_attention::Reach::apart)). Then both take turns.

use super::Scheduler;
use crate::step::Output;

/// Tokens of texts that are read whole, in a step that reads so many in all: the eldest come first, and one that has no room
/// waits for the next.
fn of_whole(ready: &[usize], mut left: usize) -> Vec<usize> {
    let share = |&ready: &usize| {
        let share = if ready <= left { ready } else { 0 };
        left -= share;
        share
    };
    ready.iter().map(share).collect()
}

/// Tokens of prompts in a step that reads so many in all, of prompts that have so many each, the eldest first.
fn of_prompts(ready: &[usize], mut left: usize) -> Vec<usize> {
    let mut shares = vec![0; ready.len()];
    let mut order: Vec<usize> = (0..ready.len()).collect();
    order.sort_by_key(|&at| ready[at]);
    let mut kept = ready.first().map_or(0, |&eldest| eldest.min(left.div_ceil(2)));
    for at in order {
        if at == 0 {
            kept = 0;
        }
        shares[at] = ready[at].min(left - kept);
        left -= shares[at];
    }
    shares
}

impl Scheduler {
    /// Tokens of each sequence that runs in the next step, which computes this.
    pub(super) fn shares(&mut self, output: Output) -> Vec<usize> {
        let context = self.limits.context;
        let ready: Vec<usize> =
            self.running.iter().map(|(_, s)| if s.output() == output { s.ready(context) } else { 0 }).collect();
        if self.limits.whole {
            return of_whole(&ready, self.limits.tokens);
        }
        let (decoding, prompts): (Vec<usize>, Vec<usize>) =
            (0..ready.len()).filter(|&at| ready[at] > 0).partition(|&at| ready[at] == 1);
        let room = self.limits.tokens - decoding.len();
        let left = if decoding.is_empty() { room } else { self.options.beside.clamp(1, room.max(1)) };
        let wanted: Vec<usize> =
            prompts.iter().map(|&at| ready[at].min(self.until_snapshot(&self.running[at].1))).collect();
        let mut shares = vec![0; ready.len()];
        decoding.iter().for_each(|&at| shares[at] = 1);
        prompts.iter().zip(of_prompts(&wanted, left)).for_each(|(&at, share)| shares[at] = share);
        let read = |&at: &usize| {
            let behind = self.running[at].1.behind();
            (shares[at] > 0).then_some(behind..behind + shares[at])
        };
        let mixed = !decoding.is_empty() && !prompts.is_empty();
        let apart = mixed && self.limits.reach.apart(decoding.iter().filter_map(read), prompts.iter().filter_map(read));
        if apart {
            let others = if self.prompts_alone { &prompts } else { &decoding };
            others.iter().for_each(|&at| shares[at] = 0);
        }
        self.prompts_alone = apart && !self.prompts_alone;
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::{of_prompts, of_whole};

    #[test]
    fn whole_texts_are_read_or_wait() {
        assert_eq!(of_whole(&[5, 4, 3, 1], 9), [5, 4, 0, 0]);
        assert_eq!(of_whole(&[5, 9, 4], 9), [5, 0, 4]);
        assert_eq!(of_whole(&[9, 1], 9), [9, 0]);
    }

    #[test]
    fn the_shortest_is_read_first_and_the_eldest_in_any_case() {
        assert_eq!(of_prompts(&[], 8), [0; 0]);
        assert_eq!(of_prompts(&[20], 8), [8]);
        // Prompts of one length go one after another.
        assert_eq!(of_prompts(&[20, 20, 20], 8), [8, 0, 0]);
        assert_eq!(of_prompts(&[5, 20, 20], 8), [5, 3, 0]);
        // A short one passes, and the eldest goes on.
        assert_eq!(of_prompts(&[20, 3, 20], 8), [5, 3, 0]);
        assert_eq!(of_prompts(&[20, 6, 9], 8), [4, 4, 0]);
        assert_eq!(of_prompts(&[3, 2, 2], 8), [3, 2, 2]);
        assert_eq!(of_prompts(&[9, 2], 1), [1, 0]);
    }
}
