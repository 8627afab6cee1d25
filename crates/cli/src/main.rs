//! `kernloom`: runs, measures and shows GGUF language models.
//!
//! One file a command; [`commands`] lists them. What several share: [`arguments`] (flags), [`settings`] (flags from elsewhere), [`models`] (a
//! name becomes a file), [`open`] (a file becomes an engine), [`output`] (stdout), [`terminal`] (stderr), [`interrupt`]
//! (Ctrl-C), [`platform`] (what systems do differently), [`failure`] (errors to one line and an exit code). Results go to
//! stdout, everything else to stderr. Nothing here decides how a model is computed.

mod arguments;
mod bench;
mod chat;
mod classic;
mod commands;
mod compile;
mod completions;
mod config;
mod debug;
mod detokenize;
mod devices_command;
mod doctor;
mod failure;
mod folders;
mod imatrix;
mod interrupt;
mod library;
mod llama_flags;
mod log_lines;
mod logits;
mod ls;
mod man;
mod metadata;
mod models;
mod numbers;
mod open;
mod origin;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
mod otlp;
mod output;
mod passes;
mod peaks;
mod perplexity;
mod platform;
mod printer;
mod profile;
mod pull;
mod quantize;
mod rm;
mod run;
mod sampling;
mod sequences;
mod serve;
mod settings;
mod show;
mod smoke;
mod speaker;
mod spelling;
mod synth;
mod terminal;
mod tokenize;
mod transcript;
mod tune;
mod usage;
mod writing;

use clap::CommandFactory;
use commands::{Arguments, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    // What `serve` starts for itself forks, and must have no other threads.
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|word| word == server::grammar::fork_server::COMMAND) {
        return server::grammar::fork_server::main();
    }
    platform::leave_adapters_alone();
    failure::report_panics();
    interrupt::install();
    platform::explain_bus_errors();
    let commands = match commands::parse(std::env::args_os()) {
        Ok(commands) => commands,
        Err(code) => return code,
    };
    let result = std::panic::catch_unwind(|| commands.into_iter().try_for_each(dispatch));
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => failure::exit(&error),
        // The hook has printed the reason.
        Err(_) => ExitCode::FAILURE,
    }
}

fn dispatch(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Command::Run(args) => run::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Bench(args) => bench::run(args),
        Command::Logits(args) => logits::run(&args),
        Command::Perplexity(args) => perplexity::run(&args),
        Command::Tokenize(args) => tokenize::run(&args),
        Command::Detokenize(args) => detokenize::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Imatrix(args) => imatrix::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Devices(args) => devices_command::run(&args),
        Command::Passes => passes::run(),
        Command::Smoke(args) => smoke::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Config(args) => config::run(&args, arguments.config.as_deref(), Arguments::command()),
        Command::Completions(args) => completions::run(&args, Arguments::command()),
        Command::Man(args) => man::run(&args, Arguments::command()),
    }
}
