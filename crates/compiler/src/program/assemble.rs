//! From a schedule to a program: each kernel is lowered, tiled and rendered once, and its launches go into stages.

use crate::check;
use crate::error::CompileError;
use crate::kernel::body::{Body, Way};
use crate::log::Log;
use crate::lower::{Item, Lowered, Nest, lower};
use crate::options::Options;
use crate::program::memory::Layout;
use crate::program::report::{origin, params, read_bytes, scope};
use crate::program::{Count, Kernel, Launch, Program, Stage, Variable, products, reads};
use crate::render::Unwritable;
use crate::schedule::Schedule;
use crate::schedule::roles::base;
use crate::target::Target;
use ir::{Axis, BinOp, Graph, Id, Op, index};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What equal kernels have in common: nests with the slots of their buffers, and threads of a block.
type Structure = (Vec<(Nest, Vec<u32>)>, i64);

/// A program in the making.
struct Assembly<'a> {
    target: &'a dyn Target,
    program: Program,
    bodies: Vec<Body>,
    /// The kernels before tiling; nothing for those of several nests, and those that came with their own source.
    nests: Vec<Option<Nest>>,
    /// Kernels by what they were made of: nests with the parameters of each, and the threads of a task.
    known: FxHashMap<Structure, usize>,
    /// Tensors that do not change while a step runs, if the target wants to know.
    weights: FxHashSet<Id>,
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
    let weights = if target.loads_early() { weights(g, &s.roles.live, buffers.inputs()) } else { Default::default() };
    let (bodies, nests, known) = Default::default();
    let mut a = Assembly { target, program, bodies, nests, known, weights };
    let mut stages = vec![];
    for stage in s.in_order().chunk_by(|a, b| s.groups[*a].level == s.groups[*b].level) {
        let mut made = vec![];
        for groups in a.together(g, s, stage, buffers.inputs()) {
            if let Some(call) = call_of(g, s, groups[0]) {
                let (kernel, lowered) = a.custom(g, call);
                made.push(Made { kernel, groups, lowered });
                continue;
            }
            for (groups, lowered) in a.lowered(g, s, &groups) {
                let kernel = a.generated(g, &lowered, options, log)?;
                made.push(Made { kernel, groups, lowered });
            }
        }
        stages.push(made);
    }
    for made in stages {
        let launches = made.iter().map(|made| launch(g, s, &a, made, &mut buffers, log)).collect();
        a.program.stages.push(Stage { launches });
    }
    let Assembly { mut program, bodies, nests, .. } = a;
    (program.buffers, program.arena_bytes) = buffers.finish();
    Ok((program, bodies, nests))
}

/// The custom kernel of a group, if it is one.
fn call_of(g: &Graph, s: &Schedule, group: usize) -> Option<Id> {
    s.groups[group].members.iter().copied().find(|&m| matches!(g.op(m), Op::Call { .. }))
}

/// A kernel, and the groups that it was made of.
struct Made {
    kernel: usize,
    groups: Vec<usize>,
    lowered: Vec<Lowered>,
}

/// One use of a kernel.
fn launch(g: &mut Graph, s: &Schedule, a: &Assembly, made: &Made, buffers: &mut Layout, log: &mut Log) -> Launch {
    let Made { kernel, groups, lowered } = made;
    let kernel = *kernel;
    let args = shared_slots(lowered).0.iter().map(|&t| buffers.buffer(g, t)).collect();
    let mut launch = Launch { kernel, args, ..Launch::default() };
    let mut ways = &a.bodies[kernel].ways[..];
    let (mut origins, mut bytes) = (vec![], 0);
    for (&group, lowered) in groups.iter().zip(lowered) {
        let own;
        (own, ways) = ways.split_at(lowered.made.len().min(ways.len()));
        log.products.extend(products::of(g, s, &lowered.made, kernel, own, buffers.inputs()));
        let tasks = count(g, lowered.nest.tasks, &a.program.vars);
        launch.tasks = if launch.tasks == Count::default() { tasks } else { launch.tasks + tasks };
        if launch.scope.is_empty() {
            launch.scope = scope(g, s, group);
        }
        origins.push(origin(g, s, group));
        bytes += read_bytes(g, s, group, buffers.inputs());
        launch.row_bytes += reads::row_bytes(g, s, &params(g, s, group).1);
    }
    origins.retain(|origin| !origin.is_empty());
    (launch.origin, launch.bytes) = (origins.join(" "), Count::Const(bytes));
    launch
}

/// The tensors that the parameters of one kernel for all of these stand for, and the number of each of their own.
fn shared_slots(lowered: &[Lowered]) -> (Vec<Id>, Vec<Vec<u32>>) {
    let mut all: Vec<Id> = vec![];
    let mut number = |&tensor: &Id| {
        let known = all.iter().position(|&t| t == tensor);
        known.unwrap_or_else(|| {
            all.push(tensor);
            all.len() - 1
        }) as u32
    };
    let own = lowered.iter().map(|l| l.slots.iter().map(&mut number).collect()).collect();
    (all, own)
}

impl Assembly<'_> {
    /// The groups of a stage that become one kernel, in the order in which their blocks begin: those that read no weights are
    /// few and take a while, and of the others what reads most takes longest.
    fn together(&self, g: &mut Graph, s: &Schedule, stage: &[usize], inputs: &BTreeSet<String>) -> Vec<Vec<usize>> {
        let custom = stage.iter().any(|&group| call_of(g, s, group).is_some());
        if custom || !self.target.joins_stages() {
            return stage.iter().map(|&group| vec![group]).collect();
        }
        let mut groups = stage.to_vec();
        groups.sort_by_cached_key(|&group| match read_bytes(g, s, group, inputs) {
            0 => (0, 0),
            bytes => (1, -bytes),
        });
        vec![groups]
    }

    /// The nests of groups that shall become one kernel: of as many as have room for their buffers in one.
    fn lowered(&self, g: &mut Graph, s: &Schedule, groups: &[usize]) -> Vec<(Vec<usize>, Vec<Lowered>)> {
        let mut all: Vec<(Vec<usize>, Vec<Lowered>)> = vec![];
        for &group in groups {
            let cut = self.target.cut(g, s, group);
            let nest = lower(g, s, group, &cut, &self.weights);
            let fits = |others: &[Lowered]| {
                let slots: FxHashSet<Id> = others.iter().chain([&nest]).flat_map(|l| l.slots.clone()).collect();
                slots.len() <= self.target.most_slots()
            };
            match all.last_mut() {
                Some((groups, nests)) if fits(nests) => {
                    groups.push(group);
                    nests.push(nest);
                }
                _ => all.push((vec![group], vec![nest])),
            }
        }
        all
    }

    /// The kernel of some nests: one that is there, or a new one.
    fn generated(
        &mut self,
        g: &mut Graph,
        lowered: &[Lowered],
        options: &Options,
        log: &mut Log,
    ) -> Result<usize, CompileError> {
        let nests: Vec<&Nest> = lowered.iter().map(|l| &l.nest).collect();
        if options.check {
            nests.iter().try_for_each(|nest| check::nest(g, nest))?;
        }
        let threads = self.target.threads(g, &nests);
        let (tensors, slots) = shared_slots(lowered);
        let key = (nests.iter().map(|nest| (*nest).clone()).zip(slots.iter().cloned()).collect(), threads);
        if let Some(&known) = self.known.get(&key).filter(|_| options.allows("share")) {
            log.hits += 1;
            return Ok(known);
        }
        log.misses += 1;
        let mut bodies = vec![];
        for nest in &nests {
            let (body, tuned) = self.target.tile(g, nest, threads);
            log.tuned += usize::from(tuned);
            bodies.push(body);
        }
        let body = if bodies.len() == 1 { bodies.remove(0) } else { Body::beside(g, &bodies, &slots) };
        if options.check {
            check::body(g, &body)?;
        }
        let number = self.bodies.len();
        let vars = &self.program.vars;
        self.program.kernels.push(kernel_of(g, self.target, number, &nests, &body, tensors.len(), vars)?);
        self.bodies.push(body);
        self.nests.push((nests.len() == 1).then(|| nests[0].clone()));
        self.known.insert(key, number);
        Ok(number)
    }

    /// A kernel with its own source.
    fn custom(&mut self, g: &mut Graph, call: Id) -> (usize, Vec<Lowered>) {
        let Op::Call { symbol, source, tasks } = g.op(call).clone() else { unreachable!() };
        let tasks = g.int(tasks);
        let known = self.program.kernels.iter().position(|k| k.symbol == symbol && k.source == source);
        let kernel = known.unwrap_or_else(|| {
            self.program.kernels.push(Kernel::of_source(symbol, source, 0));
            let root = g.make(Op::Block, ir::DType::Index, vec![], vec![]);
            self.bodies.push(Body { root, stashes: vec![], tasks, ways: vec![Way::by("custom")] });
            self.nests.push(None);
            self.bodies.len() - 1
        });
        let mut slots: Vec<Id> = g.src(call).iter().map(|&s| base(g, s)).collect();
        let written = vec![false; slots.len()].into_iter().chain([true]).collect();
        slots.push(call);
        let nest = Nest { phases: vec![], tasks, stashes: vec![], ranges: 0, wanted: None };
        (kernel, vec![Lowered { nest, made: vec![], slots, written }])
    }
}

/// The kernel of this number in a program, with so many buffers.
///
/// # Errors
/// What the language of the target has no words for.
pub(crate) fn kernel_of(
    g: &mut Graph,
    target: &dyn Target,
    number: usize,
    nests: &[&Nest],
    body: &Body,
    slots: usize,
    vars: &[Variable],
) -> Result<Kernel, Unwritable> {
    let symbol = symbol(g, number, nests, body);
    let vars: Vec<String> = vars.iter().map(|v| v.name.clone()).collect();
    let source = target.render(g, &symbol, body, slots, &vars)?;
    Ok(Kernel { symbol, source, geometry: target.geometry(g, body), ir: Some(Arc::new(g.extract(body.root))) })
}

/// The name of a kernel: its number, and the path of the item that takes most of its work, a product if it has one.
fn symbol(g: &mut Graph, number: usize, nests: &[&Nest], body: &Body) -> String {
    let items = nests.iter().flat_map(|nest| &nest.phases).flat_map(|phase| &phase.items);
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

/// Weights and tables among some tensors.
fn weights(g: &Graph, live: &[Id], inputs: &BTreeSet<String>) -> FxHashSet<Id> {
    let is = |id: &Id| matches!(g.op(*id), Op::Param { name } if !inputs.contains(name));
    live.iter().copied().filter(is).collect()
}

fn variables(g: &Graph, live: &[Id]) -> Vec<Variable> {
    let mut all: Vec<Variable> = vec![];
    let mut add = |g: &Graph, id: Id| {
        for n in g.toposort(&[id]) {
            if let Op::Var { name, min, max, .. } = g.op(n).clone()
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
