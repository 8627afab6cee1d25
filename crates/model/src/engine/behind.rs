//! Programs that are compiled while others run the steps.
//!
//! A thread of low priority takes wishes in their order: it compiles a program, has the device compile its kernels, and
//! hands it over. What is left to do then, loading it, takes milliseconds. The compilers end with the thread's owner.

use super::readiness::{Readiness, State};
use super::{Engine, compiled};
use crate::config::Config;
use crate::error::EngineError;
use crate::program_cache;
use crate::step::{Sizes, Variant};
use compiler::program::Program;
use compiler::{Log, Options};
use device::{CompileReport, Device, Stop, host};
use gguf::Gguf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A program with its kernels, ready to be loaded.
pub(super) struct Made {
    pub(super) program: Arc<Program>,
    pub(super) log: Log,
}

/// What a program is compiled from, beside what all have in common.
struct Wish {
    variant: Variant,
    sizes: Sizes,
    follows_from: String,
}

/// What all programs have in common.
struct Maker {
    file: Arc<Gguf>,
    config: Config,
    options: Options,
    device: Arc<dyn Device>,
    readiness: Arc<Readiness>,
    stop: Stop,
    /// Whether compilers of the device run, which leave files behind if this process ends before them.
    busy: Arc<AtomicBool>,
}

impl Maker {
    fn make(&self, wish: &Wish) -> Result<(Made, CompileReport), EngineError> {
        let compiled = compiled(&self.file, &self.config, &wish.sizes, &self.options)?;
        let (program, log) = (Arc::new(compiled.program), compiled.log);
        self.busy.store(true, Ordering::SeqCst);
        // Who has ended this by now may not see that it is busy.
        let kernels = match (self.stop)() {
            true => Err(device::Error::Stopped),
            false => self.device.compile_beside(&program, &self.stop),
        };
        self.busy.store(false, Ordering::SeqCst);
        let report = kernels?;
        program_cache::keep(&*self.device, &wish.follows_from, &program, &log);
        Ok((Made { program, log }, report))
    }
}

/// The thread, and what it has been asked for.
pub(super) struct Behind {
    wishes: Option<Sender<Wish>>,
    made: Receiver<(Variant, Result<Made, EngineError>)>,
    /// Wishes without an answer.
    asked: Vec<Variant>,
    over: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Behind {
    /// Starts a thread for the programs of an engine, which tells of each. `None` if the system has none.
    pub(super) fn start(
        engine: &Engine,
        told: impl Fn(Variant, Result<&CompileReport, &EngineError>) + Send + 'static,
    ) -> Option<Behind> {
        let (wishes, asked) = channel::<Wish>();
        let (tell, made) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let (ended, busy) = (over.clone(), Arc::new(AtomicBool::new(false)));
        let maker = Maker {
            file: engine.file.clone(),
            config: engine.config.clone(),
            options: engine.options.compiler.clone(),
            device: engine.device.clone(),
            readiness: engine.readiness.clone(),
            stop: Arc::new(move || ended.load(Ordering::SeqCst)),
            busy: busy.clone(),
        };
        let work = move || {
            host::priority::lower();
            for wish in asked {
                let made = maker.make(&wish);
                if (maker.stop)() {
                    return;
                }
                maker.readiness.note(wish.variant, made.is_ok().then_some(State::Ready));
                told(wish.variant, made.as_ref().map(|(_, report)| report));
                if tell.send((wish.variant, made.map(|(made, _)| made))).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("programs".into()).spawn(work).ok()?;
        Some(Behind { wishes: Some(wishes), made, asked: vec![], over, busy, thread: Some(thread) })
    }

    /// Asks for a program.
    pub(super) fn ask(&mut self, variant: Variant, sizes: Sizes, follows_from: String) {
        let wish = Wish { variant, sizes, follows_from };
        if self.wishes.as_ref().is_some_and(|wishes| wishes.send(wish).is_ok()) {
            self.asked.push(variant);
        }
    }

    /// Whether a program was asked for and has not come.
    pub(super) fn is_asked(&self, variant: Variant) -> bool {
        self.asked.contains(&variant)
    }

    /// A program that has come, or has failed; with `wait`, the next one that was asked for.
    pub(super) fn take(&mut self, wait: bool) -> Option<(Variant, Result<Made, EngineError>)> {
        let next = if wait && !self.asked.is_empty() { self.made.recv().ok() } else { self.made.try_recv().ok() };
        if let Some((variant, _)) = &next {
            self.asked.retain(|asked| asked != variant);
        }
        next
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.wishes = None;
        // Compilers end at once, and are waited for. The rest of the thread ends by itself, and owns what it needs.
        if let Some(thread) = self.thread.take().filter(|_| self.busy.load(Ordering::SeqCst)) {
            // It makes what nobody waits for any more: a panic there is of no consequence here.
            let _ = thread.join();
        }
    }
}
