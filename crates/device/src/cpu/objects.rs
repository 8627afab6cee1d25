//! From the kernels of a program to functions that can be called.
//!
//! Kernels are looked up one by one and built several at a time: a
//! translation unit pays for the headers of the prelude once. A kernel's
//! function is renamed after its key, so that equal names with other sources
//! can live in one process.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use compiler::program::{Kernel, Program};

use crate::cpu::isa::Target;
use crate::cpu::toolchain::{FLAGS, Lazy, Toolchain, Untranslated};
use crate::error::{Error, Result};
use crate::host::jobs;
use crate::host::stop::Stop;
use crate::store::cache::{Cache, Found, Output, Warning};
use crate::store::digest::{self, Digest};
use crate::store::folder::BuildFolder;
use crate::store::publish;
use crate::store::shared_object::SharedObject;

/// Part of every key; changes when the way kernels are compiled changes.
const VERSION: &str = concat!("kernloom ", env!("CARGO_PKG_VERSION"), " objects 2");

/// Units per compile job: more balance the jobs, fewer read headers less often.
const UNITS_PER_JOB: usize = 2;

/// Bytes of source that are worth a unit of their own: what compiles in four times the time that headers take.
const WORTHWHILE: usize = 128 << 10;

/// The same beside steps.
const WORTHWHILE_BESIDE: usize = 24 << 10;

/// Units of a program that is built ahead of time.
const UNITS_AHEAD: usize = 8;

/// How a program is compiled.
#[derive(Clone)]
struct Manner {
    /// Compilers that run at the same time.
    jobs: usize,
    /// Translation units of a program at most.
    units: usize,
    /// Bytes of source that are worth a unit of their own.
    worthwhile: usize,
    /// Told of kernels that are done.
    progress: Option<Progress>,
    /// Whether to end compilers that run.
    stop: Option<Stop>,
}

impl Manner {
    /// The same beside steps that run, which shall not be held up: at low priority and without a word. Units are small, as
    /// each that is done is kept when this process ends before all are.
    fn beside(&self, stop: &Stop) -> Manner {
        let (both, ours) = (stop.clone(), self.stop.clone());
        Manner {
            units: usize::MAX,
            worthwhile: WORTHWHILE_BESIDE,
            progress: None,
            stop: Some(Arc::new(move || both() || ours.as_ref().is_some_and(|stop| stop()))),
            ..self.clone()
        }
    }
}

/// The function of a kernel; see [`Program`] for its arguments.
pub(crate) type KernelFunction = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, i64, *mut c_void);

/// How the kernels of a program came to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileReport {
    /// Kernels of the program.
    pub kernels: usize,
    /// How many of them were compiled now; the others were on disk.
    pub compiled: usize,
    /// Translation units that they were compiled in.
    pub units: usize,
    /// The version line of what compiled them, if there was something to compile.
    pub compiler: Option<String>,
    /// Wall time of looking up, compiling and opening.
    pub time: Duration,
    /// Of that, while compilers ran.
    pub compiling: Duration,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// How far compiling has come: kernels done, kernels to do.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// Kernels that can be called; they stay loaded as long as this lives.
pub(crate) struct Loaded {
    /// One for each kernel of the program, in its order.
    pub(crate) functions: Vec<KernelFunction>,
    pub(crate) report: CompileReport,
    /// Keeps the code behind `functions` mapped.
    _libraries: Vec<libloading::Library>,
}

/// Compiles kernels, or finds them compiled.
pub(crate) struct Objects {
    compiler: Lazy,
    /// The version line of the compiler, if it was named: other kernels than its own will not do.
    named: Option<String>,
    target: Target,
    flags: Vec<&'static str>,
    cache: Cache,
    manner: Manner,
}

impl Objects {
    /// Kernels of a target. They come from `compiler`, unless a folder of `cache` has them, and if it was `named` in any
    /// case.
    pub(crate) fn open(
        compiler: Lazy,
        named: Option<String>,
        target: &Target,
        cache: Cache,
        jobs: usize,
        progress: Option<Progress>,
    ) -> Objects {
        let jobs = jobs.max(1);
        Objects {
            compiler,
            named,
            target: target.clone(),
            flags: FLAGS.into_iter().chain(target.flags()).collect(),
            cache,
            manner: Manner { jobs, units: jobs * UNITS_PER_JOB, worthwhile: WORTHWHILE, progress, stop: None },
        }
    }

    /// Ends compilers when it is told to.
    pub(crate) fn stopped_by(mut self, stop: Option<Stop>) -> Objects {
        self.manner.stop = stop;
        self
    }

    /// As [`Objects::open`], in units of which the machine knows nothing, so that all machines build the same objects.
    pub(crate) fn ahead(
        compiler: Lazy,
        target: &Target,
        cache: Cache,
        jobs: usize,
        progress: Option<Progress>,
    ) -> Objects {
        let mut objects = Objects::open(compiler, None, target, cache, jobs, progress);
        objects.manner.units = UNITS_AHEAD;
        objects
    }

    /// Where kernels are kept, and programs.
    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The functions of all kernels of the program.
    pub(crate) fn load(&self, program: &Program) -> Result<Loaded> {
        self.load_in(program, &self.manner)
    }

    /// As [`Objects::load`], on the calling thread and others of its priority, beside steps that run, until `stop` says so.
    pub(crate) fn load_beside(&self, program: &Program, stop: &Stop) -> Result<Loaded> {
        self.load_in(program, &self.manner.beside(stop))
    }

    fn load_in(&self, program: &Program, manner: &Manner) -> Result<Loaded> {
        let mut open = OpenObjects::default();
        let mut functions: Vec<Option<KernelFunction>> = vec![None; program.kernels.len()];
        let report = self.provide(program, manner, |i, object, key| {
            functions[i] = Some(open.function(object, key)?);
            Ok(())
        })?;
        Ok(Loaded {
            report,
            functions: functions.into_iter().flatten().collect(),
            _libraries: open.libraries.into_values().collect(),
        })
    }

    /// Sees to it that all kernels of the program are in the cache; runs nothing.
    pub(crate) fn build(&self, program: &Program) -> Result<CompileReport> {
        self.provide(program, &self.manner, |_, _, _| Ok(()))
    }

    /// Finds or compiles the kernels of a program, and gives each object to `take`. One that was found and is refused is
    /// compiled anew.
    fn provide(
        &self,
        program: &Program,
        manner: &Manner,
        mut take: impl FnMut(usize, &SharedObject, &Digest) -> Result<()>,
    ) -> Result<CompileReport> {
        let start = Instant::now();
        let keys: Vec<Digest> = program.kernels.iter().map(|kernel| self.key(&program.prelude, kernel)).collect();
        let mut opening = self.cache.opening();
        let mut warnings = Vec::new();
        let mut missing = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let damaged = match self.cache.find(key, &mut opening)? {
                Found::Object(object) => match take(i, &object, key) {
                    Ok(()) => continue,
                    // Another would not do either.
                    Err(error @ Error::NoExec { .. }) => return Err(error),
                    // It is built again like a missing one; should that not
                    // help, opening it then fails for good.
                    Err(_) => None,
                },
                Found::Damaged(object) => Some(Warning::Damaged { object }),
                Found::Missing => None,
            };
            warnings.extend(damaged.filter(|warning| !warnings.contains(warning)));
            missing.push(i);
        }
        let mut report =
            CompileReport { kernels: keys.len(), compiled: missing.len(), warnings, ..CompileReport::default() };
        if !missing.is_empty() {
            let (compiler, output) = (self.compiler(&report)?, self.cache.output()?);
            let units = partition(program, &missing, manner);
            let job = Job { objects: self, manner, program, keys: &keys, compiler, output: &output };
            let compilers = Instant::now();
            let built = job.build(&units)?;
            report.compiling = compilers.elapsed();
            for (unit, object) in built {
                for i in unit {
                    take(i, &object, &keys[i])?;
                }
            }
            report.units = units.len();
            report.compiler = Some(compiler.version().into());
            report.warnings.extend(output.warning().cloned());
        }
        report.time = start.elapsed();
        Ok(report)
    }

    /// The compiler, now that there is something to compile.
    fn compiler(&self, report: &CompileReport) -> Result<&Toolchain> {
        self.compiler.get().map_err(|source| match report.compiled {
            // Nothing was built ahead, so nothing is missing of it.
            all if all == report.kernels && !matches!(source, Error::NoCompiler { .. }) => source,
            missing => Error::NotBuilt {
                missing,
                kernels: report.kernels,
                target: self.target.to_string(),
                source: Box::new(source),
            },
        })
    }

    /// What the compiler makes of all kernels of a program, as assembly.
    pub(crate) fn assembly(&self, program: &Program) -> Result<String> {
        let keys: Vec<Digest> = program.kernels.iter().map(|kernel| self.key(&program.prelude, kernel)).collect();
        let all: Vec<usize> = (0..keys.len()).collect();
        let folder = self.cache.output()?.build_folder()?;
        let (source, assembly) = (folder.path().join("kernels.c"), folder.path().join("kernels.s"));
        fs::write(&source, unit_source(program, &keys, &all)).map_err(|e| Error::cache("write", &source, e))?;
        match self.compiler.get()?.assembly(folder.path(), &self.flags, self.manner.stop.as_ref()) {
            Ok(()) => fs::read_to_string(&assembly).map_err(|e| Error::cache("read", &assembly, e)),
            Err(Untranslated::Refused { first_error: message, .. }) => {
                Err(Error::Compile { kernel: program.name.clone(), message, source_path: source })
            }
            Err(Untranslated::Ended(error)) => Err(error),
        }
    }

    fn key(&self, prelude: &str, kernel: &Kernel) -> Digest {
        let flags = self.flags.join(" ");
        digest::of_parts([
            VERSION.as_bytes(),
            self.target.isa.architecture().as_bytes(),
            self.named.as_deref().unwrap_or_default().as_bytes(),
            flags.as_bytes(),
            prelude.as_bytes(),
            kernel.symbol.as_bytes(),
            kernel.source.as_bytes(),
        ])
    }
}

/// Spreads kernels over units of about equal length of source: two, four, eight and so on, which share jobs evenly.
fn partition(program: &Program, missing: &[usize], manner: &Manner) -> Vec<Vec<usize>> {
    let length = |i: usize| program.kernels[i].source.len();
    let worthwhile = (missing.iter().map(|&i| length(i)).sum::<usize>() / manner.worthwhile).max(1);
    let count = (1 << worthwhile.ilog2()).min(manner.units).min(missing.len());
    let mut order = missing.to_vec();
    order.sort_by_key(|&i| (std::cmp::Reverse(length(i)), i));
    let mut units = vec![(0, Vec::new()); count];
    for i in order {
        if let Some(unit) = units.iter_mut().min_by_key(|unit| unit.0) {
            unit.0 += length(i);
            unit.1.push(i);
        }
    }
    units.into_iter().map(|unit| unit.1).collect()
}

/// The compilation of the kernels that a program lacks.
struct Job<'a> {
    objects: &'a Objects,
    manner: &'a Manner,
    program: &'a Program,
    keys: &'a [Digest],
    compiler: &'a Toolchain,
    output: &'a Output,
}

impl Job<'_> {
    /// Compiles all units, several at a time.
    fn build(&self, units: &[Vec<usize>]) -> Result<Vec<(Vec<usize>, SharedObject)>> {
        let all = units.iter().map(Vec::len).sum();
        let done = AtomicUsize::new(0);
        let tell = |kernels: usize| {
            let done = done.fetch_add(kernels, Ordering::Relaxed) + kernels;
            if let Some(progress) = &self.manner.progress {
                progress(done, all);
            }
        };
        let built = jobs::all(self.manner.jobs, units.len(), |index| {
            let objects = self.build_unit(&units[index])?;
            tell(units[index].len());
            Ok(objects)
        })?;
        Ok(built.into_iter().flatten().collect())
    }

    /// Compiles one unit; if it fails, its kernels one by one, to find the
    /// one to blame.
    fn build_unit(&self, unit: &[usize]) -> Result<Vec<(Vec<usize>, SharedObject)>> {
        let text = unit_source(self.program, self.keys, unit);
        let folder = self.output.build_folder()?;
        match self.compile(&text, &folder)? {
            Ok(built) => {
                let keys: Vec<_> = unit.iter().map(|&i| self.keys[i].clone()).collect();
                let object = self.output.keep(&built, &keys)?;
                Ok(vec![(unit.to_vec(), object)])
            }
            Err(_) => unit.iter().map(|&i| Ok((vec![i], self.build_alone(i)?))).collect(),
        }
    }

    fn build_alone(&self, i: usize) -> Result<SharedObject> {
        let kernel = &self.program.kernels[i];
        let text = unit_source(self.program, self.keys, &[i]);
        let folder = self.output.build_folder()?;
        let message = match self.compile(&text, &folder)? {
            Ok(built) => return self.output.keep(&built, &self.keys[i..=i]),
            Err(message) => message,
        };
        let name: String = kernel.symbol.chars().take(100).collect();
        let name = format!("kernloom-failed-{name}-{}.c", &self.keys[i][..8]);
        let source_path = self.output.failures().join(name);
        publish::file(&source_path, text.as_bytes()).map_err(|error| Error::cache("write", &source_path, error))?;
        Err(Error::Compile { kernel: kernel.symbol.clone(), message, source_path })
    }

    /// Compiles a text to an object in a build folder, or says why the
    /// compiler refuses it.
    fn compile(&self, text: &str, folder: &BuildFolder) -> Result<std::result::Result<PathBuf, String>> {
        // The compiler writes the name of the source into the object: with one
        // name for all, equal sources give equal objects.
        let source = folder.path().join("kernels.c");
        let object = folder.path().join("kernels.so");
        fs::write(&source, text).map_err(|error| Error::cache("write", &source, error))?;
        match self.compiler.compile(folder.path(), &self.objects.flags, self.manner.stop.as_ref()) {
            Ok(()) => Ok(Ok(object)),
            Err(Untranslated::Ended(error)) => Err(error),
            Err(Untranslated::Refused { disk_full: true, .. }) => {
                Err(Error::DiskFull { folder: self.output.folder().to_path_buf() })
            }
            Err(Untranslated::Refused { first_error, .. }) => Ok(Err(first_error)),
        }
    }
}

/// The symbol in the object; the one in the source is short and may repeat.
fn object_symbol(key: &Digest) -> String {
    format!("kernloom_{}", &key[..32])
}

fn unit_source(program: &Program, keys: &[Digest], unit: &[usize]) -> String {
    let mut text = program.prelude.clone();
    for &i in unit {
        let Kernel { symbol, source, .. } = &program.kernels[i];
        let renamed = object_symbol(&keys[i]);
        let _ = write!(text, "\n#define {symbol} {renamed}\n{source}\n#undef {symbol}\n");
    }
    text
}

/// Shared objects that are open, by path: their names say what is in them.
#[derive(Default)]
struct OpenObjects {
    libraries: HashMap<PathBuf, libloading::Library>,
}

impl OpenObjects {
    fn function(&mut self, object: &SharedObject, key: &Digest) -> Result<KernelFunction> {
        if !self.libraries.contains_key(&object.path) {
            self.libraries.insert(object.path.clone(), object.load()?);
        }
        let symbol = object_symbol(key);
        // SAFETY: every kernel has this signature by the contract of
        // `Program`, and the symbol names the kernel by the digest of its
        // source. The library outlives the pointer: `Loaded` holds both.
        unsafe { self.libraries[&object.path].get::<KernelFunction>(symbol.as_bytes()) }
            .map(|function| *function)
            .map_err(|error| object.unusable(error.to_string()))
    }
}
