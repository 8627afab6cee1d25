//! The library as its users see it: conversations, completions, tools, reasoning, errors.

mod support;

use kernloom::{Device, Engine, Error, Finish, Numerics, SamplerConfig};
use serde_json::json;
use std::path::{Path, PathBuf};
use support::builder;

fn demo() -> Engine {
    builder("kernloom-demo").context(512).sampling(SamplerConfig::greedy()).build().expect("the demo model")
}

#[test]
fn a_conversation_streams_and_remembers() {
    let mut engine = demo();
    let mut chat = engine.chat();
    let mut reply = chat.say("What is the capital of Norway?").expect("an answer");
    let pieces: Vec<String> = reply.by_ref().map(|piece| piece.expect("text")).collect();
    assert!(pieces.len() > 3, "{pieces:?}");
    assert_eq!(pieces.concat(), "The capital of Norway is Oslo.");
    assert_eq!((reply.finish(), reply.timing().reused), (Some(Finish::End), 0));
    assert!(reply.next().is_none());
    drop(reply);
    let mut reply = chat.say("And of France?").expect("an answer");
    assert!(reply.timing().reused > 10, "the first turn was computed again");
    assert_eq!(reply.by_ref().map(|piece| piece.expect("text")).collect::<String>(), "The capital of France is Paris.");
    drop(reply);
    let roles: Vec<_> = chat.messages().iter().map(|message| message["role"].as_str().unwrap_or("")).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(chat.messages()[3]["content"], "The capital of France is Paris.");
}

#[test]
fn an_answer_can_be_left_or_limited() {
    let mut engine = demo();
    let mut chat = engine.chat().limit(3);
    let reply = chat.say("What is 2 + 3?").expect("an answer");
    // Three tokens: a digit, a sign, a space.
    assert_eq!(reply.text().expect("text"), "2 + ");
    let first = chat.say("What is 4 + 4?").expect("an answer").next().expect("a piece").expect("text");
    assert_eq!(chat.messages()[3]["content"], *first);
    assert_eq!(engine.complete("Once upon a time", Some(0)).expect("nothing").text().expect("text"), "");
    let story = engine.complete("Once upon a time", Some(12)).expect("a story").text().expect("text");
    assert!(story.starts_with(", there"), "{story}");
}

#[test]
fn tools_and_thoughts_are_told_apart_from_text() {
    let mut engine = demo();
    let mut chat = engine.chat().think(true);
    let mut reply = chat.say("What is 5 + 6?").expect("an answer");
    let said: String = reply.by_ref().map(|piece| piece.expect("text")).collect();
    assert_eq!(said, "5 + 6 = 11.");
    assert!(reply.reasoning().contains("5 + 6"), "{}", reply.reasoning());
    drop(reply);
    let properties = json!({ "city": { "type": "string", "description": "Name of the city" } });
    let parameters = json!({ "type": "object", "properties": properties, "required": ["city"] });
    let function =
        json!({ "name": "get_weather", "description": "Get the weather of a city.", "parameters": parameters });
    let mut chat = engine.chat().tools(vec![json!({ "type": "function", "function": function })]);
    let mut reply = chat.say("What is the weather in Paris?").expect("an answer");
    assert_eq!(reply.by_ref().count(), 0);
    assert_eq!(
        (reply.calls()[0].name.as_str(), reply.calls()[0].arguments.as_str()),
        ("get_weather", r#"{"city":"Paris"}"#)
    );
    drop(reply);
    chat.push(json!({ "role": "tool", "content": r#"{"sky": "sunny", "degrees": 20}"# }));
    let answer = chat.answer().expect("an answer").text().expect("text");
    assert_eq!(answer, "It is sunny in Paris, at 20 degrees.");
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let missing = builder("no/such/file.gguf").build().err().expect("an error");
    assert!(matches!(&missing, Error::NoFile(path) if path.ends_with("file.gguf")), "{missing}");
    let no_model = builder("Cargo.toml").build().err().expect("an error").to_string();
    assert!(no_model.contains("Cargo.toml") && !no_model.contains('\n'), "{no_model}");
    let wrong = SamplerConfig { temperature: -1.0, ..SamplerConfig::default() };
    assert!(matches!(builder("kernloom-demo").sampling(wrong).build(), Err(Error::Sampler(_))));
    let compiler = builder("kernloom-demo").compiler("/no/such/cc").build().err().expect("an error").to_string();
    assert!(compiler.contains("/no/such/cc"), "{compiler}");
    let mut small = builder("kernloom-demo").context(8).numerics(Numerics::Exact).build().expect("a model");
    let mut chat = small.chat();
    let long = chat.say("This is a text that is too long.").err().expect("an error").to_string();
    assert!(long.contains("the context holds 8"), "{long}");
    assert!(chat.messages().is_empty());
    assert!(chat.system_is_sendable());
}

#[test]
fn steps_give_as_many_rows_as_the_builder_says() {
    let logits = |engine: &mut Engine| {
        let vocab = engine.tokenizer().vocab_len();
        engine.steps().step(&[1; 70], 0, 0..70).map(|logits| logits.len() / vocab).map_err(|error| error.to_string())
    };
    let refused = logits(&mut demo()).expect_err("texts need fewer");
    assert_eq!(refused, "a step cannot give 70 rows of logits (at most 64)");
    let made = builder("kernloom-demo").context(512).rows(70).build();
    assert_eq!(logits(&mut made.expect("the demo model")), Ok(70));
}

#[test]
fn only_who_says_so_waits_for_the_kernels_of_a_prompt() {
    let said = |waits: bool| {
        let kernels = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{waits}"));
        let _ = std::fs::remove_dir_all(&kernels);
        let builder = builder("kernloom-demo").context(512).sampling(SamplerConfig::greedy());
        let builder = builder.device(Device::Cpu).kernel_cache(&kernels).wait_for_kernels(waits);
        let mut engine = builder.build().expect("the demo model");
        let text =
            engine.chat().say("What is the capital of Norway?").and_then(|reply| reply.text()).expect("an answer");
        (text, engine.steps().readiness().stood_in() > 0)
    };
    let text = "The capital of Norway is Oslo.".to_owned();
    assert_eq!([said(false), said(true)], [(text.clone(), true), (text, false)]);
}

/// Compile-time facts that users rely on.
trait Sendable {
    fn system_is_sendable(&self) -> bool;
}

impl<T: Send> Sendable for T {
    fn system_is_sendable(&self) -> bool {
        true
    }
}

/// Objects in a folder and those below it.
fn objects(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let of = |path: PathBuf| {
        if path.is_dir() { objects(&path) } else { usize::from(path.extension() == Some("so".as_ref())) }
    };
    entries.map(of).sum()
}

/// What a pack has is not compiled.
#[test]
fn kernels_come_from_a_pack() {
    let place = std::env::temp_dir().join(format!("kernloom-library-pack-{}", std::process::id()));
    let of = |folder: &str| {
        let builder = builder("kernloom-demo").context(256).device(Device::Cpu).kernel_cache(place.join(folder));
        builder.sampling(SamplerConfig::greedy()).wait_for_kernels(true)
    };
    let answer = |mut engine: Engine| engine.complete("Once upon", Some(6)).expect("a story").text().expect("text");
    let first = answer(of("filled").build().expect("the demo model"));
    kernloom::device::pack(&place.join("filled"), &place.join("kernels.pack")).expect("a pack");
    assert_eq!(answer(of("other").kernel_pack(place.join("kernels.pack")).build().expect("the demo model")), first);
    assert!(objects(&place.join("filled")) > 0);
    assert_eq!(objects(&place.join("other")), 0, "a kernel was compiled");
    std::fs::remove_dir_all(&place).expect("it is removed");
}
