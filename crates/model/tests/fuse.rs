//! A kernel for each tensor operation computes what the fused program computes, and is what it is called.

use crate::support::hollow::Hollow;
use crate::support::{self, cpu, synth, tokens, worst_row};
use compiler::program::{BufferKind, Launch};
use compiler::{Compiled, Numerics, Options};
use device::Null;
use gguf::Gguf;
use ir::{BinOp, DType, Graph, Id, Op, Space, UnOp};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use std::collections::BTreeSet;
use std::sync::Arc;

/// NMSE of a row of logits.
const MOST: f64 = 1e-12;

/// Lengths of the steps: of all classes, where it pays to read a prompt by runs.
const STEPS: [usize; 5] = [128, 9, 3, 1, 1];

/// Logits of all tokens, and the class and the launches of each step.
fn logits(file: &Arc<Gguf>, without: &[&str]) -> (Vec<f32>, Vec<(Class, usize)>) {
    let mut compiler = support::options(Numerics::Exact);
    compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
    let options = EngineOptions { compiler, context: 256, chunk: 192, cache: CacheKind::F32 };
    let mut engine = Engine::new(file.clone(), cpu(2), options).expect("an engine");
    let ids = tokens(STEPS.iter().sum(), engine.config().vocab as u32, 11);
    let (mut out, mut launches, mut at) = (vec![], vec![], 0);
    for count in STEPS {
        let class = engine.class_of(count, at);
        out.extend_from_slice(engine.step(&ids[at..at + count], at, 0..count).expect("a step"));
        launches.push((class, engine.program(class).expect("it ran").0.launches()));
        at += count;
    }
    (out, launches)
}

fn check(shape: &str, quant: &str) {
    let file = synth(shape, quant, Some(2));
    let vocab = 512;
    let (fused, few) = logits(&file, &[]);
    let (unfused, many) = logits(&file, &["fuse"]);
    let error = worst_row(&unfused, &fused, vocab);
    println!("{shape} {quant}: NMSE {error:.1e} in the worst row, {few:?} and {many:?}");
    // Heads of this shape are too few for runs.
    let first = if shape == "tiny-mla-softmax" { Class::Many } else { Class::Prompt };
    let classes = [first, Class::Many, Class::Few, Class::One, Class::One];
    for ((few, many), class) in few.into_iter().zip(many).zip(classes) {
        assert!(many.0 == class && few.0 == class && many.1 > 2 * few.1, "{shape} {quant}: {few:?}, {many:?}");
    }
    assert!(error <= MOST, "{shape} {quant}: NMSE {error:e}");
}

#[test]
fn llama() {
    check("tiny-llama", "q4_0");
    check("tiny-llama", "f32");
}

#[test]
fn qwen2() {
    check("tiny-qwen2", "q8_0");
}

#[test]
fn qwen3() {
    check("tiny-qwen3", "q6_k");
}

#[test]
fn qwen3moe() {
    check("tiny-qwen3moe", "q4_0");
}

#[test]
fn glm4() {
    check("tiny-glm4", "q4_k_m");
}

#[test]
fn deepseek2() {
    check("tiny-mla-moe", "q4_0");
    check("tiny-mla-dense", "q4_k_m");
    check("tiny-mla-softmax", "q4_0");
}

/// How many positions an index chooses is a count of parts that a kernel of its own computes.
#[test]
fn an_index_without_fusion_keeps_the_rules() {
    for (shape, class) in ["tiny-deepseek32", "tiny-glm-dsa"].into_iter().flat_map(|s| Class::ALL.map(|c| (s, c))) {
        let hollow = Hollow::new(shape, 2);
        let without = vec!["fuse".into()];
        let options = Options { check: true, without, ..Options::gpu(hollow.numerics) };
        hollow.compile_with(class, &options).unwrap_or_else(|e| panic!("{shape} {class:?}: {e}"));
    }
}

/// A kernel of a program without fusion. It may hold one operation on values that other kernels have computed. Movement is
/// none, as it is only an index; and none are what readers repeat even then:
/// - *free* values, of weights, the cache and the inputs of the step alone: unpacked blocks, converted rows, masks;
/// - *inline* ones, the elements of a sum that is smaller than they are: the products of a matrix product, with integer
///   dots inside, and one-hot rows, which other readers than the sum repeat too;
/// - the merge of a fold, which is the operation itself: online softmax over parts that other kernels have computed.
struct Kernel<'a> {
    compiled: &'a Compiled,
    launch: &'a Launch,
}

impl Kernel<'_> {
    fn graph(&self) -> &Graph {
        &self.compiled.graph
    }

    /// Whether an expression reads what another kernel has computed. Where a value lies is not the value.
    fn is_computed(&self, id: Id) -> bool {
        let g = self.graph();
        let sources = g.src(id);
        if *g.op(id) != Op::Load {
            return sources.iter().any(|&s| self.is_computed(s));
        }
        let Op::Buffer { slot, space: Space::Input | Space::Output, .. } = *g.op(sources[0]) else { return true };
        let buffer = &self.compiled.program.buffers[self.launch.args[slot as usize]];
        matches!(buffer.kind, BufferKind::Arena(_) | BufferKind::Output(_))
    }

    /// The operations of an expression on computed values.
    fn operations(&self, id: Id, found: &mut BTreeSet<Id>) {
        let g = self.graph();
        let sources = g.src(id);
        match *g.op(id) {
            _ if g.dtype(id) == DType::Index || !self.is_computed(id) => return,
            Op::Load => return,
            Op::Reduce(..) => {
                found.insert(id);
                return self.elements(sources[0], found);
            }
            // One-hot rows.
            Op::Cast if *g.op(sources[0]) == Op::Binary(BinOp::Eq) => return,
            // Padding, or a mask, chooses a value or nothing.
            Op::Where if !self.is_computed(sources[0]) => {}
            _ => drop(found.insert(id)),
        }
        sources.iter().for_each(|&s| self.operations(s, found));
    }

    /// What of the elements of a sum is more than products and choices.
    fn elements(&self, id: Id, found: &mut BTreeSet<Id>) {
        let g = self.graph();
        let inline = match *g.op(id) {
            _ if g.dtype(id) == DType::Index || !self.is_computed(id) => return,
            Op::Load => return,
            Op::Binary(BinOp::Add | BinOp::Mul | BinOp::Eq | BinOp::Lt | BinOp::And | BinOp::Or) => true,
            Op::Cast | Op::Where | Op::Unary(UnOp::Not) => true,
            Op::Reduce(..) => g.dtype(id) == DType::I32,
            _ => false,
        };
        if !inline {
            found.insert(id);
        }
        g.src(id).iter().for_each(|&s| self.elements(s, found));
    }
}

/// Kernels of a program that hold more than one operation.
fn fused(compiled: &Compiled) -> Vec<String> {
    let mut fused = vec![];
    for launch in compiled.program.stages.iter().flat_map(|stage| &stage.launches) {
        let nest = compiled.nests(launch.kernel).next().expect("the models have no kernels of their own");
        let kernel = Kernel { compiled, launch };
        let mut found = BTreeSet::new();
        let items = nest.phases.iter().flat_map(|phase| &phase.items);
        items.for_each(|item| kernel.operations(item.value, &mut found));
        let operations: Vec<&Op> = found.into_iter().map(|id| compiled.graph.op(id)).collect();
        let fold = nest.phases.iter().any(|phase| phase.serial.is_some());
        let merge = fold && !operations.iter().any(|op| matches!(op, Op::Reduce(..)));
        if operations.len() > 1 && !merge {
            fused.push(format!("{} {}: {operations:?}", launch.scope, launch.origin));
        }
    }
    fused
}

#[test]
fn without_fusion_a_kernel_is_one_operation() {
    for (shape, numerics) in [
        ("tiny-llama", Numerics::Exact),
        ("tiny-qwen2", Numerics::Exact),
        ("tiny-qwen3", Numerics::Int8),
        ("tiny-qwen3moe", Numerics::Int8),
        ("tiny-glm4", Numerics::Int8),
        ("tiny-mla-moe", Numerics::Exact),
        ("tiny-mla-moe", Numerics::Int8),
        ("tiny-mla-dense", Numerics::Int8),
        ("tiny-mla-softmax", Numerics::Exact),
    ] {
        let file = synth(shape, "q4_0", Some(2));
        for class in Class::ALL {
            let kernels = |without: &[&str]| {
                let mut compiler = support::options(numerics);
                compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
                let options = EngineOptions { compiler, context: 256, chunk: 192, cache: CacheKind::of(numerics) };
                let mut engine = Engine::new(file.clone(), Arc::new(Null), options).expect("an engine");
                fused(engine.compile(class).expect("a program"))
            };
            let several = kernels(&["fuse"]);
            assert!(several.is_empty(), "{shape} {numerics:?} {class:?}:\n{}", several.join("\n"));
            assert!(!kernels(&[]).is_empty(), "{shape} {numerics:?} {class:?}: nothing is fused otherwise");
        }
    }
}
