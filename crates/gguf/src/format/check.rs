//! What a row of the table of formats must satisfy before anything is derived from it.

use super::{Blocks, Encoding, Field, Format, Plane, Scale};
use thiserror::Error;

/// Largest block, in values or bytes, that a row may have: it bounds what a checked row can cost.
pub const BLOCK_LIMIT: u32 = 1 << 16;

/// Widest code in bits: it bounds the tables of levels.
const CODE_WIDTH_LIMIT: u32 = 16;

/// Widest integer in bits, and bound of a zero point: what an f32 holds exactly.
const INTEGER_WIDTH_LIMIT: u32 = 24;

/// Why a row does not describe a format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("format {format}: {problem}")]
pub struct FormatError {
    /// Name of the format.
    pub format: String,
    /// What is wrong.
    pub problem: String,
}

impl Format {
    /// Checks that the row is sound: every plane inside its byte and block, every index with an address, every bit of
    /// an integer given once, no bit of the block claimed twice, tables as long as the codes are wide.
    ///
    /// # Errors
    /// [`FormatError`] with the first thing that is wrong.
    pub fn check(&self) -> Result<(), FormatError> {
        match &self.encoding {
            Encoding::Plain(_) => Ok(()),
            Encoding::Blocks(blocks) => {
                blocks.check().map_err(|problem| FormatError { format: self.name.to_string(), problem })
            }
        }
    }
}

impl Blocks {
    fn check(&self) -> Result<(), String> {
        for (what, size) in [("values", self.block), ("bytes", self.bytes)] {
            if size == 0 || size > BLOCK_LIMIT {
                return Err(format!("a block of {size} {what}; it must have 1 to {BLOCK_LIMIT}"));
            }
        }
        let mut claims = Claims { bits: vec![None; self.bytes as usize * 8] };
        claims.field("code", &self.code, self.block)?;
        if self.code.width() > CODE_WIDTH_LIMIT {
            return Err(format!("codes of {} bits; at most {CODE_WIDTH_LIMIT} are supported", self.code.width()));
        }
        zero_point("code", self.zero)?;
        claims.scale("scale", &self.scale, self.block)?;
        if let Some((min, sign)) = &self.min {
            if sign.abs() != 1.0 {
                return Err(format!("the sign of min is {sign}; it must be 1 or -1"));
            }
            claims.scale("min", min, self.block)?;
        }
        if let Some(table) = &self.table {
            let width = self.code.width();
            if self.code.signed || table.len() != 1 << width {
                return Err(format!(
                    "a table of {} entries for a {}signed code of {width} bits; it needs one entry per unsigned code",
                    table.len(),
                    if self.code.signed { "" } else { "un" },
                ));
            }
        }
        Ok(())
    }
}

/// Which field each bit of the block belongs to.
struct Claims {
    bits: Vec<Option<&'static str>>,
}

impl Claims {
    fn scale(&mut self, what: &'static str, scale: &Scale, block: u32) -> Result<(), String> {
        let each = scale.floats.map_or(block, |floats| floats.values);
        if each == 0 || !block.is_multiple_of(each) {
            return Err(format!("{what}: floats of {each} values do not divide a block of {block}"));
        }
        for first in (0..block).step_by(each as usize) {
            let stride = scale.floats.map_or(0, |floats| u64::from(floats.stride));
            let float = (u64::from(scale.byte) + u64::from(first / each) * stride) * 8;
            for bit in 0..u64::from(scale.kind.bytes()) * 8 {
                self.claim(what, float + bit)?;
            }
        }
        let Some(sub) = &scale.sub else { return Ok(()) };
        if sub.group == 0 || !block.is_multiple_of(sub.group) {
            return Err(format!("{what}: groups of {} values do not divide a block of {block}", sub.group));
        }
        if !each.is_multiple_of(sub.group) {
            return Err(format!("{what}: groups of {} values do not divide the {each} of a float", sub.group));
        }
        zero_point(what, sub.zero)?;
        self.field(what, &sub.field, block / sub.group)
    }

    fn field(&mut self, what: &'static str, field: &Field, count: u32) -> Result<(), String> {
        let mut given = 0u32;
        for plane in &field.planes {
            plane_shape(what, plane, count)?;
            let part = super::pack::mask(plane.width) << plane.lsb;
            if given & part != 0 {
                return Err(format!("{what}: two planes give the same bit of the integer"));
            }
            given |= part;
            for index in 0..count {
                let (byte, bit) = plane.address(index);
                for b in bit..bit + plane.width {
                    self.claim(what, u64::from(byte) * 8 + u64::from(b))?;
                }
            }
        }
        if given == 0 || given & (given + 1) != 0 {
            return Err(format!("{what}: the planes leave a hole in the integer (bits given: {given:#b})"));
        }
        Ok(())
    }

    fn claim(&mut self, what: &'static str, bit: u64) -> Result<(), String> {
        let (byte, bytes) = (bit / 8, self.bits.len() / 8);
        match self.bits.get_mut(bit as usize) {
            None => Err(format!("{what}: byte {byte} is outside the block of {bytes} bytes")),
            Some(Some(other)) => Err(format!("{what}: bit {} of byte {byte} already belongs to {other}", bit % 8)),
            Some(free) => {
                *free = Some(what);
                Ok(())
            }
        }
    }
}

fn zero_point(what: &str, zero: i32) -> Result<(), String> {
    match zero.unsigned_abs() <= 1 << INTEGER_WIDTH_LIMIT {
        true => Ok(()),
        false => Err(format!("{what}: a zero point of {zero}; at most 2^{INTEGER_WIDTH_LIMIT} is supported")),
    }
}

fn plane_shape(what: &str, plane: &Plane, count: u32) -> Result<(), String> {
    if plane.width == 0
        || plane.width > 8
        || u64::from(plane.lsb) + u64::from(plane.width) > u64::from(INTEGER_WIDTH_LIMIT)
    {
        return Err(format!(
            "{what}: a plane of {} bits at bit {}; planes have 1 to 8 bits, integers at most {INTEGER_WIDTH_LIMIT}",
            plane.width, plane.lsb,
        ));
    }
    let mut indices = 1u64;
    let (mut last_byte, mut last_bit) = (u64::from(plane.byte), u64::from(plane.shift) + u64::from(plane.width));
    for digit in &plane.digits {
        if digit.extent == 0 {
            return Err(format!("{what}: a digit of extent 0"));
        }
        indices = indices.saturating_mul(u64::from(digit.extent));
        last_byte += u64::from(digit.extent - 1) * u64::from(digit.byte);
        last_bit += u64::from(digit.extent - 1) * u64::from(digit.bit);
    }
    if indices != u64::from(count) {
        return Err(format!("{what}: the digits address {indices} integers, but there are {count}"));
    }
    if last_bit > 8 {
        return Err(format!("{what}: a plane straddles a byte (it reaches bit {last_bit})"));
    }
    if last_byte >= u64::from(BLOCK_LIMIT) {
        return Err(format!("{what}: byte {last_byte} is outside the block"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Digit, FloatKind, rows};

    fn nibbles() -> Blocks {
        Blocks {
            block: 4,
            bytes: 4,
            code: Field::unsigned(vec![Plane::new(2, 4, &[Digit::bits(2, 4), Digit::bytes(2, 1)])]),
            table: None,
            zero: 8,
            scale: Scale::whole(FloatKind::F16, 0),
            min: None,
        }
    }

    fn problem(change: impl FnOnce(&mut Blocks)) -> String {
        let mut blocks = nibbles();
        change(&mut blocks);
        Format::blocks("test", blocks).check().expect_err("a bad row passed").problem
    }

    #[test]
    fn every_row_is_sound() {
        for format in rows() {
            format.check().unwrap();
        }
        assert_eq!(Format::blocks("test", nibbles()).check(), Ok(()));
    }

    #[test]
    fn bad_rows_are_named() {
        assert!(problem(|b| b.block = 0).contains("0 values"));
        assert!(problem(|b| b.bytes = BLOCK_LIMIT + 1).contains("bytes"));
        assert!(problem(|b| b.bytes = 3).contains("outside"));
        assert!(problem(|b| b.block = 8).contains("address 4"));
        assert!(problem(|b| b.code.planes[0].shift = 1).contains("straddles"));
        assert!(problem(|b| b.code.planes[0].width = 9).contains("1 to 8"));
        assert!(problem(|b| b.code.planes[0].lsb = 1).contains("hole"));
        assert!(problem(|b| b.code.planes[0].lsb = u32::MAX).contains("at most 24"));
        assert!(problem(|b| b.code.planes[0].byte = 1).contains("already belongs"));
        assert!(problem(|b| b.code.planes[0].byte = u32::MAX).contains("outside"));
        assert!(problem(|b| b.code.planes[0].digits[0].extent = 0).contains("extent 0"));
        assert!(problem(|b| b.code.planes.clear()).contains("hole"));
        assert!(problem(|b| b.code.planes.push(b.code.planes[0].clone())).contains("same bit"));
        assert!(problem(|b| b.code.planes[0].digits[1].byte = 0).contains("already belongs"));
        assert!(problem(|b| b.zero = i32::MIN).contains("zero point"));
        assert!(problem(|b| b.table = Some(vec![0; 15])).contains("table of 15"));
        assert!(problem(|b| b.scale.byte = 4).contains("outside"));
        assert!(problem(|b| b.min = Some((Scale::whole(FloatKind::F16, 0), 1.0))).contains("already belongs"));
        assert!(problem(|b| b.min = Some((Scale::whole(FloatKind::One, 0), 0.5))).contains("sign"));
        let sub = Field::unsigned(vec![Plane::new(3, 4, &[Digit::bits(2, 4)])]);
        assert!(problem(|b| b.scale = Scale::grouped(FloatKind::F16, 0, sub, 3, 0)).contains("do not divide"));
    }
}
