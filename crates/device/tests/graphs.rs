//! Random tensor graphs as C on the processor, against the definition of each
//! operation.

use crate::run;
use crate::support::{Folder, cpu};
use compiler::Compiled;
use compiler::program::Program;
use device::{Cpu, Device, Memory};
use std::sync::Arc;
use testkit::cases::Case;
use testkit::cases::graphs::{MOST, graph, seeds, show, targets};

/// Seeds that a run tries, each for two graphs.
const SEEDS: u64 = 100;

/// A graph and its program.
struct Subject {
    name: String,
    case: Case,
    compiled: Compiled,
}

impl Subject {
    /// The graph of a seed, whose kernels have names that no other graph's have.
    fn new(seed: u64, all: bool) -> Subject {
        let name = format!("seed {seed}{}", if all { " with concat and gather" } else { "" });
        let case = graph(seed, all);
        let mut compiled = case.compile(&targets(seed)[0]).unwrap_or_else(|e| panic!("{name}: {e}"));
        for kernel in &mut compiled.program.kernels {
            let symbol = format!("{}_{seed}_{all}", kernel.symbol);
            kernel.source = kernel.source.replace(&kernel.symbol, &symbol);
            kernel.symbol = symbol;
        }
        Subject { name, case, compiled }
    }

    /// What is wrong with its results.
    fn problem(&self, cpu: &Cpu) -> Option<String> {
        let checked = run::check(cpu, &self.case, &self.compiled, MOST);
        checked.err().map(|e| format!("{}: {e}", self.name))
    }
}

/// Compiles the kernels of all programs side by side. Those that do not compile fail with their graphs.
fn build(cpu: &Cpu, all: &[Subject]) {
    let mut kernels = Program { name: "graphs".into(), ..Program::default() };
    for Subject { compiled, .. } in all {
        kernels.prelude.clone_from(&compiled.program.prelude);
        kernels.kernels.extend_from_slice(&compiled.program.kernels);
    }
    let _ = cpu.load(Arc::new(kernels), &mut Memory::new());
}

#[test]
fn random_graphs_agree_with_their_definition() {
    let seeds = seeds(SEEDS);
    if let [seed] = seeds[..] {
        for all in [false, true] {
            println!("{}", show(&graph(seed, all), &targets(seed)[0]));
        }
    }
    let all: Vec<Subject> = seeds.iter().flat_map(|&seed| [false, true].map(|all| Subject::new(seed, all))).collect();
    let folder = Folder::new();
    let cpu = cpu(&folder, 2);
    build(&cpu, &all);
    let problems: Vec<String> = all.iter().filter_map(|subject| subject.problem(&cpu)).collect();
    let kernels: usize = all.iter().map(|subject| subject.compiled.program.kernels.len()).sum();
    println!("fuzzer: {} graphs ran as C in {kernels} kernels", all.len());
    assert!(problems.is_empty(), "{} of {} graphs failed:\n{}", problems.len(), all.len(), problems.join("\n"));
}
