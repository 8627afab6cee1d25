//! Flags from the environment and from a file, and what `config` says about them.

use crate::support::{Run, command, finished, folder, text};
use serde_json::Value;
use std::path::PathBuf;

fn file(name: &str, content: &str) -> PathBuf {
    let path = folder().join(format!("settings-{name}.toml"));
    std::fs::write(&path, content).expect("a file");
    path
}

fn run(args: &[&str], variables: &[(&str, &str)]) -> Run {
    finished(command(args).envs(variables.iter().copied()).output().expect("the program starts"))
}

/// The value of a setting and the kind of its source.
fn setting(args: &[&str], variables: &[(&str, &str)], name: &str) -> (Value, String) {
    let shown = run(&[&["config", "--json"], args].concat(), variables).ok();
    let rows: Value = serde_json::from_slice(&shown.out).expect("JSON");
    let row = rows.as_array().expect("rows").iter().find(|row| row["name"] == name).expect("the setting");
    (row["value"].clone(), row["source"].as_str().expect("a source").to_owned())
}

#[test]
fn the_command_line_comes_first_then_the_environment_then_the_file() {
    let path = file("order", "temp = 0.5\ntop_k = 7\nseed = 3\n\n[run]\ntop-k = 9\n\n[serve]\ntop-k = 11\n");
    let variables = [("KERNLOOM_CONFIG", text(&path)), ("KERNLOOM_TEMP", "0.25")];
    let of_run = |args: &[&str], name| setting(&[&["run"], args].concat(), &variables, name);
    assert_eq!(of_run(&["--temp", "0.1"], "temp"), ("0.1".into(), "flag".into()));
    assert_eq!(of_run(&[], "temp"), ("0.25".into(), "environment".into()));
    assert_eq!(of_run(&[], "top-k"), ("9".into(), "file".into()));
    assert_eq!(of_run(&[], "seed"), ("3".into(), "file".into()));
    assert_eq!(of_run(&[], "top-p"), ("0.95".into(), "default".into()));
    assert_eq!(setting(&["serve"], &variables, "top-k"), ("11".into(), "file".into()));
    // Names that others gave stand behind ours.
    let both = [("LLAMA_ARG_PORT", "9001"), ("KERNLOOM_PORT", "9002")];
    assert_eq!(setting(&["serve"], &both, "port"), ("9002".into(), "environment".into()));
    assert_eq!(setting(&["serve"], &both[..1], "port"), ("9001".into(), "environment".into()));
    let table = run(&["config", "run", "--seed", "4"], &variables).ok();
    assert!(table.text().contains(&format!("file {}:6", text(&path))), "{}", table.text());
    assert!(table.err.contains(&format!("file: {}", text(&path))), "{}", table.err);
}

#[test]
fn settings_do_what_flags_do() {
    let path =
        file("run", "prompt = \"What is the capital of Norway?\"\ntemp = 0\n[run]\npredict = 3\nno-history = true\n");
    let answer = run(&["run", "--config", text(&path)], &[]).ok();
    assert!(answer.text().starts_with("The capital of"), "{}", answer.text());
    assert!(answer.err.contains("decode 3 tokens"), "{}", answer.err);
    assert_eq!(run(&["--config", text(&path), "run"], &[]).ok().out, answer.out);
    // A prompt on the command line, in whatever form, is the only one.
    let other = folder().join("settings-prompt.txt");
    std::fs::write(&other, "What is 2 + 3?").expect("a file");
    let answer = run(&["run", "-f", text(&other), "--config", text(&path)], &[("KERNLOOM_PREDICT", "9")]).ok();
    assert_eq!(answer.text(), "2 + 3 = 5.\n");
    let off = run(&["run", "-p", "Hi", "--config", text(&path)], &[("KERNLOOM_NO_HISTORY", "false")]).ok();
    assert!(off.err.contains("decode"), "{}", off.err);
    // Keys are not shown.
    let secret = run(&["config", "serve"], &[("KERNLOOM_API_KEY", "hush")]).ok();
    assert!(secret.text().contains("(hidden)") && !secret.text().contains("hush"), "{}", secret.text());
}

#[test]
fn what_is_wrong_is_one_line_that_says_where() {
    for (name, content, parts) in [
        ("key", "\ntreads = 2\n", &[":2: ", "no setting 'treads'", "did you mean 'threads'?"][..]),
        ("section", "[sevre]\nport = 1\n", &[":1: ", "no command 'sevre'", "did you mean 'serve'?"]),
        ("in-section", "[serve]\nprt = 1\n", &[":2: ", "no setting of serve 'prt'", "did you mean 'port'?"]),
        ("other", "[bench]\nport = 1\n", &[":2: ", "no setting of bench 'port'"]),
        ("syntax", "temp = \n", &[":1: "]),
        ("value", "temp = \"warm\"\n", &["'warm'", "--temp", "(file ", ":1)"]),
        ("switch", "ignore-eos = 3\n", &["'3' is not true or false", "ignore-eos", ":1"]),
        ("kind", "temp = { a = 1 }\n", &["'temp'"]),
    ] {
        let path = file(name, content);
        let wrong = run(&["run", "-p", "x", "--config", text(&path)], &[]);
        let line = wrong.error(2);
        assert!(line.contains(text(&path)) && parts.iter().all(|part| line.contains(part)), "{line}");
    }
    let missing = run(&["run", "-p", "x"], &[("KERNLOOM_CONFIG", "/nowhere/x.toml")]);
    assert!(missing.error(2).contains("/nowhere/x.toml"), "{}", missing.err);
    let number = run(&["run", "-p", "x"], &[("KERNLOOM_THREADS", "many")]);
    assert!(number.error(2).contains("(environment KERNLOOM_THREADS)"), "{}", number.err);
    let unknown = run(&["config", "run"], &[("KERNLOOM_TREADS", "2")]).ok();
    assert!(unknown.err.contains("did you mean KERNLOOM_THREADS?"), "{}", unknown.err);
    assert!(run(&["config", "serv"], &[]).error(2).contains("did you mean 'serve'?"));
}

#[test]
fn no_command_is_run_or_a_benchmark() {
    let answer = run(&["--prompt", "What is the capital of Norway?", "--count", "3", "--temp", "0"], &[]).ok();
    assert!(answer.text().starts_with("The capital of") && answer.err.contains("decode 3 tokens"), "{}", answer.err);
    let lock = folder().join("classic.lock");
    let speed = [("KERNLOOM_BANDWIDTH", "20"), ("KERNLOOM_REPETITIONS", "1")];
    let _held = device::MachineLock::acquire(&lock, |_| {}).expect("a lock");
    let table = run(&["--model", "kernloom-demo", "--benchmark", "4"], &speed).ok();
    assert!(table.text().contains("tg4") && !table.text().contains("pp"), "{}", table.text());
    let both = run(&["--prompt", "What is the capital of Norway?", "--count", "3", "--benchmark", "4"], &speed).ok();
    assert!(both.err.contains("decode 3 tokens") && both.text().contains("tg4"), "{} {}", both.text(), both.err);
    let none = run(&[], &[]);
    assert!(none.code == 2 && none.err.contains("Usage: kernloom"), "{}", none.err);
}
