//! The passes, in order, from tensors to a program.

use crate::check;
use crate::choice;
use crate::gpu;
use crate::lower::{self, Cut, Item, Lowered, Nest, lower};
use crate::memory;
use crate::products::{self, Product};
use crate::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage, Variable};
use crate::reads;
use crate::render_c;
use crate::render_cuda;
use crate::rules;
use crate::schedule::{Prices, Schedule, schedule};
use crate::tensor::{Builder, Tensor};
use crate::tile::{Body, Plan, tile};
use crate::tuned::Tuned;
use ir::rewrite::{Rule, rewrite};
use ir::{Axis, BinOp, Graph, Id, Op, PRODUCT, index};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// How numbers are represented while a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// f32 activations and sums.
    Exact,
    /// Weights in block formats read 8-bit integer codes of their input.
    Int8,
}

/// Bytes ahead that weights are asked for: what a core reads, at some 20 GB/s, while a busy memory answers once.
const AHEAD: i64 = 9216;

/// The same from the second cache to the first; half of it is as good (bench/JOURNAL.md).
const AHEAD_NEAR: i64 = 2304;

/// What a compilation may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The numerics policy.
    pub numerics: Numerics,
    /// Widths and unrolling.
    pub plan: Plan,
    /// Kernels of a CPU that have a plan of their own.
    pub tuned: Arc<Tuned>,
    /// Blocks of threads, if the target is a GPU; `plan` is for a CPU.
    pub gpu: Option<gpu::Plan>,
    /// Scheduling limits.
    pub prices: Prices,
    /// Names of what is skipped, see [`crate::switches()`].
    pub without: Vec<String>,
    /// How the tasks of a kernel for a CPU are cut.
    pub cuts: Cuts,
    /// Whether every pass is followed by a check of its grammar; the default in debug builds.
    pub check: bool,
}

/// Who decides how many steps of each axis a task takes, and how loops lie in each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// The compiler: by size, and as axes and dimensions follow.
    Sized,
    /// Chance, from a seed: any legal cut and order, for tests.
    Random(u64),
}

impl Options {
    /// The defaults for a CPU with vectors of this many bytes.
    pub fn cpu(numerics: Numerics, vector_bytes: usize) -> Options {
        let plan = Plan {
            vector_bytes,
            rows: 4,
            streams: 1,
            chains: 4,
            prefetch: AHEAD,
            near: AHEAD_NEAR,
            tokens: 8,
            product: false,
            dots: true,
            pairs: false,
            hadd: true,
            fours: true,
            blends: true,
            halves: true,
            few: 9,
            panels: true,
            exchange: true,
        };
        Options {
            numerics,
            plan,
            tuned: Arc::default(),
            gpu: None,
            prices: Prices::cpu(),
            without: vec![],
            cuts: Cuts::Sized,
            check: cfg!(debug_assertions),
        }
    }

    /// The defaults for a GPU.
    pub fn gpu(numerics: Numerics) -> Options {
        Options { gpu: Some(gpu::Plan::default()), prices: Prices::gpu(), ..Options::cpu(numerics, 0) }
    }

    /// These options for steps of many tokens: with a matrix unit, rows of block formats are multiplied with tokens
    /// in bf16, which needs no codes of the input.
    pub fn for_many_tokens(&self) -> Options {
        let mut options = self.clone();
        options.plan.product &= self.numerics == Numerics::Int8 && self.allows("product");
        if options.plan.product {
            options.numerics = Numerics::Exact;
        }
        options
    }

    /// These options for steps in which each token has the same bits whatever is beside it: nothing is computed in
    /// another way for few tokens than for many, nor by plans that were measured for a number of tokens.
    pub fn batch_invariant(&self) -> Options {
        let mut options = self.clone();
        options.tuned = Arc::default();
        options.plan.product = false;
        options.plan.few = 0;
        options
    }

    /// These options for steps of few tokens, which do without the matrix unit.
    pub fn for_few_tokens(&self) -> Options {
        let mut options = self.clone();
        options.plan.product = false;
        options
    }
}

/// What cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A state that is overwritten too early.
    #[error(transparent)]
    State(#[from] crate::schedule::StateOrder),
    /// A rewrite did not settle.
    #[error("pass {pass}: {why}")]
    Budget {
        /// The pass.
        pass: &'static str,
        /// The reason.
        why: String,
    },
    /// A pass left something that is not well formed.
    #[error("pass {pass} broke a rule: {why}; this is a bug of the compiler")]
    Check {
        /// The pass.
        pass: &'static str,
        /// The rule, and the node that breaks it.
        why: String,
    },
}

/// A program with everything that reports need.
pub struct Compiled {
    /// What a device runs.
    pub program: Program,
    /// The arena that the bodies live in.
    pub graph: Graph,
    /// The kernels of the program, as IR.
    pub bodies: Vec<Body>,
    /// The kernels before tiling; nothing for those that came with their own source.
    pub nests: Vec<Option<Nest>>,
    /// The plan of kernels that have none of their own.
    pub plan: Plan,
    /// What was decided and why.
    pub log: Log,
}

/// Decisions of a compilation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Log {
    /// Rewrites by rule.
    pub rules: Vec<(Cow<'static, str>, usize)>,
    /// Which alternatives were taken, and the prices of all.
    pub choices: Vec<String>,
    /// Why values were not fused.
    pub fusion: Vec<String>,
    /// The matrix products, in the order in which they run, and the paths that they took.
    pub products: Vec<Product>,
    /// Launches whose kernel was compiled before.
    pub hits: usize,
    /// Kernels that were compiled.
    pub misses: usize,
    /// Kernels that have a plan of their own.
    pub tuned: usize,
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, n) in &self.rules {
            writeln!(f, "rule {name}: {n}")?;
        }
        for note in self.choices.iter().chain(&self.fusion) {
            writeln!(f, "{note}")?;
        }
        for product in &self.products {
            writeln!(f, "{product}")?;
        }
        write!(f, "schedule cache: {} hits, {} misses; {} kernels tuned", self.hits, self.misses, self.tuned)
    }
}

/// Tensors whose rows a GPU has in planes, by name.
pub(crate) type Repacked = BTreeMap<String, Arc<gguf::format::Planes>>;

/// One pass of rewriting.
pub(crate) struct Pass {
    pub(crate) name: &'static str,
    pub(crate) rules: &'static [Rule],
}

/// Rules that offer alternatives, among which [`choice`] then decides.
pub(crate) static OFFERS: Pass = Pass { name: "offers", rules: &[rules::SCAN] };

/// Rewriting passes on tensors without choices, in order. The third is for `int8` only, the last for GPUs.
pub(crate) static PASSES: &[Pass] = &[
    Pass { name: "expand", rules: &[rules::NEUTRAL, rules::TOPK] },
    Pass { name: "algebra", rules: &[rules::FACTOR, rules::SPLIT_SUM] },
    Pass { name: "int8", rules: &[rules::INT8, rules::CODES] },
    Pass { name: "planes", rules: &[gpu::PLANES] },
];

/// Rules without which some programs cannot be lowered at all.
pub(crate) const NEEDED: [&str; 1] = [rules::TOPK.name];

/// Compiles a step. `outputs` are read by the host, by name; `effects` are new
/// versions of states.
pub fn compile(
    builder: &Builder,
    name: &str,
    outputs: &[(&str, &Tensor)],
    effects: &[&Tensor],
    options: &Options,
) -> Result<Compiled, CompileError> {
    let options = &options.switched();
    let mut graph = builder.0.borrow().clone();
    let g = &mut graph;
    let mut log = Log::default();
    let roots: Vec<Id> = outputs.iter().map(|o| o.1.id()).chain(effects.iter().map(|t| t.id())).collect();
    let roots = applied(g, &OFFERS, roots, options, &mut log)?;
    let roots = choice::resolve(g, &roots, options, &mut log);
    let (mut roots, repacked) = rewritten(g, roots, options, &mut log)?;
    // The host reads an output in its own layout, so a view of something else
    // is copied.
    let mut named: Vec<Id> = vec![];
    for r in roots.iter_mut().take(outputs.len()) {
        while named.contains(r) {
            let (ty, shape) = (g.ty(*r), g.shape(*r).to_vec());
            *r = g.make(Op::Fence, ty, shape, vec![*r]);
        }
        let under = crate::classify::base(g, *r);
        if under != *r || matches!(g.op(under), Op::Param { .. } | Op::State { .. } | Op::Scatter) {
            let (ty, shape) = (g.ty(*r), g.shape(*r).to_vec());
            *r = g.make(Op::Fence, ty, shape, vec![*r]);
        }
        named.push(*r);
    }
    let s = schedule(g, &roots, &options.prices)?;
    if options.check {
        check::tensors(g, "outputs", &roots)?;
        check::schedule(g, &s)?;
    }
    log.fusion = s.notes.clone();
    let out_names: Vec<(String, Id)> = outputs.iter().zip(&roots).map(|(o, r)| (o.0.to_string(), *r)).collect();
    let layout = memory::Layout::new(g, &s, &out_names, builder, repacked);
    let (program, (bodies, nests)) = assemble(g, &s, name, layout, options, &mut log)?;
    Ok(Compiled { program, graph, bodies, nests, plan: options.plan.clone(), log })
}

/// The roots after all [`PASSES`], and the tensors that a GPU has in planes.
pub(crate) fn rewritten(
    g: &mut Graph,
    mut roots: Vec<Id>,
    options: &Options,
    log: &mut Log,
) -> Result<(Vec<Id>, Repacked), CompileError> {
    let mut repacked = Repacked::default();
    for pass in PASSES {
        let skipped = match pass.name {
            "int8" => options.numerics == Numerics::Exact,
            "planes" => options.gpu.is_none(),
            _ => false,
        };
        if skipped {
            continue;
        }
        if pass.name == "planes" && options.allows(pass.name) {
            repacked = gpu::repacked(g, &roots);
        }
        roots = applied(g, pass, roots, options, log)?;
    }
    Ok((roots, repacked))
}

/// The roots after one pass.
fn applied(
    g: &mut Graph,
    pass: &Pass,
    roots: Vec<Id>,
    options: &Options,
    log: &mut Log,
) -> Result<Vec<Id>, CompileError> {
    let active: Vec<Rule> = pass
        .rules
        .iter()
        .filter(|r| options.allows(r.name))
        .map(|r| Rule { name: r.name, kind: r.kind, apply: r.apply })
        .collect();
    let (new, trace) = rewrite(g, &roots, &active, 1 << 20);
    if let Some(why) = trace.stopped {
        return Err(CompileError::Budget { pass: pass.name, why });
    }
    log.rules.extend(trace.fired.into_iter().map(|(rule, n)| (rule.into(), n)));
    if options.check {
        check::tensors(g, pass.name, &new)?;
    }
    Ok(new)
}

/// Kernels after tiling, and before.
type Tiled = (Vec<Body>, Vec<Option<Nest>>);

/// Lowers, tiles and renders each kernel once, and lays out memory.
fn assemble(
    g: &mut Graph,
    s: &Schedule,
    name: &str,
    mut buffers: memory::Layout,
    options: &Options,
    log: &mut Log,
) -> Result<(Program, Tiled), CompileError> {
    let vars = variables(g, &s.roles.live);
    let var_names: Vec<String> = vars.iter().map(|v| v.name.clone()).collect();
    let prelude = if options.gpu.is_some() { render_cuda::PRELUDE } else { render_c::PRELUDE };
    let mut program = Program { name: name.into(), prelude: prelude.into(), vars, ..Program::default() };
    let mut order: Vec<usize> = (0..s.groups.len())
        .filter(|&i| !s.groups[i].dead && s.groups[i].members.iter().any(|m| s.stored.contains(m)))
        .collect();
    order.sort_by_key(|&i| (s.groups[i].level, i));
    let mut kernels: FxHashMap<Nest, usize> = FxHashMap::default();
    let mut bodies: Vec<Body> = vec![];
    let mut nests: Vec<Option<Nest>> = vec![];
    let mut launches: Vec<(usize, usize, Lowered)> = vec![];
    for &i in &order {
        if let Some(call) = s.groups[i].members.iter().find(|m| matches!(g.op(**m), Op::Call { .. })) {
            let (k, lowered) = custom(g, *call, &mut program, &mut bodies);
            nests.resize(bodies.len(), None);
            launches.push((i, k, lowered));
            continue;
        }
        let cut = match (&options.gpu, options.cuts) {
            (Some(plan), _) => gpu::cut(g, s, i, plan),
            (None, Cuts::Sized) => choose_cut(g, s, i, &options.plan),
            (None, Cuts::Random(seed)) => random_cut(g, s, i, seed),
        };
        let lowered = lower(g, s, i, &cut);
        if options.check {
            check::nest(g, &lowered.nest)?;
        }
        let k = match kernels.get(&lowered.nest).filter(|_| options.allows("share")) {
            Some(&k) => {
                log.hits += 1;
                k
            }
            None => {
                log.misses += 1;
                let body = match &options.gpu {
                    Some(plan) => gpu::tile(g, &lowered.nest, plan),
                    None => {
                        let own = options.tuned.plan(g, &lowered.nest, &options.plan);
                        log.tuned += usize::from(own.is_some());
                        tile(g, &lowered.nest, own.as_ref().unwrap_or(&options.plan))
                    }
                };
                if options.check {
                    check::body(g, &body)?;
                }
                let number = bodies.len();
                program.kernels.push(match &options.gpu {
                    Some(_) => {
                        let symbol = symbol(g, number, &lowered.nest, &body);
                        let source = render_cuda::kernel(g, &symbol, &body, lowered.slots.len(), &var_names);
                        let scratch_bytes = render_c::scratch_bytes(g, &body);
                        Kernel { symbol, source, scratch_bytes, ir: Some(Arc::new(g.extract(body.root))) }
                    }
                    None => kernel_of(g, number, &lowered.nest, &body, &var_names),
                });
                bodies.push(body);
                nests.push(Some(lowered.nest.clone()));
                kernels.insert(lowered.nest.clone(), bodies.len() - 1);
                bodies.len() - 1
            }
        };
        launches.push((i, k, lowered));
    }
    let mut stages: Vec<Stage> = vec![];
    let mut level = usize::MAX;
    for (i, k, lowered) in launches {
        if s.groups[i].level != level {
            level = s.groups[i].level;
            stages.push(Stage::default());
        }
        log.products.extend(products::of(g, s, &lowered.made, k, &bodies[k].ways, buffers.inputs()));
        let args = lowered.slots.iter().map(|&t| buffers.buffer(g, t)).collect();
        let tasks = count(g, lowered.nest.tasks, &program.vars);
        let launch = Launch {
            kernel: k,
            args,
            tasks,
            scope: scope(g, s, i),
            origin: origin(g, s, i),
            bytes: Count::Const(read_bytes(g, s, i, buffers.inputs())),
            row_bytes: reads::row_bytes(g, s, &params(g, s, i).1),
        };
        stages.last_mut().unwrap().launches.push(launch);
    }
    program.stages = stages;
    (program.buffers, program.arena_bytes) = buffers.finish();
    Ok((program, (bodies, nests)))
}

/// The kernel of this number in a program for a CPU.
pub(crate) fn kernel_of(g: &mut Graph, number: usize, nest: &Nest, body: &Body, vars: &[String]) -> Kernel {
    let symbol = symbol(g, number, nest, body);
    let source = render_c::kernel(g, &symbol, body, vars);
    let scratch_bytes = render_c::scratch_bytes(g, body);
    Kernel { symbol, source, scratch_bytes, ir: Some(Arc::new(g.extract(body.root))) }
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

/// A kernel with its own source.
fn custom(g: &mut Graph, call: Id, program: &mut Program, bodies: &mut Vec<Body>) -> (usize, Lowered) {
    let Op::Call { symbol, source, tasks } = g.op(call).clone() else { unreachable!() };
    let tasks = g.int(tasks);
    let known = program.kernels.iter().position(|k| k.symbol == symbol && k.source == source);
    let k = known.unwrap_or_else(|| {
        program.kernels.push(Kernel::of_source(symbol, source, 0));
        let root = g.make(Op::Block, ir::DType::Index, vec![], vec![]);
        bodies.push(Body { root, stashes: vec![], tasks, paths: vec!["custom"], ways: vec![] });
        bodies.len() - 1
    });
    let mut slots: Vec<Id> = g.src(call).iter().map(|&s| crate::classify::base(g, s)).collect();
    let written = vec![false; slots.len()].into_iter().chain([true]).collect();
    slots.push(call);
    let nest = Nest { phases: vec![], tasks, stashes: vec![], ranges: 0 };
    (k, Lowered { nest, made: vec![], slots, written })
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

/// Shares of a task where many tokens are computed.
struct Shares {
    /// Tokens at most: enough to pay for unpacking its rows, few enough for its values to stay in a cache beside them.
    tokens: i64,
    /// Its rows are a multiple of this.
    rows: i64,
    /// Its rows at most.
    most: i64,
    /// Tasks at least, as far as there are rows.
    tasks: i64,
}

impl Shares {
    fn of(plan: &Plan) -> Shares {
        match plan.product {
            true => Shares { tokens: 256, rows: PRODUCT as i64, most: 256, tasks: 8 },
            false => Shares { tokens: 128, rows: 16, most: 128, tasks: 16 },
        }
    }
}

/// How many steps of each axis a task takes: enough tasks to share out, each
/// large enough to pay for starting.
fn choose_cut(g: &mut Graph, s: &Schedule, group: usize, plan: &Plan) -> Cut {
    let share = Shares::of(plan);
    let gr = &s.groups[group];
    let fold = gr.axes.iter().any(|a| a.serial);
    let units: Vec<i64> = (0..gr.axes.len()).map(|a| widest_unit(s, group, a)).collect();
    let mut steps = vec![1; gr.axes.len()];
    // Each step of what counts the steps of another axis has a task of its own.
    let limits = lower::limits(g, s, group);
    let counted: Vec<usize> = limits
        .values()
        .flat_map(|l| l.lead.clone())
        .filter_map(|a| if let crate::axes::Along::Axis { axis, .. } = a { Some(axis) } else { None })
        .collect();
    let limited: Vec<usize> = limits.values().map(|l| l.axis).collect();
    let many = !limited.is_empty() || gr.axes.iter().any(|a| g.as_int(a.count).is_none());
    // Tokens, of which there may be few or many.
    let tokens = |g: &Graph, i: usize| g.as_int(gr.axes[i].count).is_none() || limited.contains(&i);
    let fixed: Vec<usize> = (0..gr.axes.len())
        .filter(|&i| !gr.axes[i].serial && !gr.axes[i].inner && !tokens(g, i) && !counted.contains(&i))
        .collect();
    // Rows of a block format, for the matrix unit.
    let coded = plan.product && params(g, s, group).0.iter().any(|&p| g.dtype(p) == ir::DType::U8);
    let columns = if many || fold { None } else { columns(g, s, group) };
    let mut total: i64 = fixed.iter().filter_map(|&i| g.as_int(gr.axes[i].count)).product();
    for i in (0..gr.axes.len()).rev() {
        let a = &gr.axes[i];
        if a.serial || a.inner || counted.contains(&i) || before_fold(g, s, group, i) {
            continue;
        }
        if tokens(g, i) {
            if gr.heavy && !fold {
                steps[i] = index::bounds(g, a.count).1.min(share.tokens);
            }
            continue;
        }
        let Some(n) = g.as_int(a.count) else { continue };
        let (least, most) = match (gr.heavy, many) {
            (true, true) => (share.tasks, share.most),
            (true, false) => (64, 256),
            _ => (4, 1024),
        };
        let fits: Vec<i64> =
            (1..=n).rev().filter(|d| n % d == 0 && total / d >= least && d * units[i] <= most).collect();
        // Rows that fill vectors are multiplied with many tokens at once, and columns that do are summed side by side.
        let in_vectors = gr.heavy && many || columns == Some(i);
        let full = |d: &i64| in_vectors && d * units[i] % share.rows == 0;
        let full = fits.iter().copied().find(full).or_else(|| {
            // Fewer tasks than wanted cost less than products without the matrix unit, or without vectors.
            let needed = coded || columns == Some(i);
            (1..=n).filter(|d| needed && n % d == 0 && d * units[i] <= most).find(full)
        });
        steps[i] = full.or(fits.first().copied()).unwrap_or(1);
        total /= steps[i];
    }
    Cut { steps, order: None }
}

/// The axis of the columns of a sum whose blocks of weights lie across it: of no use to vectors but by their columns.
fn columns(g: &mut Graph, s: &Schedule, group: usize) -> Option<usize> {
    let heavy: Vec<Id> = s.groups[group].members.iter().copied().filter(|m| s.roles.heavy.contains(m)).collect();
    let sum = heavy.into_iter().find(|&m| products::goes_across(g, m))?;
    match s.maps[&(group, sum)].last() {
        Some(&crate::axes::Along::Axis { axis, .. }) => Some(axis),
        _ => None,
    }
}

/// Any cut that [`lower`] takes: from one step to all of an axis, a divisor of it or not, and loops in any order.
fn random_cut(g: &mut Graph, s: &Schedule, group: usize, seed: u64) -> Cut {
    let axes = &s.groups[group].axes;
    let mut steps = vec![1; axes.len()];
    for (i, a) in axes.iter().enumerate() {
        if !a.serial && !a.inner && !before_fold(g, s, group, i) {
            let most = index::bounds(g, a.count).1.max(1) as u64;
            steps[i] = (1 + lower::chance(seed, (group, i)) % most) as i64;
        }
    }
    Cut { steps, order: Some(seed) }
}

/// Whether a fold counts its steps anew for each step of this axis.
pub(crate) fn before_fold(g: &Graph, s: &Schedule, group: usize, axis: usize) -> bool {
    s.groups[group].members.iter().any(|&m| match *g.op(m) {
        Op::Fold { axis: folded, .. } => s.maps[&(group, m)][..folded]
            .iter()
            .any(|a| matches!(a, crate::axes::Along::Axis { axis: x, .. } if *x == axis)),
        _ => false,
    })
}

pub(crate) fn widest_unit(s: &Schedule, group: usize, axis: usize) -> i64 {
    s.groups[group]
        .members
        .iter()
        .filter_map(|&m| s.maps.get(&(group, m)))
        .flatten()
        .filter_map(|a| match a {
            crate::axes::Along::Axis { axis: x, unit } if *x == axis => Some(*unit),
            _ => None,
        })
        .max()
        .unwrap_or(1)
}

/// The part of the program that a kernel belongs to: that of the reduction over weights that it was made for, or else
/// of what it computes first.
fn scope(g: &Graph, s: &Schedule, group: usize) -> String {
    // Bodies of folds are shared by all folds of their shape.
    let mut members = s.groups[group].members.iter().filter(|m| !s.roles.merge.contains(m));
    let heavy = members.clone().find(|m| s.roles.heavy.contains(m));
    let first = heavy.or(members.next());
    first.map_or("", |&m| g.scope_name(g.scope(m))).to_string()
}

/// A name for reports: the tensors that a kernel reads.
fn origin(g: &Graph, s: &Schedule, group: usize) -> String {
    let mut names: Vec<String> = vec![];
    for p in params(g, s, group).0 {
        let (Op::Param { name } | Op::State { name }) = g.op(p) else { continue };
        let short = name.strip_suffix(".weight").unwrap_or(name).to_string();
        if !names.contains(&short) {
            names.push(short);
        }
    }
    names.join(" ")
}

/// The tensors that a group reads, and the nodes between them and its members.
fn params(g: &Graph, s: &Schedule, group: usize) -> (Vec<Id>, FxHashSet<Id>) {
    let mut out = vec![];
    let mut seen = FxHashSet::default();
    let mut stack: Vec<Id> = s.groups[group].members.iter().flat_map(|&m| g.src(m).to_vec()).collect();
    while let Some(id) = stack.pop() {
        if s.home.contains_key(&id) || !seen.insert(id) {
            continue;
        }
        if matches!(g.op(id), Op::Param { .. } | Op::State { .. }) {
            out.push(id);
        }
        stack.extend_from_slice(g.src(id));
    }
    out.sort_unstable();
    seen.extend(&s.groups[group].members);
    (out, seen)
}

/// Bytes of weights that one step reads in this kernel: all of a matrix, or
/// the selected rows of a stack.
fn read_bytes(g: &mut Graph, s: &Schedule, group: usize, inputs: &BTreeSet<String>) -> i64 {
    let mut total = 0;
    let (params, within) = params(g, s, group);
    for p in params {
        if !matches!(g.op(p), Op::Param { name } if !inputs.contains(name)) {
            continue;
        }
        let shape = g.shape(p).to_vec();
        let elems: i64 = shape.iter().map(|&d| index::bounds(g, d).1).product();
        let all = elems * g.dtype(p).bytes() as i64;
        let users = |id: Id| s.roles.users.get(&id).into_iter().flatten().copied().filter(|u| within.contains(u));
        let mut readers = users(p).chain(users(p).flat_map(users));
        let picked = readers.find_map(|u| {
            if *g.op(u) != Op::Gather {
                return None;
            }
            let n: i64 = g.shape(g.src(u)[1]).iter().map(|&d| g.as_int(d).unwrap_or(1)).product();
            let rows = g.as_int(g.shape(g.src(u)[0])[0])?;
            Some(all / rows * n.min(rows))
        });
        total += picked.unwrap_or(all);
    }
    total
}

impl Compiled {
    /// Buffers of a kind, for tests.
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.program.buffers.iter().find(|b| match &b.kind {
            BufferKind::Input(n) | BufferKind::Output(n) | BufferKind::State(n) | BufferKind::Weight(n) => n == name,
            _ => false,
        })
    }
}
