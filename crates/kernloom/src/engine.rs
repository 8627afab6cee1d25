//! An open model.

use crate::reply::{Reply, Start};
use crate::{Builder, Chat, Error};
use model::config::{Config, Pooling};
use model::generate::Generator;
use model::pooling;
use std::path::PathBuf;
use text::chat::{ChatTemplate, OutputParser};
use text::rank::Pairs;
use text::sampler::SamplerConfig;
use text::tokenizer::Tokenizer;

/// What becomes tokens.
pub(crate) struct Words {
    pub tokenizer: Tokenizer,
    pub template: ChatTemplate,
    pub pairs: Pairs,
}

/// An open model and what its cache holds.
pub struct Engine {
    pub(crate) engine: model::engine::Engine,
    pub(crate) generator: Generator,
    pub(crate) sampling: SamplerConfig,
    pub(crate) template: ChatTemplate,
    tokenizer: Tokenizer,
    pairs: Pairs,
    /// How embeddings are made, if not as the file says.
    pooling: Option<Pooling>,
}

impl Engine {
    /// Settings for a model: a GGUF file (of a split model, the first), or `kernloom-demo` for the small model that comes
    /// with the feature `demo`.
    pub fn builder(model: impl Into<PathBuf>) -> Builder {
        Builder::new(model.into())
    }

    pub(crate) fn of_parts(
        engine: model::engine::Engine,
        words: Words,
        sampling: SamplerConfig,
        pooling: Option<Pooling>,
    ) -> Engine {
        let Words { tokenizer, template, pairs } = words;
        Engine { engine, generator: Generator::new(), sampling, template, tokenizer, pairs, pooling }
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

    /// A vector for each text, of length 1: the product of two says how alike their texts are. It is made of the hidden
    /// states as the file says, or [`Builder::pooling`], or of their mean. Any model makes them; good ones are made by a model
    /// that was trained for it, which often wants a word before the text that its publisher tells. What the cache held of a
    /// conversation is computed again.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernloom::Error> {
    /// use kernloom::Engine;
    ///
    /// let mut engine = Engine::builder("all-MiniLM-L6-v2.gguf").build()?;
    /// let vectors = engine.embed(&["A fox runs.", "An animal is fast.", "Prices fell."])?;
    /// let alike = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    /// assert!(alike(&vectors[0], &vectors[1]) > alike(&vectors[0], &vectors[2]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A text that is empty or does not fit into the context, a model that ranks ([`Engine::rank`]) or pools nothing and no
    /// [`Builder::pooling`], and what the compiler and the device say.
    pub fn embed(&mut self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<f32>>, Error> {
        let pooling = self.pooling.or(self.config().pooling).unwrap_or(Pooling::Mean);
        if matches!(pooling, Pooling::Rank | Pooling::Each) {
            return Err(Error::Pooling(pooling));
        }
        self.generator = Generator::new();
        let vector = |text: &dyn AsRef<str>| {
            let tokens = self.tokenizer.encode(text.as_ref(), true, false);
            Ok(pooling::normalised(&pooling::vector(&mut self.engine, &tokens, pooling)?, 2))
        };
        texts.iter().map(|text| text as &dyn AsRef<str>).map(vector).collect()
    }

    /// How well each document fits a query, by a model that ranks: the more the better, on a scale of the model's own. What the
    /// cache held of a conversation is computed again.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernloom::Error> {
    /// use kernloom::Engine;
    ///
    /// let mut engine = Engine::builder("bge-reranker-v2-m3.gguf").build()?;
    /// let scores = engine.rank("What is a panda?", &["A bear of China.", "A river in Peru."])?;
    /// assert!(scores[0] > scores[1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A model without the head of a classifier, a pair that does not fit into the context, and what the compiler and the
    /// device say.
    pub fn rank(&mut self, query: &str, documents: &[impl AsRef<str>]) -> Result<Vec<f32>, Error> {
        self.generator = Generator::new();
        let asked = self.pairs.asked(&self.tokenizer, query);
        let score = |document: &dyn AsRef<str>| {
            let scores = pooling::vector(&mut self.engine, &asked.with(document.as_ref()), Pooling::Rank)?;
            Ok(scores.first().copied().unwrap_or(f32::NAN))
        };
        documents.iter().map(|document| document as &dyn AsRef<str>).map(score).collect()
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
