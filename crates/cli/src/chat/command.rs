//! The commands of a chat: lines that begin with a slash.

use crate::spelling::closest;

/// A command and what comes after it on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Clear,
    Undo,
    Regen,
    Read,
    System,
    Set,
    Think,
    Show,
    Save,
    Load,
    Stats,
    Exit,
}

/// A row: names, what may follow, what it does.
struct Row(Command, &'static [&'static str], &'static str, &'static str);

/// All of them, in the order of the help.
const ROWS: [Row; 13] = [
    Row(Command::Help, &["/help", "/?"], "", "this list"),
    Row(Command::Clear, &["/clear", "/new"], "", "forget the conversation"),
    Row(Command::Undo, &["/undo"], "", "forget the last question and its answer"),
    Row(Command::Regen, &["/regen", "/retry"], "", "answer the last question again"),
    Row(Command::Read, &["/read"], "FILE", "send a file"),
    Row(Command::System, &["/system"], "[TEXT]", "another system prompt, or none"),
    Row(Command::Set, &["/set"], "NAME VALUE", "temp, top-k, top-p, min-p, repeat-penalty, seed, n, reasoning ..."),
    Row(Command::Think, &["/think"], "on|off|auto", "ask the model to think first, or not to"),
    Row(Command::Show, &["/show"], "[messages|thoughts|template]", "settings and use of the context, or one of these"),
    Row(Command::Save, &["/save"], "FILE", "keep the conversation as JSON"),
    Row(Command::Load, &["/load"], "FILE", "go on with one that was kept"),
    Row(Command::Stats, &["/stats"], "", "times of the last answer"),
    Row(Command::Exit, &["/exit", "/quit", "/bye"], "", "leave (so does Ctrl-D)"),
];

impl Command {
    /// The command of a line that begins with a slash, and the rest of the line; else what is wrong with it.
    pub fn parse(line: &str) -> Result<(Command, &str), String> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if let Some(row) = ROWS.iter().find(|row| row.1.contains(&name)) {
            return Ok((row.0, rest.trim()));
        }
        let hint =
            closest(name, names()).map_or_else(|| "/help lists them".into(), |best| format!("did you mean {best}?"));
        Err(format!("there is no command {name}; {hint}"))
    }

    /// Whether a file name follows.
    pub fn takes_file(self) -> bool {
        matches!(self, Command::Read | Command::Save | Command::Load)
    }
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.1.iter().copied())
}

/// The list for people.
pub fn help() -> String {
    let left = |row: &Row| format!("{} {}", row.1[0], row.2);
    let width = ROWS.iter().map(|row| left(row).len()).max().unwrap_or(0);
    let mut text: String = ROWS.iter().map(|row| format!("{:width$}  {}\n", left(row), row.3)).collect();
    text += "\"\"\" begins and ends a text of several lines; a backslash at the end of a line goes on too\n";
    text + "Ctrl-C stops an answer; Ctrl-R searches what was typed"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_slips() {
        assert_eq!(Command::parse("/read a b.txt"), Ok((Command::Read, "a b.txt")));
        assert_eq!(Command::parse("/bye"), Ok((Command::Exit, "")));
        let wrong = |line: &str| Command::parse(line).unwrap_err();
        assert!(wrong("/claer").contains("did you mean /clear?"), "{}", wrong("/claer"));
        assert!(wrong("/etc/passwd").contains("/help"), "{}", wrong("/etc/passwd"));
        assert!(help().lines().count() == ROWS.len() + 2);
    }
}
