//! `kernloom tokenize` and `detokenize` on the vocabularies of real models.
//!
//! The files are not part of this repository: they are looked for in `shared/tokenizers` beside it. Without them, the
//! tiny models of the golden data are used, and only the way back is checked.

use crate::support::{folder, golden, run, run_with_input, shared, text};
use flate2::read::GzDecoder;
use gguf::{Gguf, Writer};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

/// A vocabulary, a text, its tokens.
struct Case {
    model: String,
    input: String,
    ids: String,
}

fn cases() -> Vec<Case> {
    let Ok(entries) = std::fs::read_dir(shared("tokenizers")) else { return vec![] };
    let files = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut cases = vec![];
    for name in files.filter_map(|file| Some(file.strip_suffix(".gguf.gz")?.to_owned())) {
        let path = |kind: &str| shared(&format!("tokenizers/{name}.{kind}"));
        let mut bytes = vec![];
        let packed = std::fs::File::open(path("gguf.gz")).expect("a vocabulary");
        GzDecoder::new(packed).read_to_end(&mut bytes).expect("a whole file");
        let model = folder().join(format!("{name}.gguf"));
        std::fs::write(&model, bytes).expect("a test file");
        let read = |kind| std::fs::read_to_string(path(kind)).expect("cases");
        let (inputs, outputs) = (read("inp"), read("out"));
        for (input, ids) in inputs.split(SEPARATOR).zip(outputs.lines()) {
            let ids = ids.split_whitespace().collect::<Vec<_>>().join(" ");
            cases.push(Case { model: text(&model).into(), input: input.into(), ids });
        }
    }
    cases
}

#[test]
fn every_case_of_every_vocabulary() {
    let cases = cases();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(vec![]);
    let worker = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = run_with_input(&["tokenize", "--no-bos", "-m", &case.model, "-"], case.input.as_bytes());
            if ran.code != 0 || ran.out != format!("{}\n", case.ids).into_bytes() {
                wrong.lock().expect("no panic above").push(format!("{}: {:?}: {}", case.model, case.input, ran.err));
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(worker))));
    println!("{} cases ran through the tokenize command", cases.len());
    let wrong = wrong.into_inner().expect("no panic above");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn there_and_back() {
    let model = &golden()[0].path;
    let model = text(model);
    for input in ["Hello, world", " two  spaces\n\n", "-p", "日本語 👩‍🚀", "<|endoftext|>"] {
        let ids = run(&["tokenize", "--no-bos", "-m", model, "--", input]).ok();
        let words: Vec<&str> = ids.text().split_whitespace().collect();
        let back = run(&[&["detokenize", "-m", model], &words[..]].concat()).ok();
        assert_eq!(back.text(), input);
        let piped = run_with_input(&["tokenize", "--no-bos", "-m", model], input.as_bytes()).ok();
        assert_eq!(piped.text(), ids.text(), "stdin without a dash");
    }
    assert_eq!(run(&["tokenize", "--no-bos", "-m", model, ""]).ok().text(), "\n");
}

/// A text begins as the vocabulary wants it, and not otherwise.
#[test]
fn a_first_token_where_the_vocabulary_asks_for_one() {
    let of = |adds: bool| {
        let path = folder().join(format!("adds-bos-{adds}.gguf"));
        let mut writer = Writer::new();
        writer.copy_metadata(Gguf::open(&golden()[0].path).expect("a model").metadata());
        writer.set("tokenizer.ggml.add_bos_token", adds).set("tokenizer.ggml.bos_token_id", 7u32);
        std::fs::write(&path, writer.to_vec(|_, _| Ok(())).expect("a file")).expect("a test file");
        let ids = |flags: &[&str]| {
            run(&[&["tokenize", "-m", text(&path)], flags, &["a fox"]].concat()).ok().text().trim().to_owned()
        };
        (ids(&[]), ids(&["--no-bos"]))
    };
    let ((without, same), (with, bare)) = (of(false), of(true));
    assert_eq!((&without, &bare, with), (&same, &same, format!("7 {same}")));
}
