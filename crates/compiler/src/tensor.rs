//! The tensor front end: what a model is written in.
//!
//! A [`Tensor`] is a handle to a node of a shared graph. Nothing is computed:
//! operations record what to compute, and [`crate::compile()`] decides how.
//! Binary operators broadcast as usual: shapes are aligned at the end and
//! dimensions of length 1 are repeated.

mod operands;
mod recurrence;

use gguf::format::Format;
use ir::{BinOp, Const, CustomSource, DType, Graph, Id, Op, Part, ReduceOp, Scope, UnOp};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops;
use std::rc::Rc;
use std::sync::Arc;

pub use operands::Operand;
pub use recurrence::Runs;

/// Terms of a series in ninths at most, of which the next would be less than the last digit of a float.
const SOFTPLUS_TERMS: u32 = 8;

/// The graph that tensors are recorded in.
#[derive(Clone, Default)]
pub struct Builder(pub(crate) Rc<RefCell<Graph>>, pub(crate) Rc<RefCell<Sources>>);

/// Where parameters that are not weights come from.
#[derive(Default)]
pub struct Sources {
    /// Written by the host before each step.
    pub inputs: BTreeSet<String>,
    /// Known when the program is compiled.
    pub tables: BTreeMap<String, Vec<u8>>,
}

/// A scope that is open, see [`Builder::scope`].
pub struct ScopeGuard {
    builder: Builder,
    before: Scope,
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        self.builder.0.borrow_mut().enter(self.before);
    }
}

/// A lazily computed array.
#[derive(Clone)]
pub struct Tensor {
    builder: Builder,
    id: Id,
}

/// An extent: a constant or a symbolic integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A known length.
    Const(i64),
    /// An index expression of the graph.
    Sym(Id),
}

impl From<i64> for Dim {
    fn from(v: i64) -> Dim {
        Dim::Const(v)
    }
}
impl From<usize> for Dim {
    fn from(v: usize) -> Dim {
        Dim::Const(v as i64)
    }
}
impl From<i32> for Dim {
    fn from(v: i32) -> Dim {
        Dim::Const(v as i64)
    }
}
impl From<Id> for Dim {
    fn from(v: Id) -> Dim {
        Dim::Sym(v)
    }
}

/// The dimensions of a shape, constants and symbols mixed: `dims![t, 4, 64]`.
#[macro_export]
macro_rules! dims {
    ($($d:expr),* $(,)?) => { &[$($crate::tensor::Dim::from($d)),*][..] };
}

impl Builder {
    /// An empty graph.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names a part of the program until the guard is dropped: what is recorded meanwhile belongs to it, and reports
    /// say which part a kernel is of. Scopes change nothing else; what was there before stays where it was.
    #[must_use = "the scope ends when the guard is dropped"]
    pub fn scope(&self, name: &str) -> ScopeGuard {
        let mut g = self.0.borrow_mut();
        let scope = g.named_scope(name);
        ScopeGuard { builder: self.clone(), before: g.enter(scope) }
    }

    /// A symbolic integer between two bounds.
    pub fn var(&self, name: &str, min: i64, max: i64) -> Id {
        self.0.borrow_mut().var(name, min, max)
    }

    /// A symbolic integer between two bounds, with what plans and prices take it for.
    pub fn var_usually(&self, name: &str, min: i64, max: i64, usual: i64) -> Id {
        self.0.borrow_mut().var_usually(name, min, max, usual)
    }

    /// `x op k` on index expressions.
    pub fn index(&self, op: BinOp, x: Id, k: i64) -> Id {
        let mut g = self.0.borrow_mut();
        let k = g.int(k);
        g.binary(op, x, k)
    }

    /// `op(x, k)` of a length.
    pub fn length(&self, op: BinOp, x: Dim, k: i64) -> Dim {
        let x = self.dims(&[x])[0];
        Dim::Sym(self.index(op, x, k))
    }

    /// The largest value of an index expression.
    pub fn most(&self, x: Id) -> i64 {
        ir::index::bounds(&mut self.0.borrow_mut(), x).1
    }

    fn dims(&self, dims: &[Dim]) -> Vec<Id> {
        let mut g = self.0.borrow_mut();
        dims.iter()
            .map(|d| match d {
                Dim::Const(v) => g.int(*v),
                Dim::Sym(id) => *id,
            })
            .collect()
    }

    /// The tensor of a node.
    pub fn tensor(&self, id: Id) -> Tensor {
        Tensor { builder: self.clone(), id }
    }

    /// A tensor that a step reads.
    pub fn param(&self, name: &str, ty: DType, shape: &[Dim]) -> Tensor {
        let shape = self.dims(shape);
        self.tensor(self.0.borrow_mut().param(name, ty, shape))
    }

    /// A tensor that the host writes before each step.
    pub fn input(&self, name: &str, ty: DType, shape: &[Dim]) -> Tensor {
        self.1.borrow_mut().inputs.insert(name.into());
        self.param(name, ty, shape)
    }

    /// A table that is part of the program: little-endian bytes.
    pub fn table(&self, name: &str, ty: DType, shape: &[Dim], bytes: Vec<u8>) -> Tensor {
        self.1.borrow_mut().tables.insert(name.into(), bytes);
        self.param(name, ty, shape)
    }

    /// A tensor that steps overwrite.
    pub fn state(&self, name: &str, ty: DType, shape: &[Dim]) -> Tensor {
        let shape = self.dims(shape);
        self.tensor(self.0.borrow_mut().state(name, ty, shape))
    }

    /// A tensor of weights stored in a block format, as f32 values. `shape` is
    /// in elements; the last dimension is a row of whole blocks.
    pub fn quantised(&self, name: &str, format: &Format, shape: &[Dim]) -> Tensor {
        let mut shape = self.dims(shape);
        let mut g = self.0.borrow_mut();
        let fid = g.format_id(&Arc::new(format.clone()));
        let (elems, bytes) = g.block_size(fid);
        let row = g.as_int(*shape.last().unwrap()).expect("constant row");
        assert_eq!(row % elems, 0, "a row of {name} is not made of whole blocks");
        *shape.last_mut().unwrap() = g.int(row / elems * bytes);
        let p = g.param(name, DType::U8, shape);
        let id = g.dequant(p, fid, Part::Value);
        drop(g);
        self.tensor(id)
    }

    /// A scalar.
    pub fn float(&self, v: f32) -> Tensor {
        self.tensor(self.0.borrow_mut().float(v))
    }

    /// An i32 scalar.
    pub fn int32(&self, v: i64) -> Tensor {
        self.tensor(self.0.borrow_mut().constant(Const::Int(v), DType::I32))
    }

    /// 0, 1, 2, … as i32.
    pub fn iota(&self, n: impl Into<Dim>) -> Tensor {
        let shape = self.dims(&[n.into()]);
        self.tensor(self.0.borrow_mut().make(Op::Iota, DType::I32, shape, vec![]))
    }
}

impl Tensor {
    /// The node.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The graph.
    pub fn builder(&self) -> &Builder {
        &self.builder
    }

    fn wrap(&self, f: impl FnOnce(&mut Graph) -> Id) -> Tensor {
        let id = f(&mut self.builder.0.borrow_mut());
        self.builder.tensor(id)
    }

    /// The extents.
    pub fn shape(&self) -> Vec<Dim> {
        let g = self.builder.0.borrow();
        g.shape(self.id).iter().map(|&d| g.as_int(d).map_or(Dim::Sym(d), Dim::Const)).collect()
    }

    /// The extent of one dimension, which must be a constant.
    pub fn len(&self, axis: usize) -> i64 {
        match self.shape()[axis] {
            Dim::Const(v) => v,
            Dim::Sym(_) => panic!("extent {axis} is symbolic"),
        }
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.builder.0.borrow().shape(self.id).len()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.builder.0.borrow().dtype(self.id)
    }

    /// The same elements under another shape.
    pub fn reshape(&self, shape: &[Dim]) -> Tensor {
        let shape = self.builder.dims(shape);
        self.wrap(|g| g.reshape(self.id, shape))
    }

    /// Dimensions in another order.
    pub fn permute(&self, perm: &[usize]) -> Tensor {
        self.wrap(|g| g.permute(self.id, perm.to_vec()))
    }

    /// Dimensions of length 1 repeated.
    pub fn expand(&self, shape: &[Dim]) -> Tensor {
        let shape = self.builder.dims(shape);
        self.wrap(|g| g.expand(self.id, shape))
    }

    /// A new dimension of length 1 before `axis`.
    pub fn unsqueeze(&self, axis: usize) -> Tensor {
        let mut shape = self.shape();
        shape.insert(axis, Dim::Const(1));
        self.reshape(&shape)
    }

    /// `len` elements of a dimension from `start` on.
    pub fn slice(&self, axis: usize, start: i64, len: i64) -> Tensor {
        self.wrap(|g| g.slice(self.id, axis, start, len))
    }

    /// Tensors one after another along a dimension.
    pub fn concat(parts: &[Tensor], axis: usize) -> Tensor {
        parts[0].wrap(|g| g.concat(parts.iter().map(|p| p.id).collect(), axis))
    }

    /// The sum over a dimension, which disappears.
    pub fn sum(&self, axis: usize) -> Tensor {
        self.wrap(|g| g.reduce(ReduceOp::Sum, self.id, vec![axis]))
    }

    /// The sum over several dimensions, which disappear.
    pub fn sum_over(&self, axes: &[usize]) -> Tensor {
        self.wrap(|g| g.reduce(ReduceOp::Sum, self.id, axes.to_vec()))
    }

    /// The maximum over a dimension, which disappears.
    pub fn max(&self, axis: usize) -> Tensor {
        self.wrap(|g| g.reduce(ReduceOp::Max, self.id, vec![axis]))
    }

    /// Conversion to another element type.
    pub fn cast(&self, to: DType) -> Tensor {
        self.wrap(|g| g.cast(self.id, to))
    }

    /// A function of each element.
    pub fn unary(&self, op: UnOp) -> Tensor {
        self.wrap(|g| g.unary(op, self.id))
    }

    /// e to the power.
    pub fn exp(&self) -> Tensor {
        self.unary(UnOp::Exp)
    }

    /// 1 / (1 + exp(-x)).
    pub fn sigmoid(&self) -> Tensor {
        ((-self).exp() + 1.0).unary(UnOp::Recip)
    }

    /// x * sigmoid(x).
    pub fn silu(&self) -> Tensor {
        self * &self.sigmoid()
    }

    /// x times the normal distribution up to x, by its approximation with a hyperbolic tangent (arXiv 1606.08415).
    pub fn gelu(&self) -> Tensor {
        // tanh(x) = 2 * sigmoid(2 * x) - 1.
        let twice_root = (8.0 / std::f32::consts::PI).sqrt();
        let inner = &(self * &((self * self) * 0.044_715 + 1.0)) * twice_root;
        self * &inner.sigmoid()
    }

    /// ln(1 + exp(x)).
    pub fn softplus(&self) -> Tensor {
        // ln(1 + u) = 2 * artanh(u / (2 + u)), whose series is short as u is at most 1.
        let zero = self.builder.float(0.0);
        let u = (-&self.unary(UnOp::Abs)).exp();
        let s = &u / &(&u + 2.0);
        let square = &s * &s;
        let mut series = self.builder.float(0.0);
        for power in (0..SOFTPLUS_TERMS).rev() {
            series = &(&series * &square) + 2.0 / (2 * power + 1) as f32;
        }
        &self.maximum(&zero) + &(&s * &series)
    }

    /// The hyperbolic tangent.
    pub fn tanh(&self) -> Tensor {
        // Near 0 the difference of exponentials has no digits left; there a few terms of the series are exact.
        let square = self * self;
        let term = |inner: Tensor, factor: f32| &(&square * &inner) * factor + 1.0;
        let series = self * &term(term(term(self.builder.float(1.0), -17.0 / 42.0), -0.4), -1.0 / 3.0);
        let far = (self * 2.0).sigmoid() * 2.0 - 1.0;
        square.lt(&self.builder.float(0.01)).select(&series, &far)
    }

    /// `cap * tanh(x / cap)`: nearly x where it is small, and never beyond the cap.
    pub fn soft_cap(&self, cap: f32) -> Tensor {
        (self * (1.0 / cap)).tanh() * cap
    }

    /// Each value within `-most` and `most`.
    pub fn clamp(&self, most: f32) -> Tensor {
        self.binary(BinOp::Min, &self.builder.float(most)).maximum(&self.builder.float(-most))
    }

    /// Broadcasts two tensors to one shape.
    fn broadcast(a: &Tensor, b: &Tensor) -> (Tensor, Tensor) {
        let rank = a.rank().max(b.rank());
        let lift = |t: &Tensor| {
            let mut s = t.shape();
            while s.len() < rank {
                s.insert(0, Dim::Const(1));
            }
            t.reshape(&s)
        };
        let (a, b) = (lift(a), lift(b));
        let shape: Vec<Dim> =
            a.shape().into_iter().zip(b.shape()).map(|(x, y)| if x == Dim::Const(1) { y } else { x }).collect();
        (a.expand(&shape), b.expand(&shape))
    }

    /// A function of two tensors with broadcasting.
    pub fn binary(&self, op: BinOp, other: &Tensor) -> Tensor {
        let (a, b) = Tensor::broadcast(self, other);
        a.wrap(|g| g.binary(op, a.id, b.id))
    }

    /// `if self then a else b`, with broadcasting.
    pub fn select(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let (a, b) = Tensor::broadcast(a, b);
        let (c, a) = Tensor::broadcast(self, &a);
        let (_, b) = Tensor::broadcast(&c, &b);
        a.wrap(|g| g.select(c.id, a.id, b.id))
    }

    /// Less than.
    pub fn lt(&self, other: &Tensor) -> Tensor {
        self.binary(BinOp::Lt, other)
    }

    /// Equal.
    pub fn equal(&self, other: &Tensor) -> Tensor {
        self.binary(BinOp::Eq, other)
    }

    /// The larger of each pair.
    pub fn maximum(&self, other: &Tensor) -> Tensor {
        self.binary(BinOp::Max, other)
    }

    /// Sums up to and with each element along a dimension: `out[.., i, ..] = sum over j <= i of self[.., j, ..]`.
    /// Without the element itself, it is `&x.scan(axis) - &x`.
    pub fn scan(&self, axis: usize) -> Tensor {
        self.wrap(|g| g.scan(self.id, axis))
    }

    /// Rows of this tensor by index.
    pub fn gather(&self, index: &Tensor) -> Tensor {
        self.wrap(|g| g.gather(self.id, index.id))
    }

    /// This value, of which only the first `counts` indices along a dimension
    /// are wanted: what lies past them may be anything. The counts are integers,
    /// shaped as this value before the dimension.
    pub fn prefix(&self, axis: usize, counts: &Tensor) -> Tensor {
        self.wrap(|g| {
            let (ty, shape) = (g.ty(self.id), g.shape(self.id).to_vec());
            g.make(Op::Prefix(axis), ty, shape, vec![self.id, counts.id])
        })
    }

    /// The next version of this state, with rows replaced.
    pub fn scatter(&self, index: &Tensor, rows: &Tensor) -> Tensor {
        self.wrap(|g| g.scatter(self.id, index.id, rows.id))
    }

    /// The indices of the `k` largest of the last dimension.
    pub fn topk(&self, k: usize) -> Tensor {
        self.wrap(|g| {
            let mut shape = g.shape(self.id).to_vec();
            *shape.last_mut().unwrap() = g.int(k as i64);
            g.make(Op::TopK(k), DType::I32, shape, vec![self.id])
        })
    }

    /// Elements of the last dimension by index: `out[.., p] = self[.., index[.., p]]`.
    pub fn take_last(&self, index: &Tensor) -> Tensor {
        let axis = self.rank() - 1;
        let n = self.shape()[axis];
        let here = index.unsqueeze(axis + 1).equal(&self.builder.iota(n));
        let zero = self.builder.float(0.0);
        here.select(&self.unsqueeze(axis), &zero).sum(axis + 1)
    }

    /// `y[.., n] = sum over k of weight[n, k] * self[.., k]`.
    pub fn linear(&self, weight: &Tensor) -> Tensor {
        let axis = self.rank() - 1;
        (&self.unsqueeze(axis) * weight).sum(axis + 1)
    }

    /// `self / sqrt(mean(self^2) + eps) * weight` over the last dimension.
    pub fn rms_norm(&self, weight: &Tensor, eps: f32) -> Tensor {
        let factor = self.rms_factor(eps);
        &(self * weight) * &factor
    }

    /// `1 / sqrt(mean(self^2) + eps)` over the last dimension, which stays with one element.
    pub fn rms_factor(&self, eps: f32) -> Tensor {
        let axis = self.rank() - 1;
        let n = self.len(axis) as f32;
        let mean = (self * self).sum(axis) * (1.0 / n);
        (mean + eps).unary(UnOp::Rsqrt).unsqueeze(axis)
    }

    /// `(self - mean) / sqrt(variance + eps)` over the last dimension, times the weight if there is one.
    pub fn layer_norm(&self, weight: Option<&Tensor>, eps: f32) -> Tensor {
        let axis = self.rank() - 1;
        let n = self.len(axis) as f32;
        let mean = |x: &Tensor| (x.sum(axis) * (1.0 / n)).unsqueeze(axis);
        let centred = self - &mean(self);
        let factor = (mean(&(&centred * &centred)) + eps).unary(UnOp::Rsqrt);
        match weight {
            Some(weight) => &(&centred * weight) * &factor,
            None => &centred * &factor,
        }
    }

    /// Softmax over the last dimension.
    pub fn softmax(&self) -> Tensor {
        let axis = self.rank() - 1;
        let e = (self - &self.max(axis).unsqueeze(axis)).exp();
        let total = e.sum(axis).unsqueeze(axis).unary(UnOp::Recip);
        &e * &total
    }

    /// Alternatives of equal meaning, with a name for each, of which the compiler takes one by its price
    /// ([`mod@crate::rewrite::choice`]). `name` says in reports what is chosen; where layers number it (`blk.7.experts`), equal
    /// layers are decided once.
    ///
    /// # Panics
    /// If there is none, or if types or shapes differ.
    pub fn choice(name: &str, alternatives: &[(&str, Tensor)]) -> Tensor {
        let first = &alternatives[0].1;
        for (label, other) in alternatives {
            let same = other.dtype() == first.dtype() && other.shape() == first.shape();
            assert!(same, "alternative {label} of {name} is {:?} {:?}", other.dtype(), other.shape());
        }
        if alternatives.len() == 1 {
            return first.clone();
        }
        first.wrap(|g| {
            let (ty, shape) = (g.ty(first.id), g.shape(first.id).to_vec());
            let of = alternatives.iter().map(|a| a.0.into()).collect();
            g.make(Op::Choice { name: name.into(), of }, ty, shape, alternatives.iter().map(|a| a.1.id).collect())
        })
    }

    /// A materialisation asked for by the author.
    pub fn fence(&self) -> Tensor {
        self.wrap(|g| {
            let (ty, shape) = (g.ty(self.id), g.shape(self.id).to_vec());
            g.make(Op::Fence, ty, shape, vec![self.id])
        })
    }

    /// A custom kernel, which reads `inputs` and makes a tensor of this type and shape in so many tasks. There may be a source
    /// of it for each kind of device; for one that takes none of them a step with it is not compiled
    /// ([`CompileError::Call`](crate::CompileError::Call)).
    pub fn call(
        symbol: &str,
        sources: &[CustomSource],
        tasks: i64,
        inputs: &[Tensor],
        ty: DType,
        shape: &[Dim],
    ) -> Tensor {
        let shape = inputs[0].builder.dims(shape);
        inputs[0].wrap(|g| {
            let op = Op::Call { symbol: symbol.into(), sources: sources.into(), tasks };
            g.make(op, ty, shape, inputs.iter().map(|t| t.id).collect())
        })
    }
}

/// The parts of a softmax over a stretch of a sequence: the running maximum,
/// the sum of exponentials and the weighted sum of values. Two stretches merge
/// into one, which is what lets attention run in one pass and in pieces
/// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
#[derive(Clone)]
pub struct SoftmaxParts {
    /// Maximum score `[.., heads]`.
    pub max: Tensor,
    /// Sum of `exp(score - max)`, same shape.
    pub sum: Tensor,
    /// Sum of `exp(score - max) * value`, `[.., heads, d]`.
    pub acc: Tensor,
}

impl SoftmaxParts {
    /// Parts of one tile from scores `[.., heads, tile]`; `weigh` maps the
    /// exponentials `[.., heads, tile]` to weighted sums `[.., heads, d]`.
    pub fn of_tile(scores: &Tensor, weigh: impl FnOnce(&Tensor) -> Tensor) -> SoftmaxParts {
        let axis = scores.rank() - 1;
        let max = scores.max(axis);
        let e = (scores - &max.unsqueeze(axis)).exp();
        SoftmaxParts { sum: e.sum(axis), acc: weigh(&e), max }
    }

    /// As [`SoftmaxParts::of_tile`], from scores `[.., tile, heads]`; `weigh` maps exponentials of that shape to
    /// weighted sums `[.., heads, d]`.
    pub fn of_columns(scores: &Tensor, weigh: impl FnOnce(&Tensor) -> Tensor) -> SoftmaxParts {
        let axis = scores.rank() - 2;
        let max = scores.max(axis);
        let e = (scores - &max.unsqueeze(axis)).exp();
        SoftmaxParts { sum: e.sum(axis), acc: weigh(&e), max }
    }

    /// Folds tiles along `axis`; only the first `count` are used. The shape of
    /// `count` is that of the parts before `axis`.
    pub fn fold(&self, axis: usize, count: &Tensor) -> SoftmaxParts {
        let b = &self.max.builder;
        let arg = |n: usize, t: &Tensor| {
            let mut shape = b.dims(&t.shape());
            shape.remove(axis);
            let id = b.0.borrow_mut().make(Op::Arg(n), DType::F32, shape, vec![]);
            b.tensor(id)
        };
        let parts = [&self.max, &self.sum, &self.acc];
        let (old, new): (Vec<_>, Vec<_>) = parts.iter().enumerate().map(|(i, t)| (arg(i, t), arg(i + 3, t))).unzip();
        let max = old[0].maximum(&new[0]);
        let (keep, add) = ((&old[0] - &max).exp(), (&new[0] - &max).exp());
        let sum = &(&old[1] * &keep) + &(&new[1] * &add);
        let last = keep.rank();
        let acc = &(&old[2] * &keep.unsqueeze(last)) + &(&new[2] * &add.unsqueeze(last));
        let least = b.float(f32::MIN);
        let zero = b.float(0.0);
        let sources: Vec<Id> =
            parts.iter().map(|t| t.id).chain([max.id, sum.id, acc.id, least.id, zero.id, zero.id, count.id]).collect();
        let fold = |part: usize, like: &Tensor| {
            let mut shape = b.dims(&like.shape());
            shape.remove(axis);
            let id = b.0.borrow_mut().make(Op::Fold { axis, part, parts: 3 }, DType::F32, shape, sources.clone());
            b.tensor(id)
        };
        SoftmaxParts { max: fold(0, &self.max), sum: fold(1, &self.sum), acc: fold(2, &self.acc) }
    }

    /// With one more score for each head that has no value: it only takes weight from the others.
    pub fn beside(&self, score: &Tensor) -> SoftmaxParts {
        let max = self.max.maximum(score);
        let keep = (&self.max - &max).exp();
        let sum = &(&self.sum * &keep) + &(score - &max).exp();
        SoftmaxParts { sum, acc: &self.acc * &keep.unsqueeze(keep.rank()), max }
    }

    /// The weighted mean `acc / sum`.
    pub fn finish(&self) -> Tensor {
        let axis = self.sum.rank();
        &self.acc * &self.sum.unary(UnOp::Recip).unsqueeze(axis)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:expr) => {
        impl ops::$trait<&Tensor> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor {
                self.binary($op, other)
            }
        }
        impl ops::$trait<Tensor> for Tensor {
            type Output = Tensor;
            fn $method(self, other: Tensor) -> Tensor {
                self.binary($op, &other)
            }
        }
        impl ops::$trait<&Tensor> for Tensor {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor {
                self.binary($op, other)
            }
        }
        impl ops::$trait<f32> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: f32) -> Tensor {
                self.binary($op, &self.builder.float(other))
            }
        }
        impl ops::$trait<f32> for Tensor {
            type Output = Tensor;
            fn $method(self, other: f32) -> Tensor {
                self.binary($op, &self.builder.float(other))
            }
        }
    };
}
operator!(Add, add, BinOp::Add);
operator!(Sub, sub, BinOp::Sub);
operator!(Mul, mul, BinOp::Mul);
operator!(Div, div, BinOp::Div);

impl ops::Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        self.unary(UnOp::Neg)
    }
}
