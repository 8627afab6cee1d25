//! The tokenizer against vocabularies and token lists of real models.
//!
//! The files are not part of this repository. The test looks for them in `shared/tokenizers` beside
//! the checkout, or in the folder that `KERNLOOM_VOCABULARIES` names: `NAME.gguf.gz` (a vocabulary), `NAME.inp` (cases) and `NAME.out` (their tokens),
//! as llama.cpp ships them.

use crate::gguf_metadata;
use std::path::{Path, PathBuf};
use std::time::Instant;
use text::tokenizer::Tokenizer;

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("KERNLOOM_VOCABULARIES") {
        return folder.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/tokenizers")
}

pub fn names() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder()) else {
        println!("skipped: no vocabularies in {}", folder().display());
        return vec![];
    };
    let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files.filter_map(|file| Some(file.strip_suffix(".gguf.gz")?.to_owned())).collect();
    names.sort();
    names
}

pub fn load(name: &str) -> Tokenizer {
    let file = folder().join(format!("{name}.gguf.gz"));
    let data = gguf_metadata::tokenizer_data(&file);
    let (tokens, merges) = (data.tokens.len(), data.merges.len());
    let start = Instant::now();
    let tokenizer = Tokenizer::new(data).unwrap_or_else(|e| panic!("{name}: {e}"));
    println!("{name}: {tokens} tokens, {merges} merges, built in {:.1?}", start.elapsed());
    tokenizer
}

/// Whether text comes back from its tokens; those of encoders know words only, whatever was between them.
fn is_reversible(name: &str) -> bool {
    !["bert", "nomic"].iter().any(|of_encoders| name.starts_with(of_encoders))
}

/// The texts that a vocabulary is tried with.
pub fn inputs(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.inp"))).unwrap();
    let mut inputs: Vec<String> = text.split(SEPARATOR).map(str::to_owned).collect();
    // The list ends with a separator, or with a case that is not empty.
    if inputs.last().is_some_and(String::is_empty) {
        inputs.pop();
    }
    inputs
}

#[test]
fn every_case_of_every_vocabulary() {
    let mut cases = 0;
    let names = names();
    for name in &names {
        let tokenizer = load(name);
        let outputs = std::fs::read_to_string(folder().join(format!("{name}.out"))).unwrap();
        let inputs = inputs(name);
        assert_eq!(inputs.len(), outputs.lines().count(), "{name}");
        for (input, line) in inputs.iter().zip(outputs.lines()) {
            let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let ids = tokenizer.encode(input, false, false);
            assert_eq!(ids, expected, "{name}: {input:?}");
            let half = input.len() / 2..input.len();
            assert_eq!(tokenizer.encode_with_data(input, false, &[half]), expected, "{name}: {input:?}");
            if is_reversible(name) {
                let decoded = tokenizer.decode(&ids, false);
                assert_eq!(String::from_utf8_lossy(&decoded), *input, "{name}");
            }
            cases += 1;
        }
    }
    println!("ran {cases} cases of {} vocabularies", names.len());
}

#[test]
fn any_bytes_survive_the_round_trip() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for name in names().into_iter().filter(|name| is_reversible(name)) {
        let tokenizer = load(&name);
        let survives = |byte: &u8| {
            let ids = tokenizer.encode([*byte], true, false);
            tokenizer.decode(&ids, false) == [*byte]
        };
        let known: Vec<u8> = (0..=255).filter(survives).collect();
        let in_text = |byte: &u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        let missing: Vec<u8> = (0..=255).filter(in_text).filter(|byte| !known.contains(byte)).collect();
        assert!(missing.len() < 20, "{name}: {missing:?}");
        println!("  {} bytes have a token; text could have {missing:?}", known.len());
        for _ in 0..300 {
            let bytes = (0..random() % 60).map(|_| known[random() % known.len()]);
            let bytes: Vec<u8> = bytes.collect();
            let ids = tokenizer.encode(&bytes, true, false);
            assert_eq!(tokenizer.decode(&ids, false), bytes, "{name}");
        }
    }
}

/// A megabyte without a break must not take quadratic time.
#[test]
fn long_texts_take_linear_time() {
    for name in names() {
        let tokenizer = load(&name);
        let prose = "The quick brown fox jumps over the lazy dog. 它很高兴地跳过。\n".repeat(4_000);
        for (kind, text) in [
            ("one word", "a".repeat(1 << 20)),
            ("one word of many letters", "abcdefghijklmnopqrstuvwxyz".repeat(10_000)),
            ("one space", " ".repeat(1 << 18)),
            ("lines", "\n".repeat(1 << 18)),
            ("prose", prose),
        ] {
            let start = Instant::now();
            let ids = tokenizer.encode(&text, false, true);
            let took = start.elapsed();
            println!("  {kind}: {} tokens, {:.1} MB/s", ids.len(), text.len() as f64 / 1e6 / took.as_secs_f64());
            assert!(took.as_secs() < 20, "{name}, {kind}: {took:?}");
            if is_reversible(&name) {
                assert_eq!(tokenizer.decode(&ids, false), text.as_bytes(), "{name}, {kind}");
            }
        }
    }
}
