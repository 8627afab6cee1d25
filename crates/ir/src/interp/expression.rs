//! Elementwise expressions over views, evaluated block by block.
//!
//! An expression that is reduced, or written once, is never held as a whole:
//! blocks of a few thousand elements go through all its operations while they
//! are in the first-level cache. This is how a matrix product written as
//! `reduce(sum, mul(expand(x), expand(w)))` runs in bounded memory.
//!
//! What it cannot do: it never reorders operations, so every element is rounded
//! as the graph says. Float sums are kept in double precision and rounded once.

use super::array::{Array, Block, Values, View, Walk};
use super::lanes::{self, Class, Fault};
use crate::{BinOp, DType, Op, ReduceOp, UnOp};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Elements of a block: small enough for a few blocks to stay in the L1 cache.
const BLOCK: usize = 2048;

/// An operation that acts element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each {
    Unary(UnOp),
    Binary(BinOp),
    Where,
    Cast,
}

impl Each {
    /// The elementwise operation of a node, if it is one.
    pub fn of(op: &Op) -> Option<Each> {
        Some(match op {
            Op::Unary(op) => Each::Unary(*op),
            Op::Binary(op) => Each::Binary(*op),
            Op::Where => Each::Where,
            Op::Cast => Each::Cast,
            _ => return None,
        })
    }
}

/// An array that may not have been computed yet.
#[derive(Debug)]
pub(crate) struct Expr<'a> {
    pub ty: DType,
    pub dims: Vec<usize>,
    pub kind: Kind<'a>,
}

/// How an [`Expr`] is known.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    View(View<'a>),
    Each(Each, Vec<Rc<Expr<'a>>>),
}

impl<'a> Expr<'a> {
    /// A known array.
    pub fn view(ty: DType, view: View<'a>) -> Rc<Expr<'a>> {
        Rc::new(Expr { ty, dims: view.dims.clone(), kind: Kind::View(view) })
    }

    /// An operation that is still to be computed.
    pub fn each(ty: DType, op: Each, src: Vec<Rc<Expr<'a>>>) -> Rc<Expr<'a>> {
        Rc::new(Expr { ty, dims: src[0].dims.clone(), kind: Kind::Each(op, src) })
    }

    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Elements of the arrays that this is computed from.
    pub fn leaf_len(&self) -> usize {
        match &self.kind {
            Kind::View(v) => v.data.len(),
            Kind::Each(_, src) => src.iter().map(|s| s.leaf_len()).sum(),
        }
    }

    /// The same expression over other views of its arrays; `None` if one of
    /// them has no such view.
    pub fn moved(self: &Rc<Self>, to: &impl Fn(&View<'a>) -> Option<View<'a>>) -> Option<Rc<Expr<'a>>> {
        fn go<'a>(
            e: &Rc<Expr<'a>>,
            to: &impl Fn(&View<'a>) -> Option<View<'a>>,
            seen: &mut FxHashMap<*const Expr<'a>, Rc<Expr<'a>>>,
        ) -> Option<Rc<Expr<'a>>> {
            if let Some(done) = seen.get(&Rc::as_ptr(e)) {
                return Some(done.clone());
            }
            let new = match &e.kind {
                Kind::View(v) => Expr::view(e.ty, to(v)?),
                Kind::Each(op, src) => {
                    let src: Option<Vec<_>> = src.iter().map(|s| go(s, to, seen)).collect();
                    Expr::each(e.ty, *op, src?)
                }
            };
            seen.insert(Rc::as_ptr(e), new.clone());
            Some(new)
        }
        go(self, to, &mut FxHashMap::default())
    }

    /// The array itself, computed if need be.
    pub fn force(&self) -> Result<View<'a>, Fault> {
        if let Kind::View(v) = &self.kind {
            return Ok(v.clone());
        }
        let len = self.len();
        let mut out = Array::zeros(self.ty, len);
        let order: Vec<usize> = (0..self.dims.len()).collect();
        let mut program = Program::new(self, &order);
        for at in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - at);
            program.run(at, n)?;
            out.write(at, program.operand(program.root, n));
        }
        Ok(View::new(out, self.dims.clone()))
    }

    /// The reduction of some dimensions (ascending).
    pub fn reduce(&self, op: ReduceOp, axes: &[usize]) -> Result<View<'a>, Fault> {
        let rank = self.dims.len();
        let kept: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).collect();
        // Dimensions after the last reduced one are columns: neighbours in
        // memory whose sums are carried side by side.
        let first_column = axes.last().map_or(0, |&a| a + 1);
        let split = kept.iter().position(|&d| d >= first_column).unwrap_or(kept.len());
        let order: Vec<usize> = kept[..split].iter().chain(axes).chain(&kept[split..]).copied().collect();
        let extent = |dims: &[usize]| dims.iter().map(|&d| self.dims[d]).product::<usize>();
        let (outer, reduced, columns) = (extent(&kept[..split]), extent(axes), extent(&kept[split..]));

        let mut out = Array::zeros(self.ty, outer * columns);
        let mut program = Program::new(self, &order);
        let product = (op == ReduceOp::Sum && columns == 1).then(|| program.take_product()).flatten();
        let mut carrier = Carrier::new(op, self.ty);
        let tile = reduced * columns;
        if tile <= BLOCK {
            // Several tiles of one output row each fit a block.
            let tiles = BLOCK.checked_div(tile).unwrap_or(outer).max(1);
            for o in (0..outer).step_by(tiles) {
                let n = tiles.min(outer - o);
                if tile > 0 {
                    program.run(o * tile, n * tile)?;
                }
                for i in 0..n {
                    carrier.reset(columns);
                    if tile > 0 {
                        carrier.fold_block(&program, product, n * tile, i * tile, tile, columns);
                    }
                    carrier.store(&mut out, (o + i) * columns);
                }
            }
        } else {
            let width = columns.min(BLOCK);
            for (o, c) in (0..outer).flat_map(|o| (0..columns).step_by(width).map(move |c| (o, c))) {
                let width = width.min(columns - c);
                // Whole rows of columns can be taken several at a time.
                let rows = if width == columns { (BLOCK / width).max(1) } else { 1 };
                carrier.reset(width);
                for r in (0..reduced).step_by(rows) {
                    let len = rows.min(reduced - r) * width;
                    program.run((o * reduced + r) * columns + c, len)?;
                    carrier.fold_block(&program, product, len, 0, len, width);
                }
                carrier.store(&mut out, o * columns + c);
            }
        }
        Ok(View::new(out, kept.iter().map(|&d| self.dims[d]).collect()))
    }
}

/// Where an operand of a step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operand {
    Leaf(usize),
    Register(usize),
}

struct Leaf<'a> {
    data: Rc<Array<'a>>,
    walk: Walk,
    /// Holds the elements where they cannot be used in place.
    copy: Block,
    splat: bool,
    /// Where they are used in place, for the present block.
    in_place: Option<usize>,
}

struct Operation {
    op: Each,
    /// Types of the sources (the first value, for a select) and the result.
    from: DType,
    to: DType,
    src: [Operand; 3],
    dst: usize,
}

/// A flattened expression, run on one block after another.
struct Program<'a> {
    leaves: Vec<Leaf<'a>>,
    registers: Vec<Block>,
    steps: Vec<Operation>,
    root: Operand,
}

struct Flattening<'a, 'o> {
    program: Program<'a>,
    order: &'o [usize],
    done: FxHashMap<*const Expr<'a>, Operand>,
    /// Users of each expression that are not flattened yet.
    users: FxHashMap<*const Expr<'a>, usize>,
    free: Vec<usize>,
    block: usize,
}

impl<'a> Program<'a> {
    /// Flattens an expression whose dimensions are visited in `order`.
    fn new(e: &Expr<'a>, order: &[usize]) -> Program<'a> {
        let program = Program { leaves: vec![], registers: vec![], steps: vec![], root: Operand::Leaf(0) };
        let mut f = Flattening {
            program,
            order,
            done: FxHashMap::default(),
            users: FxHashMap::default(),
            free: vec![],
            block: e.len().min(BLOCK),
        };
        f.count(e);
        f.program.root = f.flatten(e);
        f.program
    }

    /// If the last step is a product of singles, takes it off and returns its
    /// operands.
    fn take_product(&mut self) -> Option<(Operand, Operand)> {
        let last = self.steps.last()?;
        if last.op != Each::Binary(BinOp::Mul) || last.to != DType::F32 || self.root != Operand::Register(last.dst) {
            return None;
        }
        let operands = (last.src[0], last.src[1]);
        self.steps.pop();
        Some(operands)
    }

    fn operand(&self, o: Operand, len: usize) -> Values<'_> {
        match o {
            Operand::Register(r) => self.registers[r].values(len),
            Operand::Leaf(l) => {
                let leaf = &self.leaves[l];
                leaf.in_place.and_then(|at| leaf.data.borrow(at, len)).unwrap_or_else(|| leaf.copy.values(len))
            }
        }
    }

    /// Computes the elements `start .. start + len`.
    fn run(&mut self, start: usize, len: usize) -> Result<(), Fault> {
        for leaf in self.leaves.iter_mut().filter(|l| !l.splat) {
            leaf.in_place = leaf.walk.run(start, len).filter(|&at| leaf.data.borrow(at, len).is_some());
            if leaf.in_place.is_none() {
                leaf.data.read(&leaf.walk, start, len, &mut leaf.copy);
            }
        }
        for s in 0..self.steps.len() {
            let dst = self.steps[s].dst;
            let mut out = std::mem::replace(&mut self.registers[dst], Block::Int(vec![]));
            let result = self.step(&self.steps[s], len, &mut out);
            self.registers[dst] = out;
            result?;
        }
        Ok(())
    }

    fn step(&self, s: &Operation, len: usize, out: &mut Block) -> Result<(), Fault> {
        use Values::{Float, Index, Int};
        let src = |i: usize| self.operand(s.src[i], len);
        match (s.op, out) {
            (Each::Unary(op), Block::Float(out)) => {
                let Float(a) = src(0) else { return Err(Fault::Undefined) };
                lanes::unary_float(op, s.to, a, &mut out[..len])
            }
            (Each::Unary(op), Block::Int(out)) => {
                let Int(a) = src(0) else { return Err(Fault::Undefined) };
                lanes::unary_int(op, s.to, a, &mut out[..len])
            }
            (Each::Unary(op), Block::Index(out)) => {
                let Index(a) = src(0) else { return Err(Fault::Undefined) };
                lanes::unary_index(op, a, &mut out[..len])
            }
            (Each::Binary(op @ (BinOp::Lt | BinOp::Eq)), Block::Int(out)) => match (src(0), src(1)) {
                (Float(a), Float(b)) => lanes::compare(op, a, b, &mut out[..len]),
                (Int(a), Int(b)) => lanes::compare_int(op, s.from, a, b, &mut out[..len]),
                (Index(a), Index(b)) => lanes::compare(op, a, b, &mut out[..len]),
                _ => Err(Fault::Undefined),
            },
            (Each::Binary(op), out) => match (src(0), src(1), out) {
                (Float(a), Float(b), Block::Float(out)) => lanes::binary_float(op, s.to, a, b, &mut out[..len]),
                (Int(a), Int(b), Block::Int(out)) => lanes::binary_int(op, s.to, a, b, &mut out[..len]),
                (Index(a), Index(b), Block::Index(out)) => lanes::binary_index(op, a, b, &mut out[..len]),
                _ => Err(Fault::Undefined),
            },
            (Each::Where, out) => {
                let Int(c) = src(0) else { return Err(Fault::Undefined) };
                match (src(1), src(2), out) {
                    (Float(a), Float(b), Block::Float(out)) => lanes::select(c, a, b, &mut out[..len]),
                    (Int(a), Int(b), Block::Int(out)) => lanes::select(c, a, b, &mut out[..len]),
                    (Index(a), Index(b), Block::Index(out)) => lanes::select(c, a, b, &mut out[..len]),
                    _ => return Err(Fault::Undefined),
                }
                Ok(())
            }
            (Each::Cast, out) => {
                match (src(0), out) {
                    (Float(a), Block::Float(out)) => lanes::float_to_float(s.to, a, &mut out[..len]),
                    (Float(a), Block::Int(out)) => lanes::float_to_int(s.to, a, &mut out[..len]),
                    (Float(a), Block::Index(out)) => lanes::float_to_index(a, &mut out[..len]),
                    (Int(a), Block::Float(out)) => lanes::int_to_float(s.from, s.to, a, &mut out[..len]),
                    (Int(a), Block::Int(out)) => lanes::int_to_int(s.to, a, &mut out[..len]),
                    (Int(a), Block::Index(out)) => lanes::int_to_index(s.from, a, &mut out[..len]),
                    (Index(a), Block::Float(out)) => lanes::index_to_float(s.to, a, &mut out[..len]),
                    (Index(a), Block::Int(out)) => lanes::index_to_int(s.to, a, &mut out[..len]),
                    (Index(a), Block::Index(out)) => out[..len].copy_from_slice(a),
                }
                Ok(())
            }
        }
    }
}

impl<'a> Flattening<'a, '_> {
    fn count(&mut self, e: &Expr<'a>) {
        let Kind::Each(_, src) = &e.kind else { return };
        for s in src {
            let users = self.users.entry(Rc::as_ptr(s)).or_default();
            *users += 1;
            if *users == 1 {
                self.count(s);
            }
        }
    }

    fn flatten(&mut self, e: &Expr<'a>) -> Operand {
        if let Some(&done) = self.done.get(&std::ptr::from_ref(e)) {
            return done;
        }
        let class = Class::of(e.ty);
        let operand = match &e.kind {
            Kind::View(view) => self.leaf(view, class),
            Kind::Each(op, src) => {
                let operands: Vec<Operand> = src.iter().map(|s| self.flatten(s)).collect();
                let dst = self.register(class);
                let operand = |i: usize| operands[i.min(operands.len() - 1)];
                let from = src[usize::from(*op == Each::Where)].ty;
                let src_operands = [operand(0), operand(1), operand(2)];
                self.program.steps.push(Operation { op: *op, from, to: e.ty, src: src_operands, dst });
                for (s, &o) in src.iter().zip(&operands) {
                    self.release(s, o);
                }
                Operand::Register(dst)
            }
        };
        self.done.insert(std::ptr::from_ref(e), operand);
        operand
    }

    /// A register that no later step reads, of the right class.
    fn register(&mut self, class: Class) -> usize {
        let registers = &mut self.program.registers;
        let fits = |r: &usize| {
            matches!(
                (&registers[*r], class),
                (Block::Float(_), Class::Float) | (Block::Int(_), Class::Int) | (Block::Index(_), Class::Index)
            )
        };
        if let Some(at) = self.free.iter().position(fits) {
            return self.free.swap_remove(at);
        }
        registers.push(Block::zeros(class, self.block));
        registers.len() - 1
    }

    fn release(&mut self, e: &Rc<Expr<'a>>, o: Operand) {
        let Some(users) = self.users.get_mut(&Rc::as_ptr(e)) else { return };
        *users -= 1;
        if let (0, Operand::Register(r)) = (*users, o) {
            self.free.push(r);
        }
    }

    fn leaf(&mut self, view: &View<'a>, class: Class) -> Operand {
        let walk = Walk::new(&view.permute(self.order));
        let mut copy = Block::zeros(class, self.block);
        let splat = walk.is_splat();
        if splat {
            view.data.read(&walk, 0, self.block, &mut copy);
        }
        self.program.leaves.push(Leaf { data: view.data.clone(), walk, copy, splat, in_place: None });
        Operand::Leaf(self.program.leaves.len() - 1)
    }
}

/// The running values of a reduction, one for each column.
enum Carrier {
    Sum(Vec<f64>, DType),
    Max(Vec<f32>),
    Integer(ReduceOp, Vec<i64>, DType),
}

impl Carrier {
    fn new(op: ReduceOp, ty: DType) -> Carrier {
        match (Class::of(ty), op) {
            (Class::Float, ReduceOp::Sum) => Carrier::Sum(vec![], ty),
            (Class::Float, ReduceOp::Max) => Carrier::Max(vec![]),
            _ => Carrier::Integer(op, vec![], ty),
        }
    }

    fn reset(&mut self, columns: usize) {
        match self {
            Carrier::Sum(v, _) => {
                v.clear();
                v.resize(columns, 0.0);
            }
            Carrier::Max(v) => {
                v.clear();
                v.resize(columns, f32::NEG_INFINITY);
            }
            Carrier::Integer(op, v, ty) => {
                v.clear();
                v.resize(columns, lanes::int_identity(*op, *ty));
            }
        }
    }

    /// Takes in `n` elements of the present block from `at` on.
    fn fold_block(
        &mut self,
        program: &Program<'_>,
        product: Option<(Operand, Operand)>,
        len: usize,
        at: usize,
        n: usize,
        columns: usize,
    ) {
        if let Some((a, b)) = product {
            let (Values::Float(a), Values::Float(b)) = (program.operand(a, len), program.operand(b, len)) else {
                return;
            };
            if let Carrier::Sum(sums, _) = self {
                sums[0] += lanes::dot_float(&a[at..at + n], &b[at..at + n]);
            }
            return;
        }
        match program.operand(program.root, len) {
            Values::Float(v) => self.fold_floats(&v[at..at + n], columns),
            Values::Int(v) => {
                let Carrier::Integer(op, carried, ty) = self else { return };
                let ty = *ty;
                fold_integers(*op, carried, &v[at..at + n], |v| lanes::int_value(ty, v));
            }
            Values::Index(v) => {
                let Carrier::Integer(op, carried, _) = self else { return };
                fold_integers(*op, carried, &v[at..at + n], |v| v);
            }
        }
    }

    fn fold_floats(&mut self, v: &[f32], columns: usize) {
        match self {
            Carrier::Sum(sums, _) if columns == 1 => sums[0] += lanes::sum_float(v),
            Carrier::Sum(sums, _) => {
                for row in v.chunks_exact(columns) {
                    sums.iter_mut().zip(row).for_each(|(s, &v)| *s += f64::from(v));
                }
            }
            Carrier::Max(most) if columns == 1 => most[0] = lanes::max_f32(most[0], lanes::max_float(v)),
            Carrier::Max(most) => {
                for row in v.chunks_exact(columns) {
                    most.iter_mut().zip(row).for_each(|(m, &v)| *m = lanes::max_f32(*m, v));
                }
            }
            Carrier::Integer(..) => {}
        }
    }

    fn store(&self, out: &mut Array<'_>, at: usize) {
        match self {
            Carrier::Sum(v, ty) if v.len() == 1 => {
                let mut one = [v[0] as f32];
                lanes::round(*ty, &mut one);
                out.write(at, Values::Float(&one));
            }
            Carrier::Sum(v, ty) => {
                let mut v: Vec<f32> = v.iter().map(|&v| v as f32).collect();
                lanes::round(*ty, &mut v);
                out.write(at, Values::Float(&v));
            }
            Carrier::Max(v) => out.write(at, Values::Float(v)),
            Carrier::Integer(_, v, DType::Index) => out.write(at, Values::Index(v)),
            Carrier::Integer(_, v, ty) => {
                let v: Vec<i32> = v.iter().map(|&v| lanes::int_bits(*ty, v)).collect();
                out.write(at, Values::Int(&v));
            }
        }
    }
}

fn fold_integers<T: Copy>(op: ReduceOp, carried: &mut [i64], v: &[T], value: impl Fn(T) -> i64) {
    if let [one] = carried {
        let each = v.iter().map(|&v| value(v));
        *one = match op {
            ReduceOp::Sum => each.fold(*one, i64::wrapping_add),
            ReduceOp::Max => each.fold(*one, i64::max),
        };
        return;
    }
    for row in v.chunks_exact(carried.len().max(1)) {
        for (c, &v) in carried.iter_mut().zip(row) {
            *c = match op {
                ReduceOp::Sum => c.wrapping_add(value(v)),
                ReduceOp::Max => (*c).max(value(v)),
            };
        }
    }
}
