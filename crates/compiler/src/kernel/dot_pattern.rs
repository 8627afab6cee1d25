//! Sums over groups of integer dots times factors: what block formats come to, on every target.
//!
//! Matches a sum over groups of `f32(sum over elements of code * x) * factor plus rest`, where the inner sum is of integers.

use crate::kernel::expression::{by, combined, depends, loads_in, terms};
use ir::index::bounds;
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp, Space};
use rustc_hash::FxHashMap;

/// The parts of `dot * factors plus rests`.
pub(crate) struct Pattern {
    /// u8 or i8 codes, by group and element.
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
    /// Counts the elements of a group; where there are no groups, both count the elements of the sum.
    pub(crate) element: Id,
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
                (DType::I8, DType::I8) if of_blocks(g, a) => (a, b),
                (DType::I8, DType::I8) if of_blocks(g, b) => (b, a),
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

/// Whether a value is made of bytes of blocks.
fn of_blocks(g: &Graph, value: Id) -> bool {
    loads_in(g, value).iter().any(|&load| g.dtype(g.src(load)[0]) == DType::U8)
}

/// The factors of a product, of tensors or in a kernel, if both are bf16 numbers, or both f16.
pub(crate) fn half_factors(g: &Graph, product: Id) -> Option<(Id, Id)> {
    let (Op::Binary(BinOp::Mul), &[a, b]) = (g.op(product), g.src(product)) else { return None };
    let half = |id: Id| {
        let half = g.src(id).first().copied().filter(|_| *g.op(id) == Op::Cast)?;
        matches!(g.dtype(half), DType::BF16 | DType::F16).then_some(half)
    };
    half(a).zip(half(b)).filter(|&(a, b)| g.dtype(a) == g.dtype(b))
}

/// The parts of a sum of products of halves with weights, of which elements are no groups: there are no factors.
pub(crate) fn halves(g: &Graph, value: Id) -> Option<Pattern> {
    let (Op::Reduce(ReduceOp::Sum, _), &[product, k]) = (g.op(value), g.src(value)) else { return None };
    let (a, b) = half_factors(g, product)?;
    let weight = |&l: &Id| matches!(g.op(g.src(l)[0]), Op::Buffer { space: Space::Weight, .. });
    let reads_weights = |half: Id| loads_in(g, half).iter().any(weight);
    let (code, x) = if reads_weights(a) { (a, b) } else { (b, a) };
    let parts = Pattern { code, most: 0, x, factors: vec![], rests: vec![], group: k, element: k };
    (g.dtype(value) == DType::F32 && reads_weights(code)).then_some(parts)
}

/// Factor and added term of a group, in which the row and the token were told apart.
pub(crate) struct Scales {
    pub(crate) factor: Parts,
    pub(crate) rest: Option<Parts>,
}

/// A product in which the row and the token were told apart.
pub(crate) struct Parts {
    pub(crate) row: Option<Id>,
    pub(crate) token: Option<Id>,
}

impl Pattern {
    /// `e` for an element of a group, which has `width` of them.
    pub(crate) fn at(&self, g: &mut Graph, e: Id, (group, element): (Id, Id), width: i64) -> Id {
        let mut names = if self.group == self.element {
            let first = by(g, BinOp::Mul, group, width);
            FxHashMap::from_iter([(self.group, g.add(first, element))])
        } else {
            FxHashMap::from_iter([(self.group, group), (self.element, element)])
        };
        g.substitute(e, &mut names)
    }

    /// Whether a dimension moves the values, and whether it moves the codes.
    pub(crate) fn moves(&self, g: &Graph, dim: Id) -> (bool, bool) {
        (depends(g, self.x, dim), depends(g, self.code, dim))
    }

    /// The dimension that counts tokens, which moves the values alone, and the one that counts rows, which moves the codes
    /// alone: the longest, and the last.
    pub(crate) fn token_and_row(&self, g: &mut Graph, dims: &[Id]) -> Option<(Id, Id)> {
        let of_tokens: Vec<Id> = dims.iter().copied().filter(|&d| self.moves(g, d) == (true, false)).collect();
        let token = of_tokens.into_iter().max_by_key(|&d| bounds(g, g.src(d)[0]).1)?;
        let row = dims.iter().copied().rfind(|&d| self.moves(g, d) == (false, true))?;
        Some((token, row))
    }

    /// Its scales, if each moves with the row or with the token, and there is one added term at most.
    pub(crate) fn scales(&self, g: &mut Graph, token: Id, row: Id) -> Option<Scales> {
        let factor = split(g, &self.factors, token, row)?;
        let rest = match self.rests[..] {
            [] => None,
            [one] => {
                let mut product = vec![];
                terms(g, BinOp::Mul, one, &mut product);
                Some(split(g, &product, token, row)?)
            }
            _ => return None,
        };
        Some(Scales { factor, rest })
    }
}

/// The factors that move with the row and those that move with the token.
fn split(g: &mut Graph, factors: &[Id], token: Id, row: Id) -> Option<Parts> {
    let (of_token, of_row): (Vec<Id>, Vec<Id>) = factors.iter().partition(|&&f| depends(g, f, token));
    if of_token.iter().any(|&f| depends(g, f, row)) {
        return None;
    }
    let (row, token) = (combined(g, BinOp::Mul, &of_row), combined(g, BinOp::Mul, &of_token));
    Some(Parts { row, token })
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
