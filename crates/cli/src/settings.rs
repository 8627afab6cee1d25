//! Flags that are not on the command line: from the environment, and from a file.
//!
//! Whatever a command takes as `--some-flag` can be set as `KERNLOOM_SOME_FLAG` and as `some-flag` in the file. The
//! parser of arguments is the only list of what there is. What is found becomes words of the command line, so values are
//! checked in one place. The command line comes first, then the environment, then the section of the command in the
//! file, then its top.

mod file;

use crate::failure::Usage;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use file::File;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What all variables begin with.
pub const PREFIX: &str = "KERNLOOM_";

/// The flag that names the file.
const FILE_FLAG: &str = "config";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// This variable.
    Environment(String),
    /// This line of the file.
    File(PathBuf, usize),
    /// Nobody has set it.
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::File(path, line) => write!(f, "file {}:{line}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A flag of a command, and the value that it has.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name, without dashes.
    pub name: String,
    /// Its values; none if there is no default.
    pub values: Vec<String>,
    /// Where they come from.
    pub source: Source,
    /// Whether the values must not be shown.
    pub secret: bool,
    /// Whether it is on or off and has no value.
    switch: bool,
}

/// A command line with everything that was set elsewhere.
pub struct Completed {
    /// For the parser.
    pub words: Vec<OsString>,
    settings: Vec<Setting>,
}

impl Completed {
    /// Where the flag that an error of the parser is about comes from, if not from the command line.
    pub fn blame(&self, error: &clap::Error) -> Option<&Source> {
        use clap::error::{ContextKind, ContextValue};
        let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
        let name = flag.trim_start_matches('-').split([' ', '=']).next()?;
        let setting = self.settings.iter().find(|setting| setting.name == name)?;
        matches!(setting.source, Source::Environment(_) | Source::File(..)).then_some(&setting.source)
    }
}

/// Adds what is set in the environment and in the file to a command line of this program.
///
/// # Errors
/// A file that cannot be read, or that has what no command knows.
pub fn completed(mut words: Vec<OsString>, mut command: Command) -> Result<Completed, Usage> {
    command.build();
    let Some((at, sub)) = command_of(&words, &command) else { return Ok(Completed { words, settings: vec![] }) };
    // What stands before the command belongs after it.
    words[1..=at].rotate_right(1);
    let settings = resolve(&command, sub, &words[1..])?;
    let added: Vec<OsString> = settings.iter().flat_map(Setting::words).collect();
    words.splice(2..2, added);
    Ok(Completed { words, settings })
}

/// The command of a command line of this program, and where its name is, if there is one.
pub fn command_of<'a>(words: &[OsString], program: &'a Command) -> Option<(usize, &'a Command)> {
    let first = words.get(1)?.to_str()?;
    let at = match first.strip_prefix("--config") {
        Some("") => 3,
        Some(rest) if rest.starts_with('=') => 2,
        _ => 1,
    };
    Some((at, program.find_subcommand(words.get(at)?)?))
}

/// The settings of a command whose own words begin with its name.
///
/// # Errors
/// As [`completed`].
pub fn resolve(all: &Command, command: &Command, words: &[OsString]) -> Result<Vec<Setting>, Usage> {
    let Ok(given) = command.clone().ignore_errors(true).try_get_matches_from(words) else {
        // Help was asked for.
        return Ok(vec![]);
    };
    let file = match path(&given) {
        Some((path, named)) => File::read(&path, named, all)?,
        None => None,
    };
    let find = |arg: &Arg| find(command, arg, &given, file.as_ref());
    command.get_arguments().filter(|arg| is_setting(arg)).map(find).collect()
}

/// Flags that can be set elsewhere: those that the help shows.
pub fn is_setting(arg: &Arg) -> bool {
    let not = [FILE_FLAG, "help", "version"];
    arg.get_long().is_some_and(|long| !not.contains(&long)) && !arg.is_hide_set()
}

/// The file of settings, and whether somebody named it.
fn path(given: &ArgMatches) -> Option<(PathBuf, bool)> {
    if let Some(path) = given.try_get_one::<PathBuf>(FILE_FLAG).ok().flatten() {
        return Some((path.clone(), true));
    }
    if let Some(path) = variable(&format!("{PREFIX}CONFIG")) {
        return Some((path.into(), true));
    }
    Some((usual_file()?, false))
}

/// The file that is read if none is named.
pub fn usual_file() -> Option<PathBuf> {
    crate::folders::config().map(|folder| folder.join("config.toml"))
}

/// A variable that is set to something.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The variable of a flag.
pub fn variable_name(long: &str) -> String {
    format!("{PREFIX}{}", long.replace('-', "_").to_uppercase())
}

fn find(command: &Command, arg: &Arg, given: &ArgMatches, file: Option<&File>) -> Result<Setting, Usage> {
    let name = arg.get_long().unwrap_or_default().to_owned();
    let switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let secret = arg.is_hide_env_values_set();
    let set = |values, source| Setting { name: name.clone(), values, source, secret, switch };
    let raw = |source| {
        let values = given.get_raw(arg.get_id().as_str()).into_iter().flatten();
        let values =
            if switch { vec!["true".into()] } else { values.map(|v| v.to_string_lossy().into_owned()).collect() };
        set(values, source)
    };
    if is_given(given, arg) {
        return Ok(raw(Source::Flag));
    }
    let default = || {
        let values: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
        set(if switch { vec!["false".into()] } else { values }, Source::Default)
    };
    // What was said on the command line is not contradicted from afar.
    if rivals(command, arg).iter().any(|rival| is_given(given, rival)) {
        return Ok(default());
    }
    let variables = [Some(variable_name(&name)), arg.get_env().map(|name| name.to_string_lossy().into_owned())];
    for name in variables.into_iter().flatten() {
        if let Some(value) = variable(&name) {
            let value = value.into_string().map_err(|_| Usage(format!("the value of {name} is not valid UTF-8")))?;
            return checked(set(vec![value], Source::Environment(name)));
        }
    }
    match file.and_then(|file| file.find(command.get_name(), arg)) {
        Some((values, source)) => checked(set(values, source)),
        None => Ok(default()),
    }
}

/// A switch is on or off; everything else is checked by the parser.
fn checked(mut setting: Setting) -> Result<Setting, Usage> {
    if setting.switch {
        let on = match setting.values.first().map(String::as_str) {
            Some("true" | "1" | "on" | "yes") => true,
            Some("false" | "0" | "off" | "no") => false,
            other => {
                let (other, source) = (other.unwrap_or_default(), &setting.source);
                return Err(Usage(format!("'{other}' is not true or false for {} ({source})", setting.name)));
            }
        };
        setting.values = vec![on.to_string()];
    }
    Ok(setting)
}

fn is_given(given: &ArgMatches, arg: &Arg) -> bool {
    given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// The arguments that cannot be used together with one.
fn rivals<'a>(command: &'a Command, arg: &Arg) -> Vec<&'a Arg> {
    let mut rivals = command.get_arg_conflicts_with(arg);
    let others = || command.get_arguments().filter(|other| other.get_id() != arg.get_id());
    let against =
        |other: &&Arg| command.get_arg_conflicts_with(other).iter().any(|rival| rival.get_id() == arg.get_id());
    rivals.extend(others().filter(against));
    for group in command.get_groups() {
        let members: Vec<_> = group.get_args().collect();
        if members.contains(&arg.get_id()) && !group.clone().is_multiple() {
            rivals.extend(others().filter(|other| members.contains(&other.get_id())));
        }
    }
    rivals
}

impl Setting {
    /// As the command line would say it; nothing for what it says anyway.
    fn words(&self) -> Vec<OsString> {
        if matches!(self.source, Source::Flag | Source::Default) {
            return vec![];
        }
        match (self.switch, self.values.first().map(String::as_str)) {
            (true, Some("true")) => vec![format!("--{}", self.name).into()],
            (true, _) => vec![],
            (false, _) => self.values.iter().map(|value| format!("--{}={value}", self.name).into()).collect(),
        }
    }

    /// Its value for people.
    pub fn shown(&self) -> String {
        match &self.values[..] {
            [] => "-".into(),
            _ if self.secret && self.source != Source::Default => "(hidden)".into(),
            values => values.join(","),
        }
    }
}

/// What the variables say that the help repeats: those that a flag names itself.
pub fn variables(all: &Command) -> Vec<String> {
    let args = all.get_subcommands().flat_map(Command::get_arguments);
    let values = args.filter_map(Arg::get_env).filter_map(std::env::var_os);
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// The names of all flags of all commands.
pub fn names(all: &Command) -> impl Iterator<Item = &str> {
    let args = all.get_subcommands().flat_map(Command::get_arguments);
    args.filter(|arg| is_setting(arg)).filter_map(Arg::get_long)
}

/// The path of the file that is in use for these words, if it is there.
pub fn file_in_use(config: Option<&Path>) -> Option<PathBuf> {
    let named = config.map(Path::to_owned).or_else(|| variable(&format!("{PREFIX}CONFIG")).map(PathBuf::from));
    named.or_else(usual_file).filter(|path| path.exists())
}
