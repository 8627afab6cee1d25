//! Operations of one element, or of each lane.

use super::inst::{Inst, call, cast, convert, grouped, infix, integer, numbers, pick, prefix, type_name, value};
use super::masks;
use crate::render::family::{is_promoted, sign};
use ir::{BinOp, Const, DType, Graph, Id, Op, Type, UnOp, index};

/// Functions and signs of one operand.
pub(super) fn unary(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Unary(op) = *g.op(id) else { return None };
    let (ty, a) = (g.ty(id), value(g.src(id)[0]));
    let function = |name: &str, a: Inst| match ty.lanes {
        1 => call(format!("kl_{name}"), [a]),
        n => call(format!("kl_{name}_{n}"), [a]),
    };
    let over = |a: Inst| grouped(infix(Inst::Number(Const::f32(1.0), DType::F32), "/", a));
    Some(match op {
        UnOp::Neg => grouped(prefix("-", a)),
        UnOp::Not if ty.lanes == 1 => grouped(prefix("!", a)),
        UnOp::Not => grouped(prefix("~", a)),
        UnOp::Recip => over(a),
        UnOp::Rsqrt => over(function("sqrt", a)),
        UnOp::Exp => function("exp", a),
        UnOp::Exp2 => function("exp2", a),
        UnOp::Sqrt => function("sqrt", a),
        UnOp::Sin => function("sin", a),
        UnOp::Cos => function("cos", a),
        UnOp::Abs => function("abs", a),
        UnOp::Round => function("round", a),
    })
}

/// Bytes shifted by the same known amount in each lane: no machine of ours shifts bytes by one instruction.
pub(super) fn bytes_shifted(g: &mut Graph, id: Id) -> Option<Inst> {
    let (op, a, amounts) = shift_of_bytes(g, id)?;
    let by = g.every_lane(amounts).filter(|by| (1..8).contains(by))?;
    let name = if op == BinOp::Shl { "shl" } else { "shr" };
    Some(call(format!("kl_{name}_{}", type_name(g.ty(id))), [value(a), integer(by)]))
}

/// Bytes shifted by other amounts in each four: words are shifted, and what comes from the next byte is cut off.
pub(super) fn fours_shifted(g: &mut Graph, id: Id) -> Option<Inst> {
    let (op, a, amounts) = shift_of_bytes(g, id)?;
    if g.every_lane(amounts).is_some() {
        return None;
    }
    let Op::Lanes(amounts) = g.op(amounts) else { return None };
    let amounts: Vec<i64> = amounts.iter().map(|c| c.as_int()).collect();
    let fours = amounts.chunks(4).all(|four| four.len() == 4 && four.iter().all(|by| *by == four[0]));
    if !fours || !amounts.iter().all(|by| (0..8).contains(by)) {
        return None;
    }
    let ty = g.ty(id);
    let words = Type::vector(DType::U32, usize::from(ty.lanes / 4));
    let (sign, left): (_, fn(&i64) -> i64) =
        if op == BinOp::Shl { ("<<", |by| 255 << by & 255) } else { (">>", |by| 255 >> by) };
    let by = numbers(words, amounts.iter().step_by(4).map(|by| Const::Int(*by)));
    let left = numbers(ty, amounts.iter().map(|by| Const::Int(left(by))));
    let shifted = grouped(infix(cast(words, value(a)), sign, by));
    Some(grouped(infix(cast(ty, shifted), "&", left)))
}

/// Bytes shifted down by other amounts in each lane, as where neighbours share a byte: the upper byte of a product with a
/// power of two, in words for every second lane.
pub(super) fn lanes_shifted(g: &mut Graph, id: Id) -> Option<Inst> {
    let (BinOp::Shr, a, amounts) = shift_of_bytes(g, id)? else { return None };
    let Op::Lanes(amounts) = g.op(amounts) else { return None };
    let amounts: Vec<i64> = amounts.iter().map(|c| c.as_int()).collect();
    if !amounts.len().is_multiple_of(2) || !amounts.iter().all(|by| (0..8).contains(by)) {
        return None;
    }
    let words = Type::vector(DType::U16, amounts.len() / 2);
    let with_all = |a: Inst, sign, number: i64| {
        grouped(infix(a, sign, numbers(words, vec![Const::Int(number); words.lanes.into()])))
    };
    let product = |bytes: Inst, first: usize| {
        let factors = amounts.iter().skip(first).step_by(2).map(|by| Const::Int(1 << (8 - by)));
        grouped(infix(bytes, "*", numbers(words, factors)))
    };
    let bytes = || cast(words, value(a));
    let even = with_all(product(with_all(bytes(), "&", 0xff), 0), ">>", 8);
    let odd = with_all(product(with_all(bytes(), ">>", 8), 1), "&", 0xff00);
    Some(grouped(cast(g.ty(id), grouped(infix(even, "|", odd)))))
}

/// The operation, the bytes and the amounts of a shift of a vector of bytes.
fn shift_of_bytes(g: &Graph, id: Id) -> Option<(BinOp, Id, Id)> {
    let (Op::Binary(op @ (BinOp::Shl | BinOp::Shr)), [a, by]) = (g.op(id), g.src(id)) else { return None };
    let ty = g.ty(id);
    (ty.base == DType::U8 && ty.lanes >= 4).then_some((*op, *a, *by))
}

/// Functions and signs of two operands.
pub(super) fn binary(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Binary(op) = *g.op(id) else { return None };
    let (left, right) = (g.src(id)[0], g.src(id)[1]);
    let ty = g.ty(left);
    let (bits, others) = (masks::bits(g, left), masks::bits(g, right));
    let (a, b) = (value(left), masks::widened(value(right), others, bits, g.ty(id).lanes));
    if let Some(sign) = sign(op) {
        let text = grouped(infix(a, sign, b));
        let narrow = is_promoted(ty) && !matches!(op, BinOp::Lt | BinOp::Eq);
        return Some(if narrow { cast(ty, text) } else { text });
    }
    Some(match op {
        BinOp::Div | BinOp::Mod => {
            let (sign, name) = if op == BinOp::Div { ("/", "div") } else { ("%", "mod") };
            // Of what is not negative, quotients round down as they are.
            let natural = g.ty(id).base.is_int() && index::bounds(g, left).0 >= 0;
            match ty.lanes {
                _ if natural || op == BinOp::Div && ty.base.is_float() => grouped(infix(a, sign, b)),
                1 => call(format!("kl_{name}"), [a, b]),
                _ => call(format!("kl_{name}_{}", type_name(ty)), [a, b]),
            }
        }
        _ => {
            let (sign, name) = if op == BinOp::Min { ("<", "min") } else { (">", "max") };
            match (ty.base.is_float(), ty.lanes) {
                (true, 1) => call(format!("kl_{name}"), [a, b]),
                (true, n) => call(format!("kl_{name}_f32_{n}"), [a, b]),
                (false, 1) => pick(infix(a.clone(), sign, b.clone()), a, b),
                (false, _) => call(format!("kl_{name}_{}", type_name(ty)), [a, b]),
            }
        }
    })
}

/// One of two values.
pub(super) fn select(g: &mut Graph, id: Id) -> Option<Inst> {
    if *g.op(id) != Op::Where {
        return None;
    }
    let (ty, src) = (g.ty(id), g.src(id));
    let condition = value(src[0]);
    if ty.lanes == 1 {
        return Some(pick(condition, value(src[1]), value(src[2])));
    }
    let mask = masks::widened(condition, masks::bits(g, src[0]), ty.base.bytes() * 8, ty.lanes);
    Some(call(format!("kl_select_{}", type_name(ty)), [mask, masks::lanes(g, src[1]), masks::lanes(g, src[2])]))
}

fn is_half(ty: DType) -> bool {
    matches!(ty, DType::F16 | DType::BF16)
}

fn is_byte(ty: DType) -> bool {
    matches!(ty, DType::U8 | DType::I8)
}

/// Conversions of scalars.
pub(super) fn scalar_cast(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Cast, Type { base: to, lanes: 1 }) = (g.op(id), g.ty(id)) else { return None };
    let (from, a) = (g.dtype(g.src(id)[0]), value(g.src(id)[0]));
    Some(match (from, to) {
        (f, DType::F32) if is_half(f) => call(format!("kl_from_{f}"), [a]),
        (DType::F32, t) if is_half(t) => call(format!("kl_to_{t}"), [a]),
        (DType::F32, t) if t.is_int() => cast(t.into(), call("kl_to_int", [a])),
        _ => cast(to.into(), a),
    })
}

/// Masks as numbers.
pub(super) fn mask_cast(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Cast, DType::Bool) = (g.op(id), g.dtype(*g.src(id).first()?)) else { return None };
    let (to, mask) = (g.ty(id), g.src(id)[0]);
    let wide = masks::widened(value(mask), masks::bits(g, mask), to.base.bytes() * 8, to.lanes);
    Some(match to.base.is_float() {
        true => convert(Type { base: DType::F32, ..to }, prefix("-", wide)),
        false => grouped(cast(to, grouped(prefix("-", wide)))),
    })
}

/// Conversions of vectors of numbers. A compiler goes lane by lane where the width changes by more than two, so those
/// are functions of the prelude.
pub(super) fn vector_cast(g: &mut Graph, id: Id) -> Option<Inst> {
    if *g.op(id) != Op::Cast {
        return None;
    }
    let (from, to, a) = (g.dtype(g.src(id)[0]), g.ty(id), value(g.src(id)[0]));
    let n = to.lanes;
    let of = |base: DType| Type { base, lanes: n };
    let words = |f: DType, a: Inst| call(format!("kl_words_{}", type_name(of(f))), [a]);
    let integers = |a: Inst| call(format!("kl_to_int_{n}"), [a]);
    let bytes = |a: Inst| call(format!("kl_bytes_{}", type_name(to)), [a]);
    Some(match (from, to.base) {
        (f, DType::F32) if is_half(f) => call(format!("kl_from_{f}_{n}"), [a]),
        (DType::F32, t) if is_half(t) => call(format!("kl_to_{t}_{n}"), [a]),
        (DType::F32, t) if is_byte(t) => bytes(integers(a)),
        (DType::F32, t) if t.bytes() < 4 => convert(to, integers(a)),
        (f, DType::F32) if is_byte(f) => convert(to, words(f, a)),
        (f, DType::I32) if is_byte(f) => words(f, a),
        (DType::I32, t) if is_byte(t) => bytes(a),
        (DType::F32, DType::I32) => integers(a),
        // In one step, gcc converts lane by lane.
        (f, DType::F32) if f.is_int() && f.bytes() < 4 => convert(to, convert(of(DType::I32), a)),
        _ => convert(to, a),
    })
}
