//! What a model says, piece by piece.

use crate::{Engine, Error};
use model::generate::Timing;
use model::sequence::{Event, Finish, Request, Sequence};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use text::chat::{Delta, OutputParser, ToolCall};
use text::sampler::Sampled;
use text::tokenizer::Detokenizer;

/// What an answer begins with.
pub(crate) struct Start {
    pub prompt: Vec<u32>,
    pub output: OutputParser,
    pub limit: Option<usize>,
}

/// An answer: an iterator over pieces of what the model says, as they are computed. Stop when you like; what was said
/// until then is part of the conversation.
pub struct Reply<'a> {
    engine: &'a mut Engine,
    /// Where the answer is added when it is over.
    messages: Option<&'a mut Vec<Value>>,
    sequence: Sequence,
    text: Detokenizer,
    output: OutputParser,
    next: Next,
    said: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    timing: Timing,
    /// Whether what was held back is out.
    flushed: bool,
}

/// What is to be done for the next token.
enum Next {
    /// It is there.
    Token(Sampled),
    /// A step after the last.
    Step,
    /// Nothing any more; `None` after an error.
    Over(Option<Finish>),
}

impl<'a> Reply<'a> {
    /// Computes the prompt.
    pub(crate) fn start(
        engine: &'a mut Engine,
        mut messages: Option<&'a mut Vec<Value>>,
        start: Start,
    ) -> Result<Reply<'a>, Error> {
        let mut timing = Timing::default();
        let Start { prompt, output, limit } = start;
        engine.sampling.check(engine.tokenizer().vocab_len())?;
        let ends = engine.tokenizer().end_tokens().into();
        let mut sequence = Sequence::new(Request { prompt, sampling: engine.sampling.clone(), limit, ends });
        let go_on = |_: Event<'_>| ControlFlow::Continue(());
        let next = match engine.generator.read(&mut engine.engine, &mut sequence, &mut timing, go_on) {
            Ok(_) if limit == Some(0) => Next::Over(Some(Finish::Limit)),
            Ok(first) => first.map_or(Next::Over(Some(Finish::Stopped)), Next::Token),
            Err(error) => {
                // The question was not answered, so it was not asked.
                if let Some(messages) = &mut messages {
                    let asked = messages.last().is_some_and(|message| message["role"] == "user");
                    messages.truncate(messages.len() - usize::from(asked));
                }
                return Err(error.into());
            }
        };
        Ok(Reply {
            engine,
            messages,
            sequence,
            text: Detokenizer::new(),
            output,
            next,
            said: String::new(),
            reasoning: String::new(),
            calls: vec![],
            timing,
            flushed: false,
        })
    }

    /// All that is said from here on, and what was said before.
    ///
    /// # Errors
    /// Of the device.
    pub fn text(mut self) -> Result<String, Error> {
        self.by_ref().try_for_each(|piece| piece.map(drop))?;
        Ok(self.said.clone())
    }

    /// What the model thought so far; it is no part of what it says.
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// The tools that the model called so far.
    pub fn calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// Why the answer is over; `None` while it is not, and after an error.
    pub fn finish(&self) -> Option<Finish> {
        match self.next {
            Next::Over(finish) => finish,
            Next::Token(_) | Next::Step => None,
        }
    }

    /// How many tokens there were and how long they took.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The next token of the answer.
    fn token(&mut self) -> Result<Option<u32>, Error> {
        let sampled = match self.next {
            Next::Over(_) => None,
            Next::Token(sampled) => Some(sampled),
            Next::Step => {
                let Engine { engine, generator, .. } = &mut *self.engine;
                let next = generator.advance(engine, &mut self.sequence, &mut self.timing)?;
                if next.is_none() {
                    self.next = Next::Over(Some(Finish::ContextFull));
                }
                next
            }
        };
        let Some(sampled) = sampled else { return Ok(None) };
        let mut token = None;
        let finish = self.sequence.take(sampled, |_| {
            token = Some(sampled.id);
            ControlFlow::Continue(())
        });
        self.timing.generated += usize::from(token.is_some());
        self.next = finish.map_or(Next::Step, |finish| Next::Over(Some(finish)));
        Ok(token)
    }

    /// Sorts what came out; what was said is returned.
    fn sort(&mut self, deltas: Vec<Delta>) -> String {
        let mut piece = String::new();
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => self.reasoning.push_str(&text),
                Delta::Content(text) => piece.push_str(&text),
                Delta::Call(name) => self.calls.push(ToolCall { name, arguments: String::new() }),
                Delta::Arguments(text) => self.calls.last_mut().into_iter().for_each(|call| call.arguments += &text),
            }
        }
        self.said.push_str(&piece);
        piece
    }

    /// The last of what was held back.
    fn rest(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.flushed, true) {
            return None;
        }
        let mut deltas = self.output.push(self.text.finish());
        deltas.extend(self.output.finish());
        Some(self.sort(deltas)).filter(|piece| !piece.is_empty())
    }

    /// The answer as a message of the conversation.
    fn message(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.said });
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        if !self.calls.is_empty() {
            let arguments = |call: &ToolCall| serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
            let call = |call: &ToolCall| json!({ "type": "function", "function": { "name": call.name, "arguments": arguments(call) } });
            message["tool_calls"] = self.calls.iter().map(call).collect();
        }
        message
    }
}

impl Iterator for Reply<'_> {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Result<String, Error>> {
        loop {
            match self.token() {
                Ok(Some(id)) => {
                    let deltas = self.output.push(self.text.push(self.engine.tokenizer(), id));
                    let piece = self.sort(deltas);
                    if !piece.is_empty() {
                        return Some(Ok(piece));
                    }
                }
                Ok(None) => return self.rest().map(Ok),
                Err(error) => {
                    self.next = Next::Over(None);
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::iter::FusedIterator for Reply<'_> {}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        let message = self.message();
        if let Some(messages) = &mut self.messages {
            messages.push(message);
        }
    }
}
