//! Fields with values that make no sense, too many of them, or names of a megabyte.

use super::{ANY, Case, REFUSED};
use serde_json::json;

/// Bytes of an answer that says again what was asked for, such as the biases of `/completion`.
const REPEATED: usize = 32 << 20;

fn completion(more: &str) -> String {
    format!(r#"{{"prompt":"a","n_predict":2,{more}}}"#)
}

fn case(name: &'static str, accepted: &'static [u16], more: impl Fn() -> String + 'static) -> Case {
    Case::post(name, "/completion", accepted, move || completion(&more()))
}

fn repeated(item: &str, count: usize) -> String {
    vec![item; count].join(",")
}

/// Numbers and lists that are out of all proportion.
pub fn senseless() -> Vec<Case> {
    let mut cases = vec![
        case("n of a thousand million", REFUSED, || r#""n":1000000000"#.into()),
        case("n below zero", REFUSED, || r#""n":-1"#.into()),
        case("as many texts as there may be", ANY, || r#""n":64,"temperature":1"#.into()),
        case("a thousand probabilities of each token", ANY, || r#""n_probs":1000"#.into()).with_answer_of(1 << 20),
        case("more probabilities than there are tokens", REFUSED, || r#""n_probs":2147483647"#.into()),
        case("biases of 200,000 tokens", ANY, || format!(r#""logit_bias":[{}]"#, repeated("[1,0]", 200_000)))
            .with_answer_of(REPEATED),
        case("biases of 20,000 texts", ANY, || format!(r#""logit_bias":[{}]"#, repeated("[\"a b c\",0]", 20_000)))
            .with_answer_of(REPEATED),
        case("a bias of a text of a megabyte", ANY, || format!(r#""logit_bias":{{"{}":1}}"#, "ab ".repeat(333_333)))
            .with_answer_of(REPEATED),
        case("10,000 stop strings", REFUSED, || format!(r#""stop":[{}]"#, repeated("\"ab\"", 10_000))),
        case("64 stop strings of 60 kB", ANY, || {
            format!(r#""stop":[{}]"#, repeated(&format!("\"{}\"", "ab".repeat(30_000)), 64))
        })
        .with_answer_of(REPEATED),
        case("empty stop strings", &[200, 400], || r#""stop":["","a",""]"#.into()),
        case("100,000 fields that are wanted", ANY, || {
            format!(r#""response_fields":[{}]"#, repeated("\"content\"", 100_000))
        }),
        case("a path of a field that is a megabyte long", ANY, || {
            format!(r#""response_fields":["{}"]"#, "a/".repeat(500_000))
        }),
    ];
    for number in [
        "1e999",
        "-1e999",
        "1e-999",
        "18446744073709551616",
        "9223372036854775808",
        "-9223372036854775809",
        "\"x\"",
        "[]",
    ] {
        for field in
            ["temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n", "seed", "n", "n_probs"]
        {
            cases.push(Case::post(format!("{field} of {number}"), "/completion", ANY, move || {
                completion(&format!("\"{field}\":{number}"))
            }));
        }
    }
    for limit in ["9223372036854775808", "1e300", "-1", "4294967296"] {
        cases.push(Case::post(format!("{limit} tokens"), "/v1/chat/completions", ANY, move || {
            format!(r#"{{"messages":[{{"role":"user","content":"a"}}],"max_tokens":{limit}}}"#)
        }));
    }
    cases
}

/// Prompts, messages, tools and inputs in numbers that nobody has.
pub fn many() -> Vec<Case> {
    let message = r#"{"role":"user","content":"a"}"#;
    let tool = r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}"#;
    vec![
        Case::post("a prompt of a million ids", "/completion", REFUSED, || {
            format!(r#"{{"prompt":[{}]}}"#, repeated("9", 1_000_000))
        }),
        Case::post("a prompt of 131,072 ids", "/completion", REFUSED, || {
            format!(r#"{{"prompt":[{}]}}"#, repeated("999", 131_072))
        }),
        Case::post("100,000 prompts", "/v1/completions", REFUSED, || {
            format!(r#"{{"prompt":[{}]}}"#, repeated("\"a\"", 100_000))
        }),
        Case::post("128 prompts of 64 texts", "/v1/completions", ANY, || {
            format!(r#"{{"n":64,"max_tokens":1,"prompt":[{}]}}"#, repeated("\"a\"", 128))
        })
        .with_answer_of(4 << 20),
        Case::post("100,000 messages", "/v1/chat/completions", REFUSED, move || {
            format!(r#"{{"messages":[{}]}}"#, repeated(message, 100_000))
        }),
        Case::post("100,000 messages, rendered", "/apply-template", ANY, move || {
            format!(r#"{{"messages":[{}]}}"#, repeated(message, 100_000))
        })
        .with_answer_of(16 << 20),
        Case::post("100,000 messages of messages", "/v1/messages", REFUSED, move || {
            format!(r#"{{"max_tokens":1,"messages":[{}]}}"#, repeated(message, 100_000))
        }),
        Case::post("100,000 messages of Ollama's chat", "/api/chat", REFUSED, move || {
            format!(r#"{{"options":{{"num_predict":1}},"messages":[{}]}}"#, repeated(message, 100_000))
        }),
        Case::post("60,000 items of responses", "/v1/responses", REFUSED, move || {
            format!(r#"{{"input":[{}]}}"#, repeated(message, 60_000))
        }),
        Case::post("100,000 parts of a message", "/v1/chat/completions", REFUSED, || {
            format!(
                r#"{{"messages":[{{"role":"user","content":[{}]}}]}}"#,
                repeated(r#"{"type":"text","text":"a"}"#, 100_000)
            )
        }),
        Case::post("30,000 calls in a message", "/v1/chat/completions", REFUSED, move || {
            let call = r#"{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}"#;
            format!(
                r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{}]}},{message}]}}"#,
                repeated(call, 30_000)
            )
        }),
        Case::post("10,000 tools", "/v1/chat/completions", REFUSED, move || {
            format!(r#"{{"messages":[{message}],"tools":[{}]}}"#, repeated(tool, 10_000))
        }),
        Case::post("10,000 tools of which one is required", "/v1/chat/completions", REFUSED, move || {
            format!(r#"{{"messages":[{message}],"tool_choice":"required","tools":[{}]}}"#, repeated(tool, 10_000))
        }),
        Case::post("300 tools of which one is required", "/v1/chat/completions", ANY, move || {
            format!(
                r#"{{"messages":[{message}],"tool_choice":"required","max_tokens":2,"tools":[{}]}}"#,
                repeated(tool, 300)
            )
        }),
        Case::post("100,000 texts to embed", "/v1/embeddings", REFUSED, || {
            format!(r#"{{"input":[{}]}}"#, repeated("\"a\"", 100_000))
        }),
        Case::post("900,000 tokens as text", "/detokenize", ANY, || {
            format!(r#"{{"tokens":[{}]}}"#, repeated("9", 900_000))
        })
        .with_answer_of(16 << 20),
        Case::post("4 MB of one letter", "/tokenize", ANY, || json!({ "content": "a".repeat(4_000_000) }).to_string())
            .with_answer_of(64 << 20),
        Case::post("4 MB of spaces", "/tokenize", ANY, || json!({ "content": " ".repeat(4_000_000) }).to_string())
            .with_answer_of(64 << 20),
        Case::post("a million marks upon a letter", "/tokenize", ANY, || {
            json!({ "content": format!("a{}", "\u{301}".repeat(1_000_000)) }).to_string()
        })
        .with_answer_of(64 << 20),
        Case::post("300,000 control tokens", "/tokenize", ANY, || {
            json!({ "content": "<|user|>".repeat(300_000) }).to_string()
        })
        .with_answer_of(64 << 20),
        Case::post("4 MB of text as a prompt", "/completion", REFUSED, || {
            json!({ "prompt": "word ".repeat(800_000) }).to_string()
        }),
    ]
}

/// Names of a megabyte, which no answer and no error repeats.
pub fn long_names() -> Vec<Case> {
    let chat =
        |more: &str| format!(r#"{{"max_tokens":8,"stream":true,"messages":[{{"role":"user","content":"a"}}],{more}}}"#);
    let name = || "n".repeat(1_000_000);
    let mut cases = vec![];
    for field in
        ["model", "user", "reasoning_effort", "reasoning_format", "tool_choice", "safety_identifier", "service_tier"]
    {
        cases.push(Case::post(format!("a {field} of a megabyte"), "/v1/chat/completions", ANY, move || {
            chat(&format!("\"{field}\":\"{}\"", name()))
        }));
    }
    for field in ["model", "instructions", "truncation", "service_tier", "prompt_cache_key"] {
        let text = move || format!(r#"{{"max_output_tokens":8,"stream":true,"input":"a","{field}":"{}"}}"#, name());
        cases.push(
            Case::post(format!("{field} of responses of a megabyte"), "/v1/responses", ANY, text)
                .with_answer_of(8 << 20),
        );
    }
    for (what, path, before, after) in [
        (
            "a model of messages",
            "/v1/messages",
            r#"{"max_tokens":8,"stream":true,"messages":[{"role":"user","content":"a"}],"model":""#,
            r#""}"#,
        ),
        (
            "a model of completions",
            "/v1/completions",
            r#"{"max_tokens":8,"stream":true,"prompt":"a","model":""#,
            r#""}"#,
        ),
        (
            "a model of Ollama's chat",
            "/api/chat",
            r#"{"messages":[{"role":"user","content":"a"}],"options":{"num_predict":1},"model":""#,
            r#""}"#,
        ),
        ("a word for thoughts", "/api/chat", r#"{"messages":[{"role":"user","content":"a"}],"think":""#, r#""}"#),
        ("a format of Ollama's", "/api/generate", r#"{"prompt":"a","format":""#, r#""}"#),
        ("a time to stay loaded", "/api/generate", r#"{"prompt":"a","keep_alive":""#, r#""}"#),
        ("a name of a model to show", "/api/show", r#"{"model":""#, r#""}"#),
        ("a model of embeddings", "/v1/embeddings", r#"{"input":"a","model":""#, r#""}"#),
        ("a role", "/v1/chat/completions", r#"{"max_tokens":1,"messages":[{"content":"a","role":""#, r#""}]}"#),
        (
            "a type of a part",
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":[{"text":"a","type":""#,
            r#""}]}]}"#,
        ),
        ("a type of an item", "/v1/responses", r#"{"input":[{"type":""#, r#""}]}"#),
        (
            "a type of a format",
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":"a"}],"response_format":{"type":""#,
            r#""}}"#,
        ),
        ("a kind of vectors", "/v1/embeddings", r#"{"input":"a","encoding_format":""#, r#""}"#),
        (
            "a function that must be called",
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":""#,
            r#""}}}"#,
        ),
        (
            "a tool that must be called",
            "/v1/messages",
            r#"{"max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":""#,
            r#""}}"#,
        ),
        (
            "a name of a tool",
            "/v1/chat/completions",
            r#"{"max_tokens":1,"messages":[{"role":"user","content":"a"}],"tool_choice":"required","tools":[{"type":"function","function":{"name":""#,
            r#""}}]}"#,
        ),
        (
            "content that is no text",
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":{"a":""#,
            r#""}}]}"#,
        ),
        (
            "a choice that is none",
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":"a"}],"tool_choice":[""#,
            r#""]}"#,
        ),
        ("a token that is none", "/detokenize", r#"{"tokens":[""#, r#""]}"#),
        ("a bias that is none", "/completion", r#"{"prompt":"a","logit_bias":[[1,""#, r#""]]}"#),
        ("a pair that is none", "/completion", r#"{"prompt":"a","logit_bias":[[""#, r#""]]}"#),
        ("a number that is none", "/completion", r#"{"prompt":"a","n_predict":1,"temperature":1"#, "}"),
    ] {
        let accepted =
            if path == "/v1/messages" || what.contains("model") || what.contains("role") { ANY } else { REFUSED };
        let digits = after == "}";
        cases.push(Case::post(format!("{what} of a megabyte"), path, accepted, move || {
            let long = if digits { "1".repeat(1_000_000) } else { name() };
            format!("{before}{long}{after}")
        }));
    }
    let get = |path: String, headers: String| {
        move || format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").into_bytes()
    };
    cases.push(Case::raw(
        "a model of 30 kB in the path",
        &[400, 404, 414],
        get(format!("/v1/models/{}", "n".repeat(30_000)), String::new()),
    ));
    cases.push(Case::raw(
        "escapes in the path",
        &[400, 404],
        get("/v1/models/%1b%5b31m%00%0d%0a%ff".into(), String::new()),
    ));
    cases.push(Case::raw(
        "an id of a request of 30 kB",
        &[200, 400, 431],
        get("/v1/models".into(), format!("X-Request-Id: {}\r\n", "i".repeat(30_000))),
    ));
    cases.push(Case::raw(
        "a key of 30 kB",
        &[200, 400, 401, 431],
        get("/v1/models".into(), format!("Authorization: Bearer {}\r\n", "k".repeat(30_000))),
    ));
    cases
}
