//! Kernels compiled to machine code for an architecture, and kept.

use crate::disassembly::Disassembler;
use crate::driver::unusable;
use crate::nvrtc::{self, NEWEST, Nvrtc};
use compiler::program::{Kernel, Program};
use device::host::jobs;
use device::store::blobs::Blobs;
use device::{Error, Progress, Result, Stop};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Part of every key; changes when the way kernels are compiled changes.
const VERSION: &str = concat!("kernloom ", env!("CARGO_PKG_VERSION"), " cubins 1");

/// How kernels are compiled.
#[derive(Clone)]
pub struct Compiling {
    /// NVRTC's library; `None` looks for it where it usually is.
    pub nvrtc: Option<PathBuf>,
    /// Kernels that are compiled at the same time.
    pub jobs: usize,
    /// Told while kernels are being compiled.
    pub progress: Option<Progress>,
    /// Whether to compile no further.
    pub stop: Option<Stop>,
}

impl Default for Compiling {
    /// As many at a time as there are processors.
    fn default() -> Compiling {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        Compiling { nvrtc: None, jobs, progress: None, stop: None }
    }
}

/// Compiles for one architecture.
pub struct Cubins {
    architecture: String,
    config: Compiling,
    /// What the compiler's version is measured against.
    driver: (i32, i32),
    /// What is looked for when a kernel is missing, and not before.
    nvrtc: OnceLock<Nvrtc>,
    blobs: Blobs,
}

impl Cubins {
    /// Code for a driver of this CUDA version; without one, of any version. It is kept in `blobs`.
    pub fn new(architecture: String, driver: Option<(i32, i32)>, config: Compiling, blobs: Blobs) -> Cubins {
        let driver = driver.unwrap_or((NEWEST, 0));
        Cubins { architecture, config, driver, nvrtc: OnceLock::new(), blobs }
    }

    /// Where code is kept.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// The compiler.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is none.
    pub fn nvrtc(&self) -> Result<&Nvrtc> {
        if let Some(nvrtc) = self.nvrtc.get() {
            return Ok(nvrtc);
        }
        let found = Nvrtc::find(self.config.nvrtc.as_deref(), self.driver)?;
        Ok(self.nvrtc.get_or_init(|| found))
    }

    /// The compiler's name, if it was needed.
    pub fn compiler(&self) -> Option<String> {
        self.nvrtc.get().map(Nvrtc::identity)
    }

    /// The code of a kernel, from the disk or from the compiler, and whether it was compiled now.
    fn code(&self, prelude: &str, kernel: &Kernel) -> Result<(Vec<u8>, bool)> {
        let (options, source) = (nvrtc::options(&self.architecture), format!("{prelude}\n{}", kernel.source));
        let key = Blobs::key([VERSION, &options.join(" "), &source].map(str::as_bytes));
        if let Some(code) = self.blobs.get(&key) {
            return Ok((code, false));
        }
        let compiled = self.nvrtc()?.compile(&source, &options);
        let failed = |message| unusable(format!("kernel {} does not compile for CUDA: {message}", kernel.symbol));
        let code = compiled.map_err(failed)?;
        self.blobs.keep(&key, &code);
        Ok((code, true))
    }

    /// The code of the kernels of a program, several compiled at the same time; and how many were compiled now.
    ///
    /// # Errors
    /// [`Error::Unusable`] without a compiler where one is needed or for a kernel that does not compile, and
    /// [`Error::Stopped`].
    pub fn codes(&self, program: &Program) -> Result<(Vec<Vec<u8>>, usize)> {
        let all = program.kernels.len();
        let (done, fresh) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let codes = jobs::all(self.config.jobs, all, |index| {
            if self.config.stop.as_ref().is_some_and(|stop| stop()) {
                return Err(Error::Stopped);
            }
            let (code, compiled) = self.code(&program.prelude, &program.kernels[index])?;
            let fresh = fresh.fetch_add(compiled.into(), Ordering::Relaxed) + usize::from(compiled);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(progress) = self.config.progress.as_ref().filter(|_| fresh > 0) {
                progress(done, all);
            }
            Ok(code)
        })?;
        Ok((codes, fresh.into_inner()))
    }

    /// The code of the kernels of a program as text, one after the other.
    ///
    /// # Errors
    /// [`Error::Unusable`] without a disassembler, and those of [`Cubins::codes`].
    pub fn assembly(&self, program: &Program) -> Result<String> {
        let disassembler = Disassembler::find()?;
        let (codes, _) = self.codes(program)?;
        codes.iter().map(|code| disassembler.text(code)).collect()
    }
}
