//! What clients may hold: memory, places, connections of those who do not read or leave.

use super::chat;
use super::server::{Response, Server};
use serde_json::json;
use std::net::{Shutdown, TcpStream};

/// What bodies take that are as costly as they may be goes back to the system, and a stream beside them goes on.
pub(super) fn memory_comes_back(server: &Server) {
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let before = resident();
    let endless = json!({ "prompt": "Hello", "ignore_eos": true, "n_predict": 300, "stream": true });
    let stream = server.open("POST", "/completion", "", endless.to_string().as_bytes());
    let lists = vec!["[]"; 400_000].join(",");
    let body =
        format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"a\", \"x\": [{lists}]}}], \"max_tokens\": 1}}");
    let burst: Vec<TcpStream> =
        (0..4).map(|_| server.open("POST", "/v1/chat/completions", "", body.as_bytes())).collect();
    assert_eq!(server.get("/health").status, 200);
    for stream in burst {
        assert_eq!(Response::read(stream).status, 200);
    }
    assert_eq!(Response::read(stream).events().last().expect("an end")["tokens_predicted"], 300);
    server.wait_for("the memory comes back", || resident() < before + (64 << 10));
}

/// Whoever does not read what was asked for holds up nobody, and no place for longer than the text takes.
pub(super) fn clients_that_do_not_read(server: &Server) {
    let idle = || server.get("/slots").json().as_array().expect("a list").iter().all(|s| s["is_processing"] == false);
    let endless = json!({ "prompt": "Hello", "ignore_eos": true, "n_predict": 900, "stream": true, "n_probs": 20 });
    let deaf: Vec<TcpStream> =
        (0..3).map(|_| server.open("POST", "/completion", "", endless.to_string().as_bytes())).collect();
    server.wait_for("the places are taken", || !idle());
    assert_eq!(server.post("/v1/chat/completions", chat(json!({}))).status, 200);
    server.wait_for("the texts come to their ends", idle);
    drop(deaf);
}

pub(super) fn clients_that_leave(server: &Server) {
    let idle = || server.get("/slots").json().as_array().expect("a list").iter().all(|s| s["is_processing"] == false);
    let before = server.metric("kernloom_requests_cancelled_total");
    let endless = json!({ "prompt": "Hello", "ignore_eos": true, "n_predict": 1000, "stream": true });
    let mut whole = endless.clone();
    whole["stream"] = false.into();
    // More than there are places: some leave while they wait.
    let streams: Vec<TcpStream> = (0..6)
        .map(|i| {
            server.open("POST", "/completion", "", (if i % 2 == 0 { &endless } else { &whole }).to_string().as_bytes())
        })
        .collect();
    server.wait_for("the places are taken", || !idle());
    for stream in &streams {
        stream.shutdown(Shutdown::Both).expect("a connection");
    }
    drop(streams);
    server.wait_for("all places are free", idle);
    assert_eq!(server.metric("kernloom_requests_waiting"), 0.0);
    assert_eq!(server.metric("kernloom_cache_usage_ratio"), 0.0);
    assert!(server.metric("kernloom_requests_cancelled_total") > before);
    assert_eq!(server.post("/v1/chat/completions", chat(json!({}))).status, 200);
}
