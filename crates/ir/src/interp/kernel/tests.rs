//! Kernels written by hand.

use super::{Buffers, Kernel, KernelError};
use crate::interp::{Bindings, Vars, evaluate};
use crate::{Axis, BinOp, Const, DType, Graph, Id, Op, ReduceOp, Space, Type, UnOp};
use half::f16;
use proptest::prelude::*;

/// Statements of a kernel; their type means nothing.
trait Statements {
    fn statement(&mut self, op: Op, src: Vec<Id>) -> Id;
    fn block(&mut self, src: Vec<Id>) -> Id {
        self.statement(Op::Block, src)
    }
    fn store(&mut self, buffer: Id, index: Id, value: Id) -> Id {
        self.statement(Op::Store, vec![buffer, index, value])
    }
    fn set(&mut self, acc: Id, value: Id) -> Id {
        self.statement(Op::Set, vec![acc, value])
    }
    fn input(&mut self, slot: u32, ty: DType) -> Id;
    fn output(&mut self, slot: u32, ty: DType) -> Id;
    fn looped(&mut self, number: u32, extent: i64) -> Id;
    fn task(&mut self, extent: i64) -> Id;
    fn acc(&mut self, number: u32, ty: DType, lanes: usize) -> Id;
}

impl Statements for Graph {
    fn statement(&mut self, op: Op, src: Vec<Id>) -> Id {
        self.make(op, DType::Bool, vec![], src)
    }
    fn input(&mut self, slot: u32, ty: DType) -> Id {
        self.buffer(slot, Space::Input, ty, 0)
    }
    fn output(&mut self, slot: u32, ty: DType) -> Id {
        self.buffer(slot, Space::Output, ty, 0)
    }
    fn looped(&mut self, number: u32, extent: i64) -> Id {
        let e = self.int(extent);
        self.range(number, Axis::Loop, e)
    }
    fn task(&mut self, extent: i64) -> Id {
        let e = self.int(extent);
        self.range(0, Axis::Task, e)
    }
    fn acc(&mut self, number: u32, ty: DType, lanes: usize) -> Id {
        self.make(Op::Acc(number), Type::vector(ty, lanes), vec![], vec![])
    }
}

fn bytes_of(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats_in(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn ints_in(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| i32::from_le_bytes(b)).collect()
}

/// Runs tasks `0..tasks` with one input and an output of `out` bytes.
fn run(g: &Graph, root: Id, input: &[u8], out: usize, tasks: i64) -> Result<Vec<u8>, KernelError> {
    let mut bytes = vec![0; out];
    let mut buffers = Buffers::new().read(0, input).write(1, &mut bytes);
    Kernel::compile(g, root)?.run(&mut buffers, &Vars::new(), 0..tasks)?;
    Ok(bytes)
}

/// `y[row] = sum over blocks of ws * xs * (dot(code, xq) - 8 * sum(xq))` on
/// blocks of an f16 scale and 32 nibbles.
pub(crate) fn nibble_product(rows: i64, blocks: i64) -> (Graph, Id) {
    let mut g = Graph::new();
    let row = g.task(rows);
    let b = g.looped(1, blocks);
    let (w, xq, xs, y) =
        (g.input(0, DType::U8), g.input(1, DType::I8), g.input(2, DType::F32), g.output(3, DType::F32));
    let (k18, per_row, k32) = (g.int(18), g.int(18 * blocks), g.int(32));
    let (in_row, in_block) = (g.mul(row, per_row), g.mul(b, k18));
    let at = g.add(in_row, in_block);
    let ws = g.make(Op::Load, DType::F16, vec![], vec![w, at]);
    let ws = g.cast(ws, DType::F32);
    let two = g.int(2);
    let at = g.add(at, two);
    let packed = g.load(w, at, 16);
    let splat = |g: &mut Graph, v: i64| {
        let c = g.constant(Const::Int(v), DType::U8);
        g.make(Op::Splat, Type::vector(DType::U8, 16), vec![], vec![c])
    };
    let (mask, four) = (splat(&mut g, 15), splat(&mut g, 4));
    let (low, high) = (g.binary(BinOp::And, packed, mask), g.binary(BinOp::Shr, packed, four));
    let codes = g.make(Op::Join, Type::vector(DType::U8, 32), vec![], vec![low, high]);
    let at = g.mul(b, k32);
    let x = g.load(xq, at, 32);
    let zero = g.constant(Const::Int(0), DType::I32);
    let zeros = g.make(Op::Splat, Type::vector(DType::I32, 8), vec![], vec![zero]);
    let eights = g.make(Op::Lanes(vec![Const::Int(8); 32]), Type::vector(DType::U8, 32), vec![], vec![]);
    let dot = g.make(Op::Dot4, Type::vector(DType::I32, 8), vec![], vec![zeros, codes, x]);
    let sum = g.make(Op::Dot4, Type::vector(DType::I32, 8), vec![], vec![zeros, eights, x]);
    let diff = g.sub(dot, sum);
    let total = g.make(Op::Across(ReduceOp::Sum), DType::I32, vec![], vec![diff]);
    let total = g.cast(total, DType::F32);
    let scale = g.load(xs, b, 1);
    let scale = g.mul(ws, scale);
    let term = g.mul(total, scale);
    let acc = g.acc(0, DType::F32, 1);
    let nothing = g.float(0.0);
    let clear = g.set(acc, nothing);
    let next = g.add(acc, term);
    let add = g.set(acc, next);
    let each = g.statement(Op::Loop, vec![b, add]);
    let out = g.store(y, row, acc);
    let root = g.block(vec![clear, each, out]);
    (g, root)
}

#[test]
fn a_product_of_packed_nibbles() {
    let (rows, blocks) = (5usize, 3usize);
    let (g, root) = nibble_product(rows as i64, blocks as i64);
    let w: Vec<u8> = (0..rows * blocks)
        .flat_map(|i| {
            let scale = f16::from_f32(0.25 + i as f32 / 8.0).to_le_bytes();
            (0..18).map(move |j| if j < 2 { scale[j] } else { (i * 31 + j * 53) as u8 })
        })
        .collect();
    let xq: Vec<i8> = (0..32 * blocks).map(|i| (i * 29 % 255) as i8).collect();
    let xq_bytes: Vec<u8> = xq.iter().map(|&v| v as u8).collect();
    let xs = [0.5f32, 2.0, 0.125];
    let xs_bytes = bytes_of(&xs);
    let mut y = vec![0; 4 * rows];
    let kernel = Kernel::compile(&g, root).unwrap();
    assert_eq!(kernel.tasks(&Vars::new()), Ok(5));
    let mut buffers = Buffers::new().read(0, &w).read(1, &xq_bytes).read(2, &xs_bytes).write(3, &mut y);
    kernel.run(&mut buffers, &Vars::new(), 0..5).unwrap();
    for (r, got) in floats_in(&y).into_iter().enumerate() {
        let mut want = 0.0f32;
        for (b, xs) in xs.iter().enumerate() {
            let block = &w[(r * blocks + b) * 18..][..18];
            let code = |i: usize| i32::from(if i < 16 { block[2 + i] & 15 } else { block[2 + i - 16] >> 4 });
            let dot: i32 = (0..32).map(|i| (code(i) - 8) * i32::from(xq[32 * b + i])).sum();
            want += dot as f32 * (f16::from_le_bytes([block[0], block[1]]).to_f32() * xs);
        }
        assert_eq!(got, want);
    }
}

#[test]
fn a_loop_bounded_by_data_and_values_of_outer_loops() {
    // out[i] = sum over j < n[i], k < 3 of i * 100 + j * 10 + k
    let mut g = Graph::new();
    let i = g.task(4);
    let (n, out) = (g.input(0, DType::I32), g.output(1, DType::I32));
    let count = g.load(n, i, 1);
    let count = g.cast(count, DType::Index);
    let j = g.range(1, Axis::Loop, count);
    let k = g.looped(2, 3);
    let (hundred, ten) = (g.int(100), g.int(10));
    let (a, b) = (g.mul(i, hundred), g.mul(j, ten));
    let value = g.add(a, b);
    let value = g.add(value, k);
    let value = g.cast(value, DType::I32);
    let acc = g.acc(0, DType::I32, 1);
    let zero = g.constant(Const::Int(0), DType::I32);
    let clear = g.set(acc, zero);
    let next = g.add(acc, value);
    let step = g.set(acc, next);
    let inner = g.statement(Op::Loop, vec![k, step]);
    let outer = g.statement(Op::Loop, vec![j, inner]);
    let store = g.store(out, i, acc);
    let root = g.block(vec![clear, outer, store]);
    let counts: Vec<u8> = [2i32, 0, -3, 5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let got = run(&g, root, &counts, 16, 4).unwrap();
    let want = |i: i32, n: i32| (0..n).map(|j| 3 * (i * 100 + j * 10) + 3).sum::<i32>();
    assert_eq!(ints_in(&got), [want(0, 2), 0, 0, want(3, 5)]);
}

#[test]
fn each_statement_reads_memory_anew() {
    // scratch[0] = in[0]; scratch[1] = scratch[0] + 1; scratch[0] = scratch[1]; out[0] = scratch[0]
    let mut g = Graph::new();
    let (input, out) = (g.input(0, DType::F32), g.output(1, DType::F32));
    let scratch = g.buffer(0, Space::Task, DType::F32, 2);
    let (zero, one) = (g.int(0), g.int(1));
    let x = g.load(input, zero, 1);
    let s0 = g.load(scratch, zero, 1);
    let unit = g.float(1.0);
    let more = g.add(s0, unit);
    let s1 = g.load(scratch, one, 1);
    let statements = vec![
        g.store(scratch, zero, x),
        g.store(scratch, one, more),
        g.store(scratch, zero, s1),
        g.store(out, zero, s0),
        g.store(out, one, more),
    ];
    let root = g.block(statements);
    let got = run(&g, root, &bytes_of(&[5.0]), 8, 1).unwrap();
    assert_eq!(floats_in(&got), [6.0, 7.0]);
}

#[test]
fn all_values_of_a_set_come_before_its_writes() {
    let mut g = Graph::new();
    let out = g.output(1, DType::F32);
    let (a, b) = (g.acc(0, DType::F32, 2), g.acc(1, DType::F32, 2));
    let lanes = |g: &mut Graph, v: [f32; 2]| {
        g.make(Op::Lanes(v.map(Const::f32).to_vec()), Type::vector(DType::F32, 2), vec![], vec![])
    };
    let (x, y) = (lanes(&mut g, [1.0, 2.0]), lanes(&mut g, [3.0, 4.0]));
    let first = g.statement(Op::Set, vec![a, x, b, y]);
    let swap = g.statement(Op::Set, vec![a, b, b, a]);
    let c = g.acc(2, DType::F32, 1);
    let lane = g.make(Op::Extract(1), DType::F32, vec![], vec![a]);
    let take = g.statement(Op::Set, vec![c, lane]);
    let (zero, two, four) = (g.int(0), g.int(2), g.int(4));
    let statements = vec![first, swap, take, g.store(out, zero, a), g.store(out, two, b), g.store(out, four, c)];
    let root = g.block(statements);
    let got = run(&g, root, &[], 20, 1).unwrap();
    assert_eq!(floats_in(&got), [3.0, 4.0, 1.0, 2.0, 4.0]);
}

#[test]
fn branches_conditions_and_masks() {
    // if task < 2 { out[task * 4 ..] = lanes of in where in > 0 }
    let mut g = Graph::new();
    let i = g.task(4);
    let (input, out) = (g.input(0, DType::F32), g.output(1, DType::F32));
    let (two, four) = (g.int(2), g.int(4));
    let c = g.binary(BinOp::Lt, i, two);
    let at = g.mul(i, four);
    let x = g.load(input, at, 4);
    let zeros = g.make(Op::Lanes(vec![Const::f32(0.0); 4]), Type::vector(DType::F32, 4), vec![], vec![]);
    let positive = g.binary(BinOp::Lt, zeros, x);
    let store = g.statement(Op::Store, vec![out, at, x, positive]);
    let branch = g.statement(Op::If, vec![c, store]);
    // And the fourth task alone may write the end: out[8] = 9, out of bounds for the others.
    let three = g.int(3);
    let last = g.binary(BinOp::Eq, i, three);
    let nine = g.float(9.0);
    let far = g.int(1_000_000);
    let eight = g.int(8);
    let at = g.make(Op::Where, DType::Index, vec![], vec![last, eight, far]);
    let end = g.statement(Op::Store, vec![out, at, nine, last]);
    let root = g.block(vec![branch, end]);
    let v = [1.0, -1.0, 2.0, -2.0, -3.0, 3.0, -4.0, 4.0];
    let got = run(&g, root, &bytes_of(&v), 36, 4).unwrap();
    assert_eq!(floats_in(&got), [1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 0.0, 4.0, 9.0]);
}

#[test]
fn lanes_are_moved() {
    let mut g = Graph::new();
    let (input, out) = (g.input(0, DType::U8), g.output(1, DType::I8));
    let zero = g.int(0);
    let x = g.load(input, zero, 4);
    let table: Vec<Const> = (0..16).map(|i| Const::Int(i * i - 100)).collect();
    let table = g.make(Op::Lanes(table), Type::vector(DType::I8, 16), vec![], vec![]);
    let found = g.make(Op::Lookup, Type::vector(DType::I8, 4), vec![], vec![table, x]);
    let turned = g.make(Op::Shuffle(vec![3, 3, 0]), Type::vector(DType::I8, 3), vec![], vec![found]);
    let one = g.make(Op::Extract(2), DType::I8, vec![], vec![found]);
    let most = g.make(Op::Across(ReduceOp::Max), DType::I8, vec![], vec![found]);
    let sum = g.make(Op::Across(ReduceOp::Sum), DType::I8, vec![], vec![found]);
    let all = g.make(Op::Join, Type::vector(DType::I8, 10), vec![], vec![found, turned, one, most, sum]);
    let store = g.store(out, zero, all);
    let root = g.block(vec![store]);
    let got = run(&g, root, &[1, 15, 0, 9], 10, 1).unwrap();
    let got: Vec<i8> = got.iter().map(|&b| b as i8).collect();
    assert_eq!(got, [-99, 125, -100, -19, -19, -19, -99, -100, 125, -93]);
    assert!(matches!(run(&g, root, &[1, 16, 0, 9], 10, 1), Err(KernelError::Fault { task: 0, .. })));
}

#[test]
fn sums_across_lanes_fold_the_upper_half() {
    let mut g = Graph::new();
    let (input, out) = (g.input(0, DType::F32), g.output(1, DType::F32));
    let zero = g.int(0);
    let x = g.load(input, zero, 5);
    let sum = g.make(Op::Across(ReduceOp::Sum), DType::F32, vec![], vec![x]);
    let store = g.store(out, zero, sum);
    let root = g.block(vec![store]);
    let v = [1.0f32, 1e8, 3.0, -1e8, 0.5];
    let want = ((v[0] + v[3]) + v[2]) + (v[1] + v[4]);
    assert_eq!(floats_in(&run(&g, root, &bytes_of(&v), 4, 1).unwrap()), [want]);
}

#[test]
fn mistakes_at_run_time_are_named() {
    let mut g = Graph::new();
    let i = g.task(2);
    let (input, out) = (g.input(0, DType::F32), g.output(1, DType::F32));
    let hundred = g.int(100);
    let far = g.mul(i, hundred);
    let x = g.load(input, far, 1);
    let store = g.store(out, i, x);
    let root = g.block(vec![store]);
    let e = run(&g, root, &[0; 16], 8, 2).unwrap_err();
    assert!(matches!(&e, KernelError::OutOfBounds { task: 1, index: 100, len: 4, .. }), "{e}");
    assert!(e.to_string().contains("of in0: f32, which has 4 elements"), "{e}");
    let e = run(&g, root, &[0; 1000], 4, 2).unwrap_err();
    assert!(matches!(&e, KernelError::OutOfBounds { task: 1, index: 1, len: 1, .. }), "{e}");
    let kernel = Kernel::compile(&g, root).unwrap();
    let e = kernel.run(&mut Buffers::new().read(0, &[0; 4]), &Vars::new(), 0..1);
    assert_eq!(e, Err(KernelError::Unbound(1)));
    let e = kernel.run(&mut Buffers::new().read(0, &[0; 4]).read(1, &[0; 4]), &Vars::new(), 0..1);
    assert_eq!(e, Err(KernelError::ReadOnly(1)));

    // An accumulator that only some tasks set.
    let acc = g.acc(0, DType::F32, 1);
    let zero = g.int(0);
    let first = g.binary(BinOp::Eq, i, zero);
    let one = g.float(1.0);
    let set = g.set(acc, one);
    let branch = g.statement(Op::If, vec![first, set]);
    let store = g.store(out, i, acc);
    let root = g.block(vec![branch, store]);
    let e = run(&g, root, &[], 8, 2).unwrap_err();
    assert!(matches!(&e, KernelError::Unset { task: 1, .. }), "{e}");

    // A division by a loop counter.
    let n = g.cast(i, DType::I32);
    let d = g.binary(BinOp::Div, n, n);
    let d = g.cast(d, DType::F32);
    let store = g.store(out, i, d);
    let root = g.block(vec![store]);
    let e = run(&g, root, &[], 8, 2).unwrap_err();
    assert!(e.to_string().contains("division by zero"), "{e}");
}

#[test]
fn what_nobody_wrote_is_poison() {
    let mut g = Graph::new();
    let i = g.task(2);
    let (input, out) = (g.input(0, DType::F32), g.output(1, DType::F32));
    let scratch = g.buffer(0, Space::Task, DType::F32, 4);
    let zero = g.int(0);
    let x = g.load(scratch, zero, 1);
    let three = g.int(3);
    let at = g.mul(i, three);
    let read = g.store(out, at, x);
    let seven = g.float(7.0);
    let write = g.store(scratch, zero, seven);
    // Two lanes of which one is behind the end of the input.
    let one = g.int(1);
    let y = g.load(input, zero, 2);
    let next = g.add(at, one);
    let tail = g.store(out, next, y);
    let root = g.block(vec![read, write, tail]);
    let got = floats_in(&run(&g, root, &bytes_of(&[5.0]), 24, 2).unwrap());
    assert!(got[0].is_nan() && got[3].is_nan(), "scratch does not outlive a task: {got:?}");
    assert!(got[1] == 5.0 && got[2].is_nan(), "{got:?}");
    // But not further than the slack.
    let far = g.int(17);
    let y = g.load(input, far, 1);
    let tail = g.store(out, zero, y);
    let root = g.block(vec![tail]);
    assert!(matches!(run(&g, root, &bytes_of(&[5.0]), 4, 1), Err(KernelError::OutOfBounds { .. })));
}

#[test]
fn variables_and_raw_bytes() {
    // out[i] as bytes: an f32 and an f16 packed into 6 bytes.
    let mut g = Graph::new();
    let t = g.var("t", 1, 8);
    let i = g.range(0, Axis::Task, t);
    let out = g.output(0, DType::U8);
    let six = g.int(6);
    let four = g.int(4);
    let at = g.mul(i, six);
    let n = g.cast(i, DType::F32);
    let half = g.float(0.5);
    let v = g.mul(n, half);
    let whole = g.store(out, at, v);
    let narrow = g.cast(v, DType::F16);
    let at = g.add(at, four);
    let rest = g.store(out, at, narrow);
    let root = g.block(vec![whole, rest]);
    let kernel = Kernel::compile(&g, root).unwrap();
    let vars = Vars::new().with("t", 3);
    let n = kernel.tasks(&vars).unwrap();
    let mut bytes = vec![0; 18];
    kernel.run(&mut Buffers::new().write(0, &mut bytes), &vars, 0..n).unwrap();
    assert_eq!(bytes[12..16], 1.0f32.to_le_bytes());
    assert_eq!(bytes[10..12], f16::from_f32(0.5).to_le_bytes());
    assert!(kernel.tasks(&Vars::new()).is_err());
}

/// An operation of a random expression on two earlier values.
#[derive(Clone, Debug)]
enum Pick {
    Binary(BinOp, usize, usize),
    Unary(UnOp, usize),
    Select(usize, usize, usize),
    Cast(DType, usize),
}

fn pick() -> impl Strategy<Value = Pick> {
    use BinOp::*;
    let binary = prop::sample::select(vec![Add, Sub, Mul, Min, Max, Lt, Eq, And, Or, Xor, Shl, Shr]);
    let unary = prop::sample::select(vec![UnOp::Neg, UnOp::Abs, UnOp::Round, UnOp::Not]);
    use DType as D;
    let types = prop::sample::select(vec![
        D::U8,
        D::I8,
        D::U16,
        D::I16,
        D::U32,
        D::I32,
        D::Index,
        D::F16,
        D::BF16,
        D::F32,
        D::Bool,
    ]);
    let n = 0usize..64;
    prop_oneof![
        3 => (binary, n.clone(), n.clone()).prop_map(|(op, a, b)| Pick::Binary(op, a, b)),
        1 => (unary, n.clone()).prop_map(|(op, a)| Pick::Unary(op, a)),
        1 => (n.clone(), n.clone(), n.clone()).prop_map(|(c, a, b)| Pick::Select(c, a, b)),
        3 => (types, n).prop_map(|(ty, a)| Pick::Cast(ty, a)),
    ]
}

/// Grows a graph by random operations on its values; those that do not exist
/// are left out.
fn grow(g: &mut Graph, values: &mut Vec<Id>, picks: &[Pick]) {
    for p in picks {
        let at = |i: usize| values[i % values.len()];
        let new = match *p {
            Pick::Binary(op, a, b) => {
                let a = at(a);
                let b = g.cast(at(b), g.dtype(a));
                let ty = g.dtype(a);
                let exists = match op {
                    BinOp::And | BinOp::Or | BinOp::Xor => !ty.is_float(),
                    BinOp::Shl | BinOp::Shr => ty.is_int(),
                    BinOp::Add | BinOp::Sub | BinOp::Mul => ty != DType::Bool,
                    _ => true,
                };
                if !exists {
                    continue;
                }
                g.binary(op, a, b)
            }
            Pick::Unary(op, a) => {
                let a = at(a);
                let exists = match op {
                    UnOp::Not => g.dtype(a) == DType::Bool,
                    UnOp::Round => g.dtype(a).is_float(),
                    _ => g.dtype(a) != DType::Bool,
                };
                if !exists {
                    continue;
                }
                g.unary(op, a)
            }
            Pick::Select(c, a, b) => {
                let c = g.cast(at(c), DType::Bool);
                let a = at(a);
                let b = g.cast(at(b), g.dtype(a));
                g.select(c, a, b)
            }
            Pick::Cast(ty, a) => g.cast(at(a), ty),
        };
        values.push(new);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The same expression as a tensor, on scalars, and on vectors.
    #[test]
    fn expressions_mean_the_same_everywhere(
        picks in prop::collection::vec(pick(), 1..30),
        a in prop::collection::vec(any::<f32>(), 8),
        b in prop::collection::vec(any::<i32>(), 8),
    ) {
        let (a, b) = (bytes_of(&a), b.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
        let mut g = Graph::new();
        let n = g.int(8);
        let mut values = vec![g.param("a", DType::F32, vec![n]), g.param("b", DType::I32, vec![n])];
        grow(&mut g, &mut values, &picks);
        let last = *values.last().unwrap();
        let bindings = Bindings::new().tensor("a", &a).tensor("b", &b);
        let want = evaluate(&g, &[last], &bindings).unwrap().remove(0).bytes;

        for lanes in [1i64, 2, 8] {
            let mut g = Graph::new();
            let i = g.task(8 / lanes);
            let k = g.int(lanes);
            let at = g.mul(i, k);
            let (x, y) = (g.input(0, DType::F32), g.input(1, DType::I32));
            let mut values = vec![g.load(x, at, lanes as usize), g.load(y, at, lanes as usize)];
            grow(&mut g, &mut values, &picks);
            let last = *values.last().unwrap();
            let ty = g.dtype(last);
            let out = g.output(2, ty);
            let store = g.store(out, at, last);
            let root = g.block(vec![store]);
            let mut got = vec![0; 8 * ty.bytes()];
            let mut buffers = Buffers::new().read(0, &a).read(1, &b).write(2, &mut got);
            Kernel::compile(&g, root).unwrap().run(&mut buffers, &Vars::new(), 0..8 / lanes).unwrap();
            prop_assert_eq!(&got, &want);
        }
    }
}
