//! A chat, as somebody at a terminal has it: through a pseudo-terminal, with the model that comes with the program.

use crate::support::{command, folder, text};
use rexpect::process::WaitStatus;
use rexpect::session::{Options, PtySession, spawn_with_options};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// More than any answer takes, also while the kernels are compiled.
const PATIENCE: u64 = 300_000;

/// What a terminal is sent when a line begins to be edited, and when it ends.
const READY: &str = "\x1b[?2004h";
const TAKEN: &str = "\x1b[?2004l";

/// A folder of the test's own, for what a chat keeps.
fn home(name: &str) -> PathBuf {
    let home = folder().join(format!("chat-{name}"));
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).expect("a folder");
    home
}

struct Chat(PtySession);

impl Chat {
    fn begin(home: &Path, arguments: &[&str]) -> Chat {
        let mut command = command(&[&["run", "--temp", "0"], arguments].concat());
        // All three are the terminal.
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        command.env("XDG_STATE_HOME", home).env("TERM", "xterm");
        let options = Options::new().timeout_ms(Some(PATIENCE));
        let mut chat = Chat(spawn_with_options(command, options).expect("the program starts"));
        chat.until("/help lists commands");
        chat.until(READY);
        chat
    }

    /// Everything up to a text.
    fn until(&mut self, text: &str) -> String {
        self.0.exp_string(text).unwrap_or_else(|error| panic!("'{text}' did not come: {error}"))
    }

    /// Types a whole message or command.
    fn type_line(&mut self, line: &str) {
        self.0.send_line(line).expect("the terminal takes it");
        self.until(TAKEN);
    }

    /// Types and does not end the line, or not the message.
    fn type_part(&mut self, text: &str) {
        self.0.send(text).and_then(|_| self.0.flush()).expect("the terminal takes it");
    }

    fn control(&mut self, key: char) {
        self.0.send_control(key).expect("the terminal takes it");
    }

    /// What comes in answer to a line: everything up to the status.
    fn ask(&mut self, line: &str) -> Turn {
        self.type_line(line);
        self.turn()
    }

    fn turn(&mut self) -> Turn {
        let answer = self.until("; prompt ");
        let number = |text: String| text.trim().parse().unwrap_or_else(|_| panic!("'{text}' is no number"));
        let new = number(self.until(" new + "));
        let cached = number(self.until(" cached; context "));
        let used = number(self.until(" of "));
        self.until(READY);
        Turn { answer, new, cached, used }
    }

    /// What comes in answer to a command.
    fn tell(&mut self, line: &str) -> String {
        self.type_line(line);
        self.until(READY).replace('\r', "")
    }

    fn ends_with(self, code: i32) {
        match self.0.process().wait().expect("the program ends") {
            WaitStatus::Exited(_, ended) => assert_eq!(ended, code),
            other => panic!("{other:?}"),
        }
    }
}

struct Turn {
    answer: String,
    new: usize,
    cached: usize,
    used: usize,
}

#[test]
fn turns_go_on_from_what_is_cached() {
    let mut chat = Chat::begin(&home("turns"), &[]);
    let first = chat.ask("What is the capital of Norway?");
    assert!(first.answer.contains("The capital of Norway is Oslo."), "{}", first.answer);
    assert_eq!(first.cached, 0);
    let second = chat.ask("What is 17 + 25?");
    assert!(second.answer.contains("17 + 25 = 42."), "{}", second.answer);
    // All of the first turn but what its answer ended with.
    assert_eq!(second.cached, first.used);
    assert!(second.new < first.new + 12, "{} new tokens", second.new);
    let third = chat.ask("Who are you?");
    assert_eq!(third.cached, second.used);
    chat.control('d');
    chat.ends_with(0);
}

#[test]
fn several_lines_are_one_message() {
    let mut chat = Chat::begin(&home("lines"), &["-n", "4"]);
    chat.type_part("one \\\n");
    chat.type_line("two");
    chat.turn();
    chat.type_part("\"\"\"three\n\n");
    chat.type_line("/four\"\"\"");
    chat.turn();
    let messages = chat.tell("/show messages");
    assert!(messages.contains("user: one \ntwo\n"), "{messages:?}");
    assert!(messages.contains("user: three\n\n/four\n"), "{messages:?}");
    chat.type_line("/bye");
    chat.ends_with(0);
}

#[test]
fn the_first_ctrl_c_stops_the_answer_and_the_next_leaves() {
    let home = home("stop");
    // No token ends the answer.
    let mut chat = Chat::begin(&home, &["--ignore-eos"]);
    chat.type_line("Tell me a long story about a fox.");
    chat.until("Once");
    chat.control('c');
    let told = chat.until(READY);
    assert!(told.contains("; context ") && !told.contains("is full"), "{told}");
    chat.tell("/set n 4");
    assert!(chat.ask("What is 2 + 3?").cached > 4);
    // What is on the line is dropped, and the chat goes on.
    chat.type_part("half a line");
    chat.control('c');
    chat.until(READY);
    chat.control('c');
    chat.until("once more leaves");
    chat.until(READY);
    chat.control('c');
    chat.ends_with(130);
    // After an answer that was stopped, one is enough.
    let mut chat = Chat::begin(&home, &["--ignore-eos"]);
    chat.type_line("Tell me a long story about a fox.");
    chat.until("Once");
    chat.control('c');
    chat.until(READY);
    chat.control('c');
    chat.ends_with(130);
}

#[test]
fn commands_do_what_the_help_says() {
    let home = home("commands");
    let mut chat = Chat::begin(&home, &[]);
    let help = chat.tell("/help");
    for part in ["/clear", "/regen", "/read FILE", "/system", "/think on|off|auto", "/save FILE", "/stats"] {
        assert!(help.contains(part), "{part} in {help}");
    }
    let question = home.join("question.txt");
    std::fs::write(&question, "What is the capital of Norway?").expect("a file");
    assert!(chat.ask(&format!("/read {}", text(&question))).answer.contains("Oslo"));
    assert!(chat.ask("/regen").answer.contains("Oslo"));
    let saved = home.join("saved.json");
    assert!(chat.tell(&format!("/save {}", text(&saved))).contains("2 messages"));
    assert!(chat.tell(&format!("/save {}", text(&question))).contains("is no conversation"));
    assert!(chat.tell("/clear").contains("a new conversation"));
    assert!(chat.tell(&format!("/load {}", text(&saved))).contains("2 messages"));
    assert!(chat.tell("/show messages").contains("assistant: The capital of Norway is Oslo."));
    chat.tell("/undo");
    assert!(chat.tell("/show").contains("0 messages"));
    assert!(chat.tell("/set temp 0.5").trim().is_empty());
    assert!(chat.tell("/set").contains("temp 0.5, top-k 40"));
    assert!(chat.tell("/set temp -1").contains("error: "));
    assert!(chat.tell("/set tmp 1").contains("did you mean temp?"));
    assert!(chat.tell("/claer").contains("did you mean /clear?"));
    assert!(chat.tell("/stats").contains("tok/s"));
    chat.tell("/set temp 0");
    // Thoughts are shown before the answer, or counted.
    chat.tell("/think on");
    let turn = chat.ask("What is 5 + 6?");
    assert!(turn.answer.contains("5 + 6 = 11.") && !turn.answer.contains("thought for"), "{}", turn.answer);
    chat.tell("/clear");
    chat.tell("/set reasoning hide");
    let turn = chat.ask("What is 5 + 6?");
    assert!(turn.answer.contains("(thought for ") && turn.answer.contains("5 + 6 = 11."), "{}", turn.answer);
    assert!(chat.tell("/show thoughts").contains("5 + 6"));
    chat.type_line("/exit");
    chat.ends_with(0);
}

#[test]
fn a_full_context_is_told_and_nothing_is_left_out() {
    let mut chat = Chat::begin(&home("full"), &["-c", "64"]);
    chat.type_line("Tell me a story about Lily and a kite.");
    let told = chat.until(READY);
    assert!(told.contains("the context of 64 tokens is full"), "{told}");
    chat.type_line("What is 2 + 3?");
    let told = chat.until(READY);
    assert!(told.contains("error: the conversation would have ") && told.contains("the context holds 64"), "{told}");
    assert!(chat.tell("/show messages").matches("user: ").count() == 1);
    chat.tell("/clear");
    assert!(chat.ask("What is 2 + 3?").used < 64);
    chat.control('d');
    chat.ends_with(0);
}

#[test]
fn what_was_typed_is_remembered() {
    let home = home("history");
    let mut chat = Chat::begin(&home, &["-n", "2"]);
    chat.ask("What is 2 + 3?");
    chat.control('d');
    chat.ends_with(0);
    let kept = std::fs::read_to_string(home.join("kernloom/history")).expect("a history");
    assert!(kept.contains("What is 2 + 3?"), "{kept}");
    let mut chat = Chat::begin(&home, &["-n", "2"]);
    // The key that goes up.
    chat.type_part("\x1b[A");
    chat.until("What is 2 + 3?");
    chat.control('c');
    chat.until(READY);
    chat.control('d');
    chat.ends_with(0);
    let none = self::home("no-history");
    let mut chat = Chat::begin(&none, &["-n", "2", "--no-history"]);
    chat.ask("What is 2 + 3?");
    chat.control('d');
    chat.ends_with(0);
    assert!(!none.join("kernloom").exists());
}
