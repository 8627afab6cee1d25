//! The file of settings: TOML, the names of flags as keys, a section for what only one command shall have.

use super::{Source, is_setting, names};
use crate::failure::{Usage, one_line};
use crate::spelling::closest;
use clap::{Arg, Command};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a file says.
pub struct File {
    path: PathBuf,
    entries: Vec<Entry>,
}

struct Entry {
    /// The command whose section it stands in.
    command: Option<String>,
    /// The flag.
    name: String,
    values: Vec<String>,
    line: usize,
}

impl File {
    /// Reads a file; one that nobody `named` need not be there.
    ///
    /// # Errors
    /// A file that cannot be read, is no TOML, or has what no command knows.
    pub fn read(path: &Path, named: bool, all: &Command) -> Result<Option<File>, Usage> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => return Ok(None),
            Err(error) => return Err(Usage(format!("cannot read the settings in {}: {error}", path.display()))),
        };
        let table = DeTable::parse(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line(&text, span.start));
            Usage(format!("{}:{line}: {}", path.display(), one_line(error.message())))
        })?;
        let mut reader = Reader { path, text: &text, all, entries: vec![] };
        reader.top(table.get_ref())?;
        Ok(Some(File { path: path.to_owned(), entries: reader.entries }))
    }

    /// What it says about a flag of a command.
    pub fn find(&self, command: &str, arg: &Arg) -> Option<(Vec<String>, Source)> {
        let names_it = |entry: &&Entry| is_named(arg, &entry.name);
        let mut of_command = self.entries.iter().filter(|entry| entry.command.as_deref() == Some(command));
        let mut of_all = self.entries.iter().filter(|entry| entry.command.is_none());
        let entry = of_command.find(names_it).or_else(|| of_all.find(names_it))?;
        Some((entry.values.clone(), Source::File(self.path.clone(), entry.line)))
    }
}

/// Whether a flag has this name, or is also called so.
fn is_named(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

fn line(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    all: &'a Command,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    fn top(&mut self, table: &DeTable<'_>) -> Result<(), Usage> {
        for (key, value) in table {
            let name = key.get_ref().replace('_', "-");
            let at = line(self.text, key.span().start);
            match value.get_ref() {
                DeValue::Table(section) => {
                    let Some(command) = self.all.find_subcommand(&name) else {
                        let commands = self.all.get_subcommands().map(Command::get_name);
                        return Err(self.unknown(at, "command", &name, commands));
                    };
                    for (key, value) in section {
                        let name = key.get_ref().replace('_', "-");
                        let at = line(self.text, key.span().start);
                        if !command.get_arguments().any(|arg| is_setting(arg) && is_named(arg, &name)) {
                            let known = command.get_arguments().filter(|arg| is_setting(arg)).filter_map(Arg::get_long);
                            let what = format!("setting of {}", command.get_name());
                            return Err(self.unknown(at, &what, &name, known));
                        }
                        self.add(Some(command.get_name()), name, value, at)?;
                    }
                }
                _ => {
                    let mut args = self.all.get_subcommands().flat_map(Command::get_arguments);
                    if !args.any(|arg| is_setting(arg) && is_named(arg, &name)) {
                        return Err(self.unknown(at, "setting", &name, names(self.all)));
                    }
                    self.add(None, name, value, at)?;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        command: Option<&str>,
        name: String,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Result<(), Usage> {
        let values = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(|value| plain(value.get_ref())).collect(),
            value => plain(value).map(|value| vec![value]),
        };
        let path = self.path.display();
        let values =
            values.ok_or_else(|| Usage(format!("{path}:{line}: '{name}' is no text, number, true or false")))?;
        self.entries.push(Entry { command: command.map(str::to_owned), name, values, line });
        Ok(())
    }

    fn unknown<'n>(&self, line: usize, what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Usage {
        let near = closest(name, known).map(|best| format!("; did you mean '{best}'?")).unwrap_or_default();
        Usage(format!("{}:{line}: there is no {what} '{name}'{near}", self.path.display()))
    }
}

/// A value as a word of a command line.
fn plain(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        _ => return None,
    })
}
