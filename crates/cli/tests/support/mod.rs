//! Runs the program, and finds or makes models for it.

#![allow(dead_code)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

/// What a run left behind.
pub struct Run {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Run {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("stdout in UTF-8")
    }

    /// The run, which must have succeeded.
    pub fn ok(self) -> Run {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    /// The one line of an error with this exit code.
    pub fn error(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{}", self.err);
        let mut lines = self.err.lines().filter(|line| line.starts_with("error: "));
        let line = lines.next().unwrap_or_else(|| panic!("no error in: {}", self.err));
        assert_eq!(lines.next(), None, "one line: {}", self.err);
        assert!(!self.err.contains("internal error") && !self.err.contains("panicked"), "{}", self.err);
        line
    }
}

/// A folder for files of the tests.
pub fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernloom");
    std::fs::create_dir_all(&folder).expect("a folder for test files");
    folder
}

/// The program, with a kernel cache of its own and a compiler that is quick.
pub fn command(args: &[&str]) -> Command {
    let search = testkit::quick_compiler::search_path(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernloom"));
    command.env("PATH", std::env::join_paths(search).expect("a search path"));
    command.args(args).env("XDG_CACHE_HOME", folder().join("quick")).env_remove("NO_COLOR");
    // What the user has set is not what is tested.
    command.env("XDG_CONFIG_HOME", folder().join("config")).env("XDG_STATE_HOME", folder().join("state"));
    let settings = std::env::vars_os().map(|(name, _)| name);
    settings.filter(|name| name.as_encoded_bytes().starts_with(b"KERNLOOM_")).for_each(|name| {
        command.env_remove(name);
    });
    // Results that are compared must not depend on what was compiled in time.
    command.env("KERNLOOM_WAIT_FOR_KERNELS", "true");
    // Nor are cards: what is expected is what a processor gives.
    command.env("CUDA_VISIBLE_DEVICES", "").env("VK_DRIVER_FILES", folder().join("no-driver.json"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// As [`command`], with the compiler that users have, for what computes much.
pub fn optimised(args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("XDG_CACHE_HOME", folder().join("optimised"));
    command
}

/// Runs the program to its end.
pub fn run(args: &[&str]) -> Run {
    finished(command(args).output().expect("the program starts"))
}

/// Runs the program with something on stdin.
pub fn run_with_input(args: &[&str], input: &[u8]) -> Run {
    let mut child = command(args).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that stops reading closes the pipe.
    let _ = stdin.write_all(input);
    drop(stdin);
    finished(child.wait_with_output().expect("the program ends"))
}

pub fn finished(output: Output) -> Run {
    let code = output.status.code().unwrap_or(-1);
    Run { code, out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Starts a server with a port of its own, which it says, and then more lines.
pub fn serving(mut command: Command) -> (Child, u16, impl Iterator<Item = String> + Send) {
    let mut child = command.spawn().expect("the server starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut heard = vec![];
    loop {
        let line = lines.next().unwrap_or_else(|| panic!("no address in {heard:?}"));
        match line.rsplit_once("listening on http://127.0.0.1:") {
            Some((_, port)) => return (child, port.trim().parse().expect("a port"), lines),
            None => heard.push(line),
        }
    }
}

/// A tiny model, made once.
pub fn tiny(shape: &str, quant: &str) -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one = MAKING.lock().unwrap_or_else(|e| e.into_inner());
    let path = folder().join(format!("{shape}-{quant}.gguf"));
    if !path.is_file() {
        run(&["synth", shape, "--quant", quant, "--seed", "7", "--out", text(&path)]).ok();
    }
    path
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A file beside the repository that is not part of it.
pub fn shared(name: &str) -> PathBuf {
    root().join("../shared").join(name)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A model with reference logits.
pub struct Golden {
    pub name: String,
    pub path: PathBuf,
    pub model: String,
    pub quant: String,
    pub prompt: Vec<u32>,
    pub greedy: Vec<u32>,
    pub vocab: usize,
    pub peer_kld: f64,
}

impl Golden {
    pub fn logits(&self) -> Vec<f32> {
        floats(&std::fs::read(self.path.with_extension("logits.f32")).expect("reference logits"))
    }

    /// Whether one flipped expert can move a row.
    pub fn is_mixture(&self) -> bool {
        ["moe", "legacy", "softmax"].iter().any(|part| self.model.contains(part))
    }
}

pub fn list<'a>(ids: impl Iterator<Item = &'a u32>) -> String {
    ids.map(u32::to_string).collect::<Vec<_>>().join(",")
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The likeliest token; the lower of equals.
pub fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).expect("a row") as u32
}

/// The golden files beside the repository, or the few in it.
pub fn golden() -> Vec<Golden> {
    let folder = match shared("golden/manifest.json").is_file() {
        true => shared("golden"),
        false => root().join("tests/golden"),
    };
    let manifest = std::fs::read(folder.join("manifest.json")).expect("a manifest of golden files");
    let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest in JSON");
    let ids = |entry: &Value, key: &str| -> Vec<u32> {
        let list = entry[key].as_array().expect("a list of ids");
        list.iter().map(|id| id.as_u64().expect("an id") as u32).collect()
    };
    let entries = manifest.as_array().expect("a list of files").iter();
    let file = |entry: &Value| {
        let name = entry["file"].as_str().expect("a name").to_owned();
        let path = folder.join(&name);
        path.is_file().then(|| Golden {
            path,
            name,
            model: entry["model"].as_str().expect("a model").into(),
            quant: entry["quant"].as_str().expect("a quantisation").into(),
            prompt: ids(entry, "prompt"),
            greedy: ids(entry, "greedy"),
            vocab: entry["vocab"].as_u64().expect("a size") as usize,
            peer_kld: entry["peer_kld"].as_f64().expect("a divergence"),
        })
    };
    entries.filter_map(file).collect()
}
