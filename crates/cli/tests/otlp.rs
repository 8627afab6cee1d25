//! A server whose requests are spans for a collector of traces.

use crate::support::{command, serving};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Takes a request and answers it with 200. What its head and its body were.
fn taken(stream: TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim().is_empty() {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(answer).expect("it listens");
    (head, body)
}

/// A completion as part of a trace, kept or not; the span that the answer tells.
fn ask(port: u16, flags: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    let body = r#"{"prompt": "a b c", "max_tokens": 4}"#;
    write!(
        stream,
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\
         Traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n\r\n{body}",
        body.len()
    )
    .expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("traceparent:")).expect("a trace");
    line.rsplit('-').nth(1).expect("a span").to_owned()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits")).collect()
}

fn count(body: &[u8], what: &[u8]) -> usize {
    body.windows(what.len()).filter(|window| *window == what).count()
}

#[test]
fn requests_of_a_trace_are_spans_below_who_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (send, heard) = mpsc::channel();
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| send.send(taken(stream)).unwrap_or_default());
    });
    let args = ["serve", "--port", "0", "-t", "1", "-c", "256", "--log-disable", "--otlp-traces-endpoint", &endpoint];
    let (mut child, port, mut lines) = serving(command(&args));
    assert!(lines.any(|line| line.starts_with("ready: ")));
    let (told, unsampled) = (ask(port, "01"), ask(port, "00"));
    let (head, body) = heard.recv_timeout(Duration::from_secs(60)).expect("spans");
    assert!(head.starts_with("POST /v1/traces"), "{head}");
    // The request and its three parts, of which the request alone is below who asked.
    assert_eq!([TRACE, PARENT].map(|id| count(&body, &bytes(id))), [4, 1]);
    // The span that was told, once itself and above each part.
    assert_eq!([&told, &unsampled].map(|id| count(&body, &bytes(id))), [4, 0]);
    for word in ["queue", "prompt", "decode", "gen_ai.usage.output_tokens", "kernloom"] {
        assert!(count(&body, word.as_bytes()) > 0, "{word}");
    }
    child.kill().and_then(|()| child.wait()).expect("it ends");
}
