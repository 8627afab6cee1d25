//! Ollama's API through the router: what its clients send, and what they are told.

use crate::exercise::{self, Exercise};
use model::scheduler::Pooling;
use serde_json::{Value, json};
use server::error::ApiError;
use server::library::{Kept, Library, PullStep, Told};
use server::{App, Options};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn ask(exercise: &Exercise, method: &str, path: &str, body: &Value) -> (u16, String) {
    exercise.request(method, path, &[], body.to_string().as_bytes())
}

fn post(exercise: &Exercise, path: &str, body: &Value) -> Value {
    let (status, text) = ask(exercise, "POST", path, body);
    assert_eq!(status, 200, "{path} {body}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path} {body}: {text}"))
}

fn lines(exercise: &Exercise, path: &str, body: &Value) -> Vec<Value> {
    let (status, text) = ask(exercise, "POST", path, body);
    assert_eq!(status, 200, "{path} {body}: {text}");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The text of an error, which must have this status and Ollama's form.
fn refused(exercise: &Exercise, method: &str, path: &str, body: &Value, status: u16) -> String {
    let (given, text) = ask(exercise, method, path, body);
    assert_eq!(given, status, "{method} {path} {body}: {text}");
    let error: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(error.as_object().map(|object| object.len()), Some(1), "{text}");
    error["error"].as_str().expect("a text").to_owned()
}

fn with(body: &Value, more: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

fn chat() -> Value {
    json!({ "model": "mine", "messages": [{ "role": "user", "content": "Hi" }], "options": { "temperature": 0, "num_predict": 6 } })
}

fn generate() -> Value {
    json!({ "model": "mine", "prompt": "Hi", "options": { "temperature": 0, "num_predict": 6 } })
}

#[test]
fn a_stream_is_lines_of_the_same_text_and_streams_are_the_default() {
    let exercise = Exercise::new();
    for (path, body, at) in [("/api/chat", chat(), "/message/content"), ("/api/generate", generate(), "/response")] {
        let whole = post(&exercise, path, &with(&body, json!({ "stream": false })));
        let text = whole.pointer(at).and_then(Value::as_str).expect("text");
        assert!(!text.is_empty() && whole["model"] == "mine" && whole["done"] == true, "{whole}");
        assert_eq!((&whole["done_reason"], &whole["eval_count"]), (&json!("length"), &json!(6)));
        for time in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "prompt_eval_count"] {
            assert!(whole[time].is_u64(), "{time}: {whole}");
        }
        assert!(whole["total_duration"].as_u64() >= whole["eval_duration"].as_u64(), "{whole}");
        let lines = lines(&exercise, path, &body);
        let (last, parts) = lines.split_last().expect("lines");
        let told: String = parts.iter().map(|line| line.pointer(at).and_then(Value::as_str).expect("text")).collect();
        assert_eq!(told, text);
        assert!(parts.len() > 1 && parts.iter().all(|line| line["done"] == false && line.get("eval_count").is_none()));
        assert_eq!(
            (&last["done"], &last["done_reason"], last.pointer(at)),
            (&json!(true), &json!("length"), Some(&json!("")))
        );
        assert_eq!((&last["eval_count"], &last["prompt_eval_count"]), (&json!(6), &whole["prompt_eval_count"]));
        assert_eq!(last["context"], whole["context"]);
        assert!(lines.iter().all(|line| line["created_at"].as_str().is_some_and(|time| time.ends_with('Z'))));
    }
    let scored =
        post(&exercise, "/api/chat", &with(&chat(), json!({ "stream": false, "logprobs": true, "top_logprobs": 2 })));
    let first = &scored["logprobs"][0];
    assert!(first["token"].is_string() && first["top_logprobs"].as_array().map(Vec::len) == Some(2), "{scored}");
}

#[test]
fn every_option_has_an_effect_or_is_refused_or_cannot_have_one() {
    let exercise = Exercise::new();
    let with_options = |options: Value| with(&generate(), json!({ "stream": false, "raw": true, "options": options }));
    let text = |options: Value| {
        let answer = post(&exercise, "/api/generate", &with_options(options));
        (answer["response"].as_str().expect("text").to_owned(), answer["done_reason"].as_str().expect("why").to_owned())
    };
    let (plain, _) = text(json!({ "temperature": 0, "num_predict": 8 }));
    assert_eq!(text(json!({ "temperature": 0, "num_predict": 3 })).0, plain.chars().take(3).collect::<String>());
    let stop = plain.chars().nth(4).expect("a character").to_string();
    let (stopped, why) = text(json!({ "temperature": 0, "num_predict": 8, "stop": [stop] }));
    assert!(stopped.len() < plain.len() && why == "stop", "{plain:?} {stopped:?} {why}");
    // Chosen among all tokens, each of these makes another text, and a seed the same one again.
    let hot = |more: Value| {
        text(with(&json!({ "temperature": 3.0, "seed": 7, "num_predict": 8, "top_k": 0, "top_p": 1 }), more)).0
    };
    let drawn = hot(json!({}));
    assert_eq!(drawn, hot(json!({})));
    for more in [
        json!({ "seed": 8 }),
        json!({ "top_k": 1 }),
        json!({ "top_p": 0.05 }),
        json!({ "min_p": 1.0 }),
        json!({ "temperature": 0 }),
    ] {
        assert_ne!(drawn, hot(more.clone()), "{more}");
    }
    // Tokens of the prompt count as long as they lie in the window.
    let prompt = format!("{plain}{plain}Hi");
    for more in
        [json!({ "repeat_penalty": 50.0 }), json!({ "presence_penalty": 50.0 }), json!({ "frequency_penalty": 50.0 })]
    {
        let penalised = |window: i64| {
            let options = with(&more, json!({ "temperature": 0, "num_predict": 8, "repeat_last_n": window }));
            let answer = post(&exercise, "/api/generate", &with(&with_options(options), json!({ "prompt": prompt })));
            answer["response"].as_str().expect("text").to_owned()
        };
        assert!(penalised(-1) != plain && penalised(0) == plain, "{more}");
    }
    // What cannot change a text.
    for options in [
        json!({ "num_ctx": 100_000, "num_keep": 3, "num_batch": 2, "num_gpu": 0, "num_thread": 1, "use_mmap": true, "numa": false }),
        json!({ "typical_p": 1.0, "tfs_z": 1, "mirostat": 0, "mirostat_tau": 5, "penalize_newline": true, "no_such_option": [1] }),
    ] {
        assert_eq!(text(with(&json!({ "temperature": 0, "num_predict": 8 }), options.clone())).0, plain, "{options}");
    }
    for (options, name) in [
        (json!({ "typical_p": 1.7 }), "typical_p"),
        (json!({ "tfs_z": 0.5 }), "tfs_z"),
        (json!({ "mirostat": 3 }), "mirostat"),
        (json!({ "penalize_newline": false }), "penalize_newline"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "top_p": 7 }), "top_p"),
        (json!({ "stop": 5 }), "stop"),
        (json!([]), "options"),
    ] {
        let error = refused(&exercise, "POST", "/api/generate", &with_options(options.clone()), 400);
        assert!(error.contains(name), "{options}: {error}");
    }
}

#[test]
fn what_would_give_another_answer_is_refused_by_its_name() {
    let exercise = Exercise::new();
    for (path, more, word) in [
        ("/api/generate", json!({ "suffix": "end" }), "suffix"),
        ("/api/generate", json!({ "template": "{{ .Prompt }}" }), "template"),
        ("/api/generate", json!({ "images": ["aGVsbG8="] }), "image"),
        ("/api/generate", json!({ "raw": true, "system": "x" }), "raw"),
        ("/api/generate", json!({ "raw": true, "context": [1] }), "raw"),
        ("/api/generate", json!({ "context": [1, -1] }), "context"),
        ("/api/generate", json!({ "context": [999_999_999] }), "context"),
        ("/api/generate", json!({ "format": "yaml" }), "format"),
        ("/api/generate", json!({ "format": 5 }), "format"),
        ("/api/generate", json!({ "keep_alive": "soon" }), "keep_alive"),
        ("/api/chat", json!({ "messages": [{ "role": "user", "content": "x", "images": ["aGVsbG8="] }] }), "image"),
        ("/api/chat", json!({ "messages": [{ "content": "x" }] }), "role"),
        ("/api/chat", json!({ "messages": ["x"] }), "messages"),
        ("/api/chat", json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }] }), "without a name"),
        ("/api/chat", json!({ "think": "somewhat" }), "think"),
        ("/api/chat", json!({ "tools": [{ "type": "function", "function": {} }] }), "tools"),
        ("/api/chat", json!({ "messages": [{ "role": "user", "content": "x".repeat(2000) }] }), "context"),
        ("/api/embed", json!({ "input": 5.5 }), "input"),
        ("/api/embed", json!({ "input": "x", "dimensions": 2 }), "dimensions"),
        ("/api/embeddings", json!({ "prompt": ["a", "b"] }), "prompt"),
    ] {
        let body = with(&if path == "/api/chat" { chat() } else { generate() }, more.clone());
        let error = refused(&exercise, "POST", path, &body, 400);
        assert!(error.contains(word), "{path} {more}: {error}");
    }
    // Nothing is nothing.
    let nothing = json!({ "suffix": "", "template": "", "images": [], "system": "", "context": [], "format": "", "stream": false });
    assert_eq!(post(&exercise, "/api/generate", &with(&generate(), nothing))["done"], true);
}

#[test]
fn without_a_prompt_a_model_is_there_or_stays() {
    let exercise = Exercise::new();
    for (path, body) in [
        ("/api/chat", json!({ "model": "mine", "messages": [] })),
        ("/api/chat", json!({ "model": "mine" })),
        ("/api/generate", json!({ "model": "mine" })),
        ("/api/generate", json!({ "model": "mine", "prompt": "" })),
    ] {
        for (keep, reason) in
            [(Value::Null, "load"), (json!("5m"), "load"), (json!(0), "unload"), (json!("0s"), "unload")]
        {
            let answer = post(&exercise, path, &with(&body, json!({ "keep_alive": keep })));
            assert_eq!((&answer["done"], &answer["done_reason"]), (&json!(true), &json!(reason)), "{answer}");
            assert!(answer.get("message").or(answer.get("response")).is_some(), "{answer}");
        }
    }
    assert_eq!(
        post(&exercise, "/api/generate", &with(&generate(), json!({ "stream": false })))["done"],
        true,
        "it stayed"
    );
}

#[test]
fn schemas_contexts_and_tools() {
    let exercise = Exercise::new();
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] });
    for (path, body, at) in [("/api/chat", chat(), "/message/content"), ("/api/generate", generate(), "/response")] {
        let more = json!({ "format": schema, "stream": false, "options": { "num_predict": 100 } });
        let answer = post(&exercise, path, &with(&body, more));
        let text = answer.pointer(at).and_then(Value::as_str).expect("text");
        assert!(serde_json::from_str::<Value>(text).is_ok_and(|object| object["ok"].is_boolean()), "{text}");
    }
    // A context goes on where it ended: it is the beginning of the next one, which is longer.
    let first = post(&exercise, "/api/generate", &with(&generate(), json!({ "stream": false })));
    let context = first["context"].as_array().expect("tokens");
    let more = json!({ "stream": false, "context": context, "prompt": "And?" });
    let second = post(&exercise, "/api/generate", &with(&generate(), more));
    let longer = second["context"].as_array().expect("tokens");
    assert!(longer.len() > context.len() && longer[..context.len()] == context[..], "{first} {second}");
    assert_eq!(second["prompt_eval_count"].as_u64().map(|n| n as usize + 6), Some(longer.len()));
    let raw = post(&exercise, "/api/generate", &with(&generate(), json!({ "stream": false, "raw": true })));
    assert!(raw.get("context").is_none(), "{raw}");
    // A conversation with calls, as the client that made them sends it back.
    let call = json!({ "function": { "name": "now", "arguments": { "zone": "UTC" } } });
    let messages = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call] },
        { "role": "tool", "tool_name": "now", "content": "noon" },
    ]);
    let tool = json!({ "type": "function", "function": { "name": "now", "parameters": { "type": "object", "properties": {} } } });
    let answer =
        post(&exercise, "/api/chat", &with(&chat(), json!({ "messages": messages, "tools": [tool], "stream": false })));
    assert_eq!(answer["message"]["role"], "assistant");
}

#[test]
fn what_there_is() {
    let exercise = Exercise::new();
    let get = |path: &str| {
        let (status, text) = exercise.request("GET", path, &[], b"");
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let version = get("/api/version")["version"].as_str().expect("text").to_owned();
    let numbers: Vec<u32> =
        version.split('-').next().expect("text").split('.').map(|n| n.parse().expect("a number")).collect();
    assert!(numbers.len() == 3 && version.contains("kernloom"), "{version}");
    let tags = get("/api/tags");
    assert_eq!(
        (&tags["models"][0]["name"], &tags["models"][0]["model"]),
        (&json!("turns:latest"), &json!("turns:latest"))
    );
    assert_eq!(tags["models"].as_array().map(Vec::len), Some(1));
    let ps = get("/api/ps");
    assert!(ps["models"][0]["context_length"].is_u64() && ps["models"][0]["expires_at"].is_string(), "{ps}");
    let shown = post(&exercise, "/api/show", &json!({ "model": "turns" }));
    assert!(shown["template"].as_str().is_some_and(|text| text.contains("im_start")), "{shown}");
    assert_eq!(shown["capabilities"], json!(["completion", "tools", "thinking", "embedding"]));
    assert!(shown["parameters"].as_str().is_some_and(|text| text.contains("temperature")), "{shown}");
    assert_eq!(shown["details"]["format"], "gguf");
    let vectors = post(&exercise, "/api/embed", &json!({ "model": "x", "input": ["a", "bc"] }));
    let list = vectors["embeddings"].as_array().expect("vectors");
    let length = |vector: &Value| {
        vector.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number").powi(2)).sum::<f64>()
    };
    assert!(list.len() == 2 && list.iter().all(|vector| (length(vector) - 1.0).abs() < 1e-5), "{vectors}");
    assert_eq!(vectors["prompt_eval_count"], 5, "each text begins with a token of its own");
    let one = post(&exercise, "/api/embeddings", &json!({ "model": "x", "prompt": "bc" }));
    assert_eq!(one["embedding"], list[1]);
    assert_eq!(post(&exercise, "/api/embed", &json!({ "model": "x", "input": [] }))["embeddings"], json!([]));
    let none = Exercise::with(Options::default());
    assert!(refused(&none, "POST", "/api/embed", &json!({ "input": "a" }), 501).contains("--embeddings"));
}

#[test]
fn a_model_of_embeddings_makes_them_unasked_and_writes_no_text() {
    let exercise = |pooling| {
        let options = Options { log: false, pooling, ..Options::default() };
        Exercise::of(options, exercise::model_of_embeddings("vectors"))
    };
    let vectors = |exercise: &Exercise| {
        post(exercise, "/api/embed", &json!({ "model": "vectors", "input": ["a", "bc"] }))["embeddings"].clone()
    };
    let as_the_file_says = exercise(None);
    let shown = post(&as_the_file_says, "/api/show", &json!({ "model": "vectors" }));
    let can = shown["capabilities"].as_array().expect("a list");
    assert!(can.contains(&json!("embedding")) && !can.contains(&json!("completion")), "{shown}");
    // Texts begin with the same token, and end with others.
    let (first, last) = (vectors(&as_the_file_says), vectors(&exercise(Some(Pooling::Last))));
    assert!(first[0] == first[1] && last[0] != last[1] && last[0] != first[0], "{first}, {last}");
    let told = refused(&as_the_file_says, "POST", "/api/generate", &json!({ "prompt": "a" }), 400);
    assert!(told.contains("makes embeddings and writes no text"), "{told}");
}

#[test]
fn errors_have_ollamas_form_and_the_root_answers_probes() {
    let exercise = Exercise::with(Options { page: false, ..Options::default() });
    assert_eq!(exercise.request("GET", "/", &[], b""), (200, "Ollama is running".into()));
    assert_eq!(exercise.request("HEAD", "/", &[], b"").0, 200);
    for (method, path, status) in [
        ("GET", "/api/nothing", 404),
        ("GET", "/api/chat", 405),
        ("POST", "/api/tags", 405),
        ("POST", "/api/copy", 501),
        ("POST", "/api/create", 501),
        ("POST", "/api/push", 501),
        ("HEAD", "/api/blobs/sha256:00", 501),
        ("POST", "/api/blobs/sha256:00", 501),
        ("POST", "/api/pull", 403),
        ("DELETE", "/api/delete", 403),
    ] {
        if method == "HEAD" {
            assert_eq!(exercise.request(method, path, &[], b"").0, status, "{path}");
        } else {
            refused(&exercise, method, path, &json!({ "model": "a/b" }), status);
        }
    }
    let (status, text) = exercise.request("POST", "/api/chat", &[], b"{");
    assert!(status == 400 && text.starts_with("{\"error\":\"the body is not a JSON object"), "{text}");
    let keyed = Exercise::with(Options { api_keys: vec!["k".into()], ..Options::default() });
    refused(&keyed, "POST", "/api/chat", &chat(), 401);
    refused(&keyed, "GET", "/api/tags", &json!({}), 401);
    let loading = Arc::new(App::new(Options::default()));
    let error = loading.library().expect_err("nobody may");
    assert!(error.message.contains("--manage-models") && error.status.as_u16() == 403);
}

/// Models that are names.
#[derive(Debug, Default)]
struct Names {
    asked: Mutex<Vec<String>>,
}

impl Library for Names {
    fn list(&self) -> Vec<Kept> {
        let kept = |name: &str, digest: &str| Kept {
            name: name.into(),
            bytes: 5,
            digest: digest.into(),
            quantization: "Q4_0".into(),
            modified: None,
        };
        vec![kept("a/b:Q4_0", "1"), kept("the/served:one", "")]
    }

    fn key(&self, name: &str) -> Result<String, ApiError> {
        match name {
            "none" => Err(ApiError::not_found("there is none")),
            name => Ok(name.to_owned()),
        }
    }

    fn pull(&self, name: &str, told: Box<dyn Told>) -> Result<(), ApiError> {
        self.asked.lock().expect("no panic").push(name.to_owned());
        if name == "full" {
            return Err(ApiError::no_room("the disk is full"));
        }
        let file =
            |completed| PullStep::File { name: "f".into(), sha256: Some("ab".repeat(32)), total: Some(9), completed };
        told.hear(file(3));
        std::thread::sleep(Duration::from_millis(30));
        if name == "breaks" {
            return Err(ApiError::unavailable("it broke off"));
        }
        told.hear(file(9));
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<(), ApiError> {
        if name == "a/b:Q4_0" { Ok(()) } else { Err(ApiError::not_found("it is not there")) }
    }
}

#[test]
fn models_come_and_go_for_those_who_may() {
    let names = Arc::new(Names::default());
    let options = Options { library: Some(names.clone()), ..Exercise::everything() };
    let nobody = Exercise::with(options.clone());
    refused(&nobody, "POST", "/api/pull", &json!({ "model": "a/b" }), 403);
    refused(&nobody, "DELETE", "/api/delete", &json!({ "model": "a/b:Q4_0" }), 403);
    let open = Options { manage_models: true, hosts: vec!["0.0.0.0".into()], ..options.clone() };
    refused(&Exercise::with(open), "POST", "/api/pull", &json!({ "model": "a/b" }), 403);
    let keyed = Exercise::with(Options { api_keys: vec!["k".into()], manage_models: true, ..options.clone() });
    refused(&keyed, "POST", "/api/pull", &json!({ "model": "a/b" }), 401);
    let key = [("authorization", "Bearer k")];
    let body = json!({ "model": "a/b", "stream": false }).to_string();
    assert_eq!(keyed.request("POST", "/api/pull", &key, body.as_bytes()), (200, "{\"status\":\"success\"}".into()));
    assert_eq!(names.asked.lock().expect("no panic").drain(..).collect::<Vec<_>>(), ["a/b"]);

    let exercise = Exercise::with(Options { manage_models: true, ..options });
    // A page of somebody else is kept out before anything else is looked at.
    for method in ["POST", "DELETE"] {
        let path = if method == "POST" { "/api/pull" } else { "/api/delete" };
        let foreign = [("origin", "http://evil.example"), ("content-type", "application/json")];
        assert_eq!(exercise.request(method, path, &foreign, b"{\"model\":\"a/b\"}").0, 403);
    }
    for name in ["model", "name"] {
        let lines = lines(&exercise, "/api/pull", &json!({ name: "a/b", "insecure": true }));
        let statuses: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
        assert_eq!(statuses.first(), Some(&"pulling manifest"), "{statuses:?}");
        assert_eq!(statuses[statuses.len() - 3..], ["verifying sha256 digest", "writing manifest", "success"]);
        let file = lines.iter().rfind(|line| line["digest"].is_string()).expect("progress");
        assert_eq!(
            (&file["total"], &file["completed"], &file["status"]),
            (&json!(9), &json!(9), &json!("pulling abababababab"))
        );
        assert_eq!(file["digest"], format!("sha256:{}", "ab".repeat(32)));
    }
    let broken = lines(&exercise, "/api/pull", &json!({ "model": "breaks" }));
    assert_eq!(broken.last(), Some(&json!({ "error": "it broke off" })));
    refused(&exercise, "POST", "/api/pull", &json!({ "model": "breaks", "stream": false }), 503);
    for (body, status) in [
        (json!({}), 400),
        (json!({ "model": "" }), 400),
        (json!({ "model": 5 }), 400),
        (json!({ "model": "x".repeat(300) }), 400),
        (json!({ "model": "none" }), 404),
        (json!({ "model": "full" }), 507),
    ] {
        refused(&exercise, "POST", "/api/pull", &body, status);
    }
    let tags: Value = serde_json::from_str(&exercise.request("GET", "/api/tags", &[], b"").1).expect("JSON");
    let listed: Vec<_> =
        tags["models"].as_array().expect("a list").iter().filter_map(|model| model["name"].as_str()).collect();
    assert_eq!(listed, ["turns:latest", "a/b:Q4_0"], "the one that is served is listed once");
    let (status, _) = ask(&exercise, "DELETE", "/api/delete", &json!({ "model": "a/b:Q4_0" }));
    assert_eq!(status, 200);
    refused(&exercise, "DELETE", "/api/delete", &json!({ "model": "a/c" }), 404);
}
