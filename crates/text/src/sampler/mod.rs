//! From logits to the next token, and from streamed text to where it must stop.
//!
//! A [`Sampler`] belongs to one sequence. After its first tokens it allocates nothing: buffers are
//! as long as the vocabulary and stay.

mod candidates;
mod config;
mod draw;
mod penalties;
mod philox;
mod stop;

pub use config::{SamplerConfig, SamplerError};
pub use draw::{Draw, RANKED};
pub use stop::{StopStrings, Stopped};

use candidates::Candidate;
use penalties::Window;

/// A token and the natural logarithm of the probability that the model gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logprob {
    /// The token.
    pub id: u32,
    /// Of the distribution that the model put out: before bias, penalties, cuts and temperature.
    pub logprob: f32,
}

/// The token taken by one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// The token.
    pub id: u32,
    /// Its log-probability, if the configuration asks for it.
    pub logprob: Option<f32>,
}

/// Chooses the tokens of one sequence.
///
/// ```
/// use text::sampler::{Sampler, SamplerConfig};
///
/// let mut sampler = Sampler::new(SamplerConfig::greedy(), 4).unwrap();
/// let sampled = sampler.sample(&[0.5, -1.0, 3.0, 2.0]).unwrap();
/// assert_eq!(sampled.id, 2);
/// sampler.accept(sampled.id);
/// ```
#[derive(Debug, Clone)]
pub struct Sampler {
    config: SamplerConfig,
    window: Window,
    step: u64,
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
    top_logprobs: Vec<Logprob>,
}

impl Sampler {
    /// A sampler for logits over `vocab` tokens.
    ///
    /// # Errors
    /// A setting outside its range, a bias for a token that does not exist, or an empty vocabulary.
    pub fn new(config: SamplerConfig, vocab: usize) -> Result<Sampler, SamplerError> {
        config.check(vocab)?;
        Ok(Sampler {
            window: Window::new(&config, vocab),
            logits: vec![0.0; vocab],
            candidates: Vec::with_capacity(vocab),
            top_logprobs: Vec::with_capacity(config.logprobs.unwrap_or(0).min(vocab)),
            config,
            step: 0,
        })
    }

    /// Takes a token of the sequence into the window of the penalties: every sampled token that is
    /// kept, and the tokens of the prompt if they should count.
    pub fn accept(&mut self, id: u32) {
        self.window.push(id);
    }

    /// Chooses a token. The id is always an index of `logits`.
    ///
    /// NaN counts as minus infinity, which is never chosen; plus infinity outweighs everything
    /// finite. Of equal logits the lower id ranks first.
    ///
    /// # Errors
    /// Logits of another length, or none that is above minus infinity.
    pub fn sample(&mut self, logits: &[f32]) -> Result<Sampled, SamplerError> {
        let vocab = self.logits.len();
        if logits.len() != vocab {
            return Err(SamplerError::WrongLength { logits: logits.len(), vocab });
        }
        self.logits.copy_from_slice(logits);
        for &(id, bias) in &self.config.logit_bias {
            self.logits[id as usize] += bias;
        }
        self.window.apply(&self.config, &mut self.logits);
        let draw = (self.config.logprobs_of_draw && self.config.logprobs.is_some()).then(|| self.drawn_from());
        let id = self.choose().ok_or(SamplerError::NoCandidate)?;
        let logprob = match (self.config.logprobs, draw) {
            (Some(count), Some(draw)) => {
                self.top_logprobs.clear();
                self.top_logprobs.extend(draw.iter().take(count));
                draw.iter().find(|c| c.id == id).map(|c| c.logprob)
            }
            (count, _) => count.map(|count| self.log_probabilities(logits, id, count)),
        };
        self.step += 1;
        Ok(Sampled { id, logprob })
    }

    /// The likeliest tokens of the last step, likeliest first: as many as the configuration asks
    /// for.
    pub fn top_logprobs(&self) -> &[Logprob] {
        &self.top_logprobs
    }

    /// How many tokens were sampled. The random number of a step depends on the seed and this.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Continues with the random numbers of another step, to take up a sequence again.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// The configuration.
    pub fn config(&self) -> &SamplerConfig {
        &self.config
    }

    fn choose(&mut self) -> Option<u32> {
        let SamplerConfig { temperature, top_k, top_p, min_p, .. } = self.config;
        let best = candidates::best(&self.logits)?;
        if self.config.is_greedy() {
            return Some(best.id);
        }
        let uniform = philox::uniform(self.config.seed, self.step);
        let floor = candidates::min_p_floor(best.logit, min_p);
        if top_k > 0 {
            rank(&self.logits, top_k, &mut self.candidates);
            if top_p < 1.0 {
                let kept = candidates::top_p(&self.candidates, top_p);
                self.candidates.truncate(kept);
            }
            let kept = self.candidates.partition_point(|c| c.logit >= floor);
            let kept = &self.candidates[..kept];
            return candidates::draw(kept, temperature, uniform).map(|drawn| drawn.id);
        }
        let mut bar = None;
        if top_p < 1.0 {
            bar = candidates::top_p_bar(&self.logits, best.logit, top_p, &mut self.candidates);
        }
        if min_p > 0.0 && bar.is_none_or(|bar| bar.logit < floor) {
            bar = Some(Candidate { logit: floor, id: u32::MAX });
        }
        candidates::draw_above(&mut self.logits, best.logit, bar, temperature, uniform)
    }

    /// The tokens that one is drawn from, likeliest first.
    fn drawn_from(&self) -> Vec<Logprob> {
        let SamplerConfig { temperature, top_k, top_p, min_p, .. } = self.config;
        let Some(best) = candidates::best(&self.logits) else { return vec![] };
        if self.config.is_greedy() {
            return vec![Logprob { id: best.id, logprob: 0.0 }];
        }
        let mut ranked = vec![];
        rank(&self.logits, if top_k == 0 { self.logits.len() } else { top_k }, &mut ranked);
        if top_p < 1.0 {
            ranked.truncate(candidates::top_p(&ranked, top_p));
        }
        let floor = candidates::min_p_floor(best.logit, min_p);
        ranked.truncate(ranked.partition_point(|c| c.logit >= floor));
        let scaled = |c: &Candidate| {
            if c.logit == best.logit { 0.0 } else { f64::from(c.logit - best.logit) / f64::from(temperature) }
        };
        let total = ranked.iter().map(|c| scaled(c).exp()).sum::<f64>().ln();
        ranked.iter().map(|c| Logprob { id: c.id, logprob: (scaled(c) - total) as f32 }).collect()
    }

    /// Lists the likeliest tokens and returns the log-probability of `id`.
    fn log_probabilities(&mut self, logits: &[f32], id: u32, count: usize) -> f32 {
        // `id` came from these logits, so one of them is above minus infinity.
        let max = candidates::best(logits).map_or(0.0, |best| best.logit);
        let total = candidates::total_weight(logits, max).ln();
        let logprob = |logit: f32| {
            if logit == max { -total as f32 } else { (f64::from(logit - max) - total) as f32 }
        };
        self.top_logprobs.clear();
        if count > 0 {
            rank(logits, count, &mut self.candidates);
            let ranked = self.candidates.iter().map(|c| Logprob { id: c.id, logprob: logprob(c.logit) });
            self.top_logprobs.extend(ranked);
        }
        logprob(logits[id as usize])
    }
}

/// Fills `out` with the `count` best candidates in order of rank.
fn rank(logits: &[f32], count: usize, out: &mut Vec<Candidate>) {
    out.clear();
    out.reserve(candidates::buffer_len(count, logits.len()));
    candidates::top(logits, count, out);
}

#[cfg(test)]
mod tests;
