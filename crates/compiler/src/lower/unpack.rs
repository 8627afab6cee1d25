//! Parts of quantised blocks as scalar expressions over their bytes, derived
//! from the row of the format.

use super::Lowering;
use crate::rewrite::rules::code_bias;
use gguf::format::{Blocks, Field, FloatKind, Scale};
use ir::{BinOp, Const, DType, FormatId, Graph, Id, Op, Part, Type, UnOp, index};

/// The top bit of a byte.
const SIGN: i64 = 128;

impl Lowering<'_> {
    /// Bits of a packed field of the block at byte `block`, for element `i` of
    /// the field, as u8 arithmetic, shifted up by `up` bits.
    fn field(&mut self, g: &mut Graph, bytes: Id, block: Id, field: &Field, (i, up): (Id, u32)) -> Id {
        let mut acc: Option<Id> = None;
        for p in &field.planes {
            let mut below = 1i64;
            let mut at = g.int(p.byte as i64);
            let mut shift = g.int(p.shift as i64);
            for d in p.digits.iter().rev() {
                let b = g.int(below);
                let e = g.int(d.extent as i64);
                let digit = g.binary(BinOp::Div, i, b);
                below *= d.extent as i64;
                let total: i64 = p.digits.iter().map(|d| d.extent as i64).product();
                let digit = if below == total { digit } else { g.binary(BinOp::Mod, digit, e) };
                let (kb, ks) = (g.int(d.byte as i64), g.int(d.bit as i64));
                let (mb, ms) = (g.mul(digit, kb), g.mul(digit, ks));
                at = g.add(at, mb);
                shift = g.add(shift, ms);
            }
            let at = g.add(block, at);
            let mut v = g.load(bytes, at, 1);
            if g.as_int(shift) != Some(0) {
                let s = g.cast(shift, DType::U8);
                v = g.binary(BinOp::Shr, v, s);
            }
            let top = index::bounds(g, shift).1 as u32 + p.width;
            if p.width < 8 && !(top == 8 && index::bounds(g, shift).0 as u32 + p.width == 8) {
                let m = g.constant(Const::Int((1 << p.width) - 1), DType::U8);
                v = g.binary(BinOp::And, v, m);
            }
            if p.lsb + up > 0 {
                let l = g.constant(Const::Int((p.lsb + up).into()), DType::U8);
                v = g.binary(BinOp::Shl, v, l);
            }
            acc = Some(match acc {
                None => v,
                Some(a) => g.binary(BinOp::Or, a, v),
            });
        }
        acc.unwrap()
    }

    fn scale(&mut self, g: &mut Graph, bytes: Id, block: Id, s: &Scale, i: Id) -> Id {
        let mut at = g.int(s.byte as i64);
        if let Some(floats) = s.floats {
            let (values, stride) = (g.int(floats.values.into()), g.int(floats.stride.into()));
            let nth = g.binary(BinOp::Div, i, values);
            let by = g.mul(nth, stride);
            at = g.add(at, by);
        }
        let at = g.add(block, at);
        let float = match s.kind {
            FloatKind::F16 => {
                let h = g.make(Op::Load, DType::F16, vec![], vec![bytes, at]);
                g.cast(h, DType::F32)
            }
            FloatKind::F32 => g.make(Op::Load, DType::F32, vec![], vec![bytes, at]),
            FloatKind::E8M0Half => {
                let e = g.load(bytes, at, 1);
                let e = g.cast(e, DType::I32);
                let bias = g.constant(Const::Int(128), DType::I32);
                let e = g.sub(e, bias);
                let e = g.cast(e, DType::F32);
                g.unary(UnOp::Exp2, e)
            }
            FloatKind::E4M3Half => {
                let byte = g.load(bytes, at, 1);
                e4m3_half(g, byte)
            }
            FloatKind::One => g.float(1.0),
        };
        match &s.sub {
            None => float,
            Some(sub) => {
                let k = g.int(sub.group as i64);
                let j = g.binary(BinOp::Div, i, k);
                let v = self.field(g, bytes, block, &sub.field, (j, 0));
                let v = if sub.field.signed { signed(g, v, sub.field.width()) } else { g.cast(v, DType::I32) };
                let z = g.constant(Const::Int(sub.zero as i64), DType::I32);
                let v = if sub.zero == 0 { v } else { g.sub(v, z) };
                let v = g.cast(v, DType::F32);
                g.mul(float, v)
            }
        }
    }

    /// What the code of element `i` stands for, as [`Part::Level`] has it.
    fn level(&mut self, g: &mut Graph, bytes: Id, block: Id, b: &Blocks, i: Id) -> Id {
        // Not shifted, where a table says it.
        let mut v = self.field(g, bytes, block, &b.code, (i, b.level_shift().unwrap_or(0)));
        if let Some(table) = &b.table {
            return looked_up(g, table, b.zero, DType::I8, v);
        }
        if !b.code.signed {
            // Half of the range less: the sign flips.
            let flip = g.constant(Const::Int(SIGN), DType::U8);
            v = g.binary(BinOp::Xor, v, flip);
        }
        g.cast(v, DType::I8)
    }

    pub(super) fn dequant(&mut self, g: &mut Graph, bytes: Id, f: FormatId, part: Part, at: &[Id]) -> Id {
        let format = g.format(f).clone();
        let b = format.as_blocks().expect("a block format").clone();
        let shape = g.shape(bytes).to_vec();
        let buffer = self.slot(g, bytes, false);
        let group = g.format_group(f);
        let k = match part {
            Part::Value | Part::Code | Part::Level => at[at.len() - 1],
            Part::Scale | Part::Offset => {
                let n = g.int(group);
                g.mul(at[at.len() - 1], n)
            }
        };
        let n = g.int(b.block as i64);
        let (nth, i) = (g.binary(BinOp::Div, k, n), g.binary(BinOp::Mod, k, n));
        let size = g.int(b.bytes as i64);
        let mut row = at.to_vec();
        *row.last_mut().unwrap() = g.mul(nth, size);
        let block = index::flatten(g, &shape, &row);
        let bias = code_bias(&b);
        let code = |l: &mut Self, g: &mut Graph| -> Id {
            let v = l.field(g, buffer, block, &b.code, (i, 0));
            match &b.table {
                Some(table) => looked_up(g, table, bias, DType::U8, v),
                None if b.code.signed => {
                    // Two's complement shifted up: the sign bit flips.
                    let flip = g.constant(Const::Int(1 << (b.code.width() - 1)), DType::U8);
                    g.binary(BinOp::Xor, v, flip)
                }
                None => v,
            }
        };
        match part {
            Part::Code => code(self, g),
            Part::Level => self.level(g, buffer, block, &b, i),
            Part::Scale => self.scale(g, buffer, block, &b.scale, i),
            Part::Offset => {
                let mut off: Option<Id> = None;
                if bias != b.zero {
                    let s = self.scale(g, buffer, block, &b.scale, i);
                    let z = g.float((bias - b.zero) as f32);
                    off = Some(g.mul(s, z));
                }
                if let Some((m, sign)) = &b.min {
                    let v = self.scale(g, buffer, block, m, i);
                    let v = if *sign < 0.0 { g.unary(UnOp::Neg, v) } else { v };
                    off = Some(match off {
                        Some(o) => g.add(o, v),
                        None => v,
                    });
                }
                off.unwrap_or_else(|| g.float(0.0))
            }
            Part::Value => {
                let c = code(self, g);
                let c = g.cast(c, DType::I32);
                let z = g.constant(Const::Int((b.zero - bias) as i64), DType::I32);
                let c = if b.zero == bias { c } else { g.sub(c, z) };
                let c = g.cast(c, DType::F32);
                let s = self.scale(g, buffer, block, &b.scale, i);
                let v = g.mul(s, c);
                match &b.min {
                    Some((m, sign)) => {
                        let m = self.scale(g, buffer, block, m, i);
                        if *sign < 0.0 { g.sub(v, m) } else { g.add(v, m) }
                    }
                    None => v,
                }
            }
        }
    }
}

/// The entry of a table at `code`, less `less`.
fn looked_up(g: &mut Graph, table: &[i8], less: i32, ty: DType, code: Id) -> Id {
    let mut entries: Vec<Const> = table.iter().map(|&e| Const::Int(i64::from(e) - i64::from(less))).collect();
    entries.resize(16, Const::Int(0));
    let table = g.make(Op::Lanes(entries), Type::vector(ty, 16), vec![], vec![]);
    g.make(Op::Lookup, ty, vec![], vec![table, code])
}

/// `width` low bits of a byte as a signed i32.
fn signed(g: &mut Graph, v: Id, width: u32) -> Id {
    let flip = g.constant(Const::Int(1 << (width - 1)), DType::U8);
    let v = g.binary(BinOp::Xor, v, flip);
    let v = g.cast(v, DType::I32);
    let bias = g.constant(Const::Int(1 << (width - 1)), DType::I32);
    g.sub(v, bias)
}

/// The float that a byte of [`FloatKind::E4M3Half`] stands for.
fn e4m3_half(g: &mut Graph, byte: Id) -> Id {
    let by = |g: &mut Graph, op, a, b| {
        let b = g.constant(Const::Int(b), DType::I32);
        g.binary(op, a, b)
    };
    let byte = g.cast(byte, DType::I32);
    let exponent = by(g, BinOp::Shr, byte, 3);
    let exponent = by(g, BinOp::And, exponent, 15);
    let mantissa = by(g, BinOp::And, byte, 7);
    // The first bit of the mantissa is not stored, and the least exponent has none.
    let normal = by(g, BinOp::Min, exponent, 1);
    let first = by(g, BinOp::Mul, normal, 8);
    let mantissa = g.add(mantissa, first);
    let exponent = by(g, BinOp::Max, exponent, 1);
    let exponent = by(g, BinOp::Sub, exponent, 11);
    let [mantissa, exponent] = [mantissa, exponent].map(|i| g.cast(i, DType::F32));
    let power = g.unary(UnOp::Exp2, exponent);
    g.mul(mantissa, power)
}
