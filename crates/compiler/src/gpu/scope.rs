//! The scope of barriers: which of them order memory of the device, too, and not only that of a block.
//!
//! [`super::sync`] puts a barrier wherever scratch goes from one thread to another, wherever that scratch lies. To order memory
//! of the device costs more than to order that of a block: by Vulkan on an H200, what the first cache holds is given up
//! (bench/JOURNAL.md). Between two accesses of one element there by different threads, one of which writes, one barrier that
//! does so is enough: the last before the second. Whose an element is follows from how its index is computed ([`ir::owners`]).

use ir::owners::{Owners, Unordered};
use ir::{Graph, Id, Op, Space};
use std::collections::BTreeSet;

/// A block of statements whose barriers order memory of the device where something depends on it, and nowhere else.
pub fn narrowed(g: &mut Graph, root: Id) -> Id {
    // What a kernel reads of its own results is ordered by barriers that are there for something else.
    let order = g.toposort(&[root]);
    let is_result = |id: Id| matches!(g.op(id), Op::Buffer { space: Space::Output, .. });
    if order.iter().any(|&id| *g.op(id) == Op::Load && is_result(g.src(id)[0])) {
        return root;
    }
    let statements = g.src(root).to_vec();
    let mut scopes = Scopes { wide: BTreeSet::new(), next: 0, found: true, owners: Owners::of(g, &order) };
    // One after another, as each serves what comes after it, too.
    while scopes.found {
        (scopes.next, scopes.found) = (0, false);
        scopes.pass(g, &statements, Way::default());
    }
    let mut number = 0;
    let statements = rewritten(g, &statements, &scopes.wide, &mut number);
    g.with_src(root, statements)
}

/// Barriers by their number in the text, and those that order memory of the device.
struct Scopes {
    wide: BTreeSet<usize>,
    /// The number of the next one.
    next: usize,
    /// Whether there is one more than when the text was begun.
    found: bool,
    owners: Owners,
}

/// How a thread came to a statement, or could have come.
#[derive(Clone, Default, PartialEq)]
struct Way {
    touched: Unordered,
    /// The last barrier; several, where ways meet.
    last: BTreeSet<usize>,
}

impl Way {
    fn meet(&mut self, other: &Way) {
        self.touched.meet(&other.touched);
        self.last.extend(&other.last);
    }
}

impl Scopes {
    fn pass(&mut self, g: &Graph, statements: &[Id], mut way: Way) -> Way {
        for &s in statements {
            let src = g.src(s);
            way = match g.op(s) {
                Op::Barrier { .. } => self.barrier(way),
                Op::Block => self.pass(g, src, way),
                Op::Loop => self.rounds(g, s, way),
                Op::If => {
                    self.touch(g, &mut way, &src[..1], None);
                    let taken = self.pass(g, &src[1..], way.clone());
                    way.meet(&taken);
                    way
                }
                Op::Store | Op::StoreFragment { .. } => {
                    self.touch(g, &mut way, &src[1..], Some(s));
                    way
                }
                _ => {
                    self.touch(g, &mut way, src, None);
                    way
                }
            };
        }
        way
    }

    fn rounds(&mut self, g: &Graph, statement: Id, mut way: Way) -> Way {
        let extent = g.src(g.src(statement)[0])[0];
        self.touch(g, &mut way, &[extent], None);
        let first = self.next;
        loop {
            self.next = first;
            let end = self.pass(g, &g.src(statement)[1..], way.clone());
            // What one round leaves to the next; and there may be none.
            let before = way.clone();
            way.meet(&end);
            if way == before {
                return way;
            }
        }
    }

    fn barrier(&mut self, mut way: Way) -> Way {
        way.touched.pass(self.wide.contains(&self.next));
        way.last = [self.next].into();
        self.next += 1;
        way
    }

    fn touch(&mut self, g: &Graph, way: &mut Way, values: &[Id], store: Option<Id>) {
        let all = self.owners.accesses(g, values, store);
        if !self.found && !way.touched.allows(&all) {
            self.wide.extend(&way.last);
            self.found = true;
        }
        way.touched.touch(&all);
    }
}

fn rewritten(g: &mut Graph, statements: &[Id], wide: &BTreeSet<usize>, number: &mut usize) -> Vec<Id> {
    let mut out = vec![];
    for &s in statements {
        let src = g.src(s).to_vec();
        let first = match g.op(s) {
            Op::Barrier { .. } => {
                out.push(g.make(Op::Barrier { memory: wide.contains(number) }, g.dtype(s), vec![], vec![]));
                *number += 1;
                continue;
            }
            Op::Block => 0,
            Op::Loop | Op::If => 1,
            _ => {
                out.push(s);
                continue;
            }
        };
        let body = rewritten(g, &src[first..], wide, number);
        out.push(g.with_src(s, [&src[..first], &body].concat()));
    }
    out
}
