//! Evaluates a tensor graph on whole arrays.
//!
//! Nodes are taken in topological order. Movements are views; chains of
//! elementwise operations are kept as expressions until somebody needs their
//! values, so that a reduction of a broadcast product never holds the product.
//! Values are dropped after their last use. Indices of a gather are clamped;
//! a [`Choice`](Op::Choice) is its first alternative. A custom kernel needs a
//! reference given with [`Bindings::reference`].

mod fold;
mod recur;

use super::array::{Array, Values, View, Walk};
use super::expression::{Each, Expr, Kind};
use super::lanes::Fault;
use super::{VarError, Vars, axis, dequant};
use crate::fold::{body, merges, open_nodes};
use crate::spec::{SpecError, check_tensor, describe};
use crate::{DType, FormatId, Graph, Id, Op, Part};
use gguf::format::FormatError;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Why a tensor graph has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// The graph is not a program.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No bytes were given for a tensor.
    #[error("nothing is bound to {0}")]
    MissingBinding(String),
    /// The bytes given for a tensor have the wrong length.
    #[error("{name} is {ty} {dims:?}, which takes {expected} bytes, but {found} are bound to it")]
    WrongSize {
        /// Name of the tensor.
        name: String,
        /// Its element type.
        ty: DType,
        /// Its extents.
        dims: Vec<usize>,
        /// Bytes that it needs.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// An extent or a variable has no value.
    #[error("{node}: {error}")]
    Var {
        /// The node.
        node: String,
        /// Why.
        error: VarError,
    },
    /// Extents do not fit each other for these values of the variables.
    #[error("{node}: {problem}")]
    Shape {
        /// The node.
        node: String,
        /// What does not fit.
        problem: String,
    },
    /// Arithmetic without a result.
    #[error("{node}: {fault}")]
    Fault {
        /// The node.
        node: String,
        /// What happened.
        fault: Fault,
    },
    /// A custom kernel without a reference, or whose reference failed.
    #[error("the custom kernel {symbol} cannot be interpreted: {problem}")]
    Call {
        /// Symbol of the function.
        symbol: String,
        /// Why.
        problem: String,
    },
    /// A quantised format that makes no sense.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A result, or an argument of a custom kernel: elements in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Type of an element.
    pub ty: DType,
    /// Extents.
    pub dims: Vec<usize>,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor of `f32`.
    pub fn f32(dims: &[usize], values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor { ty: DType::F32, dims: dims.to_vec(), bytes }
    }

    /// The elements as floats, integers converted.
    pub fn floats(&self) -> Vec<f32> {
        match Array::decode(self.ty, &self.bytes) {
            Array::Float(v) => v,
            array => self.view(array).integers(self.ty).unwrap_or_default().iter().map(|&v| v as f32).collect(),
        }
    }

    /// The elements as integers, floats truncated.
    pub fn integers(&self) -> Vec<i64> {
        match Array::decode(self.ty, &self.bytes) {
            Array::Float(v) => v.iter().map(|&v| v as i64).collect(),
            array => self.view(array).integers(self.ty).unwrap_or_default(),
        }
    }

    fn view<'a>(&self, array: Array<'a>) -> View<'a> {
        let len = array.len();
        View::new(array, vec![len])
    }

    /// Bytes that its type and extents call for.
    fn expected_bytes(&self) -> usize {
        self.dims.iter().product::<usize>() * self.ty.bytes()
    }
}

/// What a custom kernel computes, for the interpreter.
pub type Reference<'a> = Box<dyn Fn(&[Tensor]) -> Result<Tensor, String> + 'a>;

/// Everything a graph reads from outside.
#[derive(Default)]
pub struct Bindings<'a> {
    tensors: BTreeMap<String, &'a [u8]>,
    references: BTreeMap<String, Reference<'a>>,
    vars: Vars,
}

impl<'a> Bindings<'a> {
    /// No bindings.
    pub fn new() -> Bindings<'a> {
        Bindings::default()
    }

    /// The little-endian bytes of a param or a state.
    pub fn tensor(mut self, name: &str, bytes: &'a [u8]) -> Bindings<'a> {
        self.tensors.insert(name.into(), bytes);
        self
    }

    /// The value of a variable.
    pub fn var(mut self, name: &str, value: i64) -> Bindings<'a> {
        self.vars.set(name, value);
        self
    }

    /// What the custom kernel `symbol` computes.
    pub fn reference(mut self, symbol: &str, f: Reference<'a>) -> Bindings<'a> {
        self.references.insert(symbol.into(), f);
        self
    }
}

/// The values of some nodes of a tensor graph.
///
/// The root of a [`Scatter`](Op::Scatter) is the state after it.
///
/// ```
/// use ir::interp::{Bindings, evaluate};
/// use ir::{DType, Graph, ReduceOp};
///
/// let mut g = Graph::new();
/// let (t, n) = (g.var("t", 1, 8), g.int(3));
/// let x = g.param("x", DType::F32, vec![t, n]);
/// let square = g.mul(x, x);
/// let y = g.reduce(ReduceOp::Sum, square, vec![1]);
/// let x: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let got = evaluate(&g, &[y], &Bindings::new().tensor("x", &x).var("t", 2)).unwrap();
/// assert_eq!(got[0].dims, [2]);
/// assert_eq!(got[0].floats(), [14.0, 77.0]);
/// ```
///
/// # Errors
/// [`EvalError`]: a graph that breaks the grammar, missing or wrong bindings,
/// extents that do not fit, division by zero.
pub fn evaluate(g: &Graph, roots: &[Id], bindings: &Bindings<'_>) -> Result<Vec<Tensor>, EvalError> {
    check_tensor(g, roots)?;
    let mut e = Evaluator::new(g, roots, bindings);
    for id in std::mem::take(&mut e.order) {
        e.settle(id)?;
    }
    roots
        .iter()
        .map(|&r| {
            let view = e.force(r)?;
            Ok(Tensor { ty: g.dtype(r), dims: view.dims.clone(), bytes: view.encode(g.dtype(r)) })
        })
        .collect()
}

/// An expression this many times larger than what it is computed from is
/// computed again by each user rather than held.
const EXPANSION: usize = 4;

/// The state of one evaluation.
struct Evaluator<'g, 'a> {
    g: &'g Graph,
    bindings: &'g Bindings<'a>,
    /// Nodes in the order of evaluation, without the bodies of folds.
    order: Vec<Id>,
    slots: FxHashMap<Id, Rc<Expr<'a>>>,
    /// What each node uses: its sources, and for a fold what its body uses.
    needs: FxHashMap<Id, Vec<Id>>,
    /// Users of each node that have not been evaluated; roots count as one.
    left: FxHashMap<Id, usize>,
    /// Distinct users of each node; a root has one more.
    users: FxHashMap<Id, Vec<Id>>,
    roots: FxHashSet<Id>,
    /// Quantised tables of which only gathered rows are dequantised.
    deferred: FxHashSet<Id>,
    /// Folds over the same parts, and parts of the same recurrence.
    folds: FxHashMap<Vec<Id>, Vec<Id>>,
    /// The nodes of the merge of a fold, or of a recurrence, that depend on its placeholders.
    bodies: FxHashMap<Id, Vec<Id>>,
}

impl<'g, 'a> Evaluator<'g, 'a> {
    fn new(g: &'g Graph, roots: &[Id], bindings: &'g Bindings<'a>) -> Evaluator<'g, 'a> {
        let all = g.toposort(roots);
        let open = open_nodes(g, &all);
        let mut e = Evaluator {
            g,
            bindings,
            order: all.iter().copied().filter(|id| !open.contains(id)).collect(),
            slots: FxHashMap::default(),
            needs: FxHashMap::default(),
            left: FxHashMap::default(),
            users: FxHashMap::default(),
            roots: roots.iter().copied().collect(),
            deferred: FxHashSet::default(),
            folds: FxHashMap::default(),
            bodies: FxHashMap::default(),
        };
        for &id in &all {
            let mut src = g.src(id).to_vec();
            src.sort_unstable();
            src.dedup();
            for &s in &src {
                e.users.entry(s).or_default().push(id);
            }
            e.needs.insert(id, src);
            let merges = merges(g, id);
            if !merges.is_empty() {
                let body = body(g, &open, &g.src(id)[merges]);
                e.folds.entry(g.src(id).to_vec()).or_default().push(id);
                e.bodies.insert(id, body);
            }
        }
        for &id in &all {
            let of_gathers = |u: &Id| *g.op(*u) == Op::Gather && g.src(*u)[0] == id && g.src(*u)[1] != id;
            let users = e.users.get(&id).map_or(&[][..], |u| u);
            let dequant = matches!(g.op(id), Op::Dequant(..)) && g.shape(id).len() > 1;
            if dequant && !open.contains(&id) && !e.roots.contains(&id) && users.iter().all(of_gathers) {
                e.deferred.insert(id);
            }
        }
        e.order.retain(|id| !e.deferred.contains(id));
        for &id in &all {
            let mut needs = e.needs[&id].clone();
            if let Some(body) = e.bodies.get(&id) {
                needs.extend(body.iter().flat_map(|b| &e.needs[b]));
            }
            needs = needs.iter().map(|n| if e.deferred.contains(n) { g.src(*n)[0] } else { *n }).collect();
            needs.retain(|n| !open.contains(n) || open.contains(&id));
            needs.sort_unstable();
            needs.dedup();
            e.needs.insert(id, needs);
        }
        for id in e.order.iter().chain(e.roots.iter().filter(|r| !open.contains(r))) {
            // A root is used once more than by its users, so that it stays.
            *e.left.entry(*id).or_default() += usize::from(e.roots.contains(id));
        }
        for id in &e.order {
            for n in &e.needs[id] {
                *e.left.entry(*n).or_default() += 1;
            }
        }
        e
    }

    /// Evaluates a node of the order and drops what nobody needs any more.
    fn settle(&mut self, id: Id) -> Result<(), EvalError> {
        if !self.slots.contains_key(&id) {
            self.compute(id)?;
        }
        for n in self.needs[&id].clone() {
            let left = self.left.entry(n).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.slots.remove(&n);
            }
        }
        Ok(())
    }

    /// Evaluates a node into its slot.
    fn compute(&mut self, id: Id) -> Result<(), EvalError> {
        match self.g.op(id) {
            Op::Fold { .. } => return self.fold(id),
            Op::Recur { .. } => return self.recur(id),
            _ => {}
        }
        let expr = self.node(id)?;
        let dims = self.dims(id)?;
        if expr.dims != dims {
            return Err(self.misfit(id, format!("the value is {:?}, the node {dims:?}", expr.dims)));
        }
        let lazy = matches!(expr.kind, Kind::Each(..));
        let keep = !lazy || self.stays_lazy(id, &expr);
        self.slots.insert(id, expr);
        if !keep {
            self.force(id)?;
        }
        Ok(())
    }

    fn stays_lazy(&self, id: Id, expr: &Expr<'_>) -> bool {
        let users = self.users.get(&id).map_or(&[][..], |u| u);
        if self.roots.contains(&id) {
            return false;
        }
        let streams = |u: &Id| {
            let op = self.g.op(*u);
            op.is_elementwise() || matches!(op, Op::Reduce(..) | Op::Permute(_) | Op::Reshape | Op::Slice { .. })
        };
        users.len() <= 1 || (users.iter().all(streams) && expr.len() > EXPANSION * expr.leaf_len())
    }

    /// The extents of a node.
    fn dims(&self, id: Id) -> Result<Vec<usize>, EvalError> {
        let extent = |&d: &Id| {
            let n = self.bindings.vars.eval(self.g, d).map_err(|error| self.var_error(id, error))?;
            usize::try_from(n).map_err(|_| self.misfit(id, format!("an extent is {n}")))
        };
        self.g.shape(id).iter().map(extent).collect()
    }

    fn var_error(&self, id: Id, error: VarError) -> EvalError {
        EvalError::Var { node: describe(self.g, id), error }
    }

    fn misfit(&self, id: Id, problem: String) -> EvalError {
        EvalError::Shape { node: describe(self.g, id), problem }
    }

    /// The array of a node, kept in its slot.
    fn force(&mut self, id: Id) -> Result<View<'a>, EvalError> {
        let expr = self.expr(id)?;
        let view = expr.force().map_err(|fault| EvalError::Fault { node: describe(self.g, id), fault })?;
        if matches!(expr.kind, Kind::Each(..)) {
            self.slots.insert(id, Expr::view(expr.ty, view.clone()));
        }
        Ok(view)
    }

    fn expr(&self, id: Id) -> Result<Rc<Expr<'a>>, EvalError> {
        self.slots.get(&id).cloned().ok_or_else(|| self.misfit(id, "it was not evaluated".into()))
    }

    /// The elements of an integer tensor.
    fn integers(&mut self, id: Id) -> Result<Vec<i64>, EvalError> {
        let view = self.force(id)?;
        view.integers(self.g.dtype(id)).ok_or_else(|| self.misfit(id, "an index must be an integer".into()))
    }

    fn node(&mut self, id: Id) -> Result<Rc<Expr<'a>>, EvalError> {
        let g = self.g;
        let n = g.node(id);
        let ty = n.ty.base;
        if let Some(each) = Each::of(&n.op) {
            let src = n.src.iter().map(|&s| self.expr(s)).collect::<Result<Vec<_>, _>>()?;
            if src.iter().any(|s| s.dims != src[0].dims) {
                return Err(self.misfit(id, "the sources have different extents".into()));
            }
            return Ok(Expr::each(ty, each, src));
        }
        let view = match &n.op {
            Op::Const(c) => View::splat(Array::constant(ty, *c), self.dims(id)?),
            Op::Var { name, min, max, .. } => {
                let v = self.bindings.vars.get(name, *min, *max).map_err(|e| self.var_error(id, e))?;
                View::new(Array::Index(vec![v]), vec![])
            }
            Op::Param { name } | Op::State { name } => self.bound(id, name)?,
            Op::Reshape | Op::Permute(_) | Op::Expand | Op::Slice { .. } => return self.movement(id),
            Op::Concat(axis) => self.concat(id, *axis)?,
            Op::Reduce(op, axes) => {
                let src = self.expr(n.src[0])?;
                src.reduce(*op, axes).map_err(|fault| EvalError::Fault { node: describe(g, id), fault })?
            }
            Op::Gather => self.gather(id)?,
            Op::Scatter => self.scatter(id)?,
            Op::Scan(along) => axis::scan(ty, &self.force(n.src[0])?.contiguous(), *along),
            Op::Dequant(format, part) => {
                let bytes = self.force(n.src[0])?.contiguous();
                self.dequant(id, &bytes, *format, *part)?
            }
            Op::TopK(k) => {
                let view = self.force(n.src[0])?.contiguous();
                if *k > view.dims.last().copied().unwrap_or(0) {
                    return Err(self.misfit(id, format!("{k} of {:?}", view.dims)));
                }
                axis::top_k(g.dtype(n.src[0]), &view, *k)
            }
            Op::Iota => {
                let dims = self.dims(id)?;
                View::new(Array::Int((0..dims[0] as i32).collect()), dims)
            }
            Op::Choice { .. } | Op::Fence | Op::Prefix(_) => self.force(n.src[0])?,
            Op::Call { symbol, .. } => self.call(id, symbol)?,
            _ => return Err(self.misfit(id, "it is not an operation on tensors".into())),
        };
        Ok(Expr::view(ty, view))
    }

    fn bound(&self, id: Id, name: &str) -> Result<View<'a>, EvalError> {
        let ty = self.g.dtype(id);
        let dims = self.dims(id)?;
        let &bytes = self.bindings.tensors.get(name).ok_or_else(|| EvalError::MissingBinding(name.into()))?;
        let expected = dims.iter().product::<usize>() * ty.bytes();
        if bytes.len() != expected {
            return Err(EvalError::WrongSize { name: name.into(), ty, dims, expected, found: bytes.len() });
        }
        Ok(View::new(Array::decode(ty, bytes), dims))
    }

    fn movement(&mut self, id: Id) -> Result<Rc<Expr<'a>>, EvalError> {
        let g = self.g;
        let source = g.src(id)[0];
        let dims = self.dims(id)?;
        let mut src = self.expr(source)?;
        match g.op(id) {
            Op::Reshape => {
                if src.len() != dims.iter().product::<usize>() {
                    return Err(self.misfit(id, format!("{:?} reshaped to {dims:?}", src.dims)));
                }
                if let Some(moved) = src.moved(&|v| v.reshape(&dims)) {
                    return Ok(moved);
                }
                let view = self.force(source)?;
                let reshaped = view.reshape(&dims).or_else(|| view.contiguous().reshape(&dims));
                Ok(Expr::view(g.dtype(id), reshaped.expect("a contiguous array has any shape")))
            }
            Op::Permute(perm) => Ok(src.moved(&|v| Some(v.permute(perm))).expect("any view can be permuted")),
            Op::Slice { axis, start } => {
                let (axis, start) = (*axis, *start as usize);
                let len = dims[axis];
                if start + len > src.dims[axis] {
                    let n = src.dims[axis];
                    return Err(self.misfit(id, format!("{start}..{} of an extent of {n}", start + len)));
                }
                Ok(src.moved(&|v| Some(v.slice(axis, start, len))).expect("any view can be sliced"))
            }
            _ => {
                if src.dims.len() != dims.len() || src.dims.iter().zip(&dims).any(|(&n, &m)| n != m && n != 1) {
                    return Err(self.misfit(id, format!("{:?} expanded to {dims:?}", src.dims)));
                }
                if matches!(src.kind, Kind::Each(..)) {
                    // Computed once, not once for every copy.
                    self.force(source)?;
                    src = self.expr(source)?;
                }
                Ok(src.moved(&|v| Some(v.expand(&dims))).expect("any view can be expanded"))
            }
        }
    }

    /// Writes a tensor into a box of a larger one along `axis`, from `at` on.
    fn place(&mut self, out: &mut Array<'a>, dims: &[usize], axis: usize, at: usize, part: &View<'a>) {
        let inner: usize = dims[axis + 1..].iter().product();
        let outer: usize = dims[..axis].iter().product();
        let run = part.dims[axis] * inner;
        let walk = Walk::new(part);
        if run > 0 {
            for o in 0..outer {
                out.copy_from((o * dims[axis] + at) * inner, &walk, &part.data, o * run, run);
            }
        }
    }

    fn concat(&mut self, id: Id, axis: usize) -> Result<View<'a>, EvalError> {
        let dims = self.dims(id)?;
        let mut out = Array::zeros(self.g.dtype(id), dims.iter().product());
        let mut at = 0;
        for &s in self.g.src(id) {
            let part = self.force(s)?;
            let same = (0..dims.len()).all(|d| d == axis || part.dims[d] == dims[d]);
            if !same || at + part.dims[axis] > dims[axis] {
                return Err(self.misfit(id, format!("a part {:?} does not fit {dims:?}", part.dims)));
            }
            self.place(&mut out, &dims, axis, at, &part);
            at += part.dims[axis];
        }
        Ok(View::new(out, dims))
    }

    fn dequant(&self, id: Id, bytes: &View<'a>, format: FormatId, part: Part) -> Result<View<'a>, EvalError> {
        let Array::Byte(all) = &*bytes.data else {
            return Err(self.misfit(id, "the source is not bytes".into()));
        };
        let group = if part == Part::Value { 1 } else { self.g.format_group(format) as u32 };
        let data = &all[bytes.offset..bytes.offset + bytes.len()];
        let out = dequant::dequant(self.g.format(format), part, group, data)?;
        let rows = bytes.dims.split_last().map_or(1, |(_, rows)| rows.iter().product());
        let mut dims = bytes.dims.clone();
        if let (Some(last), true) = (dims.last_mut(), rows > 0) {
            *last = out.len() / rows;
        }
        Ok(View::new(out, dims))
    }

    fn gather(&mut self, id: Id) -> Result<View<'a>, EvalError> {
        let (table, index) = (self.g.src(id)[0], self.g.src(id)[1]);
        let deferred = self.deferred.contains(&table);
        let rows = self.force(if deferred { self.g.src(table)[0] } else { table })?;
        let at = self.integers(index)?;
        let mut dims = self.slots[&index].dims.clone();
        dims.extend_from_slice(&rows.dims[1..]);
        let last = rows.dims[0] as i64 - 1;
        if last < 0 && !at.is_empty() {
            return Err(self.misfit(id, "the table is empty".into()));
        }
        let inner = rows.dims[1..].iter().product();
        let mut out = rows.data.zeros_like(at.len() * inner);
        if last >= 0 {
            let walk = Walk::new(&rows.at(0, 0));
            for (i, &row) in at.iter().enumerate() {
                let offset = rows.offset + row.clamp(0, last) as usize * rows.strides[0];
                out.copy_from(i * inner, &walk.from(offset), &rows.data, 0, inner);
            }
        }
        let gathered = View::new(out, dims);
        match self.g.op(table) {
            Op::Dequant(format, part) if deferred => self.dequant(id, &gathered, *format, *part),
            _ => Ok(gathered),
        }
    }

    fn scatter(&mut self, id: Id) -> Result<View<'a>, EvalError> {
        let [state, index, rows] = self.g.src(id)[..] else { unreachable!("three sources") };
        let at = self.integers(index)?;
        let rows = self.force(rows)?;
        let old = self.force(state)?.contiguous();
        if self.left.get(&state) == Some(&1) {
            self.slots.remove(&state);
        }
        let (dims, offset, len) = (old.dims.clone(), old.offset, old.len());
        let inner: usize = dims[1..].iter().product();
        if rows.len() != at.len() * inner {
            return Err(self.misfit(id, format!("rows {:?} for {} rows of {dims:?}", rows.dims, at.len())));
        }
        let mut seen = FxHashSet::default();
        for &row in &at {
            if row < 0 || row >= dims[0] as i64 {
                return Err(self.misfit(id, format!("row {row} of a state of {} rows", dims[0])));
            }
            if !seen.insert(row) {
                return Err(self.misfit(id, format!("row {row} is written twice")));
            }
        }
        // In place where this was the last reader of the old version.
        let whole = offset == 0 && len == old.data.len();
        let mut out = match Rc::try_unwrap(old.data) {
            Ok(array) if whole => array,
            Ok(array) => View { data: Rc::new(array), offset, dims: vec![len], strides: vec![1] }.copied(),
            Err(data) => View { data, offset, dims: vec![len], strides: vec![1] }.copied(),
        };
        let walk = Walk::new(&rows);
        for (i, &row) in at.iter().enumerate() {
            out.copy_from(row as usize * inner, &walk, &rows.data, i * inner, inner);
        }
        Ok(View::new(out, dims))
    }

    fn call(&mut self, id: Id, symbol: &str) -> Result<View<'a>, EvalError> {
        let failed = |problem: String| EvalError::Call { symbol: symbol.into(), problem };
        let (ty, dims) = (self.g.dtype(id), self.dims(id)?);
        let mut args = vec![];
        for &s in self.g.src(id) {
            let view = self.force(s)?;
            args.push(Tensor { ty: self.g.dtype(s), dims: view.dims.clone(), bytes: view.encode(self.g.dtype(s)) });
        }
        let bindings = self.bindings;
        let f = bindings.references.get(symbol).ok_or_else(|| failed("no reference was given".into()))?;
        let out = f(&args).map_err(failed)?;
        if out.ty != ty || out.dims != dims || out.bytes.len() != out.expected_bytes() {
            return Err(failed(format!("the reference made {} {:?}, not {ty} {dims:?}", out.ty, out.dims)));
        }
        let mut array = Array::zeros(ty, dims.iter().product());
        match Array::decode(ty, &out.bytes) {
            Array::Float(v) => array.write(0, Values::Float(&v)),
            Array::Index(v) => array.write(0, Values::Index(&v)),
            Array::Int(v) => array.write(0, Values::Int(&v)),
            Array::Byte(v) => array = Array::Byte(std::borrow::Cow::Owned(v.into_owned())),
            Array::SignedByte(v) => array = Array::SignedByte(v),
        }
        Ok(View::new(array, dims))
    }
}
