//! The model that comes with the program: its text, how well it predicts, and what quantising it costs.
//!
//! What is expected lies in `demo/golden.json`; after the model has changed,
//! `cargo test --release -p kernloom-cli --test all demo:: -- --ignored` writes it anew.

use crate::support::{argmax, command, floats, folder, list, run, text};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use text::chat::{ChatTemplate, Conversation};

/// The name of the model on the command line.
const MODEL: &str = "kernloom-demo";

/// Tokens of an answer in the golden file.
const LENGTH: &str = "40";

/// Logits of the likeliest token and the next are so far apart where 8 bits have to agree.
const SURE: f32 = 0.25;

/// How far a perplexity may be from the one that is expected.
const TOLERANCE: f64 = 0.01;

fn demo(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name)
}

fn golden() -> Value {
    serde_json::from_slice(&std::fs::read(demo("golden.json")).expect("golden text")).expect("JSON")
}

/// The likeliest answer to a prompt.
fn answer(prompt: &str, numerics: &str, tokens: &str) -> String {
    // Without a name, `run` takes this model.
    let run = run(&["run", "-p", prompt, "--temp", "0", "-n", tokens, "--numerics", numerics]).ok();
    run.text().trim_end().to_owned()
}

/// The perplexity of the held-out stories.
fn perplexity(model: &str, numerics: &str) -> f64 {
    let held_out = demo("held-out.txt");
    let run = run(&["perplexity", "-m", model, "-f", text(&held_out), "-c", "512", "--numerics", numerics]).ok();
    let value = run.text().strip_prefix("PPL = ").and_then(|rest| rest.split(' ').next()).map(str::parse);
    value.expect("a perplexity").expect("a number")
}

/// The model in another quantisation.
fn quantised(quant: &str) -> PathBuf {
    let path = crate::support::folder().join(format!("demo-{quant}.gguf"));
    run(&["quantize", MODEL, text(&path), quant, "--allow-requantize"]).ok();
    path
}

#[test]
fn answers_are_those_of_the_golden_file() {
    let golden = golden();
    let answers = golden["answers"].as_object().expect("answers");
    assert_eq!(answers.len(), 10);
    for (prompt, expected) in answers {
        let expected = expected.as_str().expect("a text");
        assert_eq!(answer(prompt, "exact", LENGTH), expected, "{prompt}");
    }
}

/// Which of two near-equal words comes first is not for 8 bits to say: sums in another order, as other processors have
/// them, move a code by one.
#[test]
fn numbers_of_8_bits_agree_where_the_exact_ones_are_sure() {
    let file = gguf::Gguf::parse(demo::GGUF.to_vec()).expect("the model");
    let tokenizer = text::vocabulary::tokenizer(&file).expect("its tokenizer");
    let template = ChatTemplate::of_model(&tokenizer).expect("its template");
    let (mut sure, mut all) = (0, 0);
    for (prompt, expected) in golden()["answers"].as_object().expect("answers") {
        let said = json!({ "role": "user", "content": prompt });
        let mut ids = template.render(&Conversation::new(vec![said])).expect("a prompt").encode(&tokenizer);
        let from = ids.len();
        ids.extend(tokenizer.encode(expected.as_str().expect("a text"), false, false));
        let [exact, int8] = ["exact", "int8"].map(|numerics| logits(&ids, numerics));
        for (at, &id) in ids.iter().enumerate().skip(from) {
            let row = (at - 1) * tokenizer.vocab_len()..at * tokenizer.vocab_len();
            let mut order = exact[row.clone()].to_vec();
            order.sort_unstable_by(|a, b| b.total_cmp(a));
            all += 1;
            if order[0] - order[1] >= SURE {
                assert_eq!(argmax(&int8[row]), id, "{prompt}, token {} of the answer", at - from);
                sure += 1;
            }
        }
    }
    println!("int8 agrees on {sure} of {all} tokens of answers");
    assert!(all > 150 && 4 * sure > 3 * all, "{sure} of {all}");
}

/// The logits of all positions, in steps of as many tokens whatever the text, so that all texts share their kernels.
fn logits(ids: &[u32], numerics: &str) -> Vec<f32> {
    let path = crate::support::folder().join(format!("demo-{numerics}.logits"));
    let (tokens, out) = (list(ids.iter()), text(&path));
    let args = ["logits", "-m", MODEL, "--tokens", &tokens, "--batch", "16", "--numerics", numerics, "--out", out];
    run(&args).ok();
    floats(&std::fs::read(&path).expect("logits"))
}

#[test]
fn a_thought_comes_before_the_answer_when_it_is_asked_for() {
    let arguments = ["run", "-p", "What is 5 + 6?", "--temp", "0", "--think", "--reasoning", "show"];
    let both = run(&arguments).ok();
    let (thought, said) = both.text().split_once("\n\n").expect("a thought and an answer");
    assert!(thought.contains("5 + 6") && said.trim_end() == "5 + 6 = 11.", "{thought} / {said}");
}

#[test]
fn perplexity_is_as_expected_under_both_policies() {
    let golden = golden();
    for numerics in ["exact", "int8"] {
        near(perplexity(MODEL, numerics), &golden["perplexity"][numerics], numerics);
    }
}

/// Questions whose answer it knows, and the same with the answers exchanged.
#[test]
fn it_finds_the_likely_endings() {
    let file = folder().join("questions.txt");
    let answered = |flag: &str, questions: &str, more: &[&str]| {
        std::fs::write(&file, questions).expect("a test file");
        let args = ["perplexity", "-m", MODEL, flag, "-f", text(&file)];
        run(&[&args[..], more].concat()).ok().text().to_owned()
    };
    let right = "Once upon a time\n1\nzebra stone glass\n, there was a little\nthe of and\nx y z\n";
    let wrong = right.replace("\n1\n", "\n3\n");
    let both = format!("{right}{wrong}");
    assert_eq!(answered("--hellaswag", &both, &[]), "HellaSwag: 50.0000 ± 50.0000 % of 2 questions\n");
    assert_eq!(answered("--hellaswag", &both, &["--tasks", "1"]), "HellaSwag: 0.0000 ± 0.0000 % of 1 questions\n");
    let gap = "1,\"Once upon a _\",time,glass,1\n";
    assert_eq!(answered("--winogrande", gap, &[]), "Winogrande: 100.0000 ± 0.0000 % of 1 questions\n");
    let refused = run(&["perplexity", "-m", MODEL, "--winogrande", "-f", text(&file), "--hellaswag"]);
    assert!(refused.error(2).contains("cannot be used with"), "{}", refused.err);
    std::fs::write(&file, "1,no gap,a,b,1\n").expect("a test file");
    let refused = run(&["perplexity", "-m", MODEL, "--winogrande", "-f", text(&file)]);
    assert!(refused.error(1).contains("line 1: the sentence has no gap"), "{}", refused.err);
}

#[test]
fn quantising_it_again_costs_what_it_did() {
    let golden = golden();
    for quant in ["q4_0", "q4_k_m", "q6_k"] {
        let path = quantised(quant);
        near(perplexity(text(&path), "exact"), &golden["perplexity"][quant], quant);
    }
}

fn near(found: f64, expected: &Value, what: &str) {
    let expected = expected.as_f64().unwrap_or(f64::NAN);
    // Written so that NaN fails.
    let close = (found / expected - 1.0).abs() <= TOLERANCE;
    assert!(close, "perplexity of {what}: {found}, expected {expected}");
}

#[test]
fn a_server_without_a_model_takes_it() {
    let mut child = command(&["serve", "--port", "0", "-t", "1", "-c", "256"]).spawn().expect("the server starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let named = lines.take(50).any(|line| line.contains("model: kernloom-demo"));
    child.kill().and_then(|()| child.wait()).expect("it ends");
    assert!(named);
}

#[test]
fn q8_0_is_refused_without_the_flag_and_kept_with_it() {
    let out = crate::support::folder().join("demo-refused.gguf");
    let refused = run(&["quantize", MODEL, text(&out), "q4_0"]);
    assert!(refused.error(1).contains("--allow-requantize"), "{}", refused.err);
    assert!(!out.exists());
    let unknown = run(&["quantize", MODEL, text(&out), "q9_9"]);
    assert!(unknown.error(2).contains("q4_k_m"), "{}", unknown.err);
    let kept = gguf::Gguf::open(quantised("q8_0")).expect("a model");
    let shipped = gguf::Gguf::parse(demo::GGUF.to_vec()).expect("a model");
    assert!(shipped.tensors().len() > 60);
    for tensor in shipped.tensors() {
        let same = kept.tensor(&tensor.name).expect("every tensor");
        assert!(same.ty == tensor.ty && kept.data(same) == shipped.data(tensor), "{}", tensor.name);
    }
}

#[test]
fn an_importance_matrix_brings_a_file_nearer_to_its_source() {
    let folder = crate::support::folder();
    let path = |name: &str| folder.join(name);
    let (read, held_out) = (path("read.txt"), path("held-out.txt"));
    let stories = std::fs::read_to_string(demo("held-out.txt")).expect("stories");
    let (front, back) = stories.split_at(stories.len() / 2);
    std::fs::write(&read, front.repeat(2)).expect("it is written");
    std::fs::write(&held_out, back).expect("it is written");
    let imatrix = |out: &Path, more: &[&str]| {
        let words = [&["imatrix", MODEL, "-f", text(&read), "-c", "256", "-o", text(out)], more].concat();
        run(&words).ok().text().to_owned()
    };
    let (gguf, old) = (path("imatrix.gguf"), path("imatrix.dat"));
    let said = imatrix(&gguf, &[]);
    assert!(said.contains(" tensors, ") && said.contains(" windows of 256 tokens"), "{said}");
    imatrix(&old, &["--output-format", "dat", "--chunks", "2"]);
    let divergence = |more: &[&str]| -> f64 {
        let out = path("weighed.gguf");
        let words = ["quantize", MODEL, text(&out), "q2_k", "--allow-requantize", "--kl-text", text(&held_out)];
        let run = run(&[&words[..], more].concat()).ok();
        let value = run.text().split("mean KLD = ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::parse);
        value.expect("a divergence").expect("a number")
    };
    let without = divergence(&["--chunks", "1"]);
    let with = divergence(&["--chunks", "1", "--imatrix", text(&gguf)]);
    let with_old = divergence(&["--chunks", "1", "--imatrix", text(&old)]);
    assert!(with < 0.9 * without && with_old < without, "{without} without, {with} and {with_old} with");
    // Sums add up, without a model.
    let both = path("both.gguf");
    let added = run(&["imatrix", "--in-file", text(&gguf), "--in-file", text(&gguf), "-o", text(&both)]).ok();
    assert!(added.text().contains(" tensors, "), "{}", added.text());
    let refused = run(&["quantize", MODEL, text(&both), "q2_k", "--imatrix", text(&read)]);
    assert!(refused.error(1).contains("is no importance matrix"), "{}", refused.err);
    let nothing = run(&["imatrix", "--in-file", text(&gguf)]);
    assert!(nothing.error(2).contains("give a text (-f)"), "{}", nothing.err);
}

#[test]
fn types_are_mixed_as_they_are_elsewhere() {
    use gguf::GgmlType::{F32, Q4_0, Q4_K, Q5_0, Q6_K};
    for (quant, name, ty) in [
        ("q4_0", "blk.1.attn_k_b.weight", Q4_0),
        ("q4_0", "output.weight", Q6_K),
        ("q4_0", "blk.1.ffn_gate_inp.weight", F32),
        ("q4_k_m", "blk.1.attn_k_b.weight", Q5_0),
        ("q4_k_m", "blk.3.ffn_down_exps.weight", Q6_K),
        ("q4_k_m", "blk.0.ffn_down.weight", Q4_K),
        ("q4_k_m", "token_embd.weight", Q4_K),
    ] {
        let file = gguf::Gguf::open(quantised(quant)).expect("a model");
        assert_eq!(file.tensor(name).expect("the tensor").ty, ty, "{quant} {name}");
    }
}

#[test]
#[ignore = "writes demo/golden.json, when the model has changed"]
fn write_the_golden_file() {
    let prompts = std::fs::read_to_string(demo("prompts.txt")).expect("prompts");
    let answers: Map<String, Value> =
        prompts.lines().map(|prompt| (prompt.to_owned(), answer(prompt, "exact", LENGTH).into())).collect();
    let mut perplexities = Map::new();
    for numerics in ["exact", "int8"] {
        perplexities.insert(numerics.into(), perplexity(MODEL, numerics).into());
    }
    for quant in ["q4_0", "q4_k_m", "q6_k"] {
        perplexities.insert(quant.into(), perplexity(text(&quantised(quant)), "exact").into());
    }
    let golden = json!({ "answers": answers, "perplexity": perplexities });
    let text = serde_json::to_string_pretty(&golden).expect("JSON");
    std::fs::write(demo("golden.json"), text + "\n").expect("a file");
}
