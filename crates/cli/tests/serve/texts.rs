//! Texts and chats, whole and streamed, in the forms of several APIs.

use super::chat;
use super::server::Server;
use serde_json::{Value, json};

pub(super) fn chat_whole_and_streamed(server: &Server) {
    let whole = server.post("/v1/chat/completions", chat(json!({ "model": "mine", "seed": 1 })));
    assert!(whole.head.contains("x-request-id: "), "{}", whole.head);
    let whole = whole.json();
    let message = &whole["choices"][0]["message"];
    let content = message["content"].as_str().expect("text");
    assert_eq!(
        (&message["role"], &whole["model"], &whole["object"]),
        (&json!("assistant"), &json!("mine"), &json!("chat.completion"))
    );
    assert_eq!(
        (&whole["usage"]["completion_tokens"], &whole["choices"][0]["finish_reason"]),
        (&json!(6), &json!("length"))
    );
    // Streamed, it is the same text in the order that clients expect.
    let stream =
        json!({ "stream": true, "stream_options": { "include_usage": true }, "logprobs": true, "top_logprobs": 2 });
    let response = server.post("/v1/chat/completions", chat(stream));
    assert!(response.body.ends_with("data: [DONE]\n\n"));
    let events = response.events();
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": null }));
    let deltas = || events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str());
    assert_eq!(deltas().collect::<String>(), content);
    assert!(events[1..].iter().all(|e| e["choices"][0]["delta"].get("role").is_none() && e["id"] == events[0]["id"]));
    let [.., last, usage] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&last["choices"][0]["finish_reason"], &last["choices"][0]["delta"]), (&json!("length"), &json!({})));
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().is_some_and(|n| n > 0), "{usage}");
    let pieces = events.iter().filter_map(|e| e["choices"][0]["logprobs"]["content"].as_array()).flatten();
    let bytes: Vec<u8> = pieces
        .flat_map(|p| p["bytes"].as_array().expect("bytes").clone())
        .map(|b| b.as_u64().expect("a byte") as u8)
        .collect();
    assert_eq!(String::from_utf8_lossy(&bytes), content);
    // Several texts, and a stop string that is not part of them.
    let several = server.post("/v1/chat/completions", chat(json!({ "n": 2, "temperature": 1.5, "seed": 5 }))).json();
    assert_eq!(
        (several["choices"].as_array().expect("a list").len(), &several["usage"]["completion_tokens"]),
        (2, &json!(12))
    );
    assert_ne!(several["choices"][0]["message"], several["choices"][1]["message"]);
    let again = server.post("/v1/chat/completions", chat(json!({ "n": 2, "temperature": 1.5, "seed": 5 }))).json();
    assert_eq!(several["choices"], again["choices"]);
    let stop: String = content.chars().skip(2).take(2).collect();
    let stopped = server.post("/v1/chat/completions", chat(json!({ "stop": [stop] }))).json();
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["choices"][0]["message"]["content"], content.split_once(&stop).expect("a stop").0);
    // A token that is forbidden does not come.
    let first = events[1]["choices"][0]["logprobs"]["content"][0]["id"].as_u64().expect("an id");
    let biased = server
        .post("/v1/chat/completions", chat(json!({ "logit_bias": { first.to_string(): -100 }, "logprobs": true })))
        .json();
    assert_ne!(biased["choices"][0]["logprobs"]["content"][0]["id"], first);
    // Roles, parts, nulls, and everything that clients send and nobody here knows.
    let odd = json!({
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hi" }] }, { "role": "assistant", "content": null, "tool_calls": [
            { "id": "1", "type": "function", "function": { "name": "f", "arguments": "{not json" } }] },
            { "role": "tool", "tool_call_id": "1", "content": "x" }],
        "tools": [{ "type": "web_search" }],
        "store": false, "prompt_cache_key": "k", "max_tokens": 2, "unknown": { "a": [] }, "stop": null, "stream_options": null,
    });
    assert_eq!(server.post("/v1/chat/completions", odd).status, 200);
    // What the template of this model does not read is refused, not left out.
    let tools = json!([{ "type": "function", "function": { "name": "f", "description": null } }]);
    let refused = server.post("/v1/chat/completions", chat(json!({ "tools": tools })));
    assert!(refused.status == 400 && refused.body.contains("does not read tools"), "{}", refused.body);
}

pub(super) fn completions_of_every_form(server: &Server) {
    let body = json!({ "prompt": ["Hello", "World"], "max_tokens": 3, "temperature": 0, "logprobs": 2 });
    let two = server.post("/v1/completions", body).json();
    assert_eq!(two["choices"].as_array().expect("a list").len(), 2);
    assert_eq!(two["choices"][1]["logprobs"]["tokens"].as_array().expect("a list").len(), 3);
    let ids = server.post("/tokenize", json!({ "content": "Hello", "add_special": true })).json()["tokens"].clone();
    let of_ids = server
        .post("/v1/completions", json!({ "prompt": ids, "max_tokens": 3, "temperature": 0, "echo": true }))
        .json();
    let expected = format!("Hello{}", two["choices"][0]["text"].as_str().expect("text"));
    assert_eq!(of_ids["choices"][0]["text"], expected);
    let stream =
        server.post("/v1/completions", json!({ "prompt": "Hello", "max_tokens": 3, "temperature": 0, "stream": true }));
    let text: String =
        stream.events().iter().filter_map(|e| e["choices"][0]["text"].as_str().map(str::to_owned)).collect();
    assert_eq!(text, two["choices"][0]["text"].as_str().expect("text"));
    let native = server
        .post("/completion", json!({ "prompt": "Hello", "n_predict": 3, "temperature": 0, "return_tokens": true }))
        .json();
    assert_eq!((native["content"].as_str(), &native["stop_type"]), (Some(&*text), &json!("limit")));
    assert_eq!(native["tokens"].as_array().expect("a list").len(), 3);
    // A stream has them unasked.
    let body = json!({ "prompt": "Hello", "n_predict": 3, "temperature": 0, "stream": true });
    let events = server.post("/completion", body).events();
    let tokens = events.iter().filter_map(|e| e["tokens"].as_array()).flatten().cloned();
    assert_eq!(tokens.collect::<Value>(), native["tokens"]);
    // Tokens that print nothing are of the text all the same.
    let begin = 502;
    let forced = json!({ "prompt": "Hello", "n_predict": 2, "logit_bias": [[begin, 100]], "return_tokens": true });
    let silent = server.post("/completion", forced).json();
    assert_eq!((&silent["content"], &silent["tokens"]), (&json!(""), &json!([begin, begin])));
    let fields = json!({ "prompt": "Hello", "n_predict": 2, "response_fields": ["content", "generation_settings/n_predict", "x"] });
    let some = server.post("/completion", fields).json();
    assert_eq!((some.as_object().expect("an object").len(), &some["generation_settings/n_predict"]), (2, &json!(2)));
    assert!(native["timings"].as_object().expect("times").values().all(|t| t.as_f64().is_some_and(|t| t >= 0.0)));
    // The context ends a text, and says so.
    let long = json!({ "prompt": "a b c d e f g h ".repeat(40), "ignore_eos": true, "n_predict": 5000 });
    let full = server.post("/completion", long).json();
    let (read, written) =
        (full["tokens_evaluated"].as_u64().expect("a count"), full["tokens_predicted"].as_u64().expect("a count"));
    assert_eq!((&full["stop_type"], read + written), (&json!("limit"), 1025));
}

pub(super) fn tokens_and_templates(server: &Server) {
    let ids = server.post("/tokenize", json!({ "content": "Hello, World" })).json()["tokens"].clone();
    assert_eq!(server.post("/detokenize", json!({ "tokens": ids })).json()["content"], "Hello, World");
    let pieces = server.post("/tokenize", json!({ "content": "Hi", "with_pieces": true })).json();
    assert!(pieces["tokens"][0]["piece"].is_string());
    let prompt = server.post("/apply-template", chat(json!({}))).json()["prompt"].as_str().expect("text").to_owned();
    assert!(prompt.contains("Hello") && prompt.contains("assistant"), "{prompt}");
}

pub(super) fn responses_and_messages(server: &Server) {
    let body = json!({ "input": "Hello", "instructions": "Be brief", "max_output_tokens": 6, "temperature": 0 });
    let whole = server.post("/v1/responses", body.clone()).json();
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("incomplete")));
    let text = whole["output"][0]["content"][0]["text"].as_str().expect("text").to_owned();
    let mut streamed = body;
    streamed["stream"] = true.into();
    streamed["tools"] = json!([{ "type": "namespace", "name": "n" }, { "type": "web_search" }]);
    streamed["return_progress"] = true.into();
    streamed["timings_per_token"] = true.into();
    let response = server.post("/v1/responses", streamed);
    assert!(response.body.starts_with("event: response.created\ndata: ") && !response.body.contains("[DONE]"));
    let events = response.events();
    assert!(events.iter().enumerate().all(|(at, e)| e["sequence_number"] == at));
    let delta =
        |e: &Value| (e["type"] == "response.output_text.delta").then(|| e["delta"].as_str().expect("text").to_owned());
    assert_eq!(events.iter().filter_map(delta).collect::<String>(), text);
    let end = events.last().expect("an end");
    assert_eq!(end["response"]["output"][0]["content"][0]["text"], text);
    assert!(
        end["timings"]["predicted_n"] == 6 && events.iter().any(|e| delta(e).is_some() && e["timings"].is_object())
    );
    let progress: Vec<&Value> = events.iter().map(|e| &e["prompt_progress"]).filter(|p| p.is_object()).collect();
    assert!(progress.len() > 1 && progress.last().is_some_and(|p| p["processed"] == p["total"]), "{progress:?}");
    // What cannot be read is said, also where a tool brings it.
    let image = json!([{ "type": "function_call_output", "call_id": "1", "output": [{ "type": "input_image" }] }]);
    assert_eq!(server.post("/v1/responses", json!({ "input": image })).error(400), "invalid_request_error");
    let image = json!([{ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "1",
        "content": [{ "type": "image", "source": {} }] }] }]);
    assert_eq!(server.post("/v1/messages", json!({ "messages": image })).error(400), "invalid_request_error");

    let body = json!({ "model": "m", "max_tokens": 6, "temperature": 0, "system": [{ "type": "text", "text": "Be brief" }],
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hello" }] }] });
    let whole = server.post("/v1/messages", body.clone()).json();
    assert_eq!((&whole["type"], &whole["stop_reason"]), (&json!("message"), &json!("max_tokens")));
    assert_eq!(whole["usage"]["output_tokens"], 6);
    let counted = server.post("/v1/messages/count_tokens", body.clone()).json()["input_tokens"].as_u64();
    let usage = &whole["usage"];
    let read = usage["input_tokens"].as_u64().zip(usage["cache_read_input_tokens"].as_u64()).map(|(a, b)| a + b);
    assert_eq!(counted, read);
    let mut streamed = body;
    streamed["stream"] = true.into();
    let events = server.post("/v1/messages", streamed).events();
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds[..2], ["message_start", "content_block_start"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let text: String = events.iter().filter_map(|e| e["delta"]["text"].as_str()).collect();
    assert_eq!(text, whole["content"][0]["text"].as_str().expect("text"));
    let wrong = server.post("/v1/messages", json!({ "messages": 5 }));
    assert_eq!((wrong.status, &wrong.json()["type"]), (400, &json!("error")));
}

/// A conversation that ends with the assistant's words goes on from there.
pub(super) fn begun_answers(server: &Server) {
    let messages = json!([{ "role": "user", "content": "Hello" }, { "role": "assistant", "content": "Well th" }]);
    let ask = |more: Value| {
        let mut body = json!({ "messages": messages, "max_tokens": 2, "verbose": true });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let prompt = |body: Value| server.post("/v1/chat/completions", body).json()["__verbose"]["prompt"].clone();
    for more in [json!({}), json!({ "add_generation_prompt": false, "continue_final_message": true })] {
        let prompt = prompt(ask(more));
        assert!(prompt.as_str().is_some_and(|prompt| prompt.ends_with("Well th")), "{prompt}");
    }
    let closed = prompt(ask(json!({ "add_generation_prompt": false })));
    assert!(closed.as_str().is_some_and(|prompt| !prompt.ends_with("Well th")), "{closed}");
    let both = ask(json!({ "add_generation_prompt": true, "continue_final_message": true }));
    assert_eq!(server.post("/v1/chat/completions", both).error(400), "invalid_request_error");
}
