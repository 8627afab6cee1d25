//! Every name of a splitting rule, and kinds of vocabularies without one, on a small vocabulary that is made here: tokens that llama-tokenize found for the same
//! file.
//!
//! The merges are learned from short pieces of the cases wherever they lie, so nearly every boundary shows in the tokens.
//! `make_vectors.py` makes the vectors anew.

use crate::tokenizer_synthetic::{spelled, train};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use text::tokenizer::{Tokenizer, TokenizerData};

const CASES: [&str; 12] = [
    "Hello, world! It's 2024 and we'll see THEY'RE gone.",
    "1 12 123 1234 12345 1234567 12345678901",
    "x=1234; y = (a+b)*3.14e10 // comment\n\tif (x) { return 0; }\r\n\r\n",
    "a  b   c    d     e 1  22   333\n\n\n  f\t\tg \n ",
    "中文字符 混合 abc日本語テキスト、한국어 문장。ไทย",
    "naïve café Ünïcödé Привет, мир! Ελληνικά",
    "snake_case kebab-case a.b.c http://x.y/z?q=1&r=2",
    "e\u{301}tude a\u{300}\u{301}b हिन्दी भाषा।",
    "٣٤٥٦ ½ Ⅷ ¹²³⁴ 1½2",
    "🚀 emoji 👩\u{200d}🚀!? ... --- ''' \"\"\"",
    "<tag> [INST] «quoted» “curly” it’s don't DON'T'S",
    "word, another word (in brackets) | or, not",
];

/// The one whose tokens are spelled raw.
const RAW: &str = "sarvam-moe";

/// Kinds of vocabularies that have no splitting rule.
const KINDS: [&str; 2] = ["rwkv", "plamo2"];

/// All tokens of single symbols, and merges of neighbours in the cases.
fn data(pre: &str) -> TokenizerData {
    if KINDS.contains(&pre) {
        return unsplit(pre);
    }
    let raw = pre == RAW;
    let merges = if raw { &*RAW_MERGES } else { &*MERGES };
    let mut data = TokenizerData { model: "gpt2".into(), pre: Some(pre.into()), ..TokenizerData::default() };
    for byte in 0..=255 {
        data.tokens.push(if raw { format!("<0x{byte:02X}>") } else { spelled(byte).to_string() });
        data.token_type.push(if raw { 6 } else { 1 });
    }
    if raw {
        // One is left out, so that it is written as bytes.
        let points = CASES.iter().flat_map(|case| symbols(case, raw));
        let mut points: Vec<String> = points.filter(|point| point != "🚀").collect();
        points.sort_unstable();
        points.dedup();
        for point in points {
            data.tokens.push(point);
            data.token_type.push(1);
        }
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (left, right) in merges {
        let joined = format!("{left}{right}");
        if !joined.contains('🚀') || !raw {
            if known.insert(joined.clone()) {
                data.tokens.push(joined);
                data.token_type.push(1);
            }
            data.merges.push(format!("{left} {right}"));
        }
    }
    data
}

/// What merges make as a vocabulary of this kind.
fn unsplit(kind: &str) -> TokenizerData {
    let mut data = TokenizerData { model: kind.into(), ..TokenizerData::default() };
    let mut add = |text: String, kind: i32| {
        data.tokens.push(text);
        data.token_type.push(kind);
        data.scores.push(-0.003 * data.scores.len() as f32 - 1.0);
    };
    add("<s>".into(), 3);
    let escaped = |byte: u8| match byte {
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    for byte in 0..=255 {
        if kind == "rwkv" { add(escaped(byte), 1) } else { add(format!("<0x{byte:02X}>"), 6) }
    }
    let mut known = BTreeSet::new();
    for (left, right) in RAW_MERGES.iter() {
        for text in [left, right, &format!("{left}{right}")] {
            let text = text.replace('▁', " ");
            let is_new = !text.contains('🚀') && known.insert(text.clone());
            match kind {
                "rwkv" if is_new && text.len() > 1 => add(text.bytes().map(escaped).collect(), 1),
                "plamo2" if is_new => add(text, 1),
                _ => {}
            }
        }
    }
    data
}

static MERGES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| learned(false));
static RAW_MERGES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| learned(true));

/// What pieces of two to five symbols teach.
fn learned(raw: bool) -> Vec<(String, String)> {
    let mut words = BTreeMap::new();
    for case in CASES {
        let symbols = symbols(case, raw);
        for length in [2, 3, 5] {
            symbols.windows(length).for_each(|piece| *words.entry(piece.to_vec()).or_default() += 1);
        }
    }
    train(words, 700)
}

fn symbols(text: &str, raw: bool) -> Vec<String> {
    if raw {
        text.chars().map(|c| if c == ' ' { "▁".to_owned() } else { c.to_string() }).collect()
    } else {
        text.bytes().map(|byte| spelled(byte).to_string()).collect()
    }
}

/// The tokens of each case by name, as a list of names that agree and the cases' tokens.
fn vectors() -> Vec<(Vec<String>, Vec<Vec<u32>>)> {
    serde_json::from_str(include_str!("vectors.json")).expect("JSON")
}

/// Cases that llama-tokenize splits by approximations of its own, and not by the vocabulary's expression, which
/// `split/tests.rs` follows to the letter: combining marks that are no letters to it, groups of digits that keep what
/// stands before them, and numbers that are no digits.
const OTHERWISE: &[(&[&str], &[usize])] = &[
    (&["tekken", "gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie", "kimi-k2"], &[7]),
    (&["afmoe"], &[3]),
    (&["tiny_aya", "cohere2moe"], &[3, 8]),
];

#[test]
fn every_name_splits_as_its_vectors_say() {
    let (mut names, mut cases, mut wrong) = (0, 0, vec![]);
    for (group, vectors) in vectors() {
        for name in &group {
            let tokenizer = Tokenizer::new(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let otherwise =
                OTHERWISE.iter().find(|(names, _)| names.contains(&name.as_str())).map_or(&[][..], |(_, cases)| cases);
            for (number, (case, expected)) in CASES.iter().zip(&vectors).enumerate() {
                let ids = tokenizer.encode(case, false, false);
                if (ids == *expected) == otherwise.contains(&number) {
                    wrong.push(format!(
                        "{name}, case {number}: {case:?}\n{:?}\n{:?}",
                        shown(&tokenizer, &ids),
                        shown(&tokenizer, expected)
                    ));
                }
                assert_eq!(tokenizer.decode(&ids, false), case.as_bytes(), "{name}");
                cases += 1;
            }
            names += 1;
        }
    }
    println!("{cases} cases of {names} names");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names > 88, "{names}");
}

fn shown(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned()).collect()
}

/// Run by `make_vectors.py`: writes a vocabulary for each line of `names` in the folder that `PRE_VOCABULARIES` names.
#[test]
#[ignore = "writes files for make_vectors.py"]
fn write_vocabularies() {
    let folder = std::path::PathBuf::from(std::env::var_os("PRE_VOCABULARIES").expect("a folder"));
    let names = std::fs::read_to_string(folder.join("names")).unwrap();
    for (number, case) in CASES.iter().enumerate() {
        std::fs::write(folder.join(format!("{number}.txt")), case).unwrap();
    }
    for name in names.lines() {
        let data = data(name);
        let strings = |all: &text::tokenizer::ByteStrings| -> Vec<String> {
            all.iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
        };
        let mut writer = gguf::Writer::new();
        writer.set("general.architecture", "llama");
        for (key, value) in [("context_length", 64u32), ("embedding_length", 8), ("block_count", 1)] {
            writer.set(format!("llama.{key}"), value);
        }
        for (key, value) in [("feed_forward_length", 8u32), ("attention.head_count", 1)] {
            writer.set(format!("llama.{key}"), value);
        }
        writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
        writer.set("tokenizer.ggml.model", data.model);
        if let Some(pre) = data.pre {
            writer.set("tokenizer.ggml.pre", pre);
        }
        if !data.scores.is_empty() {
            writer.set("tokenizer.ggml.scores", data.scores);
        }
        writer.set("tokenizer.ggml.tokens", strings(&data.tokens));
        writer.set("tokenizer.ggml.token_type", data.token_type);
        writer.set("tokenizer.ggml.merges", strings(&data.merges));
        std::fs::write(folder.join(format!("{name}.gguf")), writer.to_vec(|_, _| Ok(())).unwrap()).unwrap();
    }
}
