//! Which thread of a block touches which elements of an array, by the indices of its accesses; and which accesses need an order
//! between threads for that.

use crate::{Axis, Graph, Id, Op, Space, index, walk};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The number of a way to give the elements of an array to threads; none where any thread may touch any.
pub type Owner = Option<usize>;

/// Arrays that are read and written, each with who touches which of its elements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accesses {
    read: BTreeSet<(Id, Owner)>,
    written: BTreeSet<(Id, Owner)>,
}

fn clash(a: &BTreeSet<(Id, Owner)>, b: &BTreeSet<(Id, Owner)>) -> bool {
    a.iter().any(|(array, x)| b.iter().any(|(other, y)| array == other && (x.is_none() || x != y)))
}

impl Accesses {
    fn add(&mut self, other: &Accesses) {
        self.read.extend(&other.read);
        self.written.extend(&other.written);
    }

    /// Whether a thread may touch in `next` what another touches here, and one of them writes.
    fn forbid(&self, next: &Accesses) -> bool {
        let written = clash(&self.written, &next.read) || clash(&self.written, &next.written);
        written || clash(&self.read, &next.written)
    }
}

/// What was touched in memory of the device since a barrier that orders it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unordered {
    /// Before the last barrier.
    before: Accesses,
    /// Since then, where statements that follow each other have an order for reasons of their own.
    since: Accesses,
}

impl Unordered {
    /// Whether nothing of this can be what another thread touched before the last barrier, and one of them writes.
    pub fn allows(&self, next: &Accesses) -> bool {
        !self.before.forbid(next)
    }

    /// A statement is over.
    pub fn touch(&mut self, all: &Accesses) {
        self.since.add(all);
    }

    /// A barrier.
    pub fn pass(&mut self, memory: bool) {
        self.before.add(&self.since);
        self.since = Accesses::default();
        if memory {
            self.before = Accesses::default();
        }
    }

    /// Where two ways meet.
    pub fn meet(&mut self, other: &Unordered) {
        self.before.add(&other.before);
        self.since.add(&other.since);
    }
}

/// Indices of an access, of all threads and rounds, that are worth looking at.
const MOST: i64 = 1 << 15;

/// The ways in which arrays of a kernel are given to its threads: two accesses of one way touch no element by two threads.
#[derive(Debug)]
pub struct Owners {
    /// The number of a warp and that of a lane, where a kernel has them, with how many there are.
    threads: Vec<(Id, i64)>,
    /// By array: the thread that each element belongs to, in each way.
    ways: FxHashMap<Id, Vec<FxHashMap<i64, i64>>>,
    known: FxHashMap<(Id, Id, i64), Owner>,
}

impl Owners {
    /// Of a kernel with these nodes.
    pub fn of(g: &Graph, nodes: &[Id]) -> Owners {
        let thread = |&id: &Id| match g.op(id) {
            Op::Range(_, Axis::Warp | Axis::Lane) => Some((id, g.as_int(g.src(id)[0])?)),
            _ => None,
        };
        let threads = nodes.iter().filter_map(thread).collect();
        Owners { threads, ways: FxHashMap::default(), known: FxHashMap::default() }
    }

    /// What a statement touches of arrays of memory of the device: it reads these values, and stores if it is a store.
    pub fn accesses(&mut self, g: &Graph, values: &[Id], store: Option<Id>) -> Accesses {
        let mut all = Accesses::default();
        let in_memory = |array: Id| matches!(g.op(array), Op::Buffer { space: Space::Task, .. });
        walk::reach(values.iter().copied(), |id, more| {
            if let (Op::Load, &[array, index, ..]) = (g.op(id), g.src(id))
                && in_memory(array)
            {
                all.read.insert((array, self.owner(g, array, index, g.ty(id).lanes.into())));
            }
            more.extend(g.src(id));
        });
        if let Some((store, &[array, index, value, ..])) = store.map(|store| (store, g.src(store)))
            && in_memory(array)
        {
            let plain = *g.op(store) == Op::Store;
            let owner = plain.then(|| self.owner(g, array, index, g.ty(value).lanes.into())).flatten();
            all.written.insert((array, owner));
        }
        all
    }

    /// The way in which an access of so many neighbours from an index on gives an array to threads; none if several of them
    /// touch one element, or that is not known.
    fn owner(&mut self, g: &Graph, array: Id, index: Id, width: i64) -> Owner {
        if let Some(&known) = self.known.get(&(array, index, width)) {
            return known;
        }
        let way = self.elements(g, index, width).map(|own| {
            let ways = self.ways.entry(array).or_default();
            let agrees = |way: &FxHashMap<i64, i64>| own.iter().all(|(e, t)| way.get(e).is_none_or(|other| other == t));
            let at = ways.iter().position(agrees).unwrap_or(ways.len());
            if at == ways.len() {
                ways.push(FxHashMap::default());
            }
            ways[at].extend(own);
            at
        });
        self.known.insert((array, index, width), way);
        way
    }

    /// The thread of each element that is touched.
    fn elements(&self, g: &Graph, index: Id, width: i64) -> Option<FxHashMap<i64, i64>> {
        let is_loop = |id: &Id| matches!(g.op(*id), Op::Range(_, Axis::Loop));
        let loops = g.toposort(&[index]).into_iter().filter(is_loop);
        let mut ranges = self.threads.clone();
        for range in loops {
            ranges.push((range, g.as_int(g.src(range)[0])?));
        }
        let all = ranges.iter().try_fold(width, |all, (_, extent)| all.checked_mul(*extent))?;
        if all > MOST {
            return None;
        }
        let mut owner = FxHashMap::default();
        for number in 0..all / width {
            let (mut rest, mut thread) = (number, 0);
            let mut at = FxHashMap::default();
            for (i, &(range, extent)) in ranges.iter().enumerate() {
                at.insert(range, rest % extent);
                if i < self.threads.len() {
                    thread = thread * extent + rest % extent;
                }
                rest /= extent;
            }
            let first = index::value(g, index, &|id| at.get(&id).copied())?;
            for element in first..first + width {
                if *owner.entry(element).or_insert(thread) != thread {
                    return None;
                }
            }
        }
        Some(owner)
    }
}
