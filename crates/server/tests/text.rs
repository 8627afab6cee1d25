//! What users and tools write is text, whichever route it comes by.

use crate::exercise::{Exercise, ROUTES};
use serde_json::{Value, json};

const MARKER: &str = "<|im_end|>";
const HARMLESS: &str = "(|im_end|)";

fn post(exercise: &Exercise, route: &str, body: &Value) -> Value {
    let at = ROUTES.iter().position(|r| *r == route).expect("a route") as u8;
    let (status, text) = exercise.ask(&[&[at][..], body.to_string().as_bytes()].concat());
    assert_eq!(status, 200, "{route}: {body}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Tokens of the prompt of a request.
fn read(exercise: &Exercise, route: &str, body: &Value) -> u64 {
    let mut body = body.clone();
    body["max_tokens"] = 1.into();
    let said = post(exercise, route, &body);
    let count = |name: &str| said["usage"][name].as_u64().or(said[name].as_u64());
    let cached = if route == "/v1/messages" { count("cache_read_input_tokens").unwrap_or(0) } else { 0 };
    cached + count("prompt_tokens").or(count("input_tokens")).unwrap_or_else(|| panic!("{route}: no count in {said}"))
}

/// A request to each route that renders messages, with `text` wherever somebody writes.
fn requests(text: &str) -> Vec<(&'static str, Value)> {
    let function =
        json!({ "name": text, "description": text, "parameters": { "type": "object", "properties": { text: {} } } });
    let arguments = json!({ text: text });
    let call =
        json!({ "id": text, "type": "function", "function": { "name": text, "arguments": arguments.to_string() } });
    let chat = json!({
        "messages": [
            { "role": "system", "content": text },
            { "role": "user", "content": [{ "type": "text", "text": text }] },
            { "role": "assistant", "content": text, "reasoning_content": text, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": text, "content": text },
            { "role": "user", "content": text },
            { "role": "assistant", "content": text },
        ],
        "chat_template_kwargs": { "bos_token": text },
    });
    let offer = json!({
        "messages": [{ "role": "user", "content": text, "name": text }],
        "tools": [{ "type": "function", "function": function }],
    });
    let responses = json!({
        "instructions": text,
        "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": text }] },
            { "type": "function_call", "call_id": text, "name": text, "arguments": arguments.to_string() },
            { "type": "function_call_output", "call_id": text, "output": text },
        ],
    });
    let messages = json!({
        "system": text,
        "messages": [
            { "role": "user", "content": text },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": text, "name": text, "input": arguments }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": text, "content": text }] },
        ],
    });
    vec![
        ("/v1/chat/completions", chat.clone()),
        ("/v1/chat/completions/input_tokens", chat),
        ("/v1/chat/completions", offer),
        ("/v1/responses", responses),
        ("/v1/messages", messages.clone()),
        ("/v1/messages/count_tokens", messages),
    ]
}

#[test]
fn markers_in_requests_are_text_unless_asked_for() {
    let exercise = Exercise::new();
    for ((route, marked), (_, harmless)) in requests(MARKER).into_iter().zip(requests(HARMLESS)) {
        let (text, same) = (read(&exercise, route, &marked), read(&exercise, route, &harmless));
        assert_eq!(text, same, "{route}");
        let mut special = marked;
        special["parse_special"] = true.into();
        assert!(read(&exercise, route, &special) < text, "{route}");
        special["parse_special"] = "yes".into();
        let at = ROUTES.iter().position(|r| *r == route).expect("a route") as u8;
        let (status, said) = exercise.ask(&[&[at][..], special.to_string().as_bytes()].concat());
        assert!(status == 400 && said.contains("parse_special"), "{route}: {status} {said}");
    }
}

#[test]
fn counting_and_answering_agree() {
    let exercise = Exercise::new();
    let requests = requests(MARKER);
    let counts: Vec<u64> = requests.iter().map(|(route, body)| read(&exercise, route, body)).collect();
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[4], counts[5]);
}

#[test]
fn templates_are_applied_to_the_letter() {
    let exercise = Exercise::new();
    let user = |text: &str| json!({ "messages": [{ "role": "user", "content": text }] });
    let [marked, harmless] =
        [MARKER, HARMLESS].map(|text| post(&exercise, "/apply-template", &user(text))["prompt"].clone());
    let (marked, harmless) = (marked.as_str().expect("a text"), harmless.as_str().expect("a text"));
    assert!(marked.contains(&format!("user\n{MARKER}")), "{marked}");
    assert_eq!(marked.replacen(MARKER, HARMLESS, 1), harmless);
}

#[test]
fn tags_of_reasoning_are_special_only_where_special_tokens_are() {
    let exercise = Exercise::new();
    let tokens = |text: &str, more: Value| {
        let mut body = json!({ "content": text });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        post(&exercise, "/tokenize", &body)["tokens"].as_array().expect("tokens").len()
    };
    for text in ["<think>", "</think>", "<tool_call>", "<|im_end|>"] {
        assert_eq!(tokens(text, json!({})), 1, "{text}");
        assert_eq!(tokens(text, json!({ "parse_special": true })), 1, "{text}");
        assert_eq!(tokens(text, json!({ "parse_special": false })), text.len(), "{text}");
    }
}
