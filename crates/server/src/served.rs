//! A model that answers: its engine's worker, its words, and what requests get that do not say.

use crate::budget;
use crate::error::ApiError;
use crate::facts::Facts;
use crate::fields::Fields;
use crate::grammar::{Grammars, Isolation};
use gguf::plain;
use model::scheduler::worker::Worker;
use std::sync::{Arc, OnceLock};
use text::chat::ChatTemplate;
use text::fill::Fill;
use text::rank::Pairs;
use text::sampler::SamplerConfig;
use text::tokenizer::Tokenizer;

/// What a request gets when it does not say.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// How tokens are chosen.
    pub sampling: SamplerConfig,
    /// The seed; another one each time if there is none.
    pub seed: Option<u64>,
    /// Most tokens to generate.
    pub limit: Option<usize>,
    /// Whether to think; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// Whether reasoning stays in the text.
    pub raw_reasoning: bool,
    /// Whether special tokens that are spelled out in messages are special.
    pub parse_special: bool,
}

/// A model that answers.
pub struct Model {
    /// Runs the requests.
    pub worker: Worker,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversations to text; or why that cannot be.
    pub template: Result<ChatTemplate, String>,
    /// The tokens with which it fills in text; or why it cannot.
    pub fill: Result<Fill, String>,
    /// How it reads a query and a document that it ranks.
    pub pairs: Pairs,
    /// What is said about it.
    pub facts: Facts,
    /// What requests get when they do not say.
    pub defaults: Defaults,
    /// Where grammars are compiled and followed.
    pub isolation: Isolation,
    /// Made when a request first asks for one.
    grammars: OnceLock<Result<Grammars, String>>,
}

impl Model {
    /// A model that answers through this worker. Every event repeats its name, which is made plain and short. Its grammars
    /// are not isolated.
    pub fn new(
        worker: Worker,
        tokenizer: Tokenizer,
        template: Result<ChatTemplate, String>,
        mut facts: Facts,
        defaults: Defaults,
    ) -> Model {
        facts.names.iter_mut().for_each(|name| *name = plain::name(name).into_owned());
        let isolation = Isolation::default();
        let fill = Err("nobody has said how".to_owned());
        let pairs = Pairs::between(&tokenizer);
        Model { worker, tokenizer, template, fill, pairs, facts, defaults, isolation, grammars: OnceLock::new() }
    }

    /// What reads grammars for its vocabulary.
    ///
    /// # Errors
    /// 501 if its vocabulary cannot be ruled.
    pub fn grammars(&self) -> Result<&Grammars, ApiError> {
        let made = self.grammars.get_or_init(|| Grammars::new(&self.tokenizer, self.isolation.clone()));
        made.as_ref().map_err(|why| ApiError::unsupported(format!("this model cannot follow a grammar: {why}")))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.facts.names.first().map_or("model", String::as_str)
    }

    /// What a request calls it; without a word, its name.
    ///
    /// # Errors
    /// A name that is no string, or too long to be repeated in every event.
    pub fn called_by(&self, fields: Fields<'_>) -> Result<String, ApiError> {
        let name = fields.text("model")?.filter(|name| !name.is_empty()).unwrap_or(self.name());
        if name.len() > budget::NAME_BYTES && name != self.name() {
            return Err(ApiError::field("model", format!("the name is longer than {} bytes", budget::NAME_BYTES)));
        }
        Ok(name.to_owned())
    }

    /// The tokens that end a text.
    pub fn ends(&self) -> Arc<[u32]> {
        Arc::from(self.tokenizer.end_tokens())
    }
}
