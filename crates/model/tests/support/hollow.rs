//! Programs of models of the real shapes. Nothing runs: the files are headers, with holes for weights.

use compiler::Compiled;
use compiler::{Numerics, Options};
use gguf::{Gguf, Writer};
use model::cache::{CacheKind, PAGE};
use model::config::{Attention, Config, Gating};
use model::step::{Class, Output, Sizes, build};
use model::synth::hollow;
use model::synth::{Shape, SynthOptions, SynthPlan};
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

/// A file of this shape, without a vocabulary, and without weights.
fn write(shape: &Shape, plan: &SynthPlan, layers: u32, path: &Path) -> Gguf {
    let mut w = Writer::new();
    w.set("general.architecture", shape.arch);
    let mut int = |name: &str, v: i64| {
        w.set(format!("{}.{name}", shape.arch), u32::try_from(v).expect("sizes are small"));
    };
    int("block_count", layers.into());
    int("context_length", shape.context.into());
    int("embedding_length", shape.hidden);
    int("feed_forward_length", shape.ffn);
    int("attention.head_count", shape.heads);
    int("rope.dimension_count", shape.rope_dims);
    match shape.attention {
        Attention::None => {}
        Attention::Grouped { kv_heads, head, value } => {
            int("attention.head_count_kv", kv_heads);
            int("attention.key_length", head);
            int("attention.value_length", value);
        }
        Attention::Latent { q_rank, kv_rank, nope, rope, value } => {
            int("attention.q_lora_rank", q_rank.unwrap_or(0));
            int("attention.kv_lora_rank", kv_rank);
            int("attention.key_length_mla", nope + rope);
            int("attention.value_length_mla", value);
        }
    }
    if let Some(e) = &shape.experts {
        int("leading_dense_block_count", shape.dense_lead.into());
        int("expert_count", e.count);
        int("expert_used_count", e.used);
        int("expert_shared_count", e.shared);
        int("expert_feed_forward_length", e.width);
        int("expert_gating_func", if e.gating == Gating::Sigmoid { 2 } else { 1 });
        w.set(format!("{}.expert_weights_scale", shape.arch), e.scale);
        w.set(format!("{}.expert_weights_norm", shape.arch), e.normalise);
    }
    w.set(format!("{}.attention.layer_norm_rms_epsilon", shape.arch), shape.eps);
    w.set(format!("{}.rope.freq_base", shape.arch), shape.rope_base);
    for t in plan.tensors() {
        w.tensor(&t.name, t.ty, &t.shape).expect("a legal tensor");
    }
    let mut sink = hollow::Hollow::create(path).expect("a temporary file");
    let size = w.write_to(&mut sink, |t, out| {
        if t.name == "rope_freqs.weight" {
            // Divisors of the rotations.
            return (0..t.elements()).try_for_each(|_| out.write_all(&1f32.to_le_bytes()));
        }
        let bytes =
            t.elements() / u64::from(t.ty.block_len()) * t.ty.row_bytes(t.ty.block_len().into()).expect("a block");
        hollow::zeros(out, bytes)
    });
    sink.finish(size.expect("a file")).expect("room for a sparse file");
    Gguf::open(path).expect("a model file")
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
        let (sizes, options) = (self.sizes(Class::One), Options::cpu(self.numerics, 64));
        self.with_file(|file, config| {
            let start = Instant::now();
            let checked = model::unused_tensors::check(file, config, &sizes, &options);
            (checked.map_err(|e| e.to_string()), start.elapsed())
        })
    }

    fn sizes(&self, class: Class) -> Sizes {
        let pages = self.context / PAGE;
        Sizes {
            class,
            output: self.output,
            most_tokens: self.most_tokens,
            most_rows: self.most_rows,
            segments: 1,
            pages,
            row_pages: pages,
            cache: self.cache.unwrap_or(CacheKind::of(self.numerics)),
        }
    }

    fn with_file<T>(&self, f: impl FnOnce(&Gguf, &Config) -> T) -> T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let synth = SynthOptions { layers: Some(self.layers), mixed: self.mixed, ..Default::default() };
        let plan = SynthPlan::new(self.shape, self.quant, &synth).expect("a known shape");
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hollow-{process}-{number}.gguf"));
        let path = Temporary(path);
        let file = write(plan.shape(), &plan, self.layers, &path.0);
        f(&file, &Config::read(&file).expect("a known model"))
    }
}
