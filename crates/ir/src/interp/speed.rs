//! How fast the interpreter is; run with
//! `cargo test --release -p kernloom-ir speed -- --ignored --nocapture`.

use super::Vars;
use super::kernel::{Buffers, Kernel, tests};
use super::tensor::{Bindings, evaluate};
use crate::{Axis, DType, Graph, Op, Part, ReduceOp, Space, UnOp};
use std::sync::Arc;
use std::time::Instant;

fn report(what: &str, values: usize, mut f: impl FnMut()) {
    f();
    let best = (0..3).map(|_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    println!("{what:44} {:8.2} ms  {:7.0} M values/s", best * 1e3, values as f64 / best / 1e6);
}

#[test]
#[ignore = "measures speed, proves nothing: run it alone with --ignored --nocapture"]
fn tensor_speed() {
    let (t, n, k) = (4i64, 1024i64, 2048i64);
    let bytes = |len: i64| (0..len as usize).map(|i| (i * 89) as u8 & 0x3b).collect::<Vec<u8>>();
    let (x, w, w8, x8, q4) = (bytes(t * k * 4), bytes(n * k * 4), bytes(n * k), bytes(t * k), bytes(n * k / 32 * 18));
    let b = Bindings::new().tensor("x", &x).tensor("w", &w).tensor("w8", &w8).tensor("x8", &x8).tensor("q4", &q4);
    let mut g = Graph::new();
    let (one, tt, nn, kk) = (g.int(1), g.int(t), g.int(n), g.int(k));
    let values = (t * n * k) as usize;
    let full = [tt, nn, kk];

    let (px, pw) = (g.param("x", DType::F32, vec![tt, one, kk]), g.param("w", DType::F32, vec![one, nn, kk]));
    let (ex, ew) = (g.expand(px, full.into()), g.expand(pw, full.into()));
    let product = g.mul(ex, ew);
    let y = g.reduce(ReduceOp::Sum, product, vec![2]);
    report("f32 product, k inside (product and sum)", 2 * values, || drop(evaluate(&g, &[y], &b).unwrap()));

    let pw = g.param("w", DType::F32, vec![one, kk, nn]);
    let px = g.param("x", DType::F32, vec![tt, kk, one]);
    let rows = [tt, kk, nn];
    let (ex, ew) = (g.expand(px, rows.into()), g.expand(pw, rows.into()));
    let product = g.mul(ex, ew);
    let y = g.reduce(ReduceOp::Sum, product, vec![1]);
    report("f32 product, k outside (product and sum)", 2 * values, || drop(evaluate(&g, &[y], &b).unwrap()));

    let f = gguf::format::rows().iter().find(|f| f.name == "Q4_0").unwrap();
    let f = g.format_id(&Arc::new(f.clone()));
    let row = g.int(k / 32 * 18);
    let q = g.param("q4", DType::U8, vec![nn, row]);
    for part in [Part::Value, Part::Code, Part::Scale] {
        let y = g.dequant(q, f, part);
        report(&format!("Q4_0 {part:?}"), (n * k) as usize, || drop(evaluate(&g, &[y], &b).unwrap()));
    }

    let (blocks, inner) = (g.int(k / 32), g.int(32));
    let shape = [tt, nn, blocks, inner];
    let codes = g.param("w8", DType::U8, vec![one, nn, blocks, inner]);
    let x8 = g.param("x8", DType::I8, vec![tt, one, blocks, inner]);
    let (codes, x8) = (g.cast(codes, DType::I32), g.cast(x8, DType::I32));
    let (codes, x8) = (g.expand(codes, shape.into()), g.expand(x8, shape.into()));
    let product = g.mul(codes, x8);
    let y = g.reduce(ReduceOp::Sum, product, vec![3]);
    report("integer dot by blocks of 32 (product and sum)", 2 * values, || drop(evaluate(&g, &[y], &b).unwrap()));

    let a = g.param("w", DType::F32, vec![nn, kk]);
    let c = g.add(a, a);
    let c = g.mul(c, a);
    let c = g.sub(c, a);
    report("three elementwise operations", 3 * (n * k) as usize, || drop(evaluate(&g, &[c], &b).unwrap()));
    let e = g.unary(UnOp::Exp, a);
    report("exp", (n * k) as usize, || drop(evaluate(&g, &[e], &b).unwrap()));
    let p = g.permute(a, vec![1, 0]);
    let p = g.add(p, p);
    report("add of a transposed matrix", (n * k) as usize, || drop(evaluate(&g, &[p], &b).unwrap()));
    let m = g.reduce(ReduceOp::Max, a, vec![1]);
    report("max", (n * k) as usize, || drop(evaluate(&g, &[m], &b).unwrap()));
}

#[test]
#[ignore = "measures speed, proves nothing: run it alone with --ignored --nocapture"]
fn kernel_speed() {
    let (rows, blocks) = (512usize, 64usize);
    let (g, root) = tests::nibble_product(rows as i64, blocks as i64);
    let kernel = Kernel::compile(&g, root).unwrap();
    let bytes = |n: usize| (0..n).map(|i| (i * 89) as u8 & 0x3b).collect::<Vec<u8>>();
    let (w, xq, xs) = (bytes(rows * blocks * 18), bytes(blocks * 32), bytes(blocks * 4));
    let mut y = vec![0; rows * 4];
    // Loads, shifts, masks, joins and products of one block.
    let values = 16 + 3 * 16 + 2 * 32 + 2 * 32 + 8 + 8;
    report("kernel: Q4_0 rows with dot4", rows * blocks * values, || {
        let mut buffers = Buffers::new().read(0, &w).read(1, &xq).read(2, &xs).write(3, &mut y);
        kernel.run(&mut buffers, &Vars::new(), 0..rows as i64).unwrap();
    });

    // out[i] = sum over k of a[i, k] * b[k], one element at a time and by 16.
    for lanes in [1usize, 16] {
        let (n, k) = (256i64, 1024i64);
        let mut g = Graph::new();
        let (nn, kk, steps) = (g.int(n), g.int(k), g.int(k / lanes as i64));
        let (i, j) = (g.range(0, Axis::Task, nn), g.range(1, Axis::Loop, steps));
        let buffer = |g: &mut Graph, slot, space| g.buffer(slot, space, DType::F32, 0);
        let a = buffer(&mut g, 0, Space::Input);
        let b = buffer(&mut g, 1, Space::Input);
        let out = buffer(&mut g, 2, Space::Output);
        let width = g.int(lanes as i64);
        let at = g.mul(j, width);
        let row = g.mul(i, kk);
        let place = g.add(row, at);
        let (x, y) = (g.load(a, place, lanes), g.load(b, at, lanes));
        let ty = g.ty(x);
        let product = g.mul(x, y);
        let acc = g.make(Op::Acc(0), ty, vec![], vec![]);
        let zero = g.float(0.0);
        let zeros = if lanes == 1 { zero } else { g.make(Op::Splat, ty, vec![], vec![zero]) };
        let clear = g.make(Op::Set, ty, vec![], vec![acc, zeros]);
        let next = g.add(acc, product);
        let step = g.make(Op::Set, ty, vec![], vec![acc, next]);
        let each = g.make(Op::Loop, ty, vec![], vec![j, step]);
        let sum = if lanes == 1 { acc } else { g.make(Op::Across(ReduceOp::Sum), DType::F32, vec![], vec![acc]) };
        let store = g.make(Op::Store, ty, vec![], vec![out, i, sum]);
        let root = g.make(Op::Block, ty, vec![], vec![clear, each, store]);
        let kernel = Kernel::compile(&g, root).unwrap();
        let (x, y) = (bytes((n * k * 4) as usize), bytes(k as usize * 4));
        let mut z = vec![0; n as usize * 4];
        // Two loads, a product and a sum.
        report(&format!("kernel: f32 rows by {lanes}"), 4 * (n * k) as usize, || {
            let mut buffers = Buffers::new().read(0, &x).read(1, &y).write(2, &mut z);
            kernel.run(&mut buffers, &Vars::new(), 0..n).unwrap();
        });
    }
}
