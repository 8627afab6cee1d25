//! From the kernels of a program to functions on the card.

use crate::driver::{Context, Module};
use crate::nvrtc::{self, Nvrtc};
use compiler::program::{Kernel, Program};
use cudarc::driver::sys::CUfunction;
use device::blobs::Blobs;
use device::{CompileReport, Error, Progress, Result, Stop};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

/// Part of every key; changes when the way kernels are compiled changes.
const VERSION: &str = concat!("kernloom ", env!("CARGO_PKG_VERSION"), " cubins 1");

/// Compiles and keeps the kernels of one card.
pub struct Kernels {
    context: Arc<Context>,
    /// What is looked for when a kernel is missing, and not before.
    nvrtc: OnceLock<Nvrtc>,
    named: Option<PathBuf>,
    driver: (i32, i32),
    blobs: Blobs,
    jobs: usize,
    progress: Option<Progress>,
    stop: Option<Stop>,
}

/// Functions that can be launched; the code stays on the card as long as this lives.
pub struct Loaded {
    /// One for each kernel of the program.
    pub functions: Vec<CUfunction>,
    /// How they came to be.
    pub report: CompileReport,
    _modules: Vec<Module>,
}

// SAFETY: the functions are handles of the driver; the modules that they belong to are here.
unsafe impl Send for Loaded {}

impl Kernels {
    /// Kernels for a card, kept in `blobs`.
    pub fn new(
        context: Arc<Context>,
        driver: (i32, i32),
        named: Option<PathBuf>,
        blobs: Blobs,
        jobs: usize,
        progress: Option<Progress>,
        stop: Option<Stop>,
    ) -> Kernels {
        Kernels { context, nvrtc: OnceLock::new(), named, driver, blobs, jobs: jobs.max(1), progress, stop }
    }

    /// The newest CUDA that the driver runs.
    pub fn driver(&self) -> (i32, i32) {
        self.driver
    }

    /// The compiler.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is none.
    pub fn nvrtc(&self) -> Result<&Nvrtc> {
        if let Some(nvrtc) = self.nvrtc.get() {
            return Ok(nvrtc);
        }
        let found = Nvrtc::find(self.named.as_deref(), self.driver)?;
        Ok(self.nvrtc.get_or_init(|| found))
    }

    /// What the compiler is told.
    fn options(&self) -> Vec<String> {
        let architecture = format!("--gpu-architecture={}", self.context.card.architecture());
        [architecture.as_str(), "--std=c++17"].map(String::from).to_vec()
    }

    /// The code of a kernel, from the disk or from the compiler, and whether it was compiled now.
    fn code(&self, prelude: &str, kernel: &Kernel) -> Result<(Vec<u8>, bool)> {
        let (options, source) = (self.options(), format!("{prelude}\n{}", kernel.source));
        let key = Blobs::key([VERSION, &options.join(" "), &source].map(str::as_bytes));
        if let Some(code) = self.blobs.get(&key) {
            return Ok((code, false));
        }
        let compiled = self.nvrtc()?.compile(&source, &options);
        let code = compiled.map_err(|message| nvrtc::does_not_compile(&kernel.symbol, message))?;
        self.blobs.keep(&key, &code);
        Ok((code, true))
    }

    /// Loads the kernels of a program, several at the same time.
    ///
    /// # Errors
    /// [`Error::Unusable`] without a compiler where one is needed or for a kernel that does not compile,
    /// [`Error::Stopped`], and of the driver.
    pub fn load(&self, program: &Program) -> Result<Loaded> {
        let (start, all) = (Instant::now(), program.kernels.len());
        let (next, done, fresh) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let codes: Mutex<Vec<Option<Result<Vec<u8>>>>> = Mutex::new((0..all).map(|_| None).collect());
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(kernel) = program.kernels.get(index) else { return };
                let stopped = self.stop.as_ref().is_some_and(|stop| stop());
                let code = if stopped { Err(Error::Stopped) } else { self.code(&program.prelude, kernel) };
                let failed = code.is_err();
                let code = code.map(|(code, compiled)| {
                    let fresh = fresh.fetch_add(compiled.into(), Ordering::Relaxed) + usize::from(compiled);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if let Some(progress) = self.progress.as_ref().filter(|_| fresh > 0) {
                        progress(done, all);
                    }
                    code
                });
                codes.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(code);
                if failed {
                    next.store(all, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            (1..self.jobs.min(all)).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let codes = codes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut whole = Vec::with_capacity(all);
        for code in codes.into_iter().flatten() {
            whole.push(code?);
        }
        let (mut functions, mut modules) = (vec![], vec![]);
        for (kernel, code) in program.kernels.iter().zip(&whole) {
            let module = self.context.module(code)?;
            let symbol = CString::new(kernel.symbol.as_str()).unwrap_or_default();
            functions.push(module.function(&symbol, kernel.geometry.shared_bytes)?);
            modules.push(module);
        }
        let compiled = fresh.into_inner();
        let report = CompileReport {
            kernels: all,
            compiled,
            units: compiled,
            compiler: self.nvrtc.get().filter(|_| compiled > 0).map(Nvrtc::identity),
            time: start.elapsed(),
            warnings: vec![],
        };
        Ok(Loaded { functions, report, _modules: modules })
    }
}
