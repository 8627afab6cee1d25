//! A conversation.

use crate::reply::{Reply, Start};
use crate::{Engine, Error};
use serde_json::{Value, json};
use text::chat::{Conversation, OutputParser};

/// A conversation with a model, in the model's own format.
pub struct Chat<'a> {
    engine: &'a mut Engine,
    messages: Vec<Value>,
    tools: Vec<Value>,
    think: Option<bool>,
    parse_special: bool,
    limit: Option<usize>,
}

impl<'a> Chat<'a> {
    pub(crate) fn new(engine: &'a mut Engine) -> Chat<'a> {
        Chat { engine, messages: vec![], tools: vec![], think: None, parse_special: false, limit: None }
    }

    /// What the model is told before the conversation.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Chat<'a> {
        self.messages.push(json!({ "role": "system", "content": text.into() }));
        self
    }

    /// Tools that the model may call, in the form of the OpenAI API. [`Reply::calls`] has the calls; [`Chat::push`] takes
    /// the results, as messages of the role `tool`.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Value>) -> Chat<'a> {
        self.tools = tools;
        self
    }

    /// Asks for reasoning before the answer, or for none; by default the template decides.
    #[must_use]
    pub fn think(mut self, think: bool) -> Chat<'a> {
        self.think = Some(think);
        self
    }

    /// Whether special tokens that are spelled out in messages and tools are special. They are text by default, so that
    /// nobody who writes there can end a turn and begin another.
    #[must_use]
    pub fn parse_special(mut self, parse_special: bool) -> Chat<'a> {
        self.parse_special = parse_special;
        self
    }

    /// Most tokens of an answer.
    #[must_use]
    pub fn limit(mut self, tokens: usize) -> Chat<'a> {
        self.limit = Some(tokens);
        self
    }

    /// Says something and returns the answer as it comes.
    ///
    /// # Errors
    /// As [`Chat::answer`]; then nothing was said.
    pub fn say(&mut self, text: impl Into<String>) -> Result<Reply<'_>, Error> {
        let prompt = self.render(Some(json!({ "role": "user", "content": text.into() })))?;
        Reply::start(self.engine, Some(&mut self.messages), prompt)
    }

    /// Answers the messages as they are, for example after the result of a tool.
    ///
    /// # Errors
    /// Messages that the template refuses or that do not fit into the context, and what the compiler and the device say.
    pub fn answer(&mut self) -> Result<Reply<'_>, Error> {
        let prompt = self.render(None)?;
        Reply::start(self.engine, Some(&mut self.messages), prompt)
    }

    /// Adds a message of any role, in the form of the OpenAI API.
    pub fn push(&mut self, message: Value) {
        self.messages.push(message);
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// The tokens of the conversation with one more message, which is kept if there are any.
    fn render(&mut self, message: Option<Value>) -> Result<Start, Error> {
        let before = self.messages.len();
        self.messages.extend(message);
        let mut conversation = Conversation::new(self.messages.clone());
        conversation.tools.clone_from(&self.tools);
        conversation.enable_thinking = self.think;
        conversation.parse_special = self.parse_special;
        let rendered = self.engine.template.render(&conversation);
        let prompt = rendered.inspect_err(|_| self.messages.truncate(before))?;
        Ok(Start {
            prompt: prompt.encode(self.engine.tokenizer()),
            output: OutputParser::new(prompt.opens_reasoning, &self.tools),
            limit: self.limit,
        })
    }
}
