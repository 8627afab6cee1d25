//! Replays the corpus of the fuzzer, and makes the seeds that it started from.

use crate::exercise;
use gguf::{GgmlType, Writer};
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gguf_parse")
}

#[test]
fn corpus_is_survived() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files = paths.iter().map(|path| std::fs::read(path).unwrap());
    let valid = files.filter(|bytes| exercise::exercise(bytes.clone()).is_ok()).count();
    println!("{} inputs replayed, {valid} of them are valid files", paths.len());
    assert!(paths.len() > 20 && valid > 5, "{} inputs, {valid} valid", paths.len());
}

/// Small files with every value type and every element type, which the fuzzer then breaks.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut entries = Writer::new();
    entries
        .set("general.architecture", "llama")
        .set("general.alignment", 64u32)
        .set("a", 1u8)
        .set("b", -1i8)
        .set("c", 1u16)
        .set("d", -1i16)
        .set("e", -1i32)
        .set("f", 1.5f32)
        .set("g", true)
        .set("h", 1u64)
        .set("i", -1i64)
        .set("j", 1.5f64)
        .set("tokens", vec!["a", "bc", ""])
        .set("scores", vec![0.5f32, -1.0])
        .set("split.count", 1u16);
    let data = |tensor: &gguf::Tensor, out: &mut dyn std::io::Write| {
        out.write_all(&(0..tensor.bytes).map(|i| i as u8).collect::<Vec<u8>>())
    };
    let mut seeds = vec![
        ("entries".to_owned(), entries.to_vec(data).unwrap()),
        ("nothing".to_owned(), Writer::new().to_vec(data).unwrap()),
    ];
    for &ty in GgmlType::ALL {
        let mut writer = Writer::new();
        writer.tensor("w", ty, &[u64::from(ty.block_len()), 2]).unwrap();
        seeds.push((ty.name().to_owned(), writer.to_vec(data).unwrap()));
    }
    let mut several = Writer::new();
    several.tensor("s", GgmlType::F32, &[]).unwrap();
    several.tensor("v", GgmlType::Q8_0, &[32, 1, 2, 1]).unwrap();
    several.tensor("none", GgmlType::F16, &[0, 4]).unwrap();
    seeds.push(("several".to_owned(), several.to_vec(data).unwrap()));
    seeds
}

#[test]
fn seeds_are_valid() {
    for (name, bytes) in seeds() {
        exercise::exercise(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Run by hand before a new fuzzing campaign: `cargo test -p kernloom-gguf --test all corpus:: -- --ignored`.
#[test]
#[ignore = "writes the seeds into the corpus"]
fn write_seeds() {
    for (name, bytes) in seeds() {
        std::fs::write(corpus().join(format!("seed-{name}")), bytes).unwrap();
    }
}
