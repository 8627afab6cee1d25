//! `config`: the settings of a command, and where each comes from.

use crate::failure::Usage;
use crate::output::{self, Stdout};
use crate::settings::{self, Setting, Source};
use crate::spelling::closest;
use crate::terminal;
use clap::Command;
use gguf::plain::{QUOTE, line};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Whose settings.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The command, and flags as it would get them [default: all commands]
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Settings of a command.
struct Of {
    command: String,
    settings: Vec<Setting>,
}

/// Prints them.
pub fn run(args: &Arguments, file: Option<&Path>, mut all: Command) -> anyhow::Result<()> {
    all.build();
    let mut words = args.command.clone();
    let commands: Vec<&Command> = match words.first() {
        None => all.get_subcommands().filter(|command| command.get_arguments().any(settings::is_setting)).collect(),
        Some(name) => {
            let name = name.to_string_lossy();
            let known = || all.get_subcommands().map(Command::get_name);
            let near = || closest(&name, known()).map(|best| format!("; did you mean '{best}'?")).unwrap_or_default();
            let found = all.find_subcommand(&*name);
            vec![found.ok_or_else(|| Usage(format!("there is no command '{name}'{}", near())))?]
        }
    };
    if let Some(path) = file {
        words.extend(["--config".into(), path.into()]);
    }
    let mut found = vec![];
    for command in commands {
        let mut words = words.clone();
        if args.command.is_empty() {
            words.insert(0, command.get_name().into());
        }
        let settings = settings::resolve(&all, command, &words)?;
        found.push(Of { command: command.get_name().to_owned(), settings });
    }
    strangers(&all);
    match settings::file_in_use(file) {
        Some(path) => terminal::line(&format!("file: {}", path.display())),
        None => terminal::line(&match settings::usual_file() {
            Some(path) => format!("file: none ({} is not there)", path.display()),
            None => "file: none".into(),
        }),
    }
    if args.json { print_json(&found) } else { print(&found) }
}

/// Variables that look like settings and are none.
fn strangers(all: &Command) {
    let mut known: Vec<String> = settings::names(all).map(settings::variable_name).collect();
    known.push(format!("{}CONFIG", settings::PREFIX));
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(settings::PREFIX)) else { continue };
        if !known.iter().any(|known| known == name) {
            let near = closest(name, known.iter().map(String::as_str));
            let near = near.map(|best| format!("; did you mean {best}?")).unwrap_or_default();
            terminal::line(&format!("warning: {name} is set and is no setting{near}"));
        }
    }
}

fn print_json(found: &[Of]) -> anyhow::Result<()> {
    let rows = found.iter().flat_map(|of| {
        of.settings.iter().map(|setting| {
            let (source, place) = match &setting.source {
                Source::Flag => ("flag", None),
                Source::Environment(name) => ("environment", Some(name.clone())),
                Source::File(path, line) => ("file", Some(format!("{}:{line}", path.display()))),
                Source::Default => ("default", None),
            };
            let value = (!setting.values.is_empty()).then(|| setting.shown());
            json!({ "command": of.command, "name": setting.name, "value": value, "source": source, "place": place })
        })
    });
    let text = serde_json::to_string_pretty(&rows.collect::<Vec<_>>())?;
    let mut out = Stdout;
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// A row for each setting; commands that have the same value share it.
fn print(found: &[Of]) -> anyhow::Result<()> {
    let mut rows: Vec<([String; 3], Vec<&str>)> = vec![];
    for of in found {
        for setting in &of.settings {
            let cells =
                [setting.name.clone(), setting.shown(), setting.source.to_string()].map(|c| line(&c, QUOTE).into());
            match rows.iter_mut().find(|row| row.0 == cells) {
                Some(row) => row.1.push(&of.command),
                None => rows.push((cells, vec![&of.command])),
            }
        }
    }
    if found.len() > 1 {
        rows.sort_by(|a, b| a.0[0].cmp(&b.0[0]));
    }
    let width = |column: usize| rows.iter().map(|row| row.0[column].chars().count()).max().unwrap_or(0);
    let (names, values, sources) = (width(0), width(1).min(40), width(2));
    let mut text = String::new();
    for ([name, value, source], commands) in &rows {
        let line = match found.len() {
            1 => format!("{name:names$}  {value:values$}  {source}"),
            _ => format!("{name:names$}  {value:values$}  {source:sources$}  {}", commands.join(" ")),
        };
        text += line.trim_end();
        text.push('\n');
    }
    output::print(&text)
}
