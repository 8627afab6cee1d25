//! Kernels of blocks of threads, written by hand.

use super::{Buffers, Kernel, KernelError};
use crate::interp::Vars;
use crate::{Axis, BinOp, Const, DType, Graph, Id, Op, Space, Type};

/// A block of some warps: the number of a thread in it, and the pieces that kernels are made of.
struct Block {
    g: Graph,
    warp: Id,
    lane: Id,
    thread: Id,
    body: Vec<Id>,
}

impl Block {
    fn new(warps: i64) -> Block {
        Block::with_lanes(warps, 32)
    }

    fn with_lanes(warps: i64, lanes: i64) -> Block {
        let mut g = Graph::new();
        let (w, n) = (g.int(warps), g.int(lanes));
        let (warp, lane) = (g.range(1, Axis::Warp, w), g.range(2, Axis::Lane, n));
        let at = g.mul(warp, n);
        let thread = g.add(at, lane);
        Block { g, warp, lane, thread, body: vec![] }
    }

    fn shared(&mut self, len: usize) -> Id {
        self.g.buffer(0, Space::Shared, DType::F32, len)
    }

    fn statement(&mut self, op: Op, src: Vec<Id>) -> Id {
        self.g.make(op, DType::Bool, vec![], src)
    }

    fn store(&mut self, buffer: Id, index: Id, value: Id) {
        let s = self.statement(Op::Store, vec![buffer, index, value]);
        self.body.push(s);
    }

    fn barrier(&mut self) {
        let s = self.statement(Op::Barrier { memory: true }, vec![]);
        self.body.push(s);
    }

    fn float(&mut self, index: Id) -> Id {
        self.g.cast(index, DType::F32)
    }

    fn kernel(&mut self) -> Result<Kernel, KernelError> {
        let body = std::mem::take(&mut self.body);
        let root = self.statement(Op::Block, body);
        Kernel::compile(&self.g, root)
    }

    /// Runs one block with an output of `n` floats.
    fn run(&mut self, n: usize) -> Result<Vec<f32>, KernelError> {
        let mut out = vec![0; 4 * n];
        self.kernel()?.run(&mut Buffers::new().write(1, &mut out), &Vars::new(), 0..1)?;
        Ok(out.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect())
    }

    /// The rule that the kernel breaks.
    fn broken(&mut self) -> String {
        match self.kernel() {
            Err(KernelError::Spec(e)) => e.rule,
            other => panic!("{:?}", other.map(|_| ())),
        }
    }

    fn output(&mut self) -> Id {
        self.g.buffer(1, Space::Output, DType::F32, 0)
    }
}

#[test]
fn a_sum_over_lanes_and_warps() {
    [2, 8, 32, 64].into_iter().for_each(sum_over_lanes);
}

fn sum_over_lanes(lanes: i64) {
    let mut b = Block::with_lanes(4, lanes);
    let mut sum = b.float(b.thread);
    for mask in (0..lanes.ilog2()).rev().map(|bit| 1 << bit) {
        let other = b.g.make(Op::LaneXor(mask), DType::F32, vec![], vec![sum]);
        sum = b.g.add(sum, other);
    }
    let (shared, out, zero) = (b.shared(4), b.output(), b.g.int(0));
    let first = b.g.binary(BinOp::Eq, b.lane, zero);
    let (to, warp) = (b.thread, b.warp);
    let s = b.statement(Op::Store, vec![shared, warp, sum, first]);
    b.body.push(s);
    b.barrier();
    let parts: Vec<Id> = (0..4)
        .map(|w| {
            let at = b.g.int(w);
            b.g.load(shared, at, 1)
        })
        .collect();
    let total = parts.into_iter().reduce(|x, y| b.g.add(x, y)).unwrap();
    b.store(out, to, total);
    let n = 4 * lanes;
    assert_eq!(b.run(n as usize), Ok(vec![(n * (n - 1) / 2) as f32; n as usize]));
}

#[test]
fn branches_and_loops_are_for_some_threads() {
    // out[i] = 1 + 1 + ..., i times, for even i.
    let mut b = Block::new(1);
    let (thread, out, two, zero) = (b.thread, b.output(), b.g.int(2), b.g.int(0));
    let acc = b.g.make(Op::Acc(0), DType::F32, vec![], vec![]);
    let (none, one) = (b.g.float(0.0), b.g.float(1.0));
    let start = b.statement(Op::Set, vec![acc, none]);
    let i = b.g.range(3, Axis::Loop, thread);
    let next = b.g.add(acc, one);
    let step = b.statement(Op::Set, vec![acc, next]);
    let each = b.statement(Op::Loop, vec![i, step]);
    let store = b.statement(Op::Store, vec![out, thread, acc]);
    let rest = b.g.binary(BinOp::Mod, thread, two);
    let even = b.g.binary(BinOp::Eq, rest, zero);
    let branch = b.statement(Op::If, vec![even, start, each, store]);
    b.body.push(branch);
    let want: Vec<f32> = (0..32).map(|i| if i % 2 == 0 { i as f32 } else { 0.0 }).collect();
    assert_eq!(b.run(32), Ok(want));
}

#[test]
fn races_are_found() {
    // All threads write one element.
    let mut b = Block::new(1);
    let (shared, zero) = (b.shared(1), b.g.int(0));
    let value = b.float(b.thread);
    b.store(shared, zero, value);
    assert!(matches!(b.run(1), Err(KernelError::Race { thread: 1, index: 0, .. })));
    // Each reads what its neighbour wrote, in one statement.
    let mut b = Block::new(1);
    let shared = b.shared(33);
    let (thread, one) = (b.thread, b.g.int(1));
    let next = b.g.add(thread, one);
    let value = b.g.load(shared, next, 1);
    b.store(shared, thread, value);
    assert!(matches!(b.run(1), Err(KernelError::Race { .. }) | Err(KernelError::Spec(_))));
}

#[test]
fn wide_loads_are_aligned() {
    for (step, fits) in [(4, true), (1, false)] {
        let mut b = Block::new(1);
        let (shared, out, step, zero) = (b.shared(160), b.output(), b.g.int(step), b.float(b.lane));
        let thread = b.thread;
        for i in 0..5 {
            let by = b.g.int(32 * i);
            let at = b.g.add(thread, by);
            b.store(shared, at, zero);
        }
        b.barrier();
        let at = b.g.mul(thread, step);
        let four = b.g.load(shared, at, 4);
        let sum = b.g.make(Op::Across(crate::ReduceOp::Sum), DType::F32, vec![], vec![four]);
        b.store(out, thread, sum);
        let got = b.run(32);
        assert_eq!(matches!(got, Err(KernelError::Misaligned { bytes: 16, .. })), !fits, "{got:?}");
    }
}

#[test]
fn loads_are_no_wider_than_those_of_the_machine() {
    for (most, fits) in [(None, true), (Some(16), true), (Some(8), false)] {
        let mut b = Block::with_lanes(1, 8);
        let (input, out, thread, four) = (b.g.buffer(0, Space::Input, DType::F32, 0), b.output(), b.thread, b.g.int(4));
        let at = b.g.mul(thread, four);
        let loaded = b.g.load(input, at, 4);
        let sum = b.g.make(Op::Across(crate::ReduceOp::Sum), DType::F32, vec![], vec![loaded]);
        b.store(out, thread, sum);
        let kernel = b.kernel().unwrap().with_widest(most);
        let (floats, mut sums) = (bytes_of_floats(32), vec![0; 32]);
        let got = kernel.run(&mut Buffers::new().read(0, &floats).write(1, &mut sums), &Vars::new(), 0..1);
        assert_eq!(matches!(got, Err(KernelError::Misaligned { bytes: 16, .. })), !fits, "{got:?}");
    }
}

#[test]
fn scratch_changes_hands_at_barriers_only() {
    // Without one, with one of shared memory, and with one of all memory.
    let cases = [Space::Shared, Space::Task].into_iter().flat_map(|s| [None, Some(false), Some(true)].map(|b| (s, b)));
    for (space, barrier) in cases {
        let mut b = Block::new(2);
        let (out, thread) = (b.output(), b.thread);
        let shared = b.g.buffer(0, space, DType::F32, 64);
        let value = b.float(thread);
        b.store(shared, thread, value);
        if let Some(memory) = barrier {
            let barrier = b.statement(Op::Barrier { memory }, vec![]);
            b.body.push(barrier);
        }
        let last = b.g.int(63);
        let at = b.g.sub(last, thread);
        let other = b.g.load(shared, at, 1);
        b.store(out, thread, other);
        match barrier.is_some_and(|memory| memory || space == Space::Shared) {
            true => assert_eq!(b.run(64).unwrap()[0], 63.0),
            false if barrier.is_some() => assert!(b.broken().contains("does not order it")),
            false => assert!(b.broken().contains("written since the last barrier")),
        }
    }
    // Its own element, a thread may read at once.
    let mut b = Block::new(2);
    let (shared, out, thread) = (b.shared(64), b.output(), b.thread);
    let value = b.float(thread);
    b.store(shared, thread, value);
    let own = b.g.load(shared, thread, 1);
    b.store(out, thread, own);
    assert_eq!(b.run(64).unwrap()[5], 5.0);
    // A round of a loop follows the one before.
    let mut b = Block::new(2);
    let (shared, out, thread, four) = (b.shared(64), b.output(), b.thread, b.g.int(4));
    let r = b.g.range(3, Axis::Loop, four);
    let value = b.float(thread);
    let write = b.statement(Op::Store, vec![shared, thread, value]);
    let barrier = b.statement(Op::Barrier { memory: true }, vec![]);
    let zero = b.g.int(0);
    let first = b.g.load(shared, zero, 1);
    let read = b.statement(Op::Store, vec![out, thread, first]);
    let rounds = b.statement(Op::Loop, vec![r, write, barrier, read]);
    b.body.push(rounds);
    assert!(b.broken().contains("read since the last barrier"));
}

#[test]
fn all_threads_come_to_a_barrier_and_all_lanes_to_a_shuffle() {
    let mut b = Block::new(2);
    let (one, lane, warp, out) = (b.g.int(1), b.lane, b.warp, b.output());
    let barrier = b.statement(Op::Barrier { memory: true }, vec![]);
    let first = b.g.binary(BinOp::Lt, warp, one);
    let branch = b.statement(Op::If, vec![first, barrier]);
    b.body.push(branch);
    assert!(b.broken().contains("not all threads of the block"));
    for (whole, condition) in [(true, warp), (false, lane)] {
        let value = b.float(lane);
        let other = b.g.make(Op::LaneXor(1), DType::F32, vec![], vec![value]);
        let some = b.g.binary(BinOp::Lt, condition, one);
        let store = b.statement(Op::Store, vec![out, lane, other]);
        let branch = b.statement(Op::If, vec![some, store]);
        b.body.push(branch);
        match whole {
            true => assert_eq!(b.run(32).unwrap()[..3], [1.0, 0.0, 3.0]),
            false => assert!(b.broken().contains("not all lanes of the warp")),
        }
    }
}

/// An accumulator is as different in the lanes of a warp as what it is set to, and who comes there.
#[test]
fn lanes_come_to_a_shuffle_if_an_accumulator_says_so() {
    let set = |b: &mut Block, acc: Id, value: Id| b.statement(Op::Set, vec![acc, value]);
    for (of_lanes, of_some, fine) in [(false, false, true), (true, false, false), (false, true, false)] {
        let mut b = Block::new(2);
        let (one, lane, warp, out) = (b.g.int(1), b.lane, b.warp, b.output());
        let acc = b.g.make(Op::Acc(0), DType::Index, vec![], vec![]);
        let first = set(&mut b, acc, if of_lanes { lane } else { warp });
        b.body.push(first);
        if of_some {
            let some = b.g.binary(BinOp::Lt, lane, one);
            let again = set(&mut b, acc, one);
            let branch = b.statement(Op::If, vec![some, again]);
            b.body.push(branch);
        }
        let value = b.float(lane);
        let other = b.g.make(Op::LaneXor(1), DType::F32, vec![], vec![value]);
        let store = b.statement(Op::Store, vec![out, lane, other]);
        let there = b.g.binary(BinOp::Lt, acc, one);
        let branch = b.statement(Op::If, vec![there, store]);
        b.body.push(branch);
        match fine {
            true => assert_eq!(b.run(32).unwrap()[..3], [1.0, 0.0, 3.0]),
            false => assert!(b.broken().contains("not all lanes of the warp")),
        }
    }
}

#[test]
fn what_other_launches_write_is_touched_after_the_wait() {
    // out[i] = weight[i] + in[i]
    let kernel = |space: Space, wait: bool, late: bool| {
        let mut b = Block::new(1);
        let (thread, out) = (b.thread, b.output());
        let (first, second) = (b.g.buffer(2, space, DType::F32, 0), b.g.buffer(3, Space::Input, DType::F32, 0));
        let acc = b.g.make(Op::Acc(0), DType::F32, vec![], vec![]);
        let early = b.g.load(first, thread, 1);
        let early = b.statement(Op::Set, vec![acc, early]);
        let trigger = b.statement(Op::Trigger, vec![]);
        b.body.extend([trigger, early]);
        let other = b.g.load(second, thread, 1);
        let sum = b.g.add(acc, other);
        let waits = b.statement(Op::Wait, vec![]);
        b.body.extend((wait && !late).then_some(waits));
        b.store(out, thread, sum);
        b.body.extend((wait && late).then_some(waits));
        b
    };
    let run = |mut b: Block| {
        let (mut out, numbers) = (vec![0; 128], bytes_of_floats(32));
        let kernel = b.kernel()?;
        let mut buffers = Buffers::new().write(1, &mut out).read(2, &numbers).read(3, &numbers);
        kernel.run(&mut buffers, &Vars::new(), 0..1)?;
        Ok::<_, KernelError>(f32::from_le_bytes(out[20..24].try_into().unwrap()))
    };
    assert_eq!(run(kernel(Space::Weight, true, false)), Ok(10.0));
    assert_eq!(run(kernel(Space::Input, false, false)), Ok(10.0), "a kernel that does not wait comes after all others");
    assert!(kernel(Space::Input, true, false).broken().contains("before the launches before this one"));
    assert!(kernel(Space::Weight, true, true).broken().contains("before the launches before this one"));
}

#[test]
fn a_kernel_waits_once_and_with_all_threads() {
    let mut b = Block::new(2);
    let (one, warp, out, zero) = (b.g.int(1), b.warp, b.output(), b.g.float(0.0));
    let wait = b.statement(Op::Wait, vec![]);
    let first = b.g.binary(BinOp::Lt, warp, one);
    let branch = b.statement(Op::If, vec![first, wait]);
    b.body.push(branch);
    let thread = b.thread;
    b.store(out, thread, zero);
    assert!(b.broken().contains("outside of loops and branches"));
    b.body.extend([wait, wait]);
    b.store(out, thread, zero);
    assert!(b.broken().contains("there once"));
}

fn bytes_of_floats(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect()
}

/// A warp that multiplies 16 rows of halves by 8 columns of as many: the first 16 rows of shared memory, 8 halves apart
/// for each half of the sum, are what a lane reads of the rows; columns follow. What comes out are the elements of each lane,
/// or, stored as a whole, column by column.
fn product(transposed: bool, whole: bool) -> Block {
    let mut b = Block::new(1);
    let (lane, out) = (b.lane, b.output());
    let shared = b.g.buffer(0, Space::Shared, DType::F16, 16 * 16 + 8 * 16);
    // Element i of the rows is i % 7, and of the columns i % 5: sums of halves are exact.
    let set = |b: &mut Block, first: i64, count: i64, modulus: i64| {
        for round in 0..count / 32 {
            let (at, modulus) = (b.g.int(32 * round), b.g.int(modulus));
            let i = b.g.add(lane, at);
            let value = b.g.binary(BinOp::Mod, i, modulus);
            let value = b.g.cast(value, DType::F16);
            let first = b.g.int(first);
            let to = b.g.add(first, i);
            b.store(shared, to, value);
        }
    };
    set(&mut b, 0, 256, 7);
    set(&mut b, 256, 128, 5);
    b.barrier();
    let by = |b: &mut Block, op: BinOp, x: Id, n: i64| {
        let n = b.g.int(n);
        b.g.binary(op, x, n)
    };
    let (upper, low16, low8) =
        (by(&mut b, BinOp::Div, lane, 16), by(&mut b, BinOp::Mod, lane, 16), by(&mut b, BinOp::Mod, lane, 8));
    let middle = by(&mut b, BinOp::Div, lane, 8);
    let middle = by(&mut b, BinOp::Mod, middle, 2);
    // Rows of the matrix lie in rows of 16; or, transposed, the sum's elements do.
    let (row, at) = match transposed {
        false => (low16, upper),
        true => {
            let up = by(&mut b, BinOp::Mul, upper, 8);
            (b.g.add(low8, up), middle)
        }
    };
    let mut fragment = |row: Id, at: Id, first: i64, halves: usize, transposed: bool| {
        let (row, at) = (by(&mut b, BinOp::Mul, row, 16), by(&mut b, BinOp::Mul, at, 8));
        let (index, first) = (b.g.add(row, at), b.g.int(first));
        let index = b.g.add(index, first);
        let load = b.g.load(shared, index, 8);
        b.g.make(Op::Fragment { transposed }, Type::vector(DType::F16, halves), vec![], vec![load])
    };
    let rows = fragment(row, at, 0, 8, transposed);
    let columns = fragment(low8, middle, 256, 4, false);
    let sums = Type::vector(DType::F32, 4);
    let one = b.g.float(1.0);
    let begin = b.g.make(Op::Splat, sums, vec![], vec![one]);
    let product = b.g.make(Op::WarpProduct, sums, vec![], vec![begin, rows, columns]);
    if whole {
        let pitch = 20;
        let (near, zero) = (b.g.buffer(1, Space::Shared, DType::F32, 8 * pitch), b.g.int(0));
        let store = b.statement(Op::StoreFragment { pitch: pitch as u32 }, vec![near, zero, product]);
        b.body.push(store);
        b.barrier();
        for turn in 0..4 {
            let at = by(&mut b, BinOp::Add, lane, 32 * turn);
            let (row, column) = (by(&mut b, BinOp::Mod, at, 16), by(&mut b, BinOp::Div, at, 16));
            let column = by(&mut b, BinOp::Mul, column, pitch as i64);
            let from = b.g.add(column, row);
            let sum = b.g.load(near, from, 1);
            b.store(out, at, sum);
        }
        return b;
    }
    for i in 0..4u16 {
        let element = b.g.make(Op::Extract(i), DType::F32, vec![], vec![product]);
        let first = by(&mut b, BinOp::Mul, lane, 4);
        let to = by(&mut b, BinOp::Add, first, i64::from(i));
        b.store(out, to, element);
    }
    b
}

#[test]
fn a_warp_multiplies_matrices() {
    for (transposed, whole) in [(false, false), (true, false), (false, true)] {
        let got = product(transposed, whole).run(128).unwrap();
        let of_rows = |row: usize, k: usize| {
            let i = if transposed { k * 16 + row } else { row * 16 + k };
            (i % 7) as f32
        };
        for (at, &sum) in got.iter().enumerate() {
            let (lane, i) = (at / 4, at % 4);
            let of_lane = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
            let (row, column) = if whole { (at % 16, at / 16) } else { of_lane };
            let want: f32 = (0..16).map(|k| of_rows(row, k) * ((column * 16 + k) % 5) as f32).sum();
            assert_eq!(sum, want + 1.0, "row {row}, column {column}, transposed: {transposed}, whole: {whole}");
        }
    }
}

/// A warp that multiplies 16 rows of so many codes by 8 columns, both 32 bytes apart in shared memory.
fn integer_product(length: i64) -> Block {
    let mut b = Block::new(1);
    let (lane, out) = (b.lane, b.output());
    let rows = b.g.buffer(0, Space::Shared, DType::U8, 16 * 32);
    let columns = b.g.buffer(1, Space::Shared, DType::I8, 8 * 32);
    let by = |b: &mut Block, op: BinOp, x: Id, n: i64| {
        let n = b.g.int(n);
        b.g.binary(op, x, n)
    };
    // Element i of the rows is i % 251, and of the columns i % 101 - 50.
    for (buffer, count, modulus, less) in [(rows, 16, 251, 0), (columns, 8, 101, 50)] {
        for round in 0..count {
            let at = by(&mut b, BinOp::Add, lane, 32 * round);
            let value = by(&mut b, BinOp::Mod, at, modulus);
            let value = by(&mut b, BinOp::Sub, value, less);
            let ty = b.g.dtype(buffer);
            let value = b.g.cast(value, ty);
            b.store(buffer, at, value);
        }
    }
    b.barrier();
    let (low16, upper) = (by(&mut b, BinOp::Mod, lane, 16), by(&mut b, BinOp::Div, lane, 16));
    let (low8, middle) = (by(&mut b, BinOp::Mod, lane, 8), by(&mut b, BinOp::Div, lane, 8));
    let middle = by(&mut b, BinOp::Mod, middle, 2);
    let halves = length / 16;
    let mut fragment = |buffer: Id, row: Id, half: Id, matrices: i64| {
        let (row, half) = (by(&mut b, BinOp::Mul, row, 32), by(&mut b, BinOp::Mul, half, 16));
        let index = b.g.add(row, half);
        let load = b.g.load(buffer, index, 16);
        let ty = Type::vector(b.g.dtype(buffer), 4 * matrices as usize);
        b.g.make(Op::Fragment { transposed: false }, ty, vec![], vec![load])
    };
    let rows = fragment(rows, low16, upper, 2 * halves);
    let columns = fragment(columns, low8, middle, halves);
    let sums = Type::vector(DType::I32, 4);
    let one = b.g.constant(Const::Int(1), DType::I32);
    let begin = b.g.make(Op::Splat, sums, vec![], vec![one]);
    let product = b.g.make(Op::WarpProduct, sums, vec![], vec![begin, rows, columns]);
    for i in 0..4u16 {
        let element = b.g.make(Op::Extract(i), DType::I32, vec![], vec![product]);
        let element = b.g.cast(element, DType::F32);
        let first = by(&mut b, BinOp::Mul, lane, 4);
        let to = by(&mut b, BinOp::Add, first, i64::from(i));
        b.store(out, to, element);
    }
    b
}

#[test]
fn a_warp_multiplies_matrices_of_codes() {
    for length in [16, 32] {
        let got = integer_product(length).run(128).unwrap();
        for (at, &sum) in got.iter().enumerate() {
            let (lane, i) = (at as i64 / 4, at as i64 % 4);
            let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
            let product = |k: i64| (row * 32 + k) % 251 * ((column * 32 + k) % 101 - 50);
            let want: i64 = (0..length).map(product).sum();
            assert_eq!(sum, (want + 1) as f32, "row {row}, column {column}, of {length}");
        }
    }
}

#[test]
fn all_lanes_of_a_warp_multiply_together() {
    let mut b = product(false, false);
    let (lane, one) = (b.lane, b.g.int(1));
    let store = b.body.pop().expect("a store");
    let some = b.g.binary(BinOp::Lt, lane, one);
    let branch = b.statement(Op::If, vec![some, store]);
    b.body.push(branch);
    assert!(b.broken().contains("not all lanes of the warp"));
}

#[test]
fn matrices_are_read_after_a_barrier() {
    let mut b = product(true, false);
    b.body.retain(|&s| !matches!(b.g.op(s), Op::Barrier { .. }));
    assert!(b.broken().contains("written since the last barrier"));
}
