//! What the parser of arguments has to say: the help, or what is wrong on one line.

use crate::failure::{exit, one_line};
use crate::output;
use crate::settings::{self, Source};
use crate::spelling::closest;
use crate::terminal;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use gguf::plain;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints what is wrong with the arguments, or the help that was asked for. What was set elsewhere is said to come from
/// there.
pub fn explain(error: &clap::Error, source: Option<&Source>, program: &Command, words: &[OsString]) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let printed = print_help(error, program).and_then(|()| io::stdout().flush());
        return match printed {
            _ if error.use_stderr() => ExitCode::from(2),
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => exit(&output::explained(error).into()),
        };
    }
    let text = error.to_string();
    // What follows the usage only points at --help.
    let text = text.split("\nUsage:").next().unwrap_or_default();
    let text = text.split("\nFor more information").next().unwrap_or_default();
    let text = one_line(text);
    let text = unknown(error, program, words).unwrap_or_else(|| text.trim_end_matches('.').to_owned());
    match source {
        Some(source) => terminal::line(&format!("{text} ({source})")),
        None => terminal::line(&format!("{text}; see --help")),
    }
    ExitCode::from(2)
}

/// What is said of a flag that a command does not have: the one that was probably meant, if it has one of such a name.
fn unknown(error: &clap::Error, program: &Command, words: &[OsString]) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let flag = flag.split('=').next().filter(|flag| flag.starts_with('-'))?;
    let command = settings::command_of(words, program).map_or(program, |(_, command)| command);
    let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let names = flags.flat_map(|arg| arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()));
    let near = closest(flag.trim_start_matches('-'), names).map(|name| format!(" (did you mean --{name}?)"));
    let of = if command.get_name() == program.get_name() {
        String::new()
    } else {
        format!(" of `kernloom {}`", command.get_name())
    };
    Some(format!("error: there is no flag {flag}{of}{}", near.unwrap_or_default()))
}

/// Prints the help. It repeats variables: colours are left out where one of them would bring its own.
fn print_help(error: &clap::Error, program: &Command) -> io::Result<()> {
    let variables = settings::variables(program);
    if variables.iter().all(|value| plain::are_lines(value)) {
        return error.print();
    }
    let text = error.render().to_string();
    let text = plain::lines(&text, usize::MAX);
    if error.use_stderr() { io::stderr().write_all(text.as_bytes()) } else { io::stdout().write_all(text.as_bytes()) }
}
