//! The parts of quantised blocks, derived from the row of a format.

use super::array::Array;
use crate::Part;
use gguf::dequant::Dequantiser;
use gguf::format::{Blocks, Field, Format, FormatError};
use std::borrow::Cow;

/// Part of whole blocks of quantised values, of which `group` share a factor.
///
/// # Errors
/// If the row of the format is unsound, or has no such part.
pub(crate) fn dequant<'a>(format: &Format, part: Part, group: u32, bytes: &[u8]) -> Result<Array<'a>, FormatError> {
    let blocks = bytes.len() / format.block_bytes().max(1) as usize;
    if part == Part::Value {
        let dequantiser = Dequantiser::new(format)?;
        let mut out = vec![0.0; blocks * format.block_len() as usize];
        let data = &bytes[..blocks * format.block_bytes() as usize];
        let problem = |e: gguf::dequant::DequantError| unsound(format, &e.to_string());
        dequantiser.run(data, &mut out).map_err(problem)?;
        return Ok(Array::Float(out));
    }
    format.check()?;
    let layout = format.as_blocks().ok_or_else(|| unsound(format, "plain elements have no codes and no scales"))?;
    let each = bytes.chunks_exact(layout.bytes as usize);
    if matches!(part, Part::Code | Part::Level) {
        let codes = Codes::new(layout).ok_or_else(|| unsound(format, "codes span more than a byte"))?;
        let mut out = Vec::with_capacity(blocks * layout.block as usize);
        let mut bits = vec![0; layout.block as usize];
        each.for_each(|block| codes.unpack(block, &mut bits, &mut out));
        if part == Part::Code {
            return Ok(Array::Byte(Cow::Owned(out)));
        }
        let up = layout.level_shift().ok_or_else(|| unsound(format, "levels are no signed bytes"))?;
        let least = least_code(layout) - layout.zero;
        return Ok(Array::SignedByte(out.into_iter().map(|code| ((i32::from(code) + least) << up) as i8).collect()));
    }
    let shift = (least_code(layout) - layout.zero) as f32;
    let mut out = Vec::with_capacity(blocks * (layout.block / group) as usize);
    for block in each {
        for first in (0..layout.block).step_by(group as usize) {
            let scale = layout.scale.at(block, first);
            out.push(match (part, &layout.min) {
                (Part::Scale, _) => scale,
                (_, Some((min, sign))) => scale * shift + sign * min.at(block, first),
                (_, None) => scale * shift,
            });
        }
    }
    Ok(Array::Float(out))
}

fn unsound(format: &Format, problem: &str) -> FormatError {
    FormatError { format: format.name.to_string(), problem: problem.into() }
}

/// The number that [`Part::Code`] maps to 0: the least code or table entry.
fn least_code(layout: &Blocks) -> i32 {
    match &layout.table {
        Some(table) => table.iter().min().map_or(0, |&v| v.into()),
        None => layout.code.range().0,
    }
}

/// Codes of a block as unsigned bytes.
struct Codes {
    /// Code of each pattern of bits.
    code: Vec<u8>,
    planes: Vec<PlaneAddresses>,
}

struct PlaneAddresses {
    mask: u32,
    lsb: u32,
    /// Byte and bit of each value.
    at: Vec<(usize, u32)>,
}

impl Codes {
    fn new(layout: &Blocks) -> Option<Codes> {
        let least = least_code(layout);
        let code: Option<Vec<u8>> = (0..1i32 << layout.code.width())
            .map(|bits| u8::try_from(layout.level(signed(&layout.code, bits)) + layout.zero - least).ok())
            .collect();
        let planes = layout.code.planes.iter().map(|plane| PlaneAddresses {
            mask: (1 << plane.width) - 1,
            lsb: plane.lsb,
            at: (0..layout.block).map(|i| plane.address(i)).map(|(byte, bit)| (byte as usize, bit)).collect(),
        });
        Some(Codes { code: code?, planes: planes.collect() })
    }

    fn unpack(&self, block: &[u8], bits: &mut [u32], out: &mut Vec<u8>) {
        bits.fill(0);
        for plane in &self.planes {
            for (bits, &(byte, bit)) in bits.iter_mut().zip(&plane.at) {
                *bits |= (u32::from(block[byte]) >> bit & plane.mask) << plane.lsb;
            }
        }
        out.extend(bits.iter().map(|&b| self.code[b as usize]));
    }
}

/// Bits of a field as a number.
fn signed(field: &Field, bits: i32) -> i32 {
    let half = 1 << (field.width() - 1);
    if field.signed && bits >= half { bits - 2 * half } else { bits }
}
