//! Alternatives of equal meaning: which one is taken, what that costs to find out, and that all give the same.

use crate::support::{Case, Random, bytes, gpu_options, int_bytes};
use compiler::{Compiled, Dim, Numerics, Options, Tensor, dims};
use ir::{BinOp, DType};
use std::collections::BTreeSet;

/// Width of what the matrices of these tests map to itself.
const WIDTH: i64 = 64;

fn without(names: &[&str]) -> Options {
    let without = names.iter().map(|name| (*name).to_owned()).collect();
    Options { without, check: true, ..Options::cpu(Numerics::Exact, 32) }
}

struct Steps {
    case: Case,
    random: Random,
}

impl Steps {
    fn new() -> Steps {
        Steps { case: Case::default(), random: Random(7) }
    }

    fn floats(&mut self, name: &str, shape: &[i64]) -> Tensor {
        let values = self.random.floats(shape.iter().product::<i64>() as usize);
        self.case.bind(name, bytes(&values));
        let dims: Vec<Dim> = shape.iter().map(|&d| Dim::Const(d)).collect();
        self.case.b.param(name, DType::F32, &dims)
    }

    /// Each row of `x` times the matrix that it chose: read for it alone, or as one of the products with all.
    fn chosen(&mut self, layer: usize, x: &Tensor, experts: i64) -> Tensor {
        let rows = x.len(0);
        let w = self.floats(&format!("blk.{layer}.w"), &[experts, WIDTH, WIDTH]);
        let ids: Vec<i32> = (0..rows).map(|i| (i as i32 * 5 + layer as i32) % experts as i32).collect();
        let name = format!("blk.{layer}.ids");
        self.case.bind(&name, int_bytes(&ids));
        let ids = self.case.b.input(&name, DType::I32, dims![rows]);
        let own = x.linear(&w.gather(&ids));
        let all = x.unsqueeze(1).linear(&w);
        let here = ids.unsqueeze(1).equal(&self.case.b.iota(experts)).unsqueeze(2);
        let one = here.select(&all, &self.case.b.float(0.0)).sum(1);
        Tensor::choice(&format!("blk.{layer}.rows"), &[("own", own), ("all", one)])
    }

    /// Layers with a norm and a residual.
    fn layers(mut self, rows: i64, experts: i64, layers: usize) -> Case {
        let mut x = self.floats("x", &[rows, WIDTH]);
        for layer in 0..layers {
            let norm = self.floats(&format!("blk.{layer}.norm"), &[WIDTH]);
            let h = x.rms_norm(&norm, 1e-5);
            x = &x + &self.chosen(layer, &h, experts);
        }
        self.case.output("y", &x);
        self.case
    }
}

fn compiled(case: &Case, options: &Options) -> Compiled {
    case.check(options, 1e-10).unwrap_or_else(|e| panic!("{:?}: {e}", options.without))
}

/// What was taken, of all choices of this name.
fn taken<'a>(c: &'a Compiled, name: &str) -> Vec<&'a str> {
    let lines = c.log.choices.iter().filter(|l| l.starts_with(&format!("choice {name}:")));
    lines.map(|l| l.split(" -> ").nth(1).unwrap_or(l)).collect()
}

#[test]
fn the_decision_depends_on_sizes() {
    let decide = |rows, experts| {
        let c = compiled(&Steps::new().layers(rows, experts, 3), &without(&[]));
        taken(&c, "blk.*.rows").join(" ")
    };
    assert_eq!(decide(2, 16), "own, for 3");
    assert_eq!(decide(64, 2), "all, for 3");
}

#[test]
fn prices_are_in_the_log_and_equal_layers_decide_once() {
    let c = compiled(&Steps::new().layers(2, 16, 6), &without(&[]));
    let [line] = &c.log.choices[..] else { panic!("one line: {:?}", c.log.choices) };
    assert!(line.starts_with("choice blk.*.rows: own ") && line.ends_with("-> own, for 6"), "{line}");
    let prices: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).take(2).collect();
    assert!(prices.len() == 2 && prices[0] > 0.0 && prices[0] < prices[1] && prices[1].is_finite(), "{line}");
    assert!(c.log.to_string().contains(line), "what is printed has it");
}

#[test]
fn all_alternatives_give_the_same() {
    for (rows, experts) in [(1, 4), (5, 3)] {
        let case = Steps::new().layers(rows, experts, 2);
        for names in [&["own"][..], &["all"], &["choice"], &["own", "all"], &["own", "choice"], &["fuse"]] {
            compiled(&case, &without(names));
            let gpu = gpu_options(Numerics::Exact, Default::default());
            compiled(&case, &Options { without: without(names).without, check: true, ..gpu });
        }
        let [own, all] = ["all", "own"].map(|left_out| compiled(&case, &without(&[left_out])));
        assert!(own.log.choices[0].contains("rows: own") && all.log.choices[0].contains("rows: all"));
        let first = compiled(&case, &without(&["choice"]));
        assert_eq!(first.log.choices, ["choice blk.*.rows: own, for 2"], "the first, without a price");
    }
}

#[test]
fn a_choice_inside_of_an_alternative() {
    let mut s = Steps::new();
    let x = s.floats("x", &[4, WIDTH]);
    let inner = s.chosen(0, &x, 8);
    let outer = Tensor::choice("outer", &[("twice", &inner + &inner), ("double", inner * 2.0)]);
    s.case.output("y", &outer.sigmoid());
    let c = compiled(&s.case, &without(&[]));
    assert_eq!((taken(&c, "outer").len(), taken(&c, "blk.*.rows").len()), (1, 1), "{:?}", c.log.choices);
}

#[test]
fn combinations_are_bounded() {
    let mut s = Steps::new();
    let mut x = s.floats("x", &[3, WIDTH]);
    // Eight choices that are not alike, each of what the one before gives: 256 combinations.
    for layer in 0..8 {
        x = s.chosen(layer, &x, 2 + layer as i64) * 0.25;
    }
    s.case.output("y", &x);
    let c = compiled(&s.case, &without(&[]));
    let combinations: BTreeSet<&String> = c.log.choices.iter().filter(|l| l.starts_with("price of")).collect();
    println!("{} combinations", combinations.len());
    assert!(combinations.len() <= 64, "{}", combinations.len());
    assert_eq!(taken(&c, "blk.*.rows").len(), 8);
    let again = compiled(&s.case, &without(&[]));
    assert_eq!(c.log.choices, again.log.choices);
}

#[test]
fn a_rule_offers_what_depends_on_the_length() {
    let decide = |n: i64, names: &[&str]| {
        let mut s = Steps::new();
        let x = s.floats("x", &[n]);
        let y = (&x * &x).scan(0);
        s.case.output("y", &y.binary(BinOp::Max, &x));
        let c = compiled(&s.case, &without(names));
        (taken(&c, "scan").join(" "), c.log.choices.len())
    };
    assert_eq!(decide(4, &[]), ("pairs, for 1".into(), 1));
    assert_eq!(decide(256, &[]), ("loop, for 1".into(), 1));
    assert_eq!(decide(300, &[]), (String::new(), 0), "nothing is offered");
    assert_eq!(decide(4, &["scan"]), (String::new(), 0));
}

#[test]
fn nothing_happens_without_alternatives() {
    let mut s = Steps::new();
    let x = s.floats("x", &[4, WIDTH]);
    let w = s.floats("w", &[WIDTH, WIDTH]);
    let y = Tensor::choice("one", &[("only", x.linear(&w))]);
    s.case.output("y", &y);
    assert!(compiled(&s.case, &without(&[])).log.choices.is_empty());
}

#[test]
#[should_panic(expected = "alternative other of shapes")]
fn alternatives_have_one_shape() {
    let mut s = Steps::new();
    let x = s.floats("x", &[4, WIDTH]);
    Tensor::choice("shapes", &[("one", x.clone()), ("other", x.sum(1))]);
}
