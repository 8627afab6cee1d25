//! The table of formats that Kernloom computes with.
//!
//! Layouts as in the GGUF files of the field (ggml's block types). Below, a digit list reads from the most significant
//! digit of the element's index to the least.

use super::Digit as D;
use super::{Blocks, Field, FloatKind, Floats, Format, PlainKind, Plane, Scale};
use std::sync::LazyLock;

/// Levels of the non-linear 4-bit formats (IQ4_NL, IQ4_XS).
const IQ4_LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of the 4-bit float E2M1; the scales of MXFP4 and NVFP4 are halved in return.
const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

static ROWS: LazyLock<Vec<Format>> = LazyLock::new(|| {
    vec![
        Format::plain("F32", PlainKind::F32),
        Format::plain("F16", PlainKind::F16),
        Format::plain("BF16", PlainKind::BF16),
        Format::plain("F64", PlainKind::F64),
        Format::plain("I8", PlainKind::I8),
        Format::plain("I16", PlainKind::I16),
        Format::plain("I32", PlainKind::I32),
        Format::plain("I64", PlainKind::I64),
        Format::blocks("Q4_0", q4_0()),
        Format::blocks("Q4_1", q4_1()),
        Format::blocks("Q5_0", q5_0()),
        Format::blocks("Q5_1", q5_1()),
        Format::blocks("Q8_0", q8_0()),
        Format::blocks("Q8_1", q8_1()),
        Format::blocks("Q2_K", q2_k()),
        Format::blocks("Q3_K", q3_k()),
        Format::blocks("Q4_K", q4_k()),
        Format::blocks("Q5_K", q5_k()),
        Format::blocks("Q6_K", q6_k()),
        Format::blocks("Q8_K", q8_k()),
        Format::blocks("IQ4_NL", iq4_nl()),
        Format::blocks("IQ4_XS", iq4_xs()),
        Format::blocks("TQ2_0", tq2_0()),
        Format::blocks("MXFP4", mxfp4()),
        Format::blocks("NVFP4", nvfp4()),
        Format::blocks("Q1_0", q1_0()),
        Format::blocks("Q2_0", q2_0()),
    ]
});

/// All rows, plain types first.
pub fn rows() -> &'static [Format] {
    &ROWS
}

/// 32 nibbles from `byte` on: low nibbles of 16 bytes, then the high ones.
fn nibbles32(byte: u32) -> Plane {
    Plane::new(byte, 4, &[D::bits(2, 4), D::bytes(16, 1)])
}

/// The fifth bits of 32 codes: bit `i` of a little-endian word.
fn fifth_bits32(byte: u32) -> Plane {
    Plane::new(byte, 1, &[D::bytes(4, 1), D::bits(8, 1)]).lsb(4)
}

/// 256 nibbles from `byte` on: per 64 values low nibbles of 32 bytes, then the high ones.
fn nibbles256(byte: u32) -> Plane {
    Plane::new(byte, 4, &[D::bytes(4, 32), D::bits(2, 4), D::bytes(32, 1)])
}

/// 256 pairs of bits from `byte` on: per 128 values four pairs of each of 32 bytes.
fn pairs256(byte: u32) -> Plane {
    Plane::new(byte, 2, &[D::bytes(2, 32), D::bits(4, 2), D::bytes(32, 1)])
}

/// `count` whole bytes.
fn bytes(byte: u32, count: u32) -> Plane {
    Plane::new(byte, 8, &[D::bytes(count, 1)])
}

fn q4_0() -> Blocks {
    Blocks {
        block: 32,
        bytes: 18,
        code: Field::unsigned(vec![nibbles32(2)]),
        table: None,
        zero: 8,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}

fn q4_1() -> Blocks {
    Blocks {
        block: 32,
        bytes: 20,
        code: Field::unsigned(vec![nibbles32(4)]),
        table: None,
        zero: 0,
        scale: Scale::whole(FloatKind::F16, 0),
        min: Some((Scale::whole(FloatKind::F16, 2), 1.0)),
    }
}

fn q5_0() -> Blocks {
    Blocks {
        block: 32,
        bytes: 22,
        code: Field::unsigned(vec![nibbles32(6), fifth_bits32(2)]),
        table: None,
        zero: 16,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}

fn q5_1() -> Blocks {
    Blocks {
        block: 32,
        bytes: 24,
        code: Field::unsigned(vec![nibbles32(8), fifth_bits32(4)]),
        table: None,
        zero: 0,
        scale: Scale::whole(FloatKind::F16, 0),
        min: Some((Scale::whole(FloatKind::F16, 2), 1.0)),
    }
}

fn q8_0() -> Blocks {
    Blocks {
        block: 32,
        bytes: 34,
        code: Field::signed(vec![bytes(2, 32)]),
        table: None,
        zero: 0,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}

/// Activations. Bytes 2..4 hold scale times the sum of the codes, which a value does not need.
fn q8_1() -> Blocks {
    Blocks {
        block: 32,
        bytes: 36,
        code: Field::signed(vec![bytes(4, 32)]),
        table: None,
        zero: 0,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}

fn q2_k() -> Blocks {
    let scales = Field::unsigned(vec![Plane::new(0, 4, &[D::bytes(16, 1)])]);
    let mins = Field::unsigned(vec![Plane::new(0, 4, &[D::bytes(16, 1)]).shift(4)]);
    Blocks {
        block: 256,
        bytes: 84,
        code: Field::unsigned(vec![pairs256(16)]),
        table: None,
        zero: 0,
        scale: Scale::grouped(FloatKind::F16, 80, scales, 16, 0),
        min: Some((Scale::grouped(FloatKind::F16, 82, mins, 16, 0), -1.0)),
    }
}

fn q3_k() -> Blocks {
    let third_bits = Plane::new(0, 1, &[D::bits(2, 4), D::bits(4, 1), D::bytes(32, 1)]).lsb(2);
    let scales = Field::unsigned(vec![
        Plane::new(96, 4, &[D::bits(2, 4), D::bytes(8, 1)]),
        Plane::new(104, 2, &[D::bits(4, 2), D::bytes(4, 1)]).lsb(4),
    ]);
    Blocks {
        block: 256,
        bytes: 110,
        code: Field::unsigned(vec![pairs256(32), third_bits]),
        table: None,
        zero: 4,
        scale: Scale::grouped(FloatKind::F16, 108, scales, 16, 32),
        min: None,
    }
}

/// The 6-bit scales and minima that Q4_K and Q5_K pack into the twelve bytes 4..16.
fn six_bit_pairs() -> (Scale, Scale) {
    let scales = Field::unsigned(vec![
        Plane::new(4, 4, &[D::bytes(2, 8), D::bytes(4, 1)]),
        Plane::new(4, 2, &[D::bits(2, 2), D::bytes(4, 1)]).shift(4).lsb(4),
    ]);
    let mins = Field::unsigned(vec![
        Plane::new(8, 4, &[D { extent: 2, byte: 4, bit: 4 }, D::bytes(4, 1)]),
        Plane::new(8, 2, &[D::bits(2, 2), D::bytes(4, 1)]).shift(4).lsb(4),
    ]);
    (Scale::grouped(FloatKind::F16, 0, scales, 32, 0), Scale::grouped(FloatKind::F16, 2, mins, 32, 0))
}

fn q4_k() -> Blocks {
    let (scale, min) = six_bit_pairs();
    Blocks {
        block: 256,
        bytes: 144,
        code: Field::unsigned(vec![nibbles256(16)]),
        table: None,
        zero: 0,
        scale,
        min: Some((min, -1.0)),
    }
}

fn q5_k() -> Blocks {
    let (scale, min) = six_bit_pairs();
    let fifth_bits = Plane::new(16, 1, &[D::bits(8, 1), D::bytes(32, 1)]).lsb(4);
    Blocks {
        block: 256,
        bytes: 176,
        code: Field::unsigned(vec![nibbles256(48), fifth_bits]),
        table: None,
        zero: 0,
        scale,
        min: Some((min, -1.0)),
    }
}

fn q6_k() -> Blocks {
    let low = Plane::new(0, 4, &[D::bytes(2, 64), D::bits(2, 4), D::bytes(2, 32), D::bytes(32, 1)]);
    Blocks {
        block: 256,
        bytes: 210,
        code: Field::unsigned(vec![low, pairs256(128).lsb(4)]),
        table: None,
        zero: 32,
        scale: Scale::grouped(FloatKind::F16, 208, Field::signed(vec![bytes(192, 16)]), 16, 0),
        min: None,
    }
}

/// Activations. Bytes 260..292 hold the sums of 16 codes each, which a value does not need.
fn q8_k() -> Blocks {
    Blocks {
        block: 256,
        bytes: 292,
        code: Field::signed(vec![bytes(4, 256)]),
        table: None,
        zero: 0,
        scale: Scale::whole(FloatKind::F32, 0),
        min: None,
    }
}

fn iq4_nl() -> Blocks {
    Blocks {
        block: 32,
        bytes: 18,
        code: Field::unsigned(vec![nibbles32(2)]),
        table: Some(IQ4_LEVELS.to_vec()),
        zero: 0,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}

fn iq4_xs() -> Blocks {
    let scales = Field::unsigned(vec![
        Plane::new(4, 4, &[D::bytes(4, 1), D::bits(2, 4)]),
        Plane::new(2, 2, &[D::bytes(2, 1), D::bits(4, 2)]).lsb(4),
    ]);
    Blocks {
        block: 256,
        bytes: 136,
        code: Field::unsigned(vec![Plane::new(8, 4, &[D::bytes(8, 16), D::bits(2, 4), D::bytes(16, 1)])]),
        table: Some(IQ4_LEVELS.to_vec()),
        zero: 0,
        scale: Scale::grouped(FloatKind::F16, 0, scales, 32, 32),
        min: None,
    }
}

fn mxfp4() -> Blocks {
    Blocks {
        block: 32,
        bytes: 17,
        code: Field::unsigned(vec![nibbles32(1)]),
        table: Some(E2M1_DOUBLED.to_vec()),
        zero: 0,
        scale: Scale::whole(FloatKind::E8M0Half, 0),
        min: None,
    }
}

/// -1, 0, 1, and 2, which files of ternary models do not have.
fn tq2_0() -> Blocks {
    Blocks {
        block: 256,
        bytes: 66,
        code: Field::unsigned(vec![pairs256(0)]),
        table: None,
        zero: 1,
        scale: Scale::whole(FloatKind::F16, 64),
        min: None,
    }
}

/// Each 16 values have a scale of their own, and low nibbles of eight bytes before the high ones.
fn nvfp4() -> Blocks {
    let scale = Scale::whole(FloatKind::E4M3Half, 0);
    Blocks {
        block: 64,
        bytes: 36,
        code: Field::unsigned(vec![Plane::new(4, 4, &[D::bytes(4, 8), D::bits(2, 4), D::bytes(8, 1)])]),
        table: Some(E2M1_DOUBLED.to_vec()),
        zero: 0,
        scale: Scale { floats: Some(Floats { values: 16, stride: 1 }), ..scale },
        min: None,
    }
}

/// A factor, or the same with a minus where the bit is 0.
fn q1_0() -> Blocks {
    Blocks {
        block: 128,
        bytes: 18,
        code: Field::unsigned(vec![Plane::new(2, 1, &[D::bytes(16, 1), D::bits(8, 1)])]),
        table: Some(vec![-1, 1]),
        zero: 0,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}

/// The levels of TQ2_0, four neighbours in a byte.
fn q2_0() -> Blocks {
    Blocks {
        block: 64,
        bytes: 18,
        code: Field::unsigned(vec![Plane::new(2, 2, &[D::bytes(16, 1), D::bits(4, 2)])]),
        table: None,
        zero: 1,
        scale: Scale::whole(FloatKind::F16, 0),
        min: None,
    }
}
