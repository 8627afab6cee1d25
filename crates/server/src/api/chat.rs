//! `/v1/chat/completions`.

use super::usage::{chat_logprob, timings, usage};
use crate::app::{App, Model, now};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::settings::Settings;
use crate::speech::{Answer, Ending, Heard, Scored};
use crate::stream::{Begun, Protocol, Said, event};
use model::chat::{Conversation, Delta, OutputParser, Prompt, ToolCall};
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A conversation, rendered.
pub struct Rendered {
    /// The text for the model.
    pub prompt: Prompt,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The tools that the model may call.
    pub tools: Vec<Value>,
    /// Whether reasoning stays in the text.
    pub raw_reasoning: bool,
}

impl Rendered {
    /// What tells the parts of the output apart.
    pub fn parser(&self) -> OutputParser {
        let parser = OutputParser::new(self.prompt.opens_reasoning, &self.tools);
        if self.raw_reasoning { parser.without_reasoning() } else { parser }
    }
}

/// Renders the messages of a request.
///
/// # Errors
/// Messages that the template cannot render, and a model without a template.
pub fn render(fields: Fields<'_>, model: &Model) -> Result<Rendered, ApiError> {
    let messages = fields.list("messages")?.ok_or_else(|| ApiError::field("messages", "they are missing"))?;
    if messages.is_empty() {
        return Err(ApiError::field("messages", "the list is empty"));
    }
    for part in messages.iter().filter_map(|message| message["content"].as_array()).flatten() {
        let kind = part["type"].as_str().unwrap_or("text");
        if !matches!(kind, "text" | "input_text" | "output_text" | "refusal") {
            return Err(ApiError::field(
                "messages",
                format!("this model reads text only, and there is a part of type '{kind}'"),
            ));
        }
    }
    let tools = tools(fields)?;
    let mut conversation = Conversation::new(messages.to_vec());
    conversation.tools.clone_from(&tools);
    conversation.add_generation_prompt = fields.flag("add_generation_prompt")?.unwrap_or(true);
    if let Some(variables) = fields.object("chat_template_kwargs")? {
        conversation.variables = variables.0.clone();
        conversation.enable_thinking = variables.get("enable_thinking").and_then(Value::as_bool);
    }
    if let Some(effort) = fields.text("reasoning_effort")? {
        if effort == "none" {
            conversation.enable_thinking = Some(false);
        }
        conversation.variables.entry("reasoning_effort").or_insert_with(|| effort.into());
    }
    let raw_reasoning = fields.text("reasoning_format")?.is_some_and(|format| format == "none");
    render_conversation(&conversation, tools, raw_reasoning, model)
}

/// Renders a conversation.
///
/// # Errors
/// As [`render`].
pub fn render_conversation(
    conversation: &Conversation,
    tools: Vec<Value>,
    raw_reasoning: bool,
    model: &Model,
) -> Result<Rendered, ApiError> {
    let template = model
        .template
        .as_ref()
        .map_err(|why| ApiError::unsupported(format!("the chat template of this model cannot be used: {why}")))?;
    let prompt = template.render(conversation)?;
    let tokens = model.tokenizer.encode(&prompt.text, true, true);
    Ok(Rendered { prompt, tokens, tools, raw_reasoning })
}

/// The functions among the tools, unless none may be called. Tools of other kinds are nothing that a model could use.
fn tools(fields: Fields<'_>) -> Result<Vec<Value>, ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default();
    let choice = fields.get("tool_choice");
    if choice.and_then(Value::as_str) == Some("none") {
        return Ok(vec![]);
    }
    let wanted = choice.and_then(|choice| choice["function"]["name"].as_str());
    let mut out = vec![];
    for tool in tools.iter().filter(|tool| tool["type"] == "function" || tool.get("type").is_none()) {
        let Some(name) = tool["function"]["name"].as_str() else {
            return Err(ApiError::field("tools", "a function without a name"));
        };
        if wanted.is_none_or(|wanted| wanted == name) {
            out.push(without_nulls(tool));
        }
    }
    match wanted {
        Some(name) if out.is_empty() => Err(ApiError::field("tool_choice", format!("there is no function '{name}'"))),
        _ => Ok(out),
    }
}

/// Templates print what is null as text.
fn without_nulls(tool: &Value) -> Value {
    let mut tool = tool.clone();
    if let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) {
        function.retain(|_, value| !value.is_null());
    }
    tool
}

/// Begins an answer.
///
/// # Errors
/// A request that makes no sense, and what the queue refuses.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Value) -> Result<Begun, ApiError> {
    let fields = Fields::of(body)?;
    let mut settings = Settings::read(fields, model)?;
    settings.read_logprobs(fields)?;
    let rendered = render(fields, model)?;
    settings.read_grammar(fields, model, rendered.prompt.opens_reasoning)?;
    settings.special = !rendered.tools.is_empty();
    let chat = Chat {
        head: Head::new(app.id("chatcmpl-"), fields, model)?,
        model: model.clone(),
        choices: (0..settings.choices).map(|_| Choice::new(rendered.parser())).collect(),
        parallel_calls: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        settings: settings.clone(),
        ids: app.id("call_"),
    };
    let answer = Answer::of(app, model, vec![rendered.tokens], &settings)?;
    Ok(Begun { answer, protocol: Box::new(chat) })
}

/// What every chunk begins with.
pub struct Head {
    /// The id.
    pub id: String,
    /// The model as the client called it.
    pub model: String,
    /// When it was made.
    pub created: u64,
}

impl Head {
    /// For a request.
    ///
    /// # Errors
    /// A name of a model that is no string.
    pub fn new(id: String, fields: Fields<'_>, model: &Model) -> Result<Head, ApiError> {
        let name = fields.text("model")?.filter(|name| !name.is_empty()).unwrap_or(model.name());
        Ok(Head { id, model: name.to_owned(), created: now() })
    }

    /// An object with these choices.
    pub fn object(&self, kind: &str, choices: Value) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("choices".into(), choices);
        object.insert("created".into(), self.created.into());
        object.insert("id".into(), self.id.as_str().into());
        object.insert("model".into(), self.model.as_str().into());
        object.insert("system_fingerprint".into(), fingerprint().into());
        object.insert("object".into(), kind.into());
        object
    }
}

/// What tells builds apart.
pub fn fingerprint() -> String {
    format!("kernloom-{}", env!("CARGO_PKG_VERSION"))
}

struct Choice {
    parser: OutputParser,
    calls: usize,
    spent: Spent,
}

impl Choice {
    fn new(parser: OutputParser) -> Choice {
        Choice { parser, calls: 0, spent: Spent::default() }
    }
}

struct Chat {
    head: Head,
    model: Arc<Model>,
    settings: Settings,
    choices: Vec<Choice>,
    parallel_calls: bool,
    /// What the ids of calls begin with.
    ids: String,
}

impl Chat {
    fn chunk(&self, out: &mut String, index: usize, delta: Value, finish: Option<&str>, more: Map<String, Value>) {
        let mut choice = Map::new();
        choice.insert("index".into(), index.into());
        choice.insert("delta".into(), delta);
        choice.insert("finish_reason".into(), finish.map_or(Value::Null, Value::from));
        let mut more = more;
        if let Some(logprobs) = more.remove("logprobs") {
            choice.insert("logprobs".into(), logprobs);
        }
        let mut object = self.head.object("chat.completion.chunk", json!([choice]));
        object.extend(more);
        event(out, None, &Value::Object(object));
    }

    fn logprobs(&self, scores: &[Scored]) -> Option<Value> {
        self.settings.sampling.logprobs?;
        let content: Vec<Value> = scores.iter().map(|s| chat_logprob(&self.model.tokenizer, s)).collect();
        Some(json!({ "content": content }))
    }

    fn call_id(&self, index: usize, call: usize) -> String {
        format!("{}{index:x}{call:02x}", self.ids)
    }

    /// Writes deltas; the first carries what belongs to the chunk.
    fn deltas(&mut self, out: &mut String, index: usize, deltas: Vec<Delta>, mut more: Map<String, Value>) {
        for delta in deltas {
            let more = std::mem::take(&mut more);
            match delta {
                Delta::Reasoning(text) => self.chunk(out, index, json!({ "reasoning_content": text }), None, more),
                Delta::Content(text) => self.chunk(out, index, json!({ "content": text }), None, more),
                Delta::Call(ToolCall { name, arguments }) => {
                    let at = self.choices[index].calls;
                    if at > 0 && !self.parallel_calls {
                        continue;
                    }
                    self.choices[index].calls += 1;
                    let id = self.call_id(index, at);
                    let function = json!({ "name": name, "arguments": "" });
                    let start = json!([{ "index": at, "id": id, "type": "function", "function": function }]);
                    self.chunk(out, index, json!({ "tool_calls": start }), None, more);
                    let piece = json!([{ "index": at, "function": { "arguments": arguments } }]);
                    self.chunk(out, index, json!({ "tool_calls": piece }), None, Map::new());
                }
            }
        }
        if more.contains_key("logprobs") {
            // Tokens that printed nothing yet.
            self.chunk(out, index, json!({ "content": "" }), None, more);
        }
    }
}

fn finish_reason(ending: &Ending, calls: usize) -> &'static str {
    match ending {
        Ending::Model | Ending::Word(_) if calls > 0 => "tool_calls",
        ending => ending.reason(),
    }
}

impl Protocol for Chat {
    fn streams(&self) -> bool {
        self.settings.stream
    }

    fn start(&mut self, out: &mut String) {
        for index in 0..self.choices.len() {
            self.chunk(out, index, json!({ "role": "assistant", "content": null }), None, Map::new());
        }
    }

    fn heard(&mut self, heard: Heard, out: &mut String) {
        let mut more = Map::new();
        match heard {
            Heard::Progress { index, cached, done, total, time_ms } => {
                let progress = json!({ "total": total, "cache": cached, "processed": done, "time_ms": time_ms });
                more.insert("prompt_progress".into(), progress);
                self.chunk(out, index, json!({}), None, more);
            }
            Heard::Text { index, text, scores, spent, .. } => {
                if self.settings.timings {
                    more.insert("timings".into(), timings(&spent));
                }
                if let Some(logprobs) = self.logprobs(&scores) {
                    more.insert("logprobs".into(), logprobs);
                }
                let deltas = self.choices[index].parser.push(&text);
                self.deltas(out, index, deltas, more);
            }
            Heard::End { index, ending, spent } => {
                let deltas = self.choices[index].parser.finish();
                self.deltas(out, index, deltas, Map::new());
                self.choices[index].spent = spent;
                if !self.settings.include_usage {
                    more.insert("timings".into(), timings(&spent));
                }
                let reason = finish_reason(&ending, self.choices[index].calls);
                self.chunk(out, index, json!({}), Some(reason), more);
            }
            Heard::Failed { .. } => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        if self.settings.include_usage {
            let mut object = self.head.object("chat.completion.chunk", json!([]));
            object.insert("usage".into(), chat_usage(self.choices.iter().map(|choice| &choice.spent)));
            object.insert("timings".into(), timings(&self.choices[0].spent));
            event(out, None, &Value::Object(object));
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let mut choices = vec![];
        for (index, said) in texts.iter().enumerate() {
            let message = Message::of(&mut self.choices[index].parser, &said.text, self.parallel_calls);
            let ending = said.ending.as_ref().unwrap_or(&Ending::Length);
            let calls: Vec<Value> = message
                .calls
                .iter()
                .enumerate()
                .map(|(at, call)| {
                    let function = json!({ "name": call.name, "arguments": call.arguments });
                    json!({ "type": "function", "function": function, "id": self.call_id(index, at) })
                })
                .collect();
            let mut object = Map::new();
            object.insert("role".into(), "assistant".into());
            let no_content = message.content.is_empty() && !calls.is_empty();
            object.insert("content".into(), if no_content { Value::Null } else { message.content.into() });
            if !message.reasoning.is_empty() {
                object.insert("reasoning_content".into(), message.reasoning.into());
            }
            let count = calls.len();
            if count > 0 {
                object.insert("tool_calls".into(), calls.into());
            }
            let mut choice = Map::new();
            choice.insert("finish_reason".into(), finish_reason(ending, count).into());
            choice.insert("index".into(), index.into());
            choice.insert("message".into(), Value::Object(object));
            choice.insert("logprobs".into(), self.logprobs(&said.scores).unwrap_or(Value::Null));
            choices.push(Value::Object(choice));
        }
        let mut object = self.head.object("chat.completion", choices.into());
        object.insert("usage".into(), chat_usage(texts.iter().map(|said| &said.spent)));
        object.insert("timings".into(), timings(&texts.first().map(|said| said.spent).unwrap_or_default()));
        Value::Object(object)
    }
}

/// The prompt counts once, however many texts follow it.
fn chat_usage<'a>(spent: impl Iterator<Item = &'a Spent>) -> Value {
    let all: Vec<Spent> = spent
        .enumerate()
        .map(|(index, spent)| if index == 0 { *spent } else { Spent { prompt: 0, cached: 0, ..*spent } })
        .collect();
    usage(&all)
}

/// The parts of a whole text.
#[derive(Debug, Default)]
pub struct Message {
    /// What the model thought.
    pub reasoning: String,
    /// What it said.
    pub content: String,
    /// The tools it called.
    pub calls: Vec<ToolCall>,
}

impl Message {
    /// Tells the parts of a whole text apart.
    pub fn of(parser: &mut OutputParser, text: &str, parallel_calls: bool) -> Message {
        let mut message = Message::default();
        for delta in parser.push(text).into_iter().chain(parser.finish()) {
            match delta {
                Delta::Reasoning(text) => message.reasoning += &text,
                Delta::Content(text) => message.content += &text,
                Delta::Call(call) if parallel_calls || message.calls.is_empty() => message.calls.push(call),
                Delta::Call(_) => {}
            }
        }
        message
    }
}
