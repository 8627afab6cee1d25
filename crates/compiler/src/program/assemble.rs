//! From a schedule to a program: each kernel is lowered, tiled and rendered once, and its launches go into stages.

use crate::check;
use crate::error::CompileError;
use crate::kernel::body::{Body, Way};
use crate::log::Log;
use crate::lower::{Item, Lowered, Nest, lower};
use crate::options::Options;
use crate::program::memory::Layout;
use crate::program::report::{origin, params, read_bytes, scope};
use crate::program::{Count, Geometry, Kernel, Launch, Program, Stage, Variable, multiplied, products, reads};
use crate::render::Unwritable;
use crate::schedule::Schedule;
use crate::schedule::limits::wanted;
use crate::schedule::roles::base;
use crate::target::Target;
use crate::tuned::Setting;
use ir::{Axis, CustomSource, Graph, Id, Op, index};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What equal kernels have in common: nests with the slots of their buffers, threads of a block, and a plan of their own.
type Structure = (Vec<(Nest, Vec<u32>)>, i64, Option<Setting>);

/// What the kernels of a program were made of, for those who make one of them again.
pub(crate) struct Sources {
    /// The schedule.
    pub(crate) schedule: Schedule,
    /// Tensors that do not change while a step runs, if the target wants to know.
    pub(crate) weights: FxHashSet<Id>,
    /// Of each kernel.
    pub(crate) kernels: Vec<Source>,
}

/// What a kernel was made of; nothing if it came with its own source.
#[derive(Default)]
pub(crate) struct Source {
    /// Its groups, where it came first.
    pub(crate) groups: Vec<usize>,
    /// Their nests by the plan of the machine.
    pub(crate) lowered: Vec<Lowered>,
}

/// A program in the making.
struct Assembly<'a> {
    target: &'a dyn Target,
    program: Program,
    bodies: Vec<Body>,
    sources: Vec<Source>,
    /// Kernels by what they were made of: nests with the parameters of each, and the threads of a task.
    known: FxHashMap<Structure, usize>,
    /// Whether nests become one kernel, of those for which that was asked: equal layers have equal ones.
    beside: FxHashMap<Vec<Nest>, bool>,
    /// Tensors that do not change while a step runs, if the target wants to know.
    weights: FxHashSet<Id>,
    /// By the counts of prefixes, the index by which readers gather most ([`wanted`]).
    wanted: FxHashMap<Id, Id>,
}

/// A program, its kernels as IR, and what they were made of.
pub(crate) type Assembled = (Program, Vec<Body>, Sources);

/// Assembles the program of a schedule.
pub(crate) fn assemble(
    g: &mut Graph,
    schedule: Schedule,
    name: &str,
    mut buffers: Layout,
    options: &Options,
    log: &mut Log,
) -> Result<Assembled, CompileError> {
    let (s, target) = (&schedule, options.target());
    let vars = variables(g, &s.roles.live);
    let program = Program { name: name.into(), prelude: target.prelude().into(), vars, ..Program::default() };
    let weights = if target.loads_early() { weights(g, &s.roles.live, buffers.inputs()) } else { Default::default() };
    let (bodies, sources, known, beside) = Default::default();
    let wanted = wanted(g, s);
    let mut a = Assembly { target, program, bodies, sources, known, beside, weights, wanted };
    let mut stages = vec![];
    for stage in s.in_order().chunk_by(|a, b| s.groups[*a].level == s.groups[*b].level) {
        let mut made = vec![];
        for groups in a.together(g, s, stage, buffers.inputs()) {
            if let Some(call) = call_of(g, s, groups[0]) {
                let (kernel, lowered) = a.custom(g, call)?;
                made.push(Made { kernel, groups, lowered });
                continue;
            }
            for (groups, lowered) in a.lowered(g, s, &groups) {
                made.push(a.generated(g, s, groups, lowered, options, log)?);
            }
        }
        stages.push(made);
    }
    for made in stages {
        let launches = made.iter().map(|made| launch(g, s, &a, made, &mut buffers, log)).collect();
        a.program.stages.push(Stage { launches });
    }
    let Assembly { mut program, bodies, sources, weights, .. } = a;
    (program.buffers, program.arena_bytes) = buffers.finish();
    Ok((program, bodies, Sources { schedule, weights, kernels: sources }))
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
        if launch.scope.is_empty() {
            launch.scope = scope(g, s, group);
        }
        origins.push(origin(g, s, group));
        bytes += read_bytes(g, s, group, buffers.inputs());
        launch.row_bytes += reads::row_bytes(g, s, &params(g, s, group).1);
        launch.multiplied += multiplied::of(g, s, group, &a.wanted, &a.program.vars);
    }
    launch.tasks = tasks(g, lowered, &a.program.vars);
    origins.retain(|origin| !origin.is_empty());
    (launch.origin, launch.bytes) = (origins.join(" "), Count::Const(bytes));
    launch
}

/// The tasks of a kernel for all of these.
pub(crate) fn tasks(g: &Graph, lowered: &[Lowered], vars: &[Variable]) -> Count {
    let each = lowered.iter().map(|l| count(g, l.nest.tasks, vars));
    each.reduce(|all, tasks| all + tasks).unwrap_or_default()
}

/// The tensors that the parameters of one kernel for all of these stand for, and the number of each of their own.
pub(crate) fn shared_slots(lowered: &[Lowered]) -> (Vec<Id>, Vec<Vec<u32>>) {
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
    fn lowered(&mut self, g: &mut Graph, s: &Schedule, groups: &[usize]) -> Vec<(Vec<usize>, Vec<Lowered>)> {
        let mut all: Vec<(Vec<usize>, Vec<Lowered>)> = vec![];
        for &group in groups {
            let nest = lowered_by(g, s, group, self.target, &self.weights);
            let mut fits = |others: &[Lowered]| {
                let all: Vec<Nest> = others.iter().chain([&nest]).map(|lowered| lowered.nest.clone()).collect();
                let known = self.beside.entry(all);
                if !*known.or_insert_with_key(|all| self.target.fit_beside(g, all)) {
                    return false;
                }
                let slots: FxHashSet<Id> = others.iter().chain([&nest]).flat_map(|l| l.slots.clone()).collect();
                slots.len() <= self.target.most_slots()
            };
            match all.iter_mut().find(|(_, nests)| fits(nests)) {
                Some((groups, nests)) => {
                    groups.push(group);
                    nests.push(nest);
                }
                None => all.push((vec![group], vec![nest])),
            }
        }
        all
    }

    /// The kernel of some groups with these nests: one that is there, or a new one. One that a search has found a plan for is
    /// cut and tiled by that.
    fn generated(
        &mut self,
        g: &mut Graph,
        s: &Schedule,
        groups: Vec<usize>,
        usual: Vec<Lowered>,
        options: &Options,
        log: &mut Log,
    ) -> Result<Made, CompileError> {
        let nests = nests(&usual);
        if options.check {
            nests.iter().try_for_each(|nest| check::nest(g, nest))?;
        }
        let setting = options.tuned.setting(g, &nests, &options.machine);
        let machine = setting.map(|setting| setting.on(&options.machine));
        let target = machine.as_ref().map_or(self.target, |machine| machine.target());
        let by = |&group: &usize| lowered_by(g, s, group, target, &self.weights);
        let own: Option<Vec<Lowered>> = setting.map(|_| groups.iter().map(by).collect());
        let lowered = own.as_ref().unwrap_or(&usual);
        let threads = target.threads(g, &self::nests(lowered));
        let slots = shared_slots(lowered).1;
        let key = (lowered.iter().map(|l| l.nest.clone()).zip(slots).collect(), threads, setting);
        if let Some(&kernel) = self.known.get(&key).filter(|_| options.allows("share")) {
            log.hits += 1;
            return Ok(Made { kernel, groups, lowered: own.unwrap_or(usual) });
        }
        log.misses += 1;
        log.tuned += usize::from(setting.is_some());
        let kernel = self.bodies.len();
        let (made, body) = kernel_of(g, target, kernel, lowered, threads, &self.program.vars)?;
        if options.check {
            check::body(g, &body)?;
        }
        self.program.kernels.push(made);
        self.bodies.push(body);
        self.sources.push(Source { groups: groups.clone(), lowered: usual.clone() });
        self.known.insert(key, kernel);
        Ok(Made { kernel, groups, lowered: own.unwrap_or(usual) })
    }

    /// A kernel with its own source.
    ///
    /// # Errors
    /// [`CompileError::Call`] without one in the language of the target.
    fn custom(&mut self, g: &mut Graph, call: Id) -> Result<(usize, Vec<Lowered>), CompileError> {
        let Op::Call { symbol, sources, tasks } = g.op(call).clone() else { unreachable!() };
        let language = self.target.language();
        let Some(CustomSource { text: source, threads, .. }) = sources.iter().find(|s| s.language == language).cloned()
        else {
            return Err(CompileError::Call { symbol, language, has: sources.iter().map(|s| s.language).collect() });
        };
        let tasks = g.int(tasks);
        let known = self.program.kernels.iter().position(|k| k.symbol == symbol && k.source == source);
        let kernel = known.unwrap_or_else(|| {
            let kernel = Kernel::of_source(symbol, source, 0);
            self.program.kernels.push(Kernel { geometry: Geometry { threads, ..kernel.geometry }, ..kernel });
            let root = g.make(Op::Block, ir::DType::Index, vec![], vec![]);
            self.bodies.push(Body { root, stashes: vec![], tasks, ways: vec![Way::by("custom")] });
            self.sources.push(Source::default());
            self.bodies.len() - 1
        });
        let mut slots: Vec<Id> = g.src(call).iter().map(|&s| base(g, s)).collect();
        let written = vec![false; slots.len()].into_iter().chain([true]).collect();
        slots.push(call);
        let nest = Nest { phases: vec![], tasks, stashes: vec![], ranges: 0, wanted: None };
        Ok((kernel, vec![Lowered { nest, made: vec![], slots, written }]))
    }
}

/// A group as the loops of a kernel, cut as the target has it.
pub(crate) fn lowered_by(
    g: &mut Graph,
    s: &Schedule,
    group: usize,
    target: &dyn Target,
    weights: &FxHashSet<Id>,
) -> Lowered {
    let cut = target.cut(g, s, group);
    lower(g, s, group, &cut, weights)
}

pub(crate) fn nests(lowered: &[Lowered]) -> Vec<&Nest> {
    lowered.iter().map(|l| &l.nest).collect()
}

/// The kernel of this number in a program: all of these nests, with so many threads.
///
/// # Errors
/// What the language of the target has no words for.
pub(crate) fn kernel_of(
    g: &mut Graph,
    target: &dyn Target,
    number: usize,
    lowered: &[Lowered],
    threads: i64,
    vars: &[Variable],
) -> Result<(Kernel, Body), Unwritable> {
    let nests = nests(lowered);
    let (tensors, slots) = shared_slots(lowered);
    let mut bodies: Vec<Body> = nests.iter().map(|nest| target.tile(g, nest, threads)).collect();
    let body = if bodies.len() == 1 { bodies.remove(0) } else { Body::beside(g, &bodies, &slots) };
    let symbol = symbol(g, number, &nests, &body);
    let vars: Vec<String> = vars.iter().map(|v| v.name.clone()).collect();
    let source = target.render(g, &symbol, &body, tensors.len(), &vars)?;
    let (geometry, ir) = (target.geometry(g, &body), Some(Arc::new(g.extract(body.root))));
    Ok((Kernel { symbol, source, geometry, ir }, body))
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
    Count::of(g, id, vars).unwrap_or_else(|| panic!("{:?} in a task count", g.op(id)))
}
