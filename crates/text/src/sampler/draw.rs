//! One choice of a token in numbers, for a device that makes it itself.

use super::{SamplerConfig, candidates, philox};

/// Tokens at most that a [`Draw`] chooses from.
pub const RANKED: i64 = 64;

/// Tokens at most whose logits a [`Draw`] moves: those that end a text, where it must not end, and some more.
pub const BIASED: usize = 8;

/// How one token is drawn from the likeliest [`RANKED`]: the stages of a [`Sampler`](super::Sampler) that look at nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// How many of the likeliest stay.
    pub top_k: f32,
    /// The sum that their probabilities reach.
    pub top_p: f32,
    /// By how much a logit may lie below the best; at most zero.
    pub floor: f32,
    /// What differences of logits are multiplied by.
    pub warmth: f32,
    /// The random number, in [0, 1).
    pub uniform: f32,
    /// Tokens, and what is added to their logits before all else; below zero for none.
    pub bias: [(f32, f32); BIASED],
}

/// No token.
const NONE: (f32, f32) = (-1.0, 0.0);

impl Draw {
    /// Numbers of a draw.
    pub const LEN: usize = Draw::SETTINGS + 2 * BIASED;

    /// Those of them that are no bias.
    pub const SETTINGS: usize = 5;

    /// The likeliest token.
    pub const GREEDY: Draw =
        Draw { top_k: 1.0, top_p: 1.0, floor: f32::NEG_INFINITY, warmth: 1.0, uniform: 0.0, bias: [NONE; BIASED] };

    /// Whether it takes the likeliest token, whatever the random number is, and moves no logit.
    pub fn is_greedy(&self) -> bool {
        self.top_k == 1.0 && self.bias == Draw::GREEDY.bias
    }

    /// In the order of its fields; each token that is biased before its bias.
    pub fn numbers(&self) -> [f32; Draw::LEN] {
        let mut all = [0.0; Draw::LEN];
        let (settings, biases) = all.split_at_mut(Draw::SETTINGS);
        settings.copy_from_slice(&[self.top_k, self.top_p, self.floor, self.warmth, self.uniform]);
        biases.copy_from_slice(self.bias.map(|(token, bias)| [token, bias]).as_flattened());
        all
    }
}

impl SamplerConfig {
    /// What needs the logits of all tokens, so that there is no [`SamplerConfig::draw`].
    pub fn needs_all_logits(&self) -> Option<&'static str> {
        let few = self.is_greedy() || (1..=RANKED as usize).contains(&self.top_k);
        let reasons = [
            (self.logit_bias.len() > BIASED, "a logit_bias of more than 8 tokens"),
            (self.penalises(), "a penalty"),
            (self.logprobs.is_some(), "log-probabilities"),
            (!self.is_plain(), "a sampler beside top-k, top-p, min-p and temperature, or another order"),
            (!few, "a top-k of 0 or above 64"),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }

    /// Whether there is a [`SamplerConfig::draw`].
    pub fn is_drawn(&self) -> bool {
        self.needs_all_logits().is_none()
    }

    /// The choice of a step, whose random number is that of the seed and the step. `None` if it needs more than the
    /// likeliest [`RANKED`] logits: many biases, penalties, probabilities, or a cut that keeps more.
    pub fn draw(&self, step: u64) -> Option<Draw> {
        if !self.is_drawn() {
            return None;
        }
        let mut bias = [NONE; BIASED];
        for (place, &(token, by)) in bias.iter_mut().zip(&self.logit_bias) {
            *place = (token as f32, by);
        }
        if self.is_greedy() {
            return Some(Draw { bias, ..Draw::GREEDY });
        }
        // The largest number below one that an f32 holds.
        const LAST: f32 = 1.0 - f32::EPSILON / 2.0;
        Some(Draw {
            top_k: self.top_k as f32,
            top_p: if self.top_p < 1.0 { self.top_p } else { f32::INFINITY },
            floor: candidates::min_p_floor(0.0, self.min_p),
            warmth: (1.0 / self.temperature).min(f32::MAX),
            uniform: (philox::uniform(self.seed, step) as f32).min(LAST),
            bias,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Stage;

    #[test]
    fn what_needs_all_logits_is_no_draw() {
        let config =
            SamplerConfig { top_k: 40, top_p: 0.95, min_p: 0.05, temperature: 0.8, ..SamplerConfig::default() };
        let draw = config.draw(7).expect("a draw");
        assert_eq!((draw.top_k, draw.top_p, draw.warmth), (40.0, 0.95, 1.25));
        assert!((draw.floor - 0.05f32.ln()).abs() < 1e-6 && (0.0..1.0).contains(&draw.uniform));
        assert_ne!(config.draw(8).expect("a draw").uniform, draw.uniform);
        assert!(SamplerConfig::greedy().draw(0).expect("a draw").is_greedy());
        assert_eq!((config.needs_all_logits(), RANKED), (None, 64));
        let biased = SamplerConfig { logit_bias: vec![(7, f32::NEG_INFINITY), (9, 1.5)], ..SamplerConfig::greedy() };
        let draw = biased.draw(0).expect("a draw");
        assert!(!draw.is_greedy(), "the likeliest may be another");
        assert_eq!(draw.numbers()[Draw::SETTINGS..][..6], [7.0, f32::NEG_INFINITY, 9.0, 1.5, -1.0, 0.0]);
        let refused = [
            (SamplerConfig { top_k: 0, ..config.clone() }, "top-k"),
            (SamplerConfig { top_k: RANKED as usize + 1, ..config.clone() }, "above 64"),
            (SamplerConfig { logprobs: Some(0), ..config.clone() }, "log-probabilities"),
            (SamplerConfig { logit_bias: vec![(1, 1.0); BIASED + 1], ..config.clone() }, "logit_bias"),
            (SamplerConfig { presence_penalty: 0.5, ..config.clone() }, "penalty"),
            (SamplerConfig { typical_p: 0.5, ..config.clone() }, "a sampler beside"),
            (SamplerConfig { order: vec![Stage::TopK], ..config.clone() }, "another order"),
        ];
        for (config, why) in refused {
            assert_eq!(config.draw(0), None, "{config:?}");
            assert!(config.needs_all_logits().expect("a reason").contains(why), "{config:?}");
        }
    }
}
