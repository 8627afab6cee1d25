//! `/v1/responses`, without memory: every request brings the whole conversation.
//!
//! What a client sends and a model cannot use is left out, not refused: tools of kinds that the client's own service
//! runs, items of reasoning in somebody's cipher, fields for storage.

use super::chat::{Rendered, parses_special, render_conversation};
use super::usage::{progress, timings};
use crate::app::{App, now};
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::speech::{Ending, Heard};
use crate::stream::{Prepared, Protocol, Said, event};
use crate::tools::{self, Tools, function};
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
    settings.read_grammar(fields, rendered.prompt.opens_reasoning)?;
    rendered.require_calls(&mut settings)?;
    let echoed = [
        "instructions",
        "max_output_tokens",
        "metadata",
        "parallel_tool_calls",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
        "text",
        "reasoning",
    ];
    let echoed = echoed.iter().filter_map(|key| Some(((*key).to_owned(), body.keep(key)?)));
    let responses = Responses {
        id: app.id("resp_"),
        ids: app.id(""),
        name: model.called_by(fields)?,
        model: model.clone(),
        created: now(),
        echoed: echoed.collect(),
        parser: rendered.parser(settings.stream),
        stream: settings.stream,
        timings: settings.timings,
        spoken: None,
        sequence: 0,
        items: vec![],
        open: None,
        spent: Spent::default(),
        ending: Ending::Length,
    };
    Ok(Prepared { prompts: vec![rendered.tokens], settings, protocol: Box::new(responses) })
}

fn render(fields: Fields<'_>, model: &Model) -> Result<Rendered, ApiError> {
    for name in ["previous_response_id", "conversation"] {
        if fields.get(name).is_some() {
            return Err(ApiError::field(name, FORGETS));
        }
    }
    let mut messages = vec![];
    if let Some(text) = fields.text("instructions")? {
        messages.push(json!({ "role": "system", "content": text }));
    }
    match fields.get("input") {
        Some(Value::String(text)) => messages.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(items)) => {
            let mut thoughts = None;
            for item in items {
                add_item(&mut messages, &mut thoughts, item)?;
            }
        }
        _ => return Err(ApiError::field("input", "it is neither a string nor a list")),
    }
    if messages.is_empty() {
        return Err(ApiError::field("input", "there is no message in it"));
    }
    let functions = tools::listed(fields)?.iter().filter(|tool| tools::is_function(tool));
    let functions = functions.map(|tool| function(tool, "parameters")).collect::<Result<_, _>>()?;
    let mut conversation = Conversation::new(messages);
    let tools = Tools::of_openai(fields, functions)?;
    conversation.tools.clone_from(&tools.functions);
    if let Some(effort) = fields.object("reasoning")?.map(|r| r.text("effort")).transpose()?.flatten() {
        conversation.enable_thinking = (effort == "none").then_some(false);
        conversation.variables.insert("reasoning_effort".into(), effort.into());
    }
    conversation.parse_special = parses_special(fields, model)?;
    render_conversation(&conversation, None, tools, false, model)
}

const FORGETS: &str =
    "this server keeps nothing of earlier requests; send the whole conversation as input (store: false)";

/// Adds an item of the input to the messages. What the model thought waits for what it then said or called.
fn add_item(messages: &mut Vec<Value>, thoughts: &mut Option<String>, item: &Value) -> Result<(), ApiError> {
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let role = item["role"].as_str().ok_or_else(|| ApiError::field("input", "a message without a role"))?;
            messages.push(json!({ "role": role, "content": plain(&item["content"])? }));
        }
        "reasoning" => {
            *thoughts = Some(plain(&item["content"])?).filter(|text| !text.is_empty());
            return Ok(());
        }
        "function_call" => {
            let function = json!({ "name": text("name"), "arguments": text("arguments") });
            let call = json!({ "id": text("call_id"), "type": "function", "function": function });
            // Calls of one turn are one message.
            let calls = messages.last_mut().filter(|m| m["role"] == "assistant").and_then(Value::as_object_mut);
            match calls {
                Some(message) => match message.get_mut("tool_calls").and_then(Value::as_array_mut) {
                    Some(calls) => calls.push(call),
                    None => drop(message.insert("tool_calls".into(), json!([call]))),
                },
                None => messages.push(json!({ "role": "assistant", "content": "", "tool_calls": [call] })),
            }
        }
        "function_call_output" => {
            let content = plain(&item["output"])?;
            messages.push(json!({ "role": "tool", "tool_call_id": text("call_id"), "content": content }));
        }
        "item_reference" => return Err(ApiError::field("input", FORGETS)),
        _ => return Ok(()),
    }
    let last = messages.last_mut().filter(|message| message["role"] == "assistant").and_then(Value::as_object_mut);
    if let (Some(thoughts), Some(message)) = (thoughts.take(), last) {
        message.entry("reasoning_content").or_insert(thoughts.into());
    }
    Ok(())
}

/// The text of content in parts.
fn plain(content: &Value) -> Result<String, ApiError> {
    Ok(match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            if let Some(kind) = parts.iter().filter_map(|part| part["type"].as_str()).find(|kind| is_no_text(kind)) {
                let problem = format!("this model reads text only, and there is a part of type '{kind}'");
                return Err(ApiError::field("input", problem));
            }
            parts.iter().filter_map(|part| part["text"].as_str()).collect()
        }
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

/// Whether parts of this type are something to look at or to listen to.
fn is_no_text(kind: &str) -> bool {
    matches!(kind, "input_image" | "input_file" | "input_audio")
}

struct Responses {
    id: String,
    /// What the ids of items end with.
    ids: String,
    /// The model as the client called it.
    name: String,
    model: Arc<Model>,
    created: u64,
    /// Fields of the request that come back.
    echoed: Map<String, Value>,
    parser: OutputParser,
    stream: bool,
    /// Whether deltas have times, as llama-server gives them to who asks.
    timings: bool,
    /// What was spent up to the text that is being told, for its first delta.
    spoken: Option<Spent>,
    sequence: u64,
    /// Items that are complete.
    items: Vec<Value>,
    open: Option<(Kind, String)>,
    spent: Spent,
    ending: Ending,
}

/// Items that text flows into.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    /// A call of this tool.
    Call(String),
}

impl Responses {
    fn send(&mut self, out: &mut String, kind: &str, mut fields: Value) {
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("type".into(), kind.into());
            fields.insert("sequence_number".into(), self.sequence.into());
        }
        self.sequence += 1;
        event(out, Some(kind), &fields);
    }

    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}{:02x}", self.ids, self.items.len())
    }

    fn item(&self, kind: &Kind, text: &str, status: &str) -> Value {
        let id = self.open_id(kind);
        match kind {
            Kind::Reasoning => json!({
                "id": id, "type": "reasoning", "summary": [], "status": status,
                "content": [{ "type": "reasoning_text", "text": text }],
            }),
            Kind::Message => json!({
                "id": id, "type": "message", "role": "assistant", "status": status, "content": [part(text)],
            }),
            Kind::Call(name) => json!({
                "id": id, "type": "function_call", "call_id": self.item_id("call"), "name": name,
                "arguments": text, "status": status,
            }),
        }
    }

    fn open_id(&self, kind: &Kind) -> String {
        self.item_id(match kind {
            Kind::Reasoning => "rs",
            Kind::Message => "msg",
            Kind::Call(_) => "fc",
        })
    }

    fn delta(&mut self, delta: Delta, out: &mut String) {
        let (kind, text) = match delta {
            Delta::Reasoning(text) => (Kind::Reasoning, text),
            Delta::Content(text) => (Kind::Message, text),
            Delta::Call(name) => {
                self.begin(Kind::Call(name), out);
                return;
            }
            Delta::Arguments(text) => {
                self.go_on(&text, out);
                return;
            }
        };
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.begin(kind, out);
        }
        self.go_on(&text, out);
    }

    /// Begins an item that text flows into.
    fn begin(&mut self, kind: Kind, out: &mut String) {
        self.close(out);
        let mut item = self.item(&kind, "", "in_progress");
        if !matches!(kind, Kind::Call(_)) {
            item["content"] = json!([]);
        }
        let at = self.items.len();
        self.send(out, "response.output_item.added", json!({ "output_index": at, "item": item }));
        if kind == Kind::Message {
            let part = json!({ "item_id": item["id"], "output_index": at, "content_index": 0, "part": part("") });
            self.send(out, "response.content_part.added", part);
        }
        self.open = Some((kind, String::new()));
    }

    /// More of the item that text flows into.
    fn go_on(&mut self, text: &str, out: &mut String) {
        let Some((kind, mut held)) = self.open.take() else { return };
        held.push_str(text);
        let mut delta = json!({ "item_id": self.open_id(&kind), "output_index": self.items.len(), "delta": text });
        if !matches!(kind, Kind::Call(_)) {
            delta["content_index"] = json!(0);
            delta["logprobs"] = json!([]);
        }
        if let Some(spent) = self.spoken.take() {
            delta["timings"] = timings(&spent);
        }
        self.send(out, &format!("response.{}.delta", name(&kind)), delta);
        self.open = Some((kind, held));
    }

    /// Ends the item that text flows into.
    fn close(&mut self, out: &mut String) {
        let Some((kind, text)) = self.open.take() else { return };
        let (at, id) = (self.items.len(), self.open_id(&kind));
        let item = self.item(&kind, &text, "completed");
        let done = match kind {
            Kind::Call(_) => json!({ "item_id": id, "output_index": at, "arguments": text }),
            _ => json!({ "item_id": id, "output_index": at, "content_index": 0, "text": text, "logprobs": [] }),
        };
        self.send(out, &format!("response.{}.done", name(&kind)), done);
        if kind == Kind::Message {
            let part = json!({ "item_id": id, "output_index": at, "content_index": 0, "part": part(&text) });
            self.send(out, "response.content_part.done", part);
        }
        self.send(out, "response.output_item.done", json!({ "output_index": at, "item": item }));
        self.items.push(item);
    }

    fn response(&self, status: &str) -> Value {
        let mut response = self.bare_response(status);
        response.as_object_mut().into_iter().for_each(|object| object.extend(self.echoed.clone()));
        response
    }

    /// A response without the fields of the request.
    fn bare_response(&self, status: &str) -> Value {
        let mut object = Map::new();
        object.insert("id".into(), self.id.as_str().into());
        object.insert("object".into(), "response".into());
        object.insert("created_at".into(), self.created.into());
        object.insert("status".into(), status.into());
        object.insert("error".into(), Value::Null);
        let cut = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        object.insert("incomplete_details".into(), cut.unwrap_or_default());
        object.insert("model".into(), self.name.as_str().into());
        object.insert("output".into(), self.items.clone().into());
        for (key, value) in [
            ("parallel_tool_calls", json!(true)),
            ("tool_choice", json!("auto")),
            ("tools", json!([])),
            ("metadata", json!({})),
            ("store", json!(false)),
        ] {
            object.insert(key.into(), value);
        }
        let s = &self.spent;
        let usage = json!({
            "input_tokens": s.prompt,
            "input_tokens_details": { "cached_tokens": s.cached },
            "output_tokens": s.generated,
            "output_tokens_details": { "reasoning_tokens": self.thoughts() },
            "total_tokens": s.prompt + s.generated,
        });
        object.insert("usage".into(), if status == "in_progress" { Value::Null } else { usage });
        Value::Object(object)
    }

    /// Tokens of what the model thought, when that is read again.
    fn thoughts(&self) -> usize {
        let thoughts = self.items.iter().filter(|item| item["type"] == "reasoning");
        let texts = thoughts.filter_map(|item| item["content"][0]["text"].as_str());
        texts.map(|text| self.model.tokenizer.encode(text, false, false).len()).sum()
    }

    fn status(&self) -> &'static str {
        if self.ending == Ending::Length { "incomplete" } else { "completed" }
    }

    fn end(&mut self, ending: Ending, spent: Spent, out: &mut String) {
        for delta in self.parser.finish() {
            self.delta(delta, out);
        }
        self.close(out);
        (self.ending, self.spent) = (ending, spent);
    }
}

fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Reasoning => "reasoning_text",
        Kind::Message => "output_text",
        Kind::Call(_) => "function_call_arguments",
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

impl Protocol for Responses {
    fn streams(&self) -> bool {
        self.stream
    }

    fn start(&mut self, out: &mut String) {
        let response = self.response("in_progress");
        self.send(out, "response.created", json!({ "response": response }));
        self.send(out, "response.in_progress", json!({ "response": response }));
    }

    fn heard(&mut self, heard: Heard, out: &mut String) {
        match heard {
            Heard::Progress { cached, done, total, time_ms, .. } => {
                // What the client said is told at the beginning and at the end, not with every step.
                let response = self.bare_response("in_progress");
                let progress = progress(cached, done, total, time_ms);
                self.send(out, "response.in_progress", json!({ "response": response, "prompt_progress": progress }));
            }
            Heard::Text { text, spent, .. } => {
                self.spoken = self.timings.then_some(spent);
                for delta in self.parser.push(&text) {
                    self.delta(delta, out);
                }
                self.spoken = None;
            }
            Heard::End { ending, spent, .. } => self.end(ending, spent, out),
            Heard::Vector { .. } | Heard::Failed { .. } => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        let status = self.status();
        let response = self.response(status);
        let times = timings(&self.spent);
        self.send(out, &format!("response.{status}"), json!({ "response": response, "timings": times }));
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        let mut response = self.response("failed");
        response["error"] = json!({ "code": "server_error", "message": error.message });
        self.send(out, "response.failed", json!({ "response": response }));
    }

    fn whole(&mut self, texts: Vec<Said>) -> Value {
        // The events are for nobody; what stays are the items.
        let out = &mut String::new();
        for said in texts {
            for delta in self.parser.push(&said.text) {
                self.delta(delta, out);
            }
            self.end(said.ending.unwrap_or(Ending::Length), said.spent, out);
        }
        self.response(self.status())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_one_turn_are_one_message() {
        let thought =
            |text: &str| json!({ "type": "reasoning", "content": [{ "type": "reasoning_text", "text": text }] });
        let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{}" });
        let said = |text: &str| json!({ "role": "assistant", "content": [{ "type": "output_text", "text": text }] });
        let items = [
            json!({ "role": "user", "content": "a" }),
            thought("hm"),
            call("1"),
            call("2"),
            json!({ "type": "function_call_output", "call_id": "1", "output": "x" }),
            json!({ "type": "web_search_call" }),
            thought("so"),
            said("b"),
            json!({ "type": "reasoning", "summary": [], "encrypted_content": "?" }),
            json!({ "role": "user", "content": "c" }),
        ];
        let (mut messages, mut thoughts) = (vec![], None);
        items.iter().try_for_each(|item| add_item(&mut messages, &mut thoughts, item)).expect("messages");
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().expect("a role")).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
        assert_eq!(messages[1]["tool_calls"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            (&messages[1]["reasoning_content"], &messages[3]["reasoning_content"]),
            (&json!("hm"), &json!("so"))
        );
        assert_eq!(messages[3]["content"], "b");
    }
}
