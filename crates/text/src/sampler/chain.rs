//! The stages of sampling one after another, in any order, on the tokens that are still in play.
//!
//! The formulas and what they look at are llama.cpp's, so equal logits and orders leave equal tokens with equal
//! probabilities; which of them is drawn is up to our random numbers.

use super::candidates::{Candidate, by_rank};
use super::config::SamplerConfig;
use super::dry;
use super::penalties::Window;
use super::stage::Stage;
use rustc_hash::FxHashMap;

/// What stages look at beside the tokens in play.
pub(super) struct Context<'a> {
    pub(super) config: &'a SamplerConfig,
    pub(super) window: &'a Window,
    /// The recent text that is searched for repetitions.
    pub(super) recent: &'a [u32],
    /// A random number in [0, 1) for a stage that needs one.
    pub(super) uniform: f64,
}

/// The tokens in play.
pub(super) struct Chain<'a> {
    pub(super) candidates: &'a mut Vec<Candidate>,
    /// Whether they are in order of rank.
    ranked: bool,
}

impl<'a> Chain<'a> {
    /// All tokens that are possible.
    pub(super) fn of(logits: &[f32], candidates: &'a mut Vec<Candidate>) -> Chain<'a> {
        candidates.clear();
        let all = logits.iter().enumerate().map(|(id, &logit)| Candidate { logit, id: id as u32 });
        candidates.extend(all.filter(|c| c.logit > f32::NEG_INFINITY));
        Chain { candidates, ranked: false }
    }

    /// The tokens after the first stages, and how many of them these were: what changes few logits does so before there is a
    /// candidate for each token, and a first cut to a few makes no more of them.
    pub(super) fn begin(
        logits: &mut [f32],
        candidates: &'a mut Vec<Candidate>,
        context: &Context<'_>,
    ) -> (Chain<'a>, usize) {
        let config = context.config;
        for (done, stage) in config.order.iter().enumerate() {
            match stage {
                Stage::Penalties => context.window.apply(config, logits),
                Stage::Dry => {
                    for (id, cost) in repetitions(context) {
                        logits.get_mut(id as usize).into_iter().for_each(|logit| *logit -= cost);
                    }
                }
                Stage::TopNSigma if config.top_n_sigma <= 0.0 => {}
                Stage::TopK if config.top_k > 0 => {
                    super::rank(logits, config.top_k, candidates);
                    return (Chain { candidates, ranked: true }, done + 1);
                }
                _ => return (Chain::of(logits, candidates), done),
            }
        }
        (Chain::of(logits, candidates), config.order.len())
    }

    /// One stage.
    pub(super) fn apply(&mut self, stage: Stage, context: &Context<'_>) {
        let config = context.config;
        match stage {
            Stage::Penalties => self.change(|c| context.window.penalised(config, *c)),
            Stage::Dry => self.dry(context),
            Stage::TopNSigma => self.top_n_sigma(config.top_n_sigma),
            Stage::TopK if config.top_k > 0 => self.top_k(config.top_k),
            Stage::TopK => {}
            Stage::Typical => self.typical(config.typical_p),
            Stage::TopP => self.top_p(config.top_p),
            Stage::MinP => self.min_p(config.min_p),
            Stage::Xtc => self.xtc(config.xtc_probability, config.xtc_threshold, context.uniform),
            Stage::Temperature => self.temperature(config),
        }
    }

    fn rank(&mut self) {
        if !self.ranked {
            self.candidates.sort_unstable_by(by_rank);
            self.ranked = true;
        }
    }

    /// Changes logits, and so ranks.
    fn change(&mut self, logit: impl Fn(&Candidate) -> f32) {
        self.candidates.iter_mut().for_each(|c| c.logit = logit(c));
        self.candidates.retain(|c| c.logit > f32::NEG_INFINITY);
        self.ranked = false;
    }

    /// The highest logit.
    fn best(&self) -> f32 {
        self.candidates.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
    }

    /// The probability of each candidate, in their order.
    pub(super) fn probabilities(&self) -> Vec<f64> {
        let max = self.best();
        let weight = |c: &Candidate| if c.logit == max { 1.0 } else { f64::from(c.logit - max).exp() };
        let weights: Vec<f64> = self.candidates.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    fn dry(&mut self, context: &Context<'_>) {
        let costs: FxHashMap<u32, f32> = repetitions(context).collect();
        if !costs.is_empty() {
            self.change(|c| c.logit - costs.get(&c.id).copied().unwrap_or(0.0));
        }
    }

    /// Keeps logits within `n` standard deviations of the best.
    fn top_n_sigma(&mut self, n: f32) {
        if n <= 0.0 || self.candidates.len() < 2 {
            return;
        }
        let logits = || self.candidates.iter().map(|c| f64::from(c.logit));
        let count = self.candidates.len() as f64;
        let mean = logits().sum::<f64>() / count;
        let deviation = (logits().map(|logit| (logit - mean).powi(2)).sum::<f64>() / count).sqrt();
        let best = f64::from(self.best());
        let bar = best - f64::from(n) * deviation;
        // An infinite logit has no deviation, and stays.
        self.candidates.retain(|c| f64::from(c.logit) == best || f64::from(c.logit) >= bar);
    }

    pub(super) fn top_k(&mut self, k: usize) {
        if k < self.candidates.len() && !self.ranked {
            self.candidates.select_nth_unstable_by(k, by_rank);
            self.candidates.truncate(k);
        }
        self.rank();
        self.candidates.truncate(k);
    }

    /// Keeps the tokens whose surprise is nearest to the entropy, until their probabilities exceed `share`.
    fn typical(&mut self, share: f32) {
        if share >= 1.0 {
            return;
        }
        self.rank();
        let probabilities = self.probabilities();
        let surprise = |p: f64| -p.ln();
        let entropy: f64 = probabilities.iter().filter(|&&p| p > 0.0).map(|&p| p * surprise(p)).sum();
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        let distance = |i: usize| (surprise(probabilities[i]) - entropy).abs();
        order.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        let mut sum = 0.0;
        let last = order.iter().position(|&i| {
            sum += probabilities[i];
            sum > f64::from(share)
        });
        order.truncate(last.map_or(order.len(), |last| last + 1));
        let kept = order.iter().map(|&i| self.candidates[i]).collect();
        *self.candidates = kept;
        self.ranked = false;
    }

    fn top_p(&mut self, share: f32) {
        if share < 1.0 {
            self.rank();
            let kept = super::candidates::top_p(self.candidates, share);
            self.candidates.truncate(kept);
        }
    }

    fn min_p(&mut self, fraction: f32) {
        if fraction > 0.0 {
            let best = self.best();
            let floor = super::candidates::min_p_floor(best, fraction);
            self.candidates.retain(|c| c.logit >= floor);
        }
    }

    /// With this chance, of the tokens of at least the threshold's probability only the least likely stays.
    fn xtc(&mut self, chance: f32, threshold: f32, uniform: f64) {
        if chance <= 0.0 || threshold > 0.5 || self.candidates.len() < 2 || uniform > f64::from(chance) {
            return;
        }
        self.rank();
        let likely = self.probabilities().into_iter().take_while(|&p| p >= f64::from(threshold)).count();
        self.candidates.drain(..likely.saturating_sub(1));
    }

    /// Divides by the temperature; by one that follows the entropy, if it has a range.
    pub(super) fn temperature(&mut self, config: &SamplerConfig) {
        let range = config.dynatemp_range;
        let temperature =
            if range > 0.0 { self.dynamic(config.temperature, range, config) } else { config.temperature };
        if temperature > 0.0 {
            let best = self.best();
            // The difference from the best is divided, so that a tiny temperature leaves the best finite.
            let warm = |c: &Candidate| if c.logit == best { 0.0 } else { (c.logit - best) / temperature };
            self.change(warm);
        } else {
            self.top_k(1);
        }
    }

    /// Between `temperature - range` and `temperature + range`, as the entropy lies between none and the most possible.
    fn dynamic(&self, temperature: f32, range: f32, config: &SamplerConfig) -> f32 {
        let (low, high) = ((temperature - range).max(0.0), temperature + range);
        let count = self.candidates.len();
        if count < 2 {
            return temperature;
        }
        let entropy: f64 = self.probabilities().into_iter().filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum();
        let share = entropy / (count as f64).ln();
        low + (high - low) * share.powf(f64::from(config.dynatemp_exponent)) as f32
    }
}

/// What each token costs that would go on repeating a passage.
fn repetitions(context: &Context<'_>) -> impl Iterator<Item = (u32, f32)> {
    let dry = &context.config.dry;
    let (multiplier, base, least) = (dry.multiplier, dry.base, dry.allowed_length);
    let searched = if dry.is_on() && context.recent.len() > least { context.recent } else { &[] };
    let found = dry::repetitions(searched, least, &dry.breakers);
    found.into_iter().map(move |(id, length)| (id, dry::penalty(multiplier, base, least, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of these probabilities by token, after one stage.
    fn left(config: &SamplerConfig, stage: Stage, uniform: f64, probabilities: &[f32]) -> Vec<(u32, f32)> {
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
        let window = Window::new(config, logits.len());
        let context = Context { config, window: &window, recent: &[], uniform };
        let mut candidates = vec![];
        let mut chain = Chain::of(&logits, &mut candidates);
        chain.apply(stage, &context);
        let shares = chain.probabilities();
        let mut all: Vec<_> =
            candidates.iter().zip(shares).map(|(c, p)| (c.id, (p * 1e4).round() as f32 / 1e4)).collect();
        all.sort_by_key(|one| one.0);
        all
    }

    fn ids(left: &[(u32, f32)]) -> Vec<u32> {
        left.iter().map(|one| one.0).collect()
    }

    #[test]
    fn typical_tokens_are_those_of_the_usual_surprise() {
        let of = |typical_p| SamplerConfig { typical_p, ..SamplerConfig::default() };
        // The entropy of 0.97, 0.01, 0.01, 0.01 is 0.17 nats: the first, of 0.03, is nearest.
        assert_eq!(left(&of(0.5), Stage::Typical, 0.0, &[0.97, 0.01, 0.01, 0.01]), [(0, 1.0)]);
        // That of 0.4, 0.2, 0.2, 0.2 is 1.33, and 0.2 has 1.61, 0.4 has 0.92: the three others come before the first.
        assert_eq!(ids(&left(&of(0.5), Stage::Typical, 0.0, &[0.4, 0.2, 0.2, 0.2])), [1, 2, 3]);
        assert_eq!(ids(&left(&of(0.7), Stage::Typical, 0.0, &[0.4, 0.2, 0.2, 0.2])), [0, 1, 2, 3]);
        assert_eq!(left(&of(1.0), Stage::Typical, 0.0, &[0.5, 0.5]).len(), 2);
    }

    #[test]
    fn deviations_are_counted_from_the_best() {
        let of = |top_n_sigma| SamplerConfig { top_n_sigma, ..SamplerConfig::default() };
        let p = [0.1, 0.2, 0.3, 0.4];
        // Logits -2.30, -1.61, -1.20, -0.92: the deviation is 0.52.
        assert_eq!(ids(&left(&of(0.5), Stage::TopNSigma, 0.0, &p)), [3]);
        assert_eq!(ids(&left(&of(1.0), Stage::TopNSigma, 0.0, &p)), [2, 3]);
        assert_eq!(ids(&left(&of(3.0), Stage::TopNSigma, 0.0, &p)), [0, 1, 2, 3]);
        assert_eq!(left(&of(0.0), Stage::TopNSigma, 0.0, &p).len(), 4);
    }

    #[test]
    fn top_choices_go_by_chance() {
        let of = |xtc_probability, xtc_threshold| SamplerConfig {
            xtc_probability,
            xtc_threshold,
            ..SamplerConfig::default()
        };
        let p = [0.4, 0.3, 0.2, 0.1];
        assert_eq!(ids(&left(&of(1.0, 0.09), Stage::Xtc, 0.99, &p)), [3]);
        assert_eq!(ids(&left(&of(1.0, 0.19), Stage::Xtc, 0.99, &p)), [2, 3]);
        assert_eq!(ids(&left(&of(1.0, 0.29), Stage::Xtc, 0.99, &p)), [1, 2, 3]);
        // One above the threshold stays, none does nothing, and chance decides.
        assert_eq!(left(&of(1.0, 0.39), Stage::Xtc, 0.0, &p).len(), 4);
        assert_eq!(left(&of(1.0, 0.45), Stage::Xtc, 0.0, &p).len(), 4);
        assert_eq!(left(&of(1.0, 0.51), Stage::Xtc, 0.0, &[0.6, 0.4]).len(), 2);
        assert_eq!(left(&of(0.5, 0.19), Stage::Xtc, 0.6, &p).len(), 4);
        assert_eq!(left(&of(0.5, 0.19), Stage::Xtc, 0.4, &p).len(), 2);
        assert_eq!(left(&of(0.0, 0.19), Stage::Xtc, 0.0, &p).len(), 4);
    }

    #[test]
    fn a_temperature_follows_the_entropy() {
        let of =
            |temperature, dynatemp_range| SamplerConfig { temperature, dynatemp_range, ..SamplerConfig::default() };
        let p = [0.1, 0.2, 0.3, 0.4];
        assert_eq!(left(&of(0.0, 0.0), Stage::Temperature, 0.0, &p), [(3, 1.0)]);
        // Squares, in proportion.
        assert_eq!(left(&of(0.5, 0.0), Stage::Temperature, 0.0, &p), [(0, 0.0333), (1, 0.1333), (2, 0.3), (3, 0.5333)]);
        // All equal is the most entropy: the highest temperature, which leaves them equal. One sure token is the lowest.
        assert_eq!(left(&of(0.7, 0.7), Stage::Temperature, 0.0, &[0.5, 0.5]), [(0, 0.5), (1, 0.5)]);
        assert_eq!(left(&of(0.5, 0.5), Stage::Temperature, 0.0, &[1.0, 0.0]), [(0, 1.0)]);
        // The entropy 1.2799 of 1.3863: 0.9232 between 0 and 2 is 1.8465.
        let shares = left(&of(1.0, 1.0), Stage::Temperature, 0.0, &p);
        let weights: Vec<f64> = p.iter().map(|&p| f64::from(p).powf(1.0 / 1.8465)).collect();
        let sum: f64 = weights.iter().sum();
        for (share, weight) in shares.iter().zip(weights) {
            assert!((f64::from(share.1) - weight / sum).abs() < 2e-4, "{shares:?}");
        }
    }
}
