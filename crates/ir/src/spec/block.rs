//! The grammar of kernels for blocks of threads.
//!
//! A barrier lies where all threads of a block pass, a shuffle where all lanes of a warp do; and between two barriers
//! no scratch is both written and read by different statements, since nothing says in which order the threads come.
//! These rules are about the text, so they refuse some kernels that would be right: an accumulator that lanes set to
//! different values somewhere counts as different in every lane. That different statements write different elements, and one
//! statement only what its thread alone touches, is what the interpreter checks. What a barrier that orders no memory of the
//! device leaves open is told by [`crate::owners`].
//!
//! A kernel that waits for the launches before it does so once, with all threads, outside of loops and branches; what
//! comes before that in the text touches weights and scratch only.

use super::{SpecError, describe, extent_of, require};
use crate::owners::{Owners, Unordered};
use crate::walk;
use crate::{Axis, FRAGMENT_LANES, Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// Who agrees on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Same {
    /// All threads of the block.
    Block,
    /// All lanes of a warp.
    Warp,
    /// Nobody.
    Lane,
}

/// Checks the statements of `root` if it is a kernel of blocks; `order` is everything under it, in topological order.
pub(super) fn check_block(g: &Graph, root: Id, order: &[Id]) -> Result<(), SpecError> {
    let same = agreement(g, root, order);
    let mut shuffles: FxHashSet<Id> = FxHashSet::default();
    let mut threads = false;
    for &id in order {
        let exchanges =
            matches!(g.op(id), Op::LaneXor(_) | Op::Fragment { .. } | Op::WarpProduct | Op::StoreFragment { .. });
        let alone = matches!(g.op(id), Op::Barrier { .. } | Op::Wait | Op::Trigger);
        threads |= exchanges || alone || matches!(g.op(id), Op::Range(_, Axis::Warp | Axis::Lane));
        if exchanges || g.src(id).iter().any(|s| shuffles.contains(s)) {
            shuffles.insert(id);
        }
    }
    if !threads {
        return Ok(());
    }
    let (since, memory, owners) = (Touched::default(), Unordered::default(), Owners::of(g, order));
    let mut walk = Walk { g, same, shuffles, since, memory, owners };
    walk.statements(g.src(root), Same::Block)?;
    check_waits(g, root, order)?;
    check_lanes(g, order)
}

/// Who agrees on each value: on an accumulator, who comes to all places where it is set and agrees on what it is set to.
fn agreement(g: &Graph, root: Id, order: &[Id]) -> FxHashMap<Id, Same> {
    let mut accs: FxHashMap<Id, Same> = FxHashMap::default();
    loop {
        let mut same: FxHashMap<Id, Same> = FxHashMap::default();
        for &id in order {
            let own = match g.op(id) {
                Op::Range(_, Axis::Warp) => Same::Warp,
                Op::Range(_, Axis::Lane) | Op::Fragment { .. } | Op::WarpProduct => Same::Lane,
                Op::Acc(_) => accs.get(&id).copied().unwrap_or(Same::Block),
                _ => Same::Block,
            };
            same.insert(id, g.src(id).iter().map(|s| same[s]).max().unwrap_or(own).max(own));
        }
        // What is known of one accumulator may change what others are set to.
        let mut changed = false;
        each_set(g, g.src(root), Same::Block, &same, &mut |acc, who| {
            let known = accs.entry(acc).or_insert(Same::Block);
            changed |= who > *known;
            *known = who.max(*known);
        });
        if !changed {
            return same;
        }
    }
}

/// Calls `found` for each accumulator that statements set, with who comes there and agrees on the value.
fn each_set(g: &Graph, statements: &[Id], flow: Same, same: &FxHashMap<Id, Same>, found: &mut impl FnMut(Id, Same)) {
    for &statement in statements {
        let src = g.src(statement);
        if *g.op(statement) == Op::Set {
            src.chunks(2).for_each(|pair| found(pair[0], flow.max(same[&pair[1]])));
        }
        let decides = match g.op(statement) {
            Op::Loop => Some(g.src(src[0])[0]),
            Op::If => Some(src[0]),
            _ => None,
        };
        let flow = decides.map_or(flow, |value| flow.max(same[&value]));
        each_set(g, within(g, statement), flow, same, found);
    }
}

/// Checks that a warp has the lanes that exchange what they hold.
fn check_lanes(g: &Graph, order: &[Id]) -> Result<(), SpecError> {
    let known = extent_of(g, order, Axis::Lane);
    let lanes = known.unwrap_or(1);
    order.iter().try_for_each(|&id| {
        let rule = match *g.op(id) {
            Op::Range(_, Axis::Warp) => require(known.is_some(), || "nothing says how many lanes a warp has".into()),
            Op::LaneXor(mask) => {
                require(i64::from(mask) < lanes, || format!("no two of {lanes} lanes differ in the bits {mask}"))
            }
            Op::Fragment { .. } | Op::WarpProduct | Op::StoreFragment { .. } => {
                require(lanes == FRAGMENT_LANES as i64, || {
                    format!("{FRAGMENT_LANES} lanes hold a matrix together, not {lanes}")
                })
            }
            _ => Ok(()),
        };
        rule.map_err(|rule| SpecError { node: describe(g, id), rule })
    })
}

/// Checks what comes before a kernel waits, if it does.
fn check_waits(g: &Graph, root: Id, order: &[Id]) -> Result<(), SpecError> {
    let broken = |id: Id, rule: &str| Err(SpecError { node: describe(g, id), rule: rule.into() });
    let top = g.src(root);
    for op in [Op::Wait, Op::Trigger] {
        let Some(&id) = order.iter().find(|&&id| *g.op(id) == op) else { continue };
        // Equal statements are one node.
        if top.iter().filter(|&&s| s == id).count() != 1 || inside(g, top, id) {
            return broken(id, "it must be there once, outside of loops and branches");
        }
    }
    let Some(wait) = top.iter().position(|&s| *g.op(s) == Op::Wait) else { return Ok(()) };
    for id in g.toposort(&top[..wait]) {
        if let Op::Buffer { space, .. } = *g.op(id)
            && !space.is_early()
        {
            return broken(id, "it is touched before the launches before this one are waited for");
        }
    }
    Ok(())
}

/// Whether a statement lies inside of some of these.
fn inside(g: &Graph, statements: &[Id], id: Id) -> bool {
    statements.iter().any(|&s| within(g, s).contains(&id) || inside(g, within(g, s), id))
}

/// The statements of a block, a loop or a branch.
fn within(g: &Graph, statement: Id) -> &[Id] {
    match g.op(statement) {
        Op::Block => g.src(statement),
        Op::Loop | Op::If => &g.src(statement)[1..],
        _ => &[],
    }
}

/// Scratch that was touched since the last barrier.
#[derive(Clone, Default)]
struct Touched {
    read: Places,
    written: Places,
}

/// Buffers, each with the index if that was always the same, and one that tells threads apart.
type Places = FxHashMap<Id, Option<Id>>;

fn note(places: &mut Places, buffer: Id, index: Option<Id>) {
    places.entry(buffer).and_modify(|old| *old = old.filter(|_| *old == index)).or_insert(index);
}

/// Whether what was touched there may belong to another thread.
fn foreign(places: &Places, buffer: Id, index: Option<Id>) -> bool {
    places.get(&buffer).is_some_and(|&at| at.is_none() || at != index)
}

impl Touched {
    fn merge(&mut self, other: Touched) {
        other.read.into_iter().for_each(|(buffer, index)| note(&mut self.read, buffer, index));
        other.written.into_iter().for_each(|(buffer, index)| note(&mut self.written, buffer, index));
    }
}

struct Walk<'g> {
    g: &'g Graph,
    same: FxHashMap<Id, Same>,
    /// Nodes that contain a shuffle.
    shuffles: FxHashSet<Id>,
    since: Touched,
    memory: Unordered,
    owners: Owners,
}

impl Walk<'_> {
    fn statements(&mut self, all: &[Id], flow: Same) -> Result<(), SpecError> {
        all.iter().try_for_each(|&id| self.statement(id, flow))
    }

    fn statement(&mut self, id: Id, flow: Same) -> Result<(), SpecError> {
        let g = self.g;
        let src = g.src(id);
        match g.op(id) {
            Op::Block => self.statements(src, flow),
            Op::Loop => {
                let extent = g.src(src[0])[0];
                let flow = flow.max(self.same[&extent]);
                let before = (self.since.clone(), self.memory.clone());
                // A second time for what one round leaves to the next.
                for _ in 0..2 {
                    self.touch(id, &[extent], None, flow)?;
                    self.statements(&src[1..], flow)?;
                }
                // It may not run at all.
                self.since.merge(before.0);
                self.memory.meet(&before.1);
                Ok(())
            }
            Op::If => {
                self.touch(id, &src[..1], None, flow)?;
                let before = (self.since.clone(), self.memory.clone());
                self.statements(&src[1..], flow.max(self.same[&src[0]]))?;
                self.since.merge(before.0);
                self.memory.meet(&before.1);
                Ok(())
            }
            &Op::Barrier { memory } => {
                self.require(id, flow == Same::Block, || "not all threads of the block come to it".into())?;
                self.since = Touched::default();
                self.memory.pass(memory);
                Ok(())
            }
            // Who stores under a condition may do so for others.
            Op::Store => self.touch(id, &src[1..], Some((src[0], src[1], src.len() == 3)), flow),
            Op::StoreFragment { .. } => {
                let together = flow <= Same::Warp && self.same[&src[1]] <= Same::Warp;
                self.require(id, together, || "not all lanes of the warp store the same sums".into())?;
                self.touch(id, &src[1..], Some((src[0], src[1], false)), flow)
            }
            _ => self.touch(id, src, None, flow),
        }
    }

    /// What a statement reads, and the element that it stores.
    fn touch(&mut self, id: Id, values: &[Id], stored: Option<(Id, Id, bool)>, flow: Same) -> Result<(), SpecError> {
        let g = self.g;
        let shuffle = values.iter().any(|v| self.shuffles.contains(v));
        self.require(id, !shuffle || flow <= Same::Warp, || "not all lanes of the warp come to its shuffle".into())?;
        walk::try_reach(values.iter().copied(), |v, more| {
            if matches!(g.op(v), Op::Range(..)) {
                return Ok(());
            }
            if *g.op(v) == Op::Load && is_scratch(g, g.src(v)[0]) {
                let (buffer, index) = (g.src(v)[0], g.src(v)[1]);
                let own = self.own(index);
                let text = || format!("it reads {}, which was written since the last barrier", describe(g, buffer));
                self.require(id, !foreign(&self.since.written, buffer, own), text)?;
                if stored.is_none_or(|s| (s.0, s.1) != (buffer, index)) {
                    note(&mut self.since.read, buffer, own);
                }
            }
            more.extend(g.src(v));
            Ok(())
        })?;
        if let Some((buffer, index, alone)) = stored.filter(|s| is_scratch(g, s.0)) {
            let own = self.own(index).filter(|_| alone);
            let text = || format!("it writes {}, which was read since the last barrier", describe(g, buffer));
            self.require(id, !foreign(&self.since.read, buffer, own), text)?;
            note(&mut self.since.written, buffer, own);
        }
        let all = self.owners.accesses(g, values, stored.map(|_| id));
        let text = || {
            "it touches memory of the device that another thread touched before a barrier that does not order it".into()
        };
        self.require(id, self.memory.allows(&all), text)?;
        self.memory.touch(&all);
        Ok(())
    }

    /// The index, if it tells threads apart.
    fn own(&self, index: Id) -> Option<Id> {
        (self.same[&index] == Same::Lane).then_some(index)
    }

    fn require(&self, id: Id, holds: bool, rule: impl FnOnce() -> String) -> Result<(), SpecError> {
        require(holds, rule).map_err(|rule| SpecError { node: describe(self.g, id), rule })
    }
}

fn is_scratch(g: &Graph, buffer: Id) -> bool {
    matches!(g.op(buffer), Op::Buffer { space, .. } if space.is_scratch())
}
