//! From logits to the next token, and from streamed text to where it must stop.
//!
//! A [`Sampler`] belongs to one sequence. After its first tokens it allocates nothing: buffers are
//! as long as the vocabulary and stay.

mod candidates;
mod chain;
mod config;
mod draw;
mod dry;
mod mirostat;
mod penalties;
mod philox;
mod setting;
mod stage;
mod stop;

pub use config::{Dry, SamplerConfig, SamplerError};
pub use draw::{BIASED, Draw, RANKED};
pub use dry::{BREAKERS, Breakers};
pub use setting::{SETTINGS, Setting};
pub use stage::{Stage, UnknownStage};
pub use stop::{StopStrings, Stopped};

use candidates::Candidate;
use chain::{Chain, Context};
use mirostat::Mirostat;
use penalties::Window;
use std::collections::VecDeque;

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
    /// The last tokens, as many as are searched for repetitions.
    recent: VecDeque<u32>,
    mirostat: Mirostat,
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
            recent: VecDeque::new(),
            mirostat: Mirostat::new(&config),
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
        let dry = &self.config.dry;
        if dry.is_on() {
            if self.recent.len() >= dry.window {
                self.recent.pop_front();
            }
            self.recent.push_back(id);
        }
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
        let told = self.config.logprobs_of_draw && self.config.logprobs.is_some();
        let (id, draw) = if self.config.is_plain() {
            self.window.apply(&self.config, &mut self.logits);
            let draw = told.then(|| self.drawn_from());
            (self.choose(), draw)
        } else {
            self.choose_by_stages(told)
        };
        let id = id.ok_or(SamplerError::NoCandidate)?;
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

    /// A token by the stages in their order; and what it was drawn from, likeliest first, if that is told.
    fn choose_by_stages(&mut self, told: bool) -> (Option<u32>, Option<Vec<Logprob>>) {
        let config = &self.config;
        let uniform = |number| philox::nth_uniform(config.seed, self.step, number);
        let mut chain;
        if config.mirostat > 0 {
            chain = Chain::of(&self.logits, &mut self.candidates);
            chain.temperature(config);
            self.mirostat.cut(&mut chain, config, self.logits.len());
        } else {
            let context =
                Context { config, window: &self.window, recent: self.recent.make_contiguous(), uniform: uniform(1) };
            let begun = Chain::begin(&mut self.logits, &mut self.candidates, &context);
            chain = begun.0;
            config.order[begun.1..].iter().for_each(|&stage| chain.apply(stage, &context));
            chain.top_k(usize::MAX);
        }
        let shares = chain.probabilities();
        let drawn = candidates::draw(&self.candidates, 1.0, uniform(0));
        if config.mirostat > 0
            && let Some(place) = drawn.and_then(|drawn| self.candidates.iter().position(|c| *c == drawn))
        {
            self.mirostat.learn(config, shares[place]);
        }
        let ranked = || self.candidates.iter().zip(&shares).map(|(c, p)| Logprob { id: c.id, logprob: p.ln() as f32 });
        (drawn.map(|drawn| drawn.id), told.then(|| ranked().collect()))
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
        score_into(logits, id, count, &mut self.candidates, &mut self.top_logprobs)
    }
}

/// The log-probability of a token as the model gives it, and those of the likeliest, so many, likeliest first. A token that
/// cannot come has minus infinity, and where every logit is NaN or minus infinity it is no number.
pub fn score(logits: &[f32], id: u32, count: usize) -> (f32, Vec<Logprob>) {
    let (mut candidates, mut top) = (vec![], vec![]);
    (score_into(logits, id, count, &mut candidates, &mut top), top)
}

fn score_into(logits: &[f32], id: u32, count: usize, candidates: &mut Vec<Candidate>, top: &mut Vec<Logprob>) -> f32 {
    let max = candidates::best(logits).map_or(0.0, |best| best.logit);
    let total = candidates::total_weight(logits, max).ln();
    let logprob = |logit: f32| {
        if logit == max { -total as f32 } else { (f64::from(logit - max) - total) as f32 }
    };
    top.clear();
    if count > 0 {
        rank(logits, count, candidates);
        top.extend(candidates.iter().map(|c| Logprob { id: c.id, logprob: logprob(c.logit) }));
    }
    logprob(logits[id as usize])
}

/// Fills `out` with the `count` best candidates in order of rank.
fn rank(logits: &[f32], count: usize, out: &mut Vec<Candidate>) {
    out.clear();
    out.reserve(candidates::buffer_len(count, logits.len()));
    candidates::top(logits, count, out);
}

#[cfg(test)]
mod tests;
