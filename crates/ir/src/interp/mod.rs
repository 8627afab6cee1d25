//! The interpreter: the oracle of every kernel and every rewrite.

use crate::{BinOp, Const, DType};

/// `f(x, y)` of two constants of type `ty`.
pub(crate) fn const_binary(op: BinOp, ty: DType, x: Const, y: Const) -> Const {
    if ty.is_float() {
        let (a, b) = (x.as_f32(), y.as_f32());
        return match op {
            BinOp::Add => Const::f32(a + b),
            BinOp::Sub => Const::f32(a - b),
            BinOp::Mul => Const::f32(a * b),
            BinOp::Div => Const::f32(a / b),
            BinOp::Min => Const::f32(if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) }),
            BinOp::Max => Const::f32(if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }),
            BinOp::Lt => Const::Int((a < b) as i64),
            BinOp::Eq => Const::Int((a == b) as i64),
            _ => panic!("{op:?} of floats"),
        };
    }
    let (a, b) = (x.as_int(), y.as_int());
    let v = match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div => a.div_euclid(b),
        BinOp::Mod => a.rem_euclid(b),
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a << b,
        BinOp::Shr => a >> b,
        BinOp::Lt => (a < b) as i64,
        BinOp::Eq => (a == b) as i64,
    };
    Const::Int(match ty {
        DType::U8 => v as u8 as i64,
        DType::I8 => v as i8 as i64,
        DType::U16 => v as u16 as i64,
        DType::I16 => v as i16 as i64,
        DType::U32 => v as u32 as i64,
        DType::I32 => v as i32 as i64,
        _ => v,
    })
}
