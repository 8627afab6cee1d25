//! What a user can ask of sampling, and which of it makes sense.

use thiserror::Error;

/// How the next token is chosen.
///
/// The stages run in this order: logit bias, penalties, top-k, top-p, min-p, temperature, draw.
/// Top-p and min-p therefore look at the distribution before temperature.
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

    /// Whether it takes the likeliest token whatever the random number is.
    pub(super) fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
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
