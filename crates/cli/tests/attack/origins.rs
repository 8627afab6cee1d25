//! Web pages that would use the server: names that point to this machine, other origins, and posts that need no leave.

use super::Case;
use super::wire::{self, Response};

/// The refusal of somebody who may not ask, whatever the server calls it.
const NOT_YOURS: &[u16] = &[400, 403, 421];

/// The refusal of a body whose type a page may send without leave.
const NOT_THIS: &[u16] = &[400, 403, 415];

const GOOD: &[u16] = &[200];

/// A request with these headers and no others.
fn bare(port: u16, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let headers = headers.replace("PORT", &port.to_string());
    let head =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    Response::read(wire::send(port, (head + body).as_bytes()))
}

fn get(path: &'static str, accepted: &'static [u16], headers: &'static str) -> Case {
    let name = format!("GET {path} with {}", headers.trim_end().replace("\r\n", ", "));
    Case::new(name, accepted, move |port| vec![bare(port, "GET", path, headers, "")])
}

fn post(accepted: &'static [u16], headers: &'static str) -> Case {
    let name = format!("a post with {}", headers.trim_end().replace("\r\n", ", "));
    Case::new(name, accepted, move |port| vec![bare(port, "POST", "/tokenize", headers, "{\"content\":\"a\"}")])
}

/// A page of this origin asks, in all ways that pages have.
fn page(origin: &'static str, may: bool) -> Case {
    let accepted = if may { GOOD } else { NOT_YOURS };
    let name = if may { format!("a page of {origin} may ask") } else { format!("a page of {origin} may not ask") };
    Case::new(name, accepted, move |port| {
        let own = origin.replace("PORT", &port.to_string());
        let host = format!("Host: localhost:{port}\r\nOrigin: {own}\r\n");
        let json = format!("{host}Content-Type: application/json\r\n");
        let leave =
            format!("{host}Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n");
        let asked = bare(port, "OPTIONS", "/v1/chat/completions", &leave, "");
        let allowed = asked.status < 300 && asked.head.contains("access-control-allow-origin");
        assert_eq!(allowed, may, "leave for {origin}: {} {}", asked.status, asked.head);
        let answers = vec![
            bare(port, "GET", "/v1/models", &host, ""),
            bare(port, "POST", "/tokenize", &json, "{\"content\":\"a\"}"),
        ];
        for answer in &answers {
            let told = answer.head.contains("access-control-allow-origin");
            assert_eq!(told, may, "{origin} may read: {}", answer.head);
        }
        answers
    })
}

/// Names in `Host` that are not this machine's.
const STRANGERS: [&str; 12] = [
    "Host: a.example\r\n",
    "Host: a.example:PORT\r\n",
    "Host: localhost.a.example:PORT\r\n",
    "Host: 127.0.0.1.a.example:PORT\r\n",
    "Host: notlocalhost:PORT\r\n",
    "Host: localhost@a.example:PORT\r\n",
    "Host: a.example#localhost\r\n",
    "Host: localhost,a.example\r\n",
    "Host: [::1.a.example\r\n",
    "Host: x\r\n",
    "Host: localhost\r\nHost: a.example\r\n",
    "Host: a.example\r\nHost: localhost\r\n",
];

/// What holds without flags.
pub fn by_default() -> Vec<Case> {
    let mut cases = vec![];
    for host in STRANGERS {
        cases.push(get("/v1/models", NOT_YOURS, host));
        cases.push(get("/", NOT_YOURS, host));
        cases.push(post(NOT_YOURS, host));
    }
    for host in [
        "Host: localhost\r\n",
        "Host: localhost:PORT\r\n",
        "Host: LocalHost:PORT\r\n",
        "Host: 127.0.0.1:PORT\r\n",
        "Host: 127.0.0.1\r\n",
        "Host: [::1]:PORT\r\n",
    ] {
        cases.push(get("/v1/models", GOOD, host));
        cases.push(get("/", GOOD, host));
        cases.push(post(GOOD, host));
    }
    for origin in [
        "http://localhost:PORT",
        "http://127.0.0.1:PORT",
        "http://localhost:3000",
        "http://[::1]:5173",
        "http://localhost",
    ] {
        cases.push(page(origin, true));
    }
    for origin in [
        "http://a.example",
        "https://a.example",
        "http://a.example:PORT",
        "http://localhost.a.example",
        "null",
        "http://127.0.0.1.a.example:PORT",
        "http://notlocalhost:PORT",
        "http://localhost@a.example",
        "app://obsidian.md",
        "tauri://localhost",
        "vscode-webview://abc",
        "file://",
        "chrome-extension://abc",
        "http://",
        "localhost",
        "*",
    ] {
        cases.push(page(origin, false));
    }
    let local = "Host: localhost:PORT\r\nSec-Fetch-Site: cross-site\r\n";
    for path in ["/v1/models", "/health", "/props", "/slots"] {
        cases.push(get(path, NOT_YOURS, local));
        cases.push(get(path, NOT_YOURS, "Host: localhost:PORT\r\nOrigin: null\r\n"));
        cases.push(get(path, NOT_YOURS, "Host: localhost:PORT\r\nOrigin: null\r\nSec-Fetch-Site: cross-site\r\n"));
        cases.push(get(path, GOOD, "Host: localhost:PORT\r\nSec-Fetch-Site: same-origin\r\n"));
        cases.push(get(path, GOOD, "Host: localhost:PORT\r\nSec-Fetch-Site: none\r\n"));
    }
    cases.push(get(
        "/page/main.js",
        GOOD,
        "Host: localhost:PORT\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n",
    ));
    // Programs that are no browsers, such as curl -d, name no origin, and the type that they always name.
    for headers in [
        "Host: localhost:PORT\r\n",
        "Host: localhost:PORT\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "Host: localhost:PORT\r\nContent-Type: text/plain\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: application/json\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: application/json; charset=utf-8\r\n",
        "Host: localhost:PORT\r\nSec-Fetch-Site: same-origin\r\nContent-Type: Application/JSON\r\n",
    ] {
        cases.push(post(GOOD, headers));
    }
    for headers in [
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: text/plain\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: text/plain; application/json\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: multipart/form-data; boundary=a\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Type: application/jsonp\r\n",
        "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\n",
        "Host: localhost:PORT\r\nSec-Fetch-Site: same-origin\r\nContent-Type: text/plain\r\n",
        "Host: localhost:PORT\r\nSec-Fetch-Site: none\r\nContent-Type: text/plain\r\n",
        "Host: localhost:PORT\r\nOrigin: http://a.example\r\nContent-Type: text/plain\r\n",
        "Host: localhost:PORT\r\nSec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n",
        "Host: localhost:PORT\r\nSec-Fetch-Site: cross-site\r\nContent-Type: application/json\r\n",
    ] {
        cases.push(post(NOT_THIS, headers));
    }
    cases
}

/// Flags of a server for shells of desktops and another name, and what holds with them.
pub const FLAGS: [&str; 4] = [
    "--cors-origins",
    "app://obsidian.md,tauri://localhost,http://a.example:3000",
    "--allowed-hosts",
    "kernloom.example",
];

pub fn by_flags() -> Vec<Case> {
    let mut cases: Vec<Case> =
        ["app://obsidian.md", "tauri://localhost", "http://a.example:3000"].map(|origin| page(origin, true)).into();
    for origin in ["app://other", "http://a.example", "https://a.example:3000", "http://a.example:30000", "null"] {
        cases.push(page(origin, false));
    }
    for host in ["Host: kernloom.example\r\n", "Host: Kernloom.Example:8080\r\n", "Host: localhost:PORT\r\n"] {
        cases.push(get("/v1/models", GOOD, host));
    }
    for host in STRANGERS {
        cases.push(get("/v1/models", NOT_YOURS, host));
    }
    cases
}

/// What holds with a key, which no page has: any name may be used for the machine.
pub const KEY: [&str; 2] = ["--api-key", "secret"];

pub fn by_key() -> Vec<Case> {
    let key = "Host: a.example\r\nAuthorization: Bearer secret\r\n";
    let page = "Host: a.example\r\nOrigin: http://b.example\r\nContent-Type: application/json\r\n";
    vec![
        get("/v1/models", GOOD, key),
        get("/v1/models", &[400, 401, 403, 421], "Host: a.example\r\n"),
        post(&[401, 403], page),
    ]
}
