//! From a nest to a kernel: which loops become lanes, which are unrolled, and
//! how reductions are accumulated.
//!
//! A [`Plan`] says how wide and how far; every plan gives the same result up to
//! the order of sums. Which path an item took is written to the decision log.

use crate::dot;
use crate::exchange;
use crate::lower::{Item, Nest, identity};
use crate::matmul;
use crate::product;
use crate::shared::converted_once;
use crate::slp::{Packer, splat};
use crate::transpose::sums_of_rows;
use ir::index::{Linear, bounds};
use ir::{Axis, BinOp, Const, DType, Graph, Id, Op, ReduceOp, Type};
use rustc_hash::FxHashMap;

/// Widths and unrolling of a target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Bytes of a vector; 0 keeps everything scalar.
    pub vector_bytes: usize,
    /// Rows of a matrix that are multiplied side by side.
    pub rows: i64,
    /// As `rows`, for packed weights that a step reads once: several streams
    /// through memory can be slower than one.
    pub streams: i64,
    /// Accumulators of a reduction along lanes.
    pub chains: i64,
    /// Bytes ahead that weights are asked for, into the second cache where they are asked for again; 0 never.
    pub prefetch: i64,
    /// Bytes ahead that they are asked for again, into the nearest cache, which holds little and takes few requests at a
    /// time; 0 for once only.
    pub near: i64,
    /// Tokens of a step that are multiplied side by side with unpacked weights,
    /// a power of two; 1 never.
    pub tokens: i64,
    /// Whether there is a matrix unit for [`Op::Product`]; rows of block formats are then multiplied in bf16 where a
    /// step has many tokens.
    pub product: bool,
    /// Whether sums of products of codes become packed integer dots.
    pub dots: bool,
    /// Whether products of codes are summed by twos in 16 bits first, as far as they fit: machines whose packed products
    /// add no more than two.
    pub pairs: bool,
    /// Whether sums of several groups share a vector before they are scaled, where they are in 16 bits.
    pub hadd: bool,
    /// Whether factors that are made of bits of several bytes stay bytes until they are whole.
    pub fours: bool,
    /// Whether words that lie apart are blended from wide loads, in vectors of 64 bytes.
    pub blends: bool,
    /// Whether two vectors of codes exchange halves of their groups, so that one conversion and one factor serve both.
    pub halves: bool,
    /// Fewer tokens than this are multiplied with rows as they come, which are unpacked once for a few of them and laid
    /// out for none; 0 never, so that a token's sums have the same order whatever is beside it.
    pub few: i64,
    /// Whether long sums are cut, so that their inputs and rows that are laid out stay in a near cache.
    pub panels: bool,
    /// Whether values that lie along another dimension than their results are transposed in registers.
    pub exchange: bool,
}

impl Plan {
    /// Vectors of sums that are kept side by side: half of the registers, so that a load of either operand serves
    /// several.
    fn sums(&self) -> i64 {
        self.rows * if self.vector_bytes >= 64 { 4 } else { 2 }
    }

    /// No vectors, no unrolling: the plainest kernel.
    pub fn scalar() -> Plan {
        Plan {
            vector_bytes: 0,
            rows: 1,
            streams: 1,
            chains: 1,
            prefetch: 0,
            near: 0,
            tokens: 1,
            product: false,
            dots: true,
            pairs: false,
            hadd: true,
            fours: true,
            blends: true,
            halves: true,
            few: 0,
            panels: true,
            exchange: true,
        }
    }
}

/// A kernel ready for a renderer or the interpreter.
#[derive(Clone, Debug)]
pub struct Body {
    /// A block of statements, run once for each task.
    pub root: Id,
    /// Scratch buffers.
    pub stashes: Vec<Id>,
    /// Number of tasks.
    pub tasks: Id,
    /// How each item was computed, and what was made for it before.
    pub paths: Vec<&'static str>,
    /// The same, one for each item of the nest, in its order.
    pub ways: Vec<Way>,
}

/// How an item was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The path that it took.
    pub path: &'static str,
    /// Why it is no integer dot, where that was tried.
    pub no_dot: Option<&'static str>,
}

/// Tiles a nest.
pub fn tile(g: &mut Graph, nest: &Nest, plan: &Plan) -> Body {
    let (stashes, paths) = (nest.stashes.clone(), vec![]);
    let mut t = Tiler { plan: plan.clone(), ranges: nest.ranges, accs: 0, stashes, paths, no_dot: None };
    let (mut root, mut ways) = (vec![], vec![]);
    for phase in &nest.phases {
        let mut stmts = vec![];
        for item in &phase.items {
            t.no_dot = None;
            t.item(g, item, &mut stmts);
            ways.extend(t.paths.last().map(|path| Way { path, no_dot: t.no_dot }));
        }
        match phase.serial {
            Some(r) => root.push(make_loop(g, r, stmts)),
            None => root.extend(stmts),
        }
    }
    let root = block(g, root);
    Body { root, stashes: t.stashes, tasks: nest.tasks, paths: t.paths, ways }
}

pub(crate) struct Tiler {
    pub(crate) plan: Plan,
    ranges: u32,
    accs: u32,
    stashes: Vec<Id>,
    pub(crate) paths: Vec<&'static str>,
    /// Why the last sum is no integer dot.
    no_dot: Option<&'static str>,
}

/// `for range { .. }`, or nothing if there is nothing to do.
pub(crate) fn make_loop(g: &mut Graph, range: Id, stmts: Vec<Id>) -> Id {
    let mut src = vec![range];
    src.extend(stmts);
    g.make(Op::Loop, DType::Index, vec![], src)
}

/// `plain` if there are fewer than `few` tokens, else `many`; nothing where there are no statements.
pub(crate) fn few_or_many(g: &mut Graph, tokens: Id, few: i64, plain: Vec<Id>, many: Vec<Id>) -> Vec<Id> {
    let (fewer, last) = (g.int(few), g.int(few - 1));
    [(tokens, fewer, plain), (last, tokens, many)]
        .into_iter()
        .filter(|(.., body)| !body.is_empty())
        .map(|(less, more, body)| {
            let condition = g.binary(BinOp::Lt, less, more);
            g.make(Op::If, DType::Index, vec![], [vec![condition], body].concat())
        })
        .collect()
}

pub(crate) fn block(g: &mut Graph, stmts: Vec<Id>) -> Id {
    g.make(Op::Block, DType::Index, vec![], stmts)
}

impl Tiler {
    pub(crate) fn range(&mut self, g: &mut Graph, extent: Id) -> Id {
        self.ranges += 1;
        g.range(self.ranges - 1, Axis::Loop, extent)
    }

    pub(crate) fn counted(&mut self, g: &mut Graph, n: i64) -> Id {
        let e = g.int(n);
        self.range(g, e)
    }

    pub(crate) fn acc(&mut self, g: &mut Graph, ty: impl Into<Type>) -> Id {
        self.accs += 1;
        g.make(Op::Acc(self.accs - 1), ty, vec![], vec![])
    }

    pub(crate) fn new_stash(&mut self, g: &mut Graph, ty: DType, len: usize) -> Id {
        let b = g.buffer(self.stashes.len() as u32, ir::Space::Task, ty, len);
        self.stashes.push(b);
        b
    }

    pub(crate) fn set(&self, g: &mut Graph, pairs: Vec<(Id, Id)>) -> Id {
        let src = pairs.into_iter().flat_map(|(a, v)| [a, v]).collect();
        g.make(Op::Set, DType::Index, vec![], src)
    }

    pub(crate) fn store(&self, g: &mut Graph, buffer: Id, index: Id, value: Id) -> Id {
        let want = g.dtype(buffer);
        let value = g.cast(value, want);
        g.make(Op::Store, DType::Index, vec![], vec![buffer, index, value])
    }

    /// `body` inside loops over `dims`, the first one outermost.
    pub(crate) fn nest(&self, g: &mut Graph, dims: &[Id], body: Vec<Id>) -> Vec<Id> {
        dims.iter().rev().fold(body, |b, &d| vec![make_loop(g, d, b)])
    }

    /// What `f` makes; if it makes nothing, the scratch that it has reserved is given back.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Tiler) -> Option<T>) -> Option<T> {
        let reserved = self.stashes.len();
        let made = f(self);
        if made.is_none() {
            self.stashes.truncate(reserved);
        }
        made
    }

    fn item(&mut self, g: &mut Graph, item: &Item, out: &mut Vec<Id>) {
        let stmts = match g.op(item.value).clone() {
            Op::Reduce(op, _) => {
                if let Some(s) = self.attempt(|t| product::block_product(t, g, item)) {
                    self.paths.push("block product");
                    s
                } else if let Some(s) = self.attempt(|t| matmul::register_tile(t, g, item)) {
                    self.paths.push("integer tile");
                    s
                } else if let Some(s) = self.dot(g, item) {
                    self.paths.push("integer dot");
                    s
                } else if let Some((write, item)) = self.attempt(|t| converted_once(t, g, item)) {
                    self.paths.push("vector map");
                    out.extend(write);
                    return self.item(g, &item, out);
                } else if let Some(s) = self.lanes_along_reduction(g, item, op) {
                    self.paths.push("vector reduction");
                    s
                } else if let Some(s) = self.lanes_along_output(g, item, op) {
                    self.paths.push("vector columns");
                    s
                } else {
                    self.paths.push("scalar reduction");
                    self.scalar_reduction(g, item, op)
                }
            }
            _ => {
                if let Some(s) = self.vector_map(g, item) {
                    self.paths.push("vector map");
                    s
                } else if let Some(s) = self.exchanged(g, item) {
                    self.paths.push("vector exchange");
                    s
                } else {
                    self.paths.push("scalar map");
                    let st = self.store(g, item.buffer, item.index, item.value);
                    let (value, mut pre) = self.hoist_reductions(g, item.value);
                    if pre.is_empty() {
                        self.nest(g, &item.dims, vec![st])
                    } else {
                        pre.push(self.store(g, item.buffer, item.index, value));
                        self.nest(g, &item.dims, pre)
                    }
                }
            }
        };
        out.extend(stmts);
    }

    fn dot(&mut self, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
        let made = if self.plan.dots { dot::integer_dot(self, g, item, None) } else { Err("the plan has no dots") };
        made.map_err(|why| self.no_dot = Some(why)).ok()
    }

    /// Replaces reductions inside an expression by accumulators that are
    /// computed before it.
    fn hoist_reductions(&mut self, g: &mut Graph, value: Id) -> (Id, Vec<Id>) {
        let mut found = vec![];
        find_reductions(g, value, &mut found);
        let mut pre = vec![];
        let mut map = FxHashMap::default();
        for r in found {
            let Op::Reduce(op, _) = *g.op(r) else { unreachable!() };
            let (acc, stmts) = self.accumulate(g, r, op);
            pre.extend(stmts);
            map.insert(r, acc);
        }
        if map.is_empty() {
            return (value, pre);
        }
        (g.substitute(value, &mut map), pre)
    }

    /// A plain loop that leaves a reduction in an accumulator.
    fn accumulate(&mut self, g: &mut Graph, reduce: Id, op: ReduceOp) -> (Id, Vec<Id>) {
        let src = g.src(reduce).to_vec();
        let ty = g.dtype(reduce);
        let acc = self.acc(g, ty);
        let start = g.constant(identity(op, ty), ty);
        let (body, mut pre) = self.hoist_reductions(g, src[0]);
        let next = combine(g, op, acc, body);
        pre.push(self.set(g, vec![(acc, next)]));
        let mut stmts = vec![self.set(g, vec![(acc, start)])];
        stmts.extend(self.nest(g, &src[1..], pre));
        (acc, stmts)
    }

    fn scalar_reduction(&mut self, g: &mut Graph, item: &Item, op: ReduceOp) -> Vec<Id> {
        let (acc, mut stmts) = self.accumulate(g, item.value, op);
        stmts.push(self.store(g, item.buffer, item.index, acc));
        self.nest(g, &item.dims, stmts)
    }

    fn exchanged(&mut self, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
        let may = self.plan.exchange && self.plan.vector_bytes > 0 && !has_reduction(g, item.value);
        may.then(|| exchange::squares(self, g, item)).flatten()
    }

    /// The number of lanes of a vector of 32-bit values.
    pub(crate) fn lanes(&self) -> i64 {
        (self.plan.vector_bytes / 4) as i64
    }

    /// One element a lane, along the last dimension.
    pub(crate) fn vector_map(&mut self, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
        let (&last, outer) = item.dims.split_last()?;
        let extent = g.as_int(g.src(last)[0])?;
        let mut n = self.lanes();
        while n > 1 && extent % n != 0 {
            n /= 2;
        }
        if n < 4 || has_reduction(g, item.value) {
            return None;
        }
        let r = self.counted(g, extent / n);
        let (value, index) = self.pack_along(g, last, r, n, item.value, Some(item.index), 1)?;
        let st = self.store(g, item.buffer, index?, value);
        let mut dims = outer.to_vec();
        dims.push(r);
        Some(self.nest(g, &dims, vec![st]))
    }

    /// `expr` at `range = r * n + lane` as a vector, and the index of the first
    /// lane if consecutive lanes have consecutive indices.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    pub(crate) fn pack_along(
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
    pub(crate) fn copies(&mut self, g: &mut Graph, expr: Id, range: Id, r: Id, n: i64) -> Vec<Id> {
        (0..n)
            .map(|i| {
                let (k, i) = (g.int(n), g.int(i));
                let at = g.mul(r, k);
                let at = g.add(at, i);
                replace(g, expr, range, at)
            })
            .collect()
    }

    /// Lanes along the innermost summed dimension, several sums side by side.
    pub(crate) fn lanes_along_reduction(&mut self, g: &mut Graph, item: &Item, op: ReduceOp) -> Option<Vec<Id>> {
        let src = g.src(item.value).to_vec();
        let (body, ranges) = (src[0], &src[1..]);
        if has_reduction(g, body) || self.plan.vector_bytes == 0 {
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
            let order = dot::lane_order(g, &all, n as usize).unwrap_or_else(|| (0..all.len()).collect());
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
        let trips = extent / width;
        let vector = Type::vector(ty, n as usize);
        // Side by side: dimensions along which loads repeat.
        let (unrolled, dims) = self.unroll(g, &item.dims, body, self.plan.sums());
        let copies = expand_copies(g, &unrolled);
        let mut chains = self.plan.chains.min(8 / copies.len().max(1) as i64).max(1);
        while trips % chains != 0 {
            chains -= 1;
        }
        let mut chains = if steps.len() > 1 { 1 } else { chains };
        let mut loop_range = r;
        let mut per_trip: Vec<Vec<Id>> = vec![steps.clone()];
        if chains > 1 {
            loop_range = self.counted(g, trips / chains);
            per_trip = (0..chains)
                .map(|c| {
                    let (kc, c) = (g.int(chains), g.int(c));
                    let at = g.mul(loop_range, kc);
                    let at = g.add(at, c);
                    steps.iter().map(|&s| replace(g, s, r, at)).collect()
                })
                .collect();
        } else {
            chains = 1;
        }
        let start = g.constant(identity(op, ty), ty);
        let start = splat(g, start, n as usize);
        let (mut first, mut update, mut totals) = (vec![], vec![], vec![]);
        for c in &copies {
            let accs: Vec<Id> = (0..chains).map(|_| self.acc(g, vector)).collect();
            for (acc, steps) in accs.iter().zip(&per_trip) {
                first.push((*acc, start));
                let mut next = *acc;
                for &s in steps {
                    let s = g.substitute(s, &mut c.clone());
                    next = combine(g, op, next, s);
                }
                update.push((*acc, next));
            }
            let total = accs[1..].iter().fold(accs[0], |t, &a| combine(g, op, t, a));
            totals.push((g.substitute(item.index, &mut c.clone()), total));
        }
        let last = self.store_across(g, item.buffer, op, &totals, unrolled.first().map_or(1, |u| u.2 as usize));
        let mut stmts = vec![self.set(g, first)];
        let body = vec![self.set(g, update)];
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
    fn lanes_along_output(&mut self, g: &mut Graph, item: &Item, op: ReduceOp) -> Option<Vec<Id>> {
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
        let (unrolled, dims) = self.unroll(g, &dims, value, self.plan.sums());
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
            let most = if unrolled.is_empty() { self.plan.rows } else { budget };
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

    /// Limits a range of symbolic extent cannot exceed.
    pub(crate) fn most(&self, g: &mut Graph, range: Id) -> i64 {
        let e = g.src(range)[0];
        bounds(g, e).1
    }
}

/// An index at `range = r * n`, if it grows by one with the range.
pub(crate) fn first_lane(g: &mut Graph, index: Id, range: Id, r: Id, n: i64) -> Option<Id> {
    let lin = Linear::of(g, index);
    if lin.coefficient(range) != 1 || lin.terms.iter().any(|t| t.0 != range && depends(g, t.0, range)) {
        return None;
    }
    let k = g.int(n);
    let at = g.mul(r, k);
    Some(replace(g, index, range, at))
}

/// `at`, or the last index of a dimension if that is past its end.
pub(crate) fn or_last(g: &mut Graph, at: Id, dim: Id) -> Id {
    let one = g.int(1);
    let last = g.sub(g.src(dim)[0], one);
    g.binary(BinOp::Min, at, last)
}

/// Every combination of unrolled offsets, as replacements of the dimensions.
pub(crate) fn expand_copies(g: &mut Graph, unrolled: &[(Id, Id, i64)]) -> Vec<FxHashMap<Id, Id>> {
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

pub(crate) fn combine(g: &mut Graph, op: ReduceOp, a: Id, b: Id) -> Id {
    g.binary(if op == ReduceOp::Sum { BinOp::Add } else { BinOp::Max }, a, b)
}

/// `expr` with one range replaced.
pub(crate) fn replace(g: &mut Graph, expr: Id, range: Id, by: Id) -> Id {
    let mut m = FxHashMap::default();
    m.insert(range, by);
    g.substitute(expr, &mut m)
}

/// Whether an expression changes with a range.
pub(crate) fn depends(g: &Graph, expr: Id, range: Id) -> bool {
    let mut stack = vec![expr];
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(e) = stack.pop() {
        if e == range {
            return true;
        }
        if e.0 > range.0 && seen.insert(e) {
            stack.extend_from_slice(g.src(e));
        }
    }
    false
}

pub(crate) fn collect_loads(g: &Graph, expr: Id, out: &mut Vec<Id>) {
    let mut stack = vec![expr];
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(e) = stack.pop() {
        if seen.insert(e) {
            if *g.op(e) == Op::Load {
                out.push(e);
            }
            stack.extend_from_slice(g.src(e));
        }
    }
}

fn find_reductions(g: &Graph, expr: Id, out: &mut Vec<Id>) {
    let mut stack = vec![expr];
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(e) = stack.pop() {
        if !seen.insert(e) {
            continue;
        }
        if matches!(g.op(e), Op::Reduce(..)) {
            out.push(e);
        } else {
            stack.extend_from_slice(g.src(e));
        }
    }
    out.sort_unstable();
}

pub(crate) fn has_reduction(g: &Graph, expr: Id) -> bool {
    let mut found = vec![];
    find_reductions(g, expr, &mut found);
    !found.is_empty()
}

/// A zero of a type.
pub(crate) fn zero(g: &mut Graph, ty: Type) -> Id {
    let c = if ty.base.is_float() { Const::f32(0.0) } else { Const::Int(0) };
    let z = g.constant(c, ty.base);
    splat(g, z, ty.lanes as usize)
}
