//! `run` on a terminal without a prompt: a conversation.
//!
//! Ctrl-C stops an answer, not the program; Ctrl-D or /exit ends it. Lines in triple quotes, or ending in a backslash,
//! go on.

use crate::arguments::Numerics;
use crate::run::{Arguments, Speaker};
use crate::terminal::{self, DIM, NORMAL};
use anyhow::Context;
use model::generate::Finish;
use serde_json::{Value, json};
use std::io::{BufRead, Write};

const HELP: &str = "\
/clear            forget the conversation
/regen            answer the last question again
/system TEXT      another system prompt, from now on
/read FILE        send a file
/set NAME VALUE   temp, top-k, top-p, min-p, seed, or n
/stats            times of the last answer
/exit             leave (so does Ctrl-D)
\"\"\" begins and ends a text of several lines; a backslash at the end of a line goes on too";

/// Talks until the input ends.
pub fn run(args: Arguments) -> anyhow::Result<()> {
    let mut chat = Chat { speaker: Speaker::open(&args)?, messages: vec![], system: args.system_prompt.clone() };
    let exact = args.engine.numerics == Numerics::Exact;
    terminal::line(&format!("{DIM}/help lists commands{}{NORMAL}", if exact { "; exact numerics" } else { "" }));
    while let Some(input) = read_input()? {
        match chat.take(input.trim()) {
            Ok(true) => {}
            Ok(false) => break,
            // A conversation survives what one turn cannot do.
            Err(error) if crate::failure::is_closed_pipe(&error) => return Err(error),
            Err(error) => terminal::line(&format!("error: {}", crate::failure::message(&error))),
        }
    }
    Ok(())
}

/// The next text of the user; `None` at the end of the input.
fn read_input() -> anyhow::Result<Option<String>> {
    let mut text = String::new();
    let mut quoted = false;
    loop {
        eprint_prompt(if text.is_empty() && !quoted { "> " } else { "… " });
        let mut line = vec![];
        if std::io::stdin().lock().read_until(b'\n', &mut line).context("cannot read stdin")? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(rest) = line.trim_start().strip_prefix("\"\"\"").filter(|_| !quoted && text.is_empty()) {
            quoted = true;
            text.push_str(rest);
        } else {
            text.push_str(line);
        }
        if quoted {
            match text.strip_suffix("\"\"\"") {
                Some(whole) => return Ok(Some(whole.to_owned())),
                None => text.push('\n'),
            }
        } else if text.ends_with('\\') {
            text.pop();
            text.push('\n');
        } else {
            return Ok(Some(text));
        }
    }
}

fn eprint_prompt(prompt: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{prompt}");
    let _ = err.flush();
}

struct Chat {
    speaker: Speaker,
    messages: Vec<Value>,
    system: Option<String>,
}

impl Chat {
    /// Takes an input; `false` if it was the last.
    fn take(&mut self, input: &str) -> anyhow::Result<bool> {
        let (command, rest) = input.split_once(char::is_whitespace).unwrap_or((input, ""));
        match command {
            "" => {}
            "/exit" | "/quit" | "/bye" => return Ok(false),
            "/help" | "/?" => terminal::line(HELP),
            "/clear" => self.messages.clear(),
            "/system" => self.system = Some(rest.trim().to_owned()).filter(|text| !text.is_empty()),
            "/stats" => terminal::line(&self.speaker.timing_line(None)),
            "/set" => self.set(rest.trim())?,
            "/read" => {
                let path = rest.trim();
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
                self.ask(text)?;
            }
            "/regen" => {
                if self.messages.last().is_some_and(|m| m["role"] == "assistant") {
                    self.messages.pop();
                }
                match self.messages.is_empty() {
                    true => terminal::line("there is nothing to answer again"),
                    false => self.answer()?,
                }
            }
            unknown if unknown.starts_with('/') => terminal::line(&format!("there is no command {unknown}; try /help")),
            _ => self.ask(input.to_owned())?,
        }
        Ok(true)
    }

    fn ask(&mut self, text: String) -> anyhow::Result<()> {
        self.messages.push(json!({ "role": "user", "content": text }));
        let answered = self.answer();
        if answered.is_err() {
            self.messages.pop();
        }
        answered
    }

    fn answer(&mut self) -> anyhow::Result<()> {
        let mut messages = vec![];
        messages.extend(self.system.as_ref().map(|text| json!({ "role": "system", "content": text })));
        messages.extend(self.messages.iter().cloned());
        self.speaker.restart_clock();
        let (tokens, in_thought) = match &self.speaker.template {
            Some(_) => self.speaker.render(messages)?,
            None => (self.plain(), false),
        };
        let answer = self.speaker.answer(&tokens, in_thought)?;
        self.speaker.end_line()?;
        let peak = self.speaker.opened.bandwidth();
        terminal::line(&format!("{DIM}{}{NORMAL}", self.speaker.timing_line(peak)));
        if answer.finish == Finish::ContextFull {
            terminal::line("the context is full: /clear, or start again with a larger -c");
        }
        let mut message = json!({ "role": "assistant", "content": answer.content });
        if !answer.reasoning.is_empty() {
            message["reasoning_content"] = json!(answer.reasoning);
        }
        self.messages.push(message);
        Ok(())
    }

    /// Without a template, all texts in a row.
    fn plain(&self) -> Vec<u32> {
        let text: String = self.messages.iter().filter_map(|m| m["content"].as_str()).collect();
        self.speaker.tokenizer.encode(text, true, false)
    }

    fn set(&mut self, text: &str) -> anyhow::Result<()> {
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let value = value.trim();
        let sampling = &mut self.speaker.sampling;
        let wrong = || format!("'{value}' is no value for {name}");
        let before = sampling.clone();
        match name {
            "temp" | "temperature" => sampling.temperature = value.parse().with_context(wrong)?,
            "top-k" | "top_k" => sampling.top_k = value.parse().with_context(wrong)?,
            "top-p" | "top_p" => sampling.top_p = value.parse().with_context(wrong)?,
            "min-p" | "min_p" => sampling.min_p = value.parse().with_context(wrong)?,
            "seed" => sampling.seed = value.parse().with_context(wrong)?,
            "n" => {
                let n: i64 = value.parse().with_context(wrong)?;
                self.speaker.limit = usize::try_from(n).ok();
            }
            _ => anyhow::bail!("there is no setting '{name}' (temp, top-k, top-p, min-p, seed, n)"),
        }
        let vocab = self.speaker.opened.engine.config().vocab as usize;
        if let Err(error) = model::sampler::Sampler::new(self.speaker.sampling.clone(), vocab) {
            self.speaker.sampling = before;
            return Err(error.into());
        }
        Ok(())
    }
}
