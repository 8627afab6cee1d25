//! Random blocks of any format, drawn from the row of the format: nothing here knows a format by name.
//!
//! Codes come from a normal distribution over the levels of the row, sub-scales from the upper half of their range, and
//! the float of a block is what gives the values the standard deviation that is asked for. Where a block has a minimum,
//! it centres the values on 0, as it does in real files. A scale that is a power of two can miss the standard deviation
//! by a factor of up to √2.

use super::random::Random;
use gguf::format::{Blocks, Encoding, Format, PlainKind, Scale};

/// Half of the range of levels, in standard deviations of the codes.
const REACH: f32 = 2.6;

/// Codes to draw from.
const DRAWS: usize = 1 << DRAW_BITS;
const DRAW_BITS: u32 = 12;

/// Scales of blocks lie within this share of their mean.
const JITTER: f32 = 0.25;

/// `n` values in the encoding, a whole number of blocks, of standard deviation `std` and mean 0.
pub(super) fn random(format: &Format, std: f32, n: u64, random: &mut Random) -> Vec<u8> {
    let bytes = format.row_bytes(n).expect("whole blocks");
    let mut out = vec![0; bytes as usize];
    let each = out.chunks_exact_mut(format.block_bytes() as usize);
    match &format.encoding {
        Encoding::Plain(kind) => each.for_each(|at| put(*kind, std * random.normal(), at)),
        Encoding::Blocks(blocks) => {
            let codes = Codes::new(blocks, random);
            each.for_each(|block| codes.fill(block, std, random));
        }
    }
    out
}

fn put(kind: PlainKind, value: f32, at: &mut [u8]) {
    use gguf::format::FloatKind;
    match kind {
        PlainKind::F32 => _ = FloatKind::F32.put(at, value),
        PlainKind::F16 => _ = FloatKind::F16.put(at, value),
        PlainKind::BF16 => {
            let bits = value.to_bits();
            // To the nearest, ties to even.
            let rounded = bits + 0x7fff + (bits >> 16 & 1);
            at.copy_from_slice(&((rounded >> 16) as u16).to_le_bytes());
        }
        other => unreachable!("no weights are {other:?}"),
    }
}

/// Codes of a format, as often as a normal distribution over their levels has them.
struct Codes<'a> {
    blocks: &'a Blocks,
    draws: Vec<i32>,
    /// Mean and standard deviation of the levels of `draws`.
    mean: f32,
    std: f32,
}

impl<'a> Codes<'a> {
    fn new(blocks: &'a Blocks, random: &mut Random) -> Self {
        let (least, greatest) = blocks.code.range();
        let mut codes: Vec<(i32, i32)> = (least..=greatest).map(|c| (blocks.level(c), c)).collect();
        codes.sort_unstable();
        let (low, high) = blocks.level_range();
        let centre = match blocks.min {
            Some(_) => (low + high) as f32 / 2.0,
            None => 0.0,
        };
        let spread = (high as f32 - centre).max(centre - low as f32) / REACH;
        let mut nearest = |_| {
            let wanted = centre + spread * random.normal();
            let above = codes.partition_point(|&(level, _)| (level as f32) < wanted);
            let at = match (above.checked_sub(1), codes.get(above)) {
                (Some(below), Some(&(level, _))) => {
                    let middle = (codes[below].0 + level) as f32 / 2.0;
                    if wanted < middle { below } else { above }
                }
                (Some(below), None) => below,
                (None, _) => above,
            };
            codes[at].1
        };
        let draws: Vec<i32> = (0..DRAWS).map(&mut nearest).collect();
        let n = DRAWS as f32;
        let levels = || draws.iter().map(|&code| blocks.level(code) as f32);
        let mean = match blocks.min {
            Some(_) => levels().sum::<f32>() / n,
            None => 0.0,
        };
        let std = (levels().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n).sqrt();
        Codes { blocks, draws, mean, std }
    }

    fn fill(&self, block: &mut [u8], std: f32, random: &mut Random) {
        let Blocks { block: len, .. } = *self.blocks;
        let (mut bits, mut left) = (0, 0);
        for index in 0..len {
            if left == 0 {
                (bits, left) = (random.next(), u64::BITS / DRAW_BITS);
            }
            let code = self.draws[bits as usize % DRAWS];
            self.blocks.code.put(block, index, code);
            bits >>= DRAW_BITS;
            left -= 1;
        }
        let scale = &self.blocks.scale;
        let factor = fill_factors(scale, len, block, random);
        let jitter = 1.0 + JITTER * (2.0 * random.unit() - 1.0);
        put_float(scale, block, len, jitter * std / (self.std * factor));
        if let Some((min, sign)) = &self.blocks.min {
            self.centre(min, *sign, block, random);
        }
    }

    /// Sets the minima so that the mean of each group is near 0.
    fn centre(&self, min: &Scale, sign: f32, block: &mut [u8], random: &mut Random) {
        let len = self.blocks.block;
        let group = min.group(len);
        let wanted = |block: &[u8], g| -sign * self.mean * self.blocks.scale.at(block, g * group);
        let Some(sub) = &min.sub else {
            let value = wanted(block, 0);
            return put_float(min, block, len, value);
        };
        let (least, greatest) = sub.field.range();
        let all: Vec<f32> = (0..len / group).map(|g| wanted(block, g)).collect();
        let most = all.iter().fold(0f32, |most, x| most.max(x.abs()));
        let unit = most / (greatest - sub.zero) as f32;
        put_float(min, block, len, unit);
        for (g, wanted) in (0..).zip(all) {
            let near = (wanted / unit).round() as i32 + random.below(3) as i32 - 1;
            let stored = (near + sub.zero).clamp(least, greatest);
            sub.field.put(block, g, stored);
        }
    }
}

/// Draws the integer factors of a scale and returns their root mean square.
fn fill_factors(scale: &Scale, len: u32, block: &mut [u8], random: &mut Random) -> f32 {
    let Some(sub) = &scale.sub else { return 1.0 };
    let (least, greatest) = sub.field.range();
    let (least, greatest) = (least - sub.zero, greatest - sub.zero);
    let groups = len / sub.group;
    let mut squares = 0.0;
    for group in 0..groups {
        let size = greatest - random.below(greatest as u64 / 2 + 1) as i32;
        let factor = match least < 0 && random.below(2) == 1 {
            true => -size,
            false => size,
        };
        sub.field.put(block, group, factor + sub.zero);
        squares += (size * size) as f32;
    }
    (squares / groups as f32).sqrt()
}

/// Stores all floats of a block of so many values.
fn put_float(scale: &Scale, block: &mut [u8], values: u32, value: f32) {
    for at in scale.float_bytes(values) {
        scale.kind.put(&mut block[at..], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf::dequant::dequantise;
    use gguf::format::{FloatKind, rows};

    #[test]
    fn every_format_has_the_spread_that_is_asked_for() {
        let float = |format: &&Format| match &format.encoding {
            Encoding::Plain(kind) => {
                matches!(kind, PlainKind::F32 | PlainKind::F16 | PlainKind::BF16)
            }
            Encoding::Blocks(_) => true,
        };
        for format in rows().iter().filter(float) {
            for std in [1.0, 0.02] {
                let n = 256 * 200;
                let data = super::random(format, std, n, &mut Random::new(3, "spread"));
                let mut values = vec![0.0; n as usize];
                dequantise(format, &data, &mut values).unwrap();
                let n = n as f32;
                let mean = values.iter().sum::<f32>() / n;
                let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n;
                let ratio = variance.sqrt() / std;
                let slack = match format.as_blocks().map(|blocks| blocks.scale.kind) {
                    Some(FloatKind::E8M0Half) => 0.42,
                    // The least scale is 2^-10, and so is the step from one to the next.
                    Some(FloatKind::E4M3Half) if std < 1.0 => 0.15,
                    _ => 0.05,
                };
                assert!((1.0 - slack..1.0 + slack).contains(&ratio), "{}: deviation {ratio} × {std}", format.name);
                assert!(mean.abs() < 0.1 * std, "{}: mean {mean}", format.name);
                assert!(values.iter().all(|x| x.is_finite()), "{}", format.name);
            }
        }
    }

    #[test]
    fn every_code_of_four_bits_occurs() {
        for format in rows() {
            let Some(blocks) = format.as_blocks() else {
                continue;
            };
            if blocks.code.width() > 4 {
                continue;
            }
            let (least, greatest) = blocks.level_range();
            let codes = Codes::new(blocks, &mut Random::new(5, "codes"));
            for level in [least, greatest] {
                assert!(
                    codes.draws.iter().any(|&code| blocks.level(code) == level),
                    "{}: level {level} never occurs",
                    format.name
                );
            }
        }
    }
}
