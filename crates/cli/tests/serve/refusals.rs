//! What is refused: requests that make no sense, bodies that are hostile, other origins.

use super::chat;
use super::server::{PATIENCE, Response, Server};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

pub(super) fn errors(server: &Server) {
    assert_eq!(server.get("/nothing").error(404), "not_found_error");
    assert_eq!(server.get("/v1/chat/completions").error(405), "invalid_request_error");
    for (body, word) in [
        (json!({}), "messages"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": [{ "content": "x" }] }), "role"),
        (chat(json!({ "temperature": "hot" })), "temperature"),
        (chat(json!({ "top_p": 7 })), "top_p"),
        (chat(json!({ "n": 0 })), "n:"),
        (chat(json!({ "stop": [1] })), "stop"),
        (chat(json!({ "logit_bias": { "999999": 1 } })), "999999"),
        (chat(json!({ "top_logprobs": 3 })), "logprobs"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "x" } }] }] }),
            "image_url",
        ),
        (chat(json!({ "tool_choice": { "function": { "name": "g" } } })), "'g'"),
    ] {
        for stream in [false, true] {
            let mut body = body.clone();
            body["stream"] = stream.into();
            let refused = server.post("/v1/chat/completions", body);
            assert_eq!(refused.error(400), "invalid_request_error");
            assert!(refused.body.contains(word), "{word}: {refused:?}");
        }
    }
    // What would give another answer than was asked for is refused, and the field is named.
    for (path, body, param) in [
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b" }), "suffix"),
        ("/v1/completions", json!({ "prompt": "a", "best_of": 2 }), "best_of"),
        ("/v1/completions", json!({ "prompt": "a", "top_p": 7 }), "top_p"),
        ("/v1/responses", json!({ "input": "a", "previous_response_id": "resp_1" }), "previous_response_id"),
        ("/v1/responses", json!({ "input": [{ "type": "item_reference", "id": "msg_1" }] }), "input"),
        ("/detokenize", json!({ "tokens": [1, 999_999] }), "tokens"),
    ] {
        let refused = server.post(path, body);
        assert_eq!(
            (refused.error(400).as_str(), &refused.json()["error"]["param"]),
            ("invalid_request_error", &json!(param))
        );
    }
    let long = server.post("/v1/completions", json!({ "prompt": "word ".repeat(3000) }));
    assert_eq!(long.error(400), "exceed_context_size_error");
    let error = &long.json()["error"];
    assert_eq!((&error["code"], &error["n_ctx"]), (&json!("context_length_exceeded"), &json!(1024)));
}

pub(super) fn hostile_bodies(server: &Server) {
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let deeper = [&b"{\"messages\": "[..], &deep, b"}"].concat();
    let bodies: [&[u8]; 9] = [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"{\"prompt\": \"\xff\"}",
        b"null",
        &deep,
        &deeper,
        b"{\"messages\": 1e999}",
        b"{\"prompt\": -5}",
    ];
    for body in bodies {
        for path in ["/v1/chat/completions", "/v1/completions", "/tokenize", "/v1/messages", "/v1/responses"] {
            let status = server.ask("POST", path, "", body).status;
            assert!(status == 400 || path == "/tokenize", "{path}: {status}");
        }
    }
    for number in ["1e308", "-1", "99999999999999999999999", "0.5", "true"] {
        for key in ["max_tokens", "seed", "n", "top_k", "temperature", "repeat_last_n", "top_p"] {
            let body = format!("{{\"prompt\": \"a\", \"max_tokens\": 1, \"{key}\": {number}}}");
            let status = server.ask("POST", "/v1/completions", "", body.as_bytes()).status;
            let endless = key == "max_tokens" && number == "-1";
            assert!(endless || status == 200 || status == 400, "{body}: {status}");
        }
    }
    // Refused by its length, before anything is read.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream
        .write_all(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n")
        .expect("a head");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 413");
    // Or, when its length is not told, as soon as it is too long.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream
        .write_all(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        .expect("a head");
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 1 << 20], b"\r\n"].concat();
    let sent = (0..100).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    let mut head = [0; 12];
    let answered = stream.read_exact(&mut head).is_ok();
    assert!(sent < 100 || answered, "100 MB were taken");
    assert!(!answered || &head == b"HTTP/1.1 413", "{}", String::from_utf8_lossy(&head));
    assert_eq!(server.get("/health").status, 200);
}

/// A body that stalls is waited for as long as the flag says, and its connection ends with a word; one that breaks off is
/// no long body.
pub(super) fn bodies_that_stall(server: &Server) {
    let chunked = |body: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let head =
            b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        stream.write_all(&[head, body].concat()).expect("it is taken");
        stream
    };
    let stalled: Vec<TcpStream> = (0..100).map(|_| chunked(b"1\r\n{\r\n")).collect();
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.post("/tokenize", json!({ "content": "a" })).status, 200, "others are served meanwhile");
    for broken in [&b"zz\r\n{}\r\n0\r\n\r\n"[..], b"2\r\n{}x\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n{}"] {
        assert_eq!(Response::read(chunked(broken)).status, 400, "{}", String::from_utf8_lossy(broken));
    }
    let statuses: Vec<u16> = stalled.into_iter().map(|stream| Response::read(stream).status).collect();
    let count = |status: u16| statuses.iter().filter(|&&s| s == status).count();
    assert!(count(408) > 0 && count(429) > 0 && count(408) + count(429) == 100, "{statuses:?}");
}

pub(super) fn origins(server: &Server) {
    for (headers, status) in [
        ("Origin: http://a.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Host: rebound.example\r\n", 400),
        ("Origin: http://localhost:3000\r\n", 415),
        ("Origin: http://localhost:3000\r\nContent-Type: application/json\r\n", 200),
        ("Content-Type: application/x-www-form-urlencoded\r\n", 200),
    ] {
        let response = server.ask("POST", "/tokenize", headers, b"{\"content\": \"a\"}");
        assert_eq!(response.status, status, "{headers}");
        assert!(status == 200 || status == 415 || !response.head.contains("access-control"), "{response:?}");
    }
    let mut rebound = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    rebound.write_all(b"GET /health HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n").expect("a head");
    let rebound = Response::read(rebound);
    assert_eq!(rebound.error(403), "permission_error");
    assert!(rebound.body.contains("--allowed-hosts rebound.example"), "{rebound:?}");
    let asked = "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-stainless-os\r\n";
    let head = server.ask("OPTIONS", "/v1/chat/completions", asked, b"").head;
    for line in [
        "access-control-allow-origin: http://localhost:3000",
        "access-control-allow-headers: authorization,x-stainless-os",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let head = server.ask("GET", "/health", "X-Request-Id: mine\r\n", b"").head;
    assert!(head.contains("x-request-id: mine") && !head.contains("allow-origin"), "{head}");
}
