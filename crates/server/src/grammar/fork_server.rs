//! Processes that compile grammars and compute masks, so that neither a stack that overflows, nor memory, nor time can
//! be the server's.
//!
//! The server starts one of them when a request first asks for a grammar: the *fork server*, which reads the vocabulary
//! and then does nothing but fork. A fork of it is a *grammar*: within its limits it compiles one source, at the lowest
//! priority, and then does nothing but fork as well. A fork of that is a *text*: it takes the tokens of one text and
//! computes its masks. So vocabulary and grammar are there once, and texts compute side by side.
//!
//! A mask is computed when the token before it is taken, while the engine runs its next step. Each process ends when the
//! other end of its socket is gone, whatever it is doing: whoever leaves ends what was done for them.

use super::budget::{self, COMPILE_MEMORY, COMPILE_TIME, STACK, TEXT_MEMORY};
use super::matcher::{Compiler, Matcher};
use super::rule::Source;
use super::system::{self, Forked};
use super::vocabulary::read_words;
use super::wire::{self, Tag};
use std::io::{self, BufReader, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The word behind a program's name that makes it a fork server.
pub const COMMAND: &str = "grammar-server";

/// How often the time of a compile is looked at.
const WATCH: Duration = Duration::from_millis(50);

/// Stack of a thread that only waits.
const SMALL_STACK: usize = 128 << 10;

/// Runs a fork server on its input until the server is gone. To be called before a program has other threads.
pub fn main() -> ExitCode {
    let Ok(control) = system::take_input() else {
        eprintln!("error: {COMMAND} is what `serve` starts for itself");
        return ExitCode::from(2);
    };
    system::ignore_signals();
    system::be_expendable();
    std::panic::set_hook(Box::new(|_| {}));
    // Forks go on with the thread that forks: it has the stack that a compile needs.
    let served = thread::Builder::new().stack_size(STACK).spawn(move || serve(control));
    let served = served.map(|thread| thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
    if matches!(served, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(mut control: UnixStream) -> io::Result<()> {
    let (words, eos) = read_words(&mut BufReader::new(&control))?;
    let compiler = match Compiler::new(&words, eos) {
        Ok(compiler) => compiler,
        Err(problem) => return control.write_all(&wire::refusal(&problem)),
    };
    drop(words);
    control.write_all(&[Tag::Done as u8])?;
    while let Some(socket) = system::receive_socket(&control)? {
        // Without a process the socket is closed, which says enough.
        if matches!(system::fork(), Ok(Forked::Child)) {
            drop(control);
            let _ = rule(compiler, socket);
            system::exit();
        }
    }
    Ok(())
}

/// A grammar: compiles what the socket says, and then forks a text for each socket that comes.
fn rule(compiler: Compiler, mut socket: UnixStream) -> io::Result<()> {
    // The thread that compiles has a stack of its own.
    system::limit_memory(COMPILE_MEMORY + STACK as u64);
    let before = system::resident();
    let source = wire::source(&mut BufReader::new(&socket))?;
    let compiled = Arc::new(AtomicBool::new(false));
    let watched = watch(&socket, Some(compiled.clone()))?;
    let matcher = compile(compiler, source)?;
    compiled.store(true, Ordering::SeqCst);
    let matcher = match matcher {
        Ok(matcher) => matcher,
        Err(problem) => return socket.write_all(&wire::refusal(&problem)),
    };
    crate::system::give_back_memory();
    let mebibytes = system::resident().saturating_sub(before).div_ceil(1 << 20) as u32;
    socket.write_all(&[&[Tag::Done as u8][..], &mebibytes.to_le_bytes()].concat())?;
    while let Some(text) = system::receive_socket(&socket)? {
        if matches!(system::fork(), Ok(Forked::Child)) {
            // That the grammar is gone must be told while its texts live.
            drop(socket);
            system::close_inherited(watched);
            let _ = follow(matcher, text);
            system::exit();
        }
    }
    Ok(())
}

/// Compiles on a thread whose priority nobody inherits.
fn compile(compiler: Compiler, source: Source) -> io::Result<Result<Matcher, String>> {
    let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
        crate::system::lower_priority();
        let compiled = compiler.compile(&source);
        // Whoever is about to end need not tidy up.
        std::mem::forget((compiler, source));
        compiled
    })?;
    thread.join().map_err(|_| io::ErrorKind::Other.into())
}

/// A text: says which tokens may come, takes one, and so on.
fn follow(mut matcher: Matcher, mut socket: UnixStream) -> io::Result<()> {
    system::limit_memory(TEXT_MEMORY);
    watch(&socket, None)?;
    let mut message = vec![];
    loop {
        message.clear();
        match matcher.mask() {
            Ok(mask) => {
                message.push(Tag::Done as u8);
                wire::put(&mut message, &mask.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
            }
            Err(problem) => return socket.write_all(&wire::refusal(&problem)),
        }
        socket.write_all(&message)?;
        let token = wire::number(&mut socket)?;
        if let Err(problem) = matcher.accept(token) {
            return socket.write_all(&wire::refusal(&problem));
        }
    }
}

/// Ends the process when the other end of its socket is gone, and, until it has compiled, when its time is over. The
/// descriptor that is watched, which a fork has too.
fn watch(socket: &UnixStream, compiled: Option<Arc<AtomicBool>>) -> io::Result<RawFd> {
    let mut socket = socket.try_clone()?;
    let watched = socket.as_raw_fd();
    let compiles = move || compiled.as_ref().is_some_and(|compiled| !compiled.load(Ordering::SeqCst));
    thread::Builder::new().stack_size(SMALL_STACK).spawn(move || {
        loop {
            let wait = compiles().then_some(WATCH);
            if system::is_gone(&socket, wait) {
                system::exit();
            }
            if compiles() && system::processor_time() > COMPILE_TIME {
                let _ = socket.write_all(&[Tag::OutOfTime as u8]);
                system::exit();
            }
        }
    })?;
    Ok(watched)
}

/// Says what a process that is gone without a word needed.
pub(super) fn too_much() -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "it needs more memory than a grammar may have ({} MiB, {} MiB of stack)",
        mib(budget::COMPILE_MEMORY),
        mib(budget::STACK as u64)
    )
}
