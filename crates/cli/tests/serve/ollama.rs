//! Ollama's API over real connections: streams, and models that come from a hub on this machine and go again.

use super::server::{Response, Server};
use crate::support::{command, folder, text, tiny};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::local_hub::{Faults, LocalHub};

/// How long a hub that falls silent says nothing.
const SILENCE: Duration = Duration::from_secs(2);

/// The lines of a stream.
fn lines(response: &Response) -> Vec<Value> {
    assert!(response.status == 200 && response.head.contains("application/x-ndjson"), "{response:?}");
    response.body.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The text of an error in Ollama's form.
fn error(response: &Response) -> String {
    assert!(response.status >= 400, "{response:?}");
    response.json()["error"].as_str().unwrap_or_else(|| panic!("{response:?}")).to_owned()
}

/// What clients of Ollama get from a server that has the model of the others.
pub(super) fn chats_and_texts(server: &Server) {
    let body = json!({ "model": "any", "messages": [{ "role": "user", "content": "Hello" }],
        "options": { "temperature": 0, "num_predict": 6 } });
    let streamed = lines(&server.post("/api/chat", body.clone()));
    let told: String = streamed.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
    let mut whole = body.clone();
    whole["stream"] = false.into();
    let whole = server.post("/api/chat", whole).json();
    assert_eq!((&whole["message"]["content"], &whole["model"]), (&json!(told), &json!("any")));
    let openai = json!({ "messages": body["messages"], "max_tokens": 6, "temperature": 0 });
    let openai = server.post("/v1/chat/completions", openai).json();
    assert_eq!(openai["choices"][0]["message"]["content"], told, "one model, whatever the API");
    let last = streamed.last().expect("a last line");
    assert!(last["done"] == true && last["eval_count"] == 6 && last["eval_duration"].as_u64() > Some(0), "{last}");
    let shown = server.post("/api/show", json!({ "model": "first" })).json();
    assert_eq!(shown["model_info"]["general.architecture"], "llama");
    assert!(shown["model_info"]["llama.context_length"].is_u64(), "{shown}");
    assert!(shown["model_info"].get("tokenizer.ggml.tokens").is_some_and(Value::is_null));
    let tags = server.get("/api/tags").json();
    assert_eq!(tags["models"][0]["details"]["quantization_level"], "Q4_0");
    assert_eq!(tags["models"][0]["digest"].as_str().map(str::len), Some(64));
    assert!(error(&server.post("/api/pull", json!({ "model": "a/b" }))).contains("--manage-models"));
    // What its template knows nothing of is refused, and not left out.
    let capabilities = shown["capabilities"].as_array().expect("a list");
    let tool = json!({ "type": "function", "function": { "name": "f" } });
    for (capability, field, value) in [("tools", "tools", json!([tool])), ("thinking", "think", json!(true))] {
        let mut asked = body.clone();
        asked[field] = value;
        let can = capabilities.contains(&json!(capability));
        let answer = server.post("/api/chat", asked);
        assert_eq!(answer.status, if can { 200 } else { 400 }, "{capabilities:?} {answer:?}");
        assert!(can || error(&answer).contains(&format!("does not support {capability}")), "{answer:?}");
    }
    assert!(!capabilities.contains(&json!("tools")), "{capabilities:?}");
    // A client that leaves in the middle frees its place.
    let endless =
        json!({ "model": "x", "prompt": "a", "raw": true, "options": { "num_predict": 900, "ignore_eos": true } });
    let mut stream = BufReader::new(server.open("POST", "/api/generate", "", endless.to_string().as_bytes()));
    let mut line = String::new();
    while !line.contains("\"response\"") {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "it ended");
    }
    drop(stream);
    let is_free =
        || server.get("/slots").json().as_array().expect("slots").iter().all(|slot| slot["is_processing"] == false);
    server.wait_for("its place is free", is_free);
}

/// A server of a model that came from a hub, which also has others.
struct Place {
    hub: LocalHub,
    home: PathBuf,
    server: Server,
}

impl Place {
    fn new() -> Place {
        let home = folder().join(format!("ollama-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).expect("a folder");
        let hub = LocalHub::start();
        hub.add("a/served", "m-Q4_0.gguf", &std::fs::read(tiny("tiny-llama", "q4_0")).expect("a model"));
        let mut command =
            command(&["serve", "a/served", "--port", "0", "-t", "1", "-c", "512", "--metrics", "--manage-models"]);
        for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"] {
            command.env_remove(name);
        }
        command.env("HF_ENDPOINT", &hub.endpoint).env("HF_HOME", &home);
        let server = Server::of(command);
        server.wait_until_ready();
        hub.seen();
        Place { hub, home, server }
    }

    fn pull(&self, name: &str) -> Response {
        self.server.post("/api/pull", json!({ "model": name }))
    }

    fn delete(&self, name: &str) -> Response {
        self.server.ask("DELETE", "/api/delete", "", json!({ "model": name }).to_string().as_bytes())
    }

    fn names(&self) -> Vec<String> {
        let tags = self.server.get("/api/tags").json();
        let models = tags["models"].as_array().expect("a list").iter();
        models.map(|model| model["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Downloads of large files that the hub has seen since the last time.
    fn downloads(&self) -> usize {
        self.hub.seen().iter().filter(|seen| seen.server == "store" && seen.method == "GET").count()
    }

    /// All files below the folder of this test.
    fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for item in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                found.push(item.path());
                if item.file_type().is_ok_and(|kind| kind.is_dir()) {
                    walk(&item.path(), found);
                }
            }
        }
        let mut found = vec![];
        walk(&self.home, &mut found);
        found.retain(|path| !text(path).ends_with(".lock"));
        found.sort();
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// Bytes that are no model and differ from others.
fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}

#[test]
fn models_are_pulled_listed_and_deleted_and_nothing_else_is_touched() {
    let place = &Place::new();
    comes_and_goes(place);
    hostile_names(place);
    no_room(place);
    two_are_one(place);
    who_leaves_stops_his_download(place);
    assert_eq!(place.server.get("/health").status, 200);
}

fn comes_and_goes(place: &Place) {
    place.hub.add("a/other", "m-Q8_0.gguf", &bytes(1, 300_000));
    assert_eq!(place.names(), ["m-Q4_0:latest"]);
    let pulled = lines(&place.pull("a/other"));
    assert_eq!(pulled.last(), Some(&json!({ "status": "success" })));
    let file = pulled.iter().rfind(|line| line["digest"].is_string()).expect("progress");
    assert_eq!((&file["total"], &file["completed"]), (&json!(300_000), &json!(300_000)), "{pulled:?}");
    assert_eq!(place.names(), ["m-Q4_0:latest", "a/other:Q8_0"]);
    let tags = place.server.get("/api/tags").json();
    assert_eq!(file["digest"], format!("sha256:{}", tags["models"][1]["digest"].as_str().expect("a digest")));
    // Again there is nothing to do; the name may have what Ollama's clients add to it.
    place.downloads();
    assert_eq!(
        place.server.post("/api/pull", json!({ "name": "hf.co/a/other:latest", "stream": false })).json()["status"],
        "success"
    );
    assert_eq!(place.downloads(), 0);
    assert!(error(&place.delete("a/served")).contains("this server runs"));
    assert_eq!(place.delete("a/served:Q4_0").status, 409);
    assert_eq!(place.delete("a/other:Q8_0").status, 200);
    assert_eq!(place.delete("a/other:Q8_0").status, 404);
    assert_eq!(place.names(), ["m-Q4_0:latest"]);
    assert!(!place.home.join("hub/models--a--other").exists());
}

fn hostile_names(place: &Place) {
    // Whoever is called here is somebody whom nobody meant.
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    stranger.set_nonblocking(true).expect("it does not block");
    let address = stranger.local_addr().expect("an address");
    let outside = place.home.join("outside.gguf");
    std::fs::write(&outside, "mine").expect("a file");
    let before = place.files();
    let long = "x".repeat(100_000);
    let slashes = "a/".repeat(20_000);
    let of_stranger = [
        format!("http://{address}/m.gguf"),
        format!("{address}/a/b"),
        format!("http://{address}/a/b/resolve/main/m.gguf"),
    ];
    let paths =
        ["../../outside.gguf", "..", "../..", "a/..", "../a", "a/b/../../c", "./a", "~/a", "/etc/passwd", "C:\\a"];
    let encoded = ["%2e%2e/a", "hf.co/a/b/resolve/main/..%2f..%2fx.gguf", "hf://../../x.gguf", "hf.co/../.."];
    let schemes =
        ["file:///etc/passwd", "ftp://a/b", "javascript:a/b", "https://evil.example/m.gguf", "HTTP://a/m.gguf"];
    let odd = [
        "a\0b/c",
        "a/b\0",
        "a/b:\0",
        "a/b:..",
        "a/b:../../c",
        "a/--b",
        "-rf/a",
        "models--a--b",
        "\u{202e}a/b",
        "a b/c",
        "*/*",
        "a//b",
    ];
    let elsewhere =
        ["llama3.2", "registry.ollama.ai/library/llama3:latest", "kernloom-demo", "glm-4.7-flash", "no/such", " ", ""];
    let all = [&paths[..], &encoded, &schemes, &odd, &elsewhere].concat().into_iter();
    let all =
        all.chain([long.as_str(), slashes.as_str(), text(&outside)]).chain(of_stranger.iter().map(String::as_str));
    for name in all {
        let shown = || name.chars().take(60).collect::<String>();
        for response in [place.pull(name), place.delete(name)] {
            let told = error(&response);
            assert!((400..500).contains(&response.status), "{:?}: {response:?}", shown());
            assert!(told.len() < 2000 && !told.contains('\0'), "{:?}: {told}", shown());
        }
    }
    for body in
        [json!([]), json!({ "model": ["a/b"] }), json!({ "model": null }), json!({ "model": { "name": "a/b" } })]
    {
        assert_eq!(place.server.post("/api/pull", body.clone()).status, 400, "{body}");
    }
    assert!(stranger.accept().is_err(), "nobody was called");
    assert_eq!(place.files(), before, "no file came or went");
    std::fs::remove_file(outside).expect("it is still there");
}

fn no_room(place: &Place) {
    place.hub.add("a/large", "m-Q4_0.gguf", &bytes(2, 5000));
    place.hub.fault(Faults { size: Some(1 << 60), ..Faults::default() });
    let refused = place.pull("a/large");
    assert!(refused.status == 507 && error(&refused).contains("are free in"), "{refused:?}");
    assert_eq!(place.downloads(), 0, "the disk is looked at first");
    place.hub.fault(Faults::default());
}

fn two_are_one(place: &Place) {
    place.hub.add("a/slow", "m-Q4_0.gguf", &bytes(3, 300_000));
    place.hub.fault(Faults { cut: Some((100_000, 1)), silence: SILENCE, ..Faults::default() });
    place.downloads();
    let body = json!({ "model": "a/slow" }).to_string();
    let mut first = BufReader::new(place.server.open("POST", "/api/pull", "", body.as_bytes()));
    read_until(&mut first, "\"completed\":100000");
    // The same by another name; and who came first leaves.
    let second =
        place.server.open("POST", "/api/pull", "", json!({ "model": "hf.co/a/slow:latest" }).to_string().as_bytes());
    std::thread::sleep(SILENCE / 4);
    drop(first);
    assert_eq!(lines(&Response::read(second)).last(), Some(&json!({ "status": "success" })));
    assert_eq!(place.downloads(), 2, "one that broke off and went on");
    place.hub.fault(Faults::default());
}

fn who_leaves_stops_his_download(place: &Place) {
    place.hub.add("a/left", "m-Q4_0.gguf", &bytes(4, 300_000));
    place.hub.fault(Faults { cut: Some((100_000, 1)), silence: SILENCE, ..Faults::default() });
    place.downloads();
    let body = json!({ "model": "a/left" }).to_string();
    let mut stream = BufReader::new(place.server.open("POST", "/api/pull", "", body.as_bytes()));
    read_until(&mut stream, "\"completed\":100000");
    drop(stream);
    std::thread::sleep(SILENCE * 2);
    assert_eq!(place.downloads(), 1, "nobody waits, so it does not go on");
    assert!(!place.names().contains(&"a/left:Q4_0".to_owned()));
    place.hub.fault(Faults::default());
    assert_eq!(lines(&place.pull("a/left")).last(), Some(&json!({ "status": "success" })));
    let resumed = place.hub.seen().into_iter().find_map(|seen| seen.range);
    assert_eq!(resumed.as_deref(), Some("bytes=100000-"), "what was there was kept");
}

fn read_until(stream: &mut impl BufRead, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "it ended before {word}");
    }
}
