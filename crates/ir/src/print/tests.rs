//! Snapshots.

use super::{kernel, tensor};
use crate::interp::kernel::tests::nibble_product;
use crate::{Axis, BinOp, DType, Graph, Id, Op, Part, ReduceOp, Space};
use std::sync::Arc;

fn rms_norm(g: &mut Graph) -> Vec<Id> {
    let t = g.var("t", 1, 64);
    let (n, one) = (g.int(64), g.int(1));
    let x = g.param("x", DType::F32, vec![t, n]);
    let square = g.mul(x, x);
    let sum = g.reduce(ReduceOp::Sum, square, vec![1]);
    let least = g.float(1e-6);
    let least = g.reshape(least, vec![one]);
    let least = g.expand(least, vec![t]);
    let sum = g.add(sum, least);
    let scale = g.unary(crate::UnOp::Rsqrt, sum);
    let scale = g.reshape(scale, vec![t, one]);
    let scale = g.expand(scale, vec![t, n]);
    let y = g.mul(x, scale);
    let format = gguf::format::rows().iter().find(|f| f.name == "Q4_0").unwrap();
    let format = g.format_id(&Arc::new(format.clone()));
    let (rows, bytes) = (g.int(8), g.int(36));
    let w = g.param("w", DType::U8, vec![rows, bytes]);
    let w = g.dequant(w, format, Part::Value);
    let w = g.slice(w, 0, 2, 4);
    vec![y, w]
}

#[test]
fn a_tensor_graph() {
    let mut g = Graph::new();
    let roots = rms_norm(&mut g);
    let text = tensor(&g, &roots);
    assert_eq!(
        text,
        "\
%0 = param x: f32[t, 64]
%1 = mul %0, %0: f32[t, 64]
%2 = reduce sum [1] %1: f32[t]
%3 = reshape 1e-6: f32[1]
%4 = expand %3: f32[t]
%5 = add %2, %4: f32[t]
%6 = rsqrt %5: f32[t]
%7 = reshape %6: f32[t, 1]
%8 = expand %7: f32[t, 64]
%9 = mul %0, %8: f32[t, 64]
%10 = param w: u8[8, 36]
%11 = dequant Q4_0 value %10: f32[8, 64]
%12 = slice 0 from 2 %11: f32[4, 64]
return %9, %12
"
    );
    // The same program in an arena that held something else before.
    let mut g = Graph::new();
    let (a, b) = (g.var("t", 1, 64), g.var("s", 1, 2));
    g.param("w", DType::F32, vec![b, a]);
    let roots = rms_norm(&mut g);
    assert_eq!(tensor(&g, &roots), text);
}

#[test]
fn a_kernel() {
    let (g, root) = nibble_product(5, 3);
    assert_eq!(
        kernel(&g, root),
        "\
kernel of 5 tasks (in0: u8, in1: i8, in2: f32, out3: f32)
  a0 = 0.0
  loop i0 < 3
    v0: index = task * 54 + i0 * 18
    v1: u8x16 = in0.u8x16[v0 + 2]
    v2: i8x32 = in1.i8x32[i0 * 32]
"
        .to_string()
            + "    a0 = a0 + f32(across sum(dot4(i32x8(0), join(v1 & u8x16(15), v1 >> u8x16(4)), v2) \
               - dot4(i32x8(0), lanes [8; 32], v2))) * (f32(in0.f16[v0]) * in2[i0])\n"
            + "  out3[task] = a0\n"
    );
}

#[test]
fn every_kind_of_statement() {
    let mut g = Graph::new();
    let n = g.var("n", 0, 9);
    let i = g.range(0, Axis::Task, n);
    let (two, four) = (g.int(2), g.int(4));
    let j = g.range(7, Axis::Loop, four);
    let (input, out) = (g.buffer(0, Space::Input, DType::F32, 0), g.buffer(1, Space::Output, DType::F16, 0));
    let scratch = g.buffer(0, Space::Task, DType::F32, 4);
    let x = g.load(input, j, 1);
    let square = g.mul(x, x);
    let keep = g.make(Op::Store, DType::F32, vec![], vec![scratch, j, square]);
    let each = g.make(Op::Loop, DType::F32, vec![], vec![j, keep]);
    let (a, b) = (g.make(Op::Acc(4), DType::F32, vec![], vec![]), g.make(Op::Acc(2), DType::F32, vec![], vec![]));
    let y = g.load(scratch, two, 1);
    let z = g.load(scratch, i, 1);
    let swap = g.make(Op::Set, DType::F32, vec![], vec![a, y, b, z]);
    let more = g.add(a, b);
    let more = g.cast(more, DType::F16);
    let c = g.binary(BinOp::Lt, i, two);
    let store = g.make(Op::Store, DType::F32, vec![], vec![out, i, more, c]);
    let touch = g.make(Op::Prefetch(2), DType::F32, vec![], vec![input, four]);
    let inner = g.make(Op::Block, DType::F32, vec![], vec![store, touch]);
    let even = g.binary(BinOp::Mod, i, two);
    let one = g.int(1);
    let even = g.binary(BinOp::Lt, even, one);
    let branch = g.make(Op::If, DType::F32, vec![], vec![even, inner]);
    let root = g.make(Op::Block, DType::F32, vec![], vec![each, swap, branch]);
    assert_eq!(
        kernel(&g, root),
        "\
kernel of n tasks (in0: f32, out1: f16, scratch0: f32[4])
  loop i0 < 4
    v0: f32 = in0[i0]
    scratch0[i0] = v0 * v0
  a0, a1 = scratch0[2], scratch0[task]
  if task % 2 < 1
    block
      out1[task] = f16(a0 + a1) if task < 2
      prefetch 2 in0[4]
"
    );
}
