//! `serve` over real connections: what clients send, what they get, and what happens when they go.

mod ollama;
mod samplers;
mod scores;
mod server;
mod several;

use crate::support::{command, folder, run, text, tiny};
use serde_json::{Value, json};
use server::{PATIENCE, Response, Server};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
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
    models_and_properties(server);
    chat_whole_and_streamed(server);
    completions_of_every_form(server);
    samplers::all_have_an_effect_or_are_refused(server);
    tokens_and_templates(server);
    responses_and_messages(server);
    schemas(server);
    hostile_grammars(server);
    begun_answers(server);
    embeddings(server);
    ollama::chats_and_texts(server);
    errors(server);
    hostile_bodies(server);
    bodies_that_stall(server);
    memory_comes_back(server);
    clients_that_leave(server);
    clients_that_do_not_read(server);
    origins(server);
    metrics(server);
    traces(server);
}

fn models_and_properties(server: &Server) {
    let models = server.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("first")));
    assert_eq!(server.get("/v1/models/second").json()["object"], "model");
    assert_eq!(server.get("/v1/models/third").error(404), "not_found_error");
    let props = server.get("/props").json();
    assert_eq!((&props["total_slots"], &props["default_generation_settings"]["n_ctx"]), (&json!(3), &json!(1024)));
    let slots = server.get("/slots").json();
    assert_eq!(slots.as_array().expect("a list").len(), 3);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
}

fn chat_whole_and_streamed(server: &Server) {
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

fn completions_of_every_form(server: &Server) {
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

fn tokens_and_templates(server: &Server) {
    let ids = server.post("/tokenize", json!({ "content": "Hello, World" })).json()["tokens"].clone();
    assert_eq!(server.post("/detokenize", json!({ "tokens": ids })).json()["content"], "Hello, World");
    let pieces = server.post("/tokenize", json!({ "content": "Hi", "with_pieces": true })).json();
    assert!(pieces["tokens"][0]["piece"].is_string());
    let prompt = server.post("/apply-template", chat(json!({}))).json()["prompt"].as_str().expect("text").to_owned();
    assert!(prompt.contains("Hello") && prompt.contains("assistant"), "{prompt}");
}

fn responses_and_messages(server: &Server) {
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

fn schemas(server: &Server) {
    // An object has the properties that are named, be that said or not.
    let schema = json!({ "type": "object", "required": ["colour", "ok"],
        "properties": { "colour": { "enum": ["red", "green"] }, "ok": { "type": "boolean" } } });
    for seed in 0..3 {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": schema } });
        let body = json!({ "response_format": format, "temperature": 1.5, "seed": seed, "max_tokens": 200 });
        let reply = server.post("/v1/chat/completions", chat(body)).json();
        let content = reply["choices"][0]["message"]["content"].as_str().expect("text");
        let object: Value = serde_json::from_str(content).unwrap_or_else(|_| panic!("{reply}"));
        assert!(
            object["ok"].is_boolean()
                && ["red", "green"].contains(&object["colour"].as_str().expect("text"))
                && object.as_object().is_some_and(|all| all.len() == 2),
            "{object}"
        );
        assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    }
    let bad =
        json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": { "type": "nonsense" } } } });
    assert_eq!(server.post("/v1/chat/completions", chat(bad)).error(400), "invalid_request_error");
    let grammar = "root ::= list\nlist ::= \"[\" (\"x\" | list)? \"]\"";
    let nested = server.post("/completion", json!({ "prompt": "x", "grammar": grammar, "n_predict": 300 })).json();
    let content = nested["content"].as_str().expect("text");
    assert!(content.starts_with('[') && content.chars().all(|c| "[]x".contains(c)), "{content}");
    let wrong = server.post("/completion", json!({ "prompt": "x", "grammar": "root ::= <token>" }));
    assert_eq!(wrong.error(400), "invalid_request_error");
    assert!(wrong.body.contains("single tokens"), "{wrong:?}");
}

/// They end, or are followed, in processes of their own; more of them are tried by the tests of the server.
fn hostile_grammars(server: &Server) {
    let ask =
        |rule: &str, what: Value| server.post("/completion", json!({ "prompt": "a", "n_predict": 4, rule: what }));
    let stacked = format!("root ::= \"a\"{}", "*?+".repeat(5000));
    assert_eq!(ask("grammar", stacked.into()).status, 200);
    let chain: String = (0..900).map(|at| format!("r{at} ::= \"a\" r{}\n", at + 1)).collect();
    assert_eq!(ask("grammar", format!("root ::= r0\n{chain}r900 ::= \"b\"").into()).status, 200);
    let link = |at: usize| (format!("d{at}"), json!({ "items": { "$ref": format!("#/$defs/d{}", at + 1) } }));
    let mut links: serde_json::Map<String, Value> = (0..1200).map(link).collect();
    links.insert("d1200".into(), json!({ "type": "integer" }));
    let status = ask("json_schema", json!({ "$ref": "#/$defs/d0", "$defs": links })).status;
    assert!(status == 200 || status == 400, "{status}");
    assert_eq!(server.get("/health").status, 200);
    let by_hand = run(&["grammar-server"]);
    assert!(by_hand.error(2).contains("serve"), "{}", by_hand.err);
}

/// A call is all that a model can write that is told to call; streamed, its arguments come in pieces.
#[test]
fn calls_that_are_required() {
    let template = "{% if tools %}Call by <tool_call>{\"name\": ..., \"arguments\": ...}</tool_call>: {{ tools | tojson }}\n{% endif %}\
                    {% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: ";
    let server = &Server::start(&["--chat-template", template]);
    let schema = json!({ "type": "object", "required": ["city", "ok"], "additionalProperties": false,
        "properties": { "city": { "enum": ["Oslo", "Reykjavik"] }, "ok": { "type": "boolean" } } });
    let check = |name: &str, arguments: &str| {
        let object: Value = serde_json::from_str(arguments).unwrap_or_else(|_| panic!("{arguments}"));
        assert!(name == "weather" && object["ok"].is_boolean(), "{name} {object}");
        assert!(["Oslo", "Reykjavik"].contains(&object["city"].as_str().expect("text")), "{object}");
    };
    let function = json!({ "name": "weather", "description": null, "parameters": schema });
    let other = json!({ "type": "function", "function": { "name": "other" } });
    let named = json!({ "type": "function", "function": { "name": "weather" } });
    for (choice, more) in [(json!("required"), vec![]), (named, vec![other])] {
        let tools = [vec![json!({ "type": "function", "function": function })], more].concat();
        let body = json!({ "tools": tools, "tool_choice": choice, "parallel_tool_calls": false, "max_tokens": 200 });
        let whole = server.post("/v1/chat/completions", chat(body.clone())).json();
        let message = &whole["choices"][0]["message"];
        assert_eq!((&whole["choices"][0]["finish_reason"], &message["content"]), (&json!("tool_calls"), &Value::Null));
        let call = &message["tool_calls"][0]["function"];
        check(call["name"].as_str().expect("a name"), call["arguments"].as_str().expect("text"));
        let mut streamed = chat(body);
        streamed["stream"] = true.into();
        let events = server.post("/v1/chat/completions", streamed).events();
        let calls: Vec<&Value> =
            events.iter().filter_map(|e| e["choices"][0]["delta"]["tool_calls"].as_array()).flatten().collect();
        assert!(calls.len() > 3 && calls[0]["id"].is_string() && calls[0]["function"]["arguments"] == "", "{calls:?}");
        let text: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
        check(calls[0]["function"]["name"].as_str().expect("a name"), &text);
        let values = [&text, call["arguments"].as_str().expect("text")].map(serde_json::from_str::<Value>);
        assert_eq!(values[0].as_ref().expect("JSON"), values[1].as_ref().expect("JSON"));
    }
    let body = json!({ "max_tokens": 200, "messages": [{ "role": "user", "content": "Hello" }], "stream": true,
        "tools": [{ "name": "weather", "input_schema": schema }],
        "tool_choice": { "type": "any", "disable_parallel_tool_use": true } });
    let events = server.post("/v1/messages", body).events();
    assert_eq!(events[1]["content_block"]["type"], "tool_use");
    let pieces: Vec<&str> = events.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert!(pieces.len() > 2, "{pieces:?}");
    check("weather", &pieces.concat());
    assert!(events.iter().any(|e| e["delta"]["stop_reason"] == "tool_use"));
    let body = json!({ "max_output_tokens": 200, "input": "Hello", "tool_choice": "required", "stream": true,
        "parallel_tool_calls": false, "tools": [{ "type": "function", "name": "weather", "parameters": schema }] });
    let events = server.post("/v1/responses", body).events();
    let done = events.iter().find(|e| e["type"] == "response.function_call_arguments.done").expect("an end");
    check("weather", done["arguments"].as_str().expect("text"));
    let item = &events.last().expect("an end")["response"]["output"][0];
    assert_eq!((&item["type"], &item["arguments"]), (&json!("function_call"), &done["arguments"]));
    let none = chat(json!({ "tool_choice": "required" }));
    assert_eq!(server.post("/v1/chat/completions", none).error(400), "invalid_request_error");
}

/// A conversation that ends with the assistant's words goes on from there.
fn begun_answers(server: &Server) {
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

fn embeddings(server: &Server) {
    let long = "a long text ".repeat(40);
    let body = json!({ "input": ["Hello", long, "Hello"], "model": "mine" });
    let whole = server.post("/v1/embeddings", body.clone()).json();
    let vectors: Vec<Vec<f64>> = whole["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| {
            entry["embedding"].as_array().expect("a vector").iter().map(|x| x.as_f64().expect("a number")).collect()
        })
        .collect();
    let length = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!(vectors.iter().all(|vector| vector.len() > 8 && (length(vector) - 1.0).abs() < 1e-4));
    let distance = |a: &[f64], b: &[f64]| length(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>());
    assert!(distance(&vectors[0], &vectors[2]) < 1e-2 && distance(&vectors[0], &vectors[1]) > 0.1);
    assert_eq!(whole["usage"]["prompt_tokens"], whole["usage"]["total_tokens"]);
    let mut packed = body;
    packed["encoding_format"] = "base64".into();
    let packed = server.post("/v1/embeddings", packed).json();
    let bytes = unpacked(packed["data"][1]["embedding"].as_str().expect("text"));
    let floats: Vec<f64> =
        bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect();
    assert!(floats.len() == vectors[1].len() && distance(&floats, &vectors[1]) < 1e-2);
    let native = server.post("/embedding", json!({ "content": "Hello", "embd_normalize": -1 })).json();
    assert_eq!(native[0]["embedding"][0].as_array().expect("a vector").len(), vectors[0].len());
    for wrong in [
        json!({}),
        json!({ "input": [] }),
        json!({ "input": "x", "encoding_format": "int8" }),
        json!({ "input": "x", "dimensions": 3 }),
        json!({ "input": { "content": [{ "type": "image_url" }] } }),
    ] {
        assert_eq!(server.post("/v1/embeddings", wrong).error(400), "invalid_request_error");
    }
    assert_eq!(
        server.post("/v1/embeddings", json!({ "input": "x ".repeat(3000) })).error(400),
        "exceed_context_size_error"
    );
}

/// A server that pools nothing has a vector for each token.
fn vectors_of_tokens(server: &Server) {
    let tokens = server.post("/tokenize", json!({ "content": "Hello you", "add_special": true })).json();
    let vectors = server.post("/embedding", json!({ "content": "Hello you" })).json();
    let vectors = vectors[0]["embedding"].as_array().expect("vectors").clone();
    assert_eq!(vectors.len(), tokens["tokens"].as_array().expect("tokens").len());
    assert!(vectors.iter().all(|vector| vector.as_array().is_some_and(|vector| vector.len() == 256)));
    assert_eq!(server.post("/v1/embeddings", json!({ "input": "x" })).error(400), "invalid_request_error");
}

/// Base64 as bytes.
fn unpacked(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let four = |c: &[u8]| c.iter().fold(0, |all, &c| all << 6 | value(c)).to_be_bytes()[1..].to_vec();
    let mut bytes: Vec<u8> = text.as_bytes().chunks_exact(4).flat_map(four).collect();
    bytes.truncate(bytes.len() - text.bytes().rev().take_while(|&c| c == b'=').count());
    bytes
}

fn errors(server: &Server) {
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

fn hostile_bodies(server: &Server) {
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
fn bodies_that_stall(server: &Server) {
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

/// What bodies take that are as costly as they may be goes back to the system, and a stream beside them goes on.
fn memory_comes_back(server: &Server) {
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
fn clients_that_do_not_read(server: &Server) {
    let idle = || server.get("/slots").json().as_array().expect("a list").iter().all(|s| s["is_processing"] == false);
    let endless = json!({ "prompt": "Hello", "ignore_eos": true, "n_predict": 900, "stream": true, "n_probs": 20 });
    let deaf: Vec<TcpStream> =
        (0..3).map(|_| server.open("POST", "/completion", "", endless.to_string().as_bytes())).collect();
    server.wait_for("the places are taken", || !idle());
    assert_eq!(server.post("/v1/chat/completions", chat(json!({}))).status, 200);
    server.wait_for("the texts come to their ends", idle);
    drop(deaf);
}

fn clients_that_leave(server: &Server) {
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

fn origins(server: &Server) {
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

/// A request that is part of a trace gets a span in it, and its line of the log names both.
fn traces(server: &Server) {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let asked = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n");
    let body = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    let head = server.ask("POST", "/v1/completions", &asked, body.as_bytes()).head;
    let given = head.lines().find_map(|line| line.strip_prefix("traceparent: 00-")).expect("a trace");
    let span = given.strip_prefix(&format!("{trace}-")).and_then(|rest| rest.strip_suffix("-01")).expect("a span");
    assert!(span.len() == 16 && span != "00f067aa0ba902b7", "{given}");
    let mut lines = std::iter::from_fn(|| server.log.recv_timeout(Duration::from_secs(30)).ok());
    let line = lines.find(|line| line.starts_with('{') && line.contains(trace)).expect("a line for the request");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!([&line["trace_id"], &line["parent_id"], &line["span_id"]], [trace, "00f067aa0ba902b7", span]);
}

fn metrics(server: &Server) {
    let response = server.get("/metrics");
    assert!(response.head.contains("process-start-time-unix: "));
    for name in [
        "kernloom_time_to_first_token_seconds_bucket",
        "vllm:num_requests_waiting{model_name=\"first\"}",
        "llamacpp:n_decode_total",
    ] {
        assert!(response.body.contains(name), "{name}");
    }
    memory(server, &response.body);
    let line = server.log.try_iter().find(|line| line.starts_with('{')).expect("a line for each request");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert!(line["path"].is_string() && line["prompt_new"].is_u64(), "{line}");
}

/// What the model takes of its device is told by `/props` and by metrics alike.
fn memory(server: &Server, metrics: &str) {
    let props = server.get("/props").json();
    let (device, memory) = (props["device"].as_str().expect("a name"), &props["memory"]);
    assert!(device.starts_with("cpu"), "{props}");
    let number = |name: &str| memory[name].as_u64().unwrap_or_else(|| panic!("{name} in {props}"));
    let file = std::fs::metadata(tiny("tiny-llama", "q4_0")).expect("a file").len();
    assert_eq!((number("weights"), &memory["weights_mapped"]), (file, &json!(true)));
    // Halves: keys and values of 1024 positions, two layers, two heads of 64.
    assert_eq!(number("cache"), 1024 * 2 * 2 * (64 + 64) * 2);
    assert!(number("workspace") > 0 && number("available") > number("cache") + number("workspace"));
    for (part, name) in [("mapped_weights", "weights"), ("cache", "cache"), ("workspace", "workspace")] {
        let line = format!("kernloom_memory_bytes{{device=\"{device}\",part=\"{part}\"}} {}\n", number(name));
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let line = format!("kernloom_memory_available_bytes{{device=\"{device}\"}} {}\n", number("available"));
    assert!(metrics.contains(&line), "{line} in {metrics}");
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
    vectors_of_tokens(&server);
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
