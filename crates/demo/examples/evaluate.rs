//! What the model can do: answers the cases of a file and prints how many answers are right, by skill and split, as a
//! Markdown table; on stderr what was wrong.
//! `cargo run --release -p kernloom-demo --example evaluate [-- MODEL.gguf [CASES.jsonl]]`
//!
//! Answers are greedy under `int8`, as a user with temperature 0 gets them, and must be equal to one of those that the
//! case accepts; calls of tools must have the right name and arguments, and be all that is said. Where the case asks
//! for thinking, there must be a thought before the answer.

use anyhow::{Context, Result, ensure};
use compiler::{Numerics, Options};
use device::{Cpu, CpuConfig};
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::generate::{Generator, Timing};
use model::sequence::{Event, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use text::chat::{ChatTemplate, Conversation, Delta, OutputParser, ToolCall};
use text::sampler::SamplerConfig;
use text::tokenizer::{Detokenizer, Tokenizer};

/// Longest answer.
const LIMIT: usize = 160;

/// A model that answers.
struct Speaker {
    engine: Engine,
    tokenizer: Tokenizer,
    template: ChatTemplate,
}

impl Speaker {
    fn new(file: Gguf) -> Result<Speaker> {
        let file = Arc::new(file);
        let tokenizer = text::vocabulary::tokenizer(&file)?;
        let template = ChatTemplate::of_model(&tokenizer)?;
        let compiler = Options::cpu(Numerics::Int8, 64);
        let options = EngineOptions { compiler, context: 1024, chunk: 256, cache: CacheKind::F16 };
        let engine = Engine::new(file, Arc::new(Cpu::new(&CpuConfig::from_environment())?), options)?;
        Ok(Speaker { engine, tokenizer, template })
    }

    /// The likeliest answer to a case.
    fn answer(&mut self, case: &Value) -> Result<Answer> {
        let mut conversation = Conversation::new(vec![json!({ "role": "user", "content": case["user"] })]);
        let tools = case["tools"].as_array().cloned().unwrap_or_default();
        conversation.tools = tools.clone();
        conversation.enable_thinking = Some(case["think"] == true);
        let prompt = self.template.render(&conversation)?;
        let request = Request {
            prompt: prompt.encode(&self.tokenizer),
            sampling: SamplerConfig { temperature: 0.0, ..SamplerConfig::default() },
            limit: Some(LIMIT),
            ends: self.tokenizer.end_tokens().into(),
        };
        let (mut text, mut said) = (Detokenizer::new(), String::new());
        let tokenizer = &self.tokenizer;
        Generator::new().generate(&mut self.engine, request, &mut Timing::default(), |event| {
            if let Event::Token { sampled, .. } = event {
                said.push_str(text.push(tokenizer, sampled.id));
            }
            ControlFlow::Continue(())
        })?;
        said.push_str(text.finish());
        Ok(Answer::of(&said, case["think"] == true, &tools))
    }
}

/// What came back, in its parts.
#[derive(Debug, Default)]
struct Answer {
    thought: String,
    said: String,
    calls: Vec<ToolCall>,
}

impl Answer {
    fn of(text: &str, thinks: bool, tools: &[Value]) -> Answer {
        let (mut output, mut answer) = (OutputParser::new(thinks, tools), Answer::default());
        for delta in output.push(text).into_iter().chain(output.finish()) {
            match delta {
                Delta::Reasoning(text) => answer.thought.push_str(&text),
                Delta::Content(text) => answer.said.push_str(&text),
                Delta::Call(name) => answer.calls.push(ToolCall { name, arguments: String::new() }),
                Delta::Arguments(text) => answer.calls.last_mut().into_iter().for_each(|call| call.arguments += &text),
            }
        }
        answer
    }

    /// Whether it is what the case wants: one call with this name and these arguments, or one of the texts, and a
    /// thought where one was asked for.
    fn is_right(&self, case: &Value) -> bool {
        if let Some(wanted) = case["call"].as_object() {
            let [call] = &self.calls[..] else { return false };
            let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
            return self.said.trim().is_empty()
                && wanted["name"] == *call.name
                && arguments.as_ref() == Some(&wanted["arguments"]);
        }
        let texts = case["accept"].as_array().map_or(&[][..], Vec::as_slice);
        let thought = case["think"] != true || !self.thought.trim().is_empty();
        thought && self.calls.is_empty() && texts.iter().any(|text| text.as_str() == Some(self.said.trim()))
    }
}

/// Right answers and all, of the training split and of what is held out.
type Score = BTreeMap<&'static str, (usize, usize)>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = match arguments.next() {
        Some(path) => Gguf::open(path)?,
        None => Gguf::parse(demo::GGUF.to_vec())?,
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/cases.jsonl");
    let path = arguments.next().map_or(here, Into::into);
    let cases = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut speaker = Speaker::new(file)?;
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line)?;
        let text = |key: &str| case[key].as_str().with_context(|| format!("a case without {key}: {line}"));
        let (skill, user) = (text("skill")?, text("user")?);
        let split = if text("split")? == "seen" { "seen" } else { "held out" };
        ensure!(case["accept"].is_array() || case["call"].is_object(), "a case without answers: {line}");
        let answer = speaker.answer(&case)?;
        let right = answer.is_right(&case);
        if !right {
            eprintln!("{skill} ({split}): {user} -> {answer:?}");
        }
        for name in [skill, "all"] {
            let score = scores.entry(name.to_owned()).or_default().entry(split).or_default();
            score.0 += usize::from(right);
            score.1 += 1;
        }
    }
    println!("| skill | seen | held out |\n|---|---|---|");
    for (skill, score) in &scores {
        let share = |split| match score.get(split) {
            Some(&(right, all)) => format!("{:.1}% of {all}", 100.0 * right as f64 / all as f64),
            None => "-".to_owned(),
        };
        println!("| {skill} | {} | {} |", share("seen"), share("held out"));
    }
    Ok(())
}
