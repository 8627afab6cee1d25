//! Barriers: put between statements of a kernel where scratch goes from one thread to another.
//!
//! The tiler writes statements as if each came after all threads had done the one before; this pass adds what makes
//! that true, and no more. A statement that reads scratch which another wrote since the last barrier, or writes scratch
//! which another read, gets a barrier before it; unless both touch the element of one index expression, which is the
//! thread's own. Barriers go only where all threads pass: around what depends on the number of a thread, never inside.

use crate::kernel::emitter::{is_barrier, make_barrier};
use crate::kernel::expression::{collect_loads, is_scratch};
use ir::{Axis, Graph, Id, Op, walk};
use rustc_hash::FxHashMap;

/// The statements with barriers between them.
pub fn synchronise(g: &mut Graph, statements: Vec<Id>) -> Vec<Id> {
    insert(g, &statements, Touched::default()).0
}

/// Scratch that is read and written, with the index where that is always the same and tells threads apart.
#[derive(Clone, Default)]
struct Touched {
    read: FxHashMap<Id, Option<Id>>,
    written: FxHashMap<Id, Option<Id>>,
    /// What is read only to be written anew.
    updated: FxHashMap<Id, Option<Id>>,
}

fn note(map: &mut FxHashMap<Id, Option<Id>>, buffer: Id, index: Option<Id>) {
    map.entry(buffer).and_modify(|old| *old = old.filter(|_| *old == index)).or_insert(index);
}

fn clash(a: &FxHashMap<Id, Option<Id>>, b: &FxHashMap<Id, Option<Id>>) -> bool {
    a.iter().any(|(buffer, x)| b.get(buffer).is_some_and(|y| x.is_none() || x != y))
}

impl Touched {
    fn add(&mut self, other: &Touched) {
        other.read.iter().for_each(|(b, i)| note(&mut self.read, *b, *i));
        other.written.iter().for_each(|(b, i)| note(&mut self.written, *b, *i));
        other.updated.iter().for_each(|(b, i)| note(&mut self.updated, *b, *i));
    }

    /// Whether `next` may not follow without a barrier.
    fn forbids(&self, next: &Touched) -> bool {
        clash(&self.written, &next.read) || clash(&self.written, &next.updated) || clash(&self.read, &next.written)
    }
}

fn insert(g: &mut Graph, statements: &[Id], mut since: Touched) -> (Vec<Id>, Touched) {
    let mut out = vec![];
    for &s in statements {
        if is_barrier(g, s) {
            out.push(s);
            since = Touched::default();
            continue;
        }
        let all = touched(g, s);
        let clashes = since.forbids(&all);
        let exchanges = *g.op(s) == Op::Loop && all.forbids(&all) && !varies(g, g.src(g.src(s)[0])[0]).1;
        if exchanges && clashes && !since.forbids(&extent(g, s)) {
            // A barrier inside may serve what was before.
            let (inside, end) = rounds(g, s, &since);
            let (after, _) = rounds(g, s, &Touched::default());
            if barriers(g, inside) == barriers(g, after) {
                since.add(&end);
                out.push(inside);
                continue;
            }
        }
        if clashes {
            out.push(make_barrier(g));
            since = Touched::default();
        }
        if exchanges {
            let (all, end) = rounds(g, s, &since);
            since.add(&end);
            out.push(all);
        } else {
            since.add(&all);
            out.push(s);
        }
    }
    (out, since)
}

/// A loop with the barriers that it needs inside if that much was touched before it, and what it leaves.
fn rounds(g: &mut Graph, statement: Id, since: &Touched) -> (Id, Touched) {
    let src = g.src(statement).to_vec();
    // What one round leaves to the next.
    let (_, end) = insert(g, &src[1..], since.clone());
    let mut around = since.clone();
    around.add(&end);
    let (body, end) = insert(g, &src[1..], around);
    let src = std::iter::once(src[0]).chain(body).collect();
    (g.with_src(statement, src), end)
}

/// Barriers in the text of a statement.
fn barriers(g: &Graph, statement: Id) -> usize {
    match g.op(statement) {
        Op::Barrier { .. } => 1,
        Op::Block => g.src(statement).iter().map(|&s| barriers(g, s)).sum(),
        Op::Loop | Op::If => g.src(statement)[1..].iter().map(|&s| barriers(g, s)).sum(),
        _ => 0,
    }
}

/// What the number of rounds of a loop reads.
fn extent(g: &Graph, statement: Id) -> Touched {
    let mut t = Touched::default();
    reads(g, &[g.src(g.src(statement)[0])[0]], None, &mut t);
    t
}

/// Everything that a statement touches, its own parts included.
fn touched(g: &Graph, statement: Id) -> Touched {
    let mut t = Touched::default();
    let src = g.src(statement);
    match g.op(statement) {
        Op::Loop => {
            reads(g, &[g.src(src[0])[0]], None, &mut t);
            src[1..].iter().for_each(|&s| t.add(&touched(g, s)));
        }
        Op::If => {
            reads(g, &src[..1], None, &mut t);
            src[1..].iter().for_each(|&s| t.add(&touched(g, s)));
        }
        Op::Block => src.iter().for_each(|&s| t.add(&touched(g, s))),
        Op::Store => {
            // An element that is the same for all threads is no thread's own.
            let own = varies(g, src[1]).0.then_some(src[1]);
            reads(g, &src[1..], own.map(|index| (src[0], index)), &mut t);
            if is_scratch(g, src[0]) {
                // Who stores under a condition does so for others.
                let own = own.filter(|_| src.len() == 3);
                note(&mut t.written, src[0], own);
            }
        }
        Op::StoreFragment { .. } => {
            reads(g, &src[1..], None, &mut t);
            note(&mut t.written, src[0], None);
        }
        _ => reads(g, src, None, &mut t),
    }
    t
}

fn reads(g: &Graph, values: &[Id], own: Option<(Id, Id)>, t: &mut Touched) {
    let mut loads = vec![];
    values.iter().for_each(|&v| collect_loads(g, v, &mut loads));
    for l in loads {
        let (buffer, index) = (g.src(l)[0], g.src(l)[1]);
        if is_scratch(g, buffer) {
            let to = if own == Some((buffer, index)) { &mut t.updated } else { &mut t.read };
            note(to, buffer, varies(g, index).0.then_some(index));
        }
    }
}

/// Whether an expression may differ between the lanes of a warp, and between the threads of a block at all.
pub(super) fn varies(g: &Graph, expr: Id) -> (bool, bool) {
    let (mut lanes, mut threads) = (false, false);
    walk::reach([expr], |e, more| match g.op(e) {
        Op::Range(_, Axis::Lane) | Op::Acc(_) | Op::LaneXor(_) | Op::Fragment { .. } | Op::WarpProduct => {
            (lanes, threads) = (true, true)
        }
        Op::Range(_, Axis::Warp) => threads = true,
        _ => more.extend_from_slice(g.src(e)),
    });
    (lanes, threads)
}
