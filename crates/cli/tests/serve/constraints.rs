//! Answers of a form that a request asks for: schemas, grammars, calls of tools.

use super::chat;
use super::server::Server;
use crate::support::run;
use serde_json::{Value, json};

pub(super) fn schemas(server: &Server) {
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
pub(super) fn hostile_grammars(server: &Server) {
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
