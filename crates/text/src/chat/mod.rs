//! Conversations to prompts, and outputs back to messages.
//!
//! A model's chat format is the template in its file, or, without one, a [`Family`] that Kernloom
//! knows. A [`Prompt`] knows which of its text the template wrote: only there are special tokens
//! special. The tokenizer adds no second beginning-of-text token to one that the template wrote.

mod calls;
mod delta;
mod family;
mod forms;
mod harmony;
mod jinja;
mod messages;
mod notation;
mod output;
mod prompt;
mod reasoning;
mod scan;
mod words;

pub use calls::CallForm;
pub use delta::{Delta, ToolCall};
pub use family::Family;
pub use jinja::{Limit, Limits, TemplateError};
pub use output::OutputParser;
pub use prompt::Prompt;
pub use reasoning::{ReasoningSplitter, Split};

use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::SystemTime;
use thiserror::Error;

use crate::tokenizer::{Tokenizer, tags};
use jinja::{Marked, Template};
use messages::Forms;
use words::Words;

/// Why a conversation has no prompt.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChatError {
    /// The template cannot be read, or cannot render these messages.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A message that no template could render.
    #[error("message {index} cannot be used: {reason}")]
    BadMessage {
        /// Its place in the conversation, from 0.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// What a prompt is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Objects with `role`, `content` (a string, parts or null), and possibly `reasoning_content`,
    /// `tool_calls`, `tool_call_id` and `name`.
    pub messages: Vec<Json>,
    /// Tools on offer, in the form of the OpenAI API.
    pub tools: Vec<Json>,
    /// End the prompt where the assistant's next turn begins.
    pub add_generation_prompt: bool,
    /// Ask for reasoning, or for none. `None` leaves it to templates that have a default of their own, and asks those
    /// for it that only read the switch: they count on being told.
    pub enable_thinking: Option<bool>,
    /// Further variables of the template. They replace those set here under the same name.
    pub variables: Map<String, Json>,
    /// The time that templates print.
    pub now: SystemTime,
    /// Whether special tokens that are spelled out in messages, tools and variables are special, as those of the template
    /// are. Whoever writes there can then end a turn and begin another one.
    pub parse_special: bool,
}

impl Conversation {
    /// A conversation that asks for the assistant's next turn.
    pub fn new(messages: Vec<Json>) -> Conversation {
        Conversation {
            messages,
            tools: Vec::new(),
            add_generation_prompt: true,
            enable_thinking: None,
            variables: Map::new(),
            now: SystemTime::now(),
            parse_special: false,
        }
    }
}

/// Writes conversations the way a model was trained to read them.
///
/// ```
/// use text::chat::{ChatTemplate, Conversation, Family};
/// use serde_json::json;
///
/// let template = ChatTemplate::of_family(Family::ChatMl, "", "<|im_end|>").unwrap();
/// let messages = vec![json!({ "role": "user", "content": "Hi" })];
/// let prompt = template.render(&Conversation::new(messages)).unwrap();
/// assert_eq!(prompt.text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    template: Template,
    bos: String,
    eos: String,
    /// Whether the vocabulary has a `<think>` token.
    thinks: bool,
    forms: Forms,
    /// What it takes for tools when there are none: null, or an empty list.
    no_tools: Json,
    calls: CallForm,
    limits: Limits,
    family: Option<Family>,
}

impl ChatTemplate {
    /// The template of a model's file, or of its family if the file has none.
    ///
    /// # Errors
    /// A template that is not one. A model can still be used by naming a family.
    pub fn of_model(tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        let text = |id: Option<u32>| {
            let bytes = id.and_then(|id| tokenizer.token_bytes(id));
            String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
        };
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        let family = Family::of(tokenizer);
        // Some converters write the name of a format in place of a template.
        let named = tokenizer.chat_template().and_then(Family::named);
        let mut template = match (named, tokenizer.chat_template()) {
            (Some(named), _) => ChatTemplate::of_family(named, &bos, &eos)?,
            (None, Some(source)) => ChatTemplate::parse(source, &bos, &eos)?,
            (None, None) => ChatTemplate::of_family(family, &bos, &eos)?,
        };
        template.thinks = tokenizer.token_id("<think>").is_some();
        Ok(template)
    }

    /// The template of a family, for the given beginning-of-text and end-of-text tokens.
    ///
    /// # Errors
    /// None that the tests know of: the templates are part of the program.
    pub fn of_family(family: Family, bos: &str, eos: &str) -> Result<ChatTemplate, ChatError> {
        let mut template = ChatTemplate::parse(family.template(), bos, eos)?;
        template.family = Some(family);
        Ok(template)
    }

    /// A template from its source, for the given beginning-of-text and end-of-text tokens.
    ///
    /// # Errors
    /// The first syntax error, with its line.
    pub fn parse(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, ChatError> {
        let mut template = ChatTemplate {
            source: source.to_owned(),
            template: Template::parse(source)?,
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            thinks: true,
            forms: Forms::default(),
            no_tools: Json::Null,
            calls: CallForm::default(),
            limits: Limits::default(),
            family: None,
        };
        let question = [json!({ "role": "user", "content": "x" })];
        if template.probe(&question).is_none() {
            template.no_tools = json!([]);
            if template.probe(&question).is_none() {
                template.no_tools = Json::Null;
            }
        }
        let forms = Forms::of(|messages| template.probe(messages));
        template.forms = Forms { developer: source.contains("developer"), ..forms };
        template.calls = template.form_of_calls();
        Ok(template)
    }

    /// What it makes of messages in the form that it wants, if it can.
    fn probe(&self, messages: &[Json]) -> Option<String> {
        let mut conversation = Conversation::new(vec![]);
        conversation.now = SystemTime::UNIX_EPOCH;
        self.run(messages, &conversation, PROBE_LIMITS).ok().map(|marked| marked.text)
    }

    /// Sets what one rendering may use.
    pub fn with_limits(mut self, limits: Limits) -> ChatTemplate {
        self.limits = limits;
        self
    }

    /// The template as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The built-in family, if the template is not the file's own.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// How the model writes calls of tools, as far as the template shows it.
    pub fn call_form(&self) -> CallForm {
        self.calls
    }

    /// Whether it tells the model of tools.
    pub fn takes_tools(&self) -> bool {
        self.template.reads("tools") || self.template.reads("functions")
    }

    /// Whether the model can think before it answers, as far as the template shows it.
    pub fn can_think(&self) -> bool {
        let knows = self.template.reads("enable_thinking")
            || self.template.reads("thinking")
            || tags::THOUGHTS.iter().any(|(open, close)| self.source.contains(open) || self.source.contains(close))
            || harmony::is_written_by(&self.source);
        knows && (self.family.is_none() || self.thinks)
    }

    fn form_of_calls(&self) -> CallForm {
        const NAME: &str = "probe_name";
        let function = json!({ "name": NAME, "arguments": { "pin": "x" } });
        let messages = [
            json!({ "role": "user", "content": "x" }),
            json!({ "role": "assistant", "content": "", "tool_calls": [{ "id": "call00001", "type": "function", "function": function }] }),
            json!({ "role": "tool", "tool_call_id": "call00001", "name": NAME, "content": "x" }),
        ];
        let rendered = self.forms.apply(&messages).ok().and_then(|messages| self.probe(&messages));
        rendered.map_or_else(CallForm::default, |prompt| CallForm::of(&prompt, NAME))
    }

    /// The prompt of a conversation.
    ///
    /// # Errors
    /// A message without a role, or whatever the template cannot do: each with its place.
    pub fn render(&self, conversation: &Conversation) -> Result<Prompt, ChatError> {
        let messages = self.forms.apply(&conversation.messages)?;
        let marked = self.run(&messages, conversation, self.limits)?;
        let mut prompt = Prompt::new(marked, conversation.parse_special);
        if conversation.add_generation_prompt {
            prompt.find_open_reasoning();
        }
        if prompt.opens_reasoning && conversation.enable_thinking == Some(false) {
            // The template has no switch.
            prompt.close_reasoning();
        }
        Ok(prompt)
    }

    fn run(&self, messages: &[Json], conversation: &Conversation, limits: Limits) -> Result<Marked, TemplateError> {
        // Most templates take an empty list for tools, so none is null.
        let tools = match &conversation.tools[..] {
            [] => self.no_tools.clone(),
            tools => Json::Array(tools.to_vec()),
        };
        let mut variables: BTreeMap<&str, (Json, Words)> = BTreeMap::new();
        variables.insert("messages", (Json::Array(messages.to_vec()), Words::Messages));
        variables.insert("tools", (tools, Words::Data));
        let mut own = |name, value: Json| drop(variables.insert(name, (value, Words::Template)));
        own("documents", Json::Null);
        own("add_generation_prompt", conversation.add_generation_prompt.into());
        own("bos_token", self.bos.as_str().into());
        own("eos_token", self.eos.as_str().into());
        if self.family.is_some() {
            own("thinks", self.thinks.into());
        }
        let template = &self.template;
        let asked = conversation.enable_thinking;
        if let Some(thinking) = asked.or((!template.tests("enable_thinking")).then_some(true)) {
            own("enable_thinking", thinking.into());
        }
        // Some call the switch so; it must be meant.
        if let Some(thinking) = asked {
            own("thinking", thinking.into());
        }
        // Some templates do not ask for the time but take the day under one of these names, or one of years ago.
        for (name, format) in [("date_string", "%d %b %Y"), ("datetime", "%b %d %Y")] {
            own(name, jinja::strftime(conversation.now, format).into());
        }
        // The form of tools before there was one: text, empty if there are none.
        if !template.reads("tools") {
            let text = match &conversation.tools[..] {
                [] => String::new(),
                tools => serde_json::to_string_pretty(tools).unwrap_or_default(),
            };
            variables.insert("functions", (text.into(), Words::Data));
        }
        for (name, value) in &conversation.variables {
            variables.insert(name, (value.clone(), Words::Data));
        }
        let whose = |words| if conversation.parse_special { Words::Template } else { words };
        let variables = variables.iter().map(|(name, (value, words))| (*name, value, whose(*words)));
        self.template.render(&variables.collect::<Vec<_>>(), limits, conversation.now)
    }
}

/// Finding out about a template must not cost more than rendering a short conversation.
const PROBE_LIMITS: Limits = Limits { steps: 200_000, memory: 16 << 20, output: 1 << 20 };

#[cfg(test)]
mod tests;

#[cfg(test)]
mod forms_tests;
