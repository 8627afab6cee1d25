//! Penalties for tokens that were used lately.

use std::collections::VecDeque;

use super::candidates::Candidate;
use super::config::SamplerConfig;

/// Longer windows get their memory as they fill.
const LONGEST_RESERVED: usize = 1 << 16;

/// Entries of `distinct` that may be out of date, beside one for every token in the window.
const SLACK: usize = 16;

/// The last tokens and how often each is among them.
#[derive(Debug, Clone)]
pub(super) struct Window {
    size: usize,
    tokens: VecDeque<u32>,
    /// Occurrences in `tokens`, by token.
    counts: Vec<u32>,
    /// The distinct tokens in `tokens`, and possibly tokens that have left it.
    distinct: Vec<u32>,
    listed: Vec<bool>,
}

impl Window {
    pub(super) fn new(config: &SamplerConfig, vocab: usize) -> Window {
        let size = if config.penalises() { config.penalty_window } else { 0 };
        let vocab = if size == 0 { 0 } else { vocab };
        let room = size.min(LONGEST_RESERVED);
        Window {
            size,
            tokens: VecDeque::with_capacity(room),
            counts: vec![0; vocab],
            distinct: Vec::with_capacity(vocab.min(2 * room + SLACK + 1)),
            listed: vec![false; vocab],
        }
    }

    /// Takes a token in, and the oldest out once the window is full.
    pub(super) fn push(&mut self, id: u32) {
        let Some(count) = self.counts.get_mut(id as usize) else {
            return;
        };
        *count += 1;
        if !self.listed[id as usize] {
            self.listed[id as usize] = true;
            self.distinct.push(id);
        }
        if self.tokens.len() == self.size
            && let Some(oldest) = self.tokens.pop_front()
        {
            self.counts[oldest as usize] -= 1;
        }
        self.tokens.push_back(id);
        // Forget tokens that left, once they are most of the list.
        if self.distinct.len() > 2 * self.tokens.len() + SLACK {
            let (counts, listed) = (&self.counts, &mut self.listed);
            self.distinct.retain(|&id| {
                listed[id as usize] = counts[id as usize] > 0;
                listed[id as usize]
            });
        }
    }

    pub(super) fn apply(&self, config: &SamplerConfig, logits: &mut [f32]) {
        for &id in &self.distinct {
            let count = self.counts[id as usize];
            if count == 0 {
                continue;
            }
            let logit = &mut logits[id as usize];
            *logit = penalised(config, *logit, count);
        }
    }

    /// The logit of a candidate, as if all were [applied](Window::apply).
    pub(super) fn penalised(&self, config: &SamplerConfig, candidate: Candidate) -> f32 {
        match self.counts.get(candidate.id as usize) {
            Some(&count) if count > 0 => penalised(config, candidate.logit, count),
            _ => candidate.logit,
        }
    }
}

/// The logit of a token that is in the window so many times.
fn penalised(config: &SamplerConfig, logit: f32, count: u32) -> f32 {
    let repeated = if logit > 0.0 { logit / config.repeat_penalty } else { logit * config.repeat_penalty };
    repeated - (count as f32 * config.frequency_penalty + config.presence_penalty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalised(config: &SamplerConfig, tokens: &[u32], logits: &[f32]) -> Vec<f32> {
        let mut window = Window::new(config, logits.len());
        tokens.iter().for_each(|&id| window.push(id));
        let mut out = logits.to_vec();
        window.apply(config, &mut out);
        out
    }

    #[test]
    fn each_penalty_by_its_formula() {
        let mut config = SamplerConfig { repeat_penalty: 2.0, ..SamplerConfig::default() };
        let logits = [4.0, -4.0, 0.0, 1.0];
        assert_eq!(penalised(&config, &[0, 1, 1, 2], &logits), [2.0, -8.0, 0.0, 1.0]);
        config.repeat_penalty = 1.0;
        config.frequency_penalty = 0.5;
        assert_eq!(penalised(&config, &[0, 1, 1, 2], &logits), [3.5, -5.0, -0.5, 1.0]);
        config.frequency_penalty = 0.0;
        config.presence_penalty = 1.0;
        assert_eq!(penalised(&config, &[0, 1, 1, 2], &logits), [3.0, -5.0, -1.0, 1.0]);
    }

    #[test]
    fn tokens_leave_the_window_and_come_back() {
        let config = SamplerConfig { presence_penalty: 1.0, penalty_window: 2, ..SamplerConfig::default() };
        let zero = [0.0; 200];
        let penalised = |tokens: &[u32]| {
            let out = penalised(&config, tokens, &zero);
            let hit = out.iter().enumerate().filter(|(_, l)| **l != 0.0);
            hit.map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(penalised(&[0, 1, 2]), [1, 2]);
        assert_eq!(penalised(&[0, 0, 0, 1, 1]), [1]);
        let many: Vec<u32> = (0..200).chain([3, 199]).collect();
        assert_eq!(penalised(&many), [3, 199]);
    }

    #[test]
    fn a_window_of_none_or_no_penalty_keeps_nothing() {
        let config = SamplerConfig { presence_penalty: 1.0, penalty_window: 0, ..SamplerConfig::default() };
        assert_eq!(penalised(&config, &[0, 1], &[1.0, 2.0]), [1.0, 2.0]);
        let config = SamplerConfig::default();
        assert_eq!(penalised(&config, &[0, 9], &[1.0, 2.0]), [1.0, 2.0]);
    }
}
