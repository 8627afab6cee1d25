//! Several models behind one server: each answers as itself, however they come and go.

use super::server::{self, Server};
use crate::support::{command, folder, text, tiny};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Barrier;

/// A folder with two models, and with what is none.
fn models(name: &str) -> PathBuf {
    let models = folder().join(name);
    let _ = std::fs::remove_dir_all(&models);
    std::fs::create_dir_all(models.join("folder.gguf")).expect("a folder");
    for shape in ["tiny-llama", "tiny-qwen3"] {
        std::fs::copy(tiny(shape, "q4_0"), models.join(format!("{shape}.gguf"))).expect("a copy");
    }
    std::fs::write(models.join("broken.gguf"), b"GGUF and then nothing").expect("a file");
    std::fs::write(models.join("notes.txt"), b"no model").expect("a file");
    models
}

fn server(folder_name: &str, flags: &[&str]) -> Server {
    let models = models(folder_name);
    let base = ["serve", "--models", text(&models), "--port", "0", "-t", "2", "-c", "512", "-np", "2", "--metrics"];
    let mut command = command(&[&base[..], &["--batch-invariant"], flags].concat());
    command.env("HF_HUB_CACHE", folder().join("no-cache"));
    let server = Server::of(command);
    server.wait_until_ready();
    server
}

fn ask(server: &Server, model: &str, prompt: &str) -> String {
    ask_at(server.port, model, prompt)
}

fn ask_at(port: u16, model: &str, prompt: &str) -> String {
    let body = json!({ "model": model, "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    let answer = server::post(port, "/v1/completions", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["model"], model);
    answer["choices"][0]["text"].as_str().expect("text").to_owned()
}

fn statuses(server: &Server) -> Vec<String> {
    let list = server.get("/v1/models").json();
    let word = |entry: &Value| format!("{} {}", entry["id"], entry["status"]["value"]).replace('"', "");
    list["data"].as_array().expect("a list").iter().map(word).collect()
}

const PROMPTS: [&str; 3] = ["Hello", "Once upon a time", "def"];
const NAMES: [&str; 2] = ["tiny-llama", "tiny-qwen3"];

/// Both models beside each other, from as many threads as there are prompts, get what they get alone.
fn nothing_is_mixed(server: &Server) {
    let alone = NAMES.map(|name| PROMPTS.map(|prompt| ask(server, name, prompt)));
    assert_ne!(alone[0], alone[1], "two models");
    let (start, port) = (Barrier::new(NAMES.len() * PROMPTS.len()), server.port);
    std::thread::scope(|scope| {
        for (name, alone) in NAMES.iter().zip(&alone) {
            for (prompt, alone) in PROMPTS.iter().zip(alone) {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (0..3).for_each(|_| assert_eq!(ask_at(port, name, prompt), *alone, "{name}: {prompt}"));
                });
            }
        }
    });
}

#[test]
fn two_models_beside_each_other_answer_as_themselves() {
    let server = &server("two-models", &[]);
    assert_eq!(statuses(server), ["broken unloaded", "tiny-llama unloaded", "tiny-qwen3 unloaded"]);
    nothing_is_mixed(server);
    assert_eq!(statuses(server), ["broken unloaded", "tiny-llama loaded", "tiny-qwen3 loaded"]);
    let broken = server.post("/v1/completions", json!({ "model": "broken", "prompt": "a" }));
    assert_eq!(broken.error(500), "server_error");
    assert!(broken.body.contains("model 'broken' cannot be loaded") && broken.head.contains("x-should-retry: false"));
    for name in ["folder", "notes", "../tiny-llama", "tiny-llama.gguf/.."] {
        let refused = server.post("/v1/completions", json!({ "model": name, "prompt": "a" }));
        assert_eq!(refused.error(404), "not_found_error", "{name}");
    }
    assert_eq!(ask(server, "tiny-llama.gguf", "Hello"), ask(server, "tiny-llama", "Hello"), "by its file");
    let metrics = server.get("/metrics").body;
    let part = |name: &str| metrics.lines().any(|line| line.contains(&format!("model_name=\"{name}\",part=\"cache\"")));
    assert!(part("tiny-llama") && part("tiny-qwen3"), "{metrics}");
}

#[test]
fn one_place_for_two_models_is_given_back_and_forth() {
    let server = &server("one-place", &["--max-models", "1"]);
    nothing_is_mixed(server);
    let loaded = statuses(server).iter().filter(|status| status.ends_with(" loaded")).count();
    assert_eq!(loaded, 1);
    let running = server.metric("kernloom_requests_running");
    assert_eq!((running, server.metric("kernloom_models_loaded")), (0.0, 1.0));
}

#[test]
fn a_model_that_nobody_asks_for_goes_and_comes_back() {
    let path = tiny("tiny-llama", "q4_0");
    let base = ["serve", text(&path), "--port", "0", "-t", "1", "-c", "512", "--sleep-idle-seconds", "1"];
    let server = Server::of(command(&base));
    server.wait_until_ready();
    let body = || json!({ "prompt": "Hello", "n_predict": 4, "temperature": 0 });
    let before = server.post("/completion", body()).json()["content"].clone();
    server.wait_for("it goes", || server.get("/props").json()["is_sleeping"] == true);
    assert_eq!((server.get("/health").status, statuses(&server)), (200, vec!["tiny-llama-q4_0 unloaded".to_owned()]));
    assert_eq!(server.post("/completion", body()).json()["content"], before, "any name gets it, and none");
    assert_eq!(server.get("/props").json()["is_sleeping"], false);
}
