//! Index algebra: integer expressions kept in a normal form.
//!
//! A sum is kept as a constant plus products `coefficient * term`, with terms
//! in ascending order. Division and remainder by a constant split a sum into
//! the part that divides and the rest, and vanish when bounds prove it; this is
//! what makes movement operations disappear. What it cannot do: relate two
//! variables to each other, or divide by a variable.

use crate::{BinOp, DType, Graph, Id, Op};

/// `constant + sum of coefficient * term`, terms ascending and not sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// Terms with their non-zero coefficients.
    pub terms: Vec<(Id, i64)>,
    /// What remains when all terms are zero.
    pub constant: i64,
}

impl Linear {
    /// The normal form of an index expression.
    pub fn of(g: &Graph, id: Id) -> Linear {
        let mut l = Linear::default();
        l.add_scaled(g, id, 1);
        l.terms.sort_unstable_by_key(|t| t.0);
        l.merge();
        l
    }

    fn add_scaled(&mut self, g: &Graph, id: Id, k: i64) {
        match g.op(id) {
            Op::Const(c) => self.constant += k * c.as_int(),
            Op::Binary(BinOp::Add) => {
                let (a, b) = (g.src(id)[0], g.src(id)[1]);
                self.add_scaled(g, a, k);
                self.add_scaled(g, b, k);
            }
            Op::Binary(BinOp::Sub) => {
                let (a, b) = (g.src(id)[0], g.src(id)[1]);
                self.add_scaled(g, a, k);
                self.add_scaled(g, b, -k);
            }
            Op::Binary(BinOp::Mul) => {
                let (a, b) = (g.src(id)[0], g.src(id)[1]);
                match (g.as_int(a), g.as_int(b)) {
                    (_, Some(c)) => self.add_scaled(g, a, k * c),
                    (Some(c), _) => self.add_scaled(g, b, k * c),
                    _ => self.terms.push((id, k)),
                }
            }
            _ => self.terms.push((id, k)),
        }
    }

    fn merge(&mut self) {
        let mut out: Vec<(Id, i64)> = Vec::with_capacity(self.terms.len());
        for &(t, k) in &self.terms {
            match out.last_mut() {
                Some(last) if last.0 == t => last.1 += k,
                _ => out.push((t, k)),
            }
        }
        out.retain(|t| t.1 != 0);
        self.terms = out;
    }

    /// The expression in normal form.
    pub fn build(&self, g: &mut Graph) -> Id {
        let mut acc: Option<Id> = None;
        for &(t, k) in &self.terms {
            let term = if k == 1 {
                t
            } else {
                let k = g.int(k);
                g.make(Op::Binary(BinOp::Mul), DType::Index, vec![], vec![t, k])
            };
            acc = Some(match acc {
                None => term,
                Some(a) => g.make(Op::Binary(BinOp::Add), DType::Index, vec![], vec![a, term]),
            });
        }
        match acc {
            None => g.int(self.constant),
            Some(a) if self.constant == 0 => a,
            Some(a) => {
                let c = g.int(self.constant);
                g.make(Op::Binary(BinOp::Add), DType::Index, vec![], vec![a, c])
            }
        }
    }

    /// The coefficient of a term, 0 if it does not occur.
    pub fn coefficient(&self, term: Id) -> i64 {
        self.terms.iter().find(|t| t.0 == term).map_or(0, |t| t.1)
    }

    /// Least and greatest value.
    pub fn bounds(&self, g: &mut Graph) -> (i64, i64) {
        let (mut lo, mut hi) = (self.constant, self.constant);
        for &(t, k) in &self.terms {
            let (a, b) = bounds(g, t);
            let (x, y) = (a.saturating_mul(k), b.saturating_mul(k));
            lo = lo.saturating_add(x.min(y));
            hi = hi.saturating_add(x.max(y));
        }
        (lo, hi)
    }
}

const WIDE: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

/// Least and greatest value of an integer expression, of all lanes of a vector.
pub fn bounds(g: &mut Graph, id: Id) -> (i64, i64) {
    if let Some(&b) = g.bounds.get(&id) {
        return b;
    }
    let src = g.src(id).to_vec();
    let b = match g.op(id).clone() {
        Op::Const(c) => (c.as_int(), c.as_int()),
        Op::Var { min, max, .. } => (min, max),
        Op::Range(..) => (0, (bounds(g, src[0]).1 - 1).max(0)),
        Op::Binary(op) => {
            let (a, b) = (bounds(g, src[0]), bounds(g, src[1]));
            let products = |f: fn(i64, i64) -> i64| {
                let all = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
                (*all.iter().min().unwrap(), *all.iter().max().unwrap())
            };
            match op {
                BinOp::Add => (a.0.saturating_add(b.0), a.1.saturating_add(b.1)),
                BinOp::Sub => (a.0.saturating_sub(b.1), a.1.saturating_sub(b.0)),
                BinOp::Mul => products(i64::saturating_mul),
                BinOp::Div if b.0 > 0 => products(i64::div_euclid),
                BinOp::Mod if b.0 > 0 && a.0 >= 0 => (0, a.1.min(b.1 - 1)),
                BinOp::Mod if b.0 > 0 => (0, b.1 - 1),
                BinOp::Min => (a.0.min(b.0), a.1.min(b.1)),
                BinOp::Max => (a.0.max(b.0), a.1.max(b.1)),
                BinOp::Lt | BinOp::Eq => (0, 1),
                BinOp::And if a.0 >= 0 && b.0 >= 0 => (0, a.1.min(b.1)),
                BinOp::Or | BinOp::Xor if a.0 >= 0 && b.0 >= 0 && a.1.max(b.1) < 1 << 32 => {
                    (0, ((a.1.max(b.1) + 1) as u64).next_power_of_two() as i64 - 1)
                }
                BinOp::Shl if a.0 >= 0 && a.1 < 1 << 32 && b.0 >= 0 && b.1 < 31 => (a.0 << b.0, a.1 << b.1),
                BinOp::Shr if a.0 >= 0 && b.0 >= 0 && b.1 < 63 => (a.0 >> b.1, a.1 >> b.0),
                _ => WIDE,
            }
        }
        Op::Where => {
            let (a, b) = (bounds(g, src[1]), bounds(g, src[2]));
            (a.0.min(b.0), a.1.max(b.1))
        }
        Op::Cast => {
            let inner = g.dtype(src[0]);
            if inner.is_float() { WIDE } else { bounds(g, src[0]) }
        }
        Op::Lanes(all) if g.dtype(id).is_int() => {
            all.iter().map(|c| c.as_int()).fold((i64::MAX, i64::MIN), |(least, most), v| (least.min(v), most.max(v)))
        }
        Op::Lookup if matches!(g.op(src[0]), Op::Lanes(_)) => bounds(g, src[0]),
        Op::Shuffle(_) | Op::Splat => bounds(g, src[0]),
        Op::Join => src.iter().fold((i64::MAX, i64::MIN), |(least, most), &part| {
            let (lo, hi) = bounds(g, part);
            (least.min(lo), most.max(hi))
        }),
        _ => WIDE,
    };
    // What leaves a type comes back anywhere in it.
    let all = g.dtype(id).int_range().unwrap_or(WIDE);
    let b = if b.0 < all.0 || b.1 > all.1 { all } else { b };
    g.bounds.insert(id, b);
    b
}

/// The value of an integer expression where each variable is what it usually is ([`Graph::var_usually`]).
pub fn usual(g: &mut Graph, id: Id) -> i64 {
    let src = g.src(id).to_vec();
    match g.op(id).clone() {
        Op::Const(c) => c.as_int(),
        Op::Var { usual, .. } => usual,
        Op::Binary(op) => {
            let (a, b) = (usual(g, src[0]), usual(g, src[1]));
            match op {
                BinOp::Add => a.saturating_add(b),
                BinOp::Sub => a.saturating_sub(b),
                BinOp::Mul => a.saturating_mul(b),
                BinOp::Div if b > 0 => a.div_euclid(b),
                BinOp::Mod if b > 0 => a.rem_euclid(b),
                BinOp::Min => a.min(b),
                BinOp::Max => a.max(b),
                _ => bounds(g, id).1,
            }
        }
        _ => bounds(g, id).1,
    }
}

/// The value of index arithmetic where what it is made of has these values; nothing where that is not known.
pub fn value(g: &Graph, id: Id, of: &impl Fn(Id) -> Option<i64>) -> Option<i64> {
    match g.op(id) {
        Op::Const(c) => Some(c.as_int()),
        Op::Binary(op) => {
            let (x, y) = (value(g, g.src(id)[0], of)?, value(g, g.src(id)[1], of)?);
            (y != 0 || !matches!(op, BinOp::Div | BinOp::Mod)).then(|| of_integers(*op, x, y))
        }
        _ => of(id),
    }
}

fn of_integers(op: BinOp, x: i64, y: i64) -> i64 {
    match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div => x.div_euclid(y),
        BinOp::Mod => x.rem_euclid(y),
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl => x << y,
        BinOp::Shr => x >> y,
        BinOp::Lt => i64::from(x < y),
        BinOp::Eq => i64::from(x == y),
    }
}

/// Simplified index arithmetic on two scalars.
pub(crate) fn binary(g: &mut Graph, op: BinOp, a: Id, b: Id) -> Id {
    if let (Some(x), Some(y)) = (g.as_int(a), g.as_int(b)) {
        let v = of_integers(op, x, y);
        let is_truth = matches!(op, BinOp::Lt | BinOp::Eq);
        return if is_truth { g.constant(crate::Const::Int(v), DType::Bool) } else { g.int(v) };
    }
    match op {
        BinOp::Add | BinOp::Sub => {
            let mut l = Linear::default();
            l.add_scaled(g, a, 1);
            l.add_scaled(g, b, if op == BinOp::Add { 1 } else { -1 });
            l.terms.sort_unstable_by_key(|t| t.0);
            l.merge();
            l.build(g)
        }
        BinOp::Mul => {
            let (x, k) = match (g.as_int(a), g.as_int(b)) {
                (Some(k), _) => (b, k),
                (_, Some(k)) => (a, k),
                _ => {
                    let (a, b) = (a.min(b), a.max(b));
                    return g.make(Op::Binary(op), DType::Index, vec![], vec![a, b]);
                }
            };
            let mut l = Linear::default();
            l.add_scaled(g, x, k);
            l.terms.sort_unstable_by_key(|t| t.0);
            l.merge();
            l.build(g)
        }
        BinOp::Div | BinOp::Mod => match g.as_int(b) {
            Some(d) if d > 0 => div_mod(g, op, a, d),
            _ if a == b => g.int((op == BinOp::Div) as i64),
            _ => g.make(Op::Binary(op), DType::Index, vec![], vec![a, b]),
        },
        BinOp::Min | BinOp::Max => {
            let (x, y) = (bounds(g, a), bounds(g, b));
            let (less, more) = if op == BinOp::Min { (a, b) } else { (b, a) };
            if x.1 <= y.0 {
                return less;
            }
            if y.1 <= x.0 {
                return more;
            }
            g.make(Op::Binary(op), DType::Index, vec![], vec![a, b])
        }
        BinOp::Lt | BinOp::Eq => {
            let diff = binary(g, BinOp::Sub, a, b);
            let (lo, hi) = Linear::of(g, diff).bounds(g);
            let known = match op {
                BinOp::Lt if hi < 0 => Some(1),
                BinOp::Lt if lo >= 0 => Some(0),
                BinOp::Eq if lo > 0 || hi < 0 => Some(0),
                BinOp::Eq if lo == 0 && hi == 0 => Some(1),
                _ => None,
            };
            match known {
                Some(v) => g.constant(crate::Const::Int(v), DType::Bool),
                None => g.make(Op::Binary(op), DType::Bool, vec![], vec![a, b]),
            }
        }
        _ => g.make(Op::Binary(op), DType::Index, vec![], vec![a, b]),
    }
}

/// The greatest common divisor.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// `a / d` or `a mod d` for a positive constant `d`.
fn div_mod(g: &mut Graph, op: BinOp, a: Id, d: i64) -> Id {
    if d == 1 {
        return if op == BinOp::Div { a } else { g.int(0) };
    }
    let whole = Linear::of(g, a);
    let mut quotient = Linear::default();
    let mut rest = Linear::default();
    for &(t, k) in &whole.terms {
        if k % d == 0 {
            quotient.terms.push((t, k / d));
        } else {
            rest.terms.push((t, k));
        }
    }
    quotient.constant = whole.constant.div_euclid(d);
    rest.constant = whole.constant.rem_euclid(d);
    let (lo, hi) = rest.bounds(g);
    if lo >= 0 && hi < d {
        return if op == BinOp::Div { quotient.build(g) } else { rest.build(g) };
    }
    if op == BinOp::Mod && rest.terms.len() == 1 && rest.constant == 0 && rest.terms[0].1 == 1 {
        // (x mod (k*d)) mod d
        let t = rest.terms[0].0;
        if *g.op(t) == Op::Binary(BinOp::Mod)
            && let Some(m) = g.as_int(g.src(t)[1])
            && m % d == 0
        {
            let x = g.src(t)[0];
            return div_mod(g, BinOp::Mod, x, d);
        }
    }
    if op == BinOp::Div && rest.terms.len() == 1 && rest.constant == 0 && rest.terms[0].1 == 1 {
        // (x / k) / d
        let t = rest.terms[0].0;
        if *g.op(t) == Op::Binary(BinOp::Div)
            && let Some(m) = g.as_int(g.src(t)[1])
        {
            let x = g.src(t)[0];
            let inner = div_mod(g, BinOp::Div, x, m * d);
            let q = quotient.build(g);
            return binary(g, BinOp::Add, q, inner);
        }
    }
    let common = rest.terms.iter().fold(d, |c, t| gcd(c, t.1));
    if common > 1 {
        let small = Linear {
            terms: rest.terms.iter().map(|t| (t.0, t.1 / common)).collect(),
            constant: rest.constant.div_euclid(common),
        };
        let left = rest.constant.rem_euclid(common);
        let inner = small.build(g);
        let reduced = div_mod(g, op, inner, d / common);
        return if op == BinOp::Div {
            let q = quotient.build(g);
            binary(g, BinOp::Add, q, reduced)
        } else {
            let c = g.int(common);
            let scaled = binary(g, BinOp::Mul, reduced, c);
            let left = g.int(left);
            binary(g, BinOp::Add, scaled, left)
        };
    }
    let r = rest.build(g);
    let dd = g.int(d);
    let node = g.make(Op::Binary(op), DType::Index, vec![], vec![r, dd]);
    if op == BinOp::Div {
        let q = quotient.build(g);
        binary(g, BinOp::Add, q, node)
    } else {
        node
    }
}

/// Row-major index from the indices of each dimension.
pub fn flatten(g: &mut Graph, shape: &[Id], index: &[Id]) -> Id {
    let mut flat = g.int(0);
    for (&n, &i) in shape.iter().zip(index) {
        flat = g.mul(flat, n);
        flat = g.add(flat, i);
    }
    flat
}

/// The indices of each dimension from a row-major index. The first dimension
/// is not wrapped.
pub fn unflatten(g: &mut Graph, shape: &[Id], flat: Id) -> Vec<Id> {
    let mut out = vec![flat; shape.len()];
    let mut rest = flat;
    for d in (0..shape.len()).rev() {
        if d == 0 {
            out[0] = rest;
        } else {
            out[d] = g.binary(BinOp::Mod, rest, shape[d]);
            rest = g.binary(BinOp::Div, rest, shape[d]);
        }
    }
    out
}

/// Where element `index` of a tensor of shape `to` lies in the tensor of shape
/// `from` that it was reshaped from. Dimensions are matched in the smallest
/// groups of equal products, so that a symbolic leading dimension passes
/// through untouched.
pub fn reshape(g: &mut Graph, from: &[Id], to: &[Id], index: &[Id]) -> Vec<Id> {
    let mut out = Vec::with_capacity(from.len());
    for (f, t) in reshape_groups(g, from, to) {
        let flat = flatten(g, &to[t.clone()], &index[t]);
        let dims = from[f.clone()].to_vec();
        if dims.is_empty() {
            continue;
        }
        out.extend(unflatten(g, &dims, flat));
    }
    out
}

/// Whether a number is so many times another one, whatever its variables are.
pub fn is_multiple(g: &Graph, number: Id, of: i64) -> bool {
    let Linear { terms, constant, .. } = Linear::of(g, number);
    constant % of == 0 && terms.iter().all(|t| t.1 % of == 0)
}

/// The smallest groups of adjacent dimensions with equal products.
pub fn reshape_groups(g: &mut Graph, from: &[Id], to: &[Id]) -> Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut groups = vec![];
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        let (i0, j0) = (i, j);
        let one = g.int(1);
        let (mut p, mut q) = (one, one);
        if i < from.len() {
            p = from[i];
            i += 1;
        }
        if j < to.len() {
            q = to[j];
            j += 1;
        }
        while p != q {
            // Grow the side that is certainly smaller, else whatever is left.
            let grow_from = match (g.as_int(p), g.as_int(q)) {
                (Some(a), Some(b)) => a < b,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => bounds(g, p).1 < bounds(g, q).1,
            };
            if grow_from && i < from.len() {
                p = g.mul(p, from[i]);
                i += 1;
            } else if j < to.len() {
                q = g.mul(q, to[j]);
                j += 1;
            } else if i < from.len() {
                p = g.mul(p, from[i]);
                i += 1;
            } else {
                break;
            }
        }
        groups.push((i0..i, j0..j));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    fn range(g: &mut Graph, number: u32, extent: i64) -> Id {
        let e = g.int(extent);
        g.range(number, Axis::Loop, e)
    }

    #[test]
    fn splits_vanish() {
        let mut g = Graph::new();
        let (b, j) = (range(&mut g, 0, 7), range(&mut g, 1, 32));
        let k32 = g.int(32);
        let x = g.mul(b, k32);
        let x = g.add(x, j);
        assert_eq!(g.binary(BinOp::Div, x, k32), b);
        assert_eq!(g.binary(BinOp::Mod, x, k32), j);
        let k16 = g.int(16);
        let d = g.binary(BinOp::Div, x, k16);
        let l = Linear::of(&g, d);
        assert_eq!(l.coefficient(b), 2);
    }

    #[test]
    fn reshape_passes_symbols_through() {
        let mut g = Graph::new();
        let t = g.var("t", 1, 64);
        let (h, d, hd) = (g.int(5), g.int(8), g.int(40));
        let r = g.range(0, Axis::Task, t);
        let i = range(&mut g, 1, 5);
        let j = range(&mut g, 2, 8);
        let out = reshape(&mut g, &[t, hd], &[t, h, d], &[r, i, j]);
        assert_eq!(out[0], r);
        assert_eq!(Linear::of(&g, out[1]).coefficient(i), 8);
        let back = reshape(&mut g, &[t, h, d], &[t, hd], &out.clone());
        assert_eq!(back, vec![r, i, j]);
    }

    #[test]
    fn comparisons_fold_by_bounds() {
        let mut g = Graph::new();
        let r = range(&mut g, 0, 10);
        let ten = g.int(10);
        let c = g.binary(BinOp::Lt, r, ten);
        assert_eq!(g.as_int(c), Some(1));
    }
}
