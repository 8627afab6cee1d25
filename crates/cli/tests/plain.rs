//! Text from outside, by every way in: what terminals and logs get of it is plain text, in lines that end.

use crate::support::{Run, command, finished, folder, text, tiny};
use gguf::{Gguf, ValueBuf, Writer};
use rexpect::process::PtyProcess;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::local_hub::LocalHub;

/// What colours, titles, clears, turns and hides.
const HOSTILE: &str = "\x1b[31mE\x1b]0;T\x07\u{9b}2J\u{202e}\u{2066}\u{2028}\u{85}\x7f\x08\r";

/// Characters of a line at most: a message, and what stands before it.
const LONGEST: usize = 9000;

/// Bytes of all that is said at most.
const MOST: usize = 100_000;

fn megabyte() -> String {
    HOSTILE.to_owned() + &"A".repeat(1 << 20)
}

/// As long as an argument or a variable may be.
fn argument() -> String {
    HOSTILE.to_owned() + &"A".repeat(100_000)
}

/// Checks what a terminal or a log gets.
fn check(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what}: no UTF-8"));
    let start: String = text.chars().take(3000).collect();
    let obeyed = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2028}".contains(c)
    };
    assert_eq!(text.chars().find(|&c| obeyed(c)), None, "{what}: {start:?}");
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest <= LONGEST && text.len() <= MOST, "{what}: {longest} of {}: {start}", text.len());
}

/// Runs to the end, and checks both streams.
fn plain(what: &str, mut command: Command) -> Run {
    let run = finished(command.output().expect("the program starts"));
    check(what, &run.out);
    check(what, run.err.as_bytes());
    run
}

/// A folder of one test.
fn place(name: &str) -> PathBuf {
    let place = folder().join(format!("plain-{name}"));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a folder");
    place
}

/// The tiny model with other metadata.
fn model(path: &Path, values: &[(&str, ValueBuf)]) {
    let tiny = Gguf::open(tiny("tiny-llama", "q4_0")).expect("a model");
    let mut writer = Writer::new();
    writer.copy_metadata(tiny.metadata());
    for (key, value) in values {
        writer.set(*key, value.clone());
    }
    for tensor in tiny.tensors() {
        writer.tensor(&tensor.name, tensor.ty, tensor.shape()).expect("a tensor");
    }
    let data = |tensor: &gguf::Tensor, out: &mut dyn Write| {
        out.write_all(tiny.data(tiny.tensor(&tensor.name).expect("the same tensor")))
    };
    std::fs::write(path, writer.to_vec(data).expect("a file")).expect("a file is written");
}

#[test]
fn metadata() {
    let path = place("metadata").join("model.gguf");
    let string = |text: &str| ValueBuf::from(text);
    let refusal = format!("{{{{ raise_exception('{}') }}}}", argument());
    let broken = format!("{{% {} %}}", argument());
    let texts = ValueBuf::from(&[megabyte()][..]);
    let long_key = format!("key\u{202e}{}", "A".repeat(60_000));
    let cases: [(&str, ValueBuf, &str); 10] = [
        ("tokenizer.chat_template", string(&refusal), "refuses the conversation"),
        ("tokenizer.chat_template", string(&broken), "chat template"),
        ("general.architecture", string(&megabyte()), "is not supported"),
        ("tokenizer.ggml.model", string(&megabyte()), "is not supported"),
        ("llama.block_count", string(&megabyte()), "llama.block_count"),
        ("llama.rope.scaling.type", string(&megabyte()), "none, linear, yarn, or longrope"),
        ("tokenizer.ggml.merges", texts.clone(), "merge 0"),
        ("general.size_label", string(&megabyte()), ""),
        ("tokenizer.ggml.token_type", texts, "tokenizer.ggml.token_type"),
        (&long_key, string(&megabyte()), ""),
    ];
    for (key, value, expected) in cases {
        let what: String = key.chars().take(30).collect();
        model(&path, &[("general.name", string(&megabyte())), (key, value)]);
        plain(&what, command(&["show", text(&path)])).ok();
        let ran = plain(&what, command(&["run", text(&path), "-p", "x", "-n", "1", "-t", "1", "--temp", "0"]));
        assert!(ran.err.contains(expected), "{what}: {}", ran.err);
        assert_eq!(ran.code, i32::from(!expected.is_empty()), "{what}: {}", ran.err);
    }
    // A splitting rule matters to another kind of vocabulary.
    let mut vocabulary = Writer::new();
    vocabulary.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", megabyte().as_str());
    vocabulary.set("tokenizer.ggml.tokens", ValueBuf::from(&["a".to_owned()][..]));
    vocabulary.set("tokenizer.ggml.merges", ValueBuf::from(&[] as &[String]));
    std::fs::write(&path, vocabulary.to_vec(|_, _| Ok(())).expect("a file")).expect("a file is written");
    let ran = plain("pre", command(&["tokenize", "-m", text(&path), "x"]));
    let (error, cut) = (ran.error(1), format!("… ({} bytes)", megabyte().len()));
    assert!(error.contains("pre-tokenizer") && error.len() < 1000, "{error}");
    assert!(error.contains(r"\u{1b}[31mE") && error.contains(&cut), "{error}");
}

#[test]
fn paths() {
    let name = OsStr::from_bytes(&[HOSTILE.as_bytes(), b"\xff\x9b\n"].concat()).to_owned();
    let place = place("paths").join(&name);
    std::fs::create_dir_all(&place).expect("a folder of any name");
    let garbage = place.join("garbage.gguf");
    std::fs::write(&garbage, b"garbage").expect("a file");
    let good = place.join("good.gguf");
    std::fs::copy(tiny("tiny-llama", "q4_0"), &good).expect("a copy");
    let of = |words: &[&str], path: &Path| {
        let mut command = command(words);
        command.arg(path);
        command
    };
    plain("a folder", of(&["run", "-p", "x", "-m"], &place)).error(1);
    plain("garbage", of(&["run", "-p", "x", "-m"], &garbage)).error(1);
    plain("nothing", of(&["run", "-p", "x", "-m"], &place.join("none.gguf"))).error(1);
    let shown = plain("a model", of(&["show"], &good)).ok();
    assert!(shown.text().contains(r"\u{1b}[31mE") && shown.text().contains("good.gguf"), "{}", shown.text());
    plain("no text", of(&["perplexity", text(&tiny("tiny-llama", "q4_0")), "-f"], &place.join("none.txt"))).error(1);
    plain("no settings", of(&["config", "run", "--config"], &place.join("none.toml"))).error(2);
    plain("no folder", of(&["synth", "tiny-llama", "--out"], &place.join("none/x.gguf"))).error(1);
}

/// A program that is called as a compiler is.
fn compiler(path: &Path, version: &str, macros: &str) {
    let noise = "printf '\\033[31mE\\033]0;T\\007\\302\\2332J'; head -c 1000000 /dev/zero | tr '\\0' A";
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*--version*) printf '{version}'; {noise};;\n*-dM*) echo '{macros}';;\n\
         *fsyntax-only*) ;;\n*) {{ printf 'k.c:1: error: '; {noise}; }} >&2; exit 1;;\nesac\n"
    );
    std::fs::write(path, script).expect("a script");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a program");
}

#[test]
fn compilers() {
    let place = place("compilers");
    let (gcc, cache) = (place.join("gcc"), place.join("cache"));
    let run = |what: &str, words: &[&str]| {
        plain(what, command(&[words, &["--cc", text(&gcc), "--kernel-cache", text(&cache)]].concat()))
    };
    compiler(&gcc, "gcc ", "#define __GNUC__ 12");
    let ran = run("errors", &["run", "-p", "x", "-n", "1", "-t", "1", "--temp", "0"]);
    let error = ran.error(1);
    assert!(error.contains("does not compile: k.c:1: error: ") && error.len() < 3000, "{error}");
    let found = run("a version", &["doctor"]);
    assert!(found.text().contains(r"gcc \u{1b}[31mE"), "{}", found.text());
    compiler(&gcc, "", "");
    let ran = run("no compiler", &["run", "-p", "x", "-n", "1", "-t", "1", "--temp", "0"]);
    assert!(ran.error(1).contains("neither gcc nor clang"), "{}", ran.err);
    run("no compiler", &["doctor"]);
}

#[test]
fn arguments_variables_and_settings() {
    let long = argument();
    for words in [
        &[&*long][..],
        &["run", "--temp", &long],
        &["run", &format!("--{HOSTILE}")],
        &["run", "-p", "x", "-m", &long],
        &["show", &long],
        &["pull", &long],
        &["pull", &format!("hf.co/a/b/{long}")],
        &["rm", "-y", &long],
        &["config", &long],
        &["run", "--isa", &long, "-p", "x"],
        &["run", "--without", &long, "-p", "x"],
        &["serve", "--chat-template", HOSTILE],
        &["serve", "--host", HOSTILE],
        &["synth", &long, "--out", "x"],
        &["tokenize", "-m", "kernloom-demo", "--config", HOSTILE, "x"],
        &["detokenize", "-m", "kernloom-demo", &long],
    ] {
        let ran = plain(&words[..words.len() - 1].join(" "), command(words));
        assert!(ran.code == 1 || ran.code == 2, "{words:?}: {}", ran.err);
    }
    let with = |name: &str, value: &str, words: &[&str]| {
        let mut command = command(words);
        command.env(name, value);
        plain(name, command)
    };
    with("KERNLOOM_TEMP", &long, &["run", "-p", "x"]).error(2);
    with("LLAMA_ARG_PORT", &long, &["serve"]).error(2);
    with("HF_ENDPOINT", &long, &["pull", "a/b"]).error(1);
    with("HF_HOME", HOSTILE, &["ls"]).ok();
    with("KERNLOOM_SYSTEM_PROMPT", &long, &["config", "run"]).ok();
    with(&format!("KERNLOOM_{HOSTILE}"), "x", &["config", "run"]).ok();
    let file = place("settings").join("config.toml");
    let of_file = |settings: &str, words: &[&str]| {
        std::fs::write(&file, settings).expect("a file of settings");
        plain("settings", command(&[words, &["--config", text(&file)]].concat()))
    };
    let escaped = r"\u001b[31m\u009b";
    for settings in [
        format!("\"{escaped}\" = 1\n"),
        format!("temp = \"{escaped}{}\"\n", "A".repeat(100_000)),
        format!("[\"{}\"]\nx = 1\n", "A\u{202e}".repeat(1 << 19)),
        format!("temperature = {HOSTILE}"),
    ] {
        of_file(&settings, &["run", "-p", "x"]).error(2);
    }
    of_file(&format!("system-prompt = \"{escaped}{}\"\n", "A".repeat(1 << 20)), &["config", "run"]).ok();
}

#[test]
fn hubs() {
    let home = place("hub");
    let hub = LocalHub::start();
    let at = |endpoint: &str, words: &[&str]| {
        let mut command = command(words);
        for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "HTTP_PROXY", "ALL_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.env("HF_ENDPOINT", endpoint).env("HF_HOME", &home);
        command
    };
    hub.add("a/b", "\u{202e}m\u{2028}-Q4_0.gguf", &std::fs::read(tiny("tiny-llama", "q4_0")).expect("a model"));
    for many in 0..100 {
        hub.add("a/b", &format!("{}-{many}.gguf", "n\u{202e}".repeat(200)), b"x");
    }
    plain("no such file", at(&hub.endpoint, &["pull", &format!("a/b:{HOSTILE}")])).error(1);
    let pulled = plain("a name", at(&hub.endpoint, &["pull", "a/b:Q4_0"]));
    assert!(pulled.err.contains(r"downloading \u{202e}m\u{2028}-Q4_0.gguf"), "{}", pulled.err);
    hub.add("c/d", "m-Q4_0.gguf", &std::fs::read(tiny("tiny-llama", "q4_0")).expect("a model"));
    let pulled = plain("a download", at(&hub.endpoint, &["pull", "c/d"])).ok();
    let path = Path::new(pulled.text().trim_end());
    std::fs::rename(path, path.with_file_name(format!("{HOSTILE}m-Q4_0.gguf"))).expect("another name");
    let listed = plain("a list", at(&hub.endpoint, &["ls"])).ok();
    assert!(listed.text().contains(r"\u{8}\rm-Q4_0.gguf"), "{}", listed.text());
    plain("a removal", at(&hub.endpoint, &["rm", "-y", "c/d"])).ok();
    let long = "A".repeat(8000);
    for (answer, times, expected) in [
        (format!("418 x\r\nx-error-message: {long}"), 1, "answers 418: AAAA"),
        (format!("302 x\r\nlocation: /{long}"), 11, "more than 10 redirects"),
        // What is no answer at all is asked for again.
        (format!("418 {HOSTILE}{long}"), 1, "cannot reach"),
        (format!("418 x\r\n{HOSTILE}: {HOSTILE}{long}"), 1, "cannot reach"),
    ] {
        let endpoint = answering(format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"), times);
        let ran = plain(expected, at(&endpoint, &["pull", "a/b"]));
        assert!(ran.error(1).contains(expected), "{}", ran.err);
    }
}

/// A server that gives one answer to so many requests, and is gone then.
fn answering(answer: String, times: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(times) {
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines().map_while(Result::ok);
            let _ = lines.find(String::is_empty);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    endpoint
}

/// How a vocabulary of bytes spells one.
fn spelled(byte: u8) -> char {
    let is_shown = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let hidden = (0..byte).filter(|&byte| !is_shown(byte)).count() as u32;
    if is_shown(byte) { char::from(byte) } else { char::from_u32(256 + hidden).expect("a letter") }
}

/// What a terminal gets on stdout, and all of stderr.
fn on_terminal(mut command: Command) -> (Vec<u8>, String) {
    let errors = place("terminal").join("stderr");
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit());
    command.stderr(std::fs::File::create(&errors).expect("a file")).env("TERM", "xterm");
    let process = PtyProcess::new(command).expect("the program starts");
    let mut out = vec![];
    // A terminal without a program is an error on some systems.
    let _ = process.get_file_handle().expect("a terminal").read_to_end(&mut out);
    let out = String::from_utf8_lossy(&out).replace("\r\n", "\n");
    (out.into_bytes(), std::fs::read_to_string(errors).expect("UTF-8"))
}

#[test]
fn what_models_say_on_a_terminal() {
    let path = place("voice").join("model.gguf");
    let file = Gguf::open(tiny("tiny-llama", "q4_0")).expect("a model");
    let tokens: gguf::Strings<'_> = file.metadata().find("tokenizer.ggml.tokens").expect("strings").expect("tokens");
    let types: Vec<i32> = file.metadata().find("tokenizer.ggml.token_type").expect("numbers").expect("types");
    let spelled: String = HOSTILE.bytes().map(spelled).collect();
    // Single bytes stay: without them nothing can be asked.
    let hostile = |(id, (text, &kind)): (usize, (&[u8], &i32))| match String::from_utf8_lossy(text) {
        text if kind != 1 || text.chars().count() < 2 => text.into_owned(),
        _ => format!("{spelled}{id}"),
    };
    let tokens: Vec<String> = tokens.iter().zip(&types).enumerate().map(hostile).collect();
    let merges = ValueBuf::from(&[] as &[String]);
    model(&path, &[("tokenizer.ggml.tokens", ValueBuf::from(&tokens[..])), ("tokenizer.ggml.merges", merges)]);
    let run = ["run", text(&path), "--no-template", "-p", "x", "-n", "40", "--seed", "1", "-t", "1", "--ignore-eos"];
    let piped = finished(command(&run).output().expect("the program starts")).ok();
    let bytes = |wanted: &[u8]| piped.out.windows(wanted.len()).any(|found| found == wanted);
    assert!(bytes(HOSTILE.as_bytes()), "a pipe gets what was said");
    let (out, err) = on_terminal(command(&run));
    check("an answer", &out);
    check("an answer", err.as_bytes());
    let said = String::from_utf8(out).expect("UTF-8");
    assert!(said.contains(r"\u{1b}[31mE\u{1b}]0;T\u{7}\u{9b}2J"), "{said} {err}");
    let ids: Vec<String> = (0..300).map(|id: u32| id.to_string()).collect();
    let (out, _) = on_terminal(command(&["detokenize", "-m", text(&path), "--special", &ids.join(",")]));
    assert!(out.len() > 1000);
    check("tokens", &out);
}

#[test]
fn help_that_repeats_variables() {
    let help = |host: &str| {
        let mut command = command(&["serve", "--help"]);
        command.env("LLAMA_ARG_HOST", host);
        String::from_utf8(on_terminal(command).0).expect("UTF-8")
    };
    assert!(help("127.0.0.1").contains("\x1b["), "colours where nothing else brings them");
    let shown = help(&format!("me{HOSTILE}"));
    check("help", shown.as_bytes());
    assert!(shown.contains("LLAMA_ARG_HOST=me"), "{shown}");
}

#[test]
fn names_that_a_server_repeats() {
    let place = place("server");
    let path = place.join(format!("{HOSTILE}{}.gguf", "n".repeat(180)));
    let template = format!("{{{{ raise_exception('{}') }}}}", argument());
    model(&path, &[("tokenizer.chat_template", ValueBuf::from(template.as_str()))]);
    let words = ["serve", text(&path), "--port", "0", "-t", "1", "-c", "256", "--metrics-compat", "vllm"];
    let mut server = Ended(command(&words).spawn().expect("the server starts"));
    let mut lines = BufReader::new(server.0.stderr.take().expect("a pipe")).lines();
    let mut heard = |wanted: &str| loop {
        let line = lines.next().unwrap_or_else(|| panic!("no '{wanted}'")).expect("a line in UTF-8");
        check("a note", line.as_bytes());
        if line.contains(wanted) {
            return line;
        }
    };
    let address = heard("listening on http://").rsplit_once("http://").expect("an address").1.to_owned();
    heard("ready: ");
    let ask = |head: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        let length = body.len();
        let rest =
            format!("HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(format!("{head} {rest}").as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer in UTF-8");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        // Chunks of a stream end as lines of the protocol do.
        check(head, body.replace("\r\n", "\n").as_bytes());
        body.to_owned()
    };
    while !ask("GET /health", "").contains("ok") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let models: serde_json::Value = serde_json::from_str(&ask("GET /v1/models", "")).expect("JSON");
    let name = models["data"][0]["id"].as_str().expect("a name");
    assert!(name.starts_with(r"\u{1b}[31mE") && name.chars().count() <= 128, "{name}");
    check("a name", name.as_bytes());
    // The likeliest token: any other may be a control character of the vocabulary, which is text of the model's.
    let body = r#"{"prompt": "x", "max_tokens": 1, "stream": true, "temperature": 0}"#;
    let event = ask("POST /v1/completions", body);
    assert!(event.contains("data: ") && event.contains("n… ("), "{event}");
    assert!(ask("GET /metrics", "").contains(r#"model_name="\\u{1b}[31mE"#));
    let refused = ask("POST /v1/chat/completions", r#"{"messages": [{"role": "user", "content": "x"}]}"#);
    assert!(refused.contains("refuses the conversation") && refused.len() < 3000, "{refused}");
    check("a line of the log", heard("\"path\":").as_bytes());
}

/// A process that ends with the value.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
