//! HTTP as an attacker speaks it: bytes out, and whatever comes back.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// What a connection gets that is closed without a status.
pub const CLOSED: u16 = 0;

/// How long the answer to anything may take: a hang is a failure, a slow machine is none.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came back.
pub struct Response {
    /// The status, or [`CLOSED`].
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// Reads to the end of the connection.
    pub fn read(mut stream: TcpStream) -> Response {
        let mut bytes = vec![];
        if let Err(error) = stream.read_to_end(&mut bytes) {
            let late = matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            assert!(!late, "no end of an answer after {} bytes in {PATIENCE:?}", bytes.len());
        }
        Response::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Response {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.strip_prefix("http/1.1 ").or(head.strip_prefix("http/1.0 "));
        let status = status.and_then(|rest| rest.get(..3)?.parse().ok()).unwrap_or(CLOSED);
        let body = bytes.get(end + 4..).unwrap_or_default();
        // Before the answer itself comes a word that the body may be sent.
        if status == 100 {
            return Response::of(body);
        }
        let body = if head.contains("transfer-encoding: chunked") { dechunked(body) } else { body.to_vec() };
        Response { status, head, body }
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.start()))
    }

    /// The beginning, for messages.
    pub fn start(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body[..self.body.len().min(300)]))
    }

    /// What its events carry.
    pub fn events(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.body);
        let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let piece = size.filter(|&size| size > 0).and_then(|size| rest.get(end + 2..end + 2 + size));
        let Some(piece) = piece else { break };
        out.extend_from_slice(piece);
        rest = rest.get(end + 2 + piece.len() + 2..).unwrap_or_default();
    }
    out
}

/// A connection to a port of this machine.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Sends bytes. A server that refuses what comes may close before it has all of it.
pub fn send(port: u16, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(port);
    let _ = stream.write_all(bytes);
    stream
}

/// The bytes of a request to a server's own address.
pub fn request(port: u16, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Posts JSON and reads the answer.
pub fn post(port: u16, path: &str, body: &[u8]) -> Response {
    Response::read(send(port, &request(port, "POST", path, "Content-Type: application/json\r\n", body)))
}

pub fn get(port: u16, path: &str) -> Response {
    Response::read(send(port, &request(port, "GET", path, "", b"")))
}

/// Sends bytes, says that there are no more, and reads the answer.
pub fn send_all(port: u16, bytes: &[u8]) -> Response {
    let stream = send(port, bytes);
    let _ = stream.shutdown(Shutdown::Write);
    Response::read(stream)
}
