//! What a user can ask of sampling, and which of it makes sense.

use super::dry::Breakers;
use super::stage::Stage;
use thiserror::Error;

/// How the next token is chosen.
///
/// Logit bias comes first, then the stages in their [order](SamplerConfig::order), then the draw. In the usual order top-p and
/// min-p look at the distribution before temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerConfig {
    /// Divides the logits; 0 always takes the likeliest token.
    pub temperature: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the likeliest tokens until their probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Keep tokens whose surprise is nearest to the entropy until their probabilities exceed this sum; 1 keeps all.
    pub typical_p: f32,
    /// Keep logits within this many standard deviations of the best; 0 or less keeps all.
    pub top_n_sigma: f32,
    /// How often, of several tokens of at least `xtc_threshold`, only the least likely stays; 0 is never.
    pub xtc_probability: f32,
    /// The probability from which a token counts for that; above one half none does.
    pub xtc_threshold: f32,
    /// The temperature moves this far to both sides, as entropy has it; 0 leaves it where it is.
    pub dynatemp_range: f32,
    /// The power of the share of the entropy by which it moves.
    pub dynatemp_exponent: f32,
    /// 1 or 2 cuts by [mirostat](https://arxiv.org/abs/2007.14966) of this version, in place of all stages but temperature.
    pub mirostat: i32,
    /// The surprise in bits that mirostat aims at.
    pub mirostat_tau: f32,
    /// How fast mirostat learns.
    pub mirostat_eta: f32,
    /// Penalties for passages that repeat.
    pub dry: Dry,
    /// The stages, each at most once; those that are not in it do nothing.
    pub order: Vec<Stage>,
    /// Divides positive logits and multiplies negative ones of tokens in the window; 1 is off.
    pub repeat_penalty: f32,
    /// Subtracted from the logit once for every occurrence in the window.
    pub frequency_penalty: f32,
    /// Subtracted from the logit of every token in the window.
    pub presence_penalty: f32,
    /// How many of the last tokens the penalties look at; 0 is none.
    pub penalty_window: usize,
    /// Added to the logits of single tokens; minus infinity forbids a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// The random numbers to draw with. Equal seeds give equal tokens for equal logits.
    pub seed: u64,
    /// Report log-probabilities: of the token taken and of this many of the likeliest.
    pub logprobs: Option<usize>,
    /// Of these, report what the token was drawn by, after all cuts and the temperature, and not what the model said.
    pub logprobs_of_draw: bool,
}

impl Default for SamplerConfig {
    /// Plain sampling: temperature 1, nothing cut off, nothing penalised.
    fn default() -> SamplerConfig {
        SamplerConfig {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            top_n_sigma: -1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            mirostat: 0,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            dry: Dry::default(),
            order: Stage::USUAL.to_vec(),
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: 64,
            logit_bias: Vec::new(),
            seed: 0,
            logprobs: None,
            logprobs_of_draw: false,
        }
    }
}

impl SamplerConfig {
    /// Always the likeliest token.
    pub fn greedy() -> SamplerConfig {
        SamplerConfig { temperature: 0.0, ..SamplerConfig::default() }
    }

    /// What programs do unless they are told otherwise: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05.
    pub fn usual() -> SamplerConfig {
        SamplerConfig { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, ..SamplerConfig::default() }
    }

    /// Whether it takes the likeliest token whatever the random number is.
    pub(super) fn is_greedy(&self) -> bool {
        (self.temperature == 0.0 || self.top_k == 1) && self.is_plain()
    }

    /// Whether no stage has a say but penalties, top-k, top-p, min-p and temperature, in the usual order.
    pub(super) fn is_plain(&self) -> bool {
        self.order == Stage::USUAL
            && self.typical_p >= 1.0
            && self.top_n_sigma <= 0.0
            && self.xtc_probability <= 0.0
            && self.dynatemp_range <= 0.0
            && self.mirostat == 0
            && !self.dry.is_on()
    }

    pub(super) fn penalises(&self) -> bool {
        self.penalty_window > 0
            && (self.repeat_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }

    /// Whether every setting makes sense for a vocabulary of this size.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self, vocab: usize) -> Result<(), SamplerError> {
        let at_least = |name, value: f32, low: f32| in_range(name, value, low, f32::MAX);
        if vocab == 0 {
            return Err(SamplerError::EmptyVocabulary);
        }
        at_least("temperature", self.temperature, 0.0)?;
        in_range("top_p", self.top_p, 0.0, 1.0)?;
        in_range("min_p", self.min_p, 0.0, 1.0)?;
        in_range("typical_p", self.typical_p, 0.0, 1.0)?;
        at_least("top_n_sigma", self.top_n_sigma, f32::MIN)?;
        in_range("xtc_probability", self.xtc_probability, 0.0, 1.0)?;
        in_range("xtc_threshold", self.xtc_threshold, 0.0, 1.0)?;
        at_least("dynatemp_range", self.dynatemp_range, 0.0)?;
        at_least("dynatemp_exponent", self.dynatemp_exponent, 0.0)?;
        in_range("mirostat", self.mirostat as f32, 0.0, 2.0)?;
        at_least("mirostat_tau", self.mirostat_tau, 0.0)?;
        in_range("mirostat_eta", self.mirostat_eta, 0.0, 1.0)?;
        at_least("dry_multiplier", self.dry.multiplier, 0.0)?;
        at_least("dry_base", self.dry.base, 1.0)?;
        if let Some(twice) = (1..self.order.len()).find(|&i| self.order[..i].contains(&self.order[i])) {
            return Err(SamplerError::Twice { stage: self.order[twice] });
        }
        at_least("repeat_penalty", self.repeat_penalty, f32::MIN_POSITIVE)?;
        at_least("frequency_penalty", self.frequency_penalty, f32::MIN)?;
        at_least("presence_penalty", self.presence_penalty, f32::MIN)?;
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocab {
                return Err(SamplerError::BiasOutOfRange { id, vocab });
            }
            in_range("logit_bias", bias, f32::NEG_INFINITY, f32::MAX)?;
        }
        Ok(())
    }
}

fn in_range(name: &'static str, value: f32, low: f32, high: f32) -> Result<(), SamplerError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(SamplerError::OutOfRange { name, value, low, high }) }
}

/// DRY: a penalty for tokens that would go on repeating a passage of the recent text.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// What a passage of the allowed length costs; 0 is off.
    pub multiplier: f32,
    /// By what it grows with each token.
    pub base: f32,
    /// Tokens of a passage that cost nothing more.
    pub allowed_length: usize,
    /// How many of the last tokens are searched; 0 is off.
    pub window: usize,
    /// What ends a passage.
    pub breakers: Breakers,
}

impl Dry {
    pub(super) fn is_on(&self) -> bool {
        self.multiplier > 0.0 && self.window > 0
    }
}

impl Default for Dry {
    /// Off; all of the text, nothing that ends a passage.
    fn default() -> Dry {
        Dry { multiplier: 0.0, base: 1.75, allowed_length: 2, window: usize::MAX, breakers: Breakers::default() }
    }
}

/// Why sampling is impossible.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SamplerError {
    /// A setting outside its range, or not a number.
    #[error("{name} is {value}, which is not between {low} and {high}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f32,
        /// Lowest allowed value.
        low: f32,
        /// Highest allowed value.
        high: f32,
    },
    /// A bias for a token that does not exist.
    #[error("logit_bias names token {id} of a vocabulary of {vocab}")]
    BiasOutOfRange {
        /// The token.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A stage that is in the order twice.
    #[error("the sampler {stage} is in the order twice")]
    Twice {
        /// The stage.
        stage: Stage,
    },
    /// A sampler for no tokens.
    #[error("there are no tokens to sample from")]
    EmptyVocabulary,
    /// Logits of another vocabulary.
    #[error("{logits} logits for a vocabulary of {vocab}")]
    WrongLength {
        /// How many logits came.
        logits: usize,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// Every logit is minus infinity or not a number.
    #[error("no token is possible: every logit is minus infinity or not a number")]
    NoCandidate,
}
