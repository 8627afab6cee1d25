//! Rotary embedding of queries and keys (arXiv 2104.09864).

use crate::config::Rope;
use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType, UnOp};

/// How the tokens of a step are rotated: one table for all layers and heads.
#[derive(Clone)]
pub(crate) struct Rotation<'a> {
    rope: &'a Rope,
    /// Pairs are `(i, i + dims/2)` rather than `(2i, 2i+1)`.
    halves: bool,
    sin: Tensor,
    cos: Tensor,
}

impl<'a> Rotation<'a> {
    /// The rotation of tokens at these positions, `[T]`, in a context of so many; `name` tells its tables from others.
    pub(crate) fn new(b: &Builder, name: &str, rope: &'a Rope, positions: i64, position: &Tensor) -> Rotation<'a> {
        let theta = match &rope.long {
            Some(long) if positions > long.beyond => &long.theta,
            _ => &rope.theta,
        };
        let (sin, cos) = table(b, name, theta, rope.amplitude, position);
        Rotation { rope, halves: rope.halves, sin, cos }
    }

    /// The same angles of other pairs.
    pub(crate) fn with_halves(&self, halves: bool) -> Rotation<'a> {
        Rotation { halves, ..self.clone() }
    }

    /// Rotates the first values of each head `[T, heads, len]`.
    pub(crate) fn of_front(&self, x: &Tensor) -> Tensor {
        let (n, len) = (self.rope.dims, x.len(2));
        if n == len {
            return self.of(x);
        }
        Tensor::concat(&[self.of(&x.slice(2, 0, n)), x.slice(2, n, len - n)], 2)
    }

    /// Rotary embedding of `[T, .., n]` (arXiv 2104.09864).
    pub(crate) fn of(&self, x: &Tensor) -> Tensor {
        let n = self.rope.dims;
        let last = x.rank() - 1;
        let mut shape = x.shape();
        let whole = shape.clone();
        shape.pop();
        let (a, b) = if self.halves {
            (x.slice(last, 0, n / 2), x.slice(last, n / 2, n / 2))
        } else {
            shape.extend([Dim::Const(n / 2), Dim::Const(2)]);
            let pairs = x.reshape(&shape);
            shape.pop();
            (pairs.slice(last + 1, 0, 1).reshape(&shape), pairs.slice(last + 1, 1, 1).reshape(&shape))
        };
        let mut table = vec![x.shape()[0]];
        table.resize(last, Dim::Const(1));
        table.push(Dim::Const(n / 2));
        let (sin, cos) = (self.sin.reshape(&table), self.cos.reshape(&table));
        let (u, v) = (&(&a * &cos) - &(&b * &sin), &(&a * &sin) + &(&b * &cos));
        if self.halves {
            Tensor::concat(&[u, v], last)
        } else {
            Tensor::concat(&[u.unsqueeze(last + 1), v.unsqueeze(last + 1)], last + 1).reshape(&whole)
        }
    }
}

/// Sines and cosines of `position * theta`, `[T, dims / 2]`. Angles are exact
/// fractions of a turn in 44-bit fixed point, so that large positions lose
/// nothing.
fn table(b: &Builder, name: &str, theta: &[f64], amplitude: f64, position: &Tensor) -> (Tensor, Tensor) {
    let n = theta.len();
    let (mut high, mut low) = (vec![], vec![]);
    for theta in theta {
        let turns = (theta / std::f64::consts::TAU).rem_euclid(1.0);
        let fixed = (turns * (1u64 << 44) as f64).round() as u64 & ((1 << 44) - 1);
        high.extend(((fixed >> 12) as u32).to_le_bytes());
        low.extend(((fixed & 4095) as u32).to_le_bytes());
    }
    let high = b.table(&format!("{name}.high"), DType::U32, dims![1, n], high);
    let low = b.table(&format!("{name}.low"), DType::U32, dims![1, n], low);
    let p = position.cast(DType::U32).unsqueeze(1);
    let twelve = b.int32(12).cast(DType::U32);
    // `p * low >> 12`, in two parts as 32 bits do not hold the product: `p = 4096 * pages + rest`.
    let (pages, rest) = (p.binary(BinOp::Shr, &twelve), p.binary(BinOp::And, &b.int32(4095).cast(DType::U32)));
    let carry = rest.binary(BinOp::Mul, &low).binary(BinOp::Shr, &twelve);
    let part = pages.binary(BinOp::Mul, &low).binary(BinOp::Add, &carry);
    let turns = p.binary(BinOp::Mul, &high).binary(BinOp::Add, &part);
    let angle = turns.cast(DType::I32).cast(DType::F32) * (std::f64::consts::TAU / (1u64 << 32) as f64) as f32;
    let (sin, cos) = (angle.unary(UnOp::Sin), angle.unary(UnOp::Cos));
    let a = amplitude as f32;
    if a == 1.0 { (sin, cos) } else { (sin * a, cos * a) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compiler::{Options, compile};
    use device::{Cpu, CpuConfig, Device, Memory};
    use std::sync::Arc;

    #[test]
    fn angles_are_reduced_exactly_at_every_position() {
        let positions: [i32; 13] = [
            0,
            1,
            4095,
            4096,
            100_003,
            (1 << 20) - 1,
            1 << 20,
            (1 << 20) + 1,
            1_500_007,
            (1 << 21) - 1,
            9_999_999,
            1 << 28,
            i32::MAX,
        ];
        let theta: Vec<f64> = (0..32).map(|i| 1e6f64.powf(-f64::from(i) / 32.0)).collect();
        let b = Builder::new();
        let position = b.input("position", DType::I32, dims![positions.len()]);
        let (sin, cos) = table(&b, "rope", &theta, 1.0, &position);
        let program = compile(
            &b,
            "rotations",
            &[("sin", &sin), ("cos", &cos)],
            &[],
            &Options::cpu(compiler::Numerics::Exact, 32),
        );
        let cpu = Cpu::new(&CpuConfig::from_environment()).expect("a C compiler");
        let mut memory = Memory::new();
        let mut step = cpu.load(Arc::new(program.expect("a program").program), &mut memory).expect("a loaded program");
        memory.input_mut::<i32>("position").expect("an input").copy_from_slice(&positions);
        step.run(&mut memory, &[]).expect("a step");
        let sines = memory.output::<f32>("sin").expect("an output").to_vec();
        let cosines = memory.output::<f32>("cos").expect("an output").to_vec();
        for (at, position) in positions.into_iter().enumerate() {
            for (pair, theta) in theta.iter().enumerate() {
                let angle = f64::from(position) * theta;
                let (got_sin, got_cos) = (sines[at * 32 + pair], cosines[at * 32 + pair]);
                // Rounding of the angle and of the functions, and half of the last of 44 bits of a turn a position.
                let most = 1e-6 + f64::from(position) * std::f64::consts::TAU / (1u64 << 45) as f64;
                let error = (f64::from(got_sin) - angle.sin()).abs().max((f64::from(got_cos) - angle.cos()).abs());
                assert!(error <= most, "position {position}, {theta} radians each: off by {error:e}");
            }
        }
    }
}
