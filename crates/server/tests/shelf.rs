//! Several models behind one server: who waits for whom, what goes, and what clients are told.

use crate::exercise::{model, model_on};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use compiler::program::Program;
use device::{Device, Executable, Memory};
use futures_util::FutureExt;
use model::memory_plan::ModelMemory;
use serde_json::{Value, json};
use server::error::ApiError;
use server::library::Kept;
use server::shelf::{Shelf, Status};
use server::{App, Bounds, Loader, Model, Options, Stay};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::ServiceExt;

/// Models that are made when they are asked for. Of `broken` there is none.
struct Maker {
    loads: Mutex<Vec<String>>,
    /// Loads wait as long as this is set.
    held: AtomicBool,
    /// Bytes of each by its plan, and beyond that once it is loaded.
    bytes: AtomicU64,
    more: AtomicU64,
    usual: Option<&'static str>,
    device_is_gone: bool,
}

const NAMES: [(&str, usize); 5] = [("a", 7), ("b", 11), ("broken", 1), ("c", 13), ("d", 17)];

/// A device that does not work.
struct Gone;

impl Device for Gone {
    fn name(&self) -> String {
        "gone".into()
    }

    fn load(&self, _: Arc<Program>, _: &mut Memory) -> device::Result<Box<dyn Executable>> {
        unreachable!("nobody loads anything")
    }

    fn check(&self) -> device::Result<()> {
        Err(device::Error::Failed { device: "card 0".into(), problem: "it fell off the bus".into() })
    }
}

/// Bytes of the machine.
const ROOM: u64 = 100;

impl Maker {
    fn new() -> Maker {
        let (loads, held) = (Mutex::default(), AtomicBool::new(false));
        Maker { loads, held, bytes: AtomicU64::new(10), more: AtomicU64::new(0), usual: None, device_is_gone: false }
    }

    fn loads(&self) -> Vec<String> {
        self.loads.lock().unwrap().clone()
    }
}

impl Loader for Maker {
    fn list(&self) -> Vec<Kept> {
        let kept = |(name, _): (&str, usize)| Kept {
            name: name.into(),
            bytes: 10,
            digest: name.into(),
            quantization: String::new(),
            modified: None,
        };
        NAMES.map(kept).to_vec()
    }

    fn usual(&self) -> Option<String> {
        self.usual.map(str::to_owned)
    }

    fn takes_any_name(&self) -> bool {
        false
    }

    fn find(&self, name: &str) -> Option<String> {
        let name = name.strip_suffix(":latest").unwrap_or(name);
        NAMES.iter().find(|(known, _)| *known == name).map(|(known, _)| (*known).to_owned())
    }

    fn plan(&self, _: &str) -> Result<ModelMemory, ApiError> {
        let bytes = self.bytes.load(Ordering::SeqCst);
        Ok(ModelMemory {
            context: 1,
            weights: 0,
            unpacked: 0,
            keeps_weights: false,
            cache: bytes,
            largest: bytes,
            workspace: None,
            available: Some(ROOM),
        })
    }

    fn load(&self, name: &str) -> Result<Model, ApiError> {
        self.loads.lock().unwrap().push(name.to_owned());
        while self.held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (_, step) = NAMES.iter().find(|(known, _)| *known == name).expect("a name of the list");
        if name == "broken" {
            return Err(ApiError::server("model 'broken' cannot be loaded"));
        }
        let mut model = if self.device_is_gone { model_on(name, *step, Arc::new(Gone)) } else { model(name, *step) };
        model.facts.digest = name.to_owned();
        let workspace = Some(self.more.load(Ordering::SeqCst));
        model.facts.memory = Some(ModelMemory { workspace, ..self.plan(name)? });
        Ok(model)
    }

    fn failed(&self, _: &ApiError) {}

    fn ready(&self, _: &Model) {}

    fn gone(&self, _: &str) {}
}

async fn shelf(maker: &Arc<Maker>, models: usize) -> Arc<Shelf> {
    let shelf = Shelf::new(Some(maker.clone()), Bounds { models, stay: Stay::Long });
    shelf.open().await.expect("it opens");
    shelf
}

/// Waits until something holds, which it does soon.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came: {what}");
}

/// Long enough for what must not happen.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(40)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_is_shared_and_one_that_fails_harms_nobody_else() {
    let maker = Arc::new(Maker::new());
    let shelf = shelf(&maker, 4).await;
    maker.held.store(true, Ordering::SeqCst);
    let take = |name: &'static str| {
        let shelf = shelf.clone();
        tokio::spawn(async move { shelf.take(Some(name)).await.map(|lease| lease.name().to_owned()) })
    };
    let (first, second, other) = (take("a"), take("a:latest"), take("b"));
    let broken = [take("broken"), take("broken")];
    until("three loads", || maker.loads().len() == 3).await;
    assert_eq!(shelf.status("a"), Status::Loading);
    a_while().await;
    assert!(!first.is_finished() && !other.is_finished());
    maker.held.store(false, Ordering::SeqCst);
    for (task, name) in [(first, "a"), (second, "a"), (other, "b")] {
        assert_eq!(task.await.expect("no panic").expect("a model"), name);
    }
    for task in broken {
        let error = task.await.expect("no panic").expect_err("it is broken");
        assert_eq!((error.status.as_u16(), error.message.as_str()), (500, "model 'broken' cannot be loaded"));
    }
    assert_eq!(maker.loads().len(), 3, "each was loaded once: {:?}", maker.loads());
    assert_eq!([shelf.status("a"), shelf.status("broken")], [Status::Loaded, Status::Unloaded]);
    // It may have been repaired meanwhile.
    assert!(take("broken").await.expect("no panic").is_err());
    assert_eq!(maker.loads().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_in_use_stays_and_takes_no_more_requests_while_another_waits_for_its_place() {
    let maker = Arc::new(Maker::new());
    let shelf = shelf(&maker, 1).await;
    let used = shelf.take(Some("a")).await.expect("a model");
    let worker = used.worker.clone();
    let of = shelf.clone();
    let waits = tokio::spawn(async move { of.take(Some("b")).await.map(|lease| lease.name().to_owned()) });
    a_while().await;
    assert!(!waits.is_finished() && !worker.is_ended(), "it is in use");
    let mut again = Box::pin(shelf.take(Some("a")));
    a_while().await;
    assert!(again.as_mut().now_or_never().is_none(), "the other was there first");
    drop(used);
    assert_eq!(waits.await.expect("no panic").expect("a model"), "b");
    assert!(worker.is_ended(), "its engine is gone");
    assert_eq!(again.await.expect("a model").name(), "a");
    assert_eq!(maker.loads(), ["a", "b", "a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_gives_up_the_place_that_was_made_for_him() {
    let maker = Arc::new(Maker::new());
    let shelf = shelf(&maker, 1).await;
    let used = shelf.take(Some("a")).await.expect("a model");
    let mut waits = Box::pin(shelf.take(Some("b")));
    for _ in 0..50 {
        assert!(waits.as_mut().now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut again = Box::pin(shelf.take(Some("a")));
    a_while().await;
    assert!(again.as_mut().now_or_never().is_none());
    drop(waits);
    assert_eq!(again.await.expect("a model").name(), "a");
    drop(used);
    assert_eq!((maker.loads(), shelf.status("a")), (vec!["a".to_owned()], Status::Loaded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_lie_beside_each_other_as_long_as_their_plans_fit() {
    let maker = Arc::new(Maker::new());
    let shelf = shelf(&maker, 4).await;
    maker.bytes.store(60, Ordering::SeqCst);
    for name in ["a", "b"] {
        drop(shelf.take(Some(name)).await.expect("a model"));
    }
    assert_eq!(shelf.loaded().len(), 1, "two do not fit");
    maker.bytes.store(40, Ordering::SeqCst);
    drop(shelf.take(Some("c")).await.expect("a model"));
    assert_eq!(shelf.loaded().len(), 2, "60 and 40 do");
    // What takes more than its plan said goes again, and waits until there is room: of two that were used, the elder one's.
    maker.more.store(30, Ordering::SeqCst);
    maker.bytes.store(0, Ordering::SeqCst);
    drop(shelf.take(Some("b")).await.expect("it is there"));
    drop(shelf.take(Some("d")).await.expect("a model"));
    let names: Vec<String> = shelf.loaded().iter().map(|loaded| loaded.model.name().to_owned()).collect();
    assert_eq!(names, ["b", "d"]);
    assert_eq!(maker.loads(), ["a", "b", "c", "d", "d"]);
    // One that is too large for the machine is for the loader to refuse.
    maker.bytes.store(2 * ROOM, Ordering::SeqCst);
    drop(shelf.take(Some("a")).await.expect("a model"));
    assert_eq!(shelf.loaded().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_goes_when_its_time_is_over_and_nobody_has_it() {
    let maker = Arc::new(Maker::new());
    let stay = Stay::For(Duration::from_millis(20));
    let shelf = Shelf::new(Some(maker.clone()), Bounds { models: 4, stay });
    shelf.open().await.expect("it opens");
    tokio::spawn(shelf.clone().tend());
    let used = shelf.take(Some("a")).await.expect("a model");
    drop(shelf.take(Some("b")).await.expect("a model"));
    let mut long = shelf.take(Some("c")).await.expect("a model");
    long.stay(Stay::Long);
    drop(long);
    until("b goes", || shelf.status("b") == Status::Unloaded).await;
    a_while().await;
    assert_eq!(shelf.status("a"), Status::Loaded, "it is in use");
    let stats = used.worker.stats();
    drop(used);
    until("a goes", || shelf.status("a") == Status::Unloaded).await;
    assert_eq!((shelf.status("c"), shelf.stats().steps), (Status::Loaded, stats.steps));
    assert_eq!(shelf.loaded().iter().map(|loaded| loaded.until).collect::<Vec<_>>(), [None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_server_that_ends() {
    let maker = Arc::new(Maker::new());
    let shelf = shelf(&maker, 1).await;
    let _used = shelf.take(Some("a")).await.expect("a model");
    let of = shelf.clone();
    let waits = tokio::spawn(async move { of.take(Some("b")).await.err().map(|error| error.status.as_u16()) });
    a_while().await;
    shelf.close();
    assert_eq!(waits.await.expect("no panic"), Some(503));
}

/// A server of these models.
struct Server {
    app: Arc<App>,
    maker: Arc<Maker>,
}

impl Server {
    async fn new(usual: Option<&'static str>) -> Server {
        let maker = Arc::new(Maker { usual, ..Maker::new() });
        let bounds = Bounds { models: 2, stay: Stay::Long };
        let options = Options { log: false, bounds, ..Options::default() };
        let app = Arc::new(App::of(options, Some(maker.clone())));
        app.shelf.open().await.expect("it opens");
        tokio::spawn(app.shelf.clone().tend());
        Server { app, maker }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let response = server::router::router(self.app.clone()).oneshot(request).await.expect("a response");
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn complete(&self, name: &str) -> String {
        let body = json!({ "model": name, "prompt": "once upon", "max_tokens": 8, "temperature": 0 });
        let (status, answer) = self.ask("POST", "/v1/completions", body).await;
        assert_eq!((status, &answer["model"]), (200, &json!(name)), "{answer}");
        answer["choices"][0]["text"].as_str().expect("text").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_choose_by_name_and_lists_say_what_is_loaded() {
    let server = Server::new(None).await;
    let words = |body: &Value| {
        let entries = body["data"].as_array().expect("a list").iter();
        entries
            .map(|entry| format!("{} {}", entry["id"], entry["status"]["value"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    let (_, list) = server.ask("GET", "/v1/models", Value::Null).await;
    assert_eq!(words(&list), ["a unloaded", "b unloaded", "broken unloaded", "c unloaded", "d unloaded"]);
    let (_, props) = server.ask("GET", "/props", Value::Null).await;
    assert_eq!((&props["model_alias"], &props["is_sleeping"]), (&json!("a"), &json!(true)));
    let (a, b) = (server.complete("a").await, server.complete("b").await);
    assert_ne!(a, b, "two models");
    assert_eq!((server.complete("a").await, server.complete("b").await), (a, b), "each is itself");
    let (_, list) = server.ask("GET", "/v1/models", Value::Null).await;
    assert_eq!(words(&list), ["a loaded", "b loaded", "broken unloaded", "c unloaded", "d unloaded"]);
    let (_, one) = server.ask("GET", "/v1/models/b:latest", Value::Null).await;
    assert_eq!((&one["id"], &one["meta"]["n_ctx"]), (&json!("b"), &json!(512)));
    let (_, props) = server.ask("GET", "/props?model=b", Value::Null).await;
    assert_eq!((&props["model_alias"], &props["total_slots"]), (&json!("b"), &json!(4)));
    let (_, slots) = server.ask("GET", "/slots?model=b", Value::Null).await;
    assert_eq!(slots.as_array().map(Vec::len), Some(4));
    assert_eq!(server.ask("GET", "/slots?model=c", Value::Null).await.1, json!([]));
    let (_, metrics) = server.ask("GET", "/metrics", Value::Null).await;
    let metrics = metrics.as_str().expect("text");
    assert!(metrics.contains("kernloom_models_loaded 2\n") && metrics.contains("model_name=\"b\",part=\"cache\"} 10"));
    // Names that are none, and that would be paths.
    for name in ["e", "../a", "/etc/passwd", "a/../b", "..", "a\0", "broken/", "http://x/a.gguf"] {
        for (path, key) in [("/v1/completions", "prompt"), ("/api/generate", "prompt"), ("/tokenize", "content")] {
            let (status, error) = server.ask("POST", path, json!({ "model": name, key: "a" })).await;
            assert_eq!(status, 404, "{path} {name}: {error}");
            assert!(error["error"].to_string().contains("a, b, broken, c, d"), "{error}");
        }
        let (status, _) = server.ask("GET", &format!("/v1/models/{}", name.replace('\0', "%00")), Value::Null).await;
        assert_eq!(status, 404, "{name}");
    }
    let (status, error) = server.ask("POST", "/v1/completions", json!({ "model": "broken", "prompt": "a" })).await;
    assert_eq!((status, &error["error"]["message"]), (500, &json!("model 'broken' cannot be loaded")));
    assert_eq!(server.maker.loads(), ["a", "b", "broken"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_begins_before_its_model_is_there_and_who_leaves_is_noticed() {
    let maker = Arc::new(Maker::new());
    let bounds = Bounds { models: 1, stay: Stay::Long };
    let options = Options { log: false, bounds, ping: Duration::from_millis(10), ..Options::default() };
    let app = Arc::new(App::of(options, Some(maker.clone())));
    app.shelf.open().await.expect("it opens");
    let stream = async |path: &str, name: &str| {
        let message = json!([{ "role": "user", "content": "a" }]);
        let body = json!({ "model": name, "messages": message, "prompt": "a", "max_tokens": 4, "stream": true });
        let request = Request::builder().method("POST").uri(path).header("host", "localhost");
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let response = server::router::router(app.clone()).oneshot(request).await.expect("a response");
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(response.status().as_u16(), 200);
        response.into_body()
    };
    maker.held.store(true, Ordering::SeqCst);
    let text = async |body: Body| {
        let release = async {
            a_while().await;
            maker.held.store(false, Ordering::SeqCst);
        };
        let (bytes, ()) = tokio::join!(to_bytes(body, usize::MAX), release);
        let bytes = bytes.expect("a body");
        maker.held.store(true, Ordering::SeqCst);
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    };
    let answer = text(stream("/v1/completions", "a").await).await;
    assert!(answer.starts_with(":\n\n") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
    let failed = text(stream("/v1/chat/completions", "broken").await).await;
    assert!(failed.contains("data: {\"error\":{") && failed.contains("'broken' cannot be loaded"), "{failed}");
    let failed = text(stream("/v1/messages", "broken").await).await;
    assert!(failed.contains("event: error\ndata: {\"type\":\"error\"") && failed.contains("api_error"), "{failed}");
    // Whoever leaves has no place in line.
    let a = app.shelf.take(Some("c"));
    maker.held.store(false, Ordering::SeqCst);
    let used = a.await.expect("a model");
    let waits = stream("/v1/completions", "d").await;
    assert!(app.shelf.take(Some("c")).now_or_never().is_none_or(|taken| taken.is_err()), "another waits for its place");
    drop(waits);
    assert_eq!(app.shelf.take(Some("c")).await.expect("it stays").name(), "c");
    drop(used);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_ollama_load_and_unload() {
    let server = Server::new(Some("a")).await;
    let loaded = async || {
        let (_, list) = server.ask("GET", "/api/ps", Value::Null).await;
        let models = list["models"].as_array().expect("a list").clone();
        models.iter().map(|model| model["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(loaded().await, ["a:latest"], "the usual model is there from the beginning");
    let body = json!({ "model": "b", "keep_alive": "10m", "stream": false });
    let (_, answer) = server.ask("POST", "/api/generate", body).await;
    assert_eq!((&answer["done_reason"], loaded().await.len()), (&json!("load"), 2));
    let (_, list) = server.ask("GET", "/api/ps", Value::Null).await;
    let expires = |at: usize| list["models"][at]["expires_at"].as_str().expect("a time").to_owned();
    assert!(expires(0).starts_with("9999") && !expires(1).starts_with("9999"), "{list}");
    let (_, answer) =
        server.ask("POST", "/api/generate", json!({ "model": "b", "keep_alive": 0, "stream": false })).await;
    assert_eq!(answer["done_reason"], "unload");
    until("b goes", || server.app.shelf.status("b") == Status::Unloaded).await;
    assert_eq!(loaded().await, ["a:latest"]);
    // What is not there is not loaded to go again.
    let loads = server.maker.loads();
    for (path, field) in [("/api/generate", "response"), ("/api/chat", "message")] {
        let (status, answer) = server.ask("POST", path, json!({ "model": "b", "keep_alive": 0 })).await;
        let said = (status, &answer["model"], &answer["done_reason"], answer[field].is_null());
        assert_eq!(said, (200, &json!("b"), &json!("unload"), false), "{answer}");
    }
    assert_eq!(server.maker.loads(), loads);
    let (_, tags) = server.ask("GET", "/api/tags", Value::Null).await;
    assert_eq!(tags["models"].as_array().map(Vec::len), Some(5), "{tags}");
    // Whoever names none gets the usual one.
    let (_, answer) = server.ask("POST", "/v1/completions", json!({ "prompt": "x", "max_tokens": 1 })).await;
    assert_eq!(answer["model"], "a");
}

#[test]
fn a_server_whose_device_is_gone_says_so_and_ends() {
    let (told, addresses) = std::sync::mpsc::channel();
    let maker = Arc::new(Maker { usual: Some("a"), device_is_gone: true, ..Maker::new() });
    let options = Options { log: false, port: 0, hosts: vec!["127.0.0.1".into()], ..Options::default() };
    let server = std::thread::spawn(move || server::run(options, |list| told.send(list[0]).expect("a test"), maker));
    let address = addresses.recv().expect("an address");
    let body = r#"{"prompt": "once", "max_tokens": 8}"#;
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    let request = format!("{head}Content-Type: application/json\r\nConnection: close\r\n\r\n{body}");
    // Until the model is there, others are told to come again.
    let answer = loop {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        if !answer.contains(" 503 ") {
            break answer;
        }
    };
    assert!(answer.contains(" 500 ") && answer.contains("card 0 failed: it fell off the bus"), "{answer}");
    let end = server.join().expect("no panic").expect_err("it cannot go on").to_string();
    assert!(end.starts_with("card 0 failed: it fell off the bus; ") && end.ends_with("the server has ended"), "{end}");
}
