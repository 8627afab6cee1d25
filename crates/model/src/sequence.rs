//! One sequence: what it continues, how its tokens are chosen, and when it is over.
//!
//! Whoever runs steps has one for each text: [`crate::generate`] for one at a time, [`crate::scheduler`] for many. Where
//! its positions lie in a cache, and what of them is computed, is their business.

use std::ops::ControlFlow;
use std::sync::Arc;
use text::sampler::{Draw, Logprob, Sampled, Sampler, SamplerConfig, SamplerError};

/// What is to be generated.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tokens to continue.
    pub prompt: Vec<u32>,
    /// How tokens are chosen. The random numbers depend on the seed and on the number of tokens that came out, and on
    /// nothing else.
    pub sampling: SamplerConfig,
    /// Most tokens to generate; `None` goes on until the end or until the context is full.
    pub limit: Option<usize>,
    /// Tokens that end the text.
    pub ends: Arc<[u32]>,
}

/// Why a prompt cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// Nothing to continue.
    #[error("the prompt is empty; a model needs at least one token to continue from")]
    Empty,
    /// A token that the vocabulary lacks.
    #[error("the prompt has token {token}, the vocabulary has {vocab}")]
    Token {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A prompt that leaves no room for an answer.
    #[error("the prompt has {tokens} tokens, the context holds {context}; raise it with -c, or shorten the prompt")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Positions of a sequence.
        context: usize,
    },
}

/// Checks that there is something to continue, and room for it.
///
/// # Errors
/// A prompt that is empty or too long, or has tokens that are none.
pub fn check_prompt(prompt: &[u32], vocab: usize, context: usize) -> Result<(), PromptError> {
    let tokens = prompt.len();
    if tokens == 0 {
        return Err(PromptError::Empty);
    }
    if let Some(&token) = prompt.iter().find(|&&token| token as usize >= vocab) {
        return Err(PromptError::Token { token, vocab });
    }
    if tokens > context { Err(PromptError::TooLong { tokens, context }) } else { Ok(()) }
}

/// What happens to a sequence, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// So many tokens of the prompt are in the cache, of so many.
    Prompt {
        /// Tokens that the cache held already.
        cached: usize,
        /// Tokens in the cache now.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// A token; it is no end token.
    Token {
        /// The token.
        sampled: Sampled,
        /// The likeliest, if log-probabilities are wanted.
        top: &'a [Logprob],
    },
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended the text.
    End,
    /// As many tokens as were asked for.
    Limit,
    /// The cache is full.
    ContextFull,
    /// The caller said so.
    Stopped,
}

/// A prompt and what came out.
#[derive(Clone, Debug)]
pub struct Sequence {
    tokens: Vec<u32>,
    prompt: usize,
    sampling: SamplerConfig,
    /// Made when a token is first chosen: it is as large as the vocabulary.
    sampler: Option<Sampler>,
    limit: Option<usize>,
    ends: Arc<[u32]>,
}

impl Sequence {
    /// A sequence of which nothing came out yet.
    pub fn new(request: Request) -> Sequence {
        let Request { prompt: tokens, sampling, limit, ends } = request;
        Sequence { prompt: tokens.len(), tokens, sampling, sampler: None, limit, ends }
    }

    /// The prompt and what came out.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Tokens of the prompt.
    pub fn prompt(&self) -> usize {
        self.prompt
    }

    /// Tokens that came out.
    pub fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Whether a token ends the text.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Chooses the token after the last.
    ///
    /// # Errors
    /// What the sampler says, for example when every logit is NaN.
    pub fn choose(&mut self, logits: &[f32]) -> Result<Sampled, SamplerError> {
        let sampler = match &mut self.sampler {
            Some(sampler) => sampler,
            None => {
                let sampler = self.sampler.insert(Sampler::new(self.sampling.clone(), logits.len())?);
                self.tokens.iter().for_each(|&token| sampler.accept(token));
                sampler
            }
        };
        sampler.set_step((self.tokens.len() - self.prompt) as u64);
        sampler.sample(logits)
    }

    /// Whether a device may choose its tokens.
    pub fn is_drawn(&self) -> bool {
        self.sampling.is_drawn()
    }

    /// Whether a token is wanted after so many that were not told yet.
    pub fn goes_on(&self, untold: usize) -> bool {
        self.limit.is_none_or(|limit| self.generated() + untold < limit)
    }

    /// How a device may choose the token that comes after so many that it has not told yet; `None` if it cannot, or if
    /// that token is one too many.
    pub fn draw(&self, untold: usize) -> Option<Draw> {
        let draw = || self.sampling.draw((self.generated() + untold) as u64);
        self.goes_on(untold).then(draw).flatten()
    }

    /// Takes the token that was chosen last: `hear` is told of it, unless it ends the text or is one too many. Says why the
    /// text is over, if it is.
    pub fn take(&mut self, sampled: Sampled, hear: impl FnOnce(Event<'_>) -> ControlFlow<()>) -> Option<Finish> {
        if self.is_end(sampled.id) {
            return Some(Finish::End);
        }
        if self.limit == Some(0) {
            return Some(Finish::Limit);
        }
        self.tokens.push(sampled.id);
        let top = match &mut self.sampler {
            Some(sampler) => {
                sampler.accept(sampled.id);
                sampler.top_logprobs()
            }
            None => &[],
        };
        if hear(Event::Token { sampled, top }).is_break() {
            return Some(Finish::Stopped);
        }
        self.limit.is_some_and(|limit| self.generated() >= limit).then_some(Finish::Limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(limit: Option<usize>) -> Sequence {
        let sampling = SamplerConfig::greedy();
        Sequence::new(Request { prompt: vec![7], sampling, limit, ends: Arc::from([3]) })
    }

    /// Takes the likeliest of four tokens; what was heard, and how it ended.
    fn take(sequence: &mut Sequence, likeliest: usize, stop: bool) -> (Option<u32>, Option<Finish>) {
        let mut logits = [0.0; 4];
        logits[likeliest] = 1.0;
        let (sampled, mut heard) = (sequence.choose(&logits).unwrap(), None);
        let finish = sequence.take(sampled, |event| {
            heard = matches!(event, Event::Token { .. }).then_some(sampled.id);
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (heard, finish)
    }

    #[test]
    fn every_way_to_end() {
        let mut text = sequence(Some(2));
        assert_eq!(take(&mut text, 1, false), (Some(1), None));
        assert_eq!(take(&mut text, 2, false), (Some(2), Some(Finish::Limit)));
        assert_eq!((text.tokens(), text.prompt(), text.generated()), (&[7, 1, 2][..], 1, 2));
        assert_eq!(take(&mut sequence(None), 3, false), (None, Some(Finish::End)));
        assert_eq!(take(&mut sequence(Some(0)), 1, false), (None, Some(Finish::Limit)));
        // Whoever hears of the last token and stops has stopped.
        assert_eq!(take(&mut sequence(Some(1)), 1, true), (Some(1), Some(Finish::Stopped)));
    }
}
