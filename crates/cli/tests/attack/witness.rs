//! Somebody with good manners, who uses the server during an attack and must not notice it.

use super::wire::{self, Response, get, post, request, send};
use anyhow::{Result, anyhow, ensure};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long `/health` may take: far more than it takes anywhere, and less than a stall.
const HEALTH: Duration = Duration::from_secs(5);

/// Tokens of a stream: long enough to be in the middle of it when an attack begins.
const TOKENS: usize = 96;

fn body(stream: bool) -> Vec<u8> {
    let body = json!({ "prompt": "Once there was a fox who", "n_predict": TOKENS, "temperature": 0, "ignore_eos": true,
        "stream": stream });
    body.to_string().into_bytes()
}

/// The text that a stream has while nobody else is there.
pub fn alone(port: u16) -> String {
    let whole = post(port, "/completion", &body(false));
    assert_eq!(whole.status, 200, "{}", whole.start());
    whole.json()["content"].as_str().expect("text").to_owned()
}

/// Streams one after the other, and asks after the server's health, from its start to its end.
pub struct Witness {
    over: Arc<AtomicBool>,
    seen: [JoinHandle<Result<()>>; 2],
}

impl Witness {
    /// Begins. When this returns, a stream is under way.
    pub fn start(port: u16, text: &str) -> Witness {
        let first = open(port);
        // What went wrong is told by who reads it.
        let _ = first.peek(&mut [0]);
        let over = Arc::new(AtomicBool::new(false));
        let (mut next, until, text) = (Some(first), over.clone(), text.to_owned());
        let streams = std::thread::spawn(move || {
            while let Some(stream) = next.take().or_else(|| (!until.load(Ordering::SeqCst)).then(|| open(port))) {
                check(&Response::read(stream), &text)?;
            }
            Ok(())
        });
        let until = over.clone();
        let health = std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                let asked = Instant::now();
                let answer = get(port, "/health");
                ensure!(answer.status == 200, "/health: {}", answer.start());
                ensure!(asked.elapsed() < HEALTH, "/health answered after {:?}", asked.elapsed());
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        });
        Witness { over, seen: [streams, health] }
    }

    /// Reads the last stream to its end. An error tells what was not as it should be.
    pub fn end(self) -> Result<()> {
        self.over.store(true, Ordering::SeqCst);
        self.seen.into_iter().try_for_each(|seen| seen.join().unwrap_or_else(|panic| Err(anyhow!(told(panic)))))
    }
}

/// What somebody said who panicked.
pub fn told(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "?".to_owned(), |text| (*text).to_owned()),
    }
}

fn open(port: u16) -> std::net::TcpStream {
    send(port, &request(port, "POST", "/completion", "Content-Type: application/json\r\n", &body(true)))
}

/// A stream is refused while others have all of the memory; one that has begun has its whole text.
fn check(stream: &Response, text: &str) -> Result<()> {
    if stream.status == 429 {
        return Ok(());
    }
    ensure!(stream.status != wire::CLOSED, "a stream was cut");
    ensure!(stream.status == 200, "a stream: {}", stream.start());
    let events = stream.events();
    let told: String = events.iter().filter_map(|event| event["content"].as_str()).collect();
    ensure!(told == text, "a stream has another text than alone: {told:?}, not {text:?}");
    ensure!(events.last().is_some_and(|event| event["stop"] == true), "a stream has no end");
    Ok(())
}
