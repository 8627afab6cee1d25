//! Packed integer dot products.
//!
//! Matches a sum over groups of `f32(sum over elements of code * x) * factor
//! plus rest`, where the inner sum is of integers. A pass of the loop covers a few
//! groups. Codes fill byte lanes in the order in which their bits lie in memory;
//! four neighbours of one group make an i32 lane; each i32 lane is scaled by the
//! factor of its group. The factors of a pass are one vector, computed once.

use crate::fours;
use crate::halves;
use crate::lower::Item;
use crate::slp::{Packer, of_two};
use crate::tile::{Tiler, collect_loads, depends, expand_copies, make_loop, or_last, replace, zero};
use ir::index::{Linear, bounds};
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp, Type};
use rustc_hash::FxHashMap;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// Bytes of values that stay in the nearest cache beside rows that pass through it, where two threads share a core.
const NEAR: i64 = 16 << 10;

/// Elements of the longest block of any format; a panel holds whole blocks.
pub(crate) const BLOCK: i64 = 256;

/// The parts of `dot * factors plus rests`.
pub(crate) struct Pattern {
    /// u8 codes, by group and element.
    pub(crate) code: Id,
    /// No code is greater.
    pub(crate) most: i64,
    /// i8 values, by group and element.
    pub(crate) x: Id,
    /// f32, by group; their product scales the dot.
    pub(crate) factors: Vec<Id>,
    /// f32, by group; their sum is added.
    pub(crate) rests: Vec<Id>,
    /// Counts groups.
    pub(crate) group: Id,
    /// Counts the elements of a group.
    pub(crate) element: Id,
}

/// All of `id` combined by `op`; `None` of nothing.
pub(crate) fn combined(g: &mut Graph, op: BinOp, all: &[Id]) -> Option<Id> {
    let (&first, others) = all.split_first()?;
    Some(others.iter().fold(first, |a, &b| g.binary(op, a, b)))
}

pub(crate) fn terms(g: &Graph, op: BinOp, id: Id, out: &mut Vec<Id>) {
    if *g.op(id) == Op::Binary(op) {
        terms(g, op, g.src(id)[0], out);
        terms(g, op, g.src(id)[1], out);
    } else {
        out.push(id);
    }
}

/// The parts of a sum over groups of integer dots.
pub(crate) fn matches(g: &mut Graph, value: Id) -> Option<Pattern> {
    let src = g.src(value).to_vec();
    let [body, group] = src[..] else { return None };
    if *g.op(value) != Op::Reduce(ReduceOp::Sum, vec![]) || g.dtype(value) != DType::F32 {
        return None;
    }
    let mut sum = vec![];
    terms(g, BinOp::Add, body, &mut sum);
    let is_dot = |g: &Graph, id: Id| {
        *g.op(id) == Op::Cast
            && matches!(g.op(g.src(id)[0]), Op::Reduce(ReduceOp::Sum, _))
            && g.dtype(g.src(id)[0]) == DType::I32
    };
    let mut found = None;
    for (i, &t) in sum.iter().enumerate() {
        let mut product = vec![];
        terms(g, BinOp::Mul, t, &mut product);
        if let Some(j) = product.iter().position(|&p| is_dot(g, p)) {
            let dot = g.src(product.remove(j))[0];
            let inner = g.src(dot).to_vec();
            let [prod, element] = inner[..] else { continue };
            if *g.op(prod) != Op::Binary(BinOp::Mul) {
                continue;
            }
            let side = |g: &Graph, id: Id| (*g.op(id) == Op::Cast).then(|| g.src(id)[0]);
            let (a, b) = (side(g, g.src(prod)[0])?, side(g, g.src(prod)[1])?);
            let (code, x) = match (g.dtype(a), g.dtype(b)) {
                (DType::U8, DType::I8) => (a, b),
                (DType::I8, DType::U8) => (b, a),
                _ => continue,
            };
            found = Some((i, code, x, product, element));
            break;
        }
    }
    let (at, code, x, product, element) = found?;
    sum.remove(at);
    let most = bounds(g, code).1;
    let [factors, rests]: [Vec<Id>; 2] =
        [product, sum].map(|all| all.into_iter().map(|e| bits_in_words(g, e)).collect());
    Some(Pattern { code, most, x, factors, rests, group, element })
}

/// `e` with bits of bytes that become words taken apart as words: these are a lane a group, and vectors of few bytes
/// have no shifts by lane.
fn bits_in_words(g: &mut Graph, e: Id) -> Id {
    fn word(g: &mut Graph, e: Id) -> Id {
        let src = g.src(e).to_vec();
        match *g.op(e) {
            Op::Binary(op @ (BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr)) => {
                let (a, b) = (word(g, src[0]), word(g, src[1]));
                let v = g.binary(op, a, b);
                // A byte loses what is shifted beyond it.
                if bounds(g, v).1 <= 255 {
                    return v;
                }
                let byte = g.constant(Const::Int(255), DType::I32);
                g.binary(BinOp::And, v, byte)
            }
            _ => g.cast(e, DType::I32),
        }
    }
    let mut m = FxHashMap::default();
    for id in g.toposort(&[e]) {
        if *g.op(id) == Op::Cast && matches!(*g.op(g.src(id)[0]), Op::Binary(_)) && g.dtype(g.src(id)[0]) == DType::U8 {
            let v = word(g, g.src(id)[0]);
            m.insert(id, g.cast(v, g.dtype(id)));
        }
    }
    g.substitute(e, &mut m)
}

/// Sums of products of four codes and four values in each i32 lane, vector by vector.
pub(crate) struct Dots {
    /// What is in i32 so far.
    sums: Id,
    /// What is in i16 so far, and how many vectors' products that is.
    halves: Option<(Id, i64)>,
    /// So many vectors' products surely fit into 16 bits, summed by twos; 0 where they are summed by fours at once.
    fit: i64,
    /// The accumulators of both, where there are any.
    held: [Option<Id>; 2],
}

impl Dots {
    /// No sums yet, in so many lanes, of codes of `most` at most. With `pairs` they are summed by twos in 16 bits first.
    pub(crate) fn new(g: &mut Graph, lanes: usize, most: i64, pairs: bool) -> Dots {
        /// Magnitude of the least value.
        const VALUE: i64 = 128;
        let sums = zero(g, Type::vector(DType::I32, lanes));
        let fit = if pairs && lanes >= 4 { i64::from(i16::MAX) / (2 * VALUE * most.max(1)) } else { 0 };
        Dots { sums, halves: None, fit, held: [None; 2] }
    }

    /// Adds the products of a vector of codes and one of values.
    pub(crate) fn add(&mut self, g: &mut Graph, code: Id, x: Id) {
        if self.fit == 0 {
            self.sums = g.make(Op::Dot4, g.ty(self.sums), vec![], vec![self.sums, code, x]);
            return;
        }
        let ty = Type::vector(DType::I16, 2 * g.ty(self.sums).lanes as usize);
        if self.halves.is_some_and(|(_, n)| n == self.fit) {
            self.total(g);
        }
        let (sum, n) = self.halves.unwrap_or_else(|| (zero(g, ty), 0));
        self.halves = Some((g.make(Op::Dot2, ty, vec![], vec![sum, code, x]), n + 1));
    }

    /// Lanes of these sums and of others, each with the lane after it: a vector for two, of groups of their own. `None`
    /// where neighbours are not of one group, or would not fit. `maps` says the group of each i32 lane.
    fn hadd(&self, other: &Dots, maps: [&[u16]; 2], g: &mut Graph) -> Option<(Vec<u16>, Dots)> {
        let ((a, n), (b, m)) = (self.halves?, other.halves?);
        let (ty, none) = (g.ty(a), zero(g, g.ty(self.sums)));
        let by_twos = |map: &[u16]| map.chunks(2).all(|two| two.len() == 2 && two[0] == two[1]);
        let fit = 2 * n.max(m) <= self.fit.min(other.fit) && g.ty(b) == ty && ty.lanes.is_multiple_of(8);
        if !fit || [self.sums, other.sums] != [none; 2] || !maps.into_iter().all(by_twos) {
            return None;
        }
        // Four lanes of i32 in each part of a register: two of them from either vector.
        let (lanes, part) = (ty.lanes / 2, 4);
        let from = |odd: u16| -> Vec<u16> {
            let of_part = |first: u16| [first, first + 2, lanes + first, lanes + first + 2];
            (0..lanes).step_by(part).flat_map(of_part).map(|lane| lane + odd).collect()
        };
        let mut half = |odd: u16| {
            let map = from(odd).into_iter().flat_map(|lane| [2 * lane, 2 * lane + 1]).collect();
            of_two(g, a, b, map)
        };
        let (even, odd) = (half(0), half(1));
        let sum = g.add(even, odd);
        let map = from(0).into_iter().map(|lane| maps[usize::from(lane / lanes)][usize::from(lane % lanes)]).collect();
        Some((map, Dots { sums: none, halves: Some((sum, 2 * n.max(m))), fit: self.fit, held: [None; 2] }))
    }

    /// All of it in i32.
    pub(crate) fn total(&mut self, g: &mut Graph) -> Id {
        if let Some((halves, _)) = self.halves.take() {
            let ones =
                g.make(Op::Lanes(vec![Const::Int(1); g.ty(halves).lanes as usize]), g.ty(halves), vec![], vec![]);
            self.sums = g.make(Op::Dot2, g.ty(self.sums), vec![], vec![self.sums, halves, ones]);
        }
        self.sums
    }

    /// Goes on from accumulators: `set` is to write to them what there is so far.
    pub(crate) fn hold(&mut self, t: &mut Tiler, g: &mut Graph, set: &mut Vec<(Id, Id)>) {
        let parts = [Some(&mut self.sums), self.halves.as_mut().map(|h| &mut h.0)];
        for (value, held) in parts.into_iter().zip(&mut self.held) {
            let Some(value) = value.filter(|v| **v != zero(g, g.ty(**v)) && Some(**v) != *held) else { continue };
            let acc = *held.get_or_insert_with(|| t.acc(g, g.ty(*value)));
            set.push((acc, *value));
            *value = acc;
        }
    }
}

/// Sums of fewer lanes for each group, and so fewer vectors to convert and to scale: as long as they fit into 16 bits,
/// two vectors become one.
fn added_across(g: &mut Graph, mut chains: Vec<(Vec<u16>, Dots)>) -> Vec<(Vec<u16>, Dots)> {
    loop {
        let before = chains.len();
        // Both halves of a byte after each other: one load serves them.
        chains.sort_by(|a, b| a.0.cmp(&b.0));
        let mut fewer: Vec<(Vec<u16>, Dots)> = vec![];
        let mut rest = chains.into_iter().peekable();
        while let Some((map, dots)) = rest.next() {
            let both = rest.peek().and_then(|(next, other)| dots.hadd(other, [&map, next], g));
            if both.is_some() {
                rest.next();
            }
            fewer.push(both.unwrap_or((map, dots)));
        }
        chains = fewer;
        if chains.len() == before {
            return chains;
        }
    }
}

/// Orders lanes so that neighbours come from neighbouring bytes and the same
/// bits of them. `all` are copies of one expression; `width` is the number of
/// lanes that should agree; `None` if no load has the same bits for all of them.
pub fn lane_order(g: &Graph, all: &[Id], width: usize) -> Option<Vec<usize>> {
    let signatures: Vec<(Vec<i64>, i64)> = all.iter().map(|&e| signature(g, e)).collect();
    let loads = signatures.iter().map(|s| s.0.len()).max().unwrap_or(0);
    // The shifts of all loads should agree, else those of one load; the other
    // loads then take other bits in each lane.
    let everything: Vec<usize> = (0..loads).collect();
    let choices = std::iter::once(everything).chain((0..loads).map(|i| vec![i]));
    for choice in choices {
        let key =
            |u: usize| -> Vec<i64> { choice.iter().map(|&i| signatures[u].0.get(i).copied().unwrap_or(0)).collect() };
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_cached_key(|&u| (key(u), signatures[u].1, u));
        let mut run = 0;
        let mut full = true;
        for i in 0..order.len() {
            run += 1;
            if i + 1 == order.len() || key(order[i]) != key(order[i + 1]) {
                full &= run % width == 0;
                run = 0;
            }
        }
        if full {
            return Some(order);
        }
    }
    None
}

/// The shift of each packed load in order of appearance, and the address of the
/// first one.
pub(crate) fn signature(g: &Graph, e: Id) -> (Vec<i64>, i64) {
    fn walk(g: &Graph, e: Id, shift: i64, shifts: &mut Vec<i64>, first: &mut Option<i64>) {
        match g.op(e) {
            Op::Load if g.ty(e).bytes() == 1 => {
                shifts.push(shift);
                if first.is_none() {
                    *first = Some(Linear::of(g, g.src(e)[1]).constant);
                }
            }
            Op::Binary(BinOp::Shr) => {
                let s = g.as_int(g.src(e)[1]).unwrap_or(0);
                walk(g, g.src(e)[0], s, shifts, first);
            }
            Op::Load | Op::Const(_) | Op::Lanes(_) | Op::Buffer { .. } | Op::Range(..) => {}
            _ => {
                for &s in g.src(e) {
                    walk(g, s, 0, shifts, first);
                }
            }
        }
    }
    let (mut shifts, mut first) = (vec![], None);
    walk(g, e, 0, &mut shifts, &mut first);
    (shifts, first.unwrap_or(0))
}

/// One stretch of the groups, a few of them in each pass.
struct Segment {
    first: i64,
    passes: i64,
    groups: i64,
    /// It takes one pass of this many.
    every: i64,
}

fn segments(total: i64, widest: i64) -> Vec<Segment> {
    let mut out = vec![];
    let (mut at, mut n) = (0, widest);
    while at < total {
        let passes = (total - at) / n;
        if passes > 0 {
            out.push(Segment { first: at, passes, groups: n, every: 1 });
            at += passes * n;
        }
        n /= 2;
    }
    out
}

/// Codes and values as vectors of as many bytes, and the group of each i32 lane.
pub(crate) type Step = (Id, Id, Vec<u16>);

/// Vector code of one pass over a stretch.
struct Pass {
    range: Id,
    passes: i64,
    steps: Vec<Step>,
    bytes: usize,
    factor: Option<Id>,
    rest: Option<Id>,
    groups: i64,
}

/// Tokens that are multiplied with rows as they come from memory.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    /// Counts the tokens.
    pub(crate) token: Id,
    /// So many share what is unpacked of a row.
    pub(crate) side: i64,
}

/// Tokens of a stream that are computed side by side.
struct Block {
    token: Id,
    side: i64,
    /// Counts blocks.
    at: Id,
    /// Stands for a token of a block.
    slot: Id,
}

/// Statements of an item that is an integer dot, if it is one. Rows that a `stream` of few tokens reads come from
/// memory; those that many read come from a near cache after the first.
///
/// # Errors
/// Why it is none, for the decision log.
pub(crate) fn integer_dot(
    t: &mut Tiler,
    g: &mut Graph,
    item: &Item,
    stream: Option<Stream>,
) -> Result<Vec<Id>, &'static str> {
    if t.plan.vector_bytes == 0 {
        return Err("the plan has no vectors");
    }
    let mut p = matches(g, item.value).ok_or("its sum holds no dots of codes")?;
    let known = |g: &Graph, range: Id| g.as_int(g.src(range)[0]).ok_or("the length of its sum is data");
    let (mut total, width) = (known(g, p.group)?, known(g, p.element)?);
    if width % 4 != 0 {
        return Err("its groups are not made of fours");
    }
    let panels = stream.filter(|s| t.plan.panels && s.side > 1).map_or(1, |s| panels(total, width, NEAR / s.side));
    let panel = t.counted(g, panels);
    if panels > 1 {
        if g.dtype(item.buffer) != DType::F32 {
            return Err("its panels would be summed in other numbers than f32");
        }
        total /= panels;
        p.cut(t, g, panel, total);
    }
    let mut passes = vec![];
    for s in segments(total, t.lanes()) {
        // Blocks that are longer than a pass repeat their layout only after a few.
        let all = (1..=8).filter(|k| s.passes % k == 0).find_map(|every| {
            let one = |turn: i64| Segment {
                first: s.first + turn * s.groups,
                passes: s.passes / every,
                groups: s.groups,
                every,
            };
            (0..every).map(|turn| pass(t, g, &p, &one(turn), width)).collect::<Option<Vec<Pass>>>()
        });
        passes.extend(all.ok_or("its codes do not lie in memory in an order that fills vectors")?);
    }
    // Values do not depend on the row: order them once, before the rows.
    let (mut x_dims, row_dims): (Vec<Id>, Vec<Id>) = item.dims.iter().partition(|&&d| depends(g, p.x, d));
    let block = stream.filter(|s| s.side > 1).map(|Stream { token, side }| {
        let (up, n) = (g.int(side - 1), g.int(side));
        let count = g.add(g.src(token)[0], up);
        let count = g.binary(BinOp::Div, count, n);
        Block { token, side, at: t.range(g, count), slot: t.counted(g, side) }
    });
    let mut before = vec![];
    let rows: i64 = row_dims.iter().map(|&d| t.most(g, d)).product();
    if rows >= 4 {
        arrange(t, g, &mut passes, block.as_ref(), &mut before);
        if block.is_none() {
            settle(t, g, &mut passes, &row_dims, &mut before);
        }
    }
    // Tokens and rows side by side.
    let mut unrolled = vec![];
    if let Some(b) = &block {
        x_dims.iter_mut().filter(|d| **d == b.token).for_each(|d| *d = b.at);
        unrolled.push((b.token, b.at, b.side));
    }
    let again = stream.is_none() && x_dims.iter().any(|&d| g.as_int(g.src(d)[0]).is_none());
    let side = if again { t.plan.rows } else { t.plan.streams };
    let mut dims = row_dims.clone();
    if let Some(&last) = row_dims.last()
        && let Some(extent) = g.as_int(g.src(last)[0])
        && let Some(u) = (2..=side).rev().find(|u| extent % u == 0)
    {
        let r = t.counted(g, extent / u);
        unrolled.push((last, r, u));
        *dims.last_mut().unwrap() = r;
    }
    let mut copies = expand_copies(g, &unrolled);
    if let Some(b) = &block {
        let of_token = copies.len() / b.side as usize;
        for (i, copy) in copies.iter_mut().enumerate() {
            copy.insert(b.slot, g.int((i / of_token) as i64));
        }
    }
    let mut first = vec![];
    let mut loops = vec![];
    let mut last = vec![];
    let mut sums: Vec<Vec<Id>> = vec![vec![]; copies.len()];
    // Accumulators are shared by the passes of equal width; a few of them take turns, as each waits for itself.
    let mut accs: FxHashMap<(usize, i64, usize), Id> = FxHashMap::default();
    let turns = (t.plan.chains as usize / copies.len()).max(1);
    for (c, sums) in copies.iter().zip(&mut sums).filter(|_| panels > 1) {
        // All are read before any is written: past the last token, the last one is computed again.
        let index = g.substitute(item.index, &mut c.clone());
        let (before, sum) = (t.acc(g, DType::F32), g.load(item.buffer, index, 1));
        first.push((before, sum));
        sums.push(before);
    }
    for q in &passes {
        let mut update = vec![];
        let mut fetch = vec![];
        for (ci, c) in copies.iter().enumerate() {
            let sub = |g: &mut Graph, e: Id| g.substitute(e, &mut c.clone());
            let lanes = q.bytes / 4;
            let mut chains: Vec<(Vec<u16>, Dots)> = vec![];
            for (code, x, map) in &q.steps {
                let (code, x) = (sub(g, *code), sub(g, *x));
                let at = chains.iter().position(|c| c.0 == *map).unwrap_or_else(|| {
                    chains.push((map.clone(), Dots::new(g, lanes, p.most, t.plan.pairs)));
                    chains.len() - 1
                });
                chains[at].1.add(g, code, x);
            }
            if t.plan.hadd {
                chains = added_across(g, chains);
            }
            let mut sum_of = |t: &mut Tiler, g: &mut Graph, lanes: i64, turn: usize| {
                *accs.entry((ci, lanes, turn % turns)).or_insert_with(|| {
                    let ty = Type::vector(DType::F32, lanes as usize);
                    let (a, z) = (t.acc(g, ty), zero(g, ty));
                    first.push((a, z));
                    sums[ci].push(a);
                    a
                })
            };
            let mut next: Vec<(Id, Id)> = vec![];
            let mut add = |g: &mut Graph, to: Id, v: Id| match next.iter_mut().find(|n| n.0 == to) {
                Some(n) => n.1 = g.add(n.1, v),
                None => next.push((to, g.add(to, v))),
            };
            let factor = q.factor.map(|f| sub(g, f));
            let used = chains.len();
            for (turn, (map, mut dots)) in chains.into_iter().enumerate() {
                let dots = dots.total(g);
                let mut v = g.cast(dots, DType::F32);
                if let Some(f) = factor {
                    let f = spread(g, f, &map);
                    v = g.mul(v, f);
                }
                let acc = sum_of(t, g, lanes as i64, turn);
                add(g, acc, v);
            }
            if let Some(rest) = q.rest {
                let rest = sub(g, rest);
                let acc = sum_of(t, g, q.groups, used);
                add(g, acc, rest);
            }
            update.extend(next);
            if t.plan.prefetch > 0 && q.groups * width >= 128 {
                let mut loads = vec![];
                for part in q.steps.iter().map(|step| step.0).chain(q.factor).chain(q.rest) {
                    let part = sub(g, part);
                    collect_loads(g, part, &mut loads);
                }
                let ahead = |g: &Graph, bytes: i64| match (panels, row_dims.last(), loads.first()) {
                    (2.., Some(&row), Some(&load)) => {
                        // As many bytes of this panel, in the rows that come next.
                        let row_bytes = Linear::of(g, g.src(load)[1]).coefficient(row).max(1);
                        (bytes * panels + row_bytes - 1) / row_bytes * row_bytes
                    }
                    _ => bytes,
                };
                let far = ahead(g, t.plan.prefetch);
                let asked = match t.plan.near {
                    0 => vec![(1, far)],
                    near => vec![(1, ahead(g, near)), (2, far)],
                };
                let lines = prefetches(g, &loads, q.range, &asked);
                fetch.extend(lines.into_iter().filter(|line| !fetch.contains(line)).collect::<Vec<_>>());
            }
        }
        fetch.push(t.set(g, update));
        loops.push(make_loop(g, q.range, fetch));
    }
    for (ci, c) in copies.iter().enumerate() {
        // Those of equal width first, so that lanes are added up once.
        let mut by_width: Vec<Id> = vec![];
        for &a in &sums[ci] {
            match by_width.iter_mut().find(|b| g.ty(**b) == g.ty(a)) {
                Some(b) => *b = g.add(*b, a),
                None => by_width.push(a),
            }
        }
        let across = |g: &mut Graph, v: Id| match g.ty(v).lanes {
            1 => v,
            _ => g.make(Op::Across(ReduceOp::Sum), DType::F32, vec![], vec![v]),
        };
        let scalars: Vec<Id> = by_width.into_iter().map(|v| across(g, v)).collect();
        let total = combined(g, BinOp::Add, &scalars);
        let index = g.substitute(item.index, &mut c.clone());
        last.push(t.store(g, item.buffer, index, total.ok_or("its sum is empty")?));
    }
    let mut stmts = vec![t.set(g, first)];
    stmts.extend(loops);
    stmts.extend(last);
    let stmts = t.nest(g, &dims, stmts);
    before.extend(stmts);
    if panels == 1 {
        return Ok(t.nest(g, &x_dims, before));
    }
    let nothing = g.float(0.0);
    let clear = t.store(g, item.buffer, item.index, nothing);
    let mut all = t.nest(g, &item.dims, vec![clear]);
    x_dims.push(panel);
    all.extend(t.nest(g, &x_dims, before));
    Ok(all)
}

/// Into how many panels of whole blocks, of `most` elements at most, a sum over groups is cut.
pub(crate) fn panels(groups: i64, width: i64, most: i64) -> i64 {
    let fits = |n: &i64| groups % n == 0 && groups / n * width <= most && groups / n * width % BLOCK == 0;
    (1..=groups).find(fits).unwrap_or(1)
}

impl Pattern {
    /// Leaves `groups` groups of panel `panel`.
    fn cut(&mut self, t: &mut Tiler, g: &mut Graph, panel: Id, groups: i64) {
        let within = t.counted(g, groups);
        let n = g.int(groups);
        let first = g.mul(panel, n);
        let at = g.add(first, within);
        let mut of_panel = |e: Id| replace(g, e, self.group, at);
        (self.code, self.x) = (of_panel(self.code), of_panel(self.x));
        self.factors.iter_mut().chain(&mut self.rests).for_each(|e| *e = of_panel(*e));
        self.group = within;
    }
}

/// Asks for every line that the loads will touch, for each cache that is `asked`: into the one of this level, so many bytes
/// ahead. `range` counts the rounds of the loop around them.
fn prefetches(g: &mut Graph, loads: &[Id], range: Id, asked: &[(u8, i64)]) -> Vec<Id> {
    let Some(&first) = loads.first() else { return vec![] };
    let buffer = g.src(first)[0];
    let base = Linear::of(g, g.src(first)[1]);
    // From the first to the last byte of each: where rows begin within a line, what is left out would be missed.
    let mut lines: Vec<i64> = vec![];
    let mut end = i64::MIN;
    for &load in loads.iter().filter(|&&l| g.src(l)[0] == buffer) {
        let at = Linear::of(g, g.src(load)[1]);
        if at.terms == base.terms {
            let last = at.constant + g.ty(load).bytes() as i64 - 1;
            lines.extend((at.constant.div_euclid(LINE)..=last.div_euclid(LINE)).map(|line| line * LINE));
            end = end.max(last);
        }
    }
    lines.sort_unstable();
    lines.dedup();
    // The last byte lies in a line after these, unless the next round begins before that.
    if lines[0] + base.coefficient(range) > lines[lines.len() - 1] + LINE {
        lines.push(end);
    }
    let all = asked.iter().flat_map(|&(level, ahead)| lines.iter().map(move |line| (level, line + ahead)));
    all.map(|(level, constant)| {
        let at = Linear { terms: base.terms.clone(), constant }.build(g);
        g.make(Op::Prefetch(level), DType::Index, vec![], vec![buffer, at])
    })
    .collect()
}

/// Lane `i` of the result is the factor of group `map[i]`.
fn spread(g: &mut Graph, f: Id, map: &[u16]) -> Id {
    let ty = g.ty(f);
    if ty.lanes == 1 {
        return crate::slp::splat(g, f, map.len());
    }
    if map.len() == ty.lanes as usize && map.iter().enumerate().all(|(i, &m)| i == m as usize) {
        return f;
    }
    g.make(Op::Shuffle(map.to_vec()), Type::vector(ty.base, map.len()), vec![], vec![f])
}

/// Pairs of code and value vectors of `bytes` lanes, with the group of each i32
/// lane.
fn byte_lanes(
    g: &mut Graph,
    codes: &[Id],
    xs: &[Id],
    bytes: usize,
    width: i64,
    packer: &mut Packer,
) -> Option<Vec<Step>> {
    let order = lane_order(g, codes, bytes).unwrap_or_else(|| (0..codes.len()).collect());
    let mut steps = vec![];
    for chunk in order.chunks(bytes) {
        let mut map = vec![];
        for quad in chunk.chunks(4) {
            let group = quad[0] as i64 / width;
            if quad.iter().any(|&u| u as i64 / width != group) {
                return None;
            }
            map.push(group as u16);
        }
        let c: Vec<Id> = chunk.iter().map(|&u| codes[u]).collect();
        let x: Vec<Id> = chunk.iter().map(|&u| xs[u]).collect();
        steps.push((packer.pack_vector(g, &c)?, packer.pack_vector(g, &x)?, map));
    }
    Some(steps)
}

fn pass(t: &mut Tiler, g: &mut Graph, p: &Pattern, s: &Segment, width: i64) -> Option<Pass> {
    let range = t.counted(g, s.passes);
    let group_at = |g: &mut Graph, i: i64| {
        let (k, c) = (g.int(s.groups * s.every), g.int(s.first + i));
        let at = g.mul(range, k);
        g.add(at, c)
    };
    let (mut codes, mut xs) = (vec![], vec![]);
    for u in 0..s.groups * width {
        let at = group_at(g, u / width);
        let e = g.int(u % width);
        let mut m: FxHashMap<Id, Id> = FxHashMap::default();
        m.insert(p.group, at);
        m.insert(p.element, e);
        codes.push(g.substitute(p.code, &mut m));
        xs.push(g.substitute(p.x, &mut m));
    }
    let most = (s.groups * width).min(t.plan.vector_bytes as i64) as usize;
    // The widest vectors whose lanes take the same bits of their bytes.
    let (bytes, steps) = [most, most / 2, most / 4]
        .into_iter()
        .filter(|&b| b >= 16 && b.is_power_of_two() && codes.len() % b == 0)
        .find_map(|bytes| {
            let mut fresh = Packer::default();
            let steps = byte_lanes(g, &codes, &xs, bytes, width, &mut fresh)?;
            (fresh.gathered == 0).then_some((bytes, steps))
        })?;
    let steps = if t.plan.halves && !t.plan.pairs { halves::exchanged(g, steps) } else { steps };
    let by_group = |g: &mut Graph, e: Option<Id>| -> Vec<Id> {
        let Some(e) = e else { return vec![] };
        let lane = |i| {
            let at = group_at(g, i);
            replace(g, e, p.group, at)
        };
        (0..s.groups).map(lane).collect()
    };
    let (factor, rest) = (combined(g, BinOp::Mul, &p.factors), combined(g, BinOp::Add, &p.rests));
    let (factor, rest) = (by_group(g, factor), by_group(g, rest));
    let mut packer = Packer::with_windows(if t.plan.blends && t.plan.vector_bytes == 64 { 64 } else { 0 });
    let lists: Vec<&[Id]> = [&factor[..], &rest[..]].into_iter().filter(|lanes| !lanes.is_empty()).collect();
    if t.plan.fours {
        fours::words(g, &lists, t.plan.vector_bytes).into_iter().for_each(|(lanes, v)| packer.know(lanes, v));
    }
    let mut packed = |g: &mut Graph, lanes: &[Id]| match lanes {
        [] => Some(None),
        lanes => packer.pack_vector(g, lanes).map(Some),
    };
    let (factor, rest) = (packed(g, &factor)?, packed(g, &rest)?);
    Some(Pass { range, passes: s.passes, steps, bytes, factor, rest, groups: s.groups })
}

/// Stores the values in lane order in scratch, where they are not already; those of the tokens of a block after each
/// other.
fn arrange(t: &mut Tiler, g: &mut Graph, passes: &mut [Pass], tokens: Option<&Block>, before: &mut Vec<Id>) {
    for q in passes {
        if q.steps.iter().all(|s| *g.op(s.1) == Op::Load) {
            continue;
        }
        let n = q.steps.len();
        let len = q.passes * (n * q.bytes) as i64;
        let stash = t.new_stash(g, DType::I8, (len * tokens.map_or(1, |b| b.side)) as usize);
        let mut stmts = vec![];
        for (i, s) in q.steps.iter_mut().enumerate() {
            let (k, off) = (g.int((n * q.bytes) as i64), g.int((i * q.bytes) as i64));
            let at = g.mul(q.range, k);
            let mut at = g.add(at, off);
            let mut x = s.1;
            if let Some(b) = tokens {
                let whole = g.int(len);
                let first = g.mul(b.slot, whole);
                at = g.add(first, at);
                let token = b.token_at_slot(g);
                x = replace(g, x, b.token, token);
            }
            stmts.push(t.store(g, stash, at, x));
            s.1 = g.load(stash, at, q.bytes);
        }
        let pass = make_loop(g, q.range, stmts);
        before.push(match tokens {
            Some(b) => make_loop(g, b.slot, vec![pass]),
            None => pass,
        });
    }
}

/// Computes what factors and rests of all rows have in common once, and keeps it in scratch: scales of the values in the
/// order of the lanes, and their products with sums of the values.
fn settle(t: &mut Tiler, g: &mut Graph, passes: &mut [Pass], rows: &[Id], before: &mut Vec<Id>) {
    for q in passes {
        let mut common = vec![];
        [q.factor, q.rest].into_iter().flatten().for_each(|e| in_common(g, e, rows, &mut common));
        let mut stmts = vec![];
        let mut known = FxHashMap::default();
        for e in common {
            let lanes = g.ty(e).lanes;
            let stash = t.new_stash(g, DType::F32, q.passes as usize * usize::from(lanes));
            let n = g.int(lanes.into());
            let at = g.mul(q.range, n);
            stmts.push(t.store(g, stash, at, e));
            known.insert(e, g.load(stash, at, lanes.into()));
        }
        if !stmts.is_empty() {
            before.push(make_loop(g, q.range, stmts));
            [&mut q.factor, &mut q.rest].into_iter().flatten().for_each(|e| *e = g.substitute(*e, &mut known.clone()));
        }
    }
}

/// The largest parts of an expression that are vectors of floats, computed, and the same for all rows.
fn in_common(g: &Graph, e: Id, rows: &[Id], found: &mut Vec<Id>) {
    let computed = matches!(g.op(e), Op::Binary(_) | Op::Unary(_) | Op::Shuffle(_) | Op::Cast);
    if !computed || g.dtype(e) != DType::F32 {
        return;
    }
    if g.ty(e).lanes == 1 || rows.iter().any(|&row| depends(g, e, row)) {
        g.src(e).iter().for_each(|&part| in_common(g, part, rows, found));
    } else if !found.contains(&e) {
        found.push(e);
    }
}

impl Block {
    /// The token of a slot; past the last one, the last one again.
    fn token_at_slot(&self, g: &mut Graph) -> Id {
        let n = g.int(self.side);
        let first = g.mul(self.at, n);
        let at = g.add(first, self.slot);
        or_last(g, at, self.token)
    }
}
