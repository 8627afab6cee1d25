//! An open model.

use crate::reply::{Reply, Start};
use crate::{Builder, Chat, Error};
use model::config::Config;
use model::generate::Generator;
use std::path::PathBuf;
use text::chat::{ChatTemplate, OutputParser};
use text::sampler::SamplerConfig;
use text::tokenizer::Tokenizer;

/// An open model and what its cache holds.
pub struct Engine {
    pub(crate) engine: model::engine::Engine,
    pub(crate) generator: Generator,
    pub(crate) sampling: SamplerConfig,
    pub(crate) template: ChatTemplate,
    tokenizer: Tokenizer,
}

impl Engine {
    /// Settings for a model: a GGUF file (of a split model, the first), or `kernloom-demo` for the small model that comes
    /// with the feature `demo`.
    pub fn builder(model: impl Into<PathBuf>) -> Builder {
        Builder::new(model.into())
    }

    pub(crate) fn of_parts(
        engine: model::engine::Engine,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        sampling: SamplerConfig,
    ) -> Engine {
        Engine { engine, generator: Generator::new(), sampling, template, tokenizer }
    }

    /// A conversation, from its beginning.
    pub fn chat(&mut self) -> Chat<'_> {
        Chat::new(self)
    }

    /// Continues a text as it is, without a chat template, with at most so many tokens.
    ///
    /// # Errors
    /// A text that is empty or does not fit into the context, and what the compiler and the device say.
    pub fn complete(&mut self, text: &str, limit: Option<usize>) -> Result<Reply<'_>, Error> {
        let prompt = self.tokenizer.encode(text, true, false);
        let output = OutputParser::new(false, &[]).without_reasoning();
        Reply::start(self, None, Start { prompt, output, limit })
    }

    /// What the model is.
    pub fn config(&self) -> &Config {
        self.engine.config()
    }

    /// Text to tokens and back.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What runs the steps, for what this layer lacks; it shares the cache with the conversation. A step gives logits of as
    /// many tokens as [`Builder::rows`] says.
    pub fn steps(&mut self) -> &mut model::engine::Engine {
        self.generator = Generator::new();
        &mut self.engine
    }
}
