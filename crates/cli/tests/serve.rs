//! `serve` over real connections: what clients send, what they get, and what happens when they go.

mod burdens;
mod constraints;
mod ollama;
mod refusals;
mod samplers;
mod scores;
mod server;
mod several;
mod texts;
mod told;
mod vectors;

use crate::support::{command, folder, run, text, tiny};
use serde_json::{Value, json};
use server::{PATIENCE, Response, Server};
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn chat(more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hello" }], "max_tokens": 6, "temperature": 0 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

#[test]
fn it_answers_before_all_kernels_are_compiled() {
    let (path, cache) = (tiny("tiny-llama", "q4_0"), folder().join("serves-early"));
    let _ = std::fs::remove_dir_all(&cache);
    let args = ["serve", text(&path), "--port", "0", "-t", "1", "-c", "1024", "--kernel-cache", text(&cache)];
    let mut command = command(&args);
    command.env_remove("KERNLOOM_WAIT_FOR_KERNELS");
    let server = Server::of(command);
    server.wait_until_ready();
    let programs = || server.get("/props").json()["programs"].clone();
    assert_eq!(programs()["1 token"], "ready");
    let long = "word ".repeat(40);
    let answer = server
        .post("/completion", json!({ "prompt": long, "n_predict": 4, "ignore_eos": true, "temprature": 1 }))
        .json();
    assert_eq!(answer["tokens_predicted"], 4, "{answer}");
    let stood_in = server.get("/props").json()["stand_in_tokens"].as_u64();
    assert!(stood_in.is_some_and(|tokens| tokens >= 8), "{stood_in:?}");
    let all_ready = || {
        let programs = programs();
        let programs = programs.as_object().expect("an object");
        programs.len() == 4 && programs.values().all(|state| state == "ready")
    };
    server.wait_for("the others are compiled meanwhile", all_ready);
    let before = server.get("/props").json()["stand_in_tokens"].clone();
    let _ =
        server.post("/completion", json!({ "prompt": "other ".repeat(40), "n_predict": 4, "temprature": 2 })).json();
    assert_eq!(server.get("/props").json()["stand_in_tokens"], before, "nobody stands in any more");
    // The log is written when an answer is over, and read by another thread.
    let (mut log, mut counted) = (vec![], vec![]);
    while counted.len() < 2 {
        let line = server.log.recv_timeout(PATIENCE).expect("a line for each request");
        counted.extend(serde_json::from_str::<Value>(&line).ok().and_then(|line| line["stand_in_tokens"].as_u64()));
        log.push(line);
    }
    let said = |text: &str| log.iter().any(|line| line.contains(text));
    assert!(said("kernels for 1 token") && said("kernels for many tokens"), "{log:?}");
    assert!(counted[0] >= 8 && counted[1] == 0, "{log:?}");
    assert_eq!(log.iter().filter(|line| line.contains("temprature")).count(), 1, "a slip is named once: {log:?}");
}

/// One server for all that needs nothing special: starting one takes longer than asking it. It promises equal bits, as
/// ties are frequent with random weights.
#[test]
fn what_clients_ask_for() {
    let server = &Server::start(&[
        "-np",
        "3",
        "--alias",
        "first,second",
        "--metrics-compat",
        "vllm",
        "--embeddings",
        "--batch-invariant",
        "--body-timeout",
        "2",
    ]);
    told::models_and_properties(server);
    texts::chat_whole_and_streamed(server);
    texts::completions_of_every_form(server);
    samplers::all_have_an_effect_or_are_refused(server);
    texts::tokens_and_templates(server);
    texts::responses_and_messages(server);
    constraints::schemas(server);
    constraints::hostile_grammars(server);
    texts::begun_answers(server);
    vectors::embeddings(server);
    ollama::chats_and_texts(server);
    refusals::errors(server);
    refusals::hostile_bodies(server);
    refusals::bodies_that_stall(server);
    burdens::memory_comes_back(server);
    burdens::clients_that_leave(server);
    burdens::clients_that_do_not_read(server);
    refusals::origins(server);
    told::metrics(server);
    told::traces(server);
}

#[test]
fn keys_queue_and_loading() {
    let template = "{{ messages[0].content }}";
    let flags = ["-np", "1", "--max-queue", "1", "--api-key", "alpha,beta", "--no-slots", "--chat-template", template];
    let server = Server::start_loading("tiny-llama", &flags);
    let key = "Authorization: Bearer beta\r\n";
    // While it loads there is a word for it, whoever asks.
    let early = server.ask("POST", "/v1/chat/completions", key, chat(json!({})).to_string().as_bytes());
    assert!(early.status == 200 || early.error(503) == "unavailable_error");
    server.wait_until_ready();
    let body = chat(json!({})).to_string();
    for headers in ["", "Authorization: Bearer gamma\r\n", "Authorization: Bearer bet\r\n", "X-Api-Key: betaa\r\n"] {
        assert_eq!(
            server.ask("POST", "/v1/chat/completions", headers, body.as_bytes()).error(401),
            "authentication_error"
        );
    }
    assert_eq!(server.ask("GET", "/metrics", "", b"").status, 401);
    for headers in [key, "X-Api-Key: alpha\r\n"] {
        assert_eq!(server.ask("POST", "/v1/chat/completions", headers, body.as_bytes()).status, 200);
    }
    assert_eq!(server.ask("GET", "/props", key, b"").json()["chat_template"], template, "the one that is used");
    assert_eq!(server.ask("OPTIONS", "/v1/models", "", b"").status, 200);
    assert_eq!(server.ask("GET", "/slots", key, b"").error(501), "not_supported_error");
    assert_eq!(server.ask("POST", "/v1/embeddings", key, b"{\"input\": \"x\"}").error(501), "not_supported_error");
    // One runs, one waits, the third is told to come back.
    let endless = json!({ "prompt": "Hello", "ignore_eos": true, "n_predict": 1000, "stream": true }).to_string();
    let held: Vec<TcpStream> = (0..8).map(|_| server.open("POST", "/completion", key, endless.as_bytes())).collect();
    let statuses: Vec<u16> = held
        .into_iter()
        .map(|mut stream| {
            let mut head = [0; 12];
            stream.read_exact(&mut head).expect("an answer");
            String::from_utf8_lossy(&head[9..]).parse().expect("a status")
        })
        .collect();
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_server_told_to_end_finishes_what_it_does() {
    let mut server = Server::start(&["-np", "2", "--embeddings", "--pooling", "none"]);
    vectors::vectors_of_tokens(&server);
    let long = json!({ "prompt": "Hello", "ignore_eos": true, "n_predict": 400, "stream": true });
    let stream = server.open("POST", "/completion", "", long.to_string().as_bytes());
    server.wait_for("it runs", || server.metric("kernloom_requests_running") > 0.0);
    server.signal("-TERM");
    let answer = Response::read(stream);
    let last = answer.events().pop().expect("an end");
    assert_eq!((&last["stop"], &last["tokens_predicted"]), (&json!(true), &json!(400)));
    let end = Instant::now() + Duration::from_secs(120);
    let status = loop {
        match server.child.try_wait().expect("a child") {
            Some(status) => break status,
            None => assert!(Instant::now() < end, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let path = tiny("tiny-llama", "q4_0");
    let open = run(&["serve", text(&path), "--host", "0.0.0.0", "--port", "0"]);
    assert!(open.error(2).contains("--api-key"), "{}", open.err);
    assert!(run(&["serve", "/nothing.gguf"]).error(1).contains("no file"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    assert!(run(&["serve", text(&path), "--port", &port]).error(1).contains("cannot listen"));
}
