//! The compiler on one page: every step from tensors to a program, in order.

use crate::check;
use crate::error::CompileError;
use crate::kernel::body::Body;
use crate::log::Log;
use crate::lower::Nest;
use crate::options::{Machine, Options};
use crate::program::assemble::{Sources, assemble};
use crate::program::memory::Layout;
use crate::program::{Buffer, BufferKind, Program};
use crate::rewrite::choice;
use crate::rewrite::passes::{LAYOUT, OFFERS, applied, rewritten};
use crate::rewrite::rules::planes;
use crate::schedule::roles::base;
use crate::schedule::schedule;
use crate::tensor::{Builder, Tensor};
use ir::{Graph, Id, Op};

/// A program with everything that reports need.
pub struct Compiled {
    /// What a device runs.
    pub program: Program,
    /// The arena that the bodies live in.
    pub graph: Graph,
    /// The kernels of the program, as IR.
    pub bodies: Vec<Body>,
    /// What the kernels were made of.
    pub(crate) sources: Sources,
    /// What the kernels are for.
    pub machine: Machine,
    /// What was decided and why.
    pub log: Log,
}

/// Compiles a step. `outputs` are read by the host, by name; `effects` are new versions of states.
///
/// # Errors
/// A state that is overwritten too early; passes that do not settle or break a rule are bugs, and say so.
pub fn compile(
    builder: &Builder,
    name: &str,
    outputs: &[(&str, &Tensor)],
    effects: &[&Tensor],
    options: &Options,
) -> Result<Compiled, CompileError> {
    let options = &options.switched();
    let mut graph = builder.0.borrow().clone();
    let (g, log) = (&mut graph, &mut Log::default());
    let roots: Vec<Id> = outputs.iter().map(|o| o.1.id()).chain(effects.iter().map(|t| t.id())).collect();

    // Tensors to tensors: rules offer alternatives, one of each is taken by its price, and rules rewrite what is left.
    let roots = applied(g, &OFFERS, roots, options, log)?;
    let roots = choice::resolve(g, &roots, options, log);
    let roots = rewritten(g, roots, options, log)?;
    let planes = if LAYOUT.is_whole(options) { planes::repacked(g, &roots) } else { Default::default() };
    let roots = applied(g, &LAYOUT, roots, options, log)?;
    let roots = outputs_apart(g, roots, outputs.len());

    // Tensors to groups: what is computed together, in which stage, and where its results lie in memory.
    let schedule = schedule(g, &roots, &options.prices)?;
    if options.check {
        check::tensors(g, "outputs", &roots)?;
        check::schedule(g, &schedule)?;
    }
    log.fusion = schedule.notes.clone();
    let named: Vec<(String, Id)> = outputs.iter().zip(&roots).map(|(o, r)| (o.0.to_string(), *r)).collect();
    let layout = Layout::new(g, &schedule, &named, builder, planes, options.target().alignment());

    // Groups to kernels: each is cut into tasks, lowered to loops, tiled, and written down, once for all that are equal.
    let (program, bodies, sources) = assemble(g, schedule, name, layout, options, log)?;
    let log = std::mem::take(log);
    Ok(Compiled { program, graph, bodies, sources, machine: options.machine.clone(), log })
}

/// The roots, with a copy of each output that is a view of something else, or the same as another: the host reads an
/// output in a layout of its own.
fn outputs_apart(g: &mut Graph, mut roots: Vec<Id>, outputs: usize) -> Vec<Id> {
    let copy = |g: &mut Graph, r: Id| {
        let (ty, shape) = (g.ty(r), g.shape(r).to_vec());
        g.make(Op::Fence, ty, shape, vec![r])
    };
    for i in 0..outputs {
        while roots[..i].contains(&roots[i]) {
            roots[i] = copy(g, roots[i]);
        }
        let under = base(g, roots[i]);
        if under != roots[i] || matches!(g.op(under), Op::Param { .. } | Op::State { .. } | Op::Scatter) {
            roots[i] = copy(g, roots[i]);
        }
    }
    roots
}

impl Compiled {
    /// A kernel before tiling: the nests that it consists of; none if it came with its own source.
    pub fn nests(&self, kernel: usize) -> impl Iterator<Item = &Nest> {
        self.sources.kernels[kernel].lowered.iter().map(|lowered| &lowered.nest)
    }

    /// The buffer of a name.
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.program.buffers.iter().find(|b| match &b.kind {
            BufferKind::Input(n) | BufferKind::Output(n) | BufferKind::State(n) | BufferKind::Weight(n) => n == name,
            _ => false,
        })
    }
}
