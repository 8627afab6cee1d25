//! Attacks on a real server: what is sent, what may come back, and what has to hold meanwhile and afterwards.

pub mod bodies;
pub mod connections;
pub mod fields;
pub mod grammars;
pub mod origins;
pub mod process;
pub mod schemas;
pub mod wire;
pub mod witness;

use crate::support::{optimised, serving};
use anyhow::{Context, Result, anyhow, bail, ensure};
use process::{Holds, forget_peak, of_family, peak};
use serde_json::Value;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wire::{CLOSED, Response};
use witness::Witness;

/// MiB by which the server may be larger after an attack than before all of them.
const KEPT: u64 = 64;

/// MiB by which the server itself may be larger during an attack.
const PEAK: u64 = 512;

/// Descriptors by which the server may have more: grammars that were not there before stay for the next request.
const DESCRIPTORS: usize = 16;

/// How long a server may take to give back what an attack took.
const REST: Duration = Duration::from_secs(30);

/// How long a process may take to die that has cut its connections: its memory is freed first.
const DYING: Duration = Duration::from_secs(5);

/// KiB of address space of each process: a server that wants more aborts rather than take the machine with it.
const ADDRESSES: u64 = 6 << 20;

/// Bytes of an error at most: it does not repeat what was sent.
const ERROR: usize = 4 << 10;

/// Bytes of an answer to an attack, where the case says nothing else.
const ANSWER: usize = 128 << 10;

/// What is no word to a user.
const INTERNAL: [&str; 4] = ["panicked", "assertion", "internal error", "unwrap()"];

/// Taken, or refused by name of a limit.
pub const ANY: &[u16] = &[200, 400, 413, 429];

/// Refused.
pub const REFUSED: &[u16] = &[400, 413, 429];

/// Refused, or closed where what came is no HTTP.
pub const NO_HTTP: &[u16] = &[400, 431, CLOSED];

type Send = Box<dyn Fn(u16) -> Vec<Response>>;

/// An attack.
pub struct Case {
    name: String,
    send: Send,
    accepted: &'static [u16],
    /// Bytes of an answer at most.
    answer: usize,
    /// Whether its clients leave, and all that was done for them must end.
    leaves: bool,
}

impl Case {
    /// Something that gets any number of answers from a port.
    pub fn new(
        name: impl Into<String>,
        accepted: &'static [u16],
        send: impl Fn(u16) -> Vec<Response> + 'static,
    ) -> Case {
        Case { name: name.into(), send: Box::new(send), accepted, answer: ANSWER, leaves: false }
    }

    /// One JSON body.
    pub fn post(
        name: impl Into<String>,
        path: &'static str,
        accepted: &'static [u16],
        body: impl Fn() -> String + 'static,
    ) -> Case {
        Case::new(name, accepted, move |port| vec![wire::post(port, path, body().as_bytes())])
    }

    /// Bytes as they are, of a client that waits.
    pub fn raw(name: impl Into<String>, accepted: &'static [u16], bytes: impl Fn() -> Vec<u8> + 'static) -> Case {
        Case::new(name, accepted, move |port| vec![Response::read(wire::send(port, &bytes()))])
    }

    /// Bytes after which the client sends no more, though the server may wait for it.
    pub fn cut(name: impl Into<String>, accepted: &'static [u16], bytes: impl Fn() -> Vec<u8> + 'static) -> Case {
        Case::new(name, accepted, move |port| vec![wire::send_all(port, &bytes())])
    }

    /// An answer that repeats what was sent by its nature.
    pub fn with_answer_of(self, answer: usize) -> Case {
        Case { answer, ..self }
    }

    /// Clients that leave.
    pub fn leaving(name: impl Into<String>, send: impl Fn(u16) + 'static) -> Case {
        let send = move |port| {
            send(port);
            vec![]
        };
        Case { leaves: true, ..Case::new(name, &[], send) }
    }

    fn check(&self, answer: &Response) -> Result<()> {
        ensure!(self.accepted.contains(&answer.status), "{}, not one of {:?}", answer.start(), self.accepted);
        ensure!(answer.body.len() <= self.answer, "an answer of {} bytes", answer.body.len());
        if answer.status < 400 || answer.body.is_empty() {
            return Ok(());
        }
        ensure!(answer.body.len() <= ERROR, "an error of {} bytes", answer.body.len());
        let error: Value = serde_json::from_slice(&answer.body).with_context(|| answer.start())?;
        // Ollama's clients get nothing but the text.
        let message = error["error"]["message"].as_str().or(error["error"].as_str()).unwrap_or_default();
        ensure!(!message.is_empty() && !message.contains('\n'), "no line of text: {error}");
        ensure!(!INTERNAL.iter().any(|word| message.contains(word)), "an error of the inside: {message}");
        Ok(())
    }

    /// Sends it, and looks at the answers.
    fn run(&self, port: u16) -> Result<Vec<Response>> {
        let answers = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.send)(port)));
        let answers = answers.map_err(|panic| anyhow!(witness::told(panic)))?;
        answers.iter().try_for_each(|answer| self.check(answer))?;
        Ok(answers)
    }
}

/// A server that is attacked; one at a time, so that none is slow because of another.
pub struct Server {
    flags: Vec<String>,
    child: Child,
    pub port: u16,
    before: Holds,
    text: String,
    _alone: MutexGuard<'static, ()>,
}

impl Server {
    /// Starts the server with the demo model.
    pub fn start(flags: &[&str]) -> Server {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (child, port) = started(&flags);
        Server { flags, child, port, before: Holds::default(), text: String::new(), _alone: alone }
    }

    /// Lets it make whatever it makes once, and takes down what it holds before all attacks.
    fn settle(&mut self) {
        self.text = witness::alone(self.port);
        for grammar in [r#""grammar": "root ::= \"a\"""#, r#""json_schema": { "type": "integer" }"#] {
            let body = format!(r#"{{ "prompt": "a", "n_predict": 4, {grammar} }}"#);
            let answer = wire::post(self.port, "/completion", body.as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.start());
        }
        self.rests().expect("it has done nothing yet");
        self.before = of_family(self.child.id());
    }

    /// Sends each case while somebody else uses the server, and looks at what it holds afterwards. All that is wrong is
    /// told at the end.
    pub fn survives(&mut self, cases: impl IntoIterator<Item = Case>) {
        let mut wrong = vec![];
        for case in cases {
            if self.text.is_empty() {
                self.settle();
            }
            let problems = self.problems(&case);
            wrong.extend(problems.iter().map(|problem| format!("{}: {problem:#}", case.name)));
        }
        assert!(wrong.is_empty(), "{} things are wrong:\n  {}", wrong.len(), wrong.join("\n  "));
    }

    fn problems(&mut self, case: &Case) -> Vec<anyhow::Error> {
        let began = Instant::now();
        forget_peak(self.child.id());
        let witness = Witness::start(self.port, &self.text);
        let (answers, seen) = (case.run(self.port), witness.end());
        let took = began.elapsed();
        let highest = peak(self.child.id()).unwrap_or(0).saturating_sub(self.before.memory);
        let statuses: Vec<u16> = answers.iter().flatten().map(|answer| answer.status).collect();
        println!("{}: {statuses:?}, {took:.1?}, peak +{highest} MiB", case.name);
        let bounded = (highest <= PEAK).then_some(()).ok_or_else(|| anyhow!("it took {highest} MiB"));
        let rest = self.gives_back().and_then(|()| if case.leaves { self.rests() } else { Ok(()) });
        let lives = self.lives(if seen.is_err() { DYING } else { Duration::ZERO });
        if [&seen, &rest, &lives].iter().any(|found| found.is_err()) {
            self.begin_anew();
        }
        [lives, answers.map(drop), seen, bounded, rest].into_iter().filter_map(Result::err).collect()
    }

    /// Whether it lives after a while.
    fn lives(&mut self, most: Duration) -> Result<()> {
        let end = Instant::now() + most;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                bail!("the server died: {status}");
            }
            if Instant::now() >= end {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Another server, for the cases after one that did harm.
    fn begin_anew(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        (self.child, self.port) = started(&self.flags);
        self.text.clear();
    }

    /// Sends each case, and looks at nothing but the answers.
    pub fn answers(&self, cases: Vec<Case>) {
        let wrong = cases.iter().filter_map(|case| Some(format!("{}: {:#}", case.name, case.run(self.port).err()?)));
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{} things are wrong:\n  {}", wrong.len(), wrong.join("\n  "));
    }

    /// Whether it ends in time when it is told to.
    pub fn ends(&mut self, most: Duration) -> bool {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(told.expect("kill").success());
        let end = Instant::now() + most;
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return status.success(),
                None if Instant::now() > end => return false,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Memory and descriptors come back.
    fn gives_back(&self) -> Result<()> {
        let before = self.before;
        let holds = || of_family(self.child.id());
        let fits =
            |now: Holds| now.memory <= before.memory + KEPT && now.descriptors <= before.descriptors + DESCRIPTORS;
        ensure!(within(REST, || fits(holds())), "it keeps {:?}; before it held {before:?}", holds());
        Ok(())
    }

    /// Nothing is computed for those who have left.
    fn rests(&self) -> Result<()> {
        let ticks = || of_family(self.child.id()).ticks;
        let idle = || {
            let before = ticks();
            std::thread::sleep(Duration::from_millis(150));
            // A tick is what looking at it may cost.
            ticks().saturating_sub(before) <= 1
        };
        ensure!(within(REST, idle), "it still computes {REST:?} later");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same command with an end to its address space.
fn under_limits(command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {ADDRESSES}; exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    limited
}

/// A server that takes requests, and its port.
fn started(flags: &[String]) -> (Child, u16) {
    let base = ["serve", "--port", "0", "-t", "1", "-np", "4", "-c", "4096", "--batch-invariant", "--embeddings"];
    let flags: Vec<&str> = base.into_iter().chain(flags.iter().map(String::as_str)).collect();
    let (child, port, lines) = serving(under_limits(&optimised(&flags)));
    std::thread::spawn(move || lines.for_each(drop));
    assert!(within(Duration::from_secs(500), || wire::get(port, "/health").status == 200), "it gets ready");
    (child, port)
}

/// Whether something holds before a time is over.
fn within(most: Duration, holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + most;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
