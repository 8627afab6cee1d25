//! Superword packing: many scalar expressions of one shape become one vector
//! expression (Larsen and Amarasinghe, "Exploiting superword level
//! parallelism", 2000).
//!
//! The lanes are given as expressions. Equal ones become a splat, constants a
//! constant vector, loads at related addresses a wide load, a shuffled load or
//! a join of loads. Nothing here knows what the lanes mean, so a block format
//! vectorises because its row says where its bits are.

use ir::index::Linear;
use ir::{BinOp, Const, DType, Graph, Id, Op, Type};
use rustc_hash::FxHashMap;

/// Packs lanes, remembering what was packed.
#[derive(Default)]
pub struct Packer {
    memo: FxHashMap<Vec<Id>, Option<Id>>,
    /// Scalar loads that had to be gathered lane by lane.
    pub gathered: usize,
    /// Whether lanes can be shifted by different amounts; bits are tested otherwise.
    shifts: bool,
    /// Bytes of vectors whose words are blended and permuted by one instruction each; 0 for none.
    windows: usize,
}

/// Bytes that a weight may be read past its last element.
const WINDOW: i64 = 16;

impl Packer {
    /// For words whose bytes can be shifted by different amounts.
    pub fn shifting() -> Packer {
        Packer { shifts: true, ..Packer::default() }
    }

    /// Where words of vectors of so many bytes can be blended and permuted.
    pub fn with_windows(bytes: usize) -> Packer {
        Packer { windows: bytes, ..Packer::default() }
    }

    /// These lanes are packed in `v`.
    pub fn know(&mut self, lanes: Vec<Id>, v: Id) {
        self.memo.insert(lanes, Some(v));
    }

    /// One value with a lane for each expression: a scalar if all are the same,
    /// a vector otherwise. `None` if the shapes of the expressions differ.
    pub fn pack(&mut self, g: &mut Graph, lanes: &[Id]) -> Option<Id> {
        if lanes.iter().all(|&l| l == lanes[0]) {
            return Some(lanes[0]);
        }
        if let Some(r) = self.memo.get(lanes) {
            return *r;
        }
        let r = self.pack_new(g, lanes);
        self.memo.insert(lanes.to_vec(), r);
        r
    }

    /// As [`Packer::pack`], but always a vector.
    pub fn pack_vector(&mut self, g: &mut Graph, lanes: &[Id]) -> Option<Id> {
        let v = self.pack(g, lanes)?;
        Some(splat(g, v, lanes.len()))
    }

    fn pack_new(&mut self, g: &mut Graph, lanes: &[Id]) -> Option<Id> {
        let n = lanes.len();
        let first = g.node(lanes[0]).clone();
        if lanes.iter().any(|&l| g.ty(l) != first.ty) {
            return None;
        }
        if lanes.iter().all(|&l| matches!(g.op(l), Op::Const(_))) {
            let values = lanes.iter().map(|&l| g.as_const(l).unwrap()).collect();
            return Some(g.make(Op::Lanes(values), Type::vector(first.ty.base, n), vec![], vec![]));
        }
        if first.ty.base == DType::Index {
            return None; // indices are packed by the casts and loads above them
        }
        if first.op == Op::Cast && g.dtype(first.src[0]) == DType::Index {
            return self.pack_counter(g, lanes, first.ty.base);
        }
        // Some lanes shifted, some not: those are shifted by nothing.
        let shifted = |g: &Graph, l: Id| *g.op(l) == Op::Binary(BinOp::Shr) && g.as_int(g.src(l)[1]).is_some();
        let count = lanes.iter().filter(|&&l| shifted(g, l)).count();
        if count > 0 && count < n {
            let amount = g.constant(Const::Int(0), first.ty.base);
            let full: Vec<Id> =
                lanes
                    .iter()
                    .map(|&l| {
                        if shifted(g, l) {
                            l
                        } else {
                            g.make(Op::Binary(BinOp::Shr), first.ty, vec![], vec![l, amount])
                        }
                    })
                    .collect();
            return self.pack(g, &full);
        }
        let kind = std::mem::discriminant(&first.op);
        if lanes.iter().any(|&l| std::mem::discriminant(g.op(l)) != kind || g.src(l).len() != first.src.len()) {
            return None;
        }
        match first.op.clone() {
            Op::Load => self.pack_loads(g, lanes),
            Op::Unary(op) => {
                if lanes.iter().any(|&l| *g.op(l) != Op::Unary(op)) {
                    return None;
                }
                let a = self.operand(g, lanes, 0)?;
                let a = splat(g, a, n);
                Some(g.unary(op, a))
            }
            Op::Binary(op) => {
                if lanes.iter().any(|&l| *g.op(l) != Op::Binary(op)) || op == BinOp::Mod {
                    return None;
                }
                if op == BinOp::And
                    && !self.shifts
                    && let Some(v) = self.bit_test(g, lanes)
                {
                    return Some(v);
                }
                let a = self.operand(g, lanes, 0)?;
                let b = self.operand(g, lanes, 1)?;
                let (a, b) = (splat(g, a, n), splat(g, b, n));
                Some(bits(g, op, a, b))
            }
            Op::Where => {
                let c = self.operand(g, lanes, 0)?;
                let a = self.operand(g, lanes, 1)?;
                let b = self.operand(g, lanes, 2)?;
                let (c, a, b) = (splat(g, c, n), splat(g, a, n), splat(g, b, n));
                Some(g.select(c, a, b))
            }
            Op::Cast => {
                let a = self.operand(g, lanes, 0)?;
                let a = splat(g, a, n);
                Some(g.cast(a, first.ty.base))
            }
            Op::Lookup => {
                let table = first.src[0];
                if lanes.iter().any(|&l| g.src(l)[0] != table) {
                    return None;
                }
                let i = self.operand(g, lanes, 1)?;
                let i = splat(g, i, n);
                let ty = Type::vector(first.ty.base, n);
                Some(looked_up(g, table, i, ty).unwrap_or_else(|| g.make(Op::Lookup, ty, vec![], vec![table, i])))
            }
            _ => None,
        }
    }

    fn operand(&mut self, g: &mut Graph, lanes: &[Id], which: usize) -> Option<Id> {
        let inner: Vec<Id> = lanes.iter().map(|&l| g.src(l)[which]).collect();
        self.pack(g, &inner)
    }

    /// Conversions of indices that differ by constants.
    fn pack_counter(&mut self, g: &mut Graph, lanes: &[Id], ty: DType) -> Option<Id> {
        let mut constants = vec![];
        let mut terms: Option<Vec<(Id, i64)>> = None;
        for &l in lanes {
            let i = if *g.op(l) == Op::Cast { g.src(l)[0] } else { return None };
            let lin = Linear::of(g, i);
            if terms.as_ref().is_some_and(|t| *t != lin.terms) {
                return None;
            }
            constants.push(lin.constant);
            terms = Some(lin.terms);
        }
        let start = Linear { terms: terms?, constant: 0 }.build(g);
        let start = g.cast(start, ty);
        let start = splat(g, start, lanes.len());
        let values =
            constants.into_iter().map(|c| if ty.is_float() { Const::f32(c as f32) } else { Const::Int(c) }).collect();
        let offsets = g.make(Op::Lanes(values), Type::vector(ty, lanes.len()), vec![], vec![]);
        Some(g.add(start, offsets))
    }

    /// `(x >> s) & 1` with another `s` in each lane: a test of one bit.
    fn bit_test(&mut self, g: &mut Graph, lanes: &[Id]) -> Option<Id> {
        let mut bits = vec![];
        let mut values = vec![];
        for &l in lanes {
            let (shr, one) = (g.src(l)[0], g.src(l)[1]);
            if g.as_int(one) != Some(1) || g.dtype(l) != DType::U8 {
                return None;
            }
            if *g.op(shr) == Op::Binary(BinOp::Shr) {
                bits.push(1 << g.as_int(g.src(shr)[1])?);
                values.push(g.src(shr)[0]);
            } else {
                bits.push(1);
                values.push(shr);
            }
        }
        if bits.iter().all(|&b| b == bits[0]) {
            return None;
        }
        let n = lanes.len();
        let v = self.pack_vector(g, &values)?;
        let ty = Type::vector(DType::U8, n);
        let mask = g.make(Op::Lanes(bits.into_iter().map(Const::Int).collect()), ty, vec![], vec![]);
        let zero = g.make(Op::Lanes(vec![Const::Int(0); n]), ty, vec![], vec![]);
        let hit = g.binary(BinOp::And, v, mask);
        let hit = g.binary(BinOp::Eq, hit, mask);
        let one = g.make(Op::Lanes(vec![Const::Int(1); n]), ty, vec![], vec![]);
        Some(g.select(hit, one, zero))
    }

    fn pack_loads(&mut self, g: &mut Graph, lanes: &[Id]) -> Option<Id> {
        let buffer = g.src(lanes[0])[0];
        let mut offsets = vec![];
        let mut terms: Option<Vec<(Id, i64)>> = None;
        for &l in lanes {
            if g.src(l)[0] != buffer {
                return None;
            }
            let lin = Linear::of(g, g.src(l)[1]);
            if terms.as_ref().is_some_and(|t| *t != lin.terms) {
                self.gathered += lanes.len();
                return Some(join(g, lanes.to_vec()));
            }
            offsets.push(lin.constant);
            terms = Some(lin.terms);
        }
        let ty = g.dtype(lanes[0]);
        Some(self.load_at(g, buffer, &terms?, &offsets, ty))
    }

    /// Elements of `ty` at `terms + offset`, one for each lane.
    fn load_at(&mut self, g: &mut Graph, buffer: Id, terms: &[(Id, i64)], offsets: &[i64], ty: DType) -> Id {
        let n = offsets.len();
        let load = |g: &mut Graph, constant: i64, lanes: usize| {
            let i = Linear { terms: terms.to_vec(), constant }.build(g);
            g.make(Op::Load, Type::vector(ty, lanes), vec![], vec![buffer, i])
        };
        let raw = g.dtype(buffer) == DType::U8;
        let step = if raw { ty.bytes() as i64 } else { 1 };
        if n == 1 || offsets.iter().all(|&o| o == offsets[0]) {
            let v = load(g, offsets[0], 1);
            return splat(g, v, n);
        }
        if n.is_power_of_two() && offsets.windows(2).all(|w| w[1] == w[0] + step) {
            return load(g, offsets[0], n);
        }
        let (lo, hi) = (*offsets.iter().min().unwrap(), *offsets.iter().max().unwrap());
        // One load of so many elements, and a shuffle.
        let shuffled = |g: &mut Graph, elements: usize| {
            let v = load(g, lo, elements);
            let map = offsets.iter().map(|&o| ((o - lo) / step) as u16).collect();
            g.make(Op::Shuffle(map), Type::vector(ty, n), vec![], vec![v])
        };
        // Repeated or permuted bytes of a small window.
        if raw && ty == DType::U8 && n >= 8 && hi - lo < WINDOW {
            let runs = offsets.chunks(n / 2).all(|c| c.windows(2).all(|w| w[1] == w[0] + step));
            // Fours, too, that are in two places.
            if !runs || n == 8 {
                return shuffled(g, WINDOW as usize);
            }
        }
        // Each of a few words that follow each other, again and again.
        let words = ((hi - lo) / step + 1) as usize;
        let whole = offsets.iter().all(|&o| (o - lo) % step == 0);
        if ty.bytes() == 4 && whole && (4..n).contains(&words) && words.is_power_of_two() {
            return shuffled(g, words);
        }
        // Bytes that follow each other need not be brought together.
        let apart = ty.bytes() == 2 || offsets.windows(2).all(|w| w[1] != w[0] + step);
        if raw
            && ty.bytes() <= 2
            && apart
            && let Some(v) = self.blended(g, offsets, ty, load)
        {
            return v;
        }
        // Two equal halves of a narrower vector.
        let (a, b) = offsets.split_at(n / 2);
        if n >= 4 {
            let (a, b) = (self.load_at(g, buffer, terms, a, ty), self.load_at(g, buffer, terms, b, ty));
            return join(g, vec![a, b]);
        }
        self.gathered += n;
        let parts = offsets.iter().map(|&o| load(g, o, 1)).collect();
        join(g, parts)
    }

    /// Words or bytes that lie apart, such as the scales of blocks, from a few wide loads: each blends its own into lanes
    /// of theirs, and one shuffle orders them. `None` where that takes more than a load for each two of them.
    fn blended(
        &self,
        g: &mut Graph,
        offsets: &[i64],
        ty: DType,
        load: impl Fn(&mut Graph, i64, usize) -> Id,
    ) -> Option<Id> {
        let (n, lanes) = (offsets.len(), self.windows / ty.bytes());
        if n < 8 || n > lanes || (1..n).any(|i| offsets[..i].contains(&offsets[i])) {
            return None;
        }
        let found = windows(offsets, lanes, ty.bytes()).filter(|found| 2 * found.len() <= n)?;
        let mut all: Option<Id> = None;
        let mut order = vec![0; n];
        for window in found {
            let v = load(g, window.start, lanes);
            let mut map: Vec<u16> = (0..lanes as u16).collect();
            for (lane, element) in window.lanes {
                map[lane] += lanes as u16;
                order[element] = lane as u16;
            }
            all = Some(match all {
                None => v,
                Some(before) => of_two(g, before, v, map),
            });
        }
        Some(g.make(Op::Shuffle(order), Type::vector(ty, n), vec![], vec![all?]))
    }
}

/// A part of memory as wide as a vector, and the lanes that it is read for.
struct Window {
    start: i64,
    /// This lane is for this element.
    lanes: Vec<(usize, usize)>,
}

/// Windows of `lanes` words or bytes, each of so many `bytes`, that hold all the elements at these offsets, each in a lane
/// of its own. A window begins early enough that its elements find lanes that are free, and not before the first element.
fn windows(offsets: &[i64], lanes: usize, bytes: usize) -> Option<Vec<Window>> {
    let first = *offsets.iter().min()?;
    let mut taken = vec![false; lanes];
    let mut left: Vec<usize> = (0..offsets.len()).collect();
    left.sort_by_key(|&e| offsets[e]);
    let mut found: Vec<Window> = vec![];
    while let Some(&next) = left.first() {
        let at = |shift: usize| {
            let start = offsets[next] - (bytes * shift) as i64;
            let lane = |e: usize| {
                let at = usize::try_from(offsets[e] - start).ok()?;
                (at % bytes == 0 && at / bytes < lanes && !taken[at / bytes]).then_some((at / bytes, e))
            };
            let found = left.iter().filter_map(|&e| lane(e));
            (start >= first).then(|| Window { start, lanes: found.collect() })
        };
        // Of those that take most, the one that begins latest.
        let best = (0..lanes).rev().filter_map(at).max_by_key(|window| window.lanes.len())?;
        if best.lanes.is_empty() {
            return None;
        }
        best.lanes.iter().for_each(|&(lane, _)| taken[lane] = true);
        left.retain(|e| !best.lanes.iter().any(|(_, known)| known == e));
        found.push(best);
    }
    Some(found)
}

/// `a op b` of vectors. Bits that are shifted down, cut out and shifted up to their place in a code are shifted once and
/// then cut out: `((x >> r) & m) << l` is `(x << (l - r)) & (m << l)`, or with `>> (r - l)`. Bits that were tested are
/// where they belong at once. Not earlier: lanes are ordered by the shifts of their loads.
fn bits(g: &mut Graph, op: BinOp, a: Id, b: Id) -> Id {
    let moved = tested(g, op, a, b).or_else(|| moved_once(g, op, a, b));
    moved.unwrap_or_else(|| g.binary(op, a, b))
}

/// `(c ? x : y) << l` of constants.
fn tested(g: &mut Graph, op: BinOp, a: Id, b: Id) -> Option<Id> {
    let ty = g.ty(a);
    let up = each_lane(g, b).filter(|_| op == BinOp::Shl && ty.base == DType::U8)?;
    chosen(g, a, ty, |lane, v| Some((v << up[lane]) & 255))
}

/// `table[c ? x : y]` of constants.
fn looked_up(g: &mut Graph, table: Id, at: Id, ty: Type) -> Option<Id> {
    let entries = each_lane(g, table)?;
    chosen(g, at, ty, |_, v| entries.get(usize::try_from(v).ok()?).copied())
}

/// `f(c ? x : y)` of constants: a choice between what `f` makes of the lanes and values of both.
fn chosen(g: &mut Graph, choice: Id, ty: Type, f: impl Fn(usize, i64) -> Option<i64>) -> Option<Id> {
    let (Op::Where, &[hit, yes, no]) = (g.op(choice), g.src(choice)) else { return None };
    let mut of = |v: Id| {
        let values = each_lane(g, v)?.into_iter().enumerate();
        let values = values.map(|(lane, v)| f(lane, v).map(Const::Int)).collect::<Option<_>>()?;
        Some(g.make(Op::Lanes(values), ty, vec![], vec![]))
    };
    let (yes, no) = (of(yes)?, of(no)?);
    Some(g.select(hit, yes, no))
}

fn moved_once(g: &mut Graph, op: BinOp, a: Id, b: Id) -> Option<Id> {
    let ty = g.ty(a);
    // What an arithmetic shift lets in from above is cut off.
    let width = match ty.base {
        DType::U8 => 8,
        DType::I32 => 32,
        _ => return None,
    };
    let up = each_lane(g, b).filter(|_| op == BinOp::Shl)?;
    let of = |g: &Graph, v: Id, op: BinOp| {
        let (inner, by) = (*g.op(v) == Op::Binary(op)).then(|| (g.src(v)[0], g.src(v)[1]))?;
        Some((inner, each_lane(g, by)?))
    };
    let (shifted, cut) = of(g, a, BinOp::And).map_or((a, None), |(x, mask)| (x, Some(mask)));
    let (x, down) = of(g, shifted, BinOp::Shr).unwrap_or((shifted, vec![0; up.len()]));
    // Words that are only moved up are cut before as well as after.
    if x == a || (width == 32 && (cut.is_none() || x == shifted)) {
        return None;
    }
    let lanes = |g: &mut Graph, values: Vec<i64>| {
        g.make(Op::Lanes(values.into_iter().map(Const::Int).collect()), ty, vec![], vec![])
    };
    let by: Vec<i64> = up.iter().zip(&down).map(|(up, down)| up - down).collect();
    let moved = if by.iter().all(|&by| by == 0) {
        x
    } else if by.iter().all(|&by| by >= 0) {
        let amount = lanes(g, by);
        g.binary(BinOp::Shl, x, amount)
    } else if by.iter().all(|&by| by <= 0) {
        let amount = lanes(g, by.into_iter().map(i64::abs).collect());
        g.binary(BinOp::Shr, x, amount)
    } else {
        return None;
    };
    let all = (1 << width) - 1;
    let cut = cut.unwrap_or_else(|| down.iter().map(|down| all >> down).collect());
    let mask: Vec<i64> = cut.iter().zip(&up).map(|(cut, up)| (cut << up) & all).collect();
    // A word's mask has to be one that it can hold.
    if width == 32 && mask.iter().any(|&mask| mask > i32::MAX.into()) {
        return None;
    }
    let mask = lanes(g, mask);
    Some(g.binary(BinOp::And, moved, mask))
}

/// The integers in the lanes of a constant.
fn each_lane(g: &Graph, v: Id) -> Option<Vec<i64>> {
    match g.op(v) {
        Op::Lanes(values) if g.dtype(v).is_int() => Some(values.iter().map(|c| c.as_int()).collect()),
        _ => None,
    }
}

/// A scalar in every lane; a vector stays as it is.
pub fn splat(g: &mut Graph, v: Id, lanes: usize) -> Id {
    let ty = g.ty(v);
    if lanes == 1 || ty.lanes as usize == lanes {
        return v;
    }
    if let Some(c) = g.as_const(v) {
        return g.make(Op::Lanes(vec![c; lanes]), Type::vector(ty.base, lanes), vec![], vec![]);
    }
    g.make(Op::Splat, Type::vector(ty.base, lanes), vec![], vec![v])
}

/// These lanes of `a` and then `b`, two vectors of one type: one instruction where there are as many of them.
pub(crate) fn of_two(g: &mut Graph, a: Id, b: Id, lanes: Vec<u16>) -> Id {
    let (ty, own) = (g.dtype(a), usize::from(g.ty(a).lanes));
    let both = g.make(Op::Join, Type::vector(ty, 2 * own), vec![], vec![a, b]);
    let wanted = Type::vector(ty, lanes.len());
    g.make(Op::Shuffle(lanes), wanted, vec![], vec![both])
}

/// Values one after another; joins of joins are one join.
pub fn join(g: &mut Graph, parts: Vec<Id>) -> Id {
    let mut flat = vec![];
    for p in parts {
        if *g.op(p) == Op::Join { flat.extend_from_slice(g.src(p)) } else { flat.push(p) }
    }
    let widths: Vec<u16> = flat.iter().map(|&p| g.ty(p).lanes).collect();
    let n: u16 = widths.iter().sum();
    let base = g.dtype(flat[0]);
    g.make(Op::Join, Type::vector(base, n as usize), vec![], flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(g: &mut Graph, values: &[u8]) -> Id {
        let values: Vec<Const> = values.iter().map(|&v| Const::Int(v.into())).collect();
        let ty = Type::vector(DType::U8, values.len());
        g.make(Op::Lanes(values), ty, vec![], vec![])
    }

    /// What its lanes hold.
    fn values(g: &Graph, v: Id) -> Vec<i64> {
        let both = |op: fn(i64, i64) -> i64| -> Vec<i64> {
            let (a, b) = (values(g, g.src(v)[0]), values(g, g.src(v)[1]));
            let bytes = g.dtype(v) == DType::U8;
            let wrapped = |value: i64| if bytes { value & 255 } else { i64::from(value as i32) };
            a.into_iter().zip(b).map(|(a, b)| wrapped(op(a, b))).collect()
        };
        match g.op(v) {
            Op::Lanes(all) => all.iter().map(|c| c.as_int()).collect(),
            Op::Binary(BinOp::And) => both(|a, b| a & b),
            Op::Binary(BinOp::Shl) => both(|a, b| a << b),
            Op::Binary(BinOp::Shr) => both(|a, b| a >> b),
            other => panic!("{other:?}"),
        }
    }

    /// Bits of words, by other shifts in each lane, against the words' own arithmetic.
    #[test]
    fn bits_of_words_move_once() {
        let words: Vec<i64> = vec![0, 1, 0x80, 0xff, -1, i32::MIN.into(), 0x1234_5678, -77];
        let ty = Type::vector(DType::I32, words.len());
        let mut moved = 0;
        for (down, up, width) in (0..9).flat_map(|d| (0..7).flat_map(move |u| (1..=8).map(move |w| (d, u, w)))) {
            let mut g = Graph::default();
            let lanes = |g: &mut Graph, of: &dyn Fn(i64) -> i64| {
                let values = (0..words.len() as i64).map(|lane| Const::Int(of(lane))).collect();
                g.make(Op::Lanes(values), ty, vec![], vec![])
            };
            let x = lanes(&mut g, &|lane| words[lane as usize]);
            let (r, m) = (lanes(&mut g, &|lane| down + lane % 3), lanes(&mut g, &|_| (1 << width) - 1));
            let l = lanes(&mut g, &|_| up);
            let v = g.binary(BinOp::Shr, x, r);
            let v = g.binary(BinOp::And, v, m);
            let v = bits(&mut g, BinOp::Shl, v, l);
            moved += usize::from(*g.op(v) == Op::Binary(BinOp::And));
            let want: Vec<i64> = (0..words.len() as i64)
                .map(|lane| ((words[lane as usize] >> (down + lane % 3)) & ((1 << width) - 1)) << up)
                .collect();
            assert_eq!(values(&g, v), want, "{width} bits from {down} to {up}");
        }
        assert!(moved > 100, "{moved} of them moved once");
    }

    /// Scales of blocks of all lengths: every element has a lane of its own, in a window that begins at the first element
    /// or later and holds it where its offset says.
    #[test]
    fn what_lies_apart_finds_lanes_in_windows() {
        let cases = (17..80).flat_map(|s| [0, 6].map(|f| [8, 16].map(|n| [1, 2].map(|bytes| (s, f, n, bytes)))));
        for (stride, first, n, bytes) in cases.flatten().flatten() {
            let what = format!("{n} times {bytes} bytes, {stride} apart");
            let offsets: Vec<i64> = (0..n).map(|i| first + stride * i).collect();
            let found = windows(&offsets, 64 / bytes, bytes);
            if stride % bytes as i64 == 0 {
                assert!(found.is_some(), "{what}");
            }
            let Some(found) = found else { continue };
            let mut lanes: Vec<usize> = found.iter().flat_map(|w| w.lanes.iter().map(|&(lane, _)| lane)).collect();
            lanes.sort_unstable();
            lanes.dedup();
            assert_eq!(lanes.len(), offsets.len(), "{what}");
            for window in &found {
                assert!(window.start >= first);
                for &(lane, element) in &window.lanes {
                    assert_eq!(window.start + (bytes * lane) as i64, offsets[element], "{what}");
                }
            }
        }
        let blocks = |stride: i64, bytes: usize| {
            windows(&(0..16).map(|i| stride * i).collect::<Vec<_>>(), 64 / bytes, bytes).map(|w| w.len())
        };
        assert_eq!([18, 20, 22, 34].map(|stride| blocks(stride, 2)), [Some(4), Some(5), Some(6), Some(8)]);
        assert_eq!(blocks(17, 1), Some(4));
    }

    /// All shifts down and up, with the masks of fields of all widths and without one.
    #[test]
    fn bits_that_move_twice_move_once() {
        let all: Vec<u8> = (0..=255).collect();
        for (down, up, width) in (0..8).flat_map(|d| (0..8).flat_map(move |u| (1..=8).map(move |w| (d, u, w)))) {
            let mut g = Graph::default();
            let x = lanes(&mut g, &all);
            let mut v = x;
            if down > 0 {
                let by = lanes(&mut g, &[down; 256]);
                v = g.binary(BinOp::Shr, v, by);
            }
            let mask = if width < 8 { (1u8 << width) - 1 } else { 255 };
            if width < 8 {
                let mask = lanes(&mut g, &[mask; 256]);
                v = g.binary(BinOp::And, v, mask);
            }
            let by = lanes(&mut g, &[up; 256]);
            let v = bits(&mut g, BinOp::Shl, v, by);
            let want: Vec<i64> = all.iter().map(|x| i64::from((x >> down & mask) << up)).collect();
            assert_eq!(values(&g, v), want, "{width} bits from {down} to {up}");
            let shifts = |id: &Id| matches!(g.op(*id), Op::Binary(BinOp::Shl | BinOp::Shr));
            let most = if (down, width) == (0, 8) { 1 } else { usize::from(down != up) };
            assert!(
                g.toposort(&[v]).iter().filter(|id| shifts(id)).count() <= most,
                "{width} bits from {down} to {up}"
            );
        }
    }
}
