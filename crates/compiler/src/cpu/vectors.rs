//! Paths in vectors: lanes along the output or along the sum, several sums side by side.

use crate::cpu::plan::Plan;
use crate::kernel::emitter::Emitter;
use crate::kernel::expression::{collect_loads, combine, depends, first_lane, has_reduction, or_last, replace};
use crate::kernel::lane_order::lane_order;
use crate::kernel::superword::{Packer, splat};
use crate::kernel::transpose::sums_of_rows;
use crate::lower::{Item, identity};
use ir::index::{Linear, bounds, is_multiple};
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Space, Type};
use rustc_hash::FxHashMap;

/// Writes a kernel for a core, by its plan.
pub(super) type Tiler = Emitter<Plan>;

impl Emitter<Plan> {
    /// New scratch of a task.
    pub(super) fn stash(&mut self, g: &mut Graph, ty: DType, len: usize) -> Id {
        self.scratch(g, Space::Task, ty, len)
    }

    /// The number of lanes of a vector of 32-bit values.
    pub(super) fn lanes(&self) -> i64 {
        (self.target.vector_bytes / 4) as i64
    }

    /// `expr` at `range = r * n + lane` as a vector, and the index of the first
    /// lane if consecutive lanes have consecutive indices.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    pub(super) fn pack_along(
        &mut self,
        g: &mut Graph,
        range: Id,
        r: Id,
        n: i64,
        expr: Id,
        index: Option<Id>,
        most_gathers: usize,
    ) -> Option<(Id, Option<Id>)> {
        let lanes = self.copies(g, expr, range, r, n);
        let mut p = Packer::default();
        let v = p.pack_vector(g, &lanes)?;
        if p.gathered >= most_gathers {
            return None;
        }
        let first = match index {
            None => None,
            Some(i) => Some(first_lane(g, i, range, r, n)?),
        };
        Some((v, first))
    }

    /// `expr` at `range = r * n + i` for each `i` below `n`.
    pub(super) fn copies(&mut self, g: &mut Graph, expr: Id, range: Id, r: Id, n: i64) -> Vec<Id> {
        (0..n)
            .map(|i| {
                let (k, i) = (g.int(n), g.int(i));
                let at = g.mul(r, k);
                let at = g.add(at, i);
                replace(g, expr, range, at)
            })
            .collect()
    }

    /// One element a lane, along the last dimension.
    pub(super) fn vector_map(&mut self, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
        let (&last, outer) = item.dims.split_last()?;
        let extent = g.src(last)[0];
        let mut n = self.lanes();
        while n > 1 && !is_multiple(g, extent, n) {
            n /= 2;
        }
        if n < 4 || has_reduction(g, item.value) {
            return None;
        }
        let r = self.rounds(g, extent, n);
        let (value, index) = self.pack_along(g, last, r, n, item.value, Some(item.index), 1)?;
        let st = self.store(g, item.buffer, index?, value);
        let mut dims = outer.to_vec();
        dims.push(r);
        Some(self.nest(g, &dims, vec![st]))
    }

    /// Lanes along the innermost summed dimension, several sums side by side. What is `made` of each element is stored as it
    /// is added.
    pub(super) fn lanes_along_reduction(
        &mut self,
        g: &mut Graph,
        item: &Item,
        op: ReduceOp,
        made: Option<&Item>,
    ) -> Option<Vec<Id>> {
        let src = g.src(item.value).to_vec();
        let (body, ranges) = (src[0], &src[1..]);
        if has_reduction(g, body) || self.target.vector_bytes == 0 {
            return None;
        }
        let &k = ranges.last()?;
        let extent = g.as_int(g.src(k)[0])?;
        let ty = g.dtype(item.value);
        // Few lanes, or many when only a whole block has affine addresses.
        let mut n = self.lanes();
        while n > 1 && extent % n != 0 {
            n /= 2;
        }
        if n < 4 {
            return None;
        }
        let mut width = n;
        let (r, steps) = loop {
            if width > 512 || extent % width != 0 {
                return None;
            }
            let r = self.counted(g, extent / width);
            let all = self.copies(g, body, k, r, width);
            let order = lane_order(g, &all, n as usize).unwrap_or_else(|| (0..all.len()).collect());
            let mut p = Packer::default();
            let steps: Option<Vec<Id>> = order
                .chunks(n as usize)
                .map(|c| {
                    let lanes: Vec<Id> = c.iter().map(|&u| all[u]).collect();
                    p.pack_vector(g, &lanes)
                })
                .collect();
            match steps {
                Some(s) if p.gathered == 0 => break (r, s),
                _ => width *= 2,
            }
        };
        let made = match made {
            Some(made) if width == n => {
                let (value, first) = self.pack_along(g, k, r, n, made.value, Some(made.index), 1)?;
                Some((made.buffer, first?, value))
            }
            Some(_) => return None,
            None => None,
        };
        let trips = extent / width;
        let vector = Type::vector(ty, n as usize);
        // Side by side: dimensions along which loads repeat.
        let (unrolled, dims) = self.unroll(g, &item.dims, body, self.target.sums());
        let copies = expand_copies(g, &unrolled);
        // What is stored takes registers, too.
        let sums = if made.is_some() { 4 } else { 8 };
        let mut chains = self.target.chains.min(sums / copies.len().max(1) as i64).max(1);
        while trips % chains != 0 {
            chains -= 1;
        }
        let mut chains = if steps.len() > 1 { 1 } else { chains };
        let mut loop_range = r;
        let mut rounds = vec![r];
        if chains > 1 {
            loop_range = self.counted(g, trips / chains);
            rounds = (0..chains)
                .map(|c| {
                    let (kc, c) = (g.int(chains), g.int(c));
                    let at = g.mul(loop_range, kc);
                    g.add(at, c)
                })
                .collect();
        } else {
            chains = 1;
        }
        let per_trip: Vec<Vec<Id>> =
            rounds.iter().map(|&at| steps.iter().map(|&s| replace(g, s, r, at)).collect()).collect();
        let start = g.constant(identity(op, ty), ty);
        let start = splat(g, start, n as usize);
        let (mut first, mut kept, mut update, mut totals, mut stores) = (vec![], vec![], vec![], vec![], vec![]);
        for c in &copies {
            let accs: Vec<Id> = (0..chains).map(|_| self.acc(g, vector)).collect();
            for ((acc, steps), &at) in accs.iter().zip(&per_trip).zip(&rounds) {
                first.push((*acc, start));
                let mut next = *acc;
                for &s in steps {
                    let s = g.substitute(s, &mut c.clone());
                    next = combine(g, op, next, s);
                }
                if let Some((buffer, index, value)) = made {
                    let [index, value] = [index, value].map(|e| {
                        let e = replace(g, e, r, at);
                        g.substitute(e, &mut c.clone())
                    });
                    let held = self.acc(g, g.ty(value));
                    kept.push((held, value));
                    next = replace(g, next, value, held);
                    stores.push(self.store(g, buffer, index, held));
                }
                update.push((*acc, next));
            }
            let total = accs[1..].iter().fold(accs[0], |t, &a| combine(g, op, t, a));
            totals.push((g.substitute(item.index, &mut c.clone()), total));
        }
        let last = self.store_across(g, item.buffer, op, &totals, unrolled.first().map_or(1, |u| u.2 as usize));
        let mut stmts = vec![self.set(g, first)];
        let made = made.map(|_| self.set(g, kept));
        let body = made.into_iter().chain([self.set(g, update)]).chain(stores).collect();
        let mut inner = ranges[..ranges.len() - 1].to_vec();
        inner.push(loop_range);
        stmts.extend(self.nest(g, &inner, body));
        stmts.extend(last);
        Some(self.nest(g, &dims, stmts))
    }

    /// Stores what the lanes of each vector come to at its index. `side` of the vectors, which are as far apart in the
    /// list as there are others between them, may belong side by side.
    fn store_across(&self, g: &mut Graph, buffer: Id, op: ReduceOp, all: &[(Id, Id)], side: usize) -> Vec<Id> {
        let others = all.len() / side;
        let mut stmts = vec![];
        for i in 0..others {
            let run: Vec<(Id, Id)> = all.iter().copied().skip(i).step_by(others).collect();
            let at: Vec<Linear> = run.iter().map(|&(index, _)| Linear::of(g, index)).collect();
            let beside = at.windows(2).all(|w| w[0].terms == w[1].terms && w[0].constant + 1 == w[1].constant);
            let lanes = usize::from(g.ty(run[0].1).lanes);
            if op == ReduceOp::Sum && beside && side >= 4 && side.is_power_of_two() && side <= lanes {
                let rows: Vec<Id> = run.iter().map(|r| r.1).collect();
                let sums = sums_of_rows(g, &rows);
                stmts.push(self.store(g, buffer, run[0].0, sums));
                continue;
            }
            for (index, vector) in run {
                let ty = g.dtype(vector);
                let total = g.make(Op::Across(op), ty, vec![], vec![vector]);
                stmts.push(self.store(g, buffer, index, total));
            }
        }
        stmts
    }

    /// Lanes along the last dimension of the output; the sum is a plain loop.
    pub(super) fn lanes_along_output(&mut self, g: &mut Graph, item: &Item, op: ReduceOp) -> Option<Vec<Id>> {
        let src = g.src(item.value).to_vec();
        let (body, ranges) = (src[0], &src[1..]);
        let (&last_dim, outer) = item.dims.split_last()?;
        let extent = g.as_int(g.src(last_dim)[0])?;
        let mut n = self.lanes();
        while n > 1 && extent % n != 0 {
            n /= 2;
        }
        if n < 4 || has_reduction(g, body) {
            return None;
        }
        let ty = g.dtype(item.value);
        let r = self.counted(g, extent / n);
        let (value, index) = self.pack_along(g, last_dim, r, n, body, Some(item.index), 1)?;
        let index = index?;
        let mut dims = outer.to_vec();
        dims.push(r);
        let (unrolled, dims) = self.unroll(g, &dims, value, self.target.sums());
        let copies = expand_copies(g, &unrolled);
        let start = g.constant(identity(op, ty), ty);
        let start = splat(g, start, n as usize);
        let (mut first, mut update, mut last) = (vec![], vec![], vec![]);
        for c in &copies {
            let acc = self.acc(g, Type::vector(ty, n as usize));
            first.push((acc, start));
            let v = g.substitute(value, &mut c.clone());
            let next = combine(g, op, acc, v);
            update.push((acc, next));
            let i = g.substitute(index, &mut c.clone());
            last.push(self.store(g, item.buffer, i, acc));
        }
        let mut stmts = vec![self.set(g, first)];
        let body = vec![self.set(g, update)];
        stmts.extend(self.nest(g, ranges, body));
        stmts.extend(last);
        Some(self.nest(g, &dims, stmts))
    }

    /// Picks dimensions to repeat in registers: those along which some load of
    /// `body` does not move. At most `budget` copies; returns replacements for each dimension and the new loops.
    fn unroll(&mut self, g: &mut Graph, dims: &[Id], body: Id, mut budget: i64) -> (Vec<(Id, Id, i64)>, Vec<Id>) {
        let mut loads = vec![];
        collect_loads(g, body, &mut loads);
        let mut unrolled = vec![];
        let mut out = dims.to_vec();
        for (i, &d) in dims.iter().enumerate().rev() {
            let extent = g.src(d)[0];
            let fixed = loads.iter().filter(|&&l| !depends(g, l, d)).count();
            let moving = loads.len() - fixed;
            if fixed == 0 || moving == 0 || budget < 2 || unrolled.len() == 2 {
                continue;
            }
            let most = if unrolled.is_empty() { self.target.rows } else { budget };
            // Of a number that is not known, the last rows are computed twice.
            let u = match g.as_int(extent) {
                Some(n) => (2..=most.min(budget)).rev().find(|u| n % u == 0),
                None => Some(most.min(budget)).filter(|_| bounds(g, extent).1 > 1),
            };
            let Some(u) = u else { continue };
            let (k, up) = (g.int(u), g.int(u - 1));
            let up = g.add(extent, up);
            let times = g.binary(BinOp::Div, up, k);
            let r = self.range(g, times);
            unrolled.push((d, r, u));
            out[i] = r;
            budget /= u;
        }
        if let [(a, by_a, _), (b, by_b, _)] = unrolled[..] {
            // The inner loop streams an operand past one that stays near: rather the narrower one.
            let bytes = |d: Id, other: Id| -> usize {
                let own = loads.iter().filter(|&&l| depends(g, l, d) && !depends(g, l, other));
                own.map(|&l| g.ty(l).bytes()).sum()
            };
            if bytes(a, b) > bytes(b, a) && !depends(g, g.src(by_b)[0], by_a) && !depends(g, g.src(by_a)[0], by_b) {
                let at = [by_a, by_b].map(|r| out.iter().position(|&d| d == r).expect("a dimension"));
                out.swap(at[0], at[1]);
            }
        }
        (unrolled, out)
    }
}

/// Every combination of unrolled offsets, as replacements of the dimensions.
pub(super) fn expand_copies(g: &mut Graph, unrolled: &[(Id, Id, i64)]) -> Vec<FxHashMap<Id, Id>> {
    let mut all = vec![FxHashMap::default()];
    for &(d, r, u) in unrolled {
        let mut next = vec![];
        for m in &all {
            for i in 0..u {
                let (k, i) = (g.int(u), g.int(i));
                let at = g.mul(r, k);
                let mut at = g.add(at, i);
                if g.as_int(g.src(d)[0]).is_none_or(|n| n % u != 0) {
                    at = or_last(g, at, d);
                }
                let mut m: FxHashMap<Id, Id> = m.clone();
                m.insert(d, at);
                next.push(m);
            }
        }
        all = next;
    }
    all
}
