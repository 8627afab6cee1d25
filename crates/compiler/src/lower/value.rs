//! Values as expressions: the element of a tensor at an index. Movement vanishes here.

use super::Lowering;
use ir::{Axis, BinOp, DType, Graph, Id, Op, index};

impl Lowering<'_> {
    /// The element of a tensor at a global index, as a kernel expression.
    pub(super) fn value(&mut self, g: &mut Graph, id: Id, at: &[Id]) -> Id {
        if let Some(&s) = self.stash.get(&id) {
            let i = self.scratch_index(g, id, at);
            return g.load(s, i, 1);
        }
        let key = (id, at.to_vec());
        if let Some(&v) = self.memo.get(&key) {
            return v;
        }
        let elsewhere = self.s.home.contains_key(&id) && !self.is_member(id);
        let v = if elsewhere {
            let memory = self.memory_of(g, id);
            let buffer = self.slot(g, memory, false);
            let shape = g.shape(id).to_vec();
            let i = index::flatten(g, &shape, at);
            g.load(buffer, i, 1)
        } else {
            self.define(g, id, at)
        };
        self.memo.insert(key, v);
        v
    }

    /// The defining expression of a tensor at a global index.
    pub(super) fn define(&mut self, g: &mut Graph, id: Id, at: &[Id]) -> Id {
        let n = g.node(id).clone();
        match n.op {
            Op::Const(c) => g.constant(c, n.ty.base),
            Op::Var { .. } => id,
            Op::Iota => g.cast(at[0], DType::I32),
            Op::Param { .. } | Op::State { .. } => {
                let b = self.slot(g, id, false);
                let i = index::flatten(g, &n.shape, at);
                g.load(b, i, 1)
            }
            Op::Unary(op) => {
                let a = self.value(g, n.src[0], at);
                g.unary(op, a)
            }
            Op::Binary(op) => {
                let a = self.value(g, n.src[0], at);
                let b = self.value(g, n.src[1], at);
                g.binary(op, a, b)
            }
            Op::Where => {
                let c = self.value(g, n.src[0], at);
                let a = self.value(g, n.src[1], at);
                let b = self.value(g, n.src[2], at);
                g.select(c, a, b)
            }
            Op::Fence | Op::Prefix(_) => self.value(g, n.src[0], at),
            Op::Cast => {
                let a = self.value(g, n.src[0], at);
                g.cast(a, n.ty.base)
            }
            Op::Reshape => {
                let from = g.shape(n.src[0]).to_vec();
                let i = index::reshape(g, &from, &n.shape, at);
                self.value(g, n.src[0], &i)
            }
            Op::Permute(p) => {
                let mut i = at.to_vec();
                for (d, &s) in p.iter().enumerate() {
                    i[s] = at[d];
                }
                self.value(g, n.src[0], &i)
            }
            Op::Expand => {
                let from = g.shape(n.src[0]).to_vec();
                let zero = g.int(0);
                let i: Vec<Id> = (0..at.len()).map(|d| if from[d] == n.shape[d] { at[d] } else { zero }).collect();
                self.value(g, n.src[0], &i)
            }
            Op::Slice { axis, start } => {
                let mut i = at.to_vec();
                let s = g.int(start);
                i[axis] = g.add(i[axis], s);
                self.value(g, n.src[0], &i)
            }
            Op::Concat(axis) => {
                let mut start = g.int(0);
                let mut acc: Option<Id> = None;
                for &p in &n.src {
                    let extent = g.shape(p)[axis];
                    let mut i = at.to_vec();
                    let inner = g.sub(at[axis], start);
                    i[axis] = clamp(g, inner, extent);
                    let v = self.value(g, p, &i);
                    let from_here = g.binary(BinOp::Lt, at[axis], start);
                    acc = Some(match acc {
                        None => v,
                        Some(a) => g.select(from_here, a, v),
                    });
                    start = g.add(start, extent);
                }
                acc.unwrap()
            }
            Op::Gather => {
                let (table, idx) = (n.src[0], n.src[1]);
                let r = g.shape(idx).len();
                let row = self.value(g, idx, &at[..r]);
                let row = g.cast(row, DType::Index);
                let extent = g.shape(table)[0];
                let row = clamp(g, row, extent);
                let mut i = vec![row];
                i.extend_from_slice(&at[r..]);
                self.value(g, table, &i)
            }
            Op::Dequant(f, part) => self.dequant(g, n.src[0], f, part, at),
            Op::Reduce(op, axes) => {
                let src = n.src[0];
                let shape = g.shape(src).to_vec();
                let mut ranges = vec![];
                let mut it = at.iter();
                let i: Vec<Id> = (0..shape.len())
                    .map(|d| {
                        if axes.contains(&d) {
                            // A product is a sum, even of one term: a row of one block.
                            if g.as_int(shape[d]) == Some(1) && !(axes.len() == 1 && self.s.roles.heavy.contains(&id)) {
                                return g.int(0);
                            }
                            let r = self.range(g, Axis::Loop, shape[d]);
                            ranges.push(r);
                            r
                        } else {
                            *it.next().unwrap()
                        }
                    })
                    .collect();
                let body = self.value(g, src, &i);
                if ranges.is_empty() {
                    return body;
                }
                let mut s = vec![body];
                s.extend(ranges);
                g.make(Op::Reduce(op, vec![]), n.ty, vec![], s)
            }
            Op::Arg(k) => self.arg(g, k, at),
            op => panic!("{op:?} is lowered by its own pass"),
        }
    }
}

/// An index held inside `0 .. extent`.
pub(super) fn clamp(g: &mut Graph, i: Id, extent: Id) -> Id {
    let one = g.int(1);
    let top = g.sub(extent, one);
    let zero = g.int(0);
    let i = g.binary(BinOp::Min, i, top);
    g.binary(BinOp::Max, i, zero)
}
