//! How tokens read their experts is decided by price.

use crate::support::hollow::Hollow;
use compiler::{Compiled, Numerics, Options};
use model::step::{Class, ROWS};
use std::collections::HashSet;

/// Tokens of a step.
const MOST: i64 = 512;

fn compiled(shape: &str, class: Class, without: &[&str]) -> Compiled {
    with_rows(shape, class, without, MOST)
}

/// As [`compiled`], for so many rows of logits at most.
fn with_rows(shape: &str, class: Class, without: &[&str], most_rows: i64) -> Compiled {
    let without = without.iter().map(|name| (*name).to_owned()).collect();
    let options = Options { without, ..Options::cpu(Numerics::Int8, 64) };
    let hollow = Hollow { most_tokens: MOST, most_rows, ..Hollow::new(shape, 5) };
    hollow.compile_with(class, &options).unwrap_or_else(|e| panic!("{shape} {class:?}: {e}"))
}

/// The decision about experts, as the log has it.
fn decision(c: &Compiled) -> &str {
    let lines: Vec<&String> = c.log.choices.iter().filter(|l| l.starts_with("choice blk.*.experts")).collect();
    assert_eq!(lines.len(), 1, "layers are equal: {:?}", c.log.choices);
    lines[0]
}

#[test]
fn few_tokens_read_their_experts_and_many_are_grouped() {
    for shape in ["glm-4.7-flash", "deepseek-v2-lite", "qwen3-30b-a3b"] {
        for (class, expected) in [
            (Class::One, "-> slots"),
            (Class::Few, "-> slots"),
            (Class::Many, "-> by-expert"),
            (Class::Prompt, "-> by-expert"),
        ] {
            let c = compiled(shape, class, &[]);
            let line = decision(&c);
            println!("{shape} {class:?}: {} stages, {} kernels; {line}", c.program.stages.len(), c.program.launches());
            assert!(line.contains(expected), "{shape} {class:?}: {line}");
            assert_eq!(line.matches(" us").count(), 2, "{line}");
        }
    }
}

#[test]
fn without_prices_the_first_alternative_is_taken() {
    let c = compiled("glm-4.7-flash", Class::Many, &["choice"]);
    assert!(decision(&c).contains("slots"), "{}", decision(&c));
    let grouped = compiled("glm-4.7-flash", Class::Many, &["choice", "slots"]);
    assert!(decision(&grouped).contains("by-expert"), "{}", decision(&grouped));
    assert!(c.program.stages.len() < grouped.program.stages.len());
}

#[test]
fn nothing_is_chosen_where_nothing_is_offered() {
    for class in Class::ALL {
        assert!(compiled("llama-3.2-1b", class, &[]).log.choices.is_empty());
    }
}

/// A layer with experts in a step of many tokens: launches and stages.
#[test]
fn grouping_takes_no_more_kernels_than_it_did() {
    let of = |layers| {
        let options = Options::cpu(Numerics::Int8, 64);
        let c = Hollow::new("glm-4.7-flash", layers).compile_with(Class::Many, &options).expect("a program");
        (c.program.stages.len(), c.program.launches())
    };
    let (three, four) = (of(3), of(4));
    let (stages, launches) = (four.0 - three.0, four.1 - three.1);
    println!("{stages} stages, {launches} kernels");
    assert!(stages <= 15 && launches <= 20, "{stages} stages, {launches} kernels");
}

/// A bound on rows changes the kernel of the head, and no price.
#[test]
fn how_many_rows_there_are_matters_to_the_head_alone() {
    for shape in ["glm-4.7-flash", "qwen3-30b-a3b", "youtu-llm-2b"] {
        for class in [Class::Many, Class::Prompt] {
            let [all, bounded] = [MOST, ROWS].map(|rows| with_rows(shape, class, &[], rows));
            assert_eq!(all.log.choices, bounded.log.choices, "{shape} {class:?}");
            let sources: HashSet<&str> = all.program.kernels.iter().map(|k| &*k.source).collect();
            let launches = bounded.program.stages.iter().flat_map(|stage| &stage.launches);
            let other = launches.filter(|l| !sources.contains(&*bounded.program.kernels[l.kernel].source));
            let scopes: Vec<&str> = other.map(|l| &*l.scope).collect();
            assert_eq!(scopes, [""], "{shape} {class:?}: one kernel, which belongs to no layer");
        }
    }
}
