//! A model that is asked for text and prints what it answers.

use crate::arguments::BeginFlag;
use crate::failure::Interrupted;
use crate::interrupt;
use crate::models;
use crate::open::{self, Opened, Positions};
use crate::output::Stdout;
use crate::printer::Printer;
use crate::run::arguments::Arguments;
use crate::terminal;
use crate::transcript::Transcript;
use anyhow::{Context, bail};
use model::generate::{self, Generator, Timing};
use model::sequence::{Event, Finish, Request};
use model::step::Variant;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use text::chat::{ChatTemplate, Conversation, ReasoningSplitter};
use text::sampler::{Sampler, SamplerConfig};
use text::tokenizer::{Detokenizer, Tokenizer};

/// A model that answers in text.
pub struct Speaker {
    /// The engine.
    pub opened: Opened,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// How conversations are written; `None` takes text as it is.
    pub template: Option<ChatTemplate>,
    /// Whether the model is to think; `None` leaves it to the template.
    pub think: Option<bool>,
    /// Whether special tokens that are spelled out in messages are special.
    parse_special: bool,
    /// How tokens are chosen.
    pub sampling: SamplerConfig,
    /// Most tokens of an answer.
    pub limit: Option<usize>,
    /// Whether thoughts are printed.
    pub shows_thoughts: bool,
    /// Whether an end token ends the answer.
    ends: bool,
    stop: Vec<String>,
    generator: Generator,
    transcript: Transcript,
    /// Of everything since the clock was started.
    pub timing: Timing,
    /// When the work on the answer began; for the first answer, when opening did.
    began: Instant,
    /// From then until the first token.
    first_token: Option<Duration>,
    /// Tokens that stand-ins had computed when the clock was started.
    stood_in: u64,
    /// Whether the last text ended its line.
    at_line_start: bool,
}

/// What is to be continued.
pub struct Prompt {
    text: String,
    tokens: Vec<u32>,
    /// Whether the answer begins inside a thought.
    in_thought: bool,
}

impl Prompt {
    /// Its length in tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// What came back.
pub struct Answer {
    /// What the model said.
    pub content: String,
    /// What it thought.
    pub reasoning: String,
    /// Why it ended.
    pub finish: Finish,
}

impl Answer {
    /// Ctrl-C is the end of the program; a full context is worth a word.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.finish {
            Finish::Stopped => Err(Interrupted.into()),
            Finish::ContextFull => {
                terminal::line("the context is full, so the answer ends here; -c makes it larger");
                Ok(())
            }
            Finish::End | Finish::Limit => Ok(()),
        }
    }
}

impl Speaker {
    /// Opens a model for text. Nothing is compiled yet.
    pub fn open(args: &Arguments) -> anyhow::Result<Speaker> {
        let began = Instant::now();
        let path = &models::resolve(args.model.name(), &args.model.fetch)?;
        let positions = Positions::Flag(args.context.ctx_size);
        let file = open::file(path)?;
        // Whatever can be refused is refused before anything that takes long.
        open::config(&file, path)?.check_goes_on()?;
        let mut tokenizer = open::tokenizer(&file, path)?;
        let template = match args.no_template {
            true => None,
            false => Some(ChatTemplate::of_model(&tokenizer).with_context(|| {
                format!("{}: its chat template cannot be used (--no-template leaves it out)", path.display())
            })?),
        };
        drop(file);
        if let Some(template) = &template {
            tokenizer.use_template(template.source());
        }
        let opened = open::engine(path, &args.engine, positions, true)?;
        let sampling = args.sampling.config(&tokenizer);
        // A setting out of range is refused at once.
        Sampler::new(sampling.clone(), opened.engine.config().vocab as usize)?;
        Ok(Speaker {
            opened,
            tokenizer,
            template,
            think: args.think.then_some(true),
            parse_special: args.parse_special,
            sampling,
            limit: usize::try_from(args.predict).ok(),
            shows_thoughts: match args.reasoning.as_str() {
                "show" => true,
                "hide" => false,
                _ => std::io::stdout().is_terminal(),
            },
            ends: !args.ignore_eos,
            stop: args.sampling.stop.clone(),
            generator: Generator::new(),
            transcript: Transcript::default(),
            timing: Timing::default(),
            began,
            first_token: None,
            stood_in: 0,
            at_line_start: true,
        })
    }

    /// Compiles what answers to a prompt of so many tokens need, or what is needed to begin with.
    pub fn prepare(&mut self, flag: &BeginFlag, prompt: usize) -> anyhow::Result<()> {
        let engine = &self.opened.engine;
        let decoding = engine.decoding(&self.sampling, prompt);
        let prompts: Vec<Variant> = engine.classes(0..prompt).into_iter().map(Variant::from).collect();
        // Answers may be on the screen by then, so nothing is said.
        self.opened.begin(flag, &[decoding], &prompts, drop)
    }

    /// The prompt of one question, which must fit into the context.
    pub fn prompt_of(&self, args: &Arguments, prompt: Vec<u8>) -> anyhow::Result<Prompt> {
        let prompt = self.question(args, prompt)?;
        generate::check(&self.opened.engine, &prompt.tokens)?;
        Ok(prompt)
    }

    fn question(&self, args: &Arguments, prompt: Vec<u8>) -> anyhow::Result<Prompt> {
        if self.template.is_none() {
            let tokens = self.tokenizer.encode(&prompt, true, self.parse_special);
            return Ok(Prompt { text: String::new(), tokens, in_thought: false });
        }
        let prompt = String::from_utf8(prompt).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            anyhow::anyhow!("the prompt is not valid UTF-8 at byte {at}; convert it, or give --no-template")
        })?;
        let mut messages = vec![];
        messages.extend(args.system_prompt.as_ref().map(|text| json!({ "role": "system", "content": text })));
        messages.push(json!({ "role": "user", "content": prompt }));
        self.render(messages)
    }

    /// The prompt of a conversation; tokens that were computed for its beginning stay as they are.
    pub fn render(&self, messages: Vec<Value>) -> anyhow::Result<Prompt> {
        let Some(template) = &self.template else { bail!("there is no chat template") };
        let mut conversation = Conversation::new(messages);
        conversation.enable_thinking = self.think;
        conversation.parse_special = self.parse_special;
        let prompt = template.render(&conversation).context("the chat template")?;
        let tokens = self.transcript.encode(&self.tokenizer, &prompt);
        Ok(Prompt { text: prompt.text, tokens, in_thought: prompt.opens_reasoning })
    }

    /// The texts of a conversation in a row, for a model without a template.
    pub fn plain(&self, messages: &[Value]) -> Prompt {
        let text: String = messages.iter().filter_map(|message| message["content"].as_str()).collect();
        let tokens = self.tokenizer.encode(&text, true, self.parse_special);
        Prompt { text: String::new(), tokens, in_thought: false }
    }

    /// Continues the prompt and prints what comes. Ctrl-C ends the answer.
    pub fn answer(&mut self, prompt: &Prompt) -> anyhow::Result<Answer> {
        let watch = interrupt::watch();
        let began = self.began;
        let splitter = self.template.as_ref().map(|_| ReasoningSplitter::new(prompt.in_thought));
        let mut printer = Printer::new(splitter, &self.stop);
        (printer.shows_thoughts, printer.at_line_start) = (self.shows_thoughts, self.at_line_start);
        let mut text = Detokenizer::new();
        let mut failed = None;
        let mut stopped = false;
        let (tokenizer, first_token, transcript) = (&self.tokenizer, &mut self.first_token, &mut self.transcript);
        transcript.begin(&prompt.text, &prompt.tokens);
        let ends = if self.ends { tokenizer.end_tokens() } else { &[] };
        let (prompt, sampling) = (prompt.tokens.clone(), self.sampling.clone());
        let request = Request { prompt, sampling, limit: self.limit, ends: ends.into() };
        let engine = &mut self.opened.engine;
        let finish = self.generator.generate(engine, request, &mut self.timing, |event| {
            match event {
                Event::Prompt { done, total, .. } => show_progress(done, total),
                Event::Token { sampled, .. } => {
                    let id = sampled.id;
                    first_token.get_or_insert_with(|| began.elapsed());
                    let piece = text.push(tokenizer, id);
                    transcript.push(Some(id), piece);
                    match printer.print(piece) {
                        Ok(true) => {}
                        Ok(false) => stopped = true,
                        Err(error) => failed = Some(error),
                    }
                }
            }
            match watch.is_hit() || stopped || failed.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        terminal::wipe();
        let rest = text.finish();
        transcript.push(None, rest);
        let ended = match failed {
            Some(error) => Err(error),
            None if stopped => printer.finish(""),
            None => printer.finish(rest),
        };
        self.at_line_start = printer.at_line_start;
        ended?;
        let mut finish = finish?;
        if stopped && finish == Finish::Stopped {
            finish = Finish::End;
        }
        Ok(Answer { content: printer.content, reasoning: printer.reasoning, finish })
    }

    /// Ends the line of the answer, if it has begun one.
    pub fn end_line(&mut self) -> anyhow::Result<()> {
        if !self.at_line_start {
            let mut out = Stdout;
            out.write_all(b"\n")?;
            out.flush()?;
            self.at_line_start = true;
        }
        Ok(())
    }

    /// Forgets the times so far.
    pub fn restart_clock(&mut self) {
        self.timing = Timing::default();
        self.stood_in = self.opened.engine.readiness().stood_in();
        self.first_token = None;
        self.began = Instant::now();
    }

    /// Positions that are in use, and all of them.
    pub fn context(&self) -> (usize, usize) {
        (self.generator.cached().len(), self.opened.engine.context())
    }

    /// The last answer in a few words, and how full the context is.
    pub fn status_line(&self) -> String {
        let t = &self.timing;
        let mut line = format!("{} tokens", t.generated);
        if t.steps > 0 {
            line += &format!(" at {:.1} tok/s", t.step_rate());
        }
        if let Some(first) = self.first_token {
            line += &format!(", first after {:.2} s", first.as_secs_f64());
        }
        let (used, all) = self.context();
        line += &format!("; prompt {} new + {} cached", t.prompt, t.reused);
        line + &format!("; context {used} of {all} ({:.0}%)", 100.0 * used as f64 / all as f64)
    }

    /// The line of timing. All of it comes from the steps themselves: nothing is measured for it.
    pub fn timing_line(&self) -> String {
        let t = &self.timing;
        let mut line = format!("prompt {} tokens", t.prompt);
        let stood_in = self.opened.engine.readiness().stood_in() - self.stood_in;
        if stood_in > 0 {
            line += &format!(" ({stood_in} by other kernels, as theirs were not compiled yet)");
        }
        if t.reused > 0 {
            line += &format!(" (+{} cached)", t.reused);
        }
        line += &format!(", {:.2} tok/s; decode {} tokens, {:.2} tok/s", t.prompt_rate(), t.generated, t.step_rate());
        if let Some(first) = self.first_token {
            line += &format!("; first token after {:.2} s", first.as_secs_f64());
        }
        let engine = &self.opened.engine;
        if let Some((program, _)) = engine.program(engine.decoding(&self.sampling, self.generator.cached().len())) {
            line += &format!("; {} kernels in {} stages a token", program.launches(), program.stages.len());
        }
        if t.steps > 0 {
            // Half of the generated tokens are in the cache on average.
            let positions = self.generator.cached().len() as f64 - t.steps as f64 / 2.0;
            let bytes = self.opened.step_bytes() as f64 + self.opened.cache_bytes(positions.max(0.0));
            line += &format!("; {:.2} GB/s read", bytes * t.step_rate() / 1e9);
        }
        line
    }
}

fn show_progress(done: usize, total: usize) {
    match done < total {
        true if total > 64 => terminal::progress(&format!("prompt: {done} of {total} tokens")),
        true => {}
        false => terminal::wipe(),
    }
}
