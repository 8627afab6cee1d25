//! Grammars in GBNF that are small to send and large to read, to compile, to follow or to drop.

use super::{ANY, Case, REFUSED};
use serde_json::json;
use std::fmt::Write;

/// A completion that follows a grammar.
fn ask(grammar: &str) -> String {
    json!({ "prompt": "a", "n_predict": 4, "grammar": grammar }).to_string()
}

fn case(name: impl Into<String>, grammar: impl Fn() -> String + 'static) -> Case {
    Case::post(format!("gbnf, {}", name.into()), "/completion", ANY, move || ask(&grammar()))
}

fn refused(name: impl Into<String>, grammar: impl Fn() -> String + 'static) -> Case {
    Case::post(format!("gbnf, {}", name.into()), "/completion", REFUSED, move || ask(&grammar()))
}

/// `root ::= r1`, `r1 ::= r2`, … with something around each name.
fn chain(rules: usize, before: &str, after: &str) -> String {
    let mut grammar = format!("root ::= {before}r0{after}\n");
    for at in 0..rules {
        let _ = writeln!(grammar, "r{at} ::= {before}r{}{after}", at + 1);
    }
    let _ = writeln!(grammar, "r{rules} ::= \"a\"");
    grammar
}

/// Rules of which each has the next twice.
fn doubling(rules: usize, between: &str) -> String {
    let mut grammar = "root ::= r0\n".to_owned();
    for at in 0..rules {
        let _ = writeln!(grammar, "r{at} ::= r{0}{between}r{0}", at + 1);
    }
    let _ = writeln!(grammar, "r{rules} ::= \"a\"");
    grammar
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for repeat in ["*", "+", "?", "{2}", "{0,3}", "*?+", "{1,2}*"] {
        let count = 15_000 / repeat.len();
        cases
            .push(case(format!("{count} stacked {repeat}"), move || format!("root ::= \"a\"{}", repeat.repeat(count))));
    }
    cases.push(case("a megabyte of stacked *", || format!("root ::= \"a\"{}", "*".repeat(1_000_000))));
    for rules in [900, 5_000, 40_000] {
        cases.push(case(format!("a chain of {rules} rules"), move || chain(rules, "", "")));
    }
    for (before, after) in
        [("(", ")"), ("\"x\" ", ""), ("", " \"x\""), ("", "?"), ("", "*"), ("\"\" | ", ""), ("(", "){2}")]
    {
        cases
            .push(case(format!("a chain of 1,200 rules with {before}…{after}"), move || chain(1_200, before, after)));
    }
    for depth in [1_000, 15_000, 300_000] {
        cases.push(case(format!("{depth} nested groups"), move || {
            format!("root ::= {}\"a\"{}", "(".repeat(depth), ")".repeat(depth))
        }));
    }
    cases.push(case("15,000 nested groups that repeat", || {
        format!("root ::= {}\"a\"{}", "(".repeat(15_000), ")*".repeat(15_000))
    }));
    cases.push(refused("300,000 groups that never end", || format!("root ::= {}", "(".repeat(300_000))));
    let recursions = [
        "root ::= root",
        "root ::= root root | \"\"",
        "root ::= root \"a\" | \"a\"",
        "root ::= a\na ::= b\nb ::= a",
        "root ::= root? root* \"a\"",
        "root ::= (root | \"\")* (root | \"\")*",
    ];
    for grammar in recursions {
        cases.push(case(format!("left recursion: {}", grammar.replace('\n', "; ")), move || grammar.to_owned()));
    }
    for (between, rules) in [(" ", 24), (" | ", 24), (" \"b\"? ", 24), (" ", 2_000)] {
        cases.push(case(format!("{rules} rules that double with '{between}'"), move || doubling(rules, between)));
    }
    let repeats = [
        "\"a\"{1000000000}",
        "\"a\"{0,1000000000}",
        "\"a\"{99999999999999999999}",
        "\"a\"{5,2}",
        "(((\"a\"{1000}){1000}){1000}){1000}",
        "(((\"a\"?){0,200}){0,200}){0,200}",
        "([a-z]{0,500} [0-9]{0,500}){0,500}",
    ];
    for repeat in repeats {
        cases.push(case(format!("repeats {repeat}"), move || format!("root ::= {repeat}")));
    }
    cases.push(case("100,000 alternatives", || format!("root ::= \"a\"{}", " | \"b\"".repeat(99_999))));
    cases.push(case("20,000 words in a row that may be missing", || format!("root ::= {}", "\"a\"? ".repeat(20_000))));
    cases.push(case("a class of 150,000 characters", || format!("root ::= [{}]", "ab-dx".repeat(30_000))));
    cases.push(case("a class of all characters, 2,000 times", || {
        format!("root ::= {}", "[^\\x00-\\U0010fffe] ".repeat(2_000))
    }));
    cases.push(refused("20,000 names that nothing defines", || {
        (0..20_000).fold("root ::= \"a\"".to_owned(), |all, at| all + &format!(" | n{at}"))
    }));
    cases.push(refused("a name of 900 kB", || format!("root ::= {}", "n".repeat(900_000))));
    cases.push(refused("more than a megabyte", || format!("root ::= \"{}\"", "a".repeat(1 << 20))));
    cases.push(case("a comment of 900 kB", || format!("root ::= \"a\" #{}", "c".repeat(900_000))));
    cases.push(case("a word of 900 kB", || format!("root ::= \"{}\"", "a".repeat(900_000))));
    for broken in ["root ::= \"a", "root ::= [a", "root ::= (", "root ::= \"\\x", "root", "::=", "root ::= <tool>"] {
        cases.push(refused(format!("broken: {broken}"), move || broken.to_owned()));
    }
    cases
}
