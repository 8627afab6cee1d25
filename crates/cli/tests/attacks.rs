//! No request harms the server: attacks on a real process. Somebody streams meanwhile and gets the text that he gets alone,
//! `/health` answers, and afterwards memory, descriptors and processors are free again. What gets which status is a table.
//!
//! Attacks that take longer, and how long others wait meanwhile, are `bench/attack.py`'s.

#![cfg(target_os = "linux")]

mod attack;
mod support;

use attack::{Server, bodies, connections, fields, grammars, origins, schemas, wire};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn grammars_that_recurse_or_explode_harm_nobody() {
    Server::start(&[]).survives(grammars::cases());
}

#[test]
fn schemas_that_recurse_harm_nobody() {
    Server::start(&[]).survives(schemas::deep());
}

#[test]
fn schemas_that_loop_or_are_large_harm_nobody() {
    Server::start(&[]).survives(schemas::endless().into_iter().chain(schemas::large()));
}

#[test]
fn patterns_harm_nobody() {
    Server::start(&[]).survives(schemas::patterned());
}

#[test]
fn what_is_no_tool_is_refused() {
    Server::start(&[]).survives(schemas::malformed());
}

#[test]
fn bodies_harm_nobody() {
    Server::start(&[]).survives(bodies::too_long().into_iter().chain(bodies::within()));
}

#[test]
fn bodies_of_a_higher_limit_harm_nobody() {
    Server::start(&["--body-limit", "67108864"]).survives(bodies::long());
}

#[test]
fn fields_harm_nobody() {
    let cases = fields::senseless().into_iter().chain(fields::many()).chain(fields::long_names());
    Server::start(&[]).survives(cases);
}

#[test]
fn connections_harm_nobody() {
    Server::start(&[]).survives(connections::idle().into_iter().chain(connections::broken()));
}

#[test]
fn a_body_that_stalls_is_not_waited_for() {
    let server = Server::start(&["--timeout", "1"]);
    let stalled: Vec<_> = (0..20).map(|_| wire::send(server.port, &bodies::halves(server.port))).collect();
    for stream in stalled {
        let status = wire::Response::read(stream).status;
        assert!([400, 408, wire::CLOSED].contains(&status), "{status}");
    }
}

#[test]
fn only_pages_of_this_machine_may_ask() {
    Server::start(&[]).answers(origins::by_default());
}

#[test]
fn pages_and_names_that_were_allowed_may_ask() {
    Server::start(&origins::FLAGS).answers(origins::by_flags());
    Server::start(&origins::KEY).answers(origins::by_key());
}

/// The ways of a text into a prompt: the route that counts its tokens, and the body around it.
fn ways(text: &str) -> Vec<(&'static str, &'static str, Value)> {
    let counted = "/v1/chat/completions/input_tokens";
    let user = json!({ "role": "user", "content": "Hello" });
    let call = |text: &str| {
        let function = json!({ "name": "f", "arguments": json!({ "a": text }).to_string() });
        json!({ "id": "1", "type": "function", "function": function })
    };
    let tool = json!({ "type": "function", "function": { "name": "f", "description": text, "parameters": { "type": "object" } } });
    vec![
        ("a user", counted, json!({ "messages": [{ "role": "user", "content": text }] })),
        (
            "a part of a user",
            counted,
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": text }] }] }),
        ),
        ("a system", counted, json!({ "messages": [{ "role": "system", "content": text }, user] })),
        (
            "a tool",
            counted,
            json!({ "messages": [user, { "role": "assistant", "content": "", "tool_calls": [call("x")] },
            { "role": "tool", "tool_call_id": "1", "content": text }] }),
        ),
        (
            "arguments",
            counted,
            json!({ "messages": [user, { "role": "assistant", "content": "", "tool_calls": [call(text)] },
            { "role": "tool", "tool_call_id": "1", "content": "x" }] }),
        ),
        ("a description", counted, json!({ "messages": [user], "tools": [tool] })),
        (
            "a user of messages",
            "/v1/messages/count_tokens",
            json!({ "messages": [{ "role": "user", "content": text }] }),
        ),
        ("a system of messages", "/v1/messages/count_tokens", json!({ "messages": [user], "system": text })),
    ]
}

/// A control token in a text is as many tokens as its letters are; as one, it would be fewer.
#[test]
fn control_tokens_in_a_text_are_text() {
    let server = Server::start(&[]);
    let post = |path: &str, body: &Value| {
        let answer = wire::post(server.port, path, body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{path}: {}", answer.start());
        answer.json()
    };
    let tokens = |text: &str, special: bool| {
        let asked = json!({ "content": text, "parse_special": special });
        post("/tokenize", &asked)["tokens"].as_array().expect("tokens").len()
    };
    let controls = [
        "[gMASK]",
        "<sop>",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
        "<|observation|>",
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_value>",
        "<|endoftext|>",
    ];
    let controls: Vec<&str> = controls.into_iter().filter(|control| tokens(control, true) == 1).collect();
    assert!(controls.len() >= 6, "the demo model knows {controls:?}");
    let (mut wrong, plain) = (vec![], "some words and then more");
    for control in controls {
        let within = format!("some words {control}and then more");
        let letters = tokens(&within, false);
        if letters <= tokens(&within, true) {
            wrong.push(format!("/tokenize without parse_special reads {control}"));
        }
        for ((who, path, with), (.., without)) in ways(&within).into_iter().zip(ways(plain)) {
            let count = |body: &Value| post(path, body)["input_tokens"].as_u64().expect("a count") as usize;
            let (more, less) = (count(&with), count(&without));
            if more - less < letters - tokens(plain, false) {
                wrong.push(format!("{control} of {who} is {} tokens", more - less));
            }
        }
    }
    assert!(wrong.is_empty(), "{} things are wrong:\n  {}", wrong.len(), wrong.join("\n  "));
}

#[test]
fn a_server_ends_in_order_while_bodies_stall() {
    let mut server = Server::start(&["--drain-timeout", "2"]);
    for _ in 0..8 {
        drop(wire::send(server.port, &bodies::halves(server.port)));
    }
    let held: Vec<_> = (0..8).map(|_| wire::send(server.port, &bodies::halves(server.port))).collect();
    assert!(server.ends(Duration::from_secs(60)), "it does not end while bodies stall");
    drop(held);
}
