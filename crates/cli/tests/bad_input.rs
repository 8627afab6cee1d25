//! Bad input: an exit code, one line that says what, where, and what to do, and never a panic.

use crate::support::{command, finished, folder, run, run_with_input, text, tiny};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn model() -> PathBuf {
    tiny("tiny-llama", "q4_0")
}

/// A file of the tests with this content.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("a test file");
    path
}

/// Runs a one-shot prompt on a file, and gives the line of the error.
fn refused(path: &Path) -> String {
    let ran = run(&["run", text(path), "-p", "x", "-n", "1"]);
    assert_eq!(ran.out, b"", "nothing but results goes to stdout");
    ran.error(1).to_owned()
}

#[test]
fn files_that_are_no_models() {
    let folder_error = refused(&folder());
    assert!(folder_error.contains("is a folder") && folder_error.contains(text(&folder())), "{folder_error}");
    let missing = refused(Path::new("/nowhere/model.gguf"));
    assert!(missing.contains("no file /nowhere/model.gguf") && missing.contains("kernloom ls"), "{missing}");
    let empty = refused(&file("empty.gguf", b""));
    assert!(empty.contains("empty.gguf") && empty.contains("empty"), "{empty}");
    let other = refused(&file("page.gguf", b"<!DOCTYPE html><html><body>404</body></html>"));
    assert!(other.contains("not a GGUF file"), "{other}");
    let unknown = refused(&file("noise.gguf", b"noise"));
    assert!(unknown.contains("not a GGUF file") && unknown.contains("fetch it again"), "{unknown}");
    refused(&file("magic.gguf", b"GGUF"));
}

#[test]
fn truncated_models() {
    let whole = std::fs::read(model()).expect("a model");
    for cut in [5, 20, 100, 1000, whole.len() / 2, whole.len() - 1] {
        let path = file("cut.gguf", &whole[..cut]);
        let error = refused(&path);
        assert!(error.contains("cut.gguf"), "{error}");
        assert_eq!(run(&["show", text(&path)]).code, 1);
        assert_eq!(run(&["tokenize", "-m", text(&path), "x"]).code, 1);
    }
}

/// The model with one string replaced by another of the same length, wherever it occurs.
fn with(name: &str, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(model()).expect("a model");
    let mut at = 0;
    let mut found = 0;
    while let Some(next) = bytes[at..].windows(from.len()).position(|w| w == from.as_bytes()) {
        at += next;
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        found += 1;
    }
    assert!(found > 0, "{from} is not in the model");
    file(name, &bytes)
}

#[test]
fn models_that_are_not_supported() {
    // A key is followed by the type and the length of its value.
    let key = |value: &str| format!("general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0{value}");
    let unknown = with("unknown.gguf", &key("llama"), &key("camel"));
    let error = refused(&unknown);
    assert!(error.contains("'camel'") && error.contains("docs/models.md"), "{error}");
    let shown = run(&["show", text(&unknown)]).ok();
    assert!(shown.text().contains("camel") && shown.text().contains("not supported"), "{}", shown.text());
    // The vocabulary needs no known architecture.
    let ids =
        run(&["tokenize", "-m", text(&with("unknown2.gguf", "general.architecture", "general.orchitecture")), "x"]);
    assert_eq!(ids.code, 0, "{}", ids.err);
    let missing = refused(&with("missing.gguf", "blk.1.ffn_down.weight", "blk.1.ffn_dawn.weight"));
    assert!(missing.contains("blk.1.ffn_down.weight") && missing.contains("missing"), "{missing}");
    assert!(missing.contains("fetch it again"), "{missing}");
    let splits = refused(&with("splits.gguf", "tokenizer.ggml.pre", "tokenizer.ggml.prx"));
    assert!(splits.contains("pre-tokenizer") && !splits.contains("option"), "{splits}");
}

/// What `show` says about a tensor of the model.
fn tensor(which: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let shown = run(&["show", "--json", text(&model())]).ok();
    let shown: serde_json::Value = serde_json::from_slice(&shown.out).expect("JSON");
    let tensors = shown["tensors"].as_array().expect("tensors").iter();
    tensors.filter(|t| which(t)).max_by_key(|t| t["offset"].as_u64()).expect("a tensor").clone()
}

#[test]
fn tensor_types_without_kernels_are_named() {
    let mut bytes = std::fs::read(model()).expect("a model");
    // Behind the last one, nothing has another place if it takes less room.
    let last = tensor(|_| true);
    let name = last["name"].as_str().expect("a name");
    // The name with its length, as others end so; then the number of dimensions, the dimensions, the type.
    let named = [&(name.len() as u64).to_le_bytes(), name.as_bytes()].concat();
    let at = bytes.windows(named.len()).position(|w| w == named).expect("the tensor");
    let ty = at + named.len() + 4 + 8 * last["shape"].as_array().expect("a shape").len();
    assert_eq!(gguf::GgmlType::from_id(bytes[ty].into()).map(|ty| ty.name()), last["type"].as_str());
    // A type that has no kernels, and one that is no more.
    for (id, wanted) in [(19, "IQ1_S"), (31, "31")] {
        bytes[ty] = id;
        let error = refused(&file("type.gguf", &bytes));
        assert!(error.contains(name) && error.contains(wanted), "{error}");
    }
}

#[test]
fn weights_that_are_not_numbers() {
    let mut bytes = std::fs::read(model()).expect("a model");
    let norm = tensor(|t| t["name"] == "output_norm.weight");
    let number = |key: &str| norm[key].as_u64().expect("a number") as usize;
    let values = bytes[number("offset")..][..number("bytes")].chunks_exact_mut(4);
    values.for_each(|b| b.copy_from_slice(&f32::NAN.to_le_bytes()));
    let error = refused(&file("nan.gguf", &bytes));
    assert!(error.contains("not a number"), "{error}");
}

#[test]
fn prompts_and_contexts() {
    let path = model();
    let path = text(&path);
    let long = "a b c d e f g h ".repeat(20);
    let ran = run(&["run", path, "-p", &long, "-c", "64", "--no-template"]);
    let error = ran.error(1);
    assert!(error.contains("the context holds 64") && error.contains("-c"), "{error}");
    assert!(!ran.err.contains("memory: "), "refused before anything is compiled: {}", ran.err);
    let ran = run(&["run", path, "-p", "x", "-c", "2000000000"]);
    let error = ran.error(1);
    assert!(error.contains("not enough memory") && error.contains("2000000000 positions"), "{error}");
    assert!(!ran.err.contains("compiled"), "refused before anything is compiled: {}", ran.err);
    let full = run(&["run", path, "-p", "x", "-c", "64", "--seed", "1", "--no-template"]).ok();
    assert!(full.err.contains("the context is full"), "{}", full.err);
    let no_bos = tiny("tiny-qwen3", "q4_0");
    let ran = run(&["run", text(&no_bos), "-p", "", "--no-template", "-n", "1"]);
    assert!(ran.error(1).contains("the prompt is empty"), "{}", ran.err);
}

#[test]
fn token_ids_out_of_range() {
    let path = model();
    let path = text(&path);
    let out = folder().join("range.f32");
    let ran = run(&["logits", "-m", path, "--tokens", "1,99999", "--out", text(&out)]);
    assert!(ran.error(1).contains("token 99999 is not in the vocabulary"), "{}", ran.err);
    let ran = run(&["detokenize", "-m", path, "1", "99999"]);
    assert!(ran.error(1).contains("token 99999"), "{}", ran.err);
    run(&["detokenize", "-m", path, "1", "x"]).error(2);
    run(&["logits", "-m", path, "--tokens", "1,x", "--out", "y"]).error(2);
    run(&["logits", "-m", path, "--tokens", "", "--out", "y"]).error(1);
    let ran = run(&["logits", "-m", path, "--tokens", "1", "--out", "/nowhere/at/all"]);
    assert!(ran.error(1).contains("cannot write /nowhere/at/all"), "{}", ran.err);
}

#[test]
fn no_compiler() {
    let mut command = command(&["run", text(&model()), "-p", "x", "-n", "1"]);
    // Kernels that are there already need none.
    let nothing = folder().join("no-kernels");
    command.env("PATH", "/nowhere").env("XDG_CACHE_HOME", nothing);
    let ran = finished(command.output().expect("the program starts"));
    assert!(ran.error(1).contains("no C compiler") && ran.err.contains("install"), "{}", ran.err);
    assert!(ran.err.contains("--cc"), "{}", ran.err);
    let ran = run(&["run", text(&model()), "-p", "x", "--cc", "/bin/false"]);
    assert!(ran.error(1).contains("not a usable C compiler"), "{}", ran.err);
}

#[test]
fn a_cache_that_cannot_be_written() {
    let blocked = file("not-a-folder", b"");
    let mut command = command(&["run", text(&model()), "-p", "x", "-n", "2", "--temp", "0", "--no-template"]);
    let ran = finished(command.env("XDG_CACHE_HOME", &blocked).output().expect("the program starts")).ok();
    assert!(ran.err.contains("warning: kernels cannot be kept"), "{}", ran.err);
    assert!(!ran.out.is_empty());
}

#[test]
fn bytes_that_are_no_text() {
    let path = model();
    let ran = run_with_input(&["run", text(&path), "-n", "1"], b"ab\xff\xfe");
    assert!(ran.error(1).contains("not valid UTF-8 at byte 2"), "{}", ran.err);
    run_with_input(&["run", text(&path), "-n", "1", "--no-template"], b"ab\xff\xfe").ok();
    let ids = run_with_input(&["tokenize", "--no-bos", "-m", text(&path), "-"], b"ab\xff\xfe\n").ok();
    let back = run_with_input(&["detokenize", "-m", text(&path)], &ids.out).ok();
    assert_eq!(back.out, b"ab\xff\xfe\n", "byte for byte");
}

#[test]
fn wrong_usage() {
    let path = model();
    let path = text(&path);
    let long = folder().join("unused").display().to_string();
    for args in [
        &["show"][..],
        &["run", path, "--numerics", "fast"],
        &["run", path, "--frobnicate"],
        &["run", path, "-t", "0"],
        &["run", path, "-p", "x", "-f", "y"],
        &["run", path, "-m", path],
        &["bench", "-m", path, "-p", "0", "-n", "0"],
        &["bench", "-m", path, "-p", "x"],
        &["run", path, "-p", "x", "--without", "nonsense"],
        &["profile", "-m", path, "--kernel", "nonsense", "--bandwidth", "9"],
        &["synth", "gpt-5", "--out", &long],
        &["synth", "tiny-llama", "--quant", "q9", "--out", &long],
        &["synth", "tiny-llama", "--layers", "0", "--out", &long],
        &["--benchmark", "x"],
        &["nonsense"],
    ] {
        let ran = run(args);
        ran.error(2);
        assert_eq!(ran.out, b"", "{args:?}");
    }
    assert_eq!(run(&[]).code, 2);
    let help = run(&["--help"]).ok();
    assert!(help.text().contains("Usage: kernloom") && help.err.is_empty());
    assert!(run(&["--version"]).ok().text().starts_with("kernloom "));
}

#[test]
fn settings_out_of_range() {
    let path = model();
    for (flag, value) in [("--top-p", "2"), ("--min-p", "-1"), ("--temp", "nan"), ("--repeat-penalty", "0")] {
        let ran = run(&["run", text(&path), "-p", "x", &format!("{flag}={value}")]);
        assert!(ran.error(1).contains("is not between"), "{flag}: {}", ran.err);
        assert!(!ran.err.contains("compiled"), "refused first: {}", ran.err);
    }
}

#[test]
fn what_cannot_be_done_yet_is_refused() {
    let path = model();
    let path = text(&path);
    assert!(run(&["bench", "-m", path, "-np", "0,8"]).error(2).contains("above 0"));
    assert!(run(&["run", path, "-p", "x", "-ctk", "q8_0", "-ctv", "f16"]).error(2).contains("alike"));
}

/// A key press, for a program that runs by itself.
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Waits until the program has written something to stdout.
fn first_output(child: &mut Child) -> std::process::ChildStdout {
    use std::io::Read;
    let mut out = child.stdout.take().expect("a pipe");
    let mut byte = [0];
    out.read_exact(&mut byte).expect("output");
    out
}

/// The exit code, which must come soon.
fn ended(mut child: Child) -> i32 {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code().unwrap_or(-1);
        }
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().expect("a child");
            panic!("still running long after Ctrl-C");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_while_decoding() {
    let path = model();
    let args = ["run", text(&path), "-p", "x", "--no-template", "-c", "2000000", "--seed", "1"];
    let mut child = command(&args).spawn().expect("the program starts");
    let mut out = first_output(&mut child);
    // A pipe that is full would hold the program up.
    let drain = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    interrupt(&child);
    assert_eq!(ended(child), 130);
    drain.join().expect("no panic").expect("a pipe");
}

#[test]
#[cfg(unix)]
fn ctrl_c_in_a_prompt() {
    use std::io::Read;
    let path = model();
    let prompt = "a b c d e f g h ".repeat(100_000);
    let prompt = file("long.txt", prompt.as_bytes());
    let args = ["run", text(&path), "-f", text(&prompt), "--no-template", "-c", "2000000", "--ubatch-size", "16"];
    let mut child = command(&args).spawn().expect("the program starts");
    let mut err = child.stderr.take().expect("a pipe");
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.contains("memory: ") && err.read(&mut byte).expect("stderr") > 0 {
        seen.push(byte[0] as char);
    }
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    assert_eq!(ended(child), 130);
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_no_unfinished_model() {
    let folder = folder().join("unfinished");
    std::fs::create_dir_all(&folder).expect("a folder");
    let out = folder.join("large.gguf");
    let args = ["synth", "youtu-llm-2b", "--quant", "f16", "--out", text(&out)];
    let child = command(&args).spawn().expect("the program starts");
    let files = || std::fs::read_dir(&folder).expect("a folder").count();
    let start = Instant::now();
    while files() == 0 && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    assert_eq!(ended(child), 130);
    assert_eq!(files(), 0);
}

/// An empty folder of this name.
fn empty_folder(name: &str) -> PathBuf {
    let folder = folder().join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[cfg(unix)]
fn pipe_at(path: &Path) {
    let status = Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(status.success());
}

/// Presses Ctrl-C once something appears in the folder, and a little later. Nothing must stay there.
#[cfg(unix)]
fn interrupted_while_writing(folder: &Path, args: &[&str]) {
    let child = command(args).spawn().expect("the program starts");
    let files = || std::fs::read_dir(folder).expect("a folder").count();
    let start = Instant::now();
    while files() == 0 && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    interrupt(&child);
    assert_eq!(ended(child), 130);
    assert_eq!(files(), 0);
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_no_unfinished_logits() {
    let folder = empty_folder("unfinished-logits");
    let (path, out) = (model(), folder.join("x.f32"));
    // One step.
    let tokens = vec!["5"; 8000].join(",");
    interrupted_while_writing(
        &folder,
        &["logits", "-m", text(&path), "--tokens", &tokens, "-b", "8192", "--out", text(&out)],
    );
    let words = file("words.txt", "a b c d e f g h ".repeat(20_000).as_bytes());
    interrupted_while_writing(
        &folder,
        &["perplexity", "-m", text(&path), "-f", text(&words), "--save-logits", text(&out)],
    );
}

#[test]
#[cfg(unix)]
fn outputs_that_are_links_or_pipes() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = empty_folder("special");
    let [whole, victim, link, pipe, f16] = ["whole", "victim", "link", "pipe", "f16"].map(|name| folder.join(name));
    std::fs::write(&victim, "old").expect("a file");
    symlink("victim", &link).expect("a link");
    pipe_at(&pipe);
    let synth = |out: &Path| run(&["synth", "tiny-llama", "--seed", "7", "--out", text(out)]).ok();
    let quantize = |out: &Path| run(&["quantize", text(&f16), text(out), "q8_0"]).ok();
    run(&["synth", "tiny-llama", "--quant", "f16", "--out", text(&f16)]).ok();
    for write in [&synth as &dyn Fn(&Path) -> crate::support::Run, &quantize] {
        write(&whole);
        let whole = std::fs::read(&whole).expect("a file");
        write(&link);
        assert!(link.is_symlink() && std::fs::read(&victim).expect("a file") == whole);
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe)
        });
        write(&pipe);
        assert!(pipe.metadata().expect("a pipe").file_type().is_fifo());
        assert!(reader.join().expect("no panic").expect("a pipe") == whole);
    }
    assert!(run(&["synth", "tiny-llama", "--out", text(&folder)]).error(1).contains("directory"));
}

#[test]
#[cfg(unix)]
fn models_that_are_pipes() {
    let pipe = empty_folder("pipe").join("model.gguf");
    pipe_at(&pipe);
    let mut child = command(&["show", text(&pipe)]).spawn().expect("the program starts");
    let mut err = child.stderr.take().expect("a pipe");
    assert_eq!(ended(child), 1);
    let line = std::io::read_to_string(&mut err).expect("text");
    assert!(line.contains("model.gguf") && line.contains("not a regular file"), "{line}");
}

#[test]
#[cfg(unix)]
fn models_that_shrink_while_they_run() {
    let copy = file("shrinks.gguf", &std::fs::read(model()).expect("a model"));
    let args = ["run", text(&copy), "-p", "x", "--no-template", "--ignore-eos", "-c", "2000000", "--seed", "1"];
    let mut child = command(&args).spawn().expect("the program starts");
    let mut out = first_output(&mut child);
    let drain = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    let mut err = child.stderr.take().expect("a pipe");
    std::fs::File::options().write(true).open(&copy).expect("a file").set_len(4096).expect("a shorter file");
    assert_eq!(ended(child), 1);
    let err = std::io::read_to_string(&mut err).expect("text");
    let lines: Vec<_> = err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(lines.len() == 1 && lines[0].contains("made shorter") && lines[0].contains("run it again"), "{err}");
    drain.join().expect("no panic").expect("a pipe");
}

/// Runs the program with a stdout that takes nothing: a socket that does not wait, and is full.
#[cfg(unix)]
fn run_without_output(args: &[&str]) -> crate::support::Run {
    use std::io::Write;
    let (_reader, mut full) = std::os::unix::net::UnixStream::pair().expect("sockets");
    full.set_nonblocking(true).expect("a socket");
    while full.write(&[0; 4096]).is_ok() {}
    while full.write(&[0]).is_ok() {}
    finished(command(args).stdout(std::os::fd::OwnedFd::from(full)).output().expect("the program starts"))
}

#[test]
#[cfg(unix)]
fn an_output_that_cannot_be_written() {
    let path = model();
    let path = text(&path);
    for args in [
        &["run", path, "-p", "x", "-n", "2", "--no-template", "--ignore-eos", "--reasoning", "show"][..],
        &["show", path],
        &["tokenize", "-m", path, "x"],
        &["bench", "-m", path, "-p", "0", "-n", "1", "-r", "1", "--bandwidth", "9"],
        &["profile", "-m", path, "-n", "1", "--bandwidth", "9"],
        &["logits", "-m", path, "--tokens", "1", "--out", "-"],
        &["completions", "bash"],
        &["passes"],
        &["--help"],
        &["--version"],
    ] {
        let ran = run_without_output(args);
        let error = ran.error(1);
        assert!(error.contains("cannot write the output: "), "{args:?}: {error}");
    }
}

#[test]
fn a_reader_that_has_seen_enough() {
    let path = model();
    let mut child = command(&["show", text(&path)]).spawn().expect("the program starts");
    drop(child.stdout.take());
    let ran = finished(child.wait_with_output().expect("the program ends"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}
