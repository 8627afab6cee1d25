//! `/v1/chat/completions`.

use super::generation_settings::generation_settings;
use super::usage::{chat_logprob, progress, timings, usage};
use crate::app::{App, now};
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammar::Rule;
use crate::served::Model;
use crate::settings::Settings;
use crate::speech::{Ending, Heard, Scored};
use crate::stream::{Prepared, Protocol, Said, event};
use crate::tools::{self, Tools};
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use text::chat::{CallForm, Conversation, Delta, OutputParser, Prompt, ToolCall};

/// A conversation, rendered.
pub struct Rendered {
    /// The text for the model.
    pub prompt: Prompt,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The tools that the model may call.
    pub tools: Tools,
    /// How it writes that.
    pub form: CallForm,
    /// Whether reasoning stays in the text.
    pub raw_reasoning: bool,
}

impl Rendered {
    /// Allows nothing but calls of tools, if one is required.
    ///
    /// # Errors
    /// Tools whose parameters cannot be followed.
    pub fn require_calls(&self, settings: &mut Settings) -> Result<(), ApiError> {
        // Tags of calls may be control tokens.
        settings.special = !self.tools.functions.is_empty();
        if self.tools.required {
            settings.rule = Some(Rule::of_tools(&self.tools, self.form, self.prompt.opens_reasoning)?);
        }
        Ok(())
    }

    /// What tells the parts of the output apart, for a stream in pieces.
    pub fn parser(&self, in_pieces: bool) -> OutputParser {
        let parser = OutputParser::new(self.prompt.opens_reasoning, &self.tools.functions);
        let parser = if in_pieces { parser.in_pieces() } else { parser };
        let parser = if self.tools.one_call { parser.with_one_call() } else { parser };
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
    let is_text = |content: &Value| matches!(content, Value::String(_) | Value::Array(_) | Value::Null);
    if let Some(message) = messages.iter().find(|message| !is_text(&message["content"])) {
        let problem = format!("content is {}, not a string or a list of parts", message["content"]);
        return Err(ApiError::field("messages", problem));
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
    let tools = Tools::of_openai(fields, functions(fields)?)?;
    let mut conversation = Conversation::new(messages.to_vec());
    conversation.tools.clone_from(&tools.functions);
    let (generate, go_on) = (fields.flag("add_generation_prompt")?, fields.flag("continue_final_message")?);
    if generate == Some(true) && go_on == Some(true) {
        let problem = "it and add_generation_prompt exclude each other";
        return Err(ApiError::field("continue_final_message", problem));
    }
    conversation.add_generation_prompt = generate.unwrap_or(true);
    let begun = go_on.or(generate).unwrap_or(true).then(|| Begun::take(&mut conversation)).flatten();
    if begun.is_some() && conversation.messages.last().is_some_and(|message| message["role"] == "assistant") {
        return Err(ApiError::field("messages", "the assistant cannot go on from two messages in a row"));
    }
    if let Some(variables) = fields.map("chat_template_kwargs")? {
        conversation.variables = variables.clone();
        conversation.enable_thinking = variables.get("enable_thinking").and_then(Value::as_bool);
    }
    if let Some(effort) = fields.text("reasoning_effort")? {
        if effort == "none" {
            conversation.enable_thinking = Some(false);
        }
        conversation.variables.entry("reasoning_effort").or_insert_with(|| effort.into());
    }
    let format = fields.text("reasoning_format")?;
    let raw_reasoning = format.map_or(model.defaults.raw_reasoning, |format| format == "none");
    conversation.parse_special = parses_special(fields, model)?;
    render_conversation(&conversation, begun, tools, raw_reasoning, model)
}

/// Whether special tokens that are spelled out in messages are special.
///
/// # Errors
/// A field that is no flag.
pub fn parses_special(fields: Fields<'_>, model: &Model) -> Result<bool, ApiError> {
    Ok(fields.flag("parse_special")?.unwrap_or(model.defaults.parse_special))
}

/// What the assistant has said already, for it to go on from there: the last message, if it is the assistant's.
#[derive(Debug, Default)]
pub struct Begun {
    reasoning: String,
    content: String,
}

impl Begun {
    /// Takes the message out of a conversation.
    pub fn take(conversation: &mut Conversation) -> Option<Begun> {
        let last = conversation.messages.last()?;
        let calls = last["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        if last["role"] != "assistant" || calls {
            return None;
        }
        let content = match &last["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n\n"),
            _ => String::new(),
        };
        let reasoning = last["reasoning_content"].as_str().unwrap_or_default().to_owned();
        conversation.messages.pop();
        conversation.add_generation_prompt = true;
        Some(Begun { reasoning, content })
    }
}

/// Renders a conversation.
///
/// # Errors
/// As [`render`].
pub fn render_conversation(
    conversation: &Conversation,
    begun: Option<Begun>,
    tools: Tools,
    raw_reasoning: bool,
    model: &Model,
) -> Result<Rendered, ApiError> {
    let template = model
        .template
        .as_ref()
        .map_err(|why| ApiError::unsupported(format!("the chat template of this model cannot be used: {why}")))?;
    if !tools.functions.is_empty() && !template.takes_tools() {
        let problem =
            format!("the chat template of {} does not read tools, so the model would not know them", model.name());
        return Err(ApiError::field("tools", problem));
    }
    let mut prompt = match (conversation.enable_thinking, model.defaults.thinking) {
        (None, thinking @ Some(_)) => {
            template.render(&Conversation { enable_thinking: thinking, ..conversation.clone() })?
        }
        _ => template.render(conversation)?,
    };
    if let Some(begun) = begun {
        prompt.begin_answer(&begun.reasoning, &begun.content);
    }
    let tokens = prompt.encode(&model.tokenizer);
    Ok(Rendered { prompt, tokens, tools, form: template.call_form(), raw_reasoning })
}

/// The functions among the tools. Tools of other kinds are nothing that a model could use.
///
/// # Errors
/// What is no tool.
pub fn functions(fields: Fields<'_>) -> Result<Vec<Value>, ApiError> {
    tools::listed(fields)?.iter().filter(|tool| tools::is_function(tool)).map(tools::chat_function).collect()
}

/// Prepares an answer.
///
/// # Errors
/// A request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let mut settings = Settings::read(fields, model)?;
    settings.read_logprobs(fields)?;
    let rendered = render(fields, model)?;
    settings.read_grammar(fields, rendered.prompt.opens_reasoning)?;
    rendered.require_calls(&mut settings)?;
    let chat = Chat {
        head: Head::new(app.id("chatcmpl-"), fields, model)?,
        model: model.clone(),
        choices: (0..settings.choices).map(|_| Choice::new(rendered.parser(settings.stream))).collect(),
        verbose: (app.options.verbose || fields.flag("verbose")?.unwrap_or(false))
            .then(|| rendered.prompt.text.clone()),
        settings: settings.clone(),
        ids: app.id("call_"),
    };
    Ok(Prepared { prompts: vec![rendered.tokens], settings, protocol: Box::new(chat) })
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
        Ok(Head { id, model: model.called_by(fields)?, created: now() })
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
    // Some clients of llama-server look for its "b" and a number.
    format!("b{}-kernloom", env!("CARGO_PKG_VERSION"))
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
    /// What the ids of calls begin with.
    ids: String,
    /// The prompt, if it is to be shown.
    verbose: Option<String>,
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

    /// What whoever looks for a mistake wants to see.
    fn show(&self, object: &mut Map<String, Value>) {
        if let Some(prompt) = &self.verbose {
            let shown = json!({ "prompt": prompt, "generation_settings": generation_settings(&self.settings) });
            object.insert("__verbose".into(), shown);
        }
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
                Delta::Call(name) => {
                    let at = self.choices[index].calls;
                    self.choices[index].calls += 1;
                    let id = self.call_id(index, at);
                    let function = json!({ "name": name, "arguments": "" });
                    let start = json!([{ "index": at, "id": id, "type": "function", "function": function }]);
                    self.chunk(out, index, json!({ "tool_calls": start }), None, more);
                }
                Delta::Arguments(text) => {
                    let at = self.choices[index].calls.saturating_sub(1);
                    let piece = json!([{ "index": at, "function": { "arguments": text } }]);
                    self.chunk(out, index, json!({ "tool_calls": piece }), None, more);
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
                more.insert("prompt_progress".into(), progress(cached, done, total, time_ms));
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
            Heard::End { index, ending, spent, .. } => {
                let deltas = self.choices[index].parser.finish();
                self.deltas(out, index, deltas, Map::new());
                self.choices[index].spent = spent;
                if !self.settings.include_usage {
                    more.insert("timings".into(), timings(&spent));
                }
                self.show(&mut more);
                let reason = finish_reason(&ending, self.choices[index].calls);
                self.chunk(out, index, json!({}), Some(reason), more);
            }
            Heard::Vector { .. } | Heard::Failed { .. } => {}
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
            let message = Message::of(&mut self.choices[index].parser, &said.text);
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
        self.show(&mut object);
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
#[derive(Debug, Default, PartialEq, Eq)]
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
    pub fn of(parser: &mut OutputParser, text: &str) -> Message {
        let deltas = parser.push(text);
        Message::of_deltas(deltas.into_iter().chain(parser.finish()))
    }

    /// Puts together what was told apart.
    pub fn of_deltas(deltas: impl IntoIterator<Item = Delta>) -> Message {
        let mut message = Message::default();
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => message.reasoning += &text,
                Delta::Content(text) => message.content += &text,
                Delta::Call(name) => message.calls.push(ToolCall { name, arguments: String::new() }),
                Delta::Arguments(text) => message.calls.last_mut().into_iter().for_each(|c| c.arguments += &text),
            }
        }
        message
    }
}
