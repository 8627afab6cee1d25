//! What to run and how to answer.

use crate::arguments::{BeginFlag, ContextFlag, EngineFlags, ModelOrDemo};
use crate::sampling::Sampling;
use crate::tune::TuneFlag;
use std::path::PathBuf;

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
    /// Read \n, \t, \r, \", \' and \\ in --prompt as the characters that they stand for (-e)
    #[arg(long)]
    pub escapes: bool,
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
    pub begin: BeginFlag,
    #[command(flatten)]
    pub engine: EngineFlags,
    #[command(flatten)]
    pub tune: TuneFlag,
}
