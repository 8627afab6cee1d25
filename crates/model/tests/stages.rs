//! How many stages a layer of each family takes at one token: the fusions that
//! have to come out of the general passes. Nothing runs; the files are headers
//! of models of the real shapes, with holes for weights.

use compiler::compile::Compiled;
use compiler::{Numerics, Options};
use gguf::{Gguf, Writer};
use ir::{DType, Id, Op};
use model::config::{Attention, Config, Gating};
use model::step::{Class, PAGE, Sizes, build};
use model::synth::{Plan, Shape, SynthOptions};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes of weights written at a time.
const CHUNK: usize = 1 << 20;

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// A file in which chunks of zeros are holes.
struct Sparse(File);

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() == CHUNK && bytes == ZEROS {
            self.0.seek(SeekFrom::Current(CHUNK as i64))?;
            return Ok(CHUNK);
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Removes a file when it is no longer needed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A file of this shape, without a vocabulary, and without weights.
fn hollow(shape: &Shape, plan: &Plan, layers: u32, path: &Path) -> Gguf {
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
    let mut sink = Sparse(File::create(path).expect("a temporary file"));
    let size = w.write_to(&mut sink, |t, out| {
        if t.name == "rope_freqs.weight" {
            // Divisors of the rotations.
            return (0..t.elements()).try_for_each(|_| out.write_all(&1f32.to_le_bytes()));
        }
        let bytes =
            t.elements() / u64::from(t.ty.block_len()) * t.ty.row_bytes(t.ty.block_len().into()).expect("a block");
        let mut left = bytes as usize;
        while left > 0 {
            let n = left.min(CHUNK);
            out.write_all(&ZEROS[..n])?;
            left -= n;
        }
        Ok(())
    });
    sink.0.set_len(size.expect("a file")).expect("room for a sparse file");
    Gguf::open(path).expect("a model file")
}

/// The program of one token.
fn compiled(file: &Gguf, numerics: Numerics) -> Compiled {
    let config = Config::read(file).expect("a known model");
    let cache = if numerics == Numerics::Exact { DType::F32 } else { DType::F16 };
    let pages = 4096 / PAGE;
    let sizes = Sizes { class: Class::One, most_tokens: 64, segments: 1, pages, row_pages: pages, cache };
    build(file, &config, &sizes, &Options::cpu(numerics, 64)).expect("a program")
}

/// The program of a model with so many layers.
fn of_shape(name: &str, layers: u32, mixed: bool, numerics: Numerics) -> Compiled {
    let options = SynthOptions { layers: Some(layers), mixed, ..Default::default() };
    let plan = Plan::new(name, "q4_0", &options).expect("a known shape");
    let path = format!("stages-{name}-{layers}-{mixed}-{numerics:?}-{:?}.gguf", std::thread::current().id());
    let path = Temporary(Path::new(env!("CARGO_TARGET_TMPDIR")).join(path.replace(['(', ')'], "")));
    let file = hollow(plan.shape(), &plan, layers, &path.0);
    compiled(&file, numerics)
}

/// Stages of the fourth layer.
fn stages_a_layer(name: &str) -> usize {
    let count = |layers| of_shape(name, layers, false, Numerics::Int8).program.stages.len();
    let n = count(4) - count(3);
    println!("{name}: {n} stages a layer");
    n
}

#[test]
fn glm_4_7_flash_takes_at_most_10_stages_a_layer() {
    assert!(stages_a_layer("glm-4.7-flash") <= 10);
}

#[test]
fn youtu_llm_takes_at_most_9_stages_a_layer() {
    assert!(stages_a_layer("youtu-llm-2b") <= 9);
}

#[test]
fn llama_takes_at_most_7_stages_a_layer() {
    assert!(stages_a_layer("llama-3.2-1b") <= 7);
}

#[test]
fn qwen3_takes_at_most_7_stages_a_layer() {
    assert!(stages_a_layer("qwen3-0.6b") <= 7);
}

#[test]
fn glm4_takes_at_most_9_stages_a_layer() {
    assert!(stages_a_layer("tiny-glm4") <= 9);
}

#[test]
fn mixed_types_keep_the_number_of_stages() {
    let stages = |mixed| of_shape("tiny-mla-moe", 4, mixed, Numerics::Int8).program.stages.len();
    assert_eq!(stages(true), stages(false));
}

#[test]
fn equal_layers_share_their_kernels() {
    for name in ["llama-3.2-1b", "youtu-llm-2b", "glm-4.7-flash"] {
        let (three, four) = (of_shape(name, 3, false, Numerics::Int8), of_shape(name, 4, false, Numerics::Int8));
        assert_eq!(three.log.misses, four.log.misses, "{name}: the fourth layer needs new kernels");
        let added = four.program.launches() - three.program.launches();
        assert_eq!(four.log.hits - three.log.hits, added, "{name}");
    }
}

#[test]
fn no_family_needs_a_call_or_a_fence() {
    for name in [
        "tiny-llama",
        "tiny-qwen2",
        "tiny-qwen3",
        "tiny-qwen3moe",
        "tiny-glm4",
        "tiny-mla-moe",
        "tiny-mla-dense",
        "tiny-mla-softmax",
    ] {
        for numerics in [Numerics::Exact, Numerics::Int8] {
            let c = of_shape(name, 2, false, numerics);
            let count = c.graph.len() as u32;
            let custom = (0..count).find(|&i| matches!(c.graph.op(Id(i)), Op::Call { .. } | Op::Fence));
            assert_eq!(custom, None, "{name} {numerics:?}");
        }
    }
}
