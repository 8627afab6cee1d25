//! Replays the corpus of the fuzzer of requests, and makes the seeds that it started from.

use crate::exercise::{Exercise, MADE, ROUTES};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn corpus(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(of)
}

/// Does this with all of a corpus; how many there are, and how many of them were answered.
fn replay(of: &str, ask: impl Fn(&[u8]) -> Option<u16>) -> (usize, usize) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(corpus(of)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let taken = paths.iter().filter(|path| ask(&std::fs::read(path).unwrap()) == Some(200)).count();
    println!("{of}: {} replayed, {taken} of them were answered", paths.len());
    (paths.len(), taken)
}

#[test]
fn corpora_are_survived() {
    let exercise = Exercise::new();
    let (all, taken) = replay("request", |bytes| Some(exercise.ask(bytes).0));
    assert!(all > 20 && taken > 10, "{all} requests, {taken} taken");
    let (all, taken) = replay("grammar", |bytes| exercise.ask_grammar(bytes, 64));
    assert!(all > 10 && taken > 5, "{all} grammars, {taken} taken");
}

#[test]
fn seeds_are_taken() {
    let exercise = Exercise::new();
    for (route, body) in seeds() {
        let (status, text) = exercise.ask(&input(route, &body));
        assert_eq!(status, 200, "{route}: {body}: {text}");
    }
    for bytes in grammars() {
        assert_eq!(exercise.ask_grammar(&bytes, 64), Some(200), "{}", String::from_utf8_lossy(&bytes));
    }
}

/// Requests that are made of bytes which no fuzzer has chosen, some of each route.
#[test]
fn made_requests_are_survived() {
    let exercise = Exercise::new();
    let taken = made().iter().filter(|bytes| exercise.ask(bytes).0 == 200).count();
    assert!(taken > 20, "{taken} of {} are taken", made().len());
}

/// Bytes to make requests of, by a generator of the simplest kind.
fn made() -> Vec<Vec<u8>> {
    let mut state = 20u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let routes = ROUTES.len() as u8 + 4;
    (0..20 * u16::from(routes))
        .map(|at| [MADE, (at % u16::from(routes)) as u8].into_iter().chain((0..200).map(|_| next())).collect())
        .collect()
}

fn input(route: &str, body: &Value) -> Vec<u8> {
    let at = ROUTES.iter().position(|r| *r == route).expect("a route") as u8;
    [&[at][..], body.to_string().as_bytes()].concat()
}

/// One request for each thing that can be asked for.
fn seeds() -> Vec<(&'static str, Value)> {
    let ask = |more: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 9 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": schema } });
    let (chat, messages) = ("/v1/chat/completions", "/v1/messages");
    vec![
        (chat, ask(json!({ "stream": true, "stream_options": { "include_usage": true }, "n": 2, "seed": 3 }))),
        (chat, ask(json!({ "logprobs": true, "top_logprobs": 2, "logit_bias": { "9": -100 }, "stop": ["a", "b"] }))),
        (chat, ask(json!({ "tools": [tool], "tool_choice": "required", "stream": true }))),
        (
            "/api/chat",
            ask(json!({ "tools": [tool], "options": { "num_predict": 3 }, "think": false, "keep_alive": "5m" })),
        ),
        ("/api/chat", json!({ "messages": [], "keep_alive": 0 })),
        ("/api/generate", json!({ "prompt": "Hi", "format": schema, "system": "s", "stream": false })),
        ("/api/generate", json!({ "prompt": "Hi", "raw": true, "options": { "temperature": 0.5, "stop": ["a"] } })),
        ("/api/embed", json!({ "input": ["a", "b"] })),
        ("/api/embeddings", json!({ "prompt": "a" })),
        ("/api/show", json!({ "name": "turns" })),
        (chat, ask(json!({ "tools": [tool], "tool_choice": { "type": "function", "function": { "name": "f" } } }))),
        (chat, ask(json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": schema } } }))),
        (
            chat,
            json!({ "messages": [{ "role": "system", "content": [{ "type": "text", "text": "x" }] },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "1", "type": "function",
              "function": { "name": "f", "arguments": "{}" } }] }, { "role": "tool", "tool_call_id": "1", "content": "y" }] }),
        ),
        (
            chat,
            ask(json!({ "typical_p": 0.9, "top_n_sigma": 1.5, "xtc_probability": 0.5, "xtc_threshold": 0.05,
                "dynatemp_range": 0.2, "dynatemp_exponent": 2, "dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 1,
                "dry_penalty_last_n": -1, "dry_sequence_breakers": ["\n", "."], "samplers": ["top_k", "typ_p", "temperature"] })),
        ),
        (chat, ask(json!({ "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2, "samplers": "edkt" }))),
        (
            chat,
            ask(json!({ "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "repeat_penalty": 1.1,
            "frequency_penalty": 0.1, "presence_penalty": 0.1, "chat_template_kwargs": { "enable_thinking": false } })),
        ),
        ("/v1/completions", json!({ "prompt": ["a", [9, 10]], "max_tokens": 3, "logprobs": 1 })),
        ("/v1/completions", json!({ "prompt": "a", "max_tokens": 2, "echo": true, "suffix": "", "best_of": 1 })),
        ("/completion", json!({ "prompt": ["a", 9, "b"], "n_predict": 3, "stream": true, "n_probs": 2 })),
        ("/completion", json!({ "prompt": "a", "grammar": "root ::= [a-c]+ (\"x\" | \"y\")", "n_predict": 5 })),
        ("/v1/responses", json!({ "input": "Hi", "instructions": "x", "stream": true, "max_output_tokens": 5 })),
        (
            "/v1/responses",
            json!({ "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "a" }] },
            { "type": "function_call", "call_id": "1", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "1", "output": "x" }], "max_output_tokens": 5 }),
        ),
        (messages, ask(json!({ "system": "x", "stream": true, "stop_sequences": ["q"] }))),
        (
            messages,
            ask(json!({ "tools": [{ "name": "f", "input_schema": schema }], "tool_choice": { "type": "any" } })),
        ),
        ("/v1/messages/count_tokens", ask(json!({}))),
        ("/v1/embeddings", json!({ "input": ["a", "bc"], "encoding_format": "base64" })),
        ("/embedding", json!({ "content": "abc", "embd_normalize": -1 })),
        ("/v1/chat/completions/input_tokens", ask(json!({}))),
        ("/tokenize", json!({ "content": "ab\u{e9}", "add_special": true, "with_pieces": true })),
        ("/detokenize", json!({ "tokens": [9, 10] })),
        ("/apply-template", ask(json!({ "tools": [tool] }))),
    ]
}

/// One grammar or schema for each thing that can be in them.
fn grammars() -> Vec<Vec<u8>> {
    let grammars = [
        "root ::= \"a\"",
        "root ::= [a-c]+ (\"x\" | \"y\")? # words",
        "root ::= item{2,3} \"\\n\"\nitem ::= [^0-9\\x41] | \"\\u00e9\" | .",
        "root ::= (\"(\" root \")\")* | \"\"",
    ];
    let schemas = [
        json!({ "type": "object", "properties": { "a": { "enum": [1, "b", null] } }, "required": ["a"] }),
        json!({ "type": "array", "items": { "type": "integer", "minimum": 3, "maximum": 9 }, "maxItems": 2 }),
        json!({ "anyOf": [{ "const": "x" }, { "type": "string", "pattern": "^a+$", "maxLength": 4 }] }),
        json!({ "$ref": "#/$defs/t", "$defs": { "t": { "type": ["number", "boolean"], "multipleOf": 2 } } }),
        json!({ "type": "string", "format": "date-time" }),
        json!({ "allOf": [{ "type": "object" }, { "additionalProperties": { "type": "null" } }], "minProperties": 0 }),
        json!(true),
    ];
    let of = |kind: u8, text: String| [&[kind][..], text.as_bytes()].concat();
    let grammars = grammars.iter().map(|text| of(0, (*text).to_owned()));
    // Choices of the generator: a stack of repeats, groups, a chain of rules, and chains of each kind of reference.
    let made = [&[2, 0, 1, 0, 0][..], &[2, 1, 0, 9, 0, 0], &[2, 2, 2, 0, 0, 0, 0]].map(<[u8]>::to_vec);
    let chains = (0..5).map(|link| vec![3, 0, 240, 0, 0, link, 1]);
    let schemas = schemas.iter().map(|schema| of(1, schema.to_string()));
    grammars.chain(schemas).chain(made).chain(chains).collect()
}

/// Run by hand before a new campaign: `cargo test -p kernloom-server --test all corpus:: -- --ignored`.
#[test]
#[ignore = "writes the seeds into the corpus"]
fn write_seeds() {
    let requests =
        seeds().iter().map(|(route, body)| input(route, body)).chain(made().into_iter().step_by(10)).collect();
    for (of, all) in [("request", requests), ("grammar", grammars())] {
        std::fs::create_dir_all(corpus(of)).unwrap();
        for (at, bytes) in all.iter().enumerate() {
            std::fs::write(corpus(of).join(format!("seed-{at:02}")), bytes).unwrap();
        }
    }
}
