//! Answers of chat and generate: lines as they come, or one object; the last says why the text ended and what it took.

use super::line::{self, Head, nanoseconds};
use crate::api::chat::Message;
use crate::api::usage::chat_logprob;
use crate::error::ApiError;
use crate::served::Model;
use crate::speech::{Ending, Heard, Scored};
use crate::stream::{Protocol, Said};
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use text::chat::OutputParser;

/// Where the text stands in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In `message`.
    Chat,
    /// In `response`.
    Generate,
}

/// How an answer is told.
pub struct Reply {
    /// What every object begins with.
    pub head: Head,
    /// Where the text stands.
    pub form: Form,
    /// Whether it comes in lines.
    pub stream: bool,
    /// Tells thoughts, text and calls apart.
    pub parser: OutputParser,
    /// Whose tokens get their log-probabilities, if those are wanted.
    pub scores_of: Option<Arc<Model>>,
    /// The tokens of the whole conversation, if the last object tells them.
    pub context: Option<Vec<u32>>,
    /// What the ids of calls begin with.
    pub ids: String,
    /// Calls so far.
    calls: usize,
    ending: Option<Ending>,
    spent: Spent,
}

impl Reply {
    /// A reply of which nothing is told yet.
    pub fn new(head: Head, form: Form, stream: bool, parser: OutputParser) -> Reply {
        Reply {
            head,
            form,
            stream,
            parser,
            scores_of: None,
            context: None,
            ids: String::new(),
            calls: 0,
            ending: None,
            spent: Spent::default(),
        }
    }

    /// An object with a part of the answer, or all of it.
    fn object(&mut self, said: &Message, scores: &[Scored]) -> Map<String, Value> {
        let mut object = self.head.object();
        let mut part = Map::new();
        let key = match self.form {
            Form::Chat => {
                part.insert("role".into(), "assistant".into());
                "content"
            }
            Form::Generate => "response",
        };
        // A call whose arguments are no object was broken off: it is text.
        let is_call = |arguments: &str| serde_json::from_str::<Map<String, Value>>(arguments);
        let broken = said.calls.iter().filter(|call| is_call(&call.arguments).is_err());
        let content: String = [&said.content].into_iter().chain(broken.map(|call| &call.arguments)).cloned().collect();
        part.insert(key.into(), content.into());
        if !said.reasoning.is_empty() {
            part.insert("thinking".into(), said.reasoning.as_str().into());
        }
        let mut calls = vec![];
        for call in &said.calls {
            let Ok(arguments) = is_call(&call.arguments) else { continue };
            let function = json!({ "index": self.calls, "name": call.name, "arguments": arguments });
            calls.push(json!({ "id": format!("{}{:02x}", self.ids, self.calls), "function": function }));
            self.calls += 1;
        }
        if !calls.is_empty() {
            part.insert("tool_calls".into(), calls.into());
        }
        match self.form {
            Form::Chat => drop(object.insert("message".into(), part.into())),
            Form::Generate => object.extend(part),
        }
        if let Some(model) = self.scores_of.as_ref().filter(|_| !scores.is_empty()) {
            let scores: Vec<Value> = scores.iter().map(|scored| chat_logprob(&model.tokenizer, scored)).collect();
            object.insert("logprobs".into(), scores.into());
        }
        object.insert("done".into(), false.into());
        object
    }

    /// What the last object has beside its text.
    fn end(&self, object: &mut Map<String, Value>, ending: &Ending, spent: &Spent) {
        object.insert("done".into(), true.into());
        object.insert("done_reason".into(), ending.reason().into());
        if let Some(context) = &self.context {
            object.insert("context".into(), context.as_slice().into());
        }
        self.head.took(object, spent);
        object.insert("prompt_eval_duration".into(), nanoseconds(spent.prompt_time));
        object.insert("eval_count".into(), spent.generated.into());
        object.insert("eval_duration".into(), nanoseconds(spent.decode_time));
    }

    fn tell(&mut self, said: &Message, scores: &[Scored], out: &mut String) {
        if *said != Message::default() || !scores.is_empty() {
            let object = self.object(said, scores);
            line::write(out, &Value::Object(object));
        }
    }
}

impl Protocol for Reply {
    fn streams(&self) -> bool {
        self.stream
    }

    fn content_type(&self) -> &'static str {
        line::TYPE
    }

    fn heard(&mut self, heard: Heard, out: &mut String) {
        match heard {
            Heard::Text { text, tokens, scores, .. } => {
                self.context.iter_mut().for_each(|context| context.extend(&tokens));
                let said = Message::of_deltas(self.parser.push(&text));
                self.tell(&said, &scores, out);
            }
            Heard::End { ending, spent, .. } => {
                let said = Message::of_deltas(self.parser.finish());
                self.tell(&said, &[], out);
                (self.ending, self.spent) = (Some(ending), spent);
            }
            Heard::Progress { .. } | Heard::Vector { .. } | Heard::Failed { .. } => {}
        }
    }

    fn ping(&self, _: &mut String) {
        // Lines have no comments, and clients read every line.
    }

    fn finish(&mut self, out: &mut String) {
        let mut object = self.object(&Message::default(), &[]);
        let (ending, spent) = (self.ending.take().unwrap_or(Ending::Length), self.spent);
        self.end(&mut object, &ending, &spent);
        line::write(out, &Value::Object(object));
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        line::write(out, &error.ollama());
    }

    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let said = texts.into_iter().next().unwrap_or_default();
        self.context.iter_mut().for_each(|context| context.extend(&said.tokens));
        let message = Message::of(&mut self.parser, &said.text);
        let mut object = self.object(&message, &said.scores);
        self.end(&mut object, said.ending.as_ref().unwrap_or(&Ending::Length), &said.spent);
        Value::Object(object)
    }
}

/// The answer to a request without a prompt, which loads or unloads a model: there is nothing to do.
pub struct Loaded {
    /// What it begins with.
    pub head: Head,
    /// Where the text would stand.
    pub form: Form,
    /// Whether the model was to be unloaded.
    pub unloads: bool,
}

impl Protocol for Loaded {
    fn whole(&mut self, _: Vec<Said>) -> Value {
        let mut object = self.head.object();
        match self.form {
            Form::Chat => object.insert("message".into(), json!({ "role": "assistant", "content": "" })),
            Form::Generate => object.insert("response".into(), "".into()),
        };
        object.insert("done".into(), true.into());
        object.insert("done_reason".into(), if self.unloads { "unload" } else { "load" }.into());
        Value::Object(object)
    }
}
