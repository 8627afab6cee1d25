//! Elementwise arithmetic over slices: what every operation means, bit for bit.
//!
//! Both interpreters and constant folding compute through these functions, so
//! that an operation has one meaning. Values are held in three classes: all
//! floats as `f32` (narrower ones rounded after every operation), integers of up
//! to 32 bits and truth values as `i32` (`U32` by its bits), indices as `i64`.
//! Integer results wrap to their type. Shifts by the width or more give 0, or
//! the sign. What this cannot do: an operation on a type that has none of it is
//! an error, and so is an integer division by zero.

use crate::{BinOp, Const, DType, ReduceOp, UnOp};
use half::{bf16, f16};

/// How values of a type are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `f32`.
    Float,
    /// `i32`.
    Int,
    /// `i64`.
    Index,
}

impl Class {
    pub(crate) fn of(ty: DType) -> Class {
        match ty {
            DType::F16 | DType::BF16 | DType::F32 => Class::Float,
            DType::Index => Class::Index,
            _ => Class::Int,
        }
    }
}

/// Why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Integer division or remainder by zero.
    #[error("integer division by zero")]
    DivisionByZero,
    /// The operation does not exist for the type.
    #[error("the operation is not defined for this type")]
    Undefined,
    /// A table look-up beyond the table.
    #[error("a look-up beyond the table")]
    Lookup,
    /// A sum of products beyond 16 bits.
    #[error("a sum of products leaves its 16 bits")]
    Overflow,
}

fn map<A: Copy, O>(a: &[A], out: &mut [O], f: impl Fn(A) -> O) {
    for (o, &a) in out.iter_mut().zip(a) {
        *o = f(a);
    }
}

fn map2<A: Copy, B: Copy, O>(a: &[A], b: &[B], out: &mut [O], f: impl Fn(A, B) -> O) {
    for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *o = f(a, b);
    }
}

/// Rounds values to a float type.
pub(crate) fn round(ty: DType, v: &mut [f32]) {
    match ty {
        DType::F16 => v.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
        DType::BF16 => v.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32()),
        _ => {}
    }
}

/// Wraps values to an integer type.
pub(crate) fn wrap(ty: DType, v: &mut [i32]) {
    match ty {
        DType::U8 => v.iter_mut().for_each(|v| *v = i32::from(*v as u8)),
        DType::I8 => v.iter_mut().for_each(|v| *v = i32::from(*v as i8)),
        DType::U16 => v.iter_mut().for_each(|v| *v = i32::from(*v as u16)),
        DType::I16 => v.iter_mut().for_each(|v| *v = i32::from(*v as i16)),
        DType::Bool => v.iter_mut().for_each(|v| *v = i32::from(*v != 0)),
        _ => {}
    }
}

/// The larger; NaN if one is NaN.
pub(crate) fn max_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }
}

fn min_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) }
}

/// `f(a)` of floats.
pub(crate) fn unary_float(op: UnOp, ty: DType, a: &[f32], out: &mut [f32]) -> Result<(), Fault> {
    match op {
        UnOp::Neg => map(a, out, |a| -a),
        UnOp::Exp => map(a, out, f32::exp),
        UnOp::Sqrt => map(a, out, f32::sqrt),
        UnOp::Rsqrt => map(a, out, |a| 1.0 / a.sqrt()),
        UnOp::Recip => map(a, out, |a| 1.0 / a),
        UnOp::Sin => map(a, out, f32::sin),
        UnOp::Cos => map(a, out, f32::cos),
        UnOp::Abs => map(a, out, f32::abs),
        UnOp::Round => map(a, out, f32::round),
        UnOp::Exp2 => map(a, out, f32::exp2),
        UnOp::Not => return Err(Fault::Undefined),
    }
    round(ty, out);
    Ok(())
}

/// `f(a)` of integers and truth values.
pub(crate) fn unary_int(op: UnOp, ty: DType, a: &[i32], out: &mut [i32]) -> Result<(), Fault> {
    match op {
        UnOp::Neg if ty != DType::Bool => map(a, out, i32::wrapping_neg),
        UnOp::Abs if matches!(ty, DType::U8 | DType::U16 | DType::U32) => out.copy_from_slice(a),
        UnOp::Abs if ty != DType::Bool => map(a, out, i32::wrapping_abs),
        UnOp::Not if ty == DType::Bool => map(a, out, |a| i32::from(a == 0)),
        _ => return Err(Fault::Undefined),
    }
    wrap(ty, out);
    Ok(())
}

/// `f(a)` of indices.
pub(crate) fn unary_index(op: UnOp, a: &[i64], out: &mut [i64]) -> Result<(), Fault> {
    match op {
        UnOp::Neg => map(a, out, i64::wrapping_neg),
        UnOp::Abs => map(a, out, i64::wrapping_abs),
        _ => return Err(Fault::Undefined),
    }
    Ok(())
}

/// `f(a, b)` of floats, comparisons excepted.
pub(crate) fn binary_float(op: BinOp, ty: DType, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), Fault> {
    match op {
        BinOp::Add => map2(a, b, out, |a, b| a + b),
        BinOp::Sub => map2(a, b, out, |a, b| a - b),
        BinOp::Mul => map2(a, b, out, |a, b| a * b),
        BinOp::Div => map2(a, b, out, |a, b| a / b),
        BinOp::Min => map2(a, b, out, min_f32),
        BinOp::Max => map2(a, b, out, max_f32),
        _ => return Err(Fault::Undefined),
    }
    round(ty, out);
    Ok(())
}

/// `f(a, b)` of integers and truth values, comparisons excepted.
pub(crate) fn binary_int(op: BinOp, ty: DType, a: &[i32], b: &[i32], out: &mut [i32]) -> Result<(), Fault> {
    let unsigned = ty == DType::U32;
    if matches!(op, BinOp::Div | BinOp::Mod) && b.contains(&0) {
        return Err(Fault::DivisionByZero);
    }
    match op {
        BinOp::Add => map2(a, b, out, i32::wrapping_add),
        BinOp::Sub => map2(a, b, out, i32::wrapping_sub),
        BinOp::Mul => map2(a, b, out, i32::wrapping_mul),
        BinOp::Div if unsigned => map2(a, b, out, |a, b| (a as u32 / b as u32) as i32),
        BinOp::Div => map2(a, b, out, i32::wrapping_div_euclid),
        BinOp::Mod if unsigned => map2(a, b, out, |a, b| (a as u32 % b as u32) as i32),
        BinOp::Mod => map2(a, b, out, i32::wrapping_rem_euclid),
        BinOp::Min if unsigned => map2(a, b, out, |a, b| (a as u32).min(b as u32) as i32),
        BinOp::Min => map2(a, b, out, i32::min),
        BinOp::Max if unsigned => map2(a, b, out, |a, b| (a as u32).max(b as u32) as i32),
        BinOp::Max => map2(a, b, out, i32::max),
        BinOp::And => map2(a, b, out, |a, b| a & b),
        BinOp::Or => map2(a, b, out, |a, b| a | b),
        BinOp::Xor => map2(a, b, out, |a, b| a ^ b),
        BinOp::Shl => map2(a, b, out, |a, b| if (b as u32) < 32 { a << b } else { 0 }),
        BinOp::Shr if unsigned => map2(a, b, out, |a, b| if (b as u32) < 32 { ((a as u32) >> b) as i32 } else { 0 }),
        BinOp::Shr => map2(a, b, out, |a, b| a >> (b as u32).min(31)),
        BinOp::Lt | BinOp::Eq => return Err(Fault::Undefined),
    }
    wrap(ty, out);
    Ok(())
}

/// `f(a, b)` of indices, comparisons excepted.
pub(crate) fn binary_index(op: BinOp, a: &[i64], b: &[i64], out: &mut [i64]) -> Result<(), Fault> {
    if matches!(op, BinOp::Div | BinOp::Mod) && b.contains(&0) {
        return Err(Fault::DivisionByZero);
    }
    match op {
        BinOp::Add => map2(a, b, out, i64::wrapping_add),
        BinOp::Sub => map2(a, b, out, i64::wrapping_sub),
        BinOp::Mul => map2(a, b, out, i64::wrapping_mul),
        BinOp::Div => map2(a, b, out, i64::wrapping_div_euclid),
        BinOp::Mod => map2(a, b, out, i64::wrapping_rem_euclid),
        BinOp::Min => map2(a, b, out, i64::min),
        BinOp::Max => map2(a, b, out, i64::max),
        BinOp::And => map2(a, b, out, |a, b| a & b),
        BinOp::Or => map2(a, b, out, |a, b| a | b),
        BinOp::Xor => map2(a, b, out, |a, b| a ^ b),
        BinOp::Shl => map2(a, b, out, |a, b| if (b as u64) < 64 { a << b } else { 0 }),
        BinOp::Shr => map2(a, b, out, |a, b| a >> (b as u64).min(63)),
        BinOp::Lt | BinOp::Eq => return Err(Fault::Undefined),
    }
    Ok(())
}

/// `a < b` or `a == b` of values that compare as they are held.
pub(crate) fn compare<T: Copy + PartialOrd>(op: BinOp, a: &[T], b: &[T], out: &mut [i32]) -> Result<(), Fault> {
    match op {
        BinOp::Lt => map2(a, b, out, |a, b| i32::from(a < b)),
        BinOp::Eq => map2(a, b, out, |a, b| i32::from(a == b)),
        _ => return Err(Fault::Undefined),
    }
    Ok(())
}

/// `a < b` or `a == b` of integers and truth values.
pub(crate) fn compare_int(op: BinOp, ty: DType, a: &[i32], b: &[i32], out: &mut [i32]) -> Result<(), Fault> {
    if ty == DType::U32 && op == BinOp::Lt {
        map2(a, b, out, |a, b| i32::from((a as u32) < b as u32));
        return Ok(());
    }
    compare(op, a, b, out)
}

/// `if c then a else b`.
pub(crate) fn select<T: Copy>(c: &[i32], a: &[T], b: &[T], out: &mut [T]) {
    if let [c] = c {
        out.copy_from_slice(if *c != 0 { a } else { b });
        return;
    }
    for (((o, &c), &a), &b) in out.iter_mut().zip(c).zip(a).zip(b) {
        *o = if c != 0 { a } else { b };
    }
}

/// Floats to a float type.
pub(crate) fn float_to_float(to: DType, a: &[f32], out: &mut [f32]) {
    out.copy_from_slice(a);
    round(to, out);
}

/// Towards zero; 0 if that is no 32-bit integer, as in the C of a kernel.
fn truncate(a: f32) -> i32 {
    let bound = 2.0f32.powi(31);
    if (-bound..bound).contains(&a) { a as i32 } else { 0 }
}

/// Floats to an integer type: truncated, then wrapped.
pub(crate) fn float_to_int(to: DType, a: &[f32], out: &mut [i32]) {
    if to == DType::Bool {
        return map(a, out, |a| i32::from(a != 0.0));
    }
    map(a, out, truncate);
    wrap(to, out);
}

/// Floats to indices: truncated.
pub(crate) fn float_to_index(a: &[f32], out: &mut [i64]) {
    map(a, out, |a| truncate(a).into());
}

/// Integers to a float type.
pub(crate) fn int_to_float(from: DType, to: DType, a: &[i32], out: &mut [f32]) {
    match from {
        DType::U32 => map(a, out, |a| a as u32 as f32),
        _ => map(a, out, |a| a as f32),
    }
    round(to, out);
}

/// Integers to an integer type: wrapped.
pub(crate) fn int_to_int(to: DType, a: &[i32], out: &mut [i32]) {
    out.copy_from_slice(a);
    wrap(to, out);
}

/// Integers to indices.
pub(crate) fn int_to_index(from: DType, a: &[i32], out: &mut [i64]) {
    match from {
        DType::U32 => map(a, out, |a| i64::from(a as u32)),
        _ => map(a, out, i64::from),
    }
}

/// Indices to a float type.
pub(crate) fn index_to_float(to: DType, a: &[i64], out: &mut [f32]) {
    map(a, out, |a| a as f32);
    round(to, out);
}

/// Indices to an integer type: wrapped.
pub(crate) fn index_to_int(to: DType, a: &[i64], out: &mut [i32]) {
    match to {
        DType::Bool => map(a, out, |a| i32::from(a != 0)),
        _ => {
            map(a, out, |a| a as i32);
            wrap(to, out);
        }
    }
}

/// How many partial sums a reduction keeps: enough to fill the vector units.
const PARTIALS: usize = 16;

/// The sum, in double precision.
pub(crate) fn sum_float(a: &[f32]) -> f64 {
    let mut partial = [0.0f64; PARTIALS];
    let (whole, tail) = a.as_chunks::<PARTIALS>();
    for chunk in whole {
        for (p, &v) in partial.iter_mut().zip(chunk) {
            *p += f64::from(v);
        }
    }
    partial.iter().sum::<f64>() + tail.iter().map(|&v| f64::from(v)).sum::<f64>()
}

/// The sum of products: each rounded to single, their sum in double precision.
pub(crate) fn dot_float(a: &[f32], b: &[f32]) -> f64 {
    let mut partial = [0.0f64; PARTIALS];
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<PARTIALS>(), b.as_chunks::<PARTIALS>());
    for (a, b) in a.iter().zip(b) {
        for ((p, &a), &b) in partial.iter_mut().zip(a).zip(b) {
            *p += f64::from(a * b);
        }
    }
    let tail: f64 = a_tail.iter().zip(b_tail).map(|(&a, &b)| f64::from(a * b)).sum();
    partial.iter().sum::<f64>() + tail
}

/// The maximum; NaN if there is one.
pub(crate) fn max_float(a: &[f32]) -> f32 {
    a.iter().fold(f32::NEG_INFINITY, |m, &v| max_f32(m, v))
}

/// An integer of a type as a number.
pub(crate) fn int_value(ty: DType, v: i32) -> i64 {
    if ty == DType::U32 { i64::from(v as u32) } else { i64::from(v) }
}

/// A number as an integer of a type.
pub(crate) fn int_bits(ty: DType, v: i64) -> i32 {
    let mut one = [0];
    index_to_int(ty, &[v], &mut one);
    one[0]
}

/// What a reduction of integers starts from.
pub(crate) fn int_identity(op: ReduceOp, ty: DType) -> i64 {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Max => ty.int_range().map_or(i64::MIN, |r| r.0),
    }
}

/// A constant in the class of floats.
pub(crate) fn const_float(ty: DType, c: Const) -> f32 {
    let mut v = [c.as_f32()];
    round(ty, &mut v);
    v[0]
}

/// A constant in the class of integers.
pub(crate) fn const_int(ty: DType, c: Const) -> i32 {
    int_bits(ty, c.as_int())
}

/// `f(x, y)` of two constants of type `ty`.
///
/// # Panics
/// If there is no such operation, or for a division by zero: a bug in the
/// caller.
pub(crate) fn const_binary(op: BinOp, ty: DType, x: Const, y: Const) -> Const {
    let comparison = matches!(op, BinOp::Lt | BinOp::Eq);
    let mut truth = [0];
    let done = match Class::of(ty) {
        Class::Float => {
            let (a, b) = ([x.as_f32()], [y.as_f32()]);
            if comparison {
                compare(op, &a, &b, &mut truth).map(|()| Const::Int(truth[0].into()))
            } else {
                let mut out = [0.0];
                binary_float(op, ty, &a, &b, &mut out).map(|()| Const::f32(out[0]))
            }
        }
        Class::Int => {
            let (a, b) = ([const_int(ty, x)], [const_int(ty, y)]);
            if comparison {
                compare_int(op, ty, &a, &b, &mut truth).map(|()| Const::Int(truth[0].into()))
            } else {
                let mut out = [0];
                binary_int(op, ty, &a, &b, &mut out).map(|()| Const::Int(int_value(ty, out[0])))
            }
        }
        Class::Index => {
            let (a, b) = ([x.as_int()], [y.as_int()]);
            if comparison {
                compare(op, &a, &b, &mut truth).map(|()| Const::Int(truth[0].into()))
            } else {
                let mut out = [0];
                binary_index(op, &a, &b, &mut out).map(|()| Const::Int(out[0]))
            }
        }
    };
    match done {
        Ok(c) => c,
        Err(fault) => panic!("{op:?} of {ty} constants: {fault}"),
    }
}
