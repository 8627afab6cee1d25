//! What can go wrong between a program and a finished step.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gguf::dequant::DequantError;
use ir::interp::kernel::KernelError;

use crate::store::trust::{Refusal, Unopened};

/// The result of anything that a device does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a device; its text is one line for the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A step that was told to end; nothing of what it stored means anything.
    #[error("stopped")]
    Stopped,
    /// No compiler was configured, and none of the usual names is on the path.
    #[error(
        "no C compiler found (looked for {looked_for}); install one (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install) or name one with --cc, or a pack with the kernels of this model by --kernel-pack \
         ({arch}.pack of a release has those of most models of `kernloom ls --all`; `kernloom compile --pack` makes others where \
         there is a compiler)",
        arch = std::env::consts::ARCH
    )]
    NoCompiler {
        /// The names that were tried.
        looked_for: String,
    },
    /// There is no compiler for another architecture.
    #[error("no C compiler for {architecture} found (looked for {looked_for}); {advice}, or name one with --cc")]
    NoCrossCompiler {
        /// The architecture.
        architecture: String,
        /// The names that were tried.
        looked_for: String,
        /// What to install.
        advice: String,
    },
    /// Kernels were built ahead of time, for other machines than this one.
    #[error(
        "the kernels in {folders} were built for {built}, and this machine runs {runs}; build them for it with \
         `kernloom compile`, or install a C compiler here (Debian, Ubuntu: apt install gcc)"
    )]
    OtherTargets {
        /// The folders and packs that were looked through.
        folders: String,
        /// The targets that there are.
        built: String,
        /// The levels that this machine has, lowest first.
        runs: String,
    },
    /// Some kernels were built ahead of time, and those of this program are not among them.
    #[error("{missing} of {kernels} kernels of this model were not built ahead for {target}: {source}")]
    NotBuilt {
        /// Kernels that are missing.
        missing: usize,
        /// Kernels of the program.
        kernels: usize,
        /// What for.
        target: String,
        /// Why they cannot be built now.
        source: Box<Error>,
    },
    /// The compiler is there but does not answer as a C compiler does.
    #[error("{} is not a usable C compiler: {reason}", path.display())]
    BadCompiler {
        /// The compiler.
        path: PathBuf,
        /// What it did instead.
        reason: String,
    },
    /// The compiler knows none of the instruction levels that were asked for.
    #[error(
        "{compiler} cannot build for {target}: {reason}; a newer compiler may, or name a level that it knows with --isa"
    )]
    CompilerTooOld {
        /// Its version line.
        compiler: String,
        /// The lowest level that was tried.
        target: String,
        /// Its first complaint.
        reason: String,
    },
    /// A level was asked for that this machine does not have.
    #[error("this machine cannot run {wanted} code; it runs {available}")]
    IsaUnavailable {
        /// The level that was asked for.
        wanted: String,
        /// All levels that it has, lowest first.
        available: String,
    },
    /// A name that is no instruction level.
    #[error("unknown instruction level '{name}'; known are {known}")]
    UnknownIsa {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The C compiler refused a kernel.
    #[error("kernel {kernel} does not compile: {message} (source kept in {})", source_path.display())]
    Compile {
        /// The symbol of the kernel.
        kernel: String,
        /// The first error of the compiler.
        message: String,
        /// A file with the prelude and this kernel alone.
        source_path: PathBuf,
    },
    /// There is no room for compiled kernels.
    #[error("no space left in {} while compiling kernels; free some, or configure another cache folder", folder.display())]
    DiskFull {
        /// The folder that was written to.
        folder: PathBuf,
    },
    /// A file or folder of the kernel cache could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Cache {
        /// What was tried, for example `write`.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Others than root and the user may have changed kernels, so they are not loaded.
    #[error("kernels are not loaded from where others may have changed them: {0}")]
    Untrusted(#[from] Refusal),
    /// A file that is no pack of kernels, or is damaged.
    #[error("cannot use the kernels in {}: {reason}", path.display())]
    BadPack {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A compiler did not end.
    #[error(
        "{} did not end within {} s and was ended; if it is only slow, raise --cc-timeout, else name another with --cc",
        path.display(), limit.as_secs_f64()
    )]
    CompilerTime {
        /// The compiler.
        path: PathBuf,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A compiled kernel could not be opened.
    #[error("cannot load compiled kernels from {}: {reason}", object.display())]
    Open {
        /// The shared object.
        object: PathBuf,
        /// The reason given by the dynamic linker.
        reason: String,
    },
    /// The file system of compiled kernels does not let code be loaded.
    #[error("kernels cannot be loaded from {}: it is mounted noexec; name another folder with --kernel-cache", folder.display())]
    NoExec {
        /// The folder.
        folder: PathBuf,
    },
    /// A program that breaks its own contract.
    #[error("program {program} is malformed: {reason}")]
    Malformed {
        /// Its name.
        program: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A program needs a weight that nobody provided, or too little of it.
    #[error("program {program} needs {needed} bytes of weight {weight}, memory holds {held}")]
    Weight {
        /// The program.
        program: String,
        /// The tensor.
        weight: String,
        /// Bytes that the program reads.
        needed: usize,
        /// Bytes that there are, 0 if the name is unknown.
        held: usize,
    },
    /// A weight that does not consist of whole rows, so that they cannot be repacked.
    #[error("weight {weight} cannot be repacked: {problem}")]
    Repack {
        /// The tensor.
        weight: String,
        /// What is wrong with it.
        problem: DequantError,
    },
    /// A kernel that has no IR, for a device that runs nothing else.
    #[error("kernel {kernel} has source of its own, which the interpreter cannot run; run it on the cpu")]
    NoIr {
        /// The symbol of the kernel.
        kernel: String,
    },
    /// A kernel that breaks the grammar of kernels, or did in a step what it must not.
    #[error("kernel {kernel} ({origin}): {problem}")]
    Kernel {
        /// The symbol of the kernel.
        kernel: String,
        /// Where its launch came from.
        origin: String,
        /// What is wrong.
        problem: Box<KernelError>,
    },
    /// A range that does not lie within its owner.
    #[error("weight {weight} spans bytes {start}..{end} of a source of {length} bytes")]
    WeightRange {
        /// The tensor.
        weight: String,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Bytes of the source.
        length: usize,
    },
    /// The system did not give memory.
    #[error("out of memory: {bytes} bytes for {purpose}")]
    OutOfMemory {
        /// What it was for.
        purpose: String,
        /// How much was asked for, slack included.
        bytes: usize,
    },
    /// The device did not give memory.
    #[error(
        "{device} is out of memory: {bytes} bytes for {purpose}, and {free} are free; choose a smaller context (-c), or --device cpu"
    )]
    OutOfDeviceMemory {
        /// The device.
        device: String,
        /// What it was for.
        purpose: String,
        /// How much was asked for.
        bytes: usize,
        /// How much there is.
        free: usize,
    },
    /// There is no such device, or it cannot be used; the text ends in what to do.
    #[error("{0}")]
    Unusable(String),
    /// A device failed while it was used.
    #[error("{device} failed: {problem}")]
    Failed {
        /// The device.
        device: String,
        /// What was called, and what came back.
        problem: String,
    },
    /// Bytes that the host does not reach where they are.
    #[error("{name} lies on {place}, and is read and written by copies")]
    OutOfReach {
        /// The region.
        name: String,
        /// The device.
        place: String,
    },
    /// A region that no loaded program declares.
    #[error("no {kind} named {name} in memory")]
    UnknownRegion {
        /// `input`, `output`, `state` or `weight`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A view whose element type does not divide the region.
    #[error("{name} has {bytes} bytes, which is no whole number of {element_bytes}-byte elements")]
    ViewSize {
        /// The region.
        name: String,
        /// Its size.
        bytes: usize,
        /// Size of the element that was asked for.
        element_bytes: usize,
    },
    /// A step was given another number of variables than the program has.
    #[error("program {program} has {expected} variables, got {got}")]
    VariableCount {
        /// The program.
        program: String,
        /// How many it declares.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// A variable of a step is outside its declared range.
    #[error("program {program}: {variable} = {value} is outside {min}..={max}")]
    VariableRange {
        /// The program.
        program: String,
        /// The variable.
        variable: String,
        /// Its value.
        value: i64,
        /// Smallest legal value.
        min: i64,
        /// Largest legal value.
        max: i64,
    },
    /// A number of tasks that is negative or does not fit.
    #[error("program {program}: {origin} has an impossible number of tasks")]
    TaskCount {
        /// The program.
        program: String,
        /// Where the launch came from.
        origin: String,
    },
    /// An executable was run on another memory than it was loaded for.
    #[error("program {program} was loaded for another memory")]
    OtherMemory {
        /// The program.
        program: String,
    },
    /// Worker threads could not be started.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// The reason.
        source: io::Error,
    },
    /// A worker panicked in a step; the results of the step are garbage.
    #[error("a worker panicked: {message}")]
    WorkerPanicked {
        /// The text of the first panic.
        message: String,
    },
    /// The machine-wide lock could not be used.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Error {
    /// An input/output error of the kernel cache; a full disk becomes
    /// [`Error::DiskFull`].
    pub(crate) fn cache(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { folder: path.parent().unwrap_or(path).to_path_buf() }
            }
            _ => Error::Cache { action, path: path.to_path_buf(), source },
        }
    }

    /// As [`Error::cache`], or what is not trusted.
    pub(crate) fn unopened(action: &'static str, path: &Path, unopened: Unopened) -> Self {
        match unopened {
            Unopened::Refused(refusal) => Error::Untrusted(refusal),
            Unopened::Io(error) => Error::cache(action, path, error),
        }
    }
}

/// What a panic says.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}
