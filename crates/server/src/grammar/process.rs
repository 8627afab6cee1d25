//! The server's side of [`super::fork_server`]: starts it, asks it for grammars, and those for texts.

use super::budget::{COMPILE_TIME, COMPILE_WAIT, MASK_WAIT, START_WAIT};
use super::fork_server::too_much;
use super::rule::Source;
use super::system;
use super::vocabulary::Vocabulary;
use super::wire::{self, Tag};
use super::{Failed, Program};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;

/// A fork server, started when it is first needed and again when it is gone.
pub struct ForkServer {
    program: Program,
    running: Arc<Mutex<Option<Running>>>,
}

struct Running {
    control: UnixStream,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It does nothing that would have to be ended in order, and its grammars go on.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ForkServer {
    /// One that this program will be.
    pub fn new(program: Program) -> ForkServer {
        ForkServer { program, running: Arc::default() }
    }

    /// Compiles in a process of its own. Whoever drops the future ends it.
    /// The slot is held as long as the grammar lives.
    pub async fn compile(
        &self,
        vocabulary: &Arc<Vocabulary>,
        source: &Source,
        slot: OwnedSemaphorePermit,
    ) -> Result<GrammarProcess, Failed> {
        let gone = |_: io::Error| Failed::Unwell("the process that compiles grammars cannot be reached".into());
        let (program, running, vocabulary) = (self.program.clone(), self.running.clone(), vocabulary.clone());
        // To start it takes as long as the vocabulary is large; who leaves meanwhile leaves it for the next.
        let forked = tokio::task::spawn_blocking(move || forked(&program, &running, &vocabulary));
        let socket = forked.await.map_err(|_| Failed::Unwell("internal error".into()))?.map_err(Failed::Unwell)?;
        let compiled = async {
            socket.set_nonblocking(true)?;
            let mut socket = tokio::net::UnixStream::from_std(socket)?;
            socket.write_all(&wire::of_source(source)).await?;
            let answer = answer(&mut socket).await;
            let socket = socket.into_std()?;
            socket.set_nonblocking(false)?;
            Ok((answer, socket))
        };
        let compiled = tokio::time::timeout(COMPILE_WAIT, compiled).await;
        let wait = COMPILE_WAIT.as_secs();
        let late = |_| Failed::Unwell(format!("the grammar was not compiled within {wait} s: the machine is busy"));
        let (answer, socket) = compiled.map_err(late)?.map_err(gone)?;
        match answer {
            Ok(Ok(mebibytes)) => Ok(GrammarProcess { socket, mebibytes, slots: vec![slot] }),
            Ok(Err(refusal)) => Err(refusal),
            Err(_) => Err(Failed::OutOfBudget(too_much())),
        }
    }
}

/// What the process says: the MiB that it has when it is done, or why it is not.
async fn answer(socket: &mut tokio::net::UnixStream) -> io::Result<Result<u32, Failed>> {
    match Tag::of(socket.read_u8().await?)? {
        Tag::Done => Ok(Ok(socket.read_u32_le().await?)),
        Tag::OutOfTime => {
            let time = COMPILE_TIME.as_secs();
            let problem = format!("it takes more time to compile than a grammar may have ({time} s of a processor)");
            Ok(Err(Failed::OutOfBudget(problem)))
        }
        Tag::Refused => {
            let mut rest = vec![];
            socket.read_to_end(&mut rest).await?;
            Ok(Err(Failed::Refused(wire::text(&mut &rest[..])?)))
        }
    }
}

/// A socket to a new fork, of a server that is started if there is none.
fn forked(program: &Program, running: &Mutex<Option<Running>>, words: &Vocabulary) -> Result<UnixStream, String> {
    let unwell = |error: io::Error| format!("the process that compiles grammars cannot be started: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(unwell)?;
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = &*running {
        match system::send_socket(&server.control, &theirs) {
            Ok(()) => return Ok(ours),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(unwell(error)),
            // It is gone.
            Err(_) => *running = None,
        }
    }
    let server = start(program, words).map_err(unwell)??;
    system::send_socket(&server.control, &theirs).map_err(unwell)?;
    *running = Some(server);
    Ok(ours)
}

/// Starts a fork server and waits until it has the vocabulary.
fn start(program: &Program, words: &Vocabulary) -> io::Result<Result<Running, String>> {
    let (control, theirs) = UnixStream::pair()?;
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn()?;
    // The command has the other end as long as it lives.
    drop(command);
    let mut server = Running { control, child };
    server.control.set_read_timeout(Some(START_WAIT))?;
    server.control.set_write_timeout(Some(START_WAIT))?;
    words.write(&mut server.control)?;
    let mut tag = [0];
    server.control.read_exact(&mut tag)?;
    match Tag::of(tag[0])? {
        Tag::Done => Ok(Ok(server)),
        Tag::Refused | Tag::OutOfTime => Ok(Err(wire::text(&mut server.control)?)),
    }
}

/// A compiled grammar. It lives as long as this does, and its texts no longer than theirs.
#[derive(Debug)]
pub struct GrammarProcess {
    socket: UnixStream,
    mebibytes: u32,
    /// What it takes of what all may have.
    slots: Vec<OwnedSemaphorePermit>,
}

impl GrammarProcess {
    /// MiB that it has beside what it shares with others.
    pub fn mebibytes(&self) -> u32 {
        self.mebibytes
    }

    /// Takes this as long as it lives.
    pub fn hold(&mut self, slot: OwnedSemaphorePermit) {
        self.slots.push(slot);
    }

    /// Whether it is still there.
    pub fn is_alive(&self) -> bool {
        !system::is_gone(&self.socket, Some(Duration::ZERO))
    }
}

/// One text under a grammar, in a process that is forked when the first mask is wanted: there are no more of them than
/// there are places for sequences.
pub struct TextProcess {
    grammar: Arc<GrammarProcess>,
    socket: Option<UnixStream>,
}

impl TextProcess {
    /// Nothing is forked yet.
    pub fn new(grammar: Arc<GrammarProcess>) -> TextProcess {
        TextProcess { grammar, socket: None }
    }

    fn socket(&mut self) -> io::Result<&mut UnixStream> {
        if self.socket.is_none() {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_read_timeout(Some(MASK_WAIT))?;
            ours.set_write_timeout(Some(MASK_WAIT))?;
            system::send_socket(&self.grammar.socket, &theirs)?;
            self.socket = Some(ours);
        }
        self.socket.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// As [`super::matcher::Matcher::mask`].
    pub fn mask(&mut self) -> Result<Vec<u32>, String> {
        let read = |text: &mut Self| {
            let socket = text.socket()?;
            let mut tag = [0];
            socket.read_exact(&mut tag)?;
            if Tag::of(tag[0])? != Tag::Done {
                return Ok(Err(wire::text(socket)?));
            }
            let bytes = wire::bytes(socket)?;
            let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            Ok(Ok(words.collect()))
        };
        read(self).unwrap_or_else(|error: io::Error| {
            self.socket = None;
            Err(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("the grammar needs more time for a token than it may have ({} s)", MASK_WAIT.as_secs())
                }
                _ => format!("the grammar has ended: {}", too_much()),
            })
        })
    }

    /// As [`super::matcher::Matcher::accept`], but what is wrong is told with the next mask.
    pub fn accept(&mut self, token: u32) -> Result<(), String> {
        let sent = self.socket().and_then(|socket| socket.write_all(&token.to_le_bytes()));
        sent.map_err(|error| format!("the grammar has ended: {error}"))
    }
}
