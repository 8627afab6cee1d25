//! Replays the corpora of the fuzzers of chat templates and of tokenizers, and makes the seeds that they started from.

use crate::exercise_template::{BETWEEN, exercise};
use crate::exercise_tokenizer as tokenizer;
use std::path::{Path, PathBuf};

fn corpus(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(of)
}

/// How many inputs there are, and how many of them `exercise` took.
fn replay(of: &str, exercise: impl Fn(&[u8]) -> Option<usize>) -> (usize, usize) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(corpus(of)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let taken = paths.iter().filter(|path| exercise(&std::fs::read(path).unwrap()).is_some()).count();
    println!("{of}: {} inputs replayed, {taken} of them were no errors", paths.len());
    (paths.len(), taken)
}

#[test]
fn templates_are_survived() {
    let (inputs, rendered) = replay("template", exercise);
    assert!(inputs > 10 && rendered > 5, "{inputs} templates, {rendered} rendered");
}

#[test]
fn tokenizers_are_survived() {
    let (inputs, encoded) = replay("tokenizer", tokenizer::exercise);
    assert!(inputs > 100 && encoded > 50, "{inputs} vocabularies, {encoded} encoded");
}

/// Run by hand before a new campaign: `cargo test -p kernloom-text --test all corpus:: -- --ignored`.
#[test]
#[ignore = "writes the seeds into the corpus"]
fn write_seeds_of_tokenizers() {
    std::fs::create_dir_all(corpus("tokenizer")).unwrap();
    let vocabulary = "3<s>\n3</s>\n4<tool>\n1He\n1ll\n1Hell\n1\u{120}w\n1\u{2581}w\n1or\n1\u{2581}wor\n\
        mH e\nml l\nmHe ll\nm\u{120} w\nmo r\nb0\ne1";
    let plain = "1th\n1\u{2581}t\n1er\n1\u{120}t\nmt h\nm\u{120} t\nme r";
    let text = "Hello  world's 1234567 \u{e9}\u{65e5}\u{672c}\u{1f680}\r\n\t<tool> <s>x";
    let lone = [0xff, 0xe2, 0x96, b' ', 0xf0, 0x9f];
    let flags = [tokenizer::BYTES, tokenizer::BYTES | tokenizer::AROUND, tokenizer::ABSORB | tokenizer::BYTES];
    for (number, pre) in (0..=tokenizer::PRES.len()).enumerate() {
        for (at, lines) in [vocabulary, plain].into_iter().enumerate() {
            for kind in [0, tokenizer::SENTENCE_PIECE, tokenizer::SENTENCE_PIECE | tokenizer::NO_PREFIX] {
                let any = if number % 2 == 0 { 0 } else { tokenizer::ANY_PRE };
                let head = [flags[number % 3] | kind | any, pre as u8];
                let bytes = [&head, lines.as_bytes(), &[tokenizer::BETWEEN], text.as_bytes(), &lone].concat();
                std::fs::write(corpus("tokenizer").join(format!("seed-{number:02}-{at}-{kind}")), bytes).unwrap();
            }
        }
    }
}

/// As [`write_seeds_of_tokenizers`].
#[test]
#[ignore = "writes the seeds into the corpus"]
fn write_seeds_of_templates() {
    std::fs::create_dir_all(corpus("template")).unwrap();
    let request = r#"{"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "variables": {"n": 3}, "enable_thinking": false}"#;
    let cases: serde_json::Value = serde_json::from_str(include_str!("jinja/cases.json")).expect("JSON");
    let families = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chat/builtin");
    let files =
        std::fs::read_dir(families).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let texts = templates(&cases).into_iter().filter(|text| text.len() < 600).step_by(7).take(60);
    for (at, source) in files.chain(texts).enumerate() {
        let bytes = [source.as_bytes(), &[BETWEEN], request.as_bytes()].concat();
        std::fs::write(corpus("template").join(format!("seed-{at:02}")), bytes).unwrap();
    }
}

/// All templates in the cases.
fn templates(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::String(text) if text.contains("{%") || text.contains("{{") => vec![text.clone()],
        serde_json::Value::Array(all) => all.iter().flat_map(templates).collect(),
        serde_json::Value::Object(all) => all.values().flat_map(templates).collect(),
        _ => vec![],
    }
}
