//! From a schedule to a program: each kernel is lowered, tiled and rendered once, and its launches go into stages.

use crate::check;
use crate::error::CompileError;
use crate::kernel::body::Body;
use crate::log::Log;
use crate::lower::{Item, Lowered, Nest, lower};
use crate::options::Options;
use crate::program::memory::Layout;
use crate::program::report::{origin, params, read_bytes, scope};
use crate::program::{Count, Kernel, Launch, Program, Stage, Variable, products, reads};
use crate::schedule::Schedule;
use crate::schedule::roles::base;
use crate::target::Target;
use ir::{Axis, BinOp, Graph, Id, Op, index};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A program in the making.
struct Assembly<'a> {
    target: &'a dyn Target,
    program: Program,
    bodies: Vec<Body>,
    /// The kernels before tiling; nothing for those that came with their own source.
    nests: Vec<Option<Nest>>,
    /// Kernels by what they were made of.
    known: FxHashMap<Nest, usize>,
}

/// A program, its kernels as IR, and before tiling.
pub(crate) type Assembled = (Program, Vec<Body>, Vec<Option<Nest>>);

/// Assembles the program of a schedule.
pub(crate) fn assemble(
    g: &mut Graph,
    s: &Schedule,
    name: &str,
    mut buffers: Layout,
    options: &Options,
    log: &mut Log,
) -> Result<Assembled, CompileError> {
    let target = options.target();
    let vars = variables(g, &s.roles.live);
    let program = Program { name: name.into(), prelude: target.prelude().into(), vars, ..Program::default() };
    let mut a = Assembly { target: &*target, program, bodies: vec![], nests: vec![], known: FxHashMap::default() };
    let mut launches: Vec<(usize, usize, Lowered)> = vec![];
    for group in s.in_order() {
        let call = s.groups[group].members.iter().find(|m| matches!(g.op(**m), Op::Call { .. }));
        let (kernel, lowered) = match call {
            Some(&call) => a.custom(g, call),
            None => a.generated(g, s, group, options, log)?,
        };
        launches.push((group, kernel, lowered));
    }
    let mut stages: Vec<Stage> = vec![];
    let mut level = usize::MAX;
    for (group, kernel, lowered) in launches {
        if s.groups[group].level != level {
            level = s.groups[group].level;
            stages.push(Stage::default());
        }
        log.products.extend(products::of(g, s, &lowered.made, kernel, &a.bodies[kernel].ways, buffers.inputs()));
        let launch = Launch {
            kernel,
            args: lowered.slots.iter().map(|&t| buffers.buffer(g, t)).collect(),
            tasks: count(g, lowered.nest.tasks, &a.program.vars),
            scope: scope(g, s, group),
            origin: origin(g, s, group),
            bytes: Count::Const(read_bytes(g, s, group, buffers.inputs())),
            row_bytes: reads::row_bytes(g, s, &params(g, s, group).1),
        };
        stages.last_mut().expect("a stage").launches.push(launch);
    }
    let Assembly { mut program, bodies, nests, .. } = a;
    program.stages = stages;
    (program.buffers, program.arena_bytes) = buffers.finish();
    Ok((program, bodies, nests))
}

impl Assembly<'_> {
    /// The kernel of a group: one that is there, or a new one.
    fn generated(
        &mut self,
        g: &mut Graph,
        s: &Schedule,
        group: usize,
        options: &Options,
        log: &mut Log,
    ) -> Result<(usize, Lowered), CompileError> {
        let cut = self.target.cut(g, s, group);
        let lowered = lower(g, s, group, &cut);
        let nest = &lowered.nest;
        if options.check {
            check::nest(g, nest)?;
        }
        if let Some(&known) = self.known.get(nest).filter(|_| options.allows("share")) {
            log.hits += 1;
            return Ok((known, lowered));
        }
        log.misses += 1;
        let (body, tuned) = self.target.tile(g, nest);
        log.tuned += usize::from(tuned);
        if options.check {
            check::body(g, &body)?;
        }
        let number = self.bodies.len();
        let vars = &self.program.vars;
        self.program.kernels.push(kernel_of(g, self.target, number, nest, &body, lowered.slots.len(), vars));
        self.bodies.push(body);
        self.nests.push(Some(nest.clone()));
        self.known.insert(nest.clone(), number);
        Ok((number, lowered))
    }

    /// A kernel with its own source.
    fn custom(&mut self, g: &mut Graph, call: Id) -> (usize, Lowered) {
        let Op::Call { symbol, source, tasks } = g.op(call).clone() else { unreachable!() };
        let tasks = g.int(tasks);
        let known = self.program.kernels.iter().position(|k| k.symbol == symbol && k.source == source);
        let kernel = known.unwrap_or_else(|| {
            self.program.kernels.push(Kernel::of_source(symbol, source, 0));
            let root = g.make(Op::Block, ir::DType::Index, vec![], vec![]);
            self.bodies.push(Body { root, stashes: vec![], tasks, paths: vec!["custom"], ways: vec![] });
            self.nests.push(None);
            self.bodies.len() - 1
        });
        let mut slots: Vec<Id> = g.src(call).iter().map(|&s| base(g, s)).collect();
        let written = vec![false; slots.len()].into_iter().chain([true]).collect();
        slots.push(call);
        let nest = Nest { phases: vec![], tasks, stashes: vec![], ranges: 0, wanted: None };
        (kernel, Lowered { nest, made: vec![], slots, written })
    }
}

/// The kernel of this number in a program, with so many buffers.
pub(crate) fn kernel_of(
    g: &mut Graph,
    target: &dyn Target,
    number: usize,
    nest: &Nest,
    body: &Body,
    slots: usize,
    vars: &[Variable],
) -> Kernel {
    let symbol = symbol(g, number, nest, body);
    let vars: Vec<String> = vars.iter().map(|v| v.name.clone()).collect();
    let source = target.render(g, &symbol, body, slots, &vars);
    Kernel { symbol, source, geometry: target.geometry(g, body), ir: Some(Arc::new(g.extract(body.root))) }
}

/// The name of a kernel: its number, and the path of the item that takes most of its work, a product if it has one.
fn symbol(g: &mut Graph, number: usize, nest: &Nest, body: &Body) -> String {
    let items = nest.phases.iter().flat_map(|phase| &phase.items);
    let mut most = (0, "empty");
    for (item, way) in items.zip(&body.ways) {
        let work = terms(g, item);
        if work > most.0 {
            most = (work, way.path);
        }
    }
    format!("k{number}_{}", most.1.replace(' ', "_"))
}

/// How often the innermost expression of an item is computed in a task, where symbolic integers are largest.
fn terms(g: &mut Graph, item: &Item) -> i64 {
    let mut roots = item.dims.clone();
    roots.push(item.value);
    let ranges: Vec<Id> =
        g.toposort(&roots).into_iter().filter(|&id| matches!(g.op(id), Op::Range(_, Axis::Loop))).collect();
    ranges.into_iter().map(|r| index::bounds(g, r).1 + 1).fold(1, i64::saturating_mul)
}

fn variables(g: &Graph, live: &[Id]) -> Vec<Variable> {
    let mut all: Vec<Variable> = vec![];
    let mut add = |g: &Graph, id: Id| {
        for n in g.toposort(&[id]) {
            if let Op::Var { name, min, max } = g.op(n).clone()
                && !all.iter().any(|v| v.name == name)
            {
                all.push(Variable { name, min, max });
            }
        }
    };
    let mut dims: Vec<Id> = live.iter().flat_map(|&id| g.shape(id).to_vec()).collect();
    dims.extend(live.iter().filter(|&&i| matches!(g.op(i), Op::Var { .. })));
    dims.sort_unstable();
    dims.dedup();
    for d in dims {
        add(g, d);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// An index expression as a launch-time number.
fn count(g: &Graph, id: Id, vars: &[Variable]) -> Count {
    let bin = |i: usize| count(g, g.src(id)[i], vars);
    match g.op(id) {
        Op::Const(c) => Count::Const(c.as_int()),
        Op::Var { name, .. } => Count::Var(vars.iter().position(|v| v.name == *name).expect("a declared variable")),
        Op::Binary(BinOp::Add) => Count::Add(Box::new(bin(0)), Box::new(bin(1))),
        Op::Binary(BinOp::Mul) => Count::Mul(Box::new(bin(0)), Box::new(bin(1))),
        Op::Binary(BinOp::Div) => {
            let d = g.as_int(g.src(id)[1]).expect("a constant divisor");
            Count::CeilDiv(Box::new(Count::Add(Box::new(bin(0)), Box::new(Count::Const(1 - d)))), d)
        }
        op => panic!("{op:?} in a task count"),
    }
}
