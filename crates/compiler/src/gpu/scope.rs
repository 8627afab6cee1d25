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

#[cfg(test)]
mod tests {
    use super::narrowed;
    use crate::kernel::emitter::{block, make_barrier, make_loop};
    use ir::{Axis, DType, Graph, Id, Op, Space};

    /// A block of 64 threads with an array in memory of the device.
    struct Kernel {
        g: Graph,
        array: Id,
        thread: Id,
    }

    impl Kernel {
        fn new() -> Kernel {
            let mut g = Graph::new();
            let array = g.buffer(0, Space::Task, DType::F32, 1024);
            let (warps, lanes) = (g.int(2), g.int(32));
            let (warp, lane) = (g.range(1, Axis::Warp, warps), g.range(2, Axis::Lane, lanes));
            let before = g.mul(warp, lanes);
            let thread = g.add(before, lane);
            Kernel { g, array, thread }
        }

        /// The thread's own element of those from `first` on.
        fn own(&mut self, first: i64) -> Id {
            let first = self.g.int(first);
            self.g.add(self.thread, first)
        }

        /// That of the thread as far from the last.
        fn others(&mut self) -> Id {
            let last = self.g.int(63);
            self.g.sub(last, self.thread)
        }

        fn copy(&mut self, to: Id, from: Id) -> Id {
            let value = self.g.load(self.array, from, 1);
            self.g.make(Op::Store, DType::Index, vec![], vec![self.array, to, value])
        }

        /// Of each barrier, whether it orders memory of the device.
        fn scopes(&mut self, statements: Vec<Id>) -> Vec<bool> {
            fn of(g: &Graph, statements: &[Id], out: &mut Vec<bool>) {
                for &s in statements {
                    match g.op(s) {
                        Op::Barrier { memory } => out.push(*memory),
                        Op::Loop => of(g, &g.src(s)[1..], out),
                        _ => {}
                    }
                }
            }
            let root = block(&mut self.g, statements);
            let root = narrowed(&mut self.g, root);
            let mut out = vec![];
            of(&self.g, self.g.src(root), &mut out);
            out
        }
    }

    #[test]
    fn the_last_barrier_before_what_another_thread_touched_orders_memory() {
        let mut k = Kernel::new();
        let (low, high, others, wait) = (k.own(0), k.own(64), k.others(), make_barrier(&mut k.g));
        let (own, exchange) = (k.copy(high, low), k.copy(high, others));
        let write = k.copy(low, high);
        assert_eq!(k.scopes(vec![write, wait, own, wait, write]), [false, false], "each thread has its own elements");
        assert_eq!(k.scopes(vec![write, wait, own, wait, exchange]), [false, true], "another's are read");
        assert_eq!(k.scopes(vec![exchange, wait, wait, write]), [false, true], "what another has read is written");
    }

    #[test]
    fn a_round_follows_the_one_before_it() {
        let mut k = Kernel::new();
        let (low, high, others, wait) = (k.own(0), k.own(64), k.others(), make_barrier(&mut k.g));
        let (write, exchange) = (k.copy(low, high), k.copy(high, others));
        let four = k.g.int(4);
        let range = k.g.range(3, Axis::Loop, four);
        let rounds = make_loop(&mut k.g, range, vec![write, wait, exchange, wait]);
        assert_eq!(k.scopes(vec![rounds]), [true, true], "the next round writes what this one reads");
        let rounds = make_loop(&mut k.g, range, vec![wait, write, wait, wait, exchange]);
        assert_eq!(k.scopes(vec![rounds]), [true, false, true], "one between two accesses is enough");
    }
}
