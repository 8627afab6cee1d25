//! Programs of models of the real shapes. Nothing runs: the files are headers, with holes for weights.

use compiler::Compiled;
use compiler::{Numerics, Options};
use gguf::Gguf;
use model::cache::{CacheKind, PAGE};
use model::config::Config;
use model::step::{Class, Output, Sizes, build};
use model::synth::{SynthOptions, SynthPlan};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Removes a file when it is no longer needed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A model of which programs are made.
#[derive(Clone, Copy, Debug)]
pub struct Hollow<'a> {
    pub shape: &'a str,
    pub layers: u32,
    /// Quantisation of the file.
    pub quant: &'a str,
    /// Whether matrices beside each other differ in type.
    pub mixed: bool,
    pub numerics: Numerics,
    /// Positions of the cache.
    pub context: i64,
    /// Tokens of a step of many at most.
    pub most_tokens: i64,
    /// Rows of logits of such a step at most.
    pub most_rows: i64,
    /// How it is kept, if not as the policy has it.
    pub cache: Option<CacheKind>,
    /// What its steps give.
    pub output: Output,
}

impl<'a> Hollow<'a> {
    /// With a context of 4096 and steps of up to 64 tokens, under `int8`.
    pub fn new(shape: &'a str, layers: u32) -> Hollow<'a> {
        let (numerics, most) = (Numerics::Int8, 64);
        Hollow {
            shape,
            layers,
            quant: "q4_0",
            mixed: false,
            numerics,
            context: 4096,
            most_tokens: most,
            most_rows: most,
            cache: None,
            output: Output::Logits,
        }
    }

    /// The program of one token.
    pub fn compile(&self) -> Compiled {
        self.compile_with(Class::One, &Options::cpu(self.numerics, 64)).expect("a program")
    }

    /// What its file says.
    pub fn config(&self) -> Config {
        self.with_file(|_, config| config.clone())
    }

    /// The program of a step of this class.
    pub fn compile_with(&self, class: Class, options: &Options) -> Result<Compiled, String> {
        let sizes = self.sizes(class);
        self.with_file(|file, config| build(file, config, &sizes, options)).map_err(|e| e.to_string())
    }

    /// Whether a step reads all tensors, and how long it took to find out.
    pub fn check_all_read(&self) -> (Result<(), String>, Duration) {
        let (mut sizes, options) = (self.sizes(Class::One), Options::cpu(self.numerics, 64));
        self.with_file(|file, config| {
            sizes.output = Output::usual(config);
            let start = Instant::now();
            let checked = model::unused_tensors::check(file, config, &sizes, &options);
            (checked.map_err(|e| e.to_string()), start.elapsed())
        })
    }

    /// How large the steps of a class are.
    pub fn sizes(&self, class: Class) -> Sizes {
        let pages = self.context / PAGE;
        Sizes {
            class,
            output: self.output,
            most_tokens: self.most_tokens,
            most_rows: self.most_rows,
            segments: 1,
            window_pages: pages,
            pages,
            row_pages: pages,
            cache: self.cache.unwrap_or(CacheKind::of(self.numerics)),
        }
    }

    /// What is made of its file and of what that says.
    pub fn with_file<T>(&self, f: impl FnOnce(&Gguf, &Config) -> T) -> T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let synth = SynthOptions { layers: Some(self.layers), mixed: self.mixed, ..Default::default() };
        let plan = SynthPlan::new(self.shape, self.quant, &synth).expect("a known shape");
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hollow-{process}-{number}.gguf"));
        let path = Temporary(path);
        plan.write_hollow(&path.0, false).expect("a hollow file");
        let file = Gguf::open(&path.0).expect("a model file");
        f(&file, &Config::read(&file).expect("a known model"))
    }
}
