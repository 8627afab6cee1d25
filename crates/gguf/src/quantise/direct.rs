//! The closed formulas for blocks with one float scale and evenly spaced codes.
//!
//! They are those of the field, rounding included, so that codes agree with other engines bit for bit: the codes are
//! taken with the scale in f32, and the scale is rounded to its type afterwards.

use super::Solution;
use crate::format::{Blocks, FloatKind};

/// Which formula.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direct {
    /// Signed codes (Q8_0): the largest magnitude becomes the greatest code, of either sign.
    Largest { greatest: i32 },
    /// Signed codes with an f32 scale (Q8_K): the value of largest magnitude becomes minus the greatest code.
    Negated { greatest: i32 },
    /// Unsigned codes around a zero point (Q4_0, Q5_0): the value of largest magnitude becomes code 0, which reaches
    /// one step further than the greatest code.
    Extreme { greatest: i32, zero: i32 },
    /// Codes from a minimum upwards (Q4_1, Q5_1), which is stored with this sign.
    Range { greatest: i32, sign: f32 },
}

impl Direct {
    /// The formula for a format, if there is one.
    pub(super) fn of(blocks: &Blocks) -> Option<Direct> {
        let float = |kind| matches!(kind, FloatKind::F16 | FloatKind::F32);
        let plain = blocks.scale.sub.is_none() && float(blocks.scale.kind) && blocks.table.is_none();
        let (_, greatest) = blocks.code.range();
        match &blocks.min {
            _ if !plain || greatest == 0 => None,
            Some((min, sign)) => {
                let whole = min.sub.is_none() && float(min.kind) && !blocks.code.signed && blocks.zero == 0;
                whole.then_some(Direct::Range { greatest, sign: *sign })
            }
            None if blocks.code.signed && blocks.zero == 0 => Some(match blocks.scale.kind {
                FloatKind::F32 => Direct::Negated { greatest },
                _ => Direct::Largest { greatest },
            }),
            // The extreme must be code 0: that takes a zero point in the upper half of the codes.
            None if !blocks.code.signed && blocks.zero > greatest / 2 && blocks.zero <= greatest => {
                Some(Direct::Extreme { greatest, zero: blocks.zero })
            }
            None => None,
        }
    }

    /// Fills in the block; `None` if its largest value would not be finite.
    pub(super) fn solve(self, x: &[f32], out: &mut Solution) -> Option<()> {
        match self {
            Direct::Largest { greatest } => {
                out.scale = signed_extreme(x).abs() / greatest as f32;
                let id = inverse(out.scale);
                fill(&mut out.codes, x, |v| ((v * id).round() as i32).clamp(-greatest, greatest));
            }
            Direct::Negated { greatest } => {
                let extreme = signed_extreme(x);
                let id = inverse(extreme) * -(greatest as f32);
                out.scale = if id.is_finite() { inverse(id) } else { 0.0 };
                let id = if out.scale == 0.0 { 0.0 } else { id };
                // Near the end of f32 the detour by the inverse may overshoot.
                if !(out.scale * greatest as f32).is_finite() {
                    return None;
                }
                fill(&mut out.codes, x, |v| ((v * id).round() as i32).clamp(-greatest, greatest));
            }
            Direct::Extreme { greatest, zero } => {
                out.scale = signed_extreme(x) / -(zero as f32);
                let id = inverse(out.scale);
                let half_up = zero as f32 + 0.5;
                fill(&mut out.codes, x, |v| ((v * id + half_up) as i32).clamp(0, greatest));
            }
            Direct::Range { greatest, sign } => {
                let (least, most) = x.iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
                out.scale = (most - least) / greatest as f32;
                out.min = least * sign;
                let id = inverse(out.scale);
                fill(&mut out.codes, x, |v| (((v - least) * id + 0.5) as i32).clamp(0, greatest));
            }
        }
        Some(())
    }
}

fn fill(codes: &mut Vec<i32>, x: &[f32], code: impl Fn(f32) -> i32) {
    codes.clear();
    codes.extend(x.iter().map(|&v| code(v)));
}

/// The value of largest magnitude, the first of equals.
fn signed_extreme(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |best: f32, &v| if v.abs() > best.abs() { v } else { best })
}

/// `1 / v`, or 0 where that is not finite: all values of such a block are 0 in the precision of its scale.
fn inverse(v: f32) -> f32 {
    let inverse = 1.0 / v;
    if inverse.is_finite() { inverse } else { 0.0 }
}
