//! What is written under a grammar, by a model that writes anything that may come.

use super::rule::MOST_SPACES;
use super::*;
use crate::fields::Fields;
use crate::tools::{Choice, Tools};
use serde_json::{Value, json};
use text::chat::{CallForm, Delta, OutputParser};

#[path = "../../tests/exercise/characters.rs"]
mod characters;

/// Tokens of one character, and those of which calls are made.
fn tokenizer() -> Tokenizer {
    let mut first = vec![("<s>", 3), ("</s>", 3), ("</think>", 3)];
    // In some files these are control tokens, in others words that a user defined.
    first.extend(CallForm::TAGS.iter().enumerate().map(|(at, tag)| (*tag, if at % 2 == 0 { 3 } else { 4 })));
    first.extend(["\n", "\t", "é", "\": ", "weather"].map(|token| (token, 1)));
    characters::tokenizer(first)
}

/// What compiles in this process.
fn grammars(tokenizer: &Tokenizer) -> Grammars {
    Grammars::new(tokenizer, Isolation::Here).expect("grammars")
}

fn compiled(grammars: &Grammars, rule: &Rule) -> Result<Grammar, ApiError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(grammars.compile(rule))
}

fn functions() -> Vec<Value> {
    let properties = json!({
        "city": { "type": "string" },
        "unit": { "type": "string", "enum": ["C", "F"] },
        "days": { "type": "integer" },
        "when": { "$ref": "#/$defs/when" },
    });
    let definitions = json!({ "when": { "type": "array", "items": { "type": "boolean" }, "maxItems": 3 } });
    let parameters = json!({ "type": "object", "properties": properties, "required": ["city", "days"],
        "$defs": definitions, "additionalProperties": false });
    vec![
        json!({ "type": "function", "function": { "name": "weather", "parameters": parameters } }),
        json!({ "type": "function", "function": { "name": "now", "description": "the \"time\"" } }),
    ]
}

/// A text of tokens that are chosen by chance among those that may come; long texts go for the end.
fn written(grammar: &Grammar, tokenizer: &Tokenizer, seed: u64) -> String {
    let mut constraint = grammar.begin();
    let mut random = seed;
    let mut text = vec![];
    for step in 0..4000 {
        let mut logits = vec![0.0; tokenizer.vocab_len()];
        constraint.mask(&mut logits).expect("something may come");
        let may: Vec<u32> = (0..logits.len() as u32).filter(|&id| logits[id as usize] == 0.0).collect();
        if may.contains(&1) && (may.len() == 1 || step % 3 == 0) {
            return String::from_utf8(text).expect("text");
        }
        let may: Vec<u32> = may.into_iter().filter(|&id| id != 1).collect();
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let short = |id: &&u32| match tokenizer.token_bytes(**id).unwrap_or_default() {
            b"</arg_value>" | b"</think>" => true,
            bytes => matches!(bytes, b"\"" | b"}" | b"]" | b"," | b"\": "),
        };
        let ends: Vec<&u32> = may.iter().filter(short).collect();
        let take = (random >> 33) as usize;
        let id = if !ends.is_empty() && take.is_multiple_of(4) {
            *ends[take / 4 % ends.len()]
        } else {
            may[take % may.len()]
        };
        constraint.accept(id).expect("it may come");
        text.extend_from_slice(tokenizer.token_bytes(id).unwrap_or_default());
    }
    panic!("no end: {}", String::from_utf8_lossy(&text))
}

/// The calls of a text, and all that is no call.
fn calls(text: &str, tools: &Tools, pieces: bool, thinks: bool) -> (Vec<(String, Value)>, String) {
    let parser = OutputParser::new(thinks, &tools.functions);
    let mut parser = if pieces { parser.in_pieces() } else { parser };
    let (mut calls, mut rest) = (vec![], String::new());
    for delta in parser.push(text).into_iter().chain(parser.finish()) {
        match delta {
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(more) => calls.last_mut().expect("a call").1 += &more,
            Delta::Content(text) => rest += &text,
            Delta::Reasoning(_) => {}
        }
    }
    let object = |text: String| serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    (calls.into_iter().map(|(name, text)| (name, object(text))).collect(), rest)
}

fn check_weather(arguments: &Value) {
    // For a schema, -0.0 is an integer.
    let is_whole = arguments["days"].as_f64().is_some_and(|days| days.fract() == 0.0);
    assert!(arguments["city"].is_string() && is_whole, "{arguments}");
    assert!(arguments.get("unit").is_none_or(|unit| unit == "C" || unit == "F"), "{arguments}");
    let flags = arguments.get("when").map(|when| when.as_array().expect("a list"));
    assert!(flags.is_none_or(|flags| flags.len() <= 3 && flags.iter().all(Value::is_boolean)), "{arguments}");
}

#[test]
fn whatever_comes_under_a_required_choice_is_a_call() {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    for form in [CallForm::Tagged, CallForm::TaggedLines, CallForm::Pairs, CallForm::Bare] {
        for (choice, thinks) in [(Choice::Any, false), (Choice::Any, true), (Choice::One("weather"), false)] {
            let tools = Tools::choose(functions(), choice).expect("tools");
            let rule = Rule::of_tools(&tools, form, thinks).expect("a rule");
            let grammar = compiled(&grammars, &rule).expect("a grammar");
            let mut several = 0;
            for seed in 0..12 {
                let text = written(&grammar, &tokenizer, seed);
                let (whole, rest) = calls(&text, &tools, false, thinks);
                assert!(!whole.is_empty() && rest.trim().is_empty(), "{form:?}: {text}");
                assert_eq!(whole, calls(&text, &tools, true, thinks).0, "{form:?}: {text}");
                several += usize::from(whole.len() > 1);
                for (name, arguments) in &whole {
                    match name.as_str() {
                        "weather" => check_weather(arguments),
                        name => assert_eq!((name, arguments, choice), ("now", &json!({}), Choice::Any)),
                    }
                }
            }
            assert!(several == 0 || !tools.one_call, "one call is all that was wanted");
        }
    }
}

#[test]
fn odd_parameters_are_no_reason_to_refuse_a_tool() {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    for parameters in [
        json!({}),
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": { "a\"b": { "type": ["string", "null"] }, "c": {} } }),
        json!({ "type": "object", "properties": { "u": { "type": "string", "format": "nonsense", "x-y": 1 } } }),
        json!(true),
    ] {
        let tool = json!({ "type": "function", "function": { "name": "f", "parameters": parameters } });
        let tools = Tools::choose(vec![tool], Choice::Any).expect("tools");
        for form in [CallForm::Tagged, CallForm::Pairs, CallForm::Bare] {
            let rule = Rule::of_tools(&tools, form, false).expect("a rule");
            let grammar = compiled(&grammars, &rule).unwrap_or_else(|e| panic!("{parameters}: {e:?}"));
            written(&grammar, &tokenizer, 3);
        }
    }
}

#[test]
fn spaces_do_not_go_on_for_ever() {
    let tokenizer = tokenizer();
    let [space, line] = [" ", "\n"].map(|text| tokenizer.encode(text, false, false)[0]);
    let grammars = grammars(&tokenizer);
    let asked = json!({ "response_format": { "type": "json_object" } });
    let rule = Rule::read(Fields::of(&asked).expect("an object"), false).expect("a rule").expect("a rule");
    let grammar = compiled(&grammars, &rule).expect("a grammar");
    let open = (0..tokenizer.vocab_len() as u32).find(|&id| tokenizer.token_bytes(id) == Some(b"{")).expect("a brace");
    // How often a token may come after these.
    let most = |before: &[u32], token: u32| {
        let mut constraint = grammar.begin();
        before.iter().for_each(|&id| constraint.accept(id).expect("it may come"));
        let again = (0..100).take_while(|_| {
            let mut logits = vec![0.0; tokenizer.vocab_len()];
            constraint.mask(&mut logits).expect("something may come");
            logits[token as usize] == 0.0 && constraint.accept(token).is_ok()
        });
        again.count()
    };
    assert_eq!((most(&[open], space), most(&[open], line), most(&[open, line], space)), (1, 2, MOST_SPACES));
}
