//! Connections that say nothing, too little, too much, or leave; and what is no HTTP.

use super::bodies::halves;
use super::wire::{self, CLOSED, Response, connect, request, send};
use super::{Case, NO_HTTP};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

/// How long connections are held that do nothing: some streams of others long.
const HELD: Duration = Duration::from_millis(300);

/// Connections at a time.
const MANY: usize = 200;

/// Connections that all have sent the same, and stay for a while.
fn held(count: usize, bytes: impl Fn(u16) -> Vec<u8> + 'static) -> impl Fn(u16) {
    move |port| {
        let bytes = bytes(port);
        let held: Vec<TcpStream> = (0..count).map(|_| send(port, &bytes)).collect();
        thread::sleep(HELD);
        drop(held);
    }
}

/// A request that is left after a while, many times.
fn left(path: &'static str, body: String, after: Duration) -> impl Fn(u16) {
    move |port| {
        for _ in 0..24 {
            let stream = send(port, &request(port, "POST", path, "", body.as_bytes()));
            thread::sleep(after);
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Those who wait, and those who leave.
pub fn idle() -> Vec<Case> {
    let endless = |prompt: String| json!({ "prompt": prompt, "n_predict": 900, "ignore_eos": true, "stream": true });
    let late = Duration::from_millis(15);
    vec![
        Case::leaving("connections that say nothing", held(MANY, |_| vec![])),
        Case::leaving(
            "heads that have no end",
            held(MANY, |_| b"POST /completion HTTP/1.1\r\nHost: localhost\r\nX-A: b".to_vec()),
        ),
        Case::leaving("bodies that stall at their half", held(MANY, halves)),
        Case::leaving(
            "chunks that stall",
            held(MANY, |_| {
                b"POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{\"prompt\""
                    .to_vec()
            }),
        ),
        Case::leaving(
            "clients that wait to be told that they may send",
            held(MANY, |_| {
                b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n".to_vec()
            }),
        ),
        Case::new("a body byte by byte", &[200], |port| {
            let whole = request(port, "POST", "/tokenize", "", br#"{"content":"a"}"#);
            let mut stream = connect(port);
            for byte in whole {
                stream.write_all(&[byte]).expect("it is taken");
                thread::sleep(Duration::from_millis(1));
            }
            vec![Response::read(stream)]
        }),
        Case::leaving(
            "clients that leave at once",
            left("/completion", endless("a".into()).to_string(), Duration::ZERO),
        ),
        Case::leaving(
            "clients that leave during the stream",
            left("/completion", endless("a".into()).to_string(), late),
        ),
        Case::leaving("clients that leave during the prompt", {
            left("/completion", endless("a b c d e f g h ".repeat(60)).to_string(), Duration::from_millis(2))
        }),
        Case::leaving("clients that do not read", |port| {
            let body = json!({ "prompt": "a", "n_predict": 900, "ignore_eos": true, "stream": true, "n_probs": 100 })
                .to_string();
            let held: Vec<TcpStream> =
                (0..8).map(|_| send(port, &request(port, "POST", "/completion", "", body.as_bytes()))).collect();
            thread::sleep(HELD);
            drop(held);
        }),
        Case::new("a client that says that it sends no more", &[200, CLOSED], |port| {
            let body = json!({ "prompt": "a", "n_predict": 2 }).to_string();
            vec![wire::send_all(port, &request(port, "POST", "/completion", "", body.as_bytes()))]
        }),
    ]
}

/// What begins like a request and is none.
pub fn broken() -> Vec<Case> {
    const BROKEN: &[u16] = &[400, CLOSED];
    let chunks = |text: &'static [u8]| {
        move || {
            [b"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", text].concat()
        }
    };
    let head = |lines: &'static str| {
        move || {
            format!("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n{{}}").into_bytes()
        }
    };
    let get = |lines: String| {
        move || format!("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n").into_bytes()
    };
    let mut cases = vec![
        Case::raw("a chunk without a size", BROKEN, chunks(b"zz\r\n{}\r\n0\r\n\r\n")),
        Case::raw("a chunk of 2^64", BROKEN, chunks(b"10000000000000000\r\n{}")),
        Case::cut("a chunk of 2^64 - 1", &[400, 413, CLOSED], chunks(b"ffffffffffffffff\r\n{}")),
        Case::raw("a chunk of a size below zero", BROKEN, chunks(b"-1\r\n{}\r\n0\r\n\r\n")),
        Case::raw("a chunk that goes on", BROKEN, chunks(b"2\r\n{}xxxx\r\n0\r\n\r\n")),
        Case::cut("a chunk that is cut", BROKEN, chunks(b"64\r\n{\"prompt\"")),
        Case::cut("chunks without an end", BROKEN, chunks(b"2\r\n{}\r\n")),
        Case::cut("no chunk at all", BROKEN, chunks(b"")),
        Case::cut("a chunk with a remark of 1 MB", BROKEN, || {
            let head = b"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2;";
            [&head[..], &vec![b'a'; 1_000_000], b"\r\n{}\r\n0\r\n\r\n"].concat()
        }),
        Case::cut("trailers of 1 MB", &[200, 400, 431, CLOSED], || {
            let head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
            [&head[..], &b"X-Trailer: some text\r\n".repeat(50_000), b"\r\n"].concat()
        }),
        Case::cut("a body that is cut", BROKEN, || {
            b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{}".to_vec()
        }),
        Case::cut("two lengths", BROKEN, head("Content-Length: 2\r\nContent-Length: 3\r\n")),
        Case::cut("a length below zero", BROKEN, head("Content-Length: -1\r\n")),
        Case::cut("a length with a sign", BROKEN, head("Content-Length: +2\r\n")),
        Case::raw(
            "a length and chunks",
            &[200, 400, CLOSED],
            head("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
        ),
        Case::cut("an encoding that nobody knows", &[400, 501, CLOSED], head("Transfer-Encoding: gzip\r\n")),
        Case::raw(
            "an expectation that nobody knows",
            &[200, 400, 417],
            head("Content-Length: 2\r\nExpect: 500-tea\r\n"),
        ),
        Case::raw(
            "a body that was told to be packed",
            &[200, 400, 415],
            head("Content-Length: 2\r\nContent-Encoding: br\r\n"),
        ),
        Case::cut("1,000 headers", NO_HTTP, get((0..1_000).map(|n| format!("X-{n}: a\r\n")).collect())),
        Case::cut("a header of 1 MB", NO_HTTP, get(format!("X-A: {}\r\n", "a".repeat(1_000_000)))),
        Case::cut("a name of a header of 100 kB", NO_HTTP, get(format!("{}: a\r\n", "X".repeat(100_000)))),
        Case::raw("a zero in a header", NO_HTTP, get("X-A: a\0b\r\n".into())),
        Case::raw("a header that is folded", NO_HTTP, get("X-A: a\r\n b\r\n".into())),
        Case::raw("a header without a name", NO_HTTP, get(": a\r\n".into())),
        Case::cut("a path of 1 MB", &[400, 404, 414, 431, CLOSED], || {
            format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1_000_000)).into_bytes()
        }),
        Case::cut("a method of 1 MB", &[400, 405, 414, 431, CLOSED], || {
            format!("{} / HTTP/1.1\r\nHost: localhost\r\n\r\n", "A".repeat(1_000_000)).into_bytes()
        }),
        Case::cut("a word of the oldest kind", NO_HTTP, || b"GET /\n".to_vec()),
        Case::cut("the beginning of HTTP/2", NO_HTTP, || {
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()
        }),
        Case::cut("the beginning of TLS", NO_HTTP, || b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec()),
        Case::cut("1 MB of zeros", NO_HTTP, || vec![0; 1_000_000]),
        Case::cut("1 MB of letters", &[400, 405, 414, 431, CLOSED], || vec![b'a'; 1_000_000]),
        Case::cut("a version of its own", NO_HTTP, || b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n".to_vec()),
        Case::cut("a tunnel", &[400, 403, 404, 405, CLOSED], || {
            b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nConnection: close\r\n\r\n".to_vec()
        }),
        Case::raw("another protocol", &[200, 400], get("Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n".into())),
        Case::raw("a body where none belongs", &[200, 400, CLOSED], || {
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello".to_vec()
        }),
    ];
    cases.push(Case::new("a hundred requests before the first answer", &[200], |port| {
        let one = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(99);
        let last = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut stream = send(port, (one + last).as_bytes());
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answers");
        assert_eq!(text.matches("HTTP/1.1 200").count(), 100, "{text}");
        vec![]
    }));
    cases.push(Case::cut("junk behind a request", &[200], || {
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n\x01\x02\x03 junk\r\n\r\n".to_vec()
    }));
    cases
}
