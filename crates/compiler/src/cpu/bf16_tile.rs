//! Products of many rows and many tokens by a matrix unit.
//!
//! A task multiplies its rows with its tokens in blocks of [`PRODUCT`] by [`PRODUCT`], see [`Op::Product`]. Rows of
//! a block format become bf16 numbers, a block of rows at a time, for all tokens of the task; the tokens become bf16
//! once for all its rows, laid side by side in pairs of elements. Sums stay in the unit's own layout until the last
//! panel of the inner dimension is added, and are then turned into rows of the result.
//!
//! Against integer dots of eight-bit codes this rounds less: a bf16 number has eight bits as well, and its own exponent.
//!
//! One or two tokens (the head of a prompt has one) take the vector reduction: the choice is an `If` in the kernel. A matrix
//! whose rows or elements do not come in thirty-twos takes it too. Weights are the unit's left side, so that they are unpacked
//! in the order in which they lie.

use crate::cpu::panels::BLOCK;
use crate::cpu::vectors::Tiler;
use crate::kernel::emitter::{few_or_many, make_loop};
use crate::kernel::expression::{
    collect_loads, combined, depends, divides, has_reduction, or_last, replace, terms, zero,
};
use crate::kernel::superword::{Packer, join};
use crate::kernel::transpose::transpose;
use crate::lower::Item;
use ir::index::{Linear, bounds};
use ir::{BinOp, DType, Graph, Id, Op, PRODUCT, ReduceOp, Type};

/// Elements of a panel at most: those of 256 tokens take 256 KiB, those of a block of rows 32.
const PANEL: i64 = 512;

/// Rows and tokens of a block, and elements of a step.
const SIDE: i64 = PRODUCT as i64;

/// Half of a block: a tile of the unit has as many rows, tokens and pairs of elements.
const HALF: i64 = SIDE / 2;

/// Numbers of a block of sums, and of a step of rows or tokens.
const SQUARE: i64 = SIDE * SIDE;

/// A sum over `k` of `row factor * token factor`.
struct Tile<'a> {
    item: &'a Item,
    of_row: Id,
    of_token: Id,
    row: Id,
    token: Id,
    /// Summed dimensions around `k`.
    outer: Vec<Id>,
    k: Id,
    /// Counts panels.
    panel: Id,
    /// Elements of a panel.
    depth: i64,
}

/// Statements of an item that multiplies rows of a block format with several tokens.
pub(crate) fn block_product(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    if !t.target.matrix_unit
        || *g.op(item.value) != Op::Reduce(ReduceOp::Sum, vec![])
        || g.dtype(item.buffer) != DType::F32
    {
        return None;
    }
    let (body, outer, k) = match g.src(item.value) {
        [body, outer @ .., k] => (*body, outer.to_vec(), *k),
        _ => return None,
    };
    let elements = g.as_int(g.src(k)[0])?;
    if has_reduction(g, body) || elements % SIDE != 0 {
        return None;
    }
    let to = Linear::of(g, item.index);
    let mut factors = vec![];
    terms(g, BinOp::Mul, body, &mut factors);
    let (row, of_row, of_token) = item.dims.iter().rev().find_map(|&d| {
        let contiguous = to.coefficient(d) == 1 && !to.terms.iter().any(|x| x.0 != d && depends(g, x.0, d));
        let (row, token): (Vec<Id>, Vec<Id>) = factors.iter().partition(|&&f| depends(g, f, d));
        let whole = g.as_int(g.src(d)[0])? % SIDE == 0;
        let both = !row.is_empty() && !token.is_empty();
        (contiguous && whole && both && row.iter().any(|&f| reads_codes(g, f))).then_some((d, row, token))
    })?;
    let (of_row, of_token) = (combined(g, BinOp::Mul, &of_row)?, combined(g, BinOp::Mul, &of_token)?);
    let several: Vec<Id> =
        item.dims.iter().copied().filter(|&d| depends(g, of_token, d) && !depends(g, of_row, d)).collect();
    let token = several.into_iter().max_by_key(|&d| t.most(g, d))?;
    if t.most(g, token) < 2 {
        return None;
    }
    let mut stmts = panels(elements).find_map(|panels| {
        let panel = t.counted(g, panels);
        let depth = elements / panels;
        Tile { item, of_row, of_token, row, token, outer: outer.clone(), k, panel, depth }.statements(t, g, panels)
    })?;
    let extent = g.src(token)[0];
    let few = t.target.stream_below.min(FEW);
    if bounds(g, extent).0 < few {
        let plain = Item { dims: vec![token, row], ..item.clone() };
        let plain = t.lanes_along_reduction(g, &plain, ReduceOp::Sum, None)?;
        stmts = few_or_many(g, extent, few, plain, stmts);
    }
    let around: Vec<Id> = item.dims.iter().copied().filter(|&d| d != row && d != token).collect();
    Some(t.nest(g, &around, stmts))
}

/// Fewer tokens than this do not pay for blocks.
const FEW: i64 = 3;

/// Into how many panels an inner product may be cut, best first: panels of whole blocks of any format, of any steps,
/// or all of a short sum.
fn panels(elements: i64) -> impl Iterator<Item = i64> {
    let cut = move |unit: i64| {
        (1..=elements / SIDE).find(move |n| elements % n == 0 && elements / n <= PANEL && elements / n % unit == 0)
    };
    let whole = (elements <= 4 * PANEL).then_some(1);
    [cut(BLOCK), cut(SIDE), whole].into_iter().flatten()
}

/// Whether a value is read from bytes: the codes of a block format.
fn reads_codes(g: &Graph, e: Id) -> bool {
    let mut loads = vec![];
    collect_loads(g, e, &mut loads);
    loads.iter().any(|&l| g.dtype(l).bytes() == 1)
}

impl Tile<'_> {
    fn steps(&self) -> i64 {
        self.depth / SIDE
    }

    fn statements(&self, t: &mut Tiler, g: &mut Graph, panels: i64) -> Option<Vec<Id>> {
        let tokens = (t.most(g, self.token) + SIDE - 1) / SIDE;
        let rows = t.most(g, self.row) / SIDE;
        let sums = t.stash(g, DType::F32, (rows * tokens * SQUARE) as usize);
        let of_rows = t.stash(g, DType::BF16, (self.steps() * SQUARE) as usize);
        let of_tokens = t.stash(g, DType::BF16, (tokens * self.steps() * SQUARE) as usize);
        let mut body = self.pack_tokens(t, g, of_tokens)?;
        let row = t.counted(g, rows);
        let mut of_block = self.unpack_rows(t, g, row, of_rows)?;
        let token = t.blocks_of(g, g.src(self.token)[0], SIDE);
        let at = self.sums_at(g, row, token, tokens);
        let step = g.int(self.steps() * SQUARE);
        let first = g.mul(token, step);
        let nothing = g.int(0);
        let lanes = (self.steps() * SQUARE) as usize;
        let sources =
            vec![g.load(sums, at, SQUARE as usize), g.load(of_rows, nothing, lanes), g.load(of_tokens, first, lanes)];
        let product = g.make(Op::Product, Type::vector(DType::F32, SQUARE as usize), vec![], sources);
        let add = t.store(g, sums, at, product);
        of_block.push(make_loop(g, token, vec![add]));
        body.push(make_loop(g, row, of_block));
        let mut stmts = self.clear(t, g, sums, rows * tokens * SQUARE);
        let body = if panels == 1 { body } else { vec![make_loop(g, self.panel, body)] };
        stmts.extend(t.nest(g, &self.outer, body));
        if panels == 1 {
            let only = g.int(0);
            stmts = stmts.into_iter().map(|s| replace(g, s, self.panel, only)).collect();
        }
        stmts.extend(self.results(t, g, sums, rows, tokens));
        Some(stmts)
    }

    /// Where the sums of a block of rows and a block of tokens begin.
    fn sums_at(&self, g: &mut Graph, row: Id, token: Id, tokens: i64) -> Id {
        let (n, square) = (g.int(tokens), g.int(SQUARE));
        let at = g.mul(row, n);
        let at = g.add(at, token);
        g.mul(at, square)
    }

    fn clear(&self, t: &mut Tiler, g: &mut Graph, sums: Id, len: i64) -> Vec<Id> {
        let range = t.counted(g, len / HALF);
        let n = g.int(HALF);
        let at = g.mul(range, n);
        let nothing = zero(g, Type::vector(DType::F32, HALF as usize));
        let store = t.store(g, sums, at, nothing);
        vec![make_loop(g, range, vec![store])]
    }

    /// Token `i` of half `half` of block `block`; past the last one, the last one again.
    fn token_at(&self, g: &mut Graph, block: Id, half: Id, i: Id) -> Id {
        let (side, n) = (g.int(SIDE), g.int(HALF));
        let at = g.mul(block, side);
        let half = g.mul(half, n);
        let at = g.add(at, half);
        let at = g.add(at, i);
        or_last(g, at, self.token)
    }

    /// `e` for [`SIDE`] elements from `offset` on in pass `range` over stretches of `span`, in bf16.
    fn numbers(&self, g: &mut Graph, e: Id, range: Id, span: i64, offset: i64) -> Option<Id> {
        let halves = [0, HALF].map(|h| {
            let all: Vec<Id> = (0..HALF)
                .map(|i| {
                    let (depth, span, within) = (g.int(self.depth), g.int(span), g.int(offset + h + i));
                    let first = g.mul(self.panel, depth);
                    let at = g.mul(range, span);
                    let at = g.add(first, at);
                    let at = g.add(at, within);
                    replace(g, e, self.k, at)
                })
                .collect();
            let mut packer = Packer::default();
            let v = packer.pack_vector(g, &all)?;
            (packer.gathered == 0).then(|| g.cast(v, DType::BF16))
        });
        let [Some(low), Some(high)] = halves else { return None };
        Some(join(g, vec![low, high]))
    }

    /// Lays the tokens side by side.
    fn pack_tokens(&self, t: &mut Tiler, g: &mut Graph, to: Id) -> Option<Vec<Id>> {
        let block = t.blocks_of(g, g.src(self.token)[0], SIDE);
        let half = t.counted(g, 2);
        let step = t.counted(g, self.steps());
        let rows: Option<Vec<Id>> = (0..HALF)
            .map(|i| {
                let i = g.int(i);
                let at = self.token_at(g, block, half, i);
                let e = replace(g, self.of_token, self.token, at);
                self.numbers(g, e, step, SIDE, 0)
            })
            .collect();
        let columns = transpose(g, &rows?, 2, HALF as usize);
        let (panel, square, tile) = (g.int(self.steps() * SQUARE), g.int(SQUARE), g.int(SQUARE / 2));
        let first = g.mul(block, panel);
        let of_step = g.mul(step, square);
        let of_half = g.mul(half, tile);
        let first = g.add(first, of_step);
        let first = g.add(first, of_half);
        let stores: Vec<Id> = columns
            .into_iter()
            .enumerate()
            .map(|(i, v)| {
                let off = g.int(i as i64 * SIDE);
                let at = g.add(first, off);
                t.store(g, to, at, v)
            })
            .collect();
        Some(t.nest(g, &[block, half, step], stores))
    }

    /// Turns a block of rows into numbers.
    fn unpack_rows(&self, t: &mut Tiler, g: &mut Graph, block: Id, to: Id) -> Option<Vec<Id>> {
        let within = t.counted(g, SIDE);
        let side = g.int(SIDE);
        let at = g.mul(block, side);
        let at = g.add(at, within);
        let e = replace(g, self.of_row, self.row, at);
        // A stretch after which the bytes of a row are laid out in the same way.
        let (range, span, all) = [1, 2, 4, 8, 16].into_iter().find_map(|steps| {
            let span = steps * SIDE;
            if self.depth % span != 0 {
                return None;
            }
            let range = t.counted(g, self.depth / span);
            let all: Vec<Id> = (0..steps).map(|s| self.numbers(g, e, range, span, s * SIDE)).collect::<Option<_>>()?;
            let whole = span == self.depth || span == 16 * SIDE || !all.iter().any(|&v| divides(g, v, range));
            whole.then_some((range, span, all))
        })?;
        let per_row = g.mul(within, side);
        let stores: Vec<Id> = all
            .into_iter()
            .enumerate()
            .map(|(s, v)| {
                let (n, s) = (g.int(span / SIDE * SQUARE), g.int(s as i64 * SQUARE));
                let at = g.mul(range, n);
                let at = g.add(at, s);
                let at = g.add(at, per_row);
                t.store(g, to, at, v)
            })
            .collect();
        Some(t.nest(g, &[within, range], stores))
    }

    /// Turns the sums into rows of the result, a tile at a time.
    fn results(&self, t: &mut Tiler, g: &mut Graph, sums: Id, rows: i64, tokens: i64) -> Vec<Id> {
        let row = t.counted(g, rows);
        let token = t.blocks_of(g, g.src(self.token)[0], SIDE);
        let (row_half, token_half) = (t.counted(g, 2), t.counted(g, 2));
        let first = self.sums_at(g, row, token, tokens);
        let (two, tile, n, side) = (g.int(2), g.int(HALF * HALF), g.int(HALF), g.int(SIDE));
        let at = g.mul(row_half, two);
        let at = g.add(at, token_half);
        let at = g.mul(at, tile);
        let first = g.add(first, at);
        let vectors: Vec<Id> = (0..HALF)
            .map(|i| {
                let off = g.int(i * HALF);
                let at = g.add(first, off);
                g.load(sums, at, HALF as usize)
            })
            .collect();
        let at = g.mul(row, side);
        let within = g.mul(row_half, n);
        let at_row = g.add(at, within);
        let stores: Vec<Id> = transpose(g, &vectors, 1, HALF as usize)
            .into_iter()
            .enumerate()
            .map(|(i, v)| {
                let i = g.int(i as i64);
                let at_token = self.token_at(g, token, token_half, i);
                let mut m = rustc_hash::FxHashMap::from_iter([(self.token, at_token), (self.row, at_row)]);
                let to = g.substitute(self.item.index, &mut m);
                t.store(g, self.item.buffer, to, v)
            })
            .collect();
        t.nest(g, &[row, row_half, token, token_half], stores)
    }
}
