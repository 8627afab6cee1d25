//! A kernel after tiling.

use crate::kernel::places::places;
use ir::{Axis, DType, Graph, Id, Op, Space};
use rustc_hash::FxHashMap;

/// A kernel ready for a renderer or the interpreter.
#[derive(Clone, Debug)]
pub struct Body {
    /// A block of statements, run once for each task; or several kernels side by side ([`Op::Parts`]).
    pub root: Id,
    /// Scratch buffers.
    pub stashes: Vec<Id>,
    /// Number of tasks.
    pub tasks: Id,
    /// How each item of the nest was computed, in its order.
    pub ways: Vec<Way>,
}

impl Body {
    /// The paths by which its items were computed, those of what was made for an item before it among them.
    pub fn paths(&self) -> Vec<&'static str> {
        self.ways.iter().flat_map(|way| way.before.into_iter().chain([way.path])).collect()
    }

    /// Bytes of its scratch in a space, where each buffer begins at a multiple of `align`. Parts of a kernel take turns
    /// with theirs.
    pub(crate) fn bytes_in(&self, g: &Graph, space: Space, align: usize) -> usize {
        if space == Space::Shared {
            return shared_by_turns(g, std::slice::from_ref(self), align).iter().sum();
        }
        let bytes = |stash: Id| match *g.op(stash) {
            Op::Buffer { space: of, len, .. } if of == space => (len * g.dtype(stash).bytes()).next_multiple_of(align),
            _ => 0,
        };
        self.parts(g).into_iter().map(|(_, stashes)| stashes.into_iter().map(bytes).sum()).max().unwrap_or(0)
    }

    /// The blocks of statements that it consists of, each with its scratch.
    pub(crate) fn parts(&self, g: &Graph) -> Vec<(Id, Vec<Id>)> {
        if *g.op(self.root) != Op::Parts {
            return vec![(self.root, self.stashes.clone())];
        }
        let part = |&part: &Id| {
            let all = g.toposort(&[part]);
            (part, self.stashes.iter().copied().filter(|stash| all.contains(stash)).collect())
        };
        g.src(self.root).iter().map(part).collect()
    }

    /// A kernel of several, each with its parameters as `slots` says: the new number of each. It knows nothing about
    /// those that are equal.
    pub(crate) fn beside(g: &mut Graph, bodies: &[Body], slots: &[Vec<u32>]) -> Body {
        let mut parts = vec![];
        for (body, slots) in bodies.iter().zip(slots) {
            let mut map = FxHashMap::default();
            for id in g.toposort(&[body.root]) {
                if let Op::Buffer { slot, space, len } = *g.op(id)
                    && !space.is_scratch()
                {
                    let (slot, ty) = (slots[slot as usize], g.dtype(id));
                    map.insert(id, g.buffer(slot, space, ty, len));
                }
            }
            parts.push(g.substitute(body.root, &mut map));
        }
        let tasks = bodies.iter().map(|body| body.tasks).reduce(|a, b| g.add(a, b)).unwrap_or(parts[0]);
        let root = g.make(Op::Parts, DType::Index, vec![], parts);
        let mut stashes: Vec<Id> = bodies.iter().flat_map(|body| body.stashes.clone()).collect();
        stashes.sort_unstable();
        stashes.dedup();
        Body { root, stashes, tasks, ways: bodies.iter().flat_map(|body| body.ways.clone()).collect() }
    }
}

/// Tasks of a part, if it has more than one.
pub(crate) fn tasks_of(g: &Graph, part: Id) -> Option<Id> {
    let range = g.toposort(&[part]).into_iter().find(|&id| matches!(g.op(id), Op::Range(_, Axis::Task)))?;
    Some(g.src(range)[0])
}

/// The arrays in the memory that the threads of a block share: what matrices are loaded from and stored to as a whole lies in
/// one of its own for each type, as no other numbers may lie there.
pub(crate) const ARRAYS: [Option<DType>; 3] = [None, Some(DType::F16), Some(DType::F32)];

/// The place of each stash of a part in its array, and the bytes of each of these.
pub(crate) fn shared(g: &Graph, part: Id, stashes: &[Id], align: usize) -> (FxHashMap<Id, usize>, [usize; 3]) {
    let whole = whole_matrices(g, part);
    let mut at = FxHashMap::default();
    let bytes = ARRAYS.map(|array| {
        let bytes = |&stash: &Id| match *g.op(stash) {
            Op::Buffer { space: Space::Shared, len, .. } => Some((stash, len * g.dtype(stash).bytes())),
            _ => None,
        };
        let mine = |stash: &&Id| whole.contains(stash).then(|| g.dtype(**stash)) == array;
        let sizes: Vec<(Id, usize)> = stashes.iter().filter(mine).filter_map(bytes).collect();
        let (places, bytes) = places(g, part, &sizes, align);
        at.extend(places);
        bytes
    });
    (at, bytes)
}

/// Bytes of the arrays in the memory that the threads of a block share, which kernels side by side take turns with: of each as
/// many as the longest of theirs has.
pub(crate) fn shared_by_turns(g: &Graph, bodies: &[Body], align: usize) -> [usize; 3] {
    let parts = bodies.iter().flat_map(|body| body.parts(g));
    let all = parts.map(|(part, stashes)| shared(g, part, &stashes, align).1);
    all.fold([0; 3], |most, bytes| std::array::from_fn(|array| most[array].max(bytes[array])))
}

/// The stashes of a kernel that matrices are loaded from and stored to as a whole.
pub(crate) fn whole_matrices(g: &Graph, root: Id) -> Vec<Id> {
    let order = g.toposort(&[root]);
    if !order.iter().any(|&id| matches!(g.op(id), Op::StoreFragment { .. })) {
        return vec![];
    }
    let stash = |&id: &Id| match g.op(id) {
        Op::StoreFragment { .. } => Some(g.src(id)[0]),
        Op::Fragment { .. } => Some(g.src(g.src(id)[0])[0]),
        _ => None,
    };
    order.iter().filter_map(stash).collect()
}

/// How an item was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The path that it took.
    pub path: &'static str,
    /// The path of what was made for it before.
    pub before: Option<&'static str>,
    /// Why it is no integer dot, where that was tried.
    pub no_dot: Option<&'static str>,
}

impl Way {
    /// By this path.
    pub(crate) fn by(path: &'static str) -> Way {
        Way { path, before: None, no_dot: None }
    }
}
