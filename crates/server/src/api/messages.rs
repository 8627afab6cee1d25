//! Anthropic's `/v1/messages` and `/v1/messages/count_tokens`.

use super::chat::{self, Message, Rendered, render_conversation};
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::speech::{Ending, Heard};
use crate::stream::{Prepared, Protocol, Said, event};
use crate::tools::{Choice, Tools, function, listed};
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use text::chat::{Conversation, Delta, OutputParser};

/// Prepares an answer.
///
/// # Errors
/// A request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let mut settings = Settings::read(fields, model)?;
    settings.choices = 1;
    let rendered = render(fields, model)?;
    rendered.require_calls(&mut settings)?;
    let messages = Messages {
        id: app.id("msg_"),
        model: model.called_by(fields)?,
        parser: rendered.parser(settings.stream),
        stream: settings.stream,
        prompt: rendered.tokens.len(),
        blocks: 0,
        open: None,
        calls: 0,
        ids: app.id("toolu_"),
        ending: Ending::Length,
        spent: Spent::default(),
    };
    Ok(Prepared { prompts: vec![rendered.tokens], settings, protocol: Box::new(messages) })
}

/// `/v1/messages/count_tokens`.
///
/// # Errors
/// Messages that the template cannot render.
pub fn count_tokens(model: &Model, body: &Body) -> Result<Value, ApiError> {
    Ok(json!({ "input_tokens": render(body.fields(), model)?.tokens.len() }))
}

fn render(fields: Fields<'_>, model: &Model) -> Result<Rendered, ApiError> {
    let mut messages = vec![];
    match fields.get("system") {
        None => {}
        Some(system @ (Value::String(_) | Value::Array(_))) => {
            messages.push(json!({ "role": "system", "content": plain(system) }));
        }
        Some(_) => return Err(ApiError::field("system", "it is neither a string nor a list")),
    }
    let given = fields.list("messages")?.ok_or_else(|| ApiError::field("messages", "they are missing"))?;
    if given.is_empty() {
        return Err(ApiError::field("messages", "the list is empty"));
    }
    for message in given {
        add_message(&mut messages, message)?;
    }
    let tools = listed(fields)?;
    // Tools of other kinds have types of their own and no schema: somebody else runs them.
    let is_function =
        |tool: &Value| tool.get("input_schema").is_some() || tool["type"] == "custom" || tool["type"].is_null();
    let functions = tools.iter().filter(|&tool| is_function(tool));
    let functions = functions.map(|tool| function(tool, "input_schema")).collect::<Result<_, _>>()?;
    let mut conversation = Conversation::new(messages);
    let tools = choose(fields, functions)?;
    conversation.tools.clone_from(&tools.functions);
    match fields.object("thinking")?.map(|thinking| thinking.text("type")).transpose()?.flatten() {
        Some("disabled") => conversation.enable_thinking = Some(false),
        Some("enabled" | "adaptive") => conversation.enable_thinking = Some(true),
        _ => {}
    }
    conversation.parse_special = chat::parses_special(fields, model)?;
    let begun = chat::Begun::take(&mut conversation);
    render_conversation(&conversation, begun, tools, false, model)
}

/// What `tool_choice` leaves of the functions.
fn choose(fields: Fields<'_>, functions: Vec<Value>) -> Result<Tools, ApiError> {
    let Some(asked) = fields.object("tool_choice")? else { return Tools::choose(functions, Choice::Auto) };
    let choice = match asked.text("type")? {
        Some("none") => Choice::None,
        Some("auto") => Choice::Auto,
        Some("any") => Choice::Any,
        Some("tool") => {
            let name = asked.text("name")?;
            Choice::One(name.ok_or_else(|| ApiError::field("tool_choice", "a tool without a name"))?)
        }
        Some(other) => return Err(ApiError::field("tool_choice", format!("there is no type '{other}'"))),
        None => return Err(ApiError::field("tool_choice", "a choice without a type")),
    };
    let mut tools = Tools::choose(functions, choice)?;
    tools.one_call |= asked.flag("disable_parallel_tool_use")?.unwrap_or(false);
    Ok(tools)
}

/// The text of content.
fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

const TEXT_ONLY: &str = "this model reads text only, and there is an image or a document";

/// Whether a block is something to look at.
fn is_no_text(block: &Value) -> bool {
    block["type"] == "image" || block["type"] == "document"
}

/// One message may be several in the form of templates: results of tools are messages of their own.
fn add_message(messages: &mut Vec<Value>, message: &Value) -> Result<(), ApiError> {
    let wrong = |problem: &str| ApiError::field("messages", problem);
    let role = message["role"].as_str().ok_or_else(|| wrong("a message without a role"))?;
    let blocks = match &message["content"] {
        Value::String(text) => {
            messages.push(json!({ "role": role, "content": text }));
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        _ => return Err(wrong("content that is neither a string nor a list")),
    };
    let (mut text, mut reasoning, mut calls) = (vec![], String::new(), vec![]);
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => text.push(block["text"].as_str().unwrap_or_default()),
            Some("thinking") => reasoning.push_str(block["thinking"].as_str().unwrap_or_default()),
            Some("tool_use") => {
                let function = json!({ "name": block["name"], "arguments": block["input"].to_string() });
                calls.push(json!({ "id": block["id"], "type": "function", "function": function }));
            }
            Some("tool_result") => {
                let parts = block["content"].as_array().map(Vec::as_slice).unwrap_or_default();
                if parts.iter().any(is_no_text) {
                    return Err(wrong(TEXT_ONLY));
                }
                let content = plain(&block["content"]);
                messages.push(json!({ "role": "tool", "tool_call_id": block["tool_use_id"], "content": content }));
            }
            _ if is_no_text(block) => return Err(wrong(TEXT_ONLY)),
            _ => {}
        }
    }
    if text.is_empty() && calls.is_empty() && reasoning.is_empty() {
        return Ok(());
    }
    let mut object = Map::new();
    object.insert("role".into(), role.into());
    object.insert("content".into(), text.join("\n").into());
    if !reasoning.is_empty() {
        object.insert("reasoning_content".into(), reasoning.into());
    }
    if !calls.is_empty() {
        object.insert("tool_calls".into(), calls.into());
    }
    messages.push(Value::Object(object));
    Ok(())
}

struct Messages {
    id: String,
    model: String,
    parser: OutputParser,
    stream: bool,
    /// Tokens of the prompt.
    prompt: usize,
    /// Blocks that were begun.
    blocks: usize,
    /// What the open block holds.
    open: Option<Kind>,
    calls: usize,
    ids: String,
    ending: Ending,
    spent: Spent,
}

/// Blocks that text flows into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    Call,
}

impl Messages {
    fn send(out: &mut String, data: &Value) {
        event(out, data["type"].as_str(), data);
    }

    fn begin(&mut self, block: Value, out: &mut String) {
        Self::send(out, &json!({ "type": "content_block_start", "index": self.blocks, "content_block": block }));
        self.blocks += 1;
    }

    fn add(&self, delta: Value, out: &mut String) {
        Self::send(out, &json!({ "type": "content_block_delta", "index": self.blocks - 1, "delta": delta }));
    }

    fn close(&mut self, out: &mut String) {
        let Some(kind) = self.open.take() else { return };
        if kind == Kind::Thinking {
            self.add(json!({ "type": "signature_delta", "signature": "" }), out);
        }
        Self::send(out, &json!({ "type": "content_block_stop", "index": self.blocks - 1 }));
    }

    fn call_id(&self, call: usize) -> String {
        format!("{}{call:02x}", self.ids)
    }

    fn delta(&mut self, delta: Delta, out: &mut String) {
        let kind = match &delta {
            Delta::Reasoning(_) => Kind::Thinking,
            Delta::Content(_) => Kind::Text,
            Delta::Call(name) => {
                self.close(out);
                let id = self.call_id(self.calls);
                self.calls += 1;
                self.begin(json!({ "type": "tool_use", "id": id, "name": name, "input": {} }), out);
                self.open = Some(Kind::Call);
                return;
            }
            Delta::Arguments(text) => {
                self.add(json!({ "type": "input_json_delta", "partial_json": text }), out);
                return;
            }
        };
        if self.open != Some(kind) {
            self.close(out);
            let block = match kind {
                Kind::Thinking => json!({ "type": "thinking", "thinking": "", "signature": "" }),
                Kind::Text | Kind::Call => json!({ "type": "text", "text": "" }),
            };
            self.begin(block, out);
            self.open = Some(kind);
        }
        match delta {
            Delta::Reasoning(text) => self.add(json!({ "type": "thinking_delta", "thinking": text }), out),
            Delta::Content(text) => self.add(json!({ "type": "text_delta", "text": text }), out),
            Delta::Call(_) | Delta::Arguments(_) => {}
        }
    }

    /// Why it ended, and the stop string if it was one.
    fn reason(ending: &Ending, calls: usize) -> (&'static str, Value) {
        match ending {
            Ending::Length => ("max_tokens", Value::Null),
            Ending::Word(word) => ("stop_sequence", word.as_str().into()),
            Ending::Model if calls > 0 => ("tool_use", Value::Null),
            Ending::Model => ("end_turn", Value::Null),
        }
    }
}

fn usage(spent: &Spent) -> Value {
    json!({
        "input_tokens": spent.prompt - spent.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": spent.cached,
        "output_tokens": spent.generated,
    })
}

impl Protocol for Messages {
    fn streams(&self) -> bool {
        self.stream
    }

    fn start(&mut self, out: &mut String) {
        let spent = Spent { prompt: self.prompt, ..Spent::default() };
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(&spent),
        });
        Self::send(out, &json!({ "type": "message_start", "message": message }));
    }

    fn heard(&mut self, heard: Heard, out: &mut String) {
        match heard {
            Heard::Text { text, .. } => {
                for delta in self.parser.push(&text) {
                    self.delta(delta, out);
                }
            }
            Heard::End { ending, spent, .. } => {
                for delta in self.parser.finish() {
                    self.delta(delta, out);
                }
                self.close(out);
                (self.ending, self.spent) = (ending, spent);
            }
            Heard::Progress { .. } | Heard::Vector { .. } | Heard::Failed { .. } => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        let (reason, word) = Self::reason(&self.ending, self.calls);
        let delta = json!({ "stop_reason": reason, "stop_sequence": word });
        Self::send(out, &json!({ "type": "message_delta", "delta": delta, "usage": usage(&self.spent) }));
        Self::send(out, &json!({ "type": "message_stop" }));
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        Self::send(out, &error.anthropic());
    }

    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let said = texts.into_iter().next().unwrap_or_default();
        let message = Message::of(&mut self.parser, &said.text);
        let mut content = vec![];
        if !message.reasoning.is_empty() {
            content.push(json!({ "type": "thinking", "thinking": message.reasoning, "signature": "" }));
        }
        if !message.content.is_empty() {
            content.push(json!({ "type": "text", "text": message.content }));
        }
        for (at, call) in message.calls.iter().enumerate() {
            let input = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            content.push(json!({ "type": "tool_use", "id": self.call_id(at), "name": call.name, "input": input }));
        }
        let (reason, word) = Self::reason(said.ending.as_ref().unwrap_or(&Ending::Length), message.calls.len());
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": reason, "stop_sequence": word, "usage": usage(&said.spent),
        })
    }
}
