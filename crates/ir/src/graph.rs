//! The arena of hash-consed nodes and the constructors that infer types.

use crate::op::binary_type;
use crate::walk;
use crate::{Axis, BinOp, Const, DType, Op, Part, ReduceOp, Space, Type, UnOp};
use gguf::format::Format;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

/// A node of a [`Graph`]. Sources always have smaller ids than their users, so
/// ascending ids are a topological order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u32);

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A registered block format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FormatId(pub u32);

/// A part of a program that has a name, for reports; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(u32);

/// One value of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it computes.
    pub op: Op,
    /// Type of one element.
    pub ty: Type,
    /// Extents of a tensor, as index expressions; empty for a scalar.
    pub shape: Vec<Id>,
    /// What it is computed from.
    pub src: Vec<Id>,
}

/// An arena of nodes in which equal nodes are one.
#[derive(Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Nodes by their hash, or the next number that was free.
    index: FxHashMap<u64, Id>,
    formats: Vec<Arc<Format>>,
    /// Of each node. No part of it: equal nodes are one in whatever scope they are made.
    scopes: Vec<Scope>,
    scope_names: Vec<String>,
    /// The scope of new nodes.
    scope: Scope,
    pub(crate) bounds: FxHashMap<Id, (i64, i64)>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// An empty graph in which formats have the same numbers.
    pub fn with_formats_of(other: &Graph) -> Graph {
        Graph { formats: other.formats.clone(), ..Graph::default() }
    }

    /// Number of nodes, live or not.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node of an id.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The operation of a node.
    pub fn op(&self, id: Id) -> &Op {
        &self.node(id).op
    }

    /// The sources of a node.
    pub fn src(&self, id: Id) -> &[Id] {
        &self.node(id).src
    }

    /// The extents of a node.
    pub fn shape(&self, id: Id) -> &[Id] {
        &self.node(id).shape
    }

    /// The element type of a node.
    pub fn dtype(&self, id: Id) -> DType {
        self.node(id).ty.base
    }

    /// The type of a node.
    pub fn ty(&self, id: Id) -> Type {
        self.node(id).ty
    }

    /// The one node with these parts.
    pub fn intern(&mut self, node: Node) -> Id {
        let mut hash = FxBuildHasher.hash_one(&node);
        while let Some(&id) = self.index.get(&hash) {
            if *self.node(id) == node {
                let scope = &mut self.scopes[id.0 as usize];
                if self.scope != Scope::default() && *scope != self.scope {
                    *scope = Scope::default();
                }
                return id;
            }
            hash = hash.wrapping_add(1);
        }
        let id = Id(self.nodes.len() as u32);
        debug_assert!(node.src.iter().all(|s| s.0 < id.0));
        self.nodes.push(node);
        self.scopes.push(self.scope);
        self.index.insert(hash, id);
        id
    }

    /// The scope that a node was made in, by hand or from another node by rewriting; none if it was made in several.
    pub fn scope(&self, id: Id) -> Scope {
        self.scopes[id.0 as usize]
    }

    /// The name of a scope; empty for none.
    pub fn scope_name(&self, scope: Scope) -> &str {
        scope.0.checked_sub(1).map_or("", |at| &self.scope_names[at as usize])
    }

    /// The scope of a name; the empty name is none.
    pub fn named_scope(&mut self, name: &str) -> Scope {
        if name.is_empty() {
            return Scope::default();
        }
        let known = self.scope_names.iter().position(|n| n == name);
        let at = known.unwrap_or_else(|| {
            self.scope_names.push(name.into());
            self.scope_names.len() - 1
        });
        Scope(at as u32 + 1)
    }

    /// Makes new nodes in this scope; returns the one before.
    pub fn enter(&mut self, scope: Scope) -> Scope {
        std::mem::replace(&mut self.scope, scope)
    }

    /// The node `op(src)` of this type and shape.
    pub fn make(&mut self, op: Op, ty: impl Into<Type>, shape: Vec<Id>, src: Vec<Id>) -> Id {
        self.intern(Node { op, ty: ty.into(), shape, src })
    }

    /// The same node over other sources; shape and type are kept.
    pub fn with_src(&mut self, id: Id, src: Vec<Id>) -> Id {
        if self.node(id).src == src {
            return id;
        }
        let n = self.node(id);
        let node = Node { op: n.op.clone(), ty: n.ty, shape: n.shape.clone(), src };
        self.intern(node)
    }

    /// Registers a block format; equal formats by name get one id.
    pub fn format_id(&mut self, format: &Arc<Format>) -> FormatId {
        if let Some(i) = self.formats.iter().position(|f| f.name == format.name) {
            return FormatId(i as u32);
        }
        self.formats.push(format.clone());
        FormatId(self.formats.len() as u32 - 1)
    }

    /// A registered block format.
    pub fn format(&self, id: FormatId) -> &Arc<Format> {
        &self.formats[id.0 as usize]
    }

    // ---- scalars ----

    /// An index constant.
    pub fn int(&mut self, v: i64) -> Id {
        self.make(Op::Const(Const::Int(v)), DType::Index, vec![], vec![])
    }

    /// A constant of a given type.
    pub fn constant(&mut self, c: Const, ty: DType) -> Id {
        self.make(Op::Const(c), ty, vec![], vec![])
    }

    /// A float constant.
    pub fn float(&mut self, v: f32) -> Id {
        self.constant(Const::f32(v), DType::F32)
    }

    /// A symbolic integer.
    pub fn var(&mut self, name: &str, min: i64, max: i64) -> Id {
        self.var_usually(name, min, max, max)
    }

    /// A symbolic integer that is `usual` as a rule: nothing is right or wrong by that, but plans and prices are for it.
    pub fn var_usually(&mut self, name: &str, min: i64, max: i64, usual: i64) -> Id {
        let usual = usual.max(min).min(max);
        self.make(Op::Var { name: name.into(), min, max, usual }, DType::Index, vec![], vec![])
    }

    /// The value of an integer constant.
    pub fn as_int(&self, id: Id) -> Option<i64> {
        match self.op(id) {
            Op::Const(c) if self.dtype(id) != DType::F32 => Some(c.as_int()),
            _ => None,
        }
    }

    /// The constant of a node.
    pub fn as_const(&self, id: Id) -> Option<Const> {
        match self.op(id) {
            Op::Const(c) => Some(*c),
            _ => None,
        }
    }

    /// The integer that all lanes of a constant vector have.
    pub fn every_lane(&self, v: Id) -> Option<i64> {
        match self.op(v) {
            Op::Lanes(all) if self.dtype(v).is_int() => all.iter().all(|c| c == &all[0]).then(|| all[0].as_int()),
            _ => None,
        }
    }

    // ---- elementwise ----

    /// `f(a)`, element by element.
    pub fn unary(&mut self, op: UnOp, a: Id) -> Id {
        let n = self.node(a);
        let (ty, shape) = (n.ty, n.shape.clone());
        self.make(Op::Unary(op), ty, shape, vec![a])
    }

    /// `f(a, b)`, element by element on equal shapes. Index arithmetic is
    /// simplified.
    ///
    /// # Panics
    /// If types or shapes differ: a bug in the caller.
    pub fn binary(&mut self, op: BinOp, a: Id, b: Id) -> Id {
        let (na, nb) = (self.node(a), self.node(b));
        assert_eq!(na.ty, nb.ty, "{op:?} of {} and {}", na.ty, nb.ty);
        assert_eq!(na.shape, nb.shape, "{op:?} of unequal shapes");
        if na.ty == Type::from(DType::Index) && na.shape.is_empty() {
            return crate::index::binary(self, op, a, b);
        }
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b))
            && na.shape.is_empty()
            && na.ty.lanes == 1
            && na.ty.base != DType::F16
            && na.ty.base != DType::BF16
        {
            let ty = binary_type(op, na.ty.base);
            let c = crate::interp::const_binary(op, na.ty.base, x, y);
            return self.constant(c, ty);
        }
        let neutral = matches!(op, BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr);
        if neutral && na.ty.base.is_int() && self.as_const(b) == Some(Const::Int(0)) {
            return a;
        }
        let ty = Type { base: binary_type(op, na.ty.base), lanes: na.ty.lanes };
        let shape = na.shape.clone();
        self.make(Op::Binary(op), ty, shape, vec![a, b])
    }

    /// `a + b`.
    pub fn add(&mut self, a: Id, b: Id) -> Id {
        self.binary(BinOp::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Id, b: Id) -> Id {
        self.binary(BinOp::Sub, a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: Id, b: Id) -> Id {
        self.binary(BinOp::Mul, a, b)
    }

    /// `if c then a else b`, element by element.
    pub fn select(&mut self, c: Id, a: Id, b: Id) -> Id {
        let n = self.node(a);
        assert_eq!(n.shape, self.node(c).shape);
        assert_eq!(n.shape, self.node(b).shape);
        assert_eq!(n.ty, self.node(b).ty);
        if let Some(v) = self.as_int(c) {
            return if v != 0 { a } else { b };
        }
        let (ty, shape) = (n.ty, n.shape.clone());
        self.make(Op::Where, ty, shape, vec![c, a, b])
    }

    /// Conversion to another type.
    pub fn cast(&mut self, a: Id, to: DType) -> Id {
        let n = self.node(a);
        if n.ty.base == to {
            return a;
        }
        let ty = Type { base: to, lanes: n.ty.lanes };
        let shape = n.shape.clone();
        if let (Op::Const(c), true) = (&n.op, shape.is_empty() && n.ty.lanes == 1) {
            let c = match (c, to.is_float()) {
                (c, true) => Const::f32(c.as_f32()),
                (c, false) => Const::Int(c.as_int()),
            };
            return self.constant(c, to);
        }
        self.make(Op::Cast, ty, shape, vec![a])
    }

    // ---- tensors ----

    /// A tensor that a step reads.
    pub fn param(&mut self, name: &str, ty: DType, shape: Vec<Id>) -> Id {
        self.make(Op::Param { name: name.into() }, ty, shape, vec![])
    }

    /// A tensor that steps overwrite.
    pub fn state(&mut self, name: &str, ty: DType, shape: Vec<Id>) -> Id {
        self.make(Op::State { name: name.into() }, ty, shape, vec![])
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, a: Id, shape: Vec<Id>) -> Id {
        if self.shape(a) == shape {
            return a;
        }
        let a = if *self.op(a) == Op::Reshape { self.src(a)[0] } else { a };
        if self.shape(a) == shape {
            return a;
        }
        let ty = self.ty(a);
        self.make(Op::Reshape, ty, shape, vec![a])
    }

    /// Dimensions in another order.
    pub fn permute(&mut self, a: Id, perm: Vec<usize>) -> Id {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return a;
        }
        // Of two in a row, one is left.
        if let Op::Permute(below) = self.op(a) {
            let both = perm.iter().map(|&p| below[p]).collect();
            let source = self.src(a)[0];
            return self.permute(source, both);
        }
        let shape = perm.iter().map(|&p| self.shape(a)[p]).collect();
        let ty = self.ty(a);
        self.make(Op::Permute(perm), ty, shape, vec![a])
    }

    /// Dimensions of length 1 repeated.
    pub fn expand(&mut self, a: Id, shape: Vec<Id>) -> Id {
        if self.shape(a) == shape {
            return a;
        }
        assert_eq!(self.shape(a).len(), shape.len(), "expand keeps the rank");
        let ty = self.ty(a);
        self.make(Op::Expand, ty, shape, vec![a])
    }

    /// `start .. start + len` of one dimension.
    pub fn slice(&mut self, a: Id, axis: usize, start: i64, len: i64) -> Id {
        let len = self.int(len);
        if start == 0 && self.shape(a)[axis] == len {
            return a;
        }
        let mut shape = self.shape(a).to_vec();
        shape[axis] = len;
        let ty = self.ty(a);
        self.make(Op::Slice { axis, start }, ty, shape, vec![a])
    }

    /// Tensors one after another along a dimension of constant extents.
    pub fn concat(&mut self, parts: Vec<Id>, axis: usize) -> Id {
        if parts.len() == 1 {
            return parts[0];
        }
        let mut shape = self.shape(parts[0]).to_vec();
        let mut total = self.int(0);
        for &p in &parts {
            total = self.add(total, self.shape(p)[axis]);
        }
        shape[axis] = total;
        let ty = self.ty(parts[0]);
        self.make(Op::Concat(axis), ty, shape, parts)
    }

    /// A reduction of the listed dimensions.
    pub fn reduce(&mut self, op: ReduceOp, a: Id, mut axes: Vec<usize>) -> Id {
        axes.sort_unstable();
        axes.dedup();
        if axes.is_empty() {
            return a;
        }
        let shape = self.shape(a).iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect();
        let ty = self.ty(a);
        self.make(Op::Reduce(op, axes), ty, shape, vec![a])
    }

    /// Sums of the elements up to and with each one, along a dimension.
    pub fn scan(&mut self, a: Id, axis: usize) -> Id {
        if self.as_int(self.shape(a)[axis]) == Some(1) {
            return a;
        }
        let (ty, shape) = (self.ty(a), self.shape(a).to_vec());
        self.make(Op::Scan(axis), ty, shape, vec![a])
    }

    /// Rows of a table.
    pub fn gather(&mut self, table: Id, index: Id) -> Id {
        let mut shape = self.shape(index).to_vec();
        shape.extend_from_slice(&self.shape(table)[1..]);
        let ty = self.ty(table);
        self.make(Op::Gather, ty, shape, vec![table, index])
    }

    /// The next version of a state with some rows replaced.
    pub fn scatter(&mut self, state: Id, index: Id, rows: Id) -> Id {
        assert_eq!(self.dtype(state), self.dtype(rows), "scatter of another type");
        let (ty, shape) = (self.ty(state), self.shape(state).to_vec());
        self.make(Op::Scatter, ty, shape, vec![state, index, rows])
    }

    /// A part of a quantised tensor: from bytes `[.., row bytes]`, the values
    /// or codes `[.., row]`, or one factor for each group `[.., row / group]`.
    pub fn dequant(&mut self, bytes: Id, format: FormatId, part: Part) -> Id {
        let (elems, bytes_per_block) = self.block_size(format);
        let row_bytes = *self.shape(bytes).last().expect("rows");
        let row_bytes = self.as_int(row_bytes).expect("constant row");
        let n = row_bytes / bytes_per_block * elems;
        let (len, ty) = match part {
            Part::Value => (n, DType::F32),
            Part::Code => (n, DType::U8),
            Part::Level => (n, DType::I8),
            Part::Scale | Part::Offset => (n / self.format_group(format), DType::F32),
        };
        let mut shape = self.shape(bytes).to_vec();
        *shape.last_mut().unwrap() = self.int(len);
        self.make(Op::Dequant(format, part), ty, shape, vec![bytes])
    }

    // ---- kernels ----

    /// A loop counter.
    pub fn range(&mut self, number: u32, axis: Axis, extent: Id) -> Id {
        self.make(Op::Range(number, axis), DType::Index, vec![], vec![extent])
    }

    /// A buffer of a kernel.
    pub fn buffer(&mut self, slot: u32, space: Space, ty: DType, len: usize) -> Id {
        self.make(Op::Buffer { slot, space, len }, ty, vec![], vec![])
    }

    /// A load of one element or of consecutive ones.
    pub fn load(&mut self, buffer: Id, index: Id, lanes: usize) -> Id {
        let ty = Type::vector(self.dtype(buffer), lanes);
        self.make(Op::Load, ty, vec![], vec![buffer, index])
    }

    /// All nodes that `roots` need, in topological order.
    pub fn toposort(&self, roots: &[Id]) -> Vec<Id> {
        // A bit for each node: small expressions of large graphs are asked for often.
        let mut seen = vec![0u64; self.nodes.len().div_ceil(64)];
        let mut stack: Vec<Id> = roots.to_vec();
        let mut count = 0;
        while let Some(id) = stack.pop() {
            let (word, bit) = (&mut seen[id.0 as usize / 64], 1 << (id.0 % 64));
            if *word & bit == 0 {
                *word |= bit;
                count += 1;
                stack.extend_from_slice(self.src(id));
            }
        }
        let mut order = Vec::with_capacity(count);
        for (at, mut word) in (0..).zip(seen) {
            while word != 0 {
                order.push(Id(64 * at + word.trailing_zeros()));
                word &= word - 1;
            }
        }
        order
    }

    /// What `root` needs as a graph of its own, in the same order, and the root in it. Takes time by its size alone.
    pub fn extract(&self, root: Id) -> (Graph, Id) {
        let mut needed = vec![];
        walk::reach([root], |id, more| {
            needed.push(id);
            more.extend(self.src(id).iter().chain(self.shape(id)));
        });
        needed.sort_unstable();
        let mut graph = Graph { formats: self.formats.clone(), ..Graph::default() };
        let mut moved: FxHashMap<Id, Id> = FxHashMap::default();
        for id in needed {
            let Node { op, ty, shape, src } = self.node(id);
            let all = |ids: &[Id]| ids.iter().map(|id| moved[id]).collect();
            let new = graph.make(op.clone(), *ty, all(shape), all(src));
            moved.insert(id, new);
        }
        (graph, moved[&root])
    }

    /// Rebuilds the nodes above some replacements. `map` holds the
    /// replacements and receives every rebuilt node.
    pub fn substitute(&mut self, root: Id, map: &mut FxHashMap<Id, Id>) -> Id {
        if let Some(&r) = map.get(&root) {
            return r;
        }
        let mut new: Option<Vec<Id>> = None;
        for i in 0..self.src(root).len() {
            let old = self.src(root)[i];
            let replaced = self.substitute(old, map);
            if replaced != old {
                new.get_or_insert_with(|| self.src(root).to_vec())[i] = replaced;
            }
        }
        let r = new.map_or(root, |new| self.rebuild(root, new));
        map.insert(root, r);
        r
    }

    /// `root` with each of `values` in place of `var`. The same as a [`Graph::substitute`] for each; what does not depend on
    /// `var` is looked at once.
    pub fn substitute_each(&mut self, root: Id, var: Id, values: &[Id]) -> Vec<Id> {
        // What depends on `var`, sources first, and of each the sources with their places in this list.
        let (mut above, mut places) = (vec![var], FxHashMap::from_iter([(var, 0)]));
        let mut sources: Vec<Vec<(Id, Option<usize>)>> = vec![vec![]];
        for id in self.toposort(&[root]) {
            let of: Vec<_> = self.src(id).iter().map(|s| (*s, places.get(s).copied())).collect();
            if id != var && of.iter().any(|s| s.1.is_some()) {
                places.insert(id, above.len());
                above.push(id);
                sources.push(of);
            }
        }
        let Some(&end) = places.get(&root) else { return vec![root; values.len()] };
        let one = |&value: &Id| {
            let mut new = vec![value];
            for (&id, of) in above.iter().zip(&sources).skip(1) {
                let now = |&(s, place): &(Id, Option<usize>)| place.map_or(s, |place| new[place]);
                let is_as_before = of.iter().all(|s| now(s) == s.0);
                let src = if is_as_before { vec![] } else { of.iter().map(now).collect() };
                new.push(if is_as_before { id } else { self.rebuild(id, src) });
            }
            new[end]
        };
        values.iter().map(one).collect()
    }

    /// The node over other sources, in its scope, simplified again where it is arithmetic.
    pub fn rebuild(&mut self, id: Id, src: Vec<Id>) -> Id {
        let before = self.enter(self.scope(id));
        let new = match self.op(id).clone() {
            Op::Binary(op) => self.binary(op, src[0], src[1]),
            Op::Where => self.select(src[0], src[1], src[2]),
            Op::Cast => {
                let to = self.dtype(id);
                self.cast(src[0], to)
            }
            _ => self.with_src(id, src),
        };
        self.enter(before);
        new
    }
}

impl Graph {
    /// Elements and bytes of a block of a registered format.
    pub fn block_size(&self, id: FormatId) -> (i64, i64) {
        let b = self.format(id).as_blocks().expect("a block format");
        (b.block as i64, b.bytes as i64)
    }

    /// Consecutive elements that share one scale and one minimum.
    pub fn format_group(&self, id: FormatId) -> i64 {
        let b = self.format(id).as_blocks().expect("a block format");
        let scale = b.scale.group(b.block);
        b.min.as_ref().map_or(scale, |m| m.0.group(b.block).min(scale)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_extracted_is_all_that_is_needed() {
        let mut g = Graph::new();
        let other = g.var("other", 1, 7);
        let n = g.var("n", 1, 8);
        let _ = g.param("unused", DType::F32, vec![other]);
        let x = g.param("x", DType::F32, vec![n]);
        let y = g.add(x, x);
        let (mut own, root) = g.extract(y);
        assert_eq!(own.len(), 3);
        let (n, x) = (own.var("n", 1, 8), own.param("x", DType::F32, vec![Id(0)]));
        assert_eq!((own.shape(root), own.src(root)), (&[n][..], &[x, x][..]));
        assert_eq!((own.add(x, x), own.len()), (root, 3), "equal nodes are still one");
    }
}
