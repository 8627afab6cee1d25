//! Every row of the table of formats against a formula written out by hand, on random blocks, bit for bit.

use gguf::GgmlType;
use gguf::dequant::{DequantError, Dequantiser, dequantise};
use gguf::format::{Blocks, Digit, Field, FloatKind, Format, Plane, Scale};
use half::{bf16, f16};

/// A small generator (splitmix64), so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

const IQ4: [f32; 16] = [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];
const FP4: [f32; 16] = [0., 1., 2., 3., 4., 6., 8., 12., 0., -1., -2., -3., -4., -6., -8., -12.];

fn h(b: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([b[at], b[at + 1]]).to_f32()
}

fn lo(b: u8) -> u8 {
    b & 15
}

fn hi(b: u8) -> u8 {
    b >> 4
}

/// Nibble of value `i` of a block of 32 whose nibbles start at `qs`.
fn nibble32(b: &[u8], qs: usize, i: usize) -> u8 {
    if i < 16 { lo(b[qs + i]) } else { hi(b[qs + i - 16]) }
}

fn bit32(b: &[u8], qh: usize, i: usize) -> u8 {
    let word = u32::from_le_bytes([b[qh], b[qh + 1], b[qh + 2], b[qh + 3]]);
    (word >> i & 1) as u8
}

/// Scale and minimum `j` of the twelve bytes `s` of Q4_K and Q5_K.
fn six_bits(s: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        (lo(s[j + 4]) | (s[j - 4] >> 6) << 4, hi(s[j + 4]) | (s[j] >> 6) << 4)
    }
}

/// Value `i` of a block, straight from the description of the format.
fn by_hand(ty: GgmlType, b: &[u8], i: usize) -> f32 {
    match ty {
        GgmlType::F32 => f32::from_le_bytes(b.try_into().unwrap()),
        GgmlType::F16 => h(b, 0),
        GgmlType::BF16 => bf16::from_le_bytes(b.try_into().unwrap()).to_f32(),
        GgmlType::F64 => f64::from_le_bytes(b.try_into().unwrap()) as f32,
        GgmlType::I8 => b[0] as i8 as f32,
        GgmlType::I16 => i16::from_le_bytes(b.try_into().unwrap()) as f32,
        GgmlType::I32 => i32::from_le_bytes(b.try_into().unwrap()) as f32,
        GgmlType::I64 => i64::from_le_bytes(b.try_into().unwrap()) as f32,
        GgmlType::Q4_0 => h(b, 0) * (nibble32(b, 2, i) as f32 - 8.),
        GgmlType::Q4_1 => h(b, 0) * nibble32(b, 4, i) as f32 + h(b, 2),
        GgmlType::Q5_0 => h(b, 0) * ((nibble32(b, 6, i) | bit32(b, 2, i) << 4) as f32 - 16.),
        GgmlType::Q5_1 => h(b, 0) * (nibble32(b, 8, i) | bit32(b, 4, i) << 4) as f32 + h(b, 2),
        GgmlType::Q8_0 => h(b, 0) * (b[2 + i] as i8) as f32,
        GgmlType::Q8_1 => h(b, 0) * (b[4 + i] as i8) as f32,
        GgmlType::Q2_K => {
            let (n, s, l) = (i / 128, i % 128 / 32, i % 32);
            let v = b[16 + 32 * n + l] >> (2 * s) & 3;
            let scales = b[i / 16];
            (h(b, 80) * lo(scales) as f32) * v as f32 - h(b, 82) * hi(scales) as f32
        }
        GgmlType::Q3_K => {
            let (n, s, l) = (i / 128, i % 128 / 32, i % 32);
            let v = (b[32 + 32 * n + l] >> (2 * s) & 3) + 4 * (b[l] >> (4 * n + s) & 1);
            let (sc, j) = (&b[96..108], i / 16);
            let low = if j < 8 { lo(sc[j]) } else { hi(sc[j - 8]) };
            let scale = low | (sc[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
            (h(b, 108) * (scale as f32 - 32.)) * (v as f32 - 4.)
        }
        GgmlType::Q4_K => {
            let (scale, min) = six_bits(&b[4..16], i / 32);
            let byte = b[16 + 32 * (i / 64) + i % 32];
            let v = if (i / 32) & 1 == 0 { lo(byte) } else { hi(byte) };
            (h(b, 0) * scale as f32) * v as f32 - h(b, 2) * min as f32
        }
        GgmlType::Q5_K => {
            let (scale, min) = six_bits(&b[4..16], i / 32);
            let byte = b[48 + 32 * (i / 64) + i % 32];
            let v = if (i / 32) & 1 == 0 { lo(byte) } else { hi(byte) };
            let v = v | (b[16 + i % 32] >> (i / 32) & 1) << 4;
            (h(b, 0) * scale as f32) * v as f32 - h(b, 2) * min as f32
        }
        GgmlType::Q6_K => {
            let (n, k, l) = (i / 128, i % 128 / 32, i % 32);
            let byte = b[64 * n + 32 * (k & 1) + l];
            let nibble = if k < 2 { lo(byte) } else { hi(byte) };
            let high = b[128 + 32 * n + l] >> (2 * k) & 3;
            (h(b, 208) * (b[192 + i / 16] as i8) as f32) * ((nibble | high << 4) as f32 - 32.)
        }
        GgmlType::Q8_K => f32::from_le_bytes(b[..4].try_into().unwrap()) * (b[4 + i] as i8) as f32,
        GgmlType::IQ4_NL => h(b, 0) * IQ4[nibble32(b, 2, i) as usize],
        GgmlType::IQ4_XS => {
            let ib = i / 32;
            let high = u16::from_le_bytes([b[2], b[3]]) >> (2 * ib) & 3;
            let scale = (b[4 + ib / 2] >> (4 * (ib & 1)) & 15) | (high as u8) << 4;
            (h(b, 0) * (scale as f32 - 32.)) * IQ4[nibble32(b, 8 + 16 * ib, i % 32) as usize]
        }
        GgmlType::MXFP4 => 2f64.powi(b[0] as i32 - 128) as f32 * FP4[nibble32(b, 1, i) as usize],
        GgmlType::TQ1_0 => {
            let (byte, digit) = match i {
                0..160 => (i % 32, i / 32),
                160..240 => (32 + (i - 160) % 16, (i - 160) / 16),
                _ => (48 + (i - 240) % 4, (i - 240) / 4),
            };
            let moved = b[byte].wrapping_mul([1, 3, 9, 27, 81][digit]);
            h(b, 52) * (((u16::from(moved) * 3) >> 8) as f32 - 1.)
        }
        GgmlType::TQ2_0 => h(b, 64) * ((b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3) as f32 - 1.),
        GgmlType::NVFP4 => {
            let (scale, byte) = (b[i / 16], b[4 + 8 * (i / 16) + i % 8]);
            let (exponent, mantissa) = ((scale >> 3 & 15) as i32, (scale & 7) as f32);
            let raw = match exponent {
                0 => mantissa * 2f32.powi(-9),
                _ => (1. + mantissa / 8.) * 2f32.powi(exponent - 7),
            };
            raw * 0.5 * FP4[if i % 16 < 8 { lo(byte) } else { hi(byte) } as usize]
        }
        GgmlType::Q1_0 => h(b, 0) * if b[2 + i / 8] >> (i % 8) & 1 == 1 { 1. } else { -1. },
        GgmlType::Q2_0 => h(b, 0) * ((b[2 + i / 4] >> (2 * (i % 4)) & 3) as f32 - 1.),
        _ => panic!("no formula for {ty}"),
    }
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (a == 0.0 && b == 0.0)
}

#[test]
fn rows_are_the_formulas() {
    let mut random = Random(1);
    for &ty in GgmlType::ALL {
        let Some(dequantiser) = Dequantiser::of_type(ty) else { continue };
        let (block_len, block_bytes) = (ty.block_len() as usize, ty.block_bytes() as usize);
        let blocks = if block_len == 1 { 4096 } else { 200 };
        let data = random.bytes(blocks * block_bytes);
        let mut values = vec![0f32; blocks * block_len];
        dequantiser.run(&data, &mut values).unwrap();
        for (at, &value) in values.iter().enumerate() {
            let block = &data[at / block_len * block_bytes..][..block_bytes];
            let want = by_hand(ty, block, at % block_len);
            assert!(same(value, want), "{ty} value {at}: {value} instead of {want}");
            if let Some(blocks) = ty.format().and_then(Format::as_blocks) {
                let plain = blocks.value(block, (at % block_len) as u32);
                assert!(same(plain, want), "{ty} value {at}: {plain} instead of {want}");
            }
        }
    }
}

#[test]
fn every_code_survives_its_planes() {
    let mut random = Random(2);
    for &ty in GgmlType::ALL {
        let Some(blocks) = ty.format().and_then(Format::as_blocks) else {
            continue;
        };
        let mut fields = vec![(&blocks.code, blocks.block)];
        let subs = [Some(&blocks.scale), blocks.min.as_ref().map(|(min, _)| min)].into_iter().flatten();
        fields.extend(
            subs.filter_map(|scale| Some((&scale.sub.as_ref()?.field, blocks.block / scale.sub.as_ref()?.group))),
        );
        for (field, count) in fields {
            let (least, greatest) = field.range();
            let mut block = random.bytes(blocks.bytes as usize);
            let values: Vec<i32> =
                (0..count).map(|_| least + (random.next() % (greatest - least + 1) as u64) as i32).collect();
            (0..count).for_each(|i| field.put(&mut block, i, values[i as usize]));
            (0..count).for_each(|i| assert_eq!(field.get(&block, i), values[i as usize], "{ty} index {i}"));
        }
    }
}

/// 24 values of 3 bits in two planes, 5-bit scales for groups of 8: a format that no file has.
fn invented() -> Format {
    Format::blocks(
        "X3",
        Blocks {
            block: 24,
            bytes: 14,
            code: Field::unsigned(vec![
                Plane::new(0, 2, &[Digit::bits(4, 2), Digit::bytes(6, 1)]),
                Plane::new(6, 1, &[Digit::bytes(3, 1), Digit::bits(8, 1)]).lsb(2),
            ]),
            table: None,
            zero: 3,
            scale: Scale::grouped(
                FloatKind::F16,
                12,
                Field::unsigned(vec![Plane::new(9, 5, &[Digit::bytes(3, 1)])]),
                8,
                0,
            ),
            min: None,
        },
    )
}

#[test]
fn a_format_made_at_run_time() {
    let format = invented();
    format.check().unwrap();
    assert_eq!((format.row_bytes(48), format.row_bytes(32)), (Some(28), None));
    let data = Random(3).bytes(14 * 100);
    let mut values = vec![0f32; 24 * 100];
    dequantise(&format, &data, &mut values).unwrap();
    for (at, value) in values.iter().enumerate() {
        let (b, i) = (&data[at / 24 * 14..][..14], at % 24);
        let code = (b[i % 6] >> (2 * (i / 6)) & 3) | (b[6 + i / 8] >> (i % 8) & 1) << 2;
        let want = (h(b, 12) * (b[9 + i / 8] & 31) as f32) * (code as f32 - 3.);
        assert!(same(*value, want), "value {at}: {value} instead of {want}");
    }
}

#[test]
fn lengths_are_checked() {
    let format = GgmlType::Q4_0.format().unwrap();
    let run = Dequantiser::new(format).unwrap();
    let part = run.run(&[0; 17], &mut [0.0; 32]).unwrap_err();
    assert!(matches!(part, DequantError::PartBlock { bytes: 17, .. }));
    assert_eq!(part.to_string(), "17 bytes of Q4_0 data are not a whole number of blocks of 18 bytes");
    let short = run.run(&[0; 36], &mut [0.0; 32]).unwrap_err();
    assert!(matches!(short, DequantError::Length { values: 64, room: 32, .. }));
    run.run(&[], &mut []).unwrap();
    let mut unsound = format.clone();
    if let gguf::format::Encoding::Blocks(blocks) = &mut unsound.encoding {
        blocks.bytes = 3;
    }
    assert!(matches!(dequantise(&unsound, &[], &mut []), Err(DequantError::Format(_))));
}
