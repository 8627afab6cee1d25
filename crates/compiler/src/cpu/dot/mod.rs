//! Packed integer dot products.
//!
//! A pass of the loop over groups covers a few of them ([`passes`]). Codes fill byte lanes in the order in which their bits
//! lie in memory; four neighbours of one group make an i32 lane ([`packed_dots`]); each i32 lane is scaled by the factor of
//! its group. The factors of a pass are one vector, computed once. Rows, and tokens of a [`stream`], are computed side by
//! side; what they read alike is prepared before ([`inputs`]), and weights are asked for ahead ([`prefetch`]).

mod inputs;
mod interleave;
pub(super) mod packed_dots;
mod packed_scales;
mod passes;
mod prefetch;
pub(super) mod stream;

use crate::cpu::panels::panels;
use crate::cpu::vectors::{Tiler, expand_copies};
use crate::kernel::dot_pattern::{Pattern, matches};
use crate::kernel::emitter::make_loop;
use crate::kernel::expression::{collect_loads, combined, depends, replace, zero};
use crate::lower::Item;
use inputs::{arrange, settle};
use ir::index::Linear;
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Type};
use packed_dots::{Dots, added_across};
use passes::{Pass, passes, spread};
use prefetch::prefetches;
use rustc_hash::FxHashMap;
use stream::{Block, Stream};

/// Bytes of values that stay in the nearest cache beside rows that pass through it, where two threads share a core.
const NEAR: i64 = 16 << 10;

/// A pass of fewer elements asks for nothing ahead: its lines are too few to be worth an instruction each.
const LEAST_AHEAD: i64 = 128;

/// Statements of an item that is an integer dot, if it is one. Rows that a `stream` of few tokens reads come from
/// memory; those that many read come from a near cache after the first.
///
/// # Errors
/// Why it is none, for the decision log.
pub(super) fn integer_dot(
    t: &mut Tiler,
    g: &mut Graph,
    item: &Item,
    stream: Option<Stream>,
) -> Result<Vec<Id>, &'static str> {
    if t.target.vector_bytes == 0 {
        return Err("the plan has no vectors");
    }
    let mut p = matches(g, item.value).ok_or("its sum holds no dots of codes")?;
    let known = |g: &Graph, range: Id| g.as_int(g.src(range)[0]).ok_or("the length of its sum is data");
    let (mut total, width) = (known(g, p.group)?, known(g, p.element)?);
    if width % 4 != 0 {
        return Err("its groups are not made of fours");
    }
    let panels = stream.filter(|s| t.target.panels && s.side > 1).map_or(1, |s| panels(total, width, NEAR / s.side));
    let panel = t.counted(g, panels);
    if panels > 1 {
        if g.dtype(item.buffer) != DType::F32 {
            return Err("its panels would be summed in other numbers than f32");
        }
        total /= panels;
        cut(&mut p, t, g, panel, total);
    }
    let mut passes =
        passes(t, g, &p, total, width).ok_or("its codes do not lie in memory in an order that fills vectors")?;
    // Values do not depend on the row: order them once, before the rows.
    let (mut around, rows): (Vec<Id>, Vec<Id>) = item.dims.iter().partition(|&&d| depends(g, p.x, d));
    let block = stream.filter(|s| s.side > 1).map(|stream| Block::new(t, g, stream));
    let mut stmts = vec![];
    if rows.iter().map(|&d| t.most(g, d)).product::<i64>() >= 4 {
        arrange(t, g, &mut passes, block.as_ref(), &mut stmts);
        if block.is_none() {
            settle(t, g, &mut passes, &rows, &mut stmts);
        }
    }
    if let Some(b) = &block {
        around.iter_mut().filter(|d| **d == b.token).for_each(|d| *d = b.at);
    }
    let again = stream.is_none() && around.iter().any(|&d| g.as_int(g.src(d)[0]).is_none());
    let side = if again { t.target.rows } else { t.target.stream_rows };
    let (copies, dims) = side_by_side(t, g, block.as_ref(), &rows, side);
    let body = Sums { item, p: &p, width, panels, row: rows.last().copied() }.statements(t, g, &passes, &copies)?;
    stmts.extend(t.nest(g, &dims, body));
    if panels == 1 {
        return Ok(t.nest(g, &around, stmts));
    }
    let nothing = g.float(0.0);
    let clear = t.store(g, item.buffer, item.index, nothing);
    let mut all = t.nest(g, &item.dims, vec![clear]);
    around.push(panel);
    all.extend(t.nest(g, &around, stmts));
    Ok(all)
}

/// Leaves `groups` groups of panel `panel` in the pattern.
fn cut(p: &mut Pattern, t: &mut Tiler, g: &mut Graph, panel: Id, groups: i64) {
    let within = t.counted(g, groups);
    let n = g.int(groups);
    let first = g.mul(panel, n);
    let at = g.add(first, within);
    let mut of_panel = |e: Id| replace(g, e, p.group, at);
    (p.code, p.x) = (of_panel(p.code), of_panel(p.x));
    p.factors.iter_mut().chain(&mut p.rests).for_each(|e| *e = of_panel(*e));
    p.group = within;
}

/// The tokens of a block and up to `side` rows beside each other, as replacements of their dimensions, and the loops over
/// rows that are left.
fn side_by_side(
    t: &mut Tiler,
    g: &mut Graph,
    block: Option<&Block>,
    rows: &[Id],
    side: i64,
) -> (Vec<FxHashMap<Id, Id>>, Vec<Id>) {
    let mut unrolled: Vec<(Id, Id, i64)> = block.iter().map(|b| (b.token, b.at, b.side)).collect();
    let mut dims = rows.to_vec();
    if let Some(last) = dims.last_mut()
        && let Some(extent) = g.as_int(g.src(*last)[0])
        && let Some(u) = (2..=side).rev().find(|u| extent % u == 0)
    {
        let r = t.counted(g, extent / u);
        unrolled.push((*last, r, u));
        *last = r;
    }
    let mut copies = expand_copies(g, &unrolled);
    if let Some(b) = block {
        let of_token = copies.len() / b.side as usize;
        for (i, copy) in copies.iter_mut().enumerate() {
            copy.insert(b.slot, g.int((i / of_token) as i64));
        }
    }
    (copies, dims)
}

/// What the sums of rows and tokens beside each other need to know.
struct Sums<'a> {
    item: &'a Item,
    p: &'a Pattern,
    /// Elements of a group.
    width: i64,
    panels: i64,
    /// The innermost loop over rows.
    row: Option<Id>,
}

/// Accumulators by copy, lanes and turn: shared by the passes of equal width, a few of them take turns, as each waits for
/// itself.
#[derive(Default)]
struct Accumulators {
    known: FxHashMap<(usize, i64, usize), Id>,
    turns: usize,
    /// What they begin with.
    first: Vec<(Id, Id)>,
    /// Those of each copy, in the order in which they were made.
    of_copy: Vec<Vec<Id>>,
}

impl Accumulators {
    fn get(&mut self, t: &mut Tiler, g: &mut Graph, copy: usize, lanes: i64, turn: usize) -> Id {
        *self.known.entry((copy, lanes, turn % self.turns)).or_insert_with(|| {
            let ty = Type::vector(DType::F32, lanes as usize);
            let (a, z) = (t.acc(g, ty), zero(g, ty));
            self.first.push((a, z));
            self.of_copy[copy].push(a);
            a
        })
    }
}

impl Sums<'_> {
    /// Clears the accumulators, runs all passes, and stores what they come to.
    fn statements(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        passes: &[Pass],
        copies: &[FxHashMap<Id, Id>],
    ) -> Result<Vec<Id>, &'static str> {
        let turns = (t.target.chains as usize / copies.len()).max(1);
        let mut accs = Accumulators { turns, of_copy: vec![vec![]; copies.len()], ..Accumulators::default() };
        if self.panels > 1 {
            for (c, sums) in copies.iter().zip(&mut accs.of_copy) {
                // All are read before any is written: past the last token, the last one is computed again.
                let index = g.substitute(self.item.index, &mut c.clone());
                let (before, sum) = (t.acc(g, DType::F32), g.load(self.item.buffer, index, 1));
                accs.first.push((before, sum));
                sums.push(before);
            }
        }
        let mut loops = vec![];
        for pass in passes {
            let (mut update, mut body) = (vec![], vec![]);
            for (i, copy) in copies.iter().enumerate() {
                update.extend(self.products(t, g, pass, (i, copy), &mut accs));
                let lines = self.ahead(t, g, pass, copy);
                body.extend(lines.into_iter().filter(|line| !body.contains(line)).collect::<Vec<_>>());
            }
            body.push(t.set(g, update));
            loops.push(make_loop(g, pass.range, body));
        }
        let mut stores = vec![];
        for (copy, sums) in copies.iter().zip(&accs.of_copy) {
            let total = total(g, sums).ok_or("its sum is empty")?;
            let index = g.substitute(self.item.index, &mut copy.clone());
            stores.push(t.store(g, self.item.buffer, index, total));
        }
        Ok([vec![t.set(g, accs.first)], loops, stores].concat())
    }

    /// What a pass adds to the accumulators of one copy.
    fn products(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        pass: &Pass,
        (number, copy): (usize, &FxHashMap<Id, Id>),
        accs: &mut Accumulators,
    ) -> Vec<(Id, Id)> {
        let of_copy = |g: &mut Graph, e: Id| g.substitute(e, &mut copy.clone());
        let lanes = pass.bytes / 4;
        let mut chains: Vec<(Vec<u16>, Dots)> = vec![];
        for (code, x, map) in &pass.steps {
            let (code, x) = (of_copy(g, *code), of_copy(g, *x));
            let at = chains.iter().position(|c| c.0 == *map).unwrap_or_else(|| {
                chains.push((map.clone(), Dots::new(g, lanes, self.p.most, t.target.pairs)));
                chains.len() - 1
            });
            chains[at].1.add(g, code, x);
        }
        if t.target.hadd {
            chains = added_across(g, chains);
        }
        let mut next: Vec<(Id, Id)> = vec![];
        let mut add = |g: &mut Graph, to: Id, v: Id| match next.iter_mut().find(|n| n.0 == to) {
            Some(n) => n.1 = g.add(n.1, v),
            None => next.push((to, g.add(to, v))),
        };
        let factor = pass.factor.map(|f| of_copy(g, f));
        let used = chains.len();
        for (turn, (map, mut dots)) in chains.into_iter().enumerate() {
            let dots = dots.total(g);
            let mut v = g.cast(dots, DType::F32);
            if let Some(f) = factor {
                let f = spread(g, f, &map);
                v = g.mul(v, f);
            }
            let acc = accs.get(t, g, number, lanes as i64, turn);
            add(g, acc, v);
        }
        if let Some(rest) = pass.rest {
            let rest = of_copy(g, rest);
            let acc = accs.get(t, g, number, pass.groups, used);
            add(g, acc, rest);
        }
        next
    }

    /// Asks for what later rounds of a pass read.
    fn ahead(&self, t: &Tiler, g: &mut Graph, pass: &Pass, copy: &FxHashMap<Id, Id>) -> Vec<Id> {
        if t.target.prefetch_l2 == 0 || pass.groups * self.width < LEAST_AHEAD {
            return vec![];
        }
        let mut loads = vec![];
        for part in pass.steps.iter().map(|step| step.0).chain(pass.factor).chain(pass.rest) {
            let part = g.substitute(part, &mut copy.clone());
            collect_loads(g, part, &mut loads);
        }
        let ahead = |g: &Graph, bytes: i64| match (self.panels, self.row, loads.first()) {
            (2.., Some(row), Some(&load)) => {
                // As many bytes of this panel, in the rows that come next.
                let row_bytes = Linear::of(g, g.src(load)[1]).coefficient(row).max(1);
                (bytes * self.panels + row_bytes - 1) / row_bytes * row_bytes
            }
            _ => bytes,
        };
        let far = ahead(g, t.target.prefetch_l2);
        let asked = match t.target.prefetch_l1 {
            0 => vec![(1, far)],
            near => vec![(1, ahead(g, near)), (2, far)],
        };
        prefetches(g, &loads, pass.range, &asked)
    }
}

/// What accumulators come to: those of equal width first, so that lanes are added up once.
fn total(g: &mut Graph, sums: &[Id]) -> Option<Id> {
    let mut by_width: Vec<Id> = vec![];
    for &a in sums {
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
    combined(g, BinOp::Add, &scalars)
}
