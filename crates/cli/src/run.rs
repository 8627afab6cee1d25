//! `run`: answers one prompt, or chats.
//!
//! Text goes to stdout as it comes. What a model thinks before it answers is dimmed on a terminal and left out of a
//! pipe. One line of timing goes to stderr at the end.

use crate::arguments::{ContextFlag, EngineFlags, ModelOrDemo};
use crate::chat;
use crate::failure::Interrupted;
use crate::interrupt;
use crate::open::{self, Opened, Positions};
use crate::terminal::{self, DIM, NORMAL};
use anyhow::{Context, bail};
use model::chat::{ChatTemplate, Conversation, ReasoningSplitter};
use model::generate::{Event, Finish, Request, Sequence, Timing};
use model::sampler::{Sampler, SamplerConfig, StopStrings};
use model::step::Class;
use model::tokenizer::{Detokenizer, Tokenizer};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to run and how to choose tokens.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    pub model: ModelOrDemo,
    /// The prompt; without it, stdin is the prompt, and on a terminal a chat begins
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// File with the prompt
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    pub file: Option<PathBuf>,
    /// System prompt (-sys)
    #[arg(long, alias = "system", value_name = "TEXT", allow_hyphen_values = true)]
    pub system_prompt: Option<String>,
    /// Most tokens to generate; -1 goes on until the end of the text or of the context
    #[arg(short = 'n', long = "predict", alias = "n-predict", value_name = "N", default_value = "-1",
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    pub predict: i64,
    #[command(flatten)]
    pub context: ContextFlag,
    /// Leave the chat template out: the prompt as it is, to be continued
    #[arg(long)]
    pub no_template: bool,
    /// Answer the prompt and leave (-st); given with a prompt anyway
    #[arg(long, hide = true)]
    pub single_turn: bool,
    /// Ask the model to think before it answers, where its template has a switch for it
    #[arg(long)]
    pub think: bool,
    /// Show what the model thinks; auto does so on a terminal only
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "show", "hide"])]
    pub reasoning: String,
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub engine: EngineFlags,
}

/// How tokens are chosen.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub struct Sampling {
    /// Divides the logits; 0 always takes the likeliest token
    #[arg(long, alias = "temperature", value_name = "T", default_value = "0.8")]
    pub temp: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value = "40")]
    pub top_k: usize,
    /// Keep the likeliest tokens up to this probability; 1 keeps all
    #[arg(long, value_name = "P", default_value = "0.95")]
    pub top_p: f32,
    /// Keep tokens this fraction as likely as the likeliest; 0 keeps all
    #[arg(long, value_name = "P", default_value = "0.05")]
    pub min_p: f32,
    /// Makes tokens of the recent text less likely; 1 is off
    #[arg(long, value_name = "X", default_value = "1")]
    pub repeat_penalty: f32,
    /// Subtracted from a logit for every time the token occurs in the recent text
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    pub frequency_penalty: f32,
    /// Subtracted from the logit of tokens that occur in the recent text
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    pub presence_penalty: f32,
    /// Length of the recent text in tokens
    #[arg(long, value_name = "N", default_value = "64")]
    pub repeat_last_n: usize,
    /// Seed of the random numbers [default: another each time]
    #[arg(short, long, value_name = "S")]
    pub seed: Option<u64>,
    /// Text that ends the answer; may be given several times
    #[arg(long, alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
}

impl Sampling {
    /// As the sampler wants it.
    pub fn config(&self) -> SamplerConfig {
        SamplerConfig {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            penalty_window: self.repeat_last_n,
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
            ..SamplerConfig::default()
        }
    }
}

/// Runs a prompt or a chat.
pub fn run(args: Arguments) -> anyhow::Result<()> {
    let prompt = match prompt(&args)? {
        Some(prompt) => prompt,
        None => return chat::run(args),
    };
    let mut speaker = Speaker::open(&args)?;
    let (tokens, in_thought) = speaker.prompt_of(&args, prompt)?;
    let answer = speaker.answer(&tokens, in_thought)?;
    speaker.end_line()?;
    if answer.content.is_empty() && !answer.reasoning.is_empty() && !speaker.show_reasoning {
        terminal::line("the model only thought and did not answer; --reasoning show prints its thoughts");
    }
    let peak = speaker.opened.bandwidth();
    terminal::line(&speaker.timing_line(peak));
    answer.check()
}

/// The prompt, or `None` for a chat.
fn prompt(args: &Arguments) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(text) = &args.prompt {
        return Ok(Some(text.clone().into_bytes()));
    }
    if let Some(path) = &args.file {
        return Ok(Some(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?));
    }
    if std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut bytes = vec![];
    std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
    // The newline that ends a line of input is not part of a prompt.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(Some(bytes))
}

/// A model that answers in text.
pub struct Speaker {
    pub opened: Opened,
    pub tokenizer: Tokenizer,
    pub template: Option<ChatTemplate>,
    think: bool,
    pub sampling: SamplerConfig,
    pub limit: Option<usize>,
    stop: Vec<String>,
    sequence: Sequence,
    /// Of everything so far.
    pub timing: Timing,
    /// When the work on the answer began; for the first answer, when opening did.
    began: Instant,
    /// From then until the first token.
    first_token: Option<Duration>,
    styled: bool,
    show_reasoning: bool,
    /// Whether the last text ended its line.
    at_line_start: bool,
}

/// What came back.
pub struct Answer {
    pub content: String,
    pub reasoning: String,
    pub finish: Finish,
}

impl Answer {
    /// Ctrl-C is the end of the program; a full context is worth a word.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.finish {
            Finish::Stopped => Err(Interrupted.into()),
            Finish::ContextFull => {
                terminal::line("the context is full; -c makes it larger");
                Ok(())
            }
            Finish::End | Finish::Limit => Ok(()),
        }
    }
}

impl Speaker {
    /// Opens a model for text.
    pub fn open(args: &Arguments) -> anyhow::Result<Speaker> {
        let began = Instant::now();
        let path = &args.model.resolve()?;
        let positions = Positions::Flag(args.context.ctx_size);
        let file = open::file(path)?;
        // Whatever can be refused is refused before anything that takes long.
        open::config(&file, path)?;
        let tokenizer = open::tokenizer(&file, path)?;
        let template = match args.no_template {
            true => None,
            false => Some(ChatTemplate::of_model(&tokenizer).with_context(|| {
                format!("{}: its chat template cannot be used (--no-template leaves it out)", path.display())
            })?),
        };
        drop(file);
        let mut opened = open::engine(path, &args.engine, positions, true)?;
        let sampling = args.sampling.config();
        // A setting out of range is refused before kernels are compiled.
        Sampler::new(sampling.clone(), opened.engine.config().vocab as usize)?;
        opened.prepare(&[Class::Many, Class::One])?;
        let styled = terminal::is_styled();
        Ok(Speaker {
            opened,
            tokenizer,
            template,
            think: args.think,
            sampling,
            limit: usize::try_from(args.predict).ok(),
            stop: args.sampling.stop.clone(),
            sequence: Sequence::new(),
            timing: Timing::default(),
            began,
            first_token: None,
            styled,
            show_reasoning: match args.reasoning.as_str() {
                "show" => true,
                "hide" => false,
                _ => std::io::stdout().is_terminal(),
            },
            at_line_start: true,
        })
    }

    /// The tokens of a prompt, and whether the answer begins inside a thought.
    fn prompt_of(&self, args: &Arguments, prompt: Vec<u8>) -> anyhow::Result<(Vec<u32>, bool)> {
        if self.template.is_none() {
            return Ok((self.tokenizer.encode(prompt, true, false), false));
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

    /// The tokens of a conversation, and whether the answer begins inside a thought.
    pub fn render(&self, messages: Vec<Value>) -> anyhow::Result<(Vec<u32>, bool)> {
        let Some(template) = &self.template else { bail!("there is no chat template") };
        let mut conversation = Conversation::new(messages);
        conversation.enable_thinking = self.think.then_some(true);
        let prompt = template.render(&conversation).context("the chat template")?;
        Ok((self.tokenizer.encode(prompt.text, true, true), prompt.opens_reasoning))
    }

    /// Continues the tokens and prints what comes.
    pub fn answer(&mut self, tokens: &[u32], in_thought: bool) -> anyhow::Result<Answer> {
        let watch = interrupt::watch();
        let began = self.began;
        let vocab = self.opened.engine.config().vocab as usize;
        let mut sampler = Sampler::new(self.sampling.clone(), vocab)?;
        let mut printer = Printer {
            styled: self.styled,
            show_reasoning: self.show_reasoning,
            splitter: self.template.as_ref().map(|_| ReasoningSplitter::new(in_thought)),
            stops: StopStrings::new(&self.stop),
            content: String::new(),
            reasoning: String::new(),
            dim: false,
            at_line_start: self.at_line_start,
        };
        let mut text = Detokenizer::new();
        let mut failed = None;
        let mut stopped = false;
        let mut first_token = self.first_token;
        let request = Request { prompt: tokens, limit: self.limit, ends: self.tokenizer.end_tokens() };
        let tokenizer = &self.tokenizer;
        let finish = self.sequence.generate(self.opened.steps(), &mut sampler, request, &mut self.timing, |event| {
            match event {
                Event::Prompt(done, total) if done < total => {
                    if total > 64 {
                        terminal::progress(&format!("prompt: {done} of {total} tokens"));
                    }
                }
                Event::Prompt(..) => terminal::wipe(),
                Event::Token(id) => {
                    first_token.get_or_insert_with(|| began.elapsed());
                    match printer.print(text.push(tokenizer, id)) {
                        Ok(true) => {}
                        Ok(false) => stopped = true,
                        Err(error) => failed = Some(error),
                    }
                }
            }
            if watch.is_hit() || stopped || failed.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        terminal::wipe();
        let ended = match failed {
            Some(error) => Err(error),
            None if stopped => Ok(()),
            None => printer.finish(text.finish()),
        };
        self.at_line_start = printer.at_line_start;
        self.first_token = first_token;
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
            let mut out = std::io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
            self.at_line_start = true;
        }
        Ok(())
    }

    /// Forgets the times so far.
    pub fn restart_clock(&mut self) {
        self.timing = Timing::default();
        self.first_token = None;
        self.began = Instant::now();
    }

    /// The line of timing.
    pub fn timing_line(&self, bandwidth: Option<f64>) -> String {
        let t = &self.timing;
        let mut line = format!("prompt {} tokens", t.prompt);
        if t.reused > 0 {
            line += &format!(" (+{} cached)", t.reused);
        }
        line += &format!(", {:.2} tok/s; decode {} tokens, {:.2} tok/s", t.prompt_rate(), t.generated, t.step_rate());
        if let Some(first) = self.first_token {
            line += &format!("; first token after {:.2} s", first.as_secs_f64());
        }
        if let Some((program, _)) = self.opened.engine.program(Class::One) {
            line += &format!("; {} kernels in {} stages a token", program.launches(), program.stages.len());
        }
        if t.steps > 0 {
            // Half of the generated tokens are in the cache on average.
            let positions = self.sequence.cached().len() as f64 - t.steps as f64 / 2.0;
            let bytes = self.opened.step_bytes() as f64 + self.opened.cache_bytes(positions.max(0.0));
            let reached = bytes * t.step_rate();
            line += &format!("; {:.2} GB/s", reached / 1e9);
            if let Some(peak) = bandwidth {
                line += &format!(", {:.0}% of {:.1}", reached / peak * 100.0, peak / 1e9);
            }
        }
        line
    }
}

/// Text to stdout, thoughts apart from answers.
struct Printer {
    styled: bool,
    show_reasoning: bool,
    splitter: Option<ReasoningSplitter>,
    stops: StopStrings,
    content: String,
    reasoning: String,
    dim: bool,
    at_line_start: bool,
}

impl Printer {
    /// Prints a piece; `false` if a stop string ends the text.
    fn print(&mut self, piece: &str) -> anyhow::Result<bool> {
        let split = match &mut self.splitter {
            Some(splitter) => splitter.push(piece),
            None => model::chat::Split { reasoning: String::new(), content: piece.to_owned() },
        };
        self.think(&split.reasoning)?;
        let (text, stopped) = self.stops.push(&split.content);
        let text = text.to_owned();
        self.say(&text)?;
        Ok(stopped.is_none())
    }

    fn finish(&mut self, piece: &str) -> anyhow::Result<()> {
        if !self.print(piece)? {
            return Ok(());
        }
        let rest = self.splitter.as_mut().map(ReasoningSplitter::finish).unwrap_or_default();
        self.think(&rest.reasoning)?;
        let text = self.stops.push(&rest.content).0.to_owned() + self.stops.finish();
        self.say(&text)?;
        if self.dim {
            self.write(NORMAL)?;
            self.dim = false;
        }
        Ok(())
    }

    fn think(&mut self, text: &str) -> anyhow::Result<()> {
        self.reasoning.push_str(text);
        if text.is_empty() || !self.show_reasoning {
            return Ok(());
        }
        if self.styled && !self.dim {
            self.write(DIM)?;
            self.dim = true;
        }
        self.write(text)
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.content.is_empty() && self.show_reasoning && !self.reasoning.is_empty() {
            if self.dim {
                self.write(NORMAL)?;
                self.dim = false;
            }
            self.write("\n\n")?;
        }
        self.content.push_str(text);
        self.write(text)
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        if text != DIM && text != NORMAL && !text.is_empty() {
            self.at_line_start = text.ends_with('\n');
        }
        Ok(())
    }
}
