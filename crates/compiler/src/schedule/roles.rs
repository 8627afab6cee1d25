//! What each tensor node is to the scheduler: free to repeat, inlined into a
//! reduction, a contraction, or ordinary work.

use crate::schedule::Fusions;
use ir::{BinOp, DType, Graph, Id, Op, Part, ReduceOp, UnOp, walk};
use rustc_hash::{FxHashMap, FxHashSet};

/// The roles of nodes.
pub struct Roles {
    /// Nodes that the roots need, in topological order.
    pub live: Vec<Id>,
    /// Users of each node.
    pub users: FxHashMap<Id, Vec<Id>>,
    /// Views and cheap functions of parameters: repeated wherever they are used.
    pub free: FxHashSet<Id>,
    /// Nodes larger than what they are made of, that exist only inside the loop
    /// of a reduction.
    pub inline: FxHashSet<Id>,
    /// Reductions over weights or state: the seeds of kernels.
    pub heavy: FxHashSet<Id>,
    /// Bodies of folds and of recurrences: functions of placeholders, shared by folds of one shape.
    pub merge: FxHashSet<Id>,
    /// What the host reads, without views.
    pub outputs: FxHashSet<Id>,
    /// Operands that are converted once, and not each time that they are read.
    pub unpacked: FxHashSet<Id>,
    fusions: Fusions,
}

/// Whether a node only renames elements of one source.
pub fn is_view(g: &Graph, id: Id) -> bool {
    matches!(g.op(id), Op::Reshape | Op::Permute(_) | Op::Expand | Op::Slice { .. } | Op::Prefix(_))
}

/// The node under any views.
pub fn base(g: &Graph, mut id: Id) -> Id {
    while is_view(g, id) {
        id = g.src(id)[0];
    }
    id
}

/// Elements of a value at most: symbols count as their upper bound.
pub fn volume(g: &mut Graph, id: Id) -> i64 {
    let shape = g.shape(id).to_vec();
    shape.iter().fold(1i64, |v, &d| v.saturating_mul(ir::index::bounds(g, d).1))
}

/// Elements of a value: symbols count as what they usually are.
pub fn usual_volume(g: &mut Graph, id: Id) -> i64 {
    let shape = g.shape(id).to_vec();
    shape.iter().fold(1i64, |v, &d| v.saturating_mul(ir::index::usual(g, d)))
}

impl Roles {
    /// Assigns roles to everything under `roots`.
    pub fn of(g: &mut Graph, roots: &[Id], fusions: &Fusions) -> Roles {
        let live = g.toposort(roots);
        let mut users: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
        for &id in &live {
            for &s in g.src(id) {
                users.entry(s).or_default().push(id);
            }
        }
        let mut roles = Roles {
            live,
            users,
            free: Default::default(),
            inline: Default::default(),
            heavy: Default::default(),
            merge: Default::default(),
            outputs: roots.iter().map(|&r| base(g, r)).collect(),
            unpacked: Default::default(),
            fusions: fusions.clone(),
        };
        roles.mark_free(g);
        if roles.fusions.unpack_once {
            roles.unmark_repeated(g);
        }
        // Embeddings are known once operands are; what reads them is then no
        // longer a body of free values, so that the marks are made anew.
        loop {
            for id in roles.live.clone() {
                if matches!(g.op(id), Op::Reduce(..)) && !roles.merge.contains(&id) {
                    roles.mark_reduction(g, id);
                }
            }
            let free = roles.free.len();
            roles.unmark_embeddings(g);
            if roles.free.len() == free {
                break;
            }
            roles.inline.clear();
            roles.heavy.clear();
        }
        // What the host reads is computed, however cheap.
        for &r in roots {
            let r = base(g, r);
            if !matches!(g.op(r), Op::Param { .. } | Op::State { .. }) {
                roles.free.remove(&r);
                roles.inline.remove(&r);
            }
        }
        roles
    }

    fn mark_free(&mut self, g: &Graph) {
        for &id in &self.live {
            let all_free = g.src(id).iter().all(|s| self.free.contains(s));
            let free = match g.op(id) {
                Op::Const(_) | Op::Var { .. } | Op::Param { .. } | Op::State { .. } | Op::Iota => true,
                // Rows of a state that this step has updated are still views of it.
                Op::Gather => {
                    self.free.contains(&g.src(id)[1])
                        && (all_free || matches!(g.op(base(g, g.src(id)[0])), Op::Scatter))
                }
                Op::Dequant(..) | Op::Cast | Op::Where => all_free,
                Op::Unary(UnOp::Sin | UnOp::Cos) if !self.fusions.tables => all_free,
                Op::Unary(UnOp::Exp | UnOp::Sin | UnOp::Cos | UnOp::Sqrt | UnOp::Rsqrt | UnOp::Recip | UnOp::Round) => {
                    false
                }
                Op::Unary(_) => all_free,
                Op::Binary(op) => all_free && !(*op == BinOp::Div && g.dtype(id).is_float()),
                _ if is_view(g, id) => all_free,
                _ => false,
            };
            if free {
                self.free.insert(id);
            }
        }
        for &id in &self.live {
            let loops = matches!(g.op(id), Op::Fold { .. } | Op::Recur { .. });
            let inside = g.src(id).iter().any(|s| self.merge.contains(s)) && !loops;
            if matches!(g.op(id), Op::Arg(_)) || inside {
                self.merge.insert(id);
                self.free.remove(&id);
            }
        }
    }

    /// Finds the inlined body of a reduction, if it has one.
    fn mark_reduction(&mut self, g: &mut Graph, reduce: Id) {
        let body = g.src(reduce)[0];
        let full = volume(g, body);
        let (mut cone, mut grows, mut weights, mut nested): (Vec<Id>, bool, bool, Vec<Id>) =
            (vec![], false, false, vec![]);
        let inlined = walk::try_reach([body], |id, more| {
            if self.free.contains(&id) {
                weights |= reads_tensor(g, id) && volume(g, id) >= 256;
                return Ok(());
            }
            let op = g.op(id).clone();
            if op == Op::Expand && volume(g, g.src(id)[0]) < volume(g, id) {
                cone.push(id);
                grows = true;
                let all = base(g, id);
                weights |= self.unpacked.contains(&all);
                let halves = self.fusions.halves_in_place && lies_as_halves(g, all)
                    || self.fusions.chosen_halves && is_chosen_halves(g, all);
                if halves || self.chooses_rows(g, all) {
                    more.push(g.src(id)[0]);
                }
            } else if self.chooses_rows(g, id) {
                // Read in place.
                cone.push(id);
                weights = true;
            } else if (op.is_elementwise() || is_view(g, id)) && !self.unpacked.contains(&id) {
                cone.push(id);
                more.extend(g.src(id));
            } else if matches!(op, Op::Reduce(..))
                && g.dtype(id) == DType::I32
                && self.heavy.contains(&id)
                && self.users[&id].len() == 1
            {
                nested.push(id);
            } else if volume(g, id) >= full {
                return Err(()); // reads a value of its own size: nothing to inline
            }
            Ok(())
        });
        if inlined.is_err() {
            return;
        }
        if !nested.is_empty() {
            // An integer dot inside a sum over blocks: one contraction.
            for n in &nested {
                self.heavy.remove(n);
                self.inline.insert(*n);
            }
            weights = true;
            grows = true;
        }
        if grows {
            self.inline.extend(cone);
            if weights {
                self.heavy.insert(reduce);
            }
        }
    }

    /// Whether a node is rows of a tensor that a computed index chooses.
    fn chooses_rows(&self, g: &Graph, id: Id) -> bool {
        self.fusions.in_place
            && *g.op(id) == Op::Gather
            && reads_tensor(g, g.src(id)[0])
            && self.free.contains(&g.src(id)[0])
            && !self.free.contains(&g.src(id)[1])
    }

    /// Operands that a sum reads many times over are worth converting once: rows of a state to f32, and weights in blocks or
    /// of 16 bits that the sum does not run along, which no dot takes.
    fn unmark_repeated(&mut self, g: &mut Graph) {
        for id in self.live.clone() {
            let Op::Reduce(ReduceOp::Sum, axes) = g.op(id).clone() else { continue };
            let body = g.src(id)[0];
            let summed = (0..g.shape(body).len()).map(|d| axes.contains(&d)).collect();
            let mut stack: Vec<(Id, Vec<bool>, bool)> = vec![(body, summed, false)];
            while let Some((id, summed, repeated)) = stack.pop() {
                let repeated = repeated
                    || *g.op(id) == Op::Expand && volume(g, id) >= REPEATS.saturating_mul(volume(g, g.src(id)[0]));
                if repeated && self.free.contains(&id) {
                    let convert = match g.op(id) {
                        Op::Cast if self.fusions.halves_in_place && g.dtype(g.src(id)[0]) == DType::F16 => false,
                        Op::Cast if g.dtype(id) == DType::F32 && reads_state(g, id) => true,
                        // Weights, packed or of 16 bits.
                        Op::Cast if !matches!(g.op(g.src(id)[0]), Op::Param { .. }) => false,
                        Op::Cast | Op::Dequant(_, Part::Value) => summed.last() == Some(&false),
                        _ => false,
                    };
                    if convert {
                        self.unpacked.insert(id);
                        continue;
                    }
                }
                if let Some(next) = summed_below(g, id, &summed) {
                    stack.extend(next.into_iter().map(|(src, summed)| (src, summed, repeated)));
                }
            }
        }
        self.free.retain(|id| !self.unpacked.contains(id));
        self.free_is_made_of_free(g);
    }

    /// Nothing that is made of computed values is free.
    fn free_is_made_of_free(&mut self, g: &Graph) {
        for &id in &self.live {
            let computed = |s: &Id| !self.free.contains(s) && !matches!(g.op(base(g, *s)), Op::Scatter);
            if self.free.contains(&id) && g.src(id).iter().any(computed) {
                self.free.remove(&id);
            }
        }
    }

    /// Rows of packed weights that are used as data (an embedding) are worth
    /// computing once.
    fn unmark_embeddings(&mut self, g: &Graph) {
        let mut data: FxHashSet<Id> = FxHashSet::default();
        for &id in self.live.iter().rev() {
            if !self.free.contains(&id) || !matches!(g.op(id), Op::Gather | Op::Cast) || !unpacks(g, id) {
                continue;
            }
            let operand = self.users.get(&id).is_some_and(|u| u.iter().all(|u| self.is_operand(g, *u)));
            if !operand {
                data.insert(id);
            }
        }
        for &id in &data {
            self.free.remove(&id);
        }
        self.free_is_made_of_free(g);
    }

    fn is_operand(&self, g: &Graph, id: Id) -> bool {
        if self.inline.contains(&id) {
            return true;
        }
        if matches!(g.op(id), Op::Reduce(..)) {
            return self.heavy.contains(&id);
        }
        let moved = is_view(g, id) || *g.op(id) == Op::Gather;
        let through = self.free.contains(&id) && (moved || g.op(id).is_elementwise());
        through && self.users.get(&id).is_some_and(|u| u.iter().all(|u| self.is_operand(g, *u)))
    }
}

/// Times that an operand is read before it is worth converting it once.
const REPEATS: i64 = 32;

/// Whether a node is rows of a state under views, gathers and casts.
pub(crate) fn reads_state(g: &Graph, id: Id) -> bool {
    match g.op(id) {
        Op::State { .. } | Op::Scatter => true,
        Op::Gather | Op::Cast => reads_state(g, g.src(id)[0]),
        _ => is_view(g, id) && reads_state(g, g.src(id)[0]),
    }
}

/// The halves of a node that converts some, without views.
fn halves_of(g: &Graph, id: Id) -> Option<Id> {
    let converts = *g.op(id) == Op::Cast && g.dtype(g.src(id)[0]) == DType::F16;
    converts.then(|| base(g, g.src(id)[0]))
}

/// Whether a node is halves, converted, that lie in memory because their author asked for it.
pub(crate) fn lies_as_halves(g: &Graph, id: Id) -> bool {
    halves_of(g, id).is_some_and(|halves| *g.op(halves) == Op::Fence)
}

/// Whether a node is halves, converted, that an index chooses among computed ones, and that lie in memory for that.
fn is_chosen_halves(g: &Graph, id: Id) -> bool {
    let of_computed = |all: Id| !reads_state(g, all) && !matches!(g.op(all), Op::Fence | Op::Param { .. });
    halves_of(g, id).is_some_and(|halves| *g.op(halves) == Op::Gather && of_computed(base(g, g.src(halves)[0])))
}

/// The sources of a node and which of their dimensions a sum runs along, given those of the node; `None` where a
/// dimension cannot be told.
pub(crate) fn summed_below(g: &mut Graph, id: Id, summed: &[bool]) -> Option<Vec<(Id, Vec<bool>)>> {
    let sources = g.src(id).to_vec();
    let all = |summed: Vec<bool>| sources.iter().map(|&s| (s, summed.clone())).collect();
    match g.op(id).clone() {
        op if op.is_elementwise() => Some(all(summed.to_vec())),
        Op::Expand | Op::Slice { .. } => Some(all(summed.to_vec())),
        Op::Permute(p) => {
            let mut below = vec![false; p.len()];
            p.iter().zip(summed).for_each(|(&d, &s)| below[d] = s);
            Some(all(below))
        }
        Op::Reshape => {
            let (from, to) = (g.shape(sources[0]).to_vec(), g.shape(id).to_vec());
            let mut below = vec![false; from.len()];
            for (f, t) in ir::index::reshape_groups(g, &from, &to) {
                let mut flags: Vec<bool> = t.filter(|&i| g.as_int(to[i]) != Some(1)).map(|i| summed[i]).collect();
                flags.dedup();
                match flags[..] {
                    [] => {}
                    [flag] => f.for_each(|i| below[i] = flag),
                    _ => return None,
                }
            }
            Some(all(below))
        }
        _ => None,
    }
}

fn reads_tensor(g: &Graph, id: Id) -> bool {
    match g.op(id) {
        Op::Param { .. } | Op::State { .. } | Op::Scatter => true,
        Op::Gather => reads_tensor(g, g.src(id)[0]),
        Op::Dequant(..) | Op::Cast => reads_tensor(g, g.src(id)[0]),
        op if op.is_elementwise() => g.src(id).iter().any(|&s| reads_tensor(g, s)),
        _ if is_view(g, id) => reads_tensor(g, g.src(id)[0]),
        _ => false,
    }
}

fn unpacks(g: &Graph, id: Id) -> bool {
    match g.op(id) {
        Op::Dequant(..) => true,
        Op::Gather => {
            g.dtype(id).is_float()
                && g.shape(id).len() > 1
                && (unpacks(g, g.src(id)[0]) || matches!(g.op(base(g, g.src(id)[0])), Op::Param { .. }))
        }
        Op::Cast => unpacks(g, g.src(id)[0]),
        _ if is_view(g, id) => unpacks(g, g.src(id)[0]),
        _ => false,
    }
}

/// The body of the integer dot inside a sum over blocks, if there is one, and whether weights are packed.
pub fn dot_under(g: &Graph, home: &FxHashMap<Id, usize>, body: Id) -> (Option<Id>, bool) {
    let (mut dot, mut packed) = (None, false);
    walk::reach([body], |id, more| {
        if home.contains_key(&id) {
            return;
        }
        packed |= matches!(g.op(id), Op::Dequant(..));
        if matches!(g.op(id), Op::Reduce(..)) && g.dtype(id) == DType::I32 {
            dot = Some(g.src(id)[0]);
        }
        more.extend(g.src(id));
    });
    (dot, packed)
}
