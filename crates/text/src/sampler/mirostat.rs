//! Mirostat: tokens are cut off so that the surprise of what is taken stays near a wish (Basu et al., "Mirostat: a neural
//! text decoding algorithm that directly controls perplexity", 2021). It takes the place of all stages but the temperature,
//! as in llama.cpp.

use super::chain::Chain;
use super::config::SamplerConfig;

/// Tokens by which the first version judges how probabilities fall.
const JUDGED: usize = 100;

/// Which tokens stay, and what was learnt from those that were taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mirostat {
    /// Bits of surprise that a token may have.
    bound: f64,
}

impl Mirostat {
    /// At the start of a text.
    pub(super) fn new(config: &SamplerConfig) -> Mirostat {
        Mirostat { bound: 2.0 * f64::from(config.mirostat_tau) }
    }

    /// Cuts off what would surprise too much. `vocab` is the number of tokens that there are.
    pub(super) fn cut(&self, chain: &mut Chain<'_>, config: &SamplerConfig, vocab: usize) {
        chain.top_k(usize::MAX);
        let probabilities = chain.probabilities();
        let kept = match config.mirostat {
            1 => self.likeliest(&probabilities, vocab),
            _ => probabilities.iter().take_while(|&&p| -p.log2() <= self.bound).count(),
        };
        chain.top_k(kept.max(1));
    }

    /// How many tokens stay if probabilities fall by a power law, as those of the first ones do.
    fn likeliest(&self, probabilities: &[f64], vocab: usize) -> usize {
        let (mut products, mut squares) = (0.0, 0.0);
        for (i, pair) in probabilities.windows(2).take(JUDGED - 1).enumerate() {
            let (t, b) = (((i + 2) as f64 / (i + 1) as f64).ln(), (pair[0] / pair[1]).ln());
            products += t * b;
            squares += t * t;
        }
        let slope = products / squares;
        let over = slope - 1.0;
        let k = ((over * self.bound.exp2()) / (1.0 - (vocab as f64).powf(-over))).powf(1.0 / slope);
        if k.is_nan() { 1 } else { k as usize }
    }

    /// Learns from the probability that the token which was taken had among those that were left.
    pub(super) fn learn(&mut self, config: &SamplerConfig, probability: f64) {
        let error = -probability.log2() - f64::from(config.mirostat_tau);
        self.bound -= f64::from(config.mirostat_eta) * error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::candidates::Candidate;

    fn kept(mirostat: i32, bound: f64, probabilities: &[f32]) -> usize {
        let config = SamplerConfig { mirostat, ..SamplerConfig::default() };
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
        let mut candidates: Vec<Candidate> = vec![];
        Mirostat { bound }.cut(&mut Chain::of(&logits, &mut candidates), &config, probabilities.len());
        candidates.len()
    }

    #[test]
    fn what_surprises_too_much_goes() {
        let p = [0.5, 0.25, 0.125, 0.125];
        assert_eq!([0.5, 1.5, 2.5, 3.5].map(|bound| kept(2, bound, &p)), [1, 1, 2, 4]);
        // One over the rank: the slope is one, and 2^bound tokens over ln(vocab) stay.
        let harmonic: Vec<f32> = (1..=1000).map(|rank| 1.0 / rank as f32 / 7.485).collect();
        let expected = |bound: f64| (bound.exp2() / 1000f64.ln()) as usize;
        for bound in [4.0, 6.0, 8.0] {
            assert!(kept(1, bound, &harmonic).abs_diff(expected(bound)) <= 1, "{bound}");
        }
        assert_eq!(kept(1, -9.0, &p), 1);
        assert_eq!(kept(1, 5.0, &[1.0]), 1);
    }

    #[test]
    fn the_bound_follows_the_wish() {
        let config = SamplerConfig { mirostat: 2, mirostat_tau: 3.0, mirostat_eta: 0.1, ..SamplerConfig::default() };
        let mut mirostat = Mirostat::new(&config);
        assert_eq!(mirostat.bound, 6.0);
        // A token of one bit surprises two bits less than is wished.
        mirostat.learn(&config, 0.5);
        assert!((mirostat.bound - 6.2).abs() < 1e-6);
    }
}
