//! Bodies that are long, deep or wide, whatever they say.

use super::wire::{self, Response, request, send};
use super::{ANY, Case, REFUSED};
use std::io::Write;
use std::thread;

/// Bytes just below the default of `--body-limit`.
const BELOW: usize = (4 << 20) - 4096;

/// Bytes far above it.
const ABOVE: usize = 60_000_000;

/// A request with something in a field that is ignored.
fn ignored(what: &str) -> String {
    format!(r#"{{"prompt":"a","n_predict":1,"ignored":{what}}}"#)
}

/// Something in the field that is ignored at `/completion`.
fn case(name: &'static str, accepted: &'static [u16], what: impl Fn() -> String + 'static) -> Case {
    Case::post(name, "/completion", accepted, move || ignored(&what()))
}

fn brackets(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn list(item: &str, bytes: usize) -> String {
    let count = bytes / (item.len() + 1);
    format!("[{}{item}]", format!("{item},").repeat(count - 1))
}

/// A body in chunks, whose length nobody says.
fn chunked(port: u16, body: &[u8]) -> Response {
    let head = format!(
        "POST /completion HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut stream = send(port, head.as_bytes());
    for piece in body.chunks(1 << 16) {
        let size = format!("{:x}\r\n", piece.len());
        if stream.write_all(&[size.as_bytes(), piece, b"\r\n"].concat()).is_err() {
            break;
        }
    }
    let _ = stream.write_all(b"0\r\n\r\n");
    Response::read(stream)
}

fn at_once(count: usize, body: impl Fn() -> String + 'static) -> impl Fn(u16) -> Vec<Response> {
    move |port| {
        let body = body();
        thread::scope(|scope| {
            let asking: Vec<_> =
                (0..count).map(|_| scope.spawn(|| wire::post(port, "/completion", body.as_bytes()))).collect();
            asking.into_iter().map(|asked| asked.join().expect("an answer")).collect()
        })
    }
}

/// What is refused by its length, as the server is by default.
pub fn too_long() -> Vec<Case> {
    const LONG: &[u16] = &[413];
    vec![
        case("60 MB of nested empty lists", LONG, || list("[[[[[]]]]]", ABOVE)),
        case("60 MB of empty lists", LONG, || list("[]", ABOVE)),
        case("60 MB of text", LONG, || format!("\"{}\"", "a".repeat(ABOVE))),
        case("more than the limit by little", LONG, || format!("\"{}\"", "a".repeat((4 << 20) + 1))),
        Case::new("60 MB in chunks", LONG, |port| vec![chunked(port, ignored(&list("[]", ABOVE)).as_bytes())]),
        Case::raw("a length of 2^63", &[400, 413], || {
            b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9223372036854775808\r\n\r\n{}".to_vec()
        }),
    ]
}

/// What a server takes that was told to take 64 MB: memory is bounded all the same.
pub fn long() -> Vec<Case> {
    vec![
        case("60 MB of nested empty lists, taken", ANY, || list("[[[[[]]]]]", ABOVE)),
        case("60 MB of empty lists, taken", ANY, || list("[]", ABOVE)),
        case("60 MB of objects, taken", ANY, || list("{\"a\":{}}", ABOVE)),
        case("60 MB of text, taken", ANY, || format!("\"{}\"", "\\u0000".repeat(ABOVE / 6))),
        Case::new("four times 60 MB of empty lists at once", ANY, at_once(4, || ignored(&list("[]", ABOVE)))),
    ]
}

/// What may be within the limit of bytes.
pub fn within() -> Vec<Case> {
    let mut cases = vec![
        case("empty lists to the limit", REFUSED, || list("[]", BELOW)),
        case("nested empty lists to the limit", REFUSED, || list("[[[[[]]]]]", BELOW)),
        case("empty objects to the limit", REFUSED, || list("{}", BELOW)),
        case("zeros to the limit", REFUSED, || list("0", BELOW)),
        case("900,000 zeros", ANY, || list("0", 1_800_000)),
        Case::new("four bodies to the limit at once", ANY, at_once(4, || ignored(&list("[]", BELOW)))),
        Case::new(
            "sixteen bodies of text to the limit at once",
            ANY,
            at_once(16, || ignored(&format!("\"{}\"", "a".repeat(BELOW - 100)))),
        ),
        case("300,000 keys", ANY, || {
            let keys: Vec<String> = (0..300_000).map(|n| format!("\"{n:x}\":0")).collect();
            format!("{{{}}}", keys.join(","))
        }),
        Case::post("300,000 keys of the body", "/completion", ANY, || {
            let keys: String = (0..300_000).map(|n| format!("\"{n:x}\":0,")).collect();
            format!(r#"{{{keys}"prompt":"a","n_predict":1}}"#)
        }),
        Case::post("the same key 300,000 times", "/completion", ANY, || {
            format!(r#"{{{}"prompt":"a","n_predict":1}}"#, "\"prompt\":\"b\",".repeat(290_000))
        }),
        case("a key of 4 MB", ANY, || format!("{{\"{}\":0}}", "k".repeat(BELOW - 200))),
        case("600,000 escaped zeros", ANY, || format!("\"{}\"", "\\u0000".repeat(600_000))),
        case("lone surrogates", &[200, 400], || format!("\"{}\"", "\\ud800".repeat(10_000))),
        case("1e999999", &[200, 400], || "1e999999".into()),
        case("a whole number of 100,000 digits", &[200, 400], || "9".repeat(100_000)),
        case("a fraction of 4,000,000 digits", &[200, 400, 413], || format!("0.{}", "1".repeat(4_000_000))),
        case("an exponent of 100,000 digits", &[200, 400], || format!("1e-{}", "9".repeat(100_000))),
        Case::raw("bytes that are no text", &[400], || {
            let body = b"{\"prompt\":\"\xff\xfe\xc0\x80\",\"n_predict\":1}";
            let head = format!(
                "POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            [head.as_bytes(), body].concat()
        }),
    ];
    for (name, open, close) in [("lists", "[", "]"), ("objects", "{\"a\":", "}"), ("both", "[{\"a\":", "}]")] {
        for depth in [100, 1_000, 100_000, 400_000] {
            let within = move || format!("{}0{}", open.repeat(depth), close.repeat(depth));
            cases.push(Case::post(format!("{depth} nested {name}, ignored"), "/completion", ANY, move || {
                ignored(&within())
            }));
            let (path, name) = ("/completion", format!("{depth} nested {name} as the body"));
            cases.push(Case::post(name, path, REFUSED, within));
        }
        cases.push(Case::post(format!("400,000 open {name}"), "/tokenize", REFUSED, move || open.repeat(400_000)));
    }
    for (name, path, before, after) in PLACES {
        cases.push(Case::post(format!("100,000 nested lists in {name}"), path, ANY, move || {
            format!("{before}{}{after}", brackets(100_000))
        }));
        cases.push(Case::post(format!("120 nested lists in {name}"), path, ANY, move || {
            format!("{before}{}{after}", brackets(100))
        }));
    }
    // Text that templates and parsers of calls read as JSON.
    for depth in [120, 100_000] {
        cases.push(Case::post(format!("{depth} nested lists in the text of arguments"), "/v1/chat/completions", ANY, move || {
            format!(r#"{{"max_tokens":1,"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"1","type":"function","function":{{"name":"f","arguments":"{{\"a\":{}}}"}}}}]}},{{"role":"tool","tool_call_id":"1","content":"b"}}]}}"#, brackets(depth))
        }));
        cases.push(Case::post(format!("{depth} nested lists in the text of a call of responses"), "/v1/responses", ANY, move || {
            format!(r#"{{"max_output_tokens":1,"input":[{{"role":"user","content":"a"}},{{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}}]}}"#, brackets(depth))
        }));
    }
    cases
}

/// Fields in which something nested may lie, or be refused.
const PLACES: [(&str, &str, &str, &str); 14] = [
    ("prompt", "/completion", r#"{"n_predict":1,"prompt":"#, "}"),
    ("content", "/v1/chat/completions", r#"{"max_tokens":1,"messages":[{"role":"user","content":"#, "}]}"),
    (
        "a part of content",
        "/v1/chat/completions",
        r#"{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a","x":"#,
        "}]}]}",
    ),
    (
        "arguments",
        "/v1/chat/completions",
        r#"{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"#,
        "}}]}]}",
    ),
    (
        "a field of a message",
        "/v1/chat/completions",
        r#"{"max_tokens":1,"messages":[{"role":"user","content":"a","x":"#,
        "}]}",
    ),
    (
        "chat_template_kwargs",
        "/v1/chat/completions",
        r#"{"max_tokens":1,"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"x":"#,
        "}}",
    ),
    (
        "the input of a call",
        "/v1/messages",
        r#"{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":"#,
        r#"}]},{"role":"user","content":"b"}]}"#,
    ),
    ("system", "/v1/messages", r#"{"max_tokens":1,"messages":[{"role":"user","content":"a"}],"system":"#, "}"),
    ("metadata", "/v1/responses", r#"{"max_output_tokens":1,"input":"a","metadata":{"x":"#, "}}"),
    ("input", "/v1/embeddings", r#"{"input":"#, "}"),
    ("logit_bias", "/completion", r#"{"prompt":"a","n_predict":1,"logit_bias":"#, "}"),
    ("tokens", "/detokenize", r#"{"tokens":"#, "}"),
    ("options", "/api/generate", r#"{"prompt":"a","raw":true,"options":{"num_predict":1,"x":"#, "}}"),
    (
        "arguments of a call of Ollama's",
        "/api/chat",
        r#"{"options":{"num_predict":1},"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":"#,
        "}}}]}]}",
    ),
];

/// Bodies that come slowly, or only to their half.
pub fn halves(port: u16) -> Vec<u8> {
    let whole = request(port, "POST", "/completion", "", ignored(&list("[]", 100_000)).as_bytes());
    whole[..whole.len() / 2].to_vec()
}
