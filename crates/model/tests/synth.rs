//! Files of random weights: their sizes are those of the public files, and what is written can be read.

use gguf::dequant::Dequantiser;
use gguf::{GgmlType, Gguf};
use model::config::{Attention, Config, Mixer};
use model::synth::{Quant, Shape, SynthError, SynthOptions, SynthPlan, shapes};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn plan(shape: &str, quant: &str) -> SynthPlan {
    SynthPlan::new(shape, quant, &SynthOptions::default()).unwrap()
}

fn legacy(shape: &str, quant: &str) -> SynthPlan {
    let options = SynthOptions { legacy_kv_b: true, ..Default::default() };
    SynthPlan::new(shape, quant, &options).unwrap()
}

fn read(plan: &SynthPlan) -> Gguf {
    Gguf::parse(plan.to_vec().unwrap()).unwrap()
}

fn tiny() -> impl Iterator<Item = &'static Shape> {
    let is_tiny = |shape: &&Shape| shape.name.starts_with("tiny");
    shapes().iter().filter(is_tiny)
}

/// Number of tensors of each type.
fn types(plan: &SynthPlan) -> BTreeMap<GgmlType, usize> {
    let mut count = BTreeMap::new();
    for tensor in plan.tensors() {
        *count.entry(tensor.ty).or_insert(0) += 1;
    }
    count
}

#[test]
fn bytes_are_those_of_the_public_files() {
    for (shape, quant, bytes) in [
        ("glm-4.7-flash", "q4_0", 16_946_547_200),
        ("glm-4.7-flash", "q4_k_m", 18_123_246_080),
        ("glm-4.7-flash", "q8_0", 31_833_324_032),
        ("glm-4.7-flash", "bf16", 59_899_361_792),
        ("deepseek-v2-lite", "q4_0", 8_901_113_856),
        ("deepseek-v2-lite", "q4_k_m", 10_363_959_296),
        ("deepseek-v2-lite", "q8_0", 16_698_521_600),
        ("youtu-llm-2b", "q4_0", 1_171_779_584),
        ("youtu-llm-2b", "q4_k_m", 1_227_878_400),
        ("youtu-llm-2b", "q8_0", 2_084_741_120),
        ("youtu-llm-2b", "bf16", 3_923_517_440),
    ] {
        assert_eq!(plan(shape, quant).bytes(), bytes, "{shape} {quant}");
    }
    let legacy = legacy("deepseek-v2-lite", "q4_k_m");
    assert_eq!(legacy.bytes(), 10_367_449_088);
}

#[test]
fn bytes_of_a_step_count_only_the_experts_in_use() {
    for (shape, quant, bytes) in [
        ("glm-4.7-flash", "q4_0", 2_116_898_432),
        ("glm-4.7-flash", "q4_k_m", 2_223_066_752),
        ("glm-4.7-flash", "q8_0", 3_821_765_248),
        ("glm-4.7-flash", "bf16", 7_171_721_728),
        ("deepseek-v2-lite", "q4_0", 1_445_149_824),
        ("deepseek-v2-lite", "q4_k_m", 1_611_824_256),
        ("deepseek-v2-lite", "q8_0", 2_615_033_984),
        ("deepseek-v2-lite", "bf16", 4_909_942_784),
        ("youtu-llm-2b", "q4_0", 1_171_779_584),
        ("youtu-llm-2b", "q4_k_m", 1_227_878_400),
    ] {
        assert_eq!(plan(shape, quant).step_bytes(), bytes, "{shape} {quant}");
    }
    let legacy = legacy("deepseek-v2-lite", "q4_k_m");
    assert_eq!(legacy.step_bytes(), 1_615_314_048);
}

#[test]
fn types_are_those_of_the_public_files() {
    use GgmlType::*;
    for (plan, expected) in [
        (plan("glm-4.7-flash", "q4_0"), vec![(F32, 281), (Q4_0, 562), (Q6_K, 1)]),
        (plan("glm-4.7-flash", "q4_k_m"), vec![(F32, 281), (Q5_0, 47), (Q4_K, 470), (Q6_K, 46)]),
        (plan("deepseek-v2-lite", "q4_0"), vec![(F32, 108), (Q4_0, 295), (Q6_K, 1)]),
        (plan("deepseek-v2-lite", "q4_k_m"), vec![(F32, 108), (Q5_0, 41), (Q8_0, 13), (Q4_K, 229), (Q6_K, 13)]),
        (legacy("deepseek-v2-lite", "q4_k_m"), vec![(F32, 108), (Q5_0, 14), (Q8_0, 13), (Q4_K, 216), (Q6_K, 26)]),
        (plan("youtu-llm-2b", "q4_0"), vec![(F32, 129), (Q4_0, 288), (Q6_K, 1)]),
        (plan("youtu-llm-2b", "q4_k_m"), vec![(F32, 129), (Q5_0, 32), (Q4_K, 240), (Q6_K, 17)]),
    ] {
        assert_eq!(types(&plan), expected.into_iter().collect());
    }
}

#[test]
fn every_shape_can_be_planned_in_every_quantisation() {
    for shape in shapes() {
        for quant in Quant::ALL {
            for mixed in [false, true] {
                let options = SynthOptions { mixed, ..Default::default() };
                let plan = SynthPlan::new(shape.name, quant.name(), &options).unwrap();
                for tensor in plan.tensors() {
                    let what = format!("{} {} {}", shape.name, quant.name(), tensor.name);
                    let row = tensor.ty.row_bytes(tensor.shape[0]);
                    let rows = tensor.shape[1..].iter().product::<u64>();
                    assert_eq!(Some(tensor.bytes), row.map(|row| row * rows), "{what}");
                    assert!(tensor.ty.computed_as().format().is_some(), "{what}: {}", tensor.ty);
                    let plain = tensor.shape.len() == 1 || tensor.name.contains("ffn_gate_inp");
                    assert!(!plain || tensor.ty == GgmlType::F32, "{what}");
                }
            }
        }
    }
}

#[test]
fn every_tiny_file_reads_back() {
    for shape in tiny() {
        for quant in Quant::ALL {
            let plan = plan(shape.name, quant.name());
            let file = read(&plan);
            check_config(shape, &Config::read(&file).unwrap(), shape.layers);
            assert_eq!(file.tensors().len(), plan.tensors().len());
            for (tensor, planned) in file.tensors().iter().zip(plan.tensors()) {
                assert_eq!(tensor.name, planned.name);
                assert_eq!((tensor.ty, tensor.bytes), (planned.ty, planned.bytes));
                assert_eq!(tensor.shape(), planned.shape);
            }
        }
    }
}

fn check_config(shape: &Shape, config: &Config, layers: u32) {
    let name = shape.name;
    assert_eq!(config.arch, shape.arch, "{name}");
    assert_eq!(config.layers, i64::from(layers), "{name}");
    let mixers = || (0..layers as usize).map(|layer| shape.mixers[layer % shape.mixers.len()]);
    assert!(mixers().eq(config.mixers.iter().copied()), "{name}");
    assert_eq!(config.recurrence, shape.recurrence, "{name}");
    let attends = mixers().any(Mixer::attends);
    let attention = if attends { shape.attention } else { Attention::None };
    // A model cut short may have windows in all of its layers.
    if shape.kinds.as_ref().is_none_or(|kinds| layers >= kinds.every) {
        assert_eq!(config.attention, attention, "{name}");
        assert_eq!(config.heads, if attends { shape.heads } else { 0 }, "{name}");
    }
    assert_eq!(config.experts, shape.experts, "{name}");
    assert_eq!(config.hidden, shape.hidden, "{name}");
    let widths = |&width: &i64| width == 0 || width == shape.ffn || shape.kinds.is_some() && width == 2 * shape.ffn;
    assert!(config.ffn.iter().all(widths), "{name}");
    if let Some(kinds) = &shape.kinds {
        let windowed = (0..config.layers).find(|&layer| config.window_of(layer).is_some()).expect("a window");
        assert_eq!(config.attention_of(windowed), kinds.in_windows.0, "{name}");
        assert_eq!(config.heads_of(windowed), kinds.heads.unwrap_or(shape.heads), "{name}");
        let own = i64::from(kinds.own_caches(layers));
        assert!(config.keys_of.iter().all(|&of| of < own) && config.layer_input == kinds.layer_input, "{name}");
        assert_eq!(
            config.ffn.iter().filter(|&&width| width == 2 * shape.ffn).count() as i64,
            if kinds.wide_readers { config.layers - own } else { 0 },
            "{name}"
        );
    }
    assert_eq!(config.vocab, i64::from(shape.vocab), "{name}");
    assert_eq!(config.context, i64::from(shape.context), "{name}");
    assert_eq!(config.eps, shape.eps, "{name}");
    let part = if config.family().halves_rotation { 2 } else { 1 };
    assert_eq!(config.rope.dims, if attends { shape.rope_dims / part } else { 0 }, "{name}");
    if shape.experts.is_some() {
        assert_eq!(config.dense_lead, i64::from(shape.dense_lead), "{name}");
    }
}

#[test]
fn weights_keep_the_size_of_what_goes_through_them() {
    for shape in tiny() {
        let file = read(&plan(shape.name, "q4_k_m"));
        // Of these the values are given.
        let given =
            ["ssm_a", "rope_freqs.weight", "layer_output_scale.weight", "time_mix_decay.weight", "time_mix_w0.weight"];
        for tensor in file.tensors().iter().filter(|tensor| !given.iter().any(|end| tensor.name.ends_with(end))) {
            let mut values = vec![0.0; tensor.elements() as usize];
            let dequantiser = Dequantiser::of_type(tensor.ty).unwrap();
            dequantiser.run(file.data(tensor), &mut values).unwrap();
            let n = values.len() as f32;
            let mean = values.iter().sum::<f32>() / n;
            let std = (values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / n).sqrt();
            let fan_in = match tensor.name.contains("attn_k_b") {
                true => tensor.dims[1],
                false => tensor.dims[0],
            };
            let one = 1.0 / (fan_in as f32).sqrt();
            let (want_mean, want_std) = match tensor.name.as_str() {
                name if name.ends_with(".bias") => (0.0, 0.1),
                "token_types.weight" | "position_embd.weight" => (0.0, 0.1),
                name if name.ends_with(".ssm_d") => (1.0, 0.05),
                name if ["mix_lerp", "mix_first", "mix_k_"].iter().any(|part| name.contains(part)) => (0.5, 0.1),
                name if ["mix_a0", "mix_v0", "mix_r_k"].iter().any(|part| name.contains(part)) => (0.0, 0.1),
                name if name.contains("attn_rel_b") => (0.0, 1.0),
                name if ["norm", "mix_ln", "correct_scale"].iter().any(|part| name.contains(part)) => (1.0, 0.05),
                name if name.ends_with("ffn_gate_inp.scale") => (1.0 / one, 0.05 / one),
                name if name.contains("ffn_gate_inp") => (0.0, 2.0 * one),
                "token_embd.weight" if !shape.tied => (0.0, 1.0),
                // A row has an element of a row for each layer.
                "per_layer_token_embd.weight" => (0.0, one * (shape.layers as f32).sqrt()),
                _ => (0.0, one),
            };
            let what = format!("{} {}: {mean} ± {std}", shape.name, tensor.name);
            // The sample may be small.
            let slack = 0.06 + 4.0 / n.sqrt();
            assert!((mean - want_mean).abs() < slack * want_std, "{what}");
            assert!((std / want_std - 1.0).abs() < slack, "{what}");
        }
    }
}

#[test]
fn rows_of_a_tensor_differ() {
    for quant in ["f32", "bf16", "q4_0", "q6_k"] {
        let file = read(&plan("tiny-qwen3moe", quant));
        for tensor in file.tensors().iter().filter(|t| t.shape().len() > 1) {
            let count = tensor.shape()[1..].iter().product::<u64>();
            let row = (tensor.bytes / count) as usize;
            let mut rows: Vec<&[u8]> = file.data(tensor).chunks_exact(row).collect();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(rows.len() as u64, count, "{quant} {}", tensor.name);
        }
    }
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let bytes = |seed| {
        let options = SynthOptions { seed, ..Default::default() };
        let plan = SynthPlan::new("tiny-mla-moe", "q4_k_m", &options).unwrap();
        plan.to_vec().unwrap()
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn fewer_layers() {
    let options = SynthOptions { layers: Some(2), ..Default::default() };
    for shape in shapes().iter().filter(|shape| shape.layers > 2) {
        let plan = SynthPlan::new(shape.name, "q4_0", &options).unwrap();
        let last = plan.tensors().iter().rfind(|t| t.name.contains("blk."));
        assert!(last.unwrap().name.starts_with("blk.1."), "{}", shape.name);
        if shape.name.starts_with("tiny") {
            check_config(shape, &Config::read(&read(&plan)).unwrap(), 2);
        }
    }
}

#[test]
fn keys_and_shared_experts_can_have_a_type_of_their_own() {
    let options = SynthOptions { mixed: true, ..Default::default() };
    for quant in ["q4_0", "q8_0", "q4_k_m"] {
        let plan = SynthPlan::new("tiny-mla-moe", quant, &options).unwrap();
        let ty = |name: &str| plan.tensors().iter().find(|t| t.name == name).unwrap().ty;
        let pairs = [
            ("blk.1.attn_q_a.weight", "blk.1.attn_kv_a_mqa.weight"),
            ("blk.1.ffn_up_exps.weight", "blk.1.ffn_up_shexp.weight"),
        ];
        for (a, b) in pairs {
            assert_ne!(ty(a), ty(b), "{quant}: {a} {b}");
        }
    }
}

#[test]
fn old_files_keep_keys_and_values_together() {
    let plan = legacy("tiny-mla-softmax", "q4_0");
    let has = |part| plan.tensors().iter().any(|t| t.name.contains(part));
    assert!(has("attn_kv_b") && !has("attn_k_b") && !has("attn_v_b"));
    let shape = plan.shape();
    check_config(shape, &Config::read(&read(&plan)).unwrap(), shape.layers);
}

#[test]
fn a_file_on_disk_and_its_progress() {
    let name = format!("kernloom-synth-{}.gguf", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let plan = plan("tiny-qwen2", "q4_k_m");
    let mut last = 0;
    let progress = |done, total| {
        assert!(done > last && done <= total);
        assert_eq!(total, plan.bytes());
        last = done;
    };
    plan.write(&path, progress).unwrap();
    assert_eq!(last, plan.bytes());
    assert_eq!(std::fs::read(&path).unwrap(), plan.to_vec().unwrap());
    let file = Gguf::open(&path).unwrap();
    assert_eq!(file.architecture().unwrap(), "qwen2");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn errors_name_what_there_is() {
    let error = |shape, quant, options: &SynthOptions| SynthPlan::new(shape, quant, options).unwrap_err();
    let options = SynthOptions::default();
    let text = error("gpt-5", "q4_0", &options).to_string();
    for name in ["gpt-5", "glm-4.7-flash", "tiny-glm4"] {
        assert!(text.contains(name), "{text}");
    }
    let text = error("tiny-llama", "q4", &options).to_string();
    for name in ["'q4'", "q4_k_m", "mxfp4"] {
        assert!(text.contains(name), "{text}");
    }
    for layers in [0, 513] {
        let options = SynthOptions { layers: Some(layers), ..Default::default() };
        let found = error("tiny-llama", "q4_0", &options);
        assert!(matches!(found, SynthError::Layers(n) if n == layers));
    }
    let options = SynthOptions { legacy_kv_b: true, ..Default::default() };
    let found = error("tiny-llama", "q4_0", &options);
    assert!(matches!(found, SynthError::NoLatentAttention("tiny-llama")));
}
