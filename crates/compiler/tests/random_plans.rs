//! Random legal plans, cuts and orders of loops on every kernel of several programs leave their
//! results equal. The cases are the same in every run, and a failure is shrunk
//! to the plainest plan that still fails.

use crate::support::{options, programs, times};
use compiler::cpu::plan::Plan;
use compiler::{Cuts, Numerics, Options};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Plans that each policy tries, each on one program.
const CASES: u32 = 400;

/// NMSE of another order of sums.
const EXACT: f64 = 1e-11;

/// NMSE of activations of 8 bits.
const INT8: f64 = 1e-3;

fn plan() -> impl Strategy<Value = Plan> {
    let vector_bytes = prop_oneof![Just(0), Just(16), Just(32), Just(64)];
    // Whether there is a matrix unit, dots, products by twos, and their sums across lanes.
    let has = (prop::bool::weighted(0.25), prop::bool::weighted(0.75), any::<bool>(), any::<bool>());
    // Panels, exchanges in registers, factors in bytes, words blended, halves exchanged.
    let ways = any::<[bool; 5]>();
    let tokens = prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(16)];
    let numbers = (1..=8i64, 1..=8i64, 1..=8i64, (0..=4096i64, 0..=1024i64), 0..=12i64);
    (vector_bytes, numbers, tokens, has, ways).prop_map(
        |(
            vector_bytes,
            (rows, stream_rows, chains, (prefetch_l2, prefetch_l1), stream_below),
            tokens,
            has,
            [panels, transposed_map, packed_scales, blends, interleave],
        )| {
            let (matrix_unit, dots, pairs, hadd) = has;
            Plan {
                vector_bytes,
                rows,
                stream_rows,
                chains,
                prefetch_l2,
                prefetch_l1,
                tokens,
                row_vectors: 1 << (rows % 3),
                matrix_unit,
                dots,
                pairs,
                hadd,
                packed_scales,
                blends,
                interleave,
                stream_below,
                panels,
                transposed_map,
            }
        },
    )
}

fn cuts() -> impl Strategy<Value = Cuts> {
    prop_oneof![1 => Just(Cuts::Sized), 3 => any::<u64>().prop_map(Cuts::Random)]
}

/// Runs random programs under random plans. Random cuts and orders have to leave items to each of the `paths` of vectors.
fn check(numerics: Numerics, most: f64, paths: &[&str]) {
    let all = programs::all();
    let cases = CASES * times() as u32;
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    // Items by path, where cuts and orders are random.
    let items: RefCell<BTreeMap<&str, usize>> = RefCell::default();
    let tried = runner.run(&(0..all.len(), plan(), cuts()), |(program, plan, cuts)| {
        let (name, case) = &all[program];
        // The matrix unit takes the place of codes.
        let options = options(numerics, plan).for_many_tokens().with_cpu(|cpu| cpu.cuts = cuts);
        let options = Options { check: true, ..options };
        let c = case.check(&options, most).map_err(|e| TestCaseError::fail(format!("{name}: {e}")))?;
        if cuts != Cuts::Sized {
            c.bodies.iter().flat_map(|b| b.paths()).for_each(|path| *items.borrow_mut().entry(path).or_default() += 1);
        }
        Ok(())
    });
    tried.unwrap_or_else(|e| panic!("{numerics:?}: {e}"));
    println!("random plans: {cases} on {} programs, {numerics:?}; items {:?}", all.len(), items.borrow());
    let none: Vec<_> = paths.iter().filter(|&path| !items.borrow().contains_key(path)).collect();
    assert!(none.is_empty(), "{numerics:?}: no item took {none:?}");
}

#[test]
fn random_plans_give_the_same() {
    check(Numerics::Exact, EXACT, &["vector map", "vector reduction"]);
}

#[test]
fn random_plans_give_the_same_with_codes_of_8_bits() {
    check(Numerics::Int8, INT8, &["vector map", "vector reduction", "integer dot", "block product"]);
}
