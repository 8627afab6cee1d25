//! Replays the corpus of the fuzzer of chat templates, and makes the seeds that it started from.

mod exercise;

use exercise::{BETWEEN, exercise};
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/template")
}

#[test]
fn corpus_is_survived() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let rendered = paths.iter().filter(|path| exercise(&std::fs::read(path).unwrap()).is_some()).count();
    println!("{} templates replayed, {rendered} of them rendered", paths.len());
    assert!(paths.len() > 10 && rendered > 5, "{} templates, {rendered} rendered", paths.len());
}

/// Run by hand before a new campaign: `cargo test -p kernloom-model --test corpus -- --ignored`.
#[test]
#[ignore = "writes the seeds into the corpus"]
fn write_seeds() {
    std::fs::create_dir_all(corpus()).unwrap();
    let request = r#"{"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "variables": {"n": 3}, "enable_thinking": false}"#;
    let cases: serde_json::Value = serde_json::from_str(include_str!("jinja/cases.json")).expect("JSON");
    let families = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chat/builtin");
    let files =
        std::fs::read_dir(families).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let texts = templates(&cases).into_iter().filter(|text| text.len() < 600).step_by(7).take(60);
    for (at, source) in files.chain(texts).enumerate() {
        let bytes = [source.as_bytes(), &[BETWEEN], request.as_bytes()].concat();
        std::fs::write(corpus().join(format!("seed-{at:02}")), bytes).unwrap();
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
