//! Fitting `scale * level (+ min)` to a few values, before scales are themselves quantised.
//!
//! Candidates put the extreme of the values somewhere between one level inside and one level outside the end of the
//! levels; each is improved by least squares over its codes, and the best once more by new codes for its scale.

use super::levels::{Levels, PIECE, Piece};

/// Partial sums: fixed, so that sums are the same on every machine and compilers can use vectors.
const LANES: usize = 4;

/// Candidates on either side of the one that maps the extreme exactly.
const SIDE: i32 = 9;

/// Rounds of new codes for the best scale.
const ROUNDS: usize = 4;

/// A scale below this is none: values are at most 1.
pub(super) const TINY: f32 = 1e-30;

/// Weighted sums over values `x` and the levels `q` of their codes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) w: f32,
    pub(super) x: f32,
    pub(super) q: f32,
    pub(super) xq: f32,
    pub(super) qq: f32,
}

/// Sums with the codes nearest for a scale and an offset.
pub(super) fn moments<L: Levels>(levels: &L, x: &[f32], w: &[f32], scale: f32, offset: f32) -> Moments {
    let inverse = if scale.abs() < TINY { 0.0 } else { 1.0 / scale };
    let mut sums = MomentSums { levels, inverse, offset, sums: Default::default() };
    sums.add_all(x, w);
    let [w, x, q, xq, qq] = sums.sums.map(total);
    Moments { w, x, q, xq, qq }
}

/// Weighted squared error with the codes nearest for a scale and an offset.
pub(super) fn error<L: Levels>(levels: &L, x: &[f32], w: &[f32], scale: f32, offset: f32) -> f32 {
    let (scale, inverse) = if scale.abs() < TINY { (0.0, 0.0) } else { (scale, 1.0 / scale) };
    let mut sums = ErrorSum { levels, scale, inverse, offset, sum: Default::default() };
    sums.add_all(x, w);
    total(sums.sum)
}

/// Sums over pieces of values.
trait Sums {
    /// Adds the terms of one piece. Values without importance add nothing.
    fn add(&mut self, x: &Piece, w: &Piece);

    /// Adds the terms of all values; `x` and `w` are of one length.
    #[inline(always)]
    fn add_all(&mut self, x: &[f32], w: &[f32]) {
        let ((x, x_rest), (w, w_rest)) = (x.as_chunks(), w.as_chunks());
        for (x, w) in x.iter().zip(w) {
            self.add(x, w);
        }
        if !x_rest.is_empty() {
            let (mut x, mut w) = ([0.0; PIECE], [0.0; PIECE]);
            x[..x_rest.len()].copy_from_slice(x_rest);
            w[..w_rest.len()].copy_from_slice(w_rest);
            self.add(&x, &w);
        }
    }
}

struct MomentSums<'a, L> {
    levels: &'a L,
    inverse: f32,
    offset: f32,
    sums: [[f32; LANES]; 5],
}

impl<L: Levels> Sums for MomentSums<'_, L> {
    #[inline(always)]
    fn add(&mut self, x: &Piece, w: &Piece) {
        let q = nearest(self.levels, x, self.inverse, self.offset);
        for at in 0..PIECE {
            let lane = at % LANES;
            let (wx, wq) = (w[at] * x[at], w[at] * q[at]);
            self.sums[0][lane] += w[at];
            self.sums[1][lane] += wx;
            self.sums[2][lane] += wq;
            self.sums[3][lane] += wx * q[at];
            self.sums[4][lane] += wq * q[at];
        }
    }
}

struct ErrorSum<'a, L> {
    levels: &'a L,
    scale: f32,
    inverse: f32,
    offset: f32,
    sum: [f32; LANES],
}

impl<L: Levels> Sums for ErrorSum<'_, L> {
    #[inline(always)]
    fn add(&mut self, x: &Piece, w: &Piece) {
        let q = nearest(self.levels, x, self.inverse, self.offset);
        for at in 0..PIECE {
            let miss = x[at] - self.offset - self.scale * q[at];
            self.sum[at % LANES] += w[at] * miss * miss;
        }
    }
}

/// The levels nearest to `(x - offset) * inverse`.
#[inline(always)]
fn nearest<L: Levels>(levels: &L, x: &Piece, inverse: f32, offset: f32) -> Piece {
    let mut q = [0.0; PIECE];
    for at in 0..PIECE {
        q[at] = (x[at] - offset) * inverse;
    }
    levels.nearest(&mut q);
    q
}

fn total(lanes: [f32; LANES]) -> f32 {
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// The scale with which the levels come closest to `x`; not negative unless `signed`.
pub(super) fn scale<L: Levels>(levels: &L, x: &[f32], w: &[f32], signed: bool) -> f32 {
    let (least, most) = x.iter().fold((0f32, 0f32), |(a, b), &v| (a.min(v), b.max(v)));
    let (low, high) = levels.ends();
    let (low_gap, high_gap) = levels.gaps();
    let mut best = Best::default();
    let mut try_end = |extreme: f32, end: f32, gap: f32| {
        for step in -SIDE..=SIDE {
            let target = end + gap * step as f32 / SIDE as f32;
            if extreme != 0.0 && target * end > 0.0 {
                best.offer(levels, x, w, extreme / target);
            }
        }
    };
    // Of the two ends take the one that would be cut off first.
    match most * -low > least * -high {
        _ if low >= 0.0 || high <= 0.0 => {
            try_end(most, high, high_gap);
            try_end(least, low, low_gap);
        }
        true => try_end(most, high, high_gap),
        false => try_end(least, low, low_gap),
    }
    if signed {
        match most * high > least * low {
            true => try_end(most, low, low_gap),
            false => try_end(least, high, high_gap),
        }
    }
    best.refine(levels, x, w, signed)
}

/// The best scale so far, after least squares, by how much of `Σ w x²` it explains.
#[derive(Default)]
struct Best {
    scale: f32,
    gain: f32,
}

impl Best {
    fn offer<L: Levels>(&mut self, levels: &L, x: &[f32], w: &[f32], scale: f32) -> bool {
        let m = moments(levels, x, w, scale, 0.0);
        let improved = m.qq > 0.0 && m.xq * scale > 0.0 && m.xq * m.xq > self.gain * m.qq;
        if improved {
            *self = Best { scale: m.xq / m.qq, gain: m.xq * m.xq / m.qq };
        }
        improved
    }

    fn refine<L: Levels>(mut self, levels: &L, x: &[f32], w: &[f32], signed: bool) -> f32 {
        for _ in 0..ROUNDS {
            if !self.offer(levels, x, w, self.scale) {
                break;
            }
        }
        if signed { self.scale } else { self.scale.max(0.0) }
    }
}

/// Which offsets a format can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Offsets {
    /// Any.
    Free,
    /// Not above 0.
    NotPositive,
    /// Not below 0.
    NotNegative,
}

impl Offsets {
    fn clamp(self, offset: f32) -> f32 {
        match self {
            Offsets::Free => offset,
            Offsets::NotPositive => offset.min(0.0),
            Offsets::NotNegative => offset.max(0.0),
        }
    }
}

/// The scale (not negative) and the offset with which `scale * level + offset` comes closest to `x`.
pub(super) fn scale_and_offset<L: Levels>(levels: &L, x: &[f32], w: &[f32], offsets: Offsets) -> (f32, f32) {
    let (least, most) = x.iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let (low, high) = levels.ends();
    let (_, gap) = levels.gaps();
    let mean = offsets.clamp(moments(levels, x, w, 0.0, 0.0).mean());
    let mut best = (0.0, mean, error(levels, x, w, 0.0, mean));
    if high <= low {
        return (best.0, best.1);
    }
    let bottom = |scale: f32| offsets.clamp(least - scale * low);
    for step in -SIDE..=SIDE {
        let steps = high - low + gap * step as f32 / SIDE as f32;
        if steps <= 0.0 {
            continue;
        }
        // With a clamped offset the scale must still reach the greatest value.
        let mut scale = (most - least) / steps;
        if offsets != Offsets::Free {
            let offset = bottom(scale);
            scale = scale.max((most - offset) / (steps + low).max(gap));
        }
        let mut offset = bottom(scale);
        for _ in 0..ROUNDS {
            if scale < TINY {
                break;
            }
            let fitted = moments(levels, x, w, scale, offset).line(offsets);
            let miss = error(levels, x, w, fitted.0, fitted.1);
            if miss >= best.2 {
                break;
            }
            best = (fitted.0, fitted.1, miss);
            (scale, offset) = fitted;
        }
    }
    (best.0, best.1)
}

impl Moments {
    fn mean(&self) -> f32 {
        if self.w > 0.0 { self.x / self.w } else { 0.0 }
    }

    /// Least squares for `x = scale * q + offset`, scale not negative.
    fn line(&self, offsets: Offsets) -> (f32, f32) {
        let determinant = self.w * self.qq - self.q * self.q;
        if determinant > 1e-6 * self.w * self.qq {
            let scale = (self.w * self.xq - self.x * self.q) / determinant;
            let offset = (self.qq * self.x - self.q * self.xq) / determinant;
            if scale >= 0.0 && offsets.clamp(offset) == offset {
                return (scale, offset);
            }
        }
        // At the bound: no offset, or no scale.
        let through_zero = if self.qq > 0.0 { self.xq / self.qq } else { 0.0 };
        if through_zero > 0.0 { (through_zero, 0.0) } else { (0.0, offsets.clamp(self.mean())) }
    }
}
