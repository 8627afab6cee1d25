//! Budgets of requests and who may ask, through the router.

use crate::exercise::{Exercise, ROUTES, model};
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use server::budget::{BODY_BYTES, NAME_BYTES, SLOW_BODIES, STOP_BYTES, TEXTS};
use server::{App, Options};
use std::sync::Arc;
use std::time::Duration;
use text::fill::Fill;
use tower::ServiceExt;

const CHAT: &str = "/v1/chat/completions";

async fn send(app: &Arc<App>, request: Request<Body>) -> Response<Body> {
    server::router::router(app.clone()).oneshot(request).await.expect("a response")
}

/// The status and the error of a response.
async fn error(response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let body: Value = serde_json::from_slice(&text).expect("JSON");
    assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    (status, body["error"].clone())
}

/// A body of these pieces, after which nothing comes any more.
fn stalls(pieces: &[&'static str]) -> Body {
    let pieces: Vec<_> =
        pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes()))).collect();
    Body::from_stream(stream::iter(pieces).chain(stream::pending()))
}

#[tokio::test]
async fn bodies_that_stall_break_off_or_never_end_are_refused_for_what_they_are() {
    let app = Arc::new(App::new(Options { body_time: Duration::from_millis(20), ..Options::default() }));
    let post = |body: Body| Request::post(CHAT).body(body).expect("a request");
    for pieces in [&[][..], &["{"], &["{\"messages\":", "[", "]}"]] {
        let (status, error) = error(send(&app, post(stalls(pieces))).await).await;
        assert!(status == 408 && error["message"].as_str().is_some_and(|m| m.contains("--body-timeout")), "{error}");
    }
    let broken = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("a chunk without an end"))];
    let (status, told) = error(send(&app, post(Body::from_stream(stream::iter(broken)))).await).await;
    assert!(status == 400 && told["message"].as_str().is_some_and(|m| m.contains("chunks")), "{told}");
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096])));
    let (status, told) = error(send(&app, post(Body::from_stream(endless))).await).await;
    assert!(status == 413 && told["message"].as_str().is_some_and(|m| m.contains("--body-limit")), "{told}");
    let promised = Request::post(CHAT).header("content-length", BODY_BYTES + 1).body(stalls(&[])).expect("a request");
    assert_eq!(error(send(&app, promised).await).await.0, 413, "before anything comes");
    assert_eq!(app.memory.taken(), 0);

    // Who is slow needs a place; who sends what he has needs none.
    let places = app.slow_bodies.try_acquire_many(SLOW_BODIES as u32).expect("all places are free again");
    let response = send(&app, post(stalls(&["{"]))).await;
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(error(response).await.0, 429);
    assert_eq!(error(send(&app, post(Body::from("{}"))).await).await.0, 503, "nothing but a model is missing");
    drop(places);
}

#[tokio::test]
async fn memory_that_others_hold_is_waited_for_and_more_than_a_share_is_refused() {
    let app = Arc::new(App::new(Options { request_memory: 1 << 20, ..Options::default() }));
    let post = |bytes: usize| Request::post(CHAT).body(Body::from(vec![b' '; bytes])).expect("a request");
    let (status, told) = error(send(&app, post(600 << 10)).await).await;
    assert!(status == 413 && told["message"].as_str().is_some_and(|m| m.contains("--request-memory")), "{told}");
    let mut others = [app.memory.open(), app.memory.open()];
    others.iter_mut().for_each(|charge| charge.grow(500 << 10).expect("their share"));
    let (status, told) = error(send(&app, post(100 << 10)).await).await;
    assert!(status == 429 && told["message"].as_str().is_some_and(|m| m.contains("--request-memory")), "{told}");
    drop(others);
    assert_eq!(error(send(&app, post(100 << 10)).await).await.0, 503, "nothing but a model is missing");
}

#[tokio::test]
async fn strangers_are_refused_before_anything_runs() {
    let app = Arc::new(App::new(Options::default()));
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // A body that never comes is never waited for.
        request.body(if method == "POST" { stalls(&[]) } else { Body::empty() }).expect("a request")
    };
    let evil = ("origin", "http://evil.example");
    let asks = ("access-control-request-method", "POST");
    for request in [
        ask("POST", CHAT, &[("host", "evil.example")]),
        ask("POST", CHAT, &[("host", "localhost"), evil]),
        ask("POST", CHAT, &[("host", "localhost"), ("origin", "null")]),
        ask("GET", "/health", &[("host", "localhost"), evil]),
        ask("GET", "/health", &[("host", "localhost"), ("sec-fetch-site", "cross-site")]),
        ask("GET", "/page/main.js", &[("host", "localhost"), evil]),
        ask("OPTIONS", CHAT, &[("host", "localhost"), evil, asks]),
        ask("DELETE", "/nothing", &[("host", "localhost"), evil]),
    ] {
        let told = format!("{request:?}");
        let response = send(&app, request).await;
        let allows = response.headers().keys().any(|name| name.as_str().starts_with("access-control"));
        assert!(!allows && response.headers().contains_key("x-request-id"), "{told}");
        let (status, error) = error(response).await;
        assert_eq!((status, &error["type"]), (403, &json!("permission_error")), "{told}");
    }
    let messages = send(&app, ask("POST", "/v1/messages", &[("host", "evil.example")])).await;
    assert_eq!(error(messages).await.1["type"], "permission_error");
    let plain =
        ask("POST", CHAT, &[("host", "localhost"), ("origin", "http://localhost"), ("content-type", "text/plain")]);
    assert_eq!(error(send(&app, plain).await).await.0, 415);
    let page =
        [("host", "localhost"), ("origin", "http://localhost:3000"), asks, ("access-control-request-headers", "x-a")];
    let allowed = send(&app, ask("OPTIONS", CHAT, &page)).await;
    let header = |name: &str| allowed.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(allowed.status(), 200);
    assert_eq!(header("access-control-allow-origin"), "http://localhost:3000");
    assert_eq!(header("access-control-allow-headers"), "x-a");
    let linked = [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(send(&app, ask("GET", "/", &linked)).await.status(), 200);
}

#[test]
fn what_a_request_repeats_is_bounded_and_named() {
    let exercise = Exercise::new();
    let ask = |path: &str, body: Value| {
        let route = ROUTES.iter().position(|route| *route == path).expect("a route") as u8;
        let (status, text) = exercise.ask(&[&[route][..], body.to_string().as_bytes()].concat());
        let parsed: Value = serde_json::from_str(&text).expect("JSON");
        (status, parsed["error"]["param"].as_str().unwrap_or_default().to_owned(), text)
    };
    let chat = |more: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 2 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let long = "n".repeat(NAME_BYTES + 1);
    let bias: Vec<Value> = (0..20_000).map(|_| json!([9, 1])).collect();
    for (path, body, param) in [
        (CHAT, chat(json!({ "model": long })), "model"),
        ("/v1/completions", json!({ "prompt": "a", "model": long }), "model"),
        ("/v1/embeddings", json!({ "input": "a", "model": long }), "model"),
        ("/v1/responses", json!({ "input": "a", "model": long }), "model"),
        ("/completion", json!({ "prompt": "a", "stop": ["s".repeat(STOP_BYTES), "t"] }), "stop"),
        ("/completion", json!({ "prompt": "a", "logit_bias": bias }), "logit_bias"),
        ("/completion", json!({ "prompt": vec!["a"; TEXTS / 2 + 1], "n": 2, "n_predict": 1 }), "n"),
        (CHAT, chat(json!({ "tool_choice": { "type": "function" } })), "tool_choice"),
        (
            CHAT,
            chat(json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": 5 } }] })),
            "tools",
        ),
        (CHAT, chat(json!({ "tools": [7] })), "tools"),
        ("/v1/responses", json!({ "input": "a", "tool_choice": "maybe" }), "tool_choice"),
        (
            "/v1/responses",
            json!({ "input": "a", "tools": [{ "type": "function", "name": "f", "parameters": { "type": 1 } }] }),
            "tools",
        ),
        ("/v1/responses", json!({ "input": "a", "tools": [{ "type": "function", "parameters": {} }] }), "tools"),
    ] {
        let (status, told, text) = ask(path, body);
        assert_eq!((status, told.as_str()), (400, param), "{path}: {text}");
    }
    for (body, word) in [
        (json!({ "tools": [{ "name": "f", "input_schema": [] }] }), "tools"),
        (json!({ "tools": [{ "input_schema": {} }] }), "tools"),
        (json!({ "tool_choice": {} }), "tool_choice"),
        (json!({ "tool_choice": "auto" }), "tool_choice"),
        (json!({ "tool_choice": { "type": "tool", "name": "g" } }), "tool_choice"),
        (json!({ "model": long }), "model"),
    ] {
        let (status, _, text) = ask("/v1/messages", chat(body));
        assert!(status == 400 && text.contains(word), "{word}: {status} {text}");
    }
    let quoted = json!({ "messages": [{ "role": "user", "content": { "x": "q".repeat(1 << 20) } }] });
    let (status, _, text) = ask(CHAT, quoted);
    assert!(status == 400 && text.len() < 2000, "{} bytes", text.len());
    // As clients send it.
    for more in [
        json!({ "model": "n".repeat(NAME_BYTES) }),
        json!({ "tools": null, "tool_choice": null }),
        json!({ "tools": [], "tool_choice": "none" }),
        json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": {}, "strict": null } }] }),
        json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": null } }], "tool_choice": "auto" }),
        json!({ "tools": [{ "type": "web_search" }], "tool_choice": { "type": "web_search" } }),
    ] {
        let (status, _, text) = ask(CHAT, chat(more.clone()));
        assert_eq!(status, 200, "{more}: {text}");
    }
}

#[test]
fn an_answer_with_all_probabilities_ends_with_the_memory_of_a_request() {
    let exercise = Exercise::with(Options { request_memory: 8 << 20, ..Options::default() });
    let ask = |tokens: u32| {
        let body = json!({ "prompt": "a", "n_predict": tokens, "n_probs": 250, "ignore_eos": true });
        let route = ROUTES.iter().position(|route| *route == "/completion").expect("a route") as u8;
        exercise.ask(&[&[route][..], body.to_string().as_bytes()].concat())
    };
    assert_eq!(ask(3).0, 200);
    let (status, text) = ask(100);
    assert!(status == 413 && text.contains("--request-memory"), "{status} {}", text.len());
}

#[test]
fn gaps_are_filled_by_models_that_know_how() {
    let options = || Options { log: false, ..Options::default() };
    let ask =
        |exercise: &Exercise, path: &str, body: Value| exercise.request("POST", path, &[], body.to_string().as_bytes());
    let gap = json!({ "input_prefix": "ab", "prompt": "c", "input_suffix": "yz", "n_predict": 2,
                      "input_extra": [{ "filename": "f", "text": "x" }] });
    let other = Exercise::of(options(), model("other", 7));
    let (status, text) = ask(&other, "/infill", gap.clone());
    assert!(status == 501 && text.contains("cannot fill in text"), "{status} {text}");
    for path in ["/v1/completions", "/api/generate"] {
        let (status, text) = ask(&other, path, json!({ "prompt": "ab", "suffix": "z" }));
        assert!(status == 400 && text.contains("suffix: this model cannot fill"), "{status} {text}");
    }
    let mut model = model("fills", 7);
    let token = |text: &str| model.tokenizer.token_id(text).expect("a token");
    let (prefix, suffix, middle) = (token("<|im_start|>"), token("<|im_end|>"), token("<think>"));
    model.fill = Ok(Fill { prefix, suffix, middle, repository: None, file: Some(token("</think>")) });
    let fills = Exercise::of(options(), model);
    let (status, text) = ask(&fills, "/infill", gap.clone());
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status, 200, "{text}");
    let prompt = answer["prompt"].as_str().expect("text");
    let expected = "<|im_start|>abc<|im_end|>yz<think>";
    assert!(prompt.ends_with(expected) && prompt.contains("</think>f\nx</think>filename"), "{prompt}");
    assert_eq!(answer["tokens_predicted"], 2);
    for missing in ["input_prefix", "input_suffix"] {
        let mut body = gap.clone();
        body.as_object_mut().expect("an object").remove(missing);
        let (status, text) = ask(&fills, "/infill", body);
        assert!(status == 400 && text.contains(missing), "{status} {text}");
    }
    for extra in [json!(5), json!([5]), json!([{ "filename": "a" }]), json!([{ "text": 5 }])] {
        let mut body = gap.clone();
        body["input_extra"] = extra;
        assert_eq!(ask(&fills, "/infill", body).0, 400);
    }
    let long = "x".repeat(2000);
    let with = |body: Value| ask(&fills, "/infill", body).0;
    let (mut near, mut far) = (gap.clone(), gap);
    near["input_suffix"] = long.as_str().into();
    far["input_extra"][0]["text"] = long.as_str().into();
    assert_eq!((with(near), with(far)), (400, 200), "what is near is never cut, and other files are");
    let (status, text) =
        ask(&fills, "/v1/completions", json!({ "prompt": "ab", "suffix": "z", "max_tokens": 2, "echo": true }));
    assert!(status == 200 && text.contains("\"completion_tokens\":2"), "{text}");
    let (status, _) = ask(&fills, "/v1/completions", json!({ "prompt": ["ab", "c"], "suffix": "z" }));
    assert_eq!(status, 400);
    let (status, text) = ask(&fills, "/api/generate", json!({ "prompt": "ab", "suffix": "z", "stream": false }));
    assert!(status == 200 && text.contains("\"done\":true"), "{text}");
}
