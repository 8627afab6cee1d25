//! The search for the best block: floats, sub-scales, minima and codes of least weighted squared error.
//!
//! 1. Every group of values is fitted alone ([`fit`](super::fit)), which gives the scales (and minima) wanted.
//! 2. A few floats are tried that place the largest wanted scale at or near the end of the sub-scales' range.
//! 3. In turns, until nothing improves: every group tries its neighbouring sub-scales and minima; the floats are solved
//!    for by least squares over the codes and rounded to their type.
//!
//! Codes are always the nearest for the scale as stored. Values are first divided by a power of two so that the
//! largest lies between 1/2 and 1: nothing overflows or vanishes on the way.

use super::Solution;
use super::fit::{self, Moments, Offsets, TINY};
use super::levels::Levels;
use crate::format::{Blocks, FloatKind, Scale};

/// Most rounds of step 3.
const ROUNDS: usize = 4;

/// Floats tried in step 2 place the largest scale at the end of the range and at up to this many steps inside.
const INSIDE: i32 = 2;

/// Sub-scales with fewer values than this have none to waste by staying inside.
const COARSE: i32 = 8;

/// A scale of divided values above this fits none of them, and larger ones would overflow in sums.
const HUGE: f32 = 1e9;

/// Values below two to this are far from overflow, whatever they are rounded to.
const NEAR_OVERFLOW: i32 = 100;

/// Share of the mean importance that every value gets, so that none is left to chance.
const LEAST_IMPORTANCE: f64 = 1e-4;

/// The search for one format.
#[derive(Clone, Debug)]
pub(super) struct Search<L> {
    levels: L,
    scale: Grid,
    min: Option<Grid>,
    /// The offset of a value is this times its minimum.
    sign: f32,
    offsets: Offsets,
    /// Values that share both scale and minimum.
    unit: usize,
}

/// The scales that a format can store.
#[derive(Clone, Debug)]
struct Grid {
    kind: FloatKind,
    /// Values per scale.
    group: usize,
    /// Range of the sub-scales, from their zero point.
    subs: Option<(i32, i32)>,
    /// Whether scales may be negative.
    signed: bool,
}

/// Floats and sub-scales of a block in the making; floats are those of the divided values.
#[derive(Clone, Debug)]
struct Trial {
    scale: f32,
    scale_subs: Vec<i32>,
    min: f32,
    min_subs: Vec<i32>,
    error: f64,
}

/// A block to be searched.
struct Block<'a> {
    x: &'a [f32],
    w: &'a [f32],
    /// Binary exponent by which the values were divided.
    exponent: i32,
}

impl<L: Levels> Search<L> {
    pub(super) fn new(blocks: &Blocks, levels: L) -> Self {
        let scale = Grid::new(&blocks.scale, blocks.block, blocks.min.is_none());
        let min = blocks.min.as_ref().map(|(min, _)| Grid::new(min, blocks.block, true));
        let sign = blocks.min.as_ref().map_or(1.0, |(_, sign)| *sign);
        let offsets = match &min {
            Some(min) if min.signed => Offsets::Free,
            _ if sign < 0.0 => Offsets::NotPositive,
            _ => Offsets::NotNegative,
        };
        let unit = min.as_ref().map_or(scale.group, |min| common_divisor(scale.group, min.group));
        Search { levels, scale, min, sign, offsets, unit }
    }

    /// Finds a block; `None` if the values are beyond what the floats can hold.
    pub(super) fn solve(&self, x: &[f32], importance: Option<&[f32]>, out: &mut Solution) -> Option<()> {
        let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
        let exponent = if largest > 0.0 { exponent_above(largest) } else { 0 };
        let divided: Vec<f32> = x.iter().map(|&v| scale_by(v, -exponent)).collect();
        let block = Block { x: &divided, w: &weights(importance, x.len()), exponent };

        let trial = self.search(&block)?;
        out.scale = scale_by(trial.scale, exponent);
        out.min = scale_by(trial.min, exponent);
        out.codes.clear();
        for unit in 0..x.len() / self.unit {
            let (scale, offset) = self.scale_and_offset(&trial, unit);
            let inverse = if scale.abs() < TINY { 0.0 } else { 1.0 / scale };
            for &v in block.unit(unit, self.unit).0 {
                let wanted = (v - offset) * inverse;
                out.codes.push(self.levels.code(wanted));
                // Near the end of f32 the nearest level may lie beyond it.
                let stored = scale * self.levels.nearest_one(wanted) + offset;
                if exponent > NEAR_OVERFLOW && !scale_by(stored, exponent).is_finite() {
                    return None;
                }
            }
        }
        out.scale_subs = trial.scale_subs;
        out.min_subs = trial.min_subs;
        Some(())
    }

    fn search(&self, block: &Block<'_>) -> Option<Trial> {
        let (fitted, mins) = self.fit_units(block);
        let wanted_mins = self.min.as_ref().map(|grid| grid.largest_of_groups(&mins, self.unit));
        let min_floats = match (&self.min, &wanted_mins) {
            (Some(grid), Some(wanted)) => grid.floats(wanted),
            _ => vec![0.0],
        };
        let mut best: Option<Trial> = None;
        for min in min_floats {
            let Some(min) = self.round_min(min, block.exponent) else {
                continue;
            };
            let mut trial = Trial { scale: 0.0, scale_subs: Vec::new(), min, min_subs: Vec::new(), error: 0.0 };
            if let (Some(grid), Some(wanted)) = (&self.min, &wanted_mins) {
                trial.min_subs = wanted.iter().map(|&wanted| grid.sub(wanted, min)).collect();
            }
            let refitted = self.refit_scales(&trial, block);
            let wanted = self.scale.largest_of_groups(refitted.as_ref().unwrap_or(&fitted), self.unit);
            for scale in self.scale.floats(&wanted) {
                let Some(scale) = self.scale.round(scale, block.exponent) else {
                    continue;
                };
                trial.scale = scale;
                trial.scale_subs = wanted.iter().map(|&wanted| self.scale.sub(wanted, scale)).collect();
                trial.error = self.error(&trial, block);
                if best.as_ref().is_none_or(|best| trial.error < best.error) {
                    best = Some(trial.clone());
                }
            }
        }
        let mut best = best?;
        for _ in 0..ROUNDS {
            let before = best.error;
            self.try_neighbours(&mut best, block);
            self.solve_floats(&mut best, block);
            if best.error >= before {
                break;
            }
        }
        Some(best)
    }

    /// Scale and minimum that every unit would like best.
    fn fit_units(&self, block: &Block<'_>) -> (Vec<f32>, Vec<f32>) {
        let units = 0..block.x.len() / self.unit;
        let fit = |unit| {
            let (x, w) = block.unit(unit, self.unit);
            match &self.min {
                None => (fit::scale(&self.levels, x, w, self.scale.signed), 0.0),
                Some(_) => {
                    let (scale, offset) = fit::scale_and_offset(&self.levels, x, w, self.offsets);
                    (scale, offset * self.sign)
                }
            }
        };
        units.map(fit).unzip()
    }

    /// Where units share a minimum but not a scale: the scales that they would like best with that minimum.
    fn refit_scales(&self, trial: &Trial, block: &Block<'_>) -> Option<Vec<f32>> {
        let min = self.min.as_ref().filter(|min| min.group != self.scale.group)?;
        let fit = |unit| {
            let (x, w) = block.unit(unit, self.unit);
            let offset = self.sign * (trial.min * trial.min_subs[unit * self.unit / min.group] as f32);
            let above: Vec<f32> = x.iter().map(|v| v - offset).collect();
            fit::scale(&self.levels, &above, w, self.scale.signed)
        };
        Some((0..block.x.len() / self.unit).map(fit).collect())
    }

    fn scale_and_offset(&self, trial: &Trial, unit: usize) -> (f32, f32) {
        let at = unit * self.unit;
        let scale = trial.scale * trial.scale_subs[at / self.scale.group] as f32;
        let offset = match &self.min {
            Some(min) => self.sign * (trial.min * trial.min_subs[at / min.group] as f32),
            None => 0.0,
        };
        (scale, offset)
    }

    fn unit_error(&self, trial: &Trial, block: &Block<'_>, unit: usize) -> f64 {
        let ((x, w), (scale, offset)) = (block.unit(unit, self.unit), self.scale_and_offset(trial, unit));
        f64::from(fit::error(&self.levels, x, w, scale, offset))
    }

    fn error(&self, trial: &Trial, block: &Block<'_>) -> f64 {
        (0..block.x.len() / self.unit).map(|unit| self.unit_error(trial, block, unit)).sum()
    }

    /// Lets every group try the sub-scales and minima next to its own.
    fn try_neighbours(&self, trial: &mut Trial, block: &Block<'_>) {
        match &self.min {
            // Scale and minimum of a group make up for each other: try them together.
            Some(min) if min.group == self.scale.group => {
                for group in 0..block.x.len() / self.unit {
                    self.improve(trial, block, group, 1, &[group], &[group]);
                }
            }
            min => {
                let units = self.scale.group / self.unit;
                for group in 0..block.x.len() / self.scale.group {
                    self.improve(trial, block, group * units, units, &[group], &[]);
                }
                let Some(min) = min else { return };
                let units = min.group / self.unit;
                for group in 0..block.x.len() / min.group {
                    self.improve(trial, block, group * units, units, &[], &[group]);
                }
            }
        }
    }

    /// Tries the neighbours of (at most one) sub-scale and minimum, which matter to `count` units from `first` on.
    fn improve(
        &self,
        trial: &mut Trial,
        block: &Block<'_>,
        first: usize,
        count: usize,
        scales: &[usize],
        mins: &[usize],
    ) {
        let error = |trial: &Trial| (first..first + count).map(|unit| self.unit_error(trial, block, unit)).sum::<f64>();
        let start = error(trial);
        let around = |subs: &[i32], at: &[usize], grid: Option<&Grid>| match (at, grid.and_then(|grid| grid.subs)) {
            (&[at], Some((low, high))) => (subs[at] - 1).max(low)..=(subs[at] + 1).min(high),
            (&[at], None) => subs[at]..=subs[at],
            _ => 0..=0,
        };
        let scale_range = around(&trial.scale_subs, scales, Some(&self.scale));
        let min_range = around(&trial.min_subs, mins, self.min.as_ref());
        let put = |trial: &mut Trial, scale: i32, min: i32| {
            scales.iter().for_each(|&at| trial.scale_subs[at] = scale);
            mins.iter().for_each(|&at| trial.min_subs[at] = min);
        };
        let kept = |subs: &[i32], at: &[usize]| at.first().map_or(0, |&at| subs[at]);
        let mut best = (start, kept(&trial.scale_subs, scales), kept(&trial.min_subs, mins));
        for scale in scale_range {
            for min in min_range.clone() {
                put(trial, scale, min);
                let error = error(trial);
                if error < best.0 {
                    best = (error, scale, min);
                }
            }
        }
        put(trial, best.1, best.2);
        trial.error += best.0 - start;
    }

    /// Solves for the floats by least squares over the present codes, and keeps them if they are better once rounded.
    fn solve_floats(&self, trial: &mut Trial, block: &Block<'_>) {
        // Of x = scale * a + min * b: the sums of a², ab, b², xa, xb.
        let (mut aa, mut ab, mut bb, mut xa, mut xb) = (0f64, 0f64, 0f64, 0f64, 0f64);
        for unit in 0..block.x.len() / self.unit {
            let ((x, w), (scale, offset)) = (block.unit(unit, self.unit), self.scale_and_offset(trial, unit));
            let Moments { w, x, q, xq, qq, .. } = fit::moments(&self.levels, x, w, scale, offset);
            let a = f64::from(trial.scale_subs[unit * self.unit / self.scale.group]);
            let b = self
                .min
                .as_ref()
                .map_or(0.0, |min| f64::from(self.sign) * f64::from(trial.min_subs[unit * self.unit / min.group]));
            aa += a * a * f64::from(qq);
            ab += a * b * f64::from(q);
            bb += b * b * f64::from(w);
            xa += a * f64::from(xq);
            xb += b * f64::from(x);
        }
        let determinant = aa * bb - ab * ab;
        let (scale, min) = if determinant > 1e-9 * aa * bb {
            ((bb * xa - ab * xb) / determinant, (aa * xb - ab * xa) / determinant)
        } else if aa > 0.0 {
            (xa / aa, f64::from(trial.min))
        } else {
            return;
        };
        let Some(scale) = self.scale.round(scale as f32, block.exponent) else {
            return;
        };
        let Some(min) = self.round_min(min as f32, block.exponent) else {
            return;
        };
        let mut better = Trial { scale, min, ..trial.clone() };
        better.error = self.error(&better, block);
        if better.error < trial.error {
            *trial = better;
        }
    }

    fn round_min(&self, min: f32, exponent: i32) -> Option<f32> {
        self.min.as_ref().map_or(Some(0.0), |grid| grid.round(min, exponent))
    }
}

impl Block<'_> {
    /// Values and importances of a unit.
    fn unit(&self, unit: usize, size: usize) -> (&[f32], &[f32]) {
        let range = unit * size..(unit + 1) * size;
        (&self.x[range.clone()], &self.w[range])
    }
}

impl Grid {
    /// `free` says that a lone float may be negative (it buys nothing where there is a minimum too).
    fn new(scale: &Scale, block: u32, free: bool) -> Self {
        let subs = scale.sub.as_ref().map(|sub| {
            let (low, high) = sub.field.range();
            (low - sub.zero, high - sub.zero)
        });
        let signed = match subs {
            Some((low, _)) => low < 0,
            None => free && matches!(scale.kind, FloatKind::F16 | FloatKind::F32),
        };
        Grid { kind: scale.kind, group: scale.group(block) as usize, subs, signed }
    }

    /// Of the scales wanted by units, the one of largest magnitude in every group.
    fn largest_of_groups(&self, wanted: &[f32], unit: usize) -> Vec<f32> {
        let largest =
            |group: &[f32]| group.iter().fold(0.0, |best: f32, &v| if v.abs() > best.abs() { v } else { best });
        wanted.chunks(self.group / unit).map(largest).collect()
    }

    /// Floats to try for these scales.
    fn floats(&self, wanted: &[f32]) -> Vec<f32> {
        let (least, most) = wanted.iter().fold((0f32, 0f32), |(a, b), &v| (a.min(v), b.max(v)));
        let mut floats = Vec::new();
        match self.subs {
            None => floats.push(if most > -least { most } else { least }),
            Some((low, high)) => {
                let inside = if high - low < COARSE { 0 } else { INSIDE };
                for step in 0..=inside {
                    let (high, low) = ((high - step) as f32, (low + step) as f32);
                    let reach = |most: f32, least: f32| {
                        let above = if high > 0.0 { most / high } else { 0.0 };
                        let below = if low < 0.0 { least / low } else { 0.0 };
                        above.max(below)
                    };
                    floats.push(reach(most, least));
                    if low < 0.0 && matches!(self.kind, FloatKind::F16 | FloatKind::F32) {
                        floats.push(-reach(-least, -most));
                    }
                }
            }
        }
        if self.kind == FloatKind::E8M0Half {
            let near: Vec<f32> = floats.iter().flat_map(|&v| [v * 2.0, v / 2.0]).collect();
            floats.extend(near);
        }
        floats
    }

    /// The float as it would be stored for the undivided values; `None` if that is not finite.
    fn round(&self, float: f32, exponent: i32) -> Option<f32> {
        let stored = self.kind.put(&mut [0; 4], scale_by(float, exponent));
        stored.is_finite().then(|| scale_by(stored, -exponent).clamp(-HUGE, HUGE))
    }

    /// The sub-scale that brings `float` nearest to the scale wanted.
    fn sub(&self, wanted: f32, float: f32) -> i32 {
        match self.subs {
            None => 1,
            Some((low, high)) => {
                let ratio = if float.abs() < TINY { 0.0 } else { wanted / float };
                (ratio.round() as i32).clamp(low, high)
            }
        }
    }
}

/// Importances around 1, none of them 0.
fn weights(importance: Option<&[f32]>, n: usize) -> Vec<f32> {
    let total: f64 = importance.unwrap_or(&[]).iter().map(|&v| f64::from(v)).sum();
    match importance {
        Some(importance) if total > 0.0 => {
            let mean = total / n as f64;
            importance.iter().map(|&v| (f64::from(v) / mean + LEAST_IMPORTANCE) as f32).collect()
        }
        _ => vec![1.0; n],
    }
}

/// The least `e` with `v < 2^e`, of a positive `v`.
fn exponent_above(v: f32) -> i32 {
    (f64::from(v).to_bits() >> 52) as i32 - 1022
}

/// `v * 2^exponent`.
fn scale_by(v: f32, exponent: i32) -> f32 {
    (f64::from(v) * 2f64.powi(exponent)) as f32
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
