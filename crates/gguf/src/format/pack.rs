//! Reading and writing the integers of a [`Field`] through its planes.

use super::{Blocks, Field, FloatKind, Scale};

impl Field {
    /// Bits of the integer: the end of the highest plane.
    pub fn width(&self) -> u32 {
        self.planes.iter().map(|plane| plane.lsb + plane.width).max().unwrap_or(0)
    }

    /// Least and greatest integer that the field can hold.
    pub fn range(&self) -> (i32, i32) {
        let width = self.width().min(31);
        match self.signed {
            true if width > 0 => (-(1 << (width - 1)), (1 << (width - 1)) - 1),
            _ => (0, ((1i64 << width) - 1) as i32),
        }
    }

    /// The integer at `index`.
    ///
    /// # Panics
    /// If the block is shorter than the row says, or `index` is beyond the field of a row that fails its check.
    pub fn get(&self, block: &[u8], index: u32) -> i32 {
        let mut bits = 0u32;
        for plane in &self.planes {
            let (byte, bit) = plane.address(index);
            let part = (u32::from(block[byte as usize]) >> bit) & mask(plane.width);
            bits |= part << plane.lsb;
        }
        self.extend(bits)
    }

    /// Stores `value` at `index`. Bits above the width of the field are dropped: clamp to [`Field::range`] first.
    ///
    /// # Panics
    /// As [`Field::get`].
    pub fn put(&self, block: &mut [u8], index: u32, value: i32) {
        for plane in &self.planes {
            let (byte, bit) = plane.address(index);
            let part = ((value as u32) >> plane.lsb) & mask(plane.width);
            let cell = &mut block[byte as usize];
            *cell = (u32::from(*cell) & !(mask(plane.width) << bit) | part << bit) as u8;
        }
    }

    /// The bits of an integer of this field as a number: sign-extended if the field is signed.
    pub(crate) fn extend(&self, bits: u32) -> i32 {
        let width = self.width();
        if self.signed && (1..32).contains(&width) {
            let unused = 32 - width;
            ((bits << unused) as i32) >> unused
        } else {
            bits as i32
        }
    }
}

/// The `width` lowest bits.
pub(crate) fn mask(width: u32) -> u32 {
    ((1u64 << width) - 1) as u32
}

impl FloatKind {
    /// Bytes in the block.
    pub const fn bytes(self) -> u32 {
        match self {
            FloatKind::F16 => 2,
            FloatKind::F32 => 4,
            FloatKind::E8M0Half | FloatKind::E4M3Half => 1,
            FloatKind::One => 0,
        }
    }

    /// Reads the float at the start of `at`.
    ///
    /// # Panics
    /// If `at` is shorter than [`FloatKind::bytes`].
    pub fn get(self, at: &[u8]) -> f32 {
        match self {
            FloatKind::F16 => half::f16::from_le_bytes([at[0], at[1]]).to_f32(),
            FloatKind::F32 => f32::from_le_bytes([at[0], at[1], at[2], at[3]]),
            FloatKind::E8M0Half => e8m0_half(at[0]),
            FloatKind::E4M3Half => e4m3_half(at[0]),
            FloatKind::One => 1.0,
        }
    }

    /// Stores the float nearest to `value` at the start of `at` and returns what was stored.
    ///
    /// [`FloatKind::E8M0Half`] takes the nearest power of two in its range (in ratio, for a positive `value`). Beyond the range
    /// of the others, infinity is returned.
    ///
    /// # Panics
    /// If `at` is shorter than [`FloatKind::bytes`].
    pub fn put(self, at: &mut [u8], value: f32) -> f32 {
        match self {
            FloatKind::F16 => {
                let half = half::f16::from_f32(value);
                at[..2].copy_from_slice(&half.to_le_bytes());
                half.to_f32()
            }
            FloatKind::F32 => {
                at[..4].copy_from_slice(&value.to_le_bytes());
                value
            }
            FloatKind::E8M0Half => {
                at[0] = nearest_exponent(value);
                e8m0_half(at[0])
            }
            FloatKind::E4M3Half => {
                at[0] = nearest_e4m3(value);
                if at[0] > LARGEST_E4M3 { f32::INFINITY } else { e4m3_half(at[0]) }
            }
            FloatKind::One => 1.0,
        }
    }
}

/// The `e` whose `2^(e - 128)` is nearest to `value` in ratio; 0 for what is not positive.
fn nearest_exponent(value: f32) -> u8 {
    if value.is_nan() || value <= 0.0 {
        return 0;
    }
    // Every f32 is a normal f64, so the exponent is in the bits.
    let bits = f64::from(value).to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1.0f64.to_bits());
    let up = i64::from(mantissa > std::f64::consts::SQRT_2);
    (exponent + up + 128).clamp(0, 254) as u8
}

/// `2^(e - 128)`; the two least are subnormal.
fn e8m0_half(e: u8) -> f32 {
    match e {
        0 => f32::from_bits(0x0020_0000),
        1 => f32::from_bits(0x0040_0000),
        _ => f32::from_bits((u32::from(e) - 1) << 23),
    }
}

/// The byte whose [`e4m3_half`] is nearest to `value`; 0 for what is not positive, and 127 for what is too large.
fn nearest_e4m3(value: f32) -> u8 {
    if value.is_nan() {
        return 0;
    }
    // They grow with the byte.
    let above = (0..=LARGEST_E4M3).find(|&byte| e4m3_half(byte) >= value).unwrap_or(LARGEST_E4M3 + 1);
    let below = above.saturating_sub(1);
    if value - e4m3_half(below) < e4m3_half(above) - value { below } else { above }
}

/// The byte of 448, half of which is the largest.
const LARGEST_E4M3: u8 = 0x7E;

/// Half of a float with four bits of exponent and three of mantissa, without a sign.
fn e4m3_half(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), i32::from(byte & 7));
    let whole = if exponent == 0 { mantissa } else { 8 + mantissa };
    whole as f32 * 2f32.powi(exponent.max(1) - 11)
}

impl Scale {
    /// First byte of the float of the value at `index`.
    pub fn float_byte(&self, index: u32) -> u32 {
        self.byte + self.floats.map_or(0, |floats| index / floats.values * floats.stride)
    }

    /// First byte of each float that is stored in a block of `block` values.
    pub fn float_bytes(&self, block: u32) -> impl Iterator<Item = usize> {
        let stored = if self.kind == FloatKind::One { 0 } else { block };
        (0..stored).step_by(self.float_values(block) as usize).map(|first| self.float_byte(first) as usize)
    }

    /// The first float of the block.
    ///
    /// # Panics
    /// If the block is shorter than the row says.
    pub fn float(&self, block: &[u8]) -> f32 {
        self.float_of(block, 0)
    }

    /// The float of the value at `index`.
    ///
    /// # Panics
    /// As [`Scale::float`].
    pub fn float_of(&self, block: &[u8], index: u32) -> f32 {
        match self.kind {
            FloatKind::One => 1.0,
            kind => kind.get(&block[self.float_byte(index) as usize..]),
        }
    }

    /// The scale of the value at `index`.
    ///
    /// # Panics
    /// As [`Scale::float`].
    pub fn at(&self, block: &[u8], index: u32) -> f32 {
        let float = self.float_of(block, index);
        match &self.sub {
            Some(sub) => float * (sub.field.get(block, index / sub.group) - sub.zero) as f32,
            None => float,
        }
    }
}

impl Blocks {
    /// The value at `index` of a block: the slow and plain form of the formula.
    ///
    /// # Panics
    /// If the block is shorter than [`Blocks::bytes`] or `index` is not below [`Blocks::block`].
    pub fn value(&self, block: &[u8], index: u32) -> f32 {
        let level = self.level(self.code.get(block, index)) as f32;
        let product = self.scale.at(block, index) * level;
        match &self.min {
            Some((min, sign)) => product + sign * min.at(block, index),
            None => product,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Digit, Plane};

    #[test]
    fn put_then_get_leaves_neighbours_alone() {
        let field = Field::signed(vec![
            Plane::new(1, 4, &[Digit::bits(2, 4), Digit::bytes(4, 1)]),
            Plane::new(5, 1, &[Digit::bits(8, 1)]).lsb(4),
        ]);
        assert_eq!((field.width(), field.range()), (5, (-16, 15)));
        for index in 0..8 {
            for value in -16..=15 {
                let mut block = [0xA5u8; 7];
                let before: Vec<i32> = (0..8).map(|i| field.get(&block, i)).collect();
                field.put(&mut block, index, value);
                for i in 0..8 {
                    let want = if i == index { value } else { before[i as usize] };
                    assert_eq!(field.get(&block, i), want);
                }
                assert_eq!((block[0], block[6]), (0xA5, 0xA5));
            }
        }
    }

    #[test]
    fn powers_of_two() {
        for e in 0..=255u8 {
            assert_eq!(f64::from(FloatKind::E8M0Half.get(&[e])), 2f64.powi(i32::from(e) - 128));
            let mut byte = [0];
            FloatKind::E8M0Half.put(&mut byte, e8m0_half(e));
            assert_eq!(byte[0], e.min(254));
        }
        let mut byte = [7];
        assert_eq!(FloatKind::E8M0Half.put(&mut byte, 0.0), e8m0_half(0));
    }

    #[test]
    fn small_floats() {
        let value = |byte: u8| FloatKind::E4M3Half.get(&[byte]);
        assert_eq!([0, 1, 7, 8, 0x38, 0x7E].map(value), [0.0, 2f32.powi(-10), 7.0 / 1024.0, 8.0 / 1024.0, 0.5, 224.0]);
        for byte in 0..=LARGEST_E4M3 {
            let mut stored = [0];
            assert_eq!(FloatKind::E4M3Half.put(&mut stored, value(byte)), value(byte));
            let next = value(byte.saturating_add(1).min(LARGEST_E4M3));
            let near = value(byte) + 0.4 * (next - value(byte));
            assert_eq!((stored, FloatKind::E4M3Half.put(&mut [0], near)), ([byte], value(byte)));
        }
        for (given, wanted) in
            [(231.0, 224.0), (233.0, f32::INFINITY), (1e9, f32::INFINITY), (-1.0, 0.0), (f32::NAN, 0.0)]
        {
            assert_eq!(FloatKind::E4M3Half.put(&mut [0], given), wanted);
        }
    }
}
