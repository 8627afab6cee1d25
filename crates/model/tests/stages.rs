//! How many stages a layer of each real shape takes at one token: the fusions that
//! have to come out of the general passes.

use crate::support::hollow::Hollow;
use compiler::Compiled;
use compiler::program::{Count, Launch, Variable};
use compiler::{Numerics, Options};
use ir::{DType, Id, Op, Space};
use model::cache::CacheKind;
use model::config::Attention;
use model::step::{Class, Part};

/// Stages of a layer that each shape takes at most.
const MOST: [(&str, usize); 8] = [
    ("glm-4.7-flash", 10),
    ("deepseek-v2-lite", 10),
    ("youtu-llm-2b", 8),
    ("llama-3.2-1b", 5),
    ("tiny-qwen2", 6),
    ("qwen3-0.6b", 5),
    ("qwen3-30b-a3b", 8),
    ("tiny-glm4", 8),
];

/// Kinds of attention and feed-forward of the families with real shapes; what others add is in `families.rs`.
const TINY: [&str; 8] = [
    "tiny-llama",
    "tiny-qwen2",
    "tiny-qwen3",
    "tiny-qwen3moe",
    "tiny-glm4",
    "tiny-mla-moe",
    "tiny-mla-dense",
    "tiny-mla-softmax",
];

#[test]
fn a_layer_takes_no_more_stages_than_it_did() {
    let mut more = vec![];
    for cache in [CacheKind::F16, CacheKind::Q8_0] {
        for (shape, most) in MOST {
            let of = |layers| Hollow { cache: Some(cache), ..Hollow::new(shape, layers) };
            let count = |layers| of(layers).compile().program.stages.len();
            let stages = count(4) - count(3);
            println!("{shape}, cache of {cache}: {stages} stages a layer");
            if stages > most {
                more.push(format!("{shape}, cache of {cache}: {stages} stages a layer, at most {most} before"));
            }
        }
    }
    assert!(more.is_empty(), "{}", more.join("\n"));
}

#[test]
fn mixed_types_keep_the_number_of_stages() {
    let stages = |mixed| Hollow { mixed, ..Hollow::new("tiny-mla-moe", 4) }.compile().program.stages.len();
    assert_eq!(stages(true), stages(false));
}

#[test]
fn equal_layers_share_their_kernels() {
    for name in ["llama-3.2-1b", "youtu-llm-2b", "glm-4.7-flash"] {
        let (three, four) = (Hollow::new(name, 3).compile(), Hollow::new(name, 4).compile());
        assert_eq!(three.log.misses, four.log.misses, "{name}: the fourth layer needs new kernels");
        let added = four.program.launches() - three.program.launches();
        assert_eq!(four.log.hits - three.log.hits, added, "{name}");
    }
}

#[test]
fn no_family_needs_a_call_or_a_fence() {
    for name in TINY {
        for numerics in [Numerics::Exact, Numerics::Int8] {
            for class in Class::ALL {
                let hollow = Hollow { numerics, ..Hollow::new(name, 2) };
                let program = hollow.compile_with(class, &Options::cpu(numerics, 64));
                let c = program.unwrap_or_else(|e| panic!("{name} {numerics:?} {class:?}: {e}"));
                let count = c.graph.len() as u32;
                let custom = (0..count).find(|&i| matches!(c.graph.op(Id(i)), Op::Call { .. } | Op::Fence));
                assert_eq!(custom, None, "{name} {numerics:?} {class:?}");
            }
        }
    }
}

#[test]
fn every_pass_leaves_every_family_well_formed() {
    for name in TINY {
        for numerics in [Numerics::Exact, Numerics::Int8] {
            for class in Class::ALL {
                let options = Options { check: true, ..Options::cpu(numerics, 64) };
                let program = Hollow { numerics, ..Hollow::new(name, 2) }.compile_with(class, &options);
                program.map(|_| ()).unwrap_or_else(|e| panic!("{name} {numerics:?} {class:?}: {e}"));
            }
        }
    }
}

/// Every kernel of a layer says its layer and its half of it, and no other kernel does.
#[test]
fn each_kernel_belongs_to_one_half_of_one_layer() {
    for name in TINY {
        for numerics in [Numerics::Exact, Numerics::Int8] {
            for class in Class::ALL {
                let of = |layers| {
                    let hollow = Hollow { numerics, ..Hollow::new(name, layers) };
                    hollow.compile_with(class, &Options::cpu(numerics, 64)).unwrap_or_else(|e| panic!("{name}: {e}"))
                };
                let (two, three) = (of(2), of(3));
                halves_of_layers(&three, &format!("{name} {numerics:?} {class:?}"));
                let added = three.program.launches() - two.program.launches();
                let launches = three.program.stages.iter().flat_map(|s| &s.launches);
                let middle = launches.filter(|l| Part::of(&l.scope).is_some_and(|(layer, _)| layer == 1)).count();
                assert_eq!(middle, added, "{name} {numerics:?} {class:?}: kernels of a layer");
            }
        }
    }
}

/// Checks the halves of all layers by the tensors that their kernels read.
fn halves_of_layers(c: &Compiled, of: &str) {
    let mut halves = std::collections::BTreeSet::new();
    for launch in c.program.stages.iter().flat_map(|s| &s.launches) {
        let part = Part::of(&launch.scope);
        halves.extend(part);
        assert!(part.is_some() || launch.scope.is_empty(), "{of}: {}", launch.scope);
        // Matrices say whose kernel it is, norms are multiplied with by the kernel before.
        for (layer, tensor) in launch.origin.split(' ').filter_map(|name| name.strip_prefix("blk.")?.split_once('.')) {
            let half = match tensor {
                "attn_norm" | "ffn_norm" => continue,
                _ if tensor.starts_with("attn_") || tensor == "post_attention_norm" => Part::Attention,
                _ => Part::FeedForward,
            };
            let layer: i64 = layer.parse().expect("a layer");
            assert_eq!(part, Some((layer, half)), "{of}: the kernel that reads {}", launch.origin);
        }
        for layer in launch.origin.split(' ').filter_map(|name| name.strip_prefix("cache.")) {
            let layer = layer.split('.').next().and_then(|l| l.parse().ok()).expect("a layer");
            assert_eq!(part, Some((layer, Part::Attention)), "{of}: the kernel that writes {}", launch.origin);
        }
        if launch.row_bytes > 0 {
            assert!(matches!(part, Some((_, Part::Attention))), "{of}: {} reads the cache", launch.scope);
        }
    }
    let all: Vec<(i64, Part)> = (0..3).flat_map(|layer| Part::ALL.map(|part| (layer, part))).collect();
    assert_eq!(halves.into_iter().collect::<Vec<_>>(), all, "{of}");
}

/// What kernels say that they read of the cache is all of it, once a step; but for latents that are decompressed,
/// which kernels of keys and of values may read.
#[test]
fn the_kernels_of_a_step_read_each_row_of_the_cache_once() {
    for name in TINY {
        for cache in [CacheKind::F32, CacheKind::F16, CacheKind::Q8_0] {
            let hollow = Hollow { cache: Some(cache), ..Hollow::new(name, 2) };
            let row = model::memory_plan::cache_bytes(&hollow.config(), cache) as i64;
            for class in Class::ALL {
                let program = hollow.compile_with(class, &Options::cpu(Numerics::Int8, 64));
                let c = program.unwrap_or_else(|e| panic!("{name} {class:?}: {e}"));
                let read: i64 = c.program.stages.iter().flat_map(|s| &s.launches).map(|l| l.row_bytes).sum();
                let again = class == Class::Prompt && name.contains("mla");
                let right = if again { (row..4 * row).contains(&read) } else { read == row };
                assert!(right, "{name}, cache of {cache}, {class:?}: {read} bytes of {row}");
            }
        }
    }
}

/// Rows of experts that have fewer tokens than a tile has places are multiplied with those only.
#[test]
fn tiles_of_experts_end_at_their_counts() {
    for name in ["glm-4.7-flash", "deepseek-v2-lite", "qwen3-30b-a3b", "tiny-mla-moe"] {
        let program = Hollow::new(name, 3).compile_with(Class::Many, &Options::cpu(Numerics::Int8, 64));
        let c = program.unwrap_or_else(|e| panic!("{name}: {e}"));
        let launches = c.program.stages.iter().flat_map(|s| &s.launches);
        let experts: Vec<&Launch> = launches.filter(|l| l.origin.contains("_exps")).collect();
        assert!(!experts.is_empty(), "{name}");
        for launch in experts {
            let ids = c.graph.toposort(&[c.bodies[launch.kernel].root]).into_iter();
            let mut extents = ids.filter(|&id| matches!(c.graph.op(id), Op::Range(..))).map(|id| c.graph.src(id)[0]);
            let from_data = |extent: Id| c.graph.toposort(&[extent]).iter().any(|&id| *c.graph.op(id) == Op::Load);
            assert!(extents.any(from_data), "{name}: {} computes all places of a tile", launch.origin);
        }
    }
}

/// A matrix that is both a table and the head counts whole where it is multiplied.
#[test]
fn the_head_of_tied_embeddings_counts_its_bytes() {
    let c = Hollow::new("youtu-llm-2b", 2).compile();
    let launches = c.program.stages.iter().flat_map(|s| &s.launches);
    let bytes: Vec<i64> = launches
        .filter(|l| l.origin.split(' ').any(|name| name == "token_embd"))
        .map(|l| l.bytes.eval(&vec![1; c.program.vars.len()]).expect("a count"))
        .collect();
    let [row, all] = bytes[..] else { panic!("two kernels read it: {bytes:?}") };
    assert!(row > 0 && all > 10_000 * row, "{row} bytes for a token, {all} for the head");
}

/// The buffers of codes that a launch has in a space.
fn codes(c: &Compiled, launch: &Launch, wanted: Space) -> Vec<usize> {
    let ids = c.graph.toposort(&[c.bodies[launch.kernel].root]).into_iter();
    let slots = ids.filter_map(|id| match *c.graph.op(id) {
        Op::Buffer { slot, space, .. } if space == wanted && c.graph.dtype(id) == DType::I8 => Some(slot),
        _ => None,
    });
    slots.map(|slot| launch.args[slot as usize]).collect()
}

#[test]
fn the_last_kernel_of_a_layer_writes_the_codes_of_the_next() {
    for (name, down, readers) in [
        ("llama-3.2-1b", "ffn_down", &["attn_q", "attn_k", "attn_v"][..]),
        ("tiny-qwen2", "ffn_down", &["attn_q", "attn_k", "attn_v"]),
        ("qwen3-0.6b", "ffn_down", &["attn_q", "attn_k", "attn_v"]),
        ("qwen3-30b-a3b", "ffn_down_exps", &["attn_q", "attn_k", "attn_v"]),
        ("youtu-llm-2b", "ffn_down", &["attn_q_a", "attn_kv_a_mqa"]),
        ("glm-4.7-flash", "ffn_down_exps", &["attn_q_a", "attn_kv_a_mqa"]),
        ("deepseek-v2-lite", "ffn_down_exps", &["attn_q", "attn_kv_a_mqa"]),
    ] {
        let c = Hollow::new(name, 4).compile();
        let launch = |layer: usize, tensor: &str| {
            let tensor = format!("blk.{layer}.{tensor}");
            let reads = |l: &&Launch| l.origin.split(' ').any(|name| name == tensor);
            let all = c.program.stages.iter().flat_map(|s| &s.launches);
            all.clone().find(reads).unwrap_or_else(|| panic!("{name}: no kernel reads {tensor}"))
        };
        for layer in 1..3 {
            let written = codes(&c, launch(layer, down), Space::Output);
            for reader in readers {
                let read = codes(&c, launch(layer + 1, reader), Space::Input);
                let both = read.iter().any(|buffer| written.contains(buffer));
                assert!(both, "{name}: {reader} of layer {} reads codes that {down} did not write", layer + 1);
            }
        }
    }
}

/// The norm after the feed-forward of glm4 is over all of its output, so the kernel of `ffn_down` cannot be the last. The
/// one that is still writes the codes of the next layer.
#[test]
fn a_norm_of_the_whole_output_makes_another_kernel_the_last() {
    let c = Hollow::new("tiny-glm4", 4).compile();
    let launches = || c.program.stages.iter().flat_map(|s| &s.launches);
    for layer in 1..3 {
        let of = |l: &&Launch, tensor: &str| l.origin.split(' ').any(|name| name == tensor);
        let down = launches().find(|l| of(l, &format!("blk.{layer}.ffn_down"))).expect("a kernel of ffn_down");
        let last = launches().rfind(|l| l.scope == Part::FeedForward.scope(layer)).expect("a kernel of the layer");
        let (by_down, by_last) = (codes(&c, down, Space::Output), codes(&c, last, Space::Output));
        for tensor in ["attn_q", "attn_k", "attn_v"] {
            let reader = launches().find(|l| of(l, &format!("blk.{}.{tensor}", layer + 1))).expect("its reader");
            let read = codes(&c, reader, Space::Input);
            assert!(!read.iter().any(|buffer| by_down.contains(buffer)), "{tensor} reads what ffn_down writes");
            assert!(read.iter().any(|buffer| by_last.contains(buffer)), "{tensor} reads codes of another kernel");
        }
    }
}

/// What kernels say that they multiply is what the matrices of a layer have, for each token, and of a mixture for those that
/// a token uses.
#[test]
fn a_layer_multiplies_its_weights_with_each_token() {
    const TOKENS: i64 = 48;
    let numerics = Numerics::Int8;
    let (cuda, wgpu, cpu) = (Options::gpu(numerics), Options::wgsl_of_matrices(numerics), Options::cpu(numerics, 64));
    let targets = [
        ("CUDA", cuda, &[Class::Few, Class::Several, Class::Many, Class::Prompt][..]),
        ("wgpu", wgpu, &[Class::Few, Class::Several, Class::Many, Class::Prompt][..]),
        ("a CPU", cpu, &[Class::Few, Class::Many, Class::Prompt][..]),
    ];
    for (target, options, classes) in &targets {
        for shape in ["llama-3.2-1b", "qwen3-30b-a3b"] {
            for &class in *classes {
                let tokens = if class == Class::Few { 5 } else { TOKENS };
                let of = |layers| {
                    let c = Hollow::new(shape, layers).compile_with(class, options).expect("a program");
                    let tokens_or_least = |v: &Variable| if v.name == "tokens" { tokens } else { v.min };
                    let vars: Vec<i64> = c.program.vars.iter().map(tokens_or_least).collect();
                    let count = |count: &Count| count.eval(&vars).expect("a number");
                    let each = c.program.each_launch().map(|l| [&l.multiplied.codes, &l.multiplied.halves].map(count));
                    each.fold([0, 0], |[codes, halves], [c, h]| [codes + c, halves + h])
                };
                let c = Hollow::new(shape, 2).config();
                let Attention::Grouped { kv_heads, head, value } = c.attention else { panic!("{shape} has groups") };
                let attention = c.hidden * (2 * c.heads * head + kv_heads * (head + value));
                let feed_forward = c.experts.as_ref().map_or(c.ffn[0], |e| e.used * e.width);
                let wanted = tokens * (attention + 3 * c.hidden * feed_forward);
                let ([two_codes, two_halves], [codes, halves]) = (of(2), of(3));
                // Adapters multiply blocks as halves where tokens are many, and no target here does so otherwise.
                let as_halves = *target == "wgpu" && matches!(class, Class::Many | Class::Prompt);
                let own = [codes - two_codes, halves - two_halves];
                assert_eq!(own, if as_halves { [0, wanted] } else { [wanted, 0] }, "{shape}, {class:?}, {target}");
            }
        }
    }
}
