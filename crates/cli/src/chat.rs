//! `run` on a terminal without a prompt: a conversation.
//!
//! Ctrl-C stops an answer, not the program; once more at the prompt it leaves, as Ctrl-D and /exit do. What was computed
//! for earlier turns stays in the cache. Nothing of a conversation is ever left out to make room.

mod command;
mod editor;
mod saved;
mod settings;

use crate::arguments::Numerics;
use crate::failure::{self, Interrupted};
use crate::interrupt;
use crate::run::arguments::Arguments;
use crate::speaker::Speaker;
use crate::terminal;
use anyhow::{Context, bail};
use command::Command;
use editor::{Editor, Input};
use model::sequence::Finish;
use serde_json::{Value, json};
use std::path::Path;

/// Tokens of a prompt that kernels are compiled for before there is one.
const USUAL_PROMPT: usize = 32;

/// Talks until the input ends.
pub fn run(args: Arguments) -> anyhow::Result<()> {
    let mut speaker = Speaker::open(&args)?;
    speaker.prepare(&args.begin, USUAL_PROMPT)?;
    let mut chat =
        Chat { speaker, messages: vec![], system: args.system_prompt.clone(), thoughts: String::new(), stopped: false };
    let history = args.history.clone().or_else(editor::usual_history).filter(|_| !args.no_history);
    let mut editor = Editor::new(history)?;
    let exact = args.engine.kernels.numerics == Numerics::Exact;
    terminal::faint(&format!("/help lists commands{}", if exact { "; exact numerics" } else { "" }));
    // Between an answer and the next prompt, Ctrl-C must not end the program.
    let _watch = interrupt::watch();
    loop {
        let input = editor.read()?;
        let taken = match input {
            Input::End => return Ok(()),
            Input::Interrupt if chat.stopped => return Err(Interrupted.into()),
            Input::Interrupt => {
                chat.stopped = true;
                terminal::faint("Ctrl-C once more leaves; so do Ctrl-D and /exit");
                continue;
            }
            Input::Dropped => {
                chat.stopped = false;
                continue;
            }
            Input::Text(text) if text.is_empty() => continue,
            Input::Text(text) => {
                chat.stopped = false;
                chat.ask(text).map(|()| true)
            }
            Input::Command(line) => {
                chat.stopped = false;
                chat.take(&line)
            }
        };
        match taken {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // A conversation survives what one turn cannot do.
            Err(error) if failure::is_closed_pipe(&error) => return Err(error),
            Err(error) => terminal::line(&format!("error: {}", failure::message(&error))),
        }
    }
}

struct Chat {
    speaker: Speaker,
    messages: Vec<Value>,
    system: Option<String>,
    /// What the model thought last.
    thoughts: String,
    /// Whether the last thing was a Ctrl-C.
    stopped: bool,
}

impl Chat {
    /// Follows a command; `false` if it was the last.
    fn take(&mut self, line: &str) -> anyhow::Result<bool> {
        let (command, rest) = Command::parse(line).map_err(anyhow::Error::msg)?;
        if command.takes_file() && rest.is_empty() {
            bail!("the name of a file is missing");
        }
        match command {
            Command::Exit => return Ok(false),
            Command::Help => terminal::lines(&command::help()),
            Command::Clear => {
                self.messages.clear();
                terminal::faint("a new conversation");
            }
            Command::Undo => self.undo(),
            Command::Regen => self.regenerate()?,
            Command::Read => {
                let text = std::fs::read_to_string(rest).with_context(|| format!("cannot read {rest}"))?;
                self.ask(text)?;
            }
            Command::System => {
                self.system = Some(rest.to_owned()).filter(|text| !text.is_empty());
                terminal::faint(if rest.is_empty() { "no system prompt" } else { "a new system prompt" });
            }
            Command::Set => self.set(rest)?,
            Command::Think => {
                self.speaker.think = match rest {
                    "on" | "" => Some(true),
                    "off" => Some(false),
                    "auto" => None,
                    other => bail!("'{other}' is not on, off or auto"),
                }
            }
            Command::Show => self.show(rest)?,
            Command::Save => {
                saved::save(Path::new(rest), &self.whole())?;
                terminal::faint(&format!("{} messages in {rest}", self.whole().len()));
            }
            Command::Load => self.load(rest)?,
            Command::Stats => terminal::line(&self.speaker.timing_line()),
        }
        Ok(true)
    }

    fn ask(&mut self, text: String) -> anyhow::Result<()> {
        let before = self.messages.len();
        self.messages.push(json!({ "role": "user", "content": text }));
        let answered = self.answer();
        if answered.is_err() {
            self.messages.truncate(before);
        }
        answered
    }

    /// The conversation with its system prompt.
    fn whole(&self) -> Vec<Value> {
        let system = self.system.as_ref().map(|text| json!({ "role": "system", "content": text }));
        system.into_iter().chain(self.messages.iter().cloned()).collect()
    }

    fn answer(&mut self) -> anyhow::Result<()> {
        self.speaker.restart_clock();
        let prompt = match &self.speaker.template {
            Some(_) => self.speaker.render(self.whole())?,
            None => self.speaker.plain(&self.whole()),
        };
        let (_, all) = self.speaker.context();
        if prompt.len() >= all {
            bail!(
                "the conversation would have {} tokens, the context holds {all}: /undo or /clear makes room, \
                 or start again with a larger -c (/save keeps the conversation)",
                prompt.len()
            );
        }
        let answer = self.speaker.answer(&prompt)?;
        self.speaker.end_line()?;
        match answer.finish {
            Finish::ContextFull => terminal::line(&format!(
                "the context of {all} tokens is full, so the answer ends here: /undo or /clear makes room, \
                 or start again with a larger -c"
            )),
            Finish::Stopped => self.stopped = true,
            Finish::End | Finish::Limit => {}
        }
        terminal::faint(&self.speaker.status_line());
        let mut message = json!({ "role": "assistant", "content": answer.content });
        if !answer.reasoning.is_empty() {
            message["reasoning_content"] = json!(answer.reasoning);
        }
        self.thoughts = answer.reasoning;
        self.messages.push(message);
        Ok(())
    }

    fn undo(&mut self) {
        match self.messages.iter().rposition(|message| message["role"] == "user") {
            Some(last) => self.messages.truncate(last),
            None => terminal::line("there is nothing to undo"),
        }
    }

    fn regenerate(&mut self) -> anyhow::Result<()> {
        let before = self.messages.clone();
        if self.messages.last().is_some_and(|message| message["role"] == "assistant") {
            self.messages.pop();
        }
        if self.messages.is_empty() {
            bail!("there is nothing to answer again");
        }
        let answered = self.answer();
        if answered.is_err() {
            self.messages = before;
        }
        answered
    }

    fn load(&mut self, path: &str) -> anyhow::Result<()> {
        let mut messages = saved::load(Path::new(path))?;
        let has_system = messages.first().is_some_and(|message| message["role"] == "system");
        self.system = has_system.then(|| messages.remove(0)["content"].as_str().unwrap_or_default().to_owned());
        self.messages = messages;
        terminal::faint(&format!("{} messages from {path}", self.messages.len()));
        Ok(())
    }

    fn show(&self, what: &str) -> anyhow::Result<()> {
        match what {
            "" => {
                let (used, all) = self.speaker.context();
                let think = self.speaker.think.map_or("auto", |think| if think { "on" } else { "off" });
                terminal::line(&format!("context: {used} of {all} tokens; {} messages", self.messages.len()));
                terminal::lines(&format!("system: {}", self.system.as_deref().unwrap_or("(none)")));
                terminal::line(&format!("think: {think}"));
                settings::show(&self.speaker);
            }
            "messages" => {
                for message in self.whole() {
                    let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
                    terminal::lines(&format!("{}: {}", text("role"), text("content")));
                }
            }
            "thoughts" if self.thoughts.is_empty() => terminal::line("the last answer had no thoughts"),
            "thoughts" => terminal::lines(&self.thoughts),
            "template" => terminal::lines(self.speaker.tokenizer.chat_template().unwrap_or("the file has no template")),
            other => bail!("there is no '{other}' to show (messages, thoughts, template)"),
        }
        Ok(())
    }

    fn set(&mut self, text: &str) -> anyhow::Result<()> {
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match name {
            "" => settings::show(&self.speaker),
            _ => settings::set(&mut self.speaker, name, value.trim())?,
        }
        Ok(())
    }
}
