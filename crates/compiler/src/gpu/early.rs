//! Loads at the beginning of a kernel: of weights before the launches that it needs are over, and of the rest before
//! the first barrier.
//!
//! Whatever a thread reads from memory at an address that depends on nothing but its number goes into registers at
//! first, and so does what lies at an address that was read in this way: all of it is in flight together, and no sum or
//! barrier comes between. Of loops over rows of weights, as many rounds are taken out as fit into the registers that
//! the plan has for this. Weights come first, then the kernel waits for the launches before it, then the rest; weights
//! whose address is data (those of an expert) are among the rest.

use crate::gpu::threads::Tiler;
use crate::kernel::emitter::{make_if, make_loop};
use crate::kernel::expression::{collect_loads, loads_in, loops_of, replace};
use ir::{Axis, BinOp, DType, Graph, Id, Op, Space};
use rustc_hash::{FxHashMap, FxHashSet};

/// Statements until the launches before this one are over, and those after that, with their loads first.
pub(super) fn loads_first(t: &mut Tiler, g: &mut Graph, statements: Vec<Id>) -> (Vec<Id>, Vec<Id>) {
    let (weights, others) = t.target.plan.first_bytes();
    let written = written(g, &statements);
    let mut h =
        Hoist { t, written, of: Of::Weights, left: weights, known: Default::default(), early: vec![], late: vec![] };
    let rest: Vec<Id> = statements.into_iter().flat_map(|s| h.statement(g, s, &[])).collect();
    h.left = others;
    // Values of epilogues before vectors, which come in turn.
    let mut rest = rest;
    for of in [Of::Scalars, Of::All] {
        h.of = of;
        rest = rest.into_iter().flat_map(|s| h.statement(g, s, &[])).collect();
    }
    let Hoist { t, early, late, .. } = h;
    let overlap = t.target.plan.overlap;
    let mut first = if overlap { vec![g.make(Op::Trigger, DType::Index, vec![], vec![])] } else { vec![] };
    first.extend(sets(t, g, &early));
    if overlap {
        first.push(g.make(Op::Wait, DType::Index, vec![], vec![]));
    }
    let after = sets(t, g, &late).into_iter().chain(rest).collect();
    (first, after)
}

/// Slots of parameters that the statements write.
pub(crate) fn written(g: &Graph, statements: &[Id]) -> FxHashSet<u32> {
    let slot = |id: Id| match *g.op(id) {
        Op::Buffer { slot, space: Space::Output, .. } => Some(slot),
        _ => None,
    };
    g.toposort(statements).into_iter().filter_map(slot).collect()
}

/// Whether what a load reads is not changed by who writes these slots.
pub(crate) fn stays(g: &Graph, load: Id, written: &FxHashSet<u32>) -> bool {
    match *g.op(g.src(load)[0]) {
        Op::Buffer { slot, space, .. } => space == Space::Weight || space == Space::Input && !written.contains(&slot),
        _ => false,
    }
}

/// A load that goes first, the accumulator that holds it, and the conditions around it.
struct First {
    load: Id,
    acc: Id,
    conditions: Vec<Id>,
}

/// Statements that do some loads; neighbours under the same conditions together.
fn sets(t: &Tiler, g: &mut Graph, firsts: &[First]) -> Vec<Id> {
    let mut all = vec![];
    for together in firsts.chunk_by(|a, b| a.conditions == b.conditions) {
        // What was loaded before may be part of an address.
        let set = together.iter().map(|f| t.set(g, vec![(f.acc, f.load)])).collect();
        all.extend(together[0].conditions.iter().rev().fold(set, |body, &c| vec![make_if(g, c, body)]));
    }
    all
}

/// What goes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Weights, and what their addresses need.
    Weights,
    /// Scalars that are read only.
    Scalars,
    /// All that is read only.
    All,
}

struct Hoist<'t> {
    t: &'t mut Tiler,
    of: Of,
    /// Slots of parameters that the kernel writes.
    written: FxHashSet<u32>,
    /// Bytes of registers that are left.
    left: usize,
    /// Loads that go first already, under these conditions.
    known: FxHashMap<(Id, Vec<Id>), Id>,
    early: Vec<First>,
    late: Vec<First>,
}

impl Hoist<'_> {
    /// A statement without the loads that go first.
    fn statement(&mut self, g: &mut Graph, id: Id, conditions: &[Id]) -> Vec<Id> {
        let src = g.src(id).to_vec();
        match *g.op(id) {
            Op::Loop => self.rounds(g, id, conditions),
            Op::If if self.is_plain(g, src[0]) => {
                let mut around = conditions.to_vec();
                around.push(src[0]);
                let body = src[1..].iter().flat_map(|&s| self.statement(g, s, &around)).collect();
                vec![make_if(g, src[0], body)]
            }
            Op::Set | Op::Store => {
                let mut loads: Vec<Id> = src.iter().flat_map(|&s| loads_in(g, s)).collect();
                loads.sort_unstable();
                loads.dedup();
                let mut map = loops_of(g, id);
                for load in loads {
                    let goes = match self.of {
                        Of::Weights => space(g, load) == Space::Weight,
                        Of::Scalars => g.ty(load).lanes == 1,
                        Of::All => true,
                    };
                    if goes {
                        self.first(g, load, conditions, &mut map);
                    }
                }
                vec![g.substitute(id, &mut map)]
            }
            _ => vec![id],
        }
    }

    /// A loop; as many of its first rounds as there is room for their weights become statements of their own.
    fn rounds(&mut self, g: &mut Graph, id: Id, conditions: &[Id]) -> Vec<Id> {
        let src = g.src(id).to_vec();
        let (range, body) = (src[0], &src[1..]);
        let (Some(n), each) = (g.as_int(g.src(range)[0]), self.weight_bytes(g, body)) else { return vec![id] };
        let taken =
            if each == 0 || self.of != Of::Weights || multiplies(g, id) { 0 } else { n.min((self.left / each) as i64) };
        let mut all = vec![];
        for i in 0..taken {
            let i = g.int(i);
            for &s in body {
                let s = replace(g, s, range, i);
                all.extend(self.statement(g, s, conditions));
            }
        }
        if taken == n {
            return all;
        }
        if taken == 0 {
            all.push(id);
            return all;
        }
        let rest = self.t.counted(g, n - taken);
        let first = g.int(taken);
        let at = g.add(rest, first);
        let body = body.iter().map(|&s| replace(g, s, range, at)).collect();
        all.push(make_loop(g, rest, body));
        all
    }

    /// Bytes of weights that statements load at addresses which are known at first but for the counters of loops.
    fn weight_bytes(&self, g: &Graph, statements: &[Id]) -> usize {
        let of = |&s: &Id| match g.op(s) {
            Op::Loop => {
                let n = g.as_int(g.src(g.src(s)[0])[0]).unwrap_or(0) as usize;
                n * self.weight_bytes(g, &g.src(s)[1..])
            }
            Op::If => self.weight_bytes(g, &g.src(s)[1..]),
            Op::Set | Op::Store => {
                let mut loads = vec![];
                g.src(s).iter().for_each(|&v| collect_loads(g, v, &mut loads));
                let weights = loads.iter().filter(|&&l| space(g, l) == Space::Weight && self.may_go(g, l, true));
                weights.map(|&l| in_registers(g, l)).sum()
            }
            _ => 0,
        };
        statements.iter().map(of).sum()
    }

    /// Lets a load go first, if it may and there is room; `map` then says what stands for it.
    fn first(&mut self, g: &mut Graph, load: Id, conditions: &[Id], map: &mut FxHashMap<Id, Id>) {
        if map.contains_key(&load) || !self.may_go(g, load, false) {
            return;
        }
        let mut inner = vec![];
        collect_loads(g, g.src(load)[1], &mut inner);
        inner.sort_unstable();
        inner.iter().for_each(|&l| self.first(g, l, conditions, map));
        if inner.iter().any(|l| !map.contains_key(l)) {
            return;
        }
        let key = (load, conditions.to_vec());
        let acc = match self.known.get(&key) {
            Some(&acc) => acc,
            None if in_registers(g, load) > self.left => return,
            None => {
                let early = space(g, load) == Space::Weight && inner.is_empty();
                let acc = self.t.acc(g, g.ty(load));
                let index = g.substitute(g.src(load)[1], map);
                let moved = g.with_src(load, vec![g.src(load)[0], index]);
                self.left -= in_registers(g, load);
                let first = First { load: moved, acc, conditions: key.1.clone() };
                if early { &mut self.early } else { &mut self.late }.push(first);
                self.known.insert(key, acc);
                acc
            }
        };
        map.insert(load, acc);
    }

    /// Whether the address of a load is known when the kernel begins, perhaps but for the counters of loops, and what
    /// lies there does not change in the kernel.
    fn may_go(&self, g: &Graph, load: Id, in_loops: bool) -> bool {
        stays(g, load, &self.written) && self.is_known(g, g.src(load)[1], in_loops)
    }

    fn is_known(&self, g: &Graph, value: Id, in_loops: bool) -> bool {
        match g.op(value) {
            Op::Const(_) | Op::Var { .. } => true,
            Op::Range(_, axis) => in_loops || *axis != Axis::Loop,
            // Nothing but what all threads may compute: a division could fail where a condition forbids it.
            Op::Binary(BinOp::Div | BinOp::Mod) if g.as_int(g.src(value)[1]).is_none() => false,
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast => {
                g.src(value).iter().all(|&s| self.is_known(g, s, in_loops))
            }
            Op::Load => self.may_go(g, value, in_loops),
            _ => false,
        }
    }

    /// Whether a condition depends on the number of a thread alone.
    fn is_plain(&self, g: &Graph, condition: Id) -> bool {
        let mut loads = vec![];
        collect_loads(g, condition, &mut loads);
        loads.is_empty() && self.is_known(g, condition, false)
    }
}

/// The space that a load reads.
fn space(g: &Graph, load: Id) -> Space {
    match *g.op(g.src(load)[0]) {
        Op::Buffer { space, .. } => space,
        _ => Space::Task,
    }
}

/// Whether a loop multiplies matrices: its text is long, and it loads ahead itself.
fn multiplies(g: &Graph, statement: Id) -> bool {
    g.toposort(&[statement]).iter().any(|&n| *g.op(n) == Op::WarpProduct)
}

/// Bytes of registers that hold a value.
fn in_registers(g: &Graph, value: Id) -> usize {
    g.ty(value).bytes().next_multiple_of(4)
}
