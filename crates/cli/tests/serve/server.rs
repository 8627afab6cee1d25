//! A server in a process of its own, and what it answers.

use crate::support::{command, serving, text, tiny};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a test waits for what must come. Only what hangs takes longer: a machine that runs all tests at once is slow, and
/// kernels that are compiled behind a server have a low priority.
pub(super) const PATIENCE: Duration = Duration::from_secs(500);

/// A server on a port of its own; it ends with the value.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) port: u16,
    pub(super) log: mpsc::Receiver<String>,
}

impl Server {
    /// Starts a server and waits until it takes requests.
    pub(super) fn start(flags: &[&str]) -> Server {
        let server = Server::start_loading("tiny-llama", flags);
        server.wait_until_ready();
        server
    }

    pub(super) fn start_loading(shape: &str, flags: &[&str]) -> Server {
        let path = tiny(shape, "q4_0");
        let base = ["serve", text(&path), "--port", "0", "-t", "1", "-c", "1024", "--kv-unified", "--metrics"];
        Server::of(command(&[&base[..], flags].concat()))
    }

    pub(super) fn of(command: Command) -> Server {
        let (child, port, mut lines) = serving(command);
        let (sender, log) = mpsc::channel();
        std::thread::spawn(move || lines.try_for_each(|line| sender.send(line)));
        Server { child, port, log }
    }

    pub(super) fn wait_until_ready(&self) {
        let end = Instant::now() + PATIENCE;
        while self.get("/health").status != 200 {
            assert!(Instant::now() < end, "it never gets ready: {:?}", self.log.try_iter().collect::<Vec<_>>());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn open(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
        open(self.port, method, path, headers, body)
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Response {
        Response::read(self.open(method, path, headers, body))
    }

    pub(super) fn get(&self, path: &str) -> Response {
        self.ask("GET", path, "", b"")
    }

    pub(super) fn post(&self, path: &str, body: Value) -> Response {
        self.ask("POST", path, "", body.to_string().as_bytes())
    }

    /// The number of a metric.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().expect("a number").parse().expect("a number")
    }

    pub(super) fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn open(port: u16, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the head is taken");
    // A server that refuses a body closes early.
    let _ = stream.write_all(body);
    stream
}

/// Asks a server by its port, from any thread.
pub(super) fn post(port: u16, path: &str, body: &Value) -> Response {
    Response::read(open(port, "POST", path, "", body.to_string().as_bytes()))
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Response {
    pub(super) fn read(mut stream: TcpStream) -> Response {
        let mut bytes = vec![];
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("UTF-8");
        let Some((head, body)) = text.split_once("\r\n\r\n") else { panic!("no response: {text:?}") };
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { dechunked(body) } else { body.to_owned() };
        Response { status, head: head.to_lowercase(), body }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The data of all events.
    pub(super) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(self.head.contains("text/event-stream"), "{}", self.head);
        let data = self.body.split("\n\n").filter_map(|event| event.lines().find_map(|l| l.strip_prefix("data: ")));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    /// The type of an error, which must have this status.
    pub(super) fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json()["error"].clone();
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{self:?}");
        error["type"].as_str().expect("a type").to_owned()
    }
}

fn dechunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        if size == 0 {
            break;
        }
        out.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    out
}
