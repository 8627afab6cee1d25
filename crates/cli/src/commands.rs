//! The command line: all commands.

use crate::failure::{self, Usage};
use crate::terminal;
use crate::{
    bench, classic, compile, completions, config, detokenize, devices_command, doctor, imatrix, llama_flags, logits,
    ls, man,
};
use crate::{
    perplexity, profile, pull, quantize, rm, run, serve, settings, show, smoke, spelling, synth, tokenize, tune, usage,
};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the help ends with.
const AFTER_HELP: &str = "\
Without a command: kernloom --model MODEL --prompt TEXT --count N, or --benchmark [N]; a first flag means `run`.
Every --some-flag can be set as KERNLOOM_SOME_FLAG and in a file: see `kernloom config`.";

/// Runs GGUF language models with kernels that it generates itself.
#[derive(Debug, Parser)]
#[command(name = "kernloom", version, after_help = AFTER_HELP, subcommand_required = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    /// File of settings [default: kernloom/config.toml in the user's configuration folder]
    #[arg(long, value_name = "FILE", global = true, hide_short_help = true)]
    pub config: Option<PathBuf>,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer a prompt, or chat
    #[command(visible_alias = "cli")]
    Run(run::arguments::Arguments),
    /// Serve a model over HTTP, for clients of OpenAI and llama-server
    #[command(visible_alias = "server")]
    Serve(Box<serve::Arguments>),
    /// Measure prompt and decoding speed, as llama-bench does
    Bench(bench::Arguments),
    /// Write the logits of a list of tokens to a file
    Logits(logits::Arguments),
    /// Measure how well a model predicts a text
    Perplexity(perplexity::Arguments),
    /// Turn text into token ids
    Tokenize(tokenize::Arguments),
    /// Turn token ids into text
    Detokenize(detokenize::Arguments),
    /// Download models
    Pull(pull::Arguments),
    /// List the models that are here
    #[command(visible_alias = "list")]
    Ls(ls::Arguments),
    /// Remove models that were downloaded
    Rm(rm::Arguments),
    /// Show what is in a model file and what it needs
    #[command(visible_alias = "info")]
    Show(show::Arguments),
    /// Write a model of a real shape with random weights
    Synth(synth::Arguments),
    /// Measure which columns of a model's matrices matter on a text, for `quantize`
    Imatrix(imatrix::Arguments),
    /// Write a model in another quantisation
    Quantize(quantize::Arguments),
    /// Build the kernels of a model ahead of time, for this machine or another
    Compile(compile::Arguments),
    /// Show where the time of decoding goes, kernel by kernel
    Profile(profile::Arguments),
    /// Search for faster kernels on this machine; what is found is used from then on
    Tune(tune::Arguments),
    /// Check that models still say what they said
    Smoke(smoke::Arguments),
    /// Look at what this machine has for running models, and what is missing
    Doctor(doctor::Arguments),
    /// List what can run models here, and why a card cannot
    Devices(devices_command::Arguments),
    /// List the compiler's passes, which --without can leave out
    Passes,
    /// Show the settings of commands and where they come from
    Config(config::Arguments),
    /// Write a completion script for a shell
    Completions(completions::Arguments),
    /// Write manual pages
    Man(man::Arguments),
}

/// Parses a command line, completed by the environment and the file of settings.
///
/// # Errors
/// The exit code of what was printed: the help, or what is wrong.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Vec<Arguments>, ExitCode> {
    let wrong = |usage: Usage| failure::exit(&usage.into());
    let mut all = Arguments::command();
    let commands = classic::expanded(spelling::expanded(words), &mut all);
    let commands = commands.map_err(|error| usage::explain(&error, None, &all, &[]))?;
    let parsed = commands.into_iter().map(|words| {
        let (words, notes) = llama_flags::translated(words, &all).map_err(wrong)?;
        notes.iter().for_each(|note| terminal::line(note));
        let completed = settings::completed(words, all.clone()).map_err(wrong)?;
        Arguments::try_parse_from(&completed.words)
            .map_err(|error| usage::explain(&error, completed.blame(&error), &all, &completed.words))
    });
    parsed.collect()
}
