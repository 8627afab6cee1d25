//! The system's C compiler: finding it, knowing it, calling it.
//!
//! It is called with explicit flags only. Which one it is is part of the key
//! of what it builds only if it was named: kernels that any compiler built are
//! good for all, so that a machine without one can look them up.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use crate::host::child::{self, Ended, Limits};
use crate::host::stop::Stop;
use gguf::plain;

use crate::cpu::isa::{Isa, Target};
use crate::error::{Error, Result};

/// Flags that every kernel is compiled with.
///
/// `-ffast-math` is left out on purpose: kernels say where sums may be
/// reordered, and infinities must survive (masks, softmax).
pub const FLAGS: [&str; 15] = [
    "-O2",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-pipe",
    "-w",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    // Sums and products of 32-bit integers are modulo 2^32.
    "-fwrapv",
    // Kernels read the bytes of a buffer under several types.
    "-fno-strict-aliasing",
    "-fno-semantic-interposition",
    "-fno-plt",
    "-fno-stack-protector",
    "-fvisibility=default",
];

/// How long a compiler may take for one call unless said otherwise: the largest unit of kernels takes some seconds.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// What it gets of that to say what it is and whether it knows flags, and at least, if the limit is not less.
const SHARE_TO_ANSWER: u32 = 12;
const TIME_TO_ANSWER: Duration = Duration::from_secs(10);

/// Names that are tried when none is configured.
const USUAL_NAMES: &[&str] = &["cc", "gcc", "clang"];

/// As [`USUAL_NAMES`], with the architecture that they compile for on machines of another, and what to install.
const CROSS_NAMES: [(&str, &[&str], &str); 2] = [
    (
        "aarch64",
        &["aarch64-linux-gnu-gcc"],
        "install one (Debian, Ubuntu: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)",
    ),
    (
        "x86_64",
        &["x86_64-linux-gnu-gcc"],
        "install one (Debian, Ubuntu: apt install gcc-x86-64-linux-gnu libc6-dev-amd64-cross)",
    ),
];

/// Which compiler to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolchainConfig {
    /// This one, a path or a name on the search path, and no other.
    pub compiler: Option<PathBuf>,
    /// Folders to look in, in order.
    pub search: Vec<PathBuf>,
    /// How long one call of it may take.
    pub time_limit: Duration,
}

impl Default for ToolchainConfig {
    fn default() -> Self {
        ToolchainConfig { compiler: None, search: vec![], time_limit: TIME_LIMIT }
    }
}

impl ToolchainConfig {
    /// No explicit compiler, and the folders of the `PATH` of this process.
    pub fn from_environment() -> Self {
        let search = env::var_os("PATH").unwrap_or_default();
        ToolchainConfig { search: env::split_paths(&search).collect(), ..ToolchainConfig::default() }
    }

    /// Whether a file with the name of a compiler is there; it is not asked what it is.
    pub(crate) fn is_there(&self) -> bool {
        match &self.compiler {
            Some(name) => self.locate(name).is_some(),
            None => USUAL_NAMES.iter().any(|name| self.locate(Path::new(name)).is_some()),
        }
    }

    fn locate(&self, name: &Path) -> Option<PathBuf> {
        if name.components().count() > 1 {
            return name.is_file().then(|| name.to_path_buf());
        }
        let mut candidates = self.search.iter().map(|folder| folder.join(name));
        candidates.find(|path| path.is_file())
    }
}

/// The two families that are known to understand [`FLAGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// The GNU compiler.
    Gcc,
    /// LLVM's, Apple's included.
    Clang,
}

/// A C compiler that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    path: PathBuf,
    family: Family,
    version: String,
    /// How long one call may take.
    time_limit: Duration,
}

impl Toolchain {
    /// Finds and identifies the compiler for this machine.
    ///
    /// # Errors
    /// [`Error::NoCompiler`] if there is none, [`Error::BadCompiler`] if it
    /// does not run or is neither gcc nor clang, [`Error::CompilerTime`] if it hangs.
    pub fn find(config: &ToolchainConfig) -> Result<Toolchain> {
        Toolchain::find_for(config, env::consts::ARCH)
    }

    /// As [`Toolchain::find`], for an architecture. A compiler that is named is taken at its word.
    ///
    /// # Errors
    /// Also [`Error::NoCrossCompiler`].
    pub fn find_for(config: &ToolchainConfig, architecture: &str) -> Result<Toolchain> {
        let cross = CROSS_NAMES.iter().find(|(other, ..)| *other == architecture && *other != env::consts::ARCH);
        let names: Vec<&Path> = match &config.compiler {
            Some(name) => vec![name.as_path()],
            None => cross.map_or(USUAL_NAMES, |(_, names, _)| names).iter().map(Path::new).collect(),
        };
        if let Some(path) = names.iter().find_map(|name| config.locate(name)) {
            // It is run in other folders.
            return Toolchain::identify(std::path::absolute(&path).unwrap_or(path), config.time_limit);
        }
        let looked_for = names.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ");
        Err(match cross {
            Some((_, _, advice)) => {
                Error::NoCrossCompiler { architecture: architecture.into(), looked_for, advice: (*advice).into() }
            }
            None => Error::NoCompiler { looked_for },
        })
    }

    fn identify(path: PathBuf, time_limit: Duration) -> Result<Toolchain> {
        let ask = |arguments: &[&str]| {
            let output = called(command(&path).args(arguments), &path, to_answer(time_limit))?;
            if !output.status.success() {
                return Err(Error::BadCompiler { path: path.clone(), reason: first_error(&output) });
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let answer = ask(&["--version"])?;
        let first = &*plain::line(answer.lines().next().unwrap_or_default().trim(), plain::QUOTE);
        let macros = ask(&["-dM", "-E", "-x", "c", "-"])?;
        let defines = |name: &str| {
            let defined = |line: &str| line.split_whitespace().nth(1) == Some(name);
            macros.lines().any(defined)
        };
        let (family, version) = if defines("__clang__") {
            (Family::Clang, first.to_string())
        } else if defines("__GNUC__") {
            // gcc repeats the name it was called by; cc and gcc are one.
            let version = first.split_once(' ').map_or(first, |(_, rest)| rest);
            (Family::Gcc, format!("gcc {version}"))
        } else {
            return Err(Error::BadCompiler { reason: format!("'{first}' is neither gcc nor clang"), path });
        };
        Ok(Toolchain { path, family, version, time_limit })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// gcc or clang.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Its version line.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The part of `target` that this compiler has flags for: extras are
    /// dropped first, then the level is lowered.
    ///
    /// # Errors
    /// [`Error::CompilerTooOld`] if not even the lowest level is left.
    pub fn narrow(&self, target: Target) -> Result<Target> {
        let Some(mut reason) = self.complaint(&target.flags())? else {
            return Ok(target);
        };
        let mut extras = vec![];
        for extra in &target.extras {
            if self.complaint(extra.flags())?.is_none() {
                extras.push(*extra);
            }
        }
        let lower = Isa::available().into_iter().rev().filter(|isa| *isa <= target.isa);
        for isa in lower {
            let extras = if isa == target.isa { extras.clone() } else { Vec::new() };
            let narrowed = Target { isa, extras };
            match self.complaint(&narrowed.flags())? {
                None => return Ok(narrowed),
                Some(complaint) => reason = complaint,
            }
        }
        Err(Error::CompilerTooOld { compiler: self.version.clone(), target: target.to_string(), reason })
    }

    /// The compiler itself, if it has the flags of a target.
    ///
    /// # Errors
    /// [`Error::CompilerTooOld`] if not.
    pub(crate) fn able_to(self, target: &Target) -> Result<Toolchain> {
        match self.complaint(&target.flags())? {
            None => Ok(self),
            Some(reason) => Err(Error::CompilerTooOld { compiler: self.version, target: target.to_string(), reason }),
        }
    }

    /// Its first complaint about these flags, if it has one.
    fn complaint(&self, flags: &[&str]) -> Result<Option<String>> {
        let mut command = command(&self.path);
        command.args(FLAGS).args(flags).args(["-fsyntax-only", "-x", "c", "-"]);
        let output = called(&mut command, &self.path, to_answer(self.time_limit))?;
        Ok((!output.status.success()).then(|| first_error(&output)))
    }

    /// Compiles `kernels.c` of a folder to `kernels.so`; temporary files stay
    /// in the folder.
    pub(crate) fn compile(
        &self,
        folder: &Path,
        flags: &[&str],
        stop: Option<&Stop>,
    ) -> std::result::Result<(), Untranslated> {
        self.translate(folder, flags, &["-o", "kernels.so", "kernels.c", "-lm"], stop)
    }

    /// As [`Toolchain::compile`], to assembly in `kernels.s`.
    pub(crate) fn assembly(
        &self,
        folder: &Path,
        flags: &[&str],
        stop: Option<&Stop>,
    ) -> std::result::Result<(), Untranslated> {
        let what = ["-S", "-fno-asynchronous-unwind-tables", "-o", "kernels.s", "kernels.c"];
        self.translate(folder, flags, &what, stop)
    }

    fn translate(
        &self,
        folder: &Path,
        flags: &[&str],
        what: &[&str],
        stop: Option<&Stop>,
    ) -> std::result::Result<(), Untranslated> {
        let mut command = command(&self.path);
        command.current_dir(folder).env("TMPDIR", folder).args(flags).args(what);
        let limits = Limits { time: self.time_limit, stop };
        let output = called(&mut command, &self.path, limits).map_err(Untranslated::Ended)?;
        if output.status.success() {
            return Ok(());
        }
        Err(Untranslated::Refused {
            first_error: first_error(&output),
            disk_full: String::from_utf8_lossy(&output.stderr).contains("No space left on device"),
        })
    }
}

/// A compiler that is looked for when it is first needed.
#[derive(Debug)]
pub(crate) struct Lazy {
    config: ToolchainConfig,
    target: Target,
    found: OnceLock<Toolchain>,
}

impl Lazy {
    pub(crate) fn new(config: &ToolchainConfig, target: &Target) -> Lazy {
        Lazy { config: config.clone(), target: target.clone(), found: OnceLock::new() }
    }

    /// One that was found already, and has the flags of the target.
    pub(crate) fn found(toolchain: Toolchain, target: &Target) -> Lazy {
        Lazy { config: ToolchainConfig::default(), target: target.clone(), found: toolchain.into() }
    }

    /// The compiler.
    ///
    /// # Errors
    /// As [`Toolchain::find_for`] and [`Toolchain::able_to`].
    pub(crate) fn get(&self) -> Result<&Toolchain> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let architecture = self.target.isa.architecture();
        let toolchain = Toolchain::find_for(&self.config, architecture)?.able_to(&self.target)?;
        Ok(self.found.get_or_init(|| toolchain))
    }
}

/// Why there is no translation of a source.
#[derive(Debug)]
pub(crate) enum Untranslated {
    /// The compiler says no; another source may do.
    Refused { first_error: String, disk_full: bool },
    /// The compiler could not be run, or was ended.
    Ended(Error),
}

/// Limits of a call in which a compiler only has to answer.
fn to_answer(time_limit: Duration) -> Limits<'static> {
    Limits { time: (time_limit / SHARE_TO_ANSWER).max(TIME_TO_ANSWER).min(time_limit), stop: None }
}

/// Calls a compiler.
fn called(command: &mut Command, path: &Path, limits: Limits<'_>) -> Result<Output> {
    child::output(command, limits).map_err(|ended| {
        let bad = |reason| Error::BadCompiler { path: path.to_path_buf(), reason };
        match ended {
            Ended::Failed(error) => bad(format!("it cannot be run: {error}")),
            Ended::Printed(bytes) => bad(format!("it printed more than {} MiB and was ended", bytes >> 20)),
            Ended::TimeLimit(limit) => Error::CompilerTime { path: path.to_path_buf(), limit },
            Ended::Stopped => Error::Stopped,
        }
    })
}

fn command(path: &Path) -> Command {
    let mut command = Command::new(path);
    // Messages are searched for "error:", in English.
    command.env("LC_ALL", "C");
    // Variables by which gcc and clang would take flags or headers that are
    // in no key.
    for name in ["CPATH", "C_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"] {
        command.env_remove(name);
    }
    command
}

fn first_error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line =
        lines.clone().find(|line| line.contains("error:") || line.contains("No space left")).or_else(|| lines.next());
    match line {
        Some(line) => plain::line(line, plain::QUOTE).into_owned(),
        None => format!("the compiler ended with {} and said nothing", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_compiler_is_found_and_takes_the_flags_of_this_machine() {
        let toolchain = Toolchain::find(&ToolchainConfig::from_environment()).unwrap();
        assert!(toolchain.path().is_file());
        assert!(toolchain.version().chars().any(|c| c.is_ascii_digit()));
        let target = Target::detect(None).unwrap();
        let narrowed = toolchain.narrow(target.clone()).unwrap();
        assert!(narrowed.isa <= target.isa);
    }

    #[test]
    fn cc_and_gcc_have_one_identity() {
        let config =
            |name: &str| ToolchainConfig { compiler: Some(name.into()), ..ToolchainConfig::from_environment() };
        let (Ok(cc), Ok(gcc)) = (Toolchain::find(&config("cc")), Toolchain::find(&config("gcc"))) else {
            return;
        };
        if cc.family() == gcc.family() {
            assert_eq!(cc.version(), gcc.version());
        }
    }

    #[test]
    fn a_missing_compiler_is_one_line_that_says_what_to_install() {
        let nowhere = ToolchainConfig::default();
        let error = Toolchain::find(&nowhere).unwrap_err().to_string();
        assert!(error.contains("cc, gcc, clang") && error.contains("apt install gcc"));
        assert!(!error.contains('\n'));
        let explicit = ToolchainConfig { compiler: Some("/nowhere/tcc".into()), ..ToolchainConfig::from_environment() };
        let error = Toolchain::find(&explicit).unwrap_err().to_string();
        assert!(error.contains("/nowhere/tcc"));
    }

    #[test]
    fn a_program_that_is_no_compiler_is_refused() {
        let config = ToolchainConfig { compiler: Some("cat".into()), ..ToolchainConfig::from_environment() };
        let found = Toolchain::find(&config);
        assert!(matches!(found, Err(Error::BadCompiler { .. })), "{found:?}");
    }

    #[test]
    fn an_unknown_flag_is_a_complaint() {
        let toolchain = Toolchain::find(&ToolchainConfig::from_environment()).unwrap();
        let complaint = toolchain.complaint(&["-mavx9000"]).unwrap().unwrap();
        assert!(complaint.contains("avx9000"), "{complaint}");
    }
}
