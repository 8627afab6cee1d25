//! Integer matrix products of several tokens with quantised rows.
//!
//! As many rows as a vector has 32-bit lanes are unpacked once for all tokens
//! of a task: their codes to bytes, four elements of a row beside those of the
//! next row, so that one packed dot adds four products to the sums of all these
//! rows; their factors to vectors of a factor a row. The values of a few tokens
//! are laid side by side in the same order, four bytes of each. The loop over
//! groups then keeps the sums of all these rows and tokens in registers, and
//! knows nothing of the format. Long sums are cut into panels, so that the values
//! of all tokens of a task and the codes of a block of rows stay in a near cache.
//!
//! Both changes of order are exchanges of bits between lanes and vectors ([`crate::kernel::transpose`]). A vector of codes serves
//! all tokens before the next one is loaded; a group of 32 costs eight dots, a conversion, a product and a multiply-add. Sums
//! longer than 2048 elements are cut, so that the values of 128 tokens stay in the second cache. Tokens past the last one
//! repeat it: nothing is padded in memory, and there is no other path for the rest.

use crate::cpu::dot::integer_dot;
use crate::cpu::dot::packed_dots::Dots;
use crate::cpu::dot::stream::Stream;
use crate::cpu::panels::panels;
use crate::cpu::vectors::Tiler;
use crate::kernel::dot_pattern::{Pattern, Scales, matches};
use crate::kernel::emitter::{few_or_many, make_loop};
use crate::kernel::expression::{collect_loads, combined, depends, divides, or_last, replace, zero};
use crate::kernel::lane_order::lane_order;
use crate::kernel::superword::{Packer, splat};
use crate::kernel::transpose::transpose;
use crate::lower::Item;
use ir::index::{Linear, bounds, is_multiple};
use ir::{BinOp, DType, Graph, Id, Op, Type};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What the loops over rows, tokens and groups need to know.
struct Tile<'a> {
    item: &'a Item,
    p: &'a Pattern,
    token: Id,
    row: Id,
    /// Rows of a vector.
    lanes: i64,
    /// Vectors of rows side by side.
    vectors: i64,
    /// Tokens side by side.
    tokens: i64,
    /// Panels that an inner product is cut into, and their counter.
    panels: i64,
    panel: Id,
    /// Groups of a panel.
    groups: i64,
    /// Elements of a group.
    width: i64,
    scales: Scales,
}

/// Scratch that holds values of the tokens, laid side by side.
struct Packed {
    codes: Id,
    factor: Option<Id>,
    rest: Option<Id>,
}

/// Counters of the rows of a block.
#[derive(Clone, Copy)]
struct BlockRows {
    /// Of its vectors.
    vector: Id,
    /// Of the rows of a vector.
    within: Id,
}

/// The codes of a row, by stretches whose bytes are laid out alike.
struct Stretches {
    /// Counts stretches.
    step: Id,
    /// Elements of a stretch.
    span: i64,
    /// Vectors of neighbouring elements, with the first element of each.
    chunks: Vec<(i64, Id)>,
}

/// Elements of a panel at most: those of 128 tokens take 256 KiB. Of several vectors of rows, each has a share of them.
const PANEL: i64 = 2048;

/// Fewer tokens than this take short products as they come.
const FEW_SHORT: i64 = 3;

/// Largest power of two up to `most` that divides `n`.
fn power_dividing(n: i64, most: i64) -> i64 {
    let mut q = most;
    while n % q != 0 {
        q /= 2;
    }
    q
}

/// Statements of an item that is an integer dot for several tokens, if the rows
/// of a task fill vectors.
pub(crate) fn register_tile(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let (lanes, tokens) = (t.lanes(), 1i64 << t.target.tokens.max(1).ilog2());
    if lanes < 4 || tokens < 2 {
        return None;
    }
    let p = &matches(g, item.value)?;
    let (groups, width) = (g.as_int(g.src(p.group)[0])?, g.as_int(g.src(p.element)[0])?);
    if width % 4 != 0 || !(width as u64).is_power_of_two() {
        return None;
    }
    let (token, row) = p.token_and_row(g, &item.dims)?;
    let rows = g.src(row)[0];
    let to = Linear::of(g, item.index);
    let contiguous = to.coefficient(row) == 1 && !to.terms.iter().any(|x| x.0 != row && depends(g, x.0, row));
    if !is_multiple(g, rows, lanes) || t.most(g, token) < 2 || !contiguous || g.dtype(item.buffer) != DType::F32 {
        return None;
    }
    let scales = p.scales(g, token, row)?;
    let (mut around, mut inside) = (vec![], vec![]);
    for &d in &item.dims {
        match p.moves(g, d) {
            _ if d == token || d == row => {}
            (false, true) => inside.push(d),
            _ => around.push(d),
        }
    }
    let extent = g.src(token)[0];
    let (least, most) = bounds(g, extent);
    // A token of a row costs a sum across lanes, which a short product does not pay for.
    let few = t.target.stream_below.min(if groups < lanes { FEW_SHORT } else { i64::MAX });
    // Few do not pay for unpacking rows into scratch, and none for reading them.
    let streamed = match least < few {
        true => {
            let dims = inside.iter().copied().chain([token, row]).collect();
            streamed(t, g, &Item { dims, ..item.clone() }, token, few - 1)?
        }
        false => vec![],
    };
    if most < few {
        return Some(t.nest(g, &around, streamed));
    }
    let mut vectors = t.target.row_vectors.min(tokens / 2);
    while vectors > 1 && !is_multiple(g, rows, lanes * vectors) {
        vectors /= 2;
    }
    let tokens = tokens / vectors;
    let panels = if t.target.panels { panels(groups, width, PANEL / vectors) } else { 1 };
    let panel = t.counted(g, panels);
    let groups = groups / panels;
    let tile = Tile { item, p, token, row, lanes, vectors, tokens, panels, panel, groups, width, scales };
    let (mut body, packed) = tile.pack_tokens(t, g)?;
    let blocks = tile.row_blocks(t, g, rows, &packed)?;
    let mut stmts = vec![];
    if panels > 1 {
        let start = g.float(0.0);
        let clear = t.store(g, item.buffer, item.index, start);
        let own: Vec<Id> = inside.iter().copied().chain([token, row]).collect();
        stmts.extend(t.nest(g, &own, vec![clear]));
    }
    body.extend(t.nest(g, &inside, blocks));
    stmts.push(make_loop(g, panel, body));
    if least < few.max(1) {
        stmts = few_or_many(g, extent, few.max(1), streamed, stmts);
    }
    Some(t.nest(g, &around, stmts))
}

/// An item for a few tokens, `most` at most: as many side by side as there are, rounded up to a power of two, and in
/// blocks of what the plan takes if there are more.
fn streamed(t: &mut Tiler, g: &mut Graph, item: &Item, token: Id, most: i64) -> Option<Vec<Id>> {
    let widest = 1i64 << t.target.tokens.max(1).ilog2();
    let (least, _) = bounds(g, g.src(token)[0]);
    let sides = (0..)
        .map(|b| 1i64 << b)
        .skip_while(|&s| s < widest.min(least))
        .take_while(|&s| s <= widest && (s == 1 || s / 2 < most));
    let all: Vec<(i64, Vec<Id>)> = sides
        .map(|side| Some((side, integer_dot(t, g, item, Some(Stream { token, side })).ok()?)))
        .collect::<Option<_>>()?;
    let tokens = g.src(token)[0];
    all.into_iter()
        .rev()
        .reduce(|(_, more), (side, stmts)| (side, few_or_many(g, tokens, side + 1, stmts, more)))
        .map(|f| f.1)
}

impl Tile<'_> {
    /// Units of four bytes that are transposed at once, when elements come in
    /// stretches of `span`: all that fit into a vector and leave no rest of `k`.
    fn units(&self, k: i64, span: i64) -> i64 {
        (0..=self.lanes.ilog2()).rev().map(|b| 1 << b).find(|u| k % span.max(4 * u) == 0).unwrap_or(1)
    }

    /// Group `range * n + i` of this panel.
    fn group_at(&self, g: &mut Graph, range: Id, n: i64, i: i64) -> Id {
        let (n, i, groups) = (g.int(n), g.int(i), g.int(self.groups));
        let first = g.mul(self.panel, groups);
        let at = g.mul(range, n);
        let at = g.add(at, i);
        g.add(first, at)
    }

    /// `e` for the groups and elements of the numbers `range * span + offset` of this panel, for each of these offsets.
    fn at_elements(&self, g: &mut Graph, e: Id, range: Id, span: i64, offsets: Range<i64>) -> Vec<Id> {
        let (mut all, mut at) = (vec![], offsets.start);
        while at < offsets.end {
            let end = offsets.end.min((at / self.width + 1) * self.width);
            let group = self.group_at(g, range, span / self.width, at / self.width);
            let of_group = replace(g, e, self.p.group, group);
            let elements: Vec<Id> = (at..end).map(|offset| g.int(offset % self.width)).collect();
            all.extend(g.substitute_each(of_group, self.p.element, &elements));
            at = end;
        }
        all
    }

    /// `e` for `n` groups from `range * n` on, as a vector.
    fn group_vector(&self, g: &mut Graph, e: Id, range: Id, n: i64) -> Option<Id> {
        let all: Vec<Id> = (0..n)
            .map(|i| {
                let at = self.group_at(g, range, n, i);
                replace(g, e, self.p.group, at)
            })
            .collect();
        let v = Packer::default().pack_vector(g, &all)?;
        (n == 1 || !divides(g, v, range)).then_some(v)
    }

    /// Token `i` of block `block`; past the last one, the last one again.
    fn token_at(&self, g: &mut Graph, block: Id, i: i64) -> Id {
        let (n, i) = (g.int(self.tokens), g.int(i));
        let at = g.mul(block, n);
        let at = g.add(at, i);
        or_last(g, at, self.token)
    }

    /// Stores the columns of `rows` from element `at` of `buffer` on.
    fn store_columns(&self, t: &Tiler, g: &mut Graph, rows: &[Id], unit: usize, buffer: Id, at: Id) -> Vec<Id> {
        let units = rows.len() * g.ty(rows[0]).lanes as usize / unit;
        let lanes = units.min(self.lanes as usize);
        let columns = transpose(g, rows, unit, lanes);
        columns
            .into_iter()
            .enumerate()
            .map(|(i, v)| {
                let off = g.int((i * lanes * unit) as i64);
                let at = g.add(at, off);
                t.store(g, buffer, at, v)
            })
            .collect()
    }

    /// Lays the values of all tokens of a task side by side, in blocks.
    fn pack_tokens(&self, t: &mut Tiler, g: &mut Graph) -> Option<(Vec<Id>, Packed)> {
        let k = self.groups * self.width;
        let blocks = (t.most(g, self.token) + self.tokens - 1) / self.tokens;
        let block = t.blocks_of(g, g.src(self.token)[0], self.tokens);
        let codes = t.stash(g, DType::I8, (blocks * self.tokens * k) as usize);
        // One unit is four bytes of a token.
        let units = self.units(k, self.width);
        if units * self.tokens < self.lanes {
            return None;
        }
        let span = (4 * units).max(self.width);
        let step = t.counted(g, k / span);
        let mut body = vec![];
        for first in (0..span).step_by(4 * units as usize) {
            let mut rows = vec![];
            for i in 0..self.tokens {
                let at = self.token_at(g, block, i);
                let x = replace(g, self.p.x, self.token, at);
                let all = self.at_elements(g, x, step, span, first..first + 4 * units);
                let mut packer = Packer::default();
                let v = packer.pack_vector(g, &all)?;
                if packer.gathered > 0 {
                    return None;
                }
                rows.push(v);
            }
            let (whole, per) = (g.int(k * self.tokens), g.int(span * self.tokens));
            let to = g.mul(block, whole);
            let within = g.mul(step, per);
            let to = g.add(to, within);
            let off = g.int(first * self.tokens);
            let to = g.add(to, off);
            body.extend(self.store_columns(t, g, &rows, 4, codes, to));
        }
        let mut stmts = vec![make_loop(g, step, body)];
        let mut floats = |t: &mut Tiler, g: &mut Graph, e: Option<Id>| -> Option<Option<Id>> {
            let Some(e) = e else { return Some(None) };
            let buffer = t.stash(g, DType::F32, (blocks * self.tokens * self.groups) as usize);
            let n = power_dividing(self.groups, self.lanes);
            let step = t.counted(g, self.groups / n);
            let mut rows = vec![];
            for i in 0..self.tokens {
                let at = self.token_at(g, block, i);
                let e = replace(g, e, self.token, at);
                rows.push(self.group_vector(g, e, step, n)?);
            }
            let (whole, per) = (g.int(self.groups * self.tokens), g.int(n * self.tokens));
            let to = g.mul(block, whole);
            let within = g.mul(step, per);
            let to = g.add(to, within);
            let body = self.store_columns(t, g, &rows, 1, buffer, to);
            stmts.push(make_loop(g, step, body));
            Some(Some(buffer))
        };
        let factor = floats(t, g, self.scales.factor.token)?;
        let rest = floats(t, g, self.scales.rest.as_ref().and_then(|r| r.token))?;
        Some((vec![make_loop(g, block, stmts)], Packed { codes, factor, rest }))
    }

    /// For each block of rows: unpacks it, a vector of rows after the other, then multiplies it with all tokens.
    fn row_blocks(&self, t: &mut Tiler, g: &mut Graph, rows: Id, packed: &Packed) -> Option<Vec<Id>> {
        let block = t.rounds(g, rows, self.vectors * self.lanes);
        let rows = BlockRows { vector: t.counted(g, self.vectors), within: t.counted(g, self.lanes) };
        let (all, lanes) = (g.int(self.vectors * self.lanes), g.int(self.lanes));
        let first = g.mul(block, all);
        let at = g.mul(rows.vector, lanes);
        let at = g.add(first, at);
        let at = g.add(at, rows.within);
        let (codes, mut unpacked) = self.unpack(t, g, &rows, at)?;
        let mut floats = |t: &mut Tiler, g: &mut Graph, e: Option<Id>| -> Option<Option<Id>> {
            let Some(e) = e else { return Some(None) };
            let e = replace(g, e, self.row, at);
            let (buffer, s) = self.unpack_floats(t, g, &rows, e)?;
            unpacked.extend(s);
            Some(Some(buffer))
        };
        let factor = floats(t, g, self.scales.factor.row)?;
        let rest = floats(t, g, self.scales.rest.as_ref().and_then(|r| r.row))?;
        let of_rows = Packed { codes, factor, rest };
        let mut stmts = vec![make_loop(g, rows.vector, unpacked)];
        stmts.extend(self.multiply(t, g, first, &of_rows, packed));
        Some(vec![make_loop(g, block, stmts)])
    }

    /// Codes of a block of rows, four bytes of each row beside each other.
    fn unpack(&self, t: &mut Tiler, g: &mut Graph, rows: &BlockRows, row: Id) -> Option<(Id, Vec<Id>)> {
        let (k, BlockRows { vector, within }) = (self.groups * self.width, *rows);
        let code = replace(g, self.p.code, self.row, row);
        let Stretches { step, span, chunks } = self.contiguous_chunks(t, g, code)?;
        let units = self.units(k, span);
        let stretch = span.max(4 * units);
        let raw = t.stash(g, DType::U8, (self.lanes * stretch) as usize);
        let codes = t.stash(g, DType::U8, (self.vectors * self.lanes * k) as usize);
        let around = t.counted(g, k / stretch);
        let mut by_row = vec![];
        for sub in 0..stretch / span {
            let (n, c) = (g.int(stretch / span), g.int(sub));
            let at = g.mul(around, n);
            let at = g.add(at, c);
            for &(first, v) in &chunks {
                let v = replace(g, v, step, at);
                let len = g.int(stretch);
                let to = g.mul(within, len);
                let off = g.int(sub * span + first);
                let to = g.add(to, off);
                by_row.push(t.store(g, raw, to, v));
            }
        }
        // The next block of rows is wanted after the products of this one.
        if t.target.prefetch_l2 > 0
            && let Some(ahead) = self.next_rows(g, chunks[0].1, within)
        {
            let first = {
                let n = g.int(stretch / span);
                g.mul(around, n)
            };
            by_row.push(replace(g, ahead, step, first));
        }
        let mut body = vec![make_loop(g, within, by_row)];
        for first in (0..stretch).step_by(4 * units as usize) {
            let rows: Vec<Id> = (0..self.lanes)
                .map(|i| {
                    let at = g.int(i * stretch + first);
                    g.load(raw, at, 4 * units as usize)
                })
                .collect();
            let per = g.int(stretch * self.lanes);
            let to = g.mul(around, per);
            let off = g.int(first * self.lanes);
            let to = g.add(to, off);
            let to = self.in_vector(g, vector, k, to);
            body.extend(self.store_columns(t, g, &rows, 4, codes, to));
        }
        Some((codes, vec![make_loop(g, around, body)]))
    }

    /// Asks for what a vector of codes of row `within` of a block reads in the
    /// next block.
    fn next_rows(&self, g: &mut Graph, codes: Id, within: Id) -> Option<Id> {
        let mut loads = vec![];
        collect_loads(g, codes, &mut loads);
        let load = *loads.first()?;
        let (buffer, index) = (g.src(load)[0], g.src(load)[1]);
        let rows = g.int(self.vectors * self.lanes);
        let further = g.add(within, rows);
        let index = replace(g, index, within, further);
        Some(g.make(Op::Prefetch(1), DType::Index, vec![], vec![buffer, index]))
    }

    /// The codes of a row as vectors of neighbouring elements: of the same bits of their bytes, or of any where neighbours
    /// share a byte.
    fn contiguous_chunks(&self, t: &mut Tiler, g: &mut Graph, code: Id) -> Option<Stretches> {
        let same_bits = self.chunks_in(t, g, code, lane_order);
        same_bits.or_else(|| self.chunks_in(t, g, code, |_, all, _| Some((0..all.len()).collect())))
    }

    /// These of them that are neighbours in an order of the elements of a stretch.
    fn chunks_in(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        code: Id,
        order: impl Fn(&Graph, &[Id], usize) -> Option<Vec<usize>>,
    ) -> Option<Stretches> {
        let widest = t.target.vector_bytes as i64;
        for bytes in [widest, widest / 2, widest / 4] {
            for groups in [1, 2, 4, 8, 16] {
                let span = groups * self.width;
                if bytes < 16 || self.groups % groups != 0 || span % bytes != 0 {
                    continue;
                }
                let step = t.counted(g, self.groups / groups);
                let all = self.at_elements(g, code, step, span, 0..span);
                let Some(order) = order(g, &all, bytes as usize) else { continue };
                let mut chunks = vec![];
                let mut packer = Packer::default();
                for c in order.chunks(bytes as usize) {
                    let neighbours = c.windows(2).all(|w| w[1] == w[0] + 1);
                    let lanes: Vec<Id> = c.iter().map(|&u| all[u]).collect();
                    let v = if neighbours { packer.pack_vector(g, &lanes) } else { None };
                    chunks.extend(v.map(|v| (c[0] as i64, v)));
                }
                let whole = chunks.len() as i64 * bytes == span && packer.gathered == 0;
                if whole && !chunks.iter().any(|c| divides(g, c.1, step)) {
                    return Some(Stretches { step, span, chunks });
                }
            }
        }
        None
    }

    /// Element `at` of a vector of rows, each of which has `len` elements.
    fn in_vector(&self, g: &mut Graph, vector: Id, len: i64, at: Id) -> Id {
        let whole = g.int(self.lanes * len);
        let before = g.mul(vector, whole);
        g.add(before, at)
    }

    /// A float of each row and group, the rows beside each other.
    fn unpack_floats(&self, t: &mut Tiler, g: &mut Graph, rows: &BlockRows, e: Id) -> Option<(Id, Vec<Id>)> {
        let BlockRows { vector, within } = *rows;
        let mut n = power_dividing(self.groups, self.lanes);
        let (step, v) = loop {
            let step = t.counted(g, self.groups / n);
            match self.group_vector(g, e, step, n) {
                Some(v) => break (step, v),
                None if n > 1 => n /= 2,
                None => return None,
            }
        };
        let raw = t.stash(g, DType::F32, (self.lanes * n) as usize);
        let buffer = t.stash(g, DType::F32, (self.vectors * self.lanes * self.groups) as usize);
        let len = g.int(n);
        let at = g.mul(within, len);
        let store = t.store(g, raw, at, v);
        let mut body = vec![make_loop(g, within, vec![store])];
        let rows: Vec<Id> = (0..self.lanes)
            .map(|i| {
                let at = g.int(i * n);
                g.load(raw, at, n as usize)
            })
            .collect();
        let per = g.int(n * self.lanes);
        let to = g.mul(step, per);
        let to = self.in_vector(g, vector, self.groups, to);
        body.extend(self.store_columns(t, g, &rows, 1, buffer, to));
        Some((buffer, vec![make_loop(g, step, body)]))
    }

    /// The sums of a block of rows for every token.
    fn multiply(&self, t: &mut Tiler, g: &mut Graph, first_row: Id, of_rows: &Packed, of_tokens: &Packed) -> Vec<Id> {
        let lanes = self.lanes as usize;
        let sums = Type::vector(DType::F32, lanes);
        let block = t.blocks_of(g, g.src(self.token)[0], self.tokens);
        let group = t.counted(g, self.groups);
        // Element `unit` of what a block of tokens has, and of what the rows have.
        let of_token = |g: &mut Graph, units: i64, unit: i64, i: i64, bytes: i64| {
            let (whole, per) = (g.int(self.groups * units * self.tokens * bytes), g.int(units * self.tokens * bytes));
            let (a, b) = (g.mul(block, whole), g.mul(group, per));
            let at = g.add(a, b);
            let off = g.int((unit * self.tokens + i) * bytes);
            g.add(at, off)
        };
        let of_row = |g: &mut Graph, vector: i64, units: i64, unit: i64, bytes: i64| {
            let per = g.int(units * self.lanes * bytes);
            let at = g.mul(group, per);
            let off = g.int((vector * self.groups * units + unit) * self.lanes * bytes);
            g.add(at, off)
        };
        let quads = self.width / 4;
        let vectors = 0..self.vectors;
        let row_floats = |g: &mut Graph, buffer: Option<Id>, vector: i64| {
            buffer.map(|b| {
                let at = of_row(g, vector, 1, 0, 1);
                g.load(b, at, lanes)
            })
        };
        // A vector of codes serves all tokens before the next is loaded.
        let sides: Vec<(i64, i64)> = (0..self.tokens).flat_map(|i| vectors.clone().map(move |v| (i, v))).collect();
        let mut dots: Vec<Dots> = sides.iter().map(|_| Dots::new(g, lanes, self.p.most, t.target.pairs)).collect();
        let mut body = vec![];
        for q in 0..quads {
            let codes: Vec<Id> = vectors
                .clone()
                .map(|v| {
                    let at = of_row(g, v, quads, q, 4);
                    g.load(of_rows.codes, at, 4 * lanes)
                })
                .collect();
            let mut set = vec![];
            for (&(i, v), dots) in sides.iter().zip(&mut dots) {
                let at = of_token(g, quads, q, i, 4);
                let x = g.load(of_tokens.codes, at, 4);
                let map = (0..4 * lanes).map(|l| (l % 4) as u16).collect();
                let x = g.make(Op::Shuffle(map), Type::vector(DType::I8, 4 * lanes), vec![], vec![x]);
                dots.add(g, codes[v as usize], x);
                dots.hold(t, g, &mut set);
            }
            body.push(t.set(g, set));
        }
        let (mut first, mut update, mut last) = (vec![], vec![], vec![]);
        for ((i, v), mut dots) in sides.into_iter().zip(dots) {
            let at = self.token_at(g, block, i);
            let before = g.int(v * self.lanes);
            let row = g.add(first_row, before);
            let mut m = FxHashMap::from_iter([(self.token, at), (self.row, row)]);
            let index = g.substitute(self.item.index, &mut m);
            let acc = t.acc(g, sums);
            let start = if self.panels > 1 { g.load(self.item.buffer, index, lanes) } else { zero(g, sums) };
            first.push((acc, start));
            let token_float = |g: &mut Graph, buffer: Option<Id>| {
                buffer.map(|b| {
                    let at = of_token(g, 1, 0, i, 1);
                    let v = g.load(b, at, 1);
                    splat(g, v, lanes)
                })
            };
            let product = |g: &mut Graph, row: Option<Id>, token: Option<Id>| {
                let all: Vec<Id> = row.into_iter().chain(token).collect();
                combined(g, BinOp::Mul, &all)
            };
            let (row_factor, row_rest) = (row_floats(g, of_rows.factor, v), row_floats(g, of_rows.rest, v));
            let token_factor = token_float(g, of_tokens.factor);
            let dot = dots.total(g);
            let mut value = g.cast(dot, DType::F32);
            if let Some(f) = product(g, row_factor, token_factor) {
                value = g.mul(value, f);
            }
            let mut next = g.add(acc, value);
            let token_rest = token_float(g, of_tokens.rest);
            if let Some(r) = product(g, row_rest, token_rest) {
                let r = splat(g, r, lanes);
                next = g.add(next, r);
            }
            update.push((acc, next));
            last.push(t.store(g, self.item.buffer, index, acc));
        }
        body.push(t.set(g, update));
        let mut stmts = vec![t.set(g, first), make_loop(g, group, body)];
        stmts.extend(last);
        vec![make_loop(g, block, stmts)]
    }
}
