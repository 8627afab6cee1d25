//! Grammars that were made to bring a server down, over one whose grammars have processes of their own, as `kernloom
//! serve` has them. The processes are this program again.

#![cfg(unix)]

mod exercise;

use exercise::Exercise;
use serde_json::{Map, Value, json};
use server::Options;
use server::grammar::{Isolation, Program, fork_server};
use std::sync::LazyLock;

/// Not a test, but what this program does when it is started for grammars.
#[test]
#[ignore = "is started by the others"]
fn grammar_server() {
    let _ = fork_server::main();
}

fn isolation(mark: Option<&str>) -> Isolation {
    let arguments = ["--exact", "grammar_server", "--ignored", "--nocapture", "--test-threads=1"];
    let arguments = arguments.into_iter().chain(mark).map(Into::into).collect();
    Isolation::Processes(Program { path: std::env::current_exe().expect("this program"), arguments })
}

static SERVER: LazyLock<Exercise> = LazyLock::new(|| Exercise::isolated(Options::default(), isolation(None)));

/// The status, and the words of an error.
fn asked(rule: Value) -> (u16, String) {
    SERVER.ask_rule(rule)
}

fn answered(rule: Value) {
    let (status, text) = asked(rule);
    assert_eq!(status, 200, "{text}");
}

/// It is answered, or refused in words of our own.
fn survived(rule: Value) {
    let (status, text) = asked(rule);
    assert!(status == 200 || status == 400, "{status}: {text}");
    assert!(!text.contains("panic") && !text.contains("assert"), "{text}");
}

fn refused(rule: Value, words: &str) {
    let (status, text) = asked(rule);
    assert!(status == 400 && text.contains(words), "{status}: {text}");
}

fn gbnf(source: impl Into<String>) -> Value {
    json!({ "grammar": source.into() })
}

fn schema(schema: Value) -> Value {
    json!({ "json_schema": schema })
}

/// A chain of definitions, each of which wraps a reference to the next.
fn chain(length: usize, link: impl Fn(Value) -> Value) -> Value {
    let links = (0..length).map(|at| (format!("d{at}"), link(json!({ "$ref": format!("#/$defs/d{}", at + 1) }))));
    let last = (format!("d{length}"), json!({ "type": "integer" }));
    json!({ "$ref": "#/$defs/d0", "$defs": links.chain([last]).collect::<Map<_, _>>() })
}

#[test]
fn rules_that_people_write_are_followed_again_and_again() {
    let integer = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    for _ in 0..3 {
        answered(schema(integer.clone()));
        answered(gbnf("root ::= [a-c]+ (\"x\" | \"y\")?"));
    }
    answered(json!({ "json_schema": integer, "n": 3 }));
    refused(gbnf("root ::= \"a\" <think>"), "single tokens");
    refused(schema(json!({ "type": "nonsense" })), "nonsense");
}

#[test]
fn repeats_and_rules_in_thousands_are_no_deeper_than_the_stack() {
    answered(gbnf(format!("root ::= \"a\"{}", "*?+".repeat(5000))));
    for length in [900, 1990] {
        let rules: String = (0..length).map(|at| format!("r{at} ::= \"a\" r{}\n", at + 1)).collect();
        answered(gbnf(format!("root ::= r0\n{rules}r{length} ::= \"b\"")));
    }
    refused(gbnf("root ::= x\n".to_owned() + &"x ::= \"a\"\n".repeat(2)), "twice");
    refused(gbnf(format!("root ::= {}\"a\"", "(".repeat(5000))), "100 deep");
    refused(gbnf(format!("root ::= \"a\"{}", "{2,3}".repeat(3000))), "8 counts");
}

#[test]
fn references_in_thousands_are_no_deeper_than_the_stack() {
    let links: [fn(Value) -> Value; 5] = [
        |next| next,
        |next| json!({ "type": "object", "properties": { "a": next }, "required": ["a"] }),
        |next| json!({ "type": "array", "items": next, "minItems": 1 }),
        |next| json!({ "anyOf": [next, { "type": "null" }] }),
        |next| json!({ "allOf": [next] }),
    ];
    for link in links {
        answered(schema(chain(200, link)));
        survived(schema(chain(1200, link)));
    }
    for wrapped in [schema(chain(1200, links[0])), json!({ "json_schema": { "schema": chain(1200, links[0]) } })] {
        let schema = &wrapped["json_schema"];
        survived(json!({ "response_format": { "type": "json_schema", "schema": schema, "json_schema": schema } }));
        survived(json!({ "text": { "format": { "type": "json_schema", "schema": schema } } }));
    }
    survived(schema(json!({ "$ref": "#" })));
    survived(schema(json!({ "allOf": [{ "$ref": "#" }] })));
    let cycle = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } });
    survived(schema(json!({ "$ref": "#/$defs/a", "$defs": cycle })));
}

#[test]
fn stacks_that_overflow_are_not_the_servers() {
    // Each reference takes some stack.
    survived(schema(chain(15_000, |next| json!({ "properties": { "a": next } }))));
    answered(schema(json!({ "type": "boolean" })));
}

#[test]
fn patterns_and_numbers_without_bounds_are_bounded() {
    let pattern = |pattern: &str| schema(json!({ "type": "string", "pattern": pattern }));
    survived(pattern("^((a{1,100}){1,100}){1,100}$"));
    survived(pattern("^(((a|b|c){1,50}){1,50}x?){1,50}$"));
    let optional = ('a'..='z').map(|c| format!("{c}?")).collect::<String>();
    survived(pattern(&format!("^({})$", vec![optional; 8].join("|"))));
    let both = ('a'..='h').map(|c| json!({ "pattern": format!(".*{c}.{{20}}x.*") })).collect::<Vec<_>>();
    survived(schema(json!({ "type": "string", "allOf": both })));
    for number in [json!(1_000_000_007), json!(1e-9), json!(7e300)] {
        survived(schema(json!({ "type": "number", "multipleOf": number })));
    }
    survived(schema(json!({ "type": "string", "minLength": 1_000_000, "maxLength": 1_000_000_000 })));
    survived(schema(json!({ "type": "array", "items": {}, "minItems": 100_000 })));
    survived(schema(json!({ "enum": (0..20_000).map(|at| format!("value {at}")).collect::<Vec<_>>() })));
    survived(gbnf("root ::= (((\"a\"{1,1000}){1,1000}){1,1000}){1,1000}"));
    let doubled: String = (0..60).map(|at| format!("r{at} ::= r{0} r{0}\n", at + 1)).collect();
    survived(gbnf(format!("root ::= r0\n{doubled}r60 ::= \"b\"")));
}

#[test]
fn directives_of_the_library_are_text() {
    // The model writes any token; what it wrote is what was asked for.
    let (status, text) = asked(gbnf("root ::= \"%json {}\\n\" \"%regex\""));
    assert!(status == 200 && text.contains("%json {}"), "{text}");
    let smuggled =
        json!({ "const": "x", "x-guidance": { "whitespace_pattern": "((a{1,100}){1,100}){1,100}", "no": 1 } });
    answered(schema(smuggled));
}

#[test]
fn whatever_the_generator_makes_is_survived() {
    let mut random = 1u64;
    let mut byte = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    };
    let mut taken = 0;
    for case in 0..300u32 {
        let bytes: Vec<u8> = [2 + (case % 2) as u8].into_iter().chain((0..64).map(|_| byte())).collect();
        let status = SERVER.ask_grammar(&bytes, 400);
        assert!(matches!(status, Some(200 | 400)), "{bytes:?}: {status:?}");
        taken += usize::from(status == Some(200));
    }
    assert!(taken > 20, "only {taken} were followed");
}

/// Processes are counted in /proc.
#[cfg(target_os = "linux")]
mod processes {
    use super::*;
    use server::fields::Fields;
    use server::grammar::{Grammars, Rule};
    use std::time::{Duration, Instant};

    /// What tells the processes of one test from those of others.
    const MARK: &str = "--skip=who-leaves";

    /// How many processes were started with the mark, or are forks of such.
    fn marked() -> usize {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.split(|&byte| byte == 0).any(|word| word == MARK.as_bytes())).count()
    }

    async fn until(what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[test]
    fn who_leaves_ends_the_compile_and_who_takes_too_long_is_told() {
        let rule = |schema: Value| {
            let body = json!({ "json_schema": schema });
            Rule::read(Fields::of(&body).expect("an object"), false).expect("a rule").expect("a rule")
        };
        // Each of these takes a fast processor some seconds, one alone may take less than it may.
        let each = [999_983, 999_979, 999_961, 999_959, 999_953, 999_931, 999_917, 999_907];
        let slow = rule(json!({ "anyOf": each.map(|n| json!({ "type": "number", "multipleOf": n })) }));
        let quick = rule(json!({ "type": "boolean" }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let grammars = Grammars::new(&exercise::tokenizer(), isolation(Some(MARK))).expect("grammars");
            tokio::select! {
                compiled = grammars.compile(&slow) => panic!("{compiled:?}"),
                () = until("it compiles", || marked() == 2) => {}
            }
            until("the compile ends", || marked() == 1).await;
            let error = grammars.compile(&slow).await.expect_err("it takes too long").message;
            assert!(error.contains("5 s of a processor"), "{error}");
            // A grammar that is kept has a process, and each of its texts one more.
            let grammar = grammars.compile(&quick).await.expect("a grammar");
            let mut text = grammar.begin();
            text.mask(&mut [0.0; 1000]).expect("a mask");
            until("the text runs", || marked() == 3).await;
            drop(text);
            until("the text ends", || marked() == 2).await;
            drop((grammar, grammars));
            until("all end", || marked() == 0).await;
        });
    }
}
