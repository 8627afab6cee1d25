//! `run`: answers one prompt, or chats.
//!
//! Text goes to stdout as it comes. What a model thinks before it answers is dimmed on a terminal and left out of a
//! pipe. One line of timing goes to stderr at the end.

use crate::arguments::{ContextFlag, EngineFlags, MeasureFlags, ModelOrDemo};
use crate::chat;
use crate::speaker::Speaker;
use crate::terminal;
use crate::tune::TuneFlag;
use anyhow::Context;
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use text::sampler::SamplerConfig;

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
    #[arg(short = 'n', long = "predict", aliases = ["n-predict", "count"], value_name = "N", default_value = "-1",
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    pub predict: i64,
    /// Go on past the end of the text
    #[arg(long)]
    pub ignore_eos: bool,
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
    /// Let special tokens that are spelled out in the text be special, instead of text like any other
    #[arg(long)]
    pub parse_special: bool,
    /// Show what the model thinks; auto does so on a terminal only, where hide counts the tokens of a thought
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "show", "hide"])]
    pub reasoning: String,
    /// File that keeps what was typed in chats [default: kernloom/history in the user's state folder]
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Keep nothing of what was typed
    #[arg(long, conflicts_with = "history")]
    pub no_history: bool,
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub engine: EngineFlags,
    #[command(flatten)]
    pub tune: TuneFlag,
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
    args.tune.before(&args.model, &args.engine, &MeasureFlags::default())?;
    let prompt = match prompt(&args)? {
        Some(prompt) => prompt,
        None => return chat::run(args),
    };
    let mut speaker = Speaker::open(&args)?;
    let prompt = speaker.prompt_of(&args, prompt)?;
    speaker.prepare()?;
    let answer = speaker.answer(&prompt)?;
    speaker.end_line()?;
    if answer.content.is_empty() && !answer.reasoning.is_empty() && !speaker.shows_thoughts {
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
