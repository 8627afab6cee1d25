//! The values that a code can stand for, before the scale, and which of them is nearest.

use crate::format::Blocks;
use std::fmt::Debug;

/// Values looked at together: a fixed number, so that compilers can use vectors.
pub(super) const PIECE: usize = 16;

/// As many values.
pub(super) type Piece = [f32; PIECE];

/// A finite set of levels.
pub(super) trait Levels: Debug {
    /// Replaces each value, which is finite or infinite but not NaN, by the nearest level.
    fn nearest(&self, v: &mut Piece);

    /// The level nearest to `v`.
    fn nearest_one(&self, v: f32) -> f32;

    /// A code of the level nearest to `v`.
    fn code(&self, v: f32) -> i32;

    /// Least and greatest level.
    fn ends(&self) -> (f32, f32);

    /// How far the least and the greatest level are from their neighbours.
    fn gaps(&self) -> (f32, f32);
}

/// Levels one apart.
#[derive(Clone, Debug)]
pub(super) struct Uniform {
    least: f32,
    greatest: f32,
    zero: i32,
}

/// Adding and subtracting this rounds an f32 below 2^22 to an integer, ties to even, in two plain instructions.
const ROUNDER: f32 = 1.5 * (1 << 23) as f32;

impl Uniform {
    pub(super) fn new(blocks: &Blocks) -> Self {
        // A checked code has at most 16 bits; with a zero point beyond the exact range of `ROUNDER` levels only get
        // coarser.
        let (least, greatest) = blocks.level_range();
        Uniform { least: least as f32, greatest: greatest as f32, zero: blocks.zero }
    }

    #[inline(always)]
    fn round(&self, v: f32) -> f32 {
        // Not `f32::max` and `min`, whose care for NaN costs as much as all the rest.
        let v = if v > self.least { v } else { self.least };
        let v = if v < self.greatest { v } else { self.greatest };
        (v + ROUNDER) - ROUNDER
    }
}

impl Levels for Uniform {
    #[inline(always)]
    fn nearest(&self, v: &mut Piece) {
        for v in v {
            *v = self.round(*v);
        }
    }

    fn nearest_one(&self, v: f32) -> f32 {
        self.round(v)
    }

    fn code(&self, v: f32) -> i32 {
        self.round(v) as i32 + self.zero
    }

    fn ends(&self) -> (f32, f32) {
        (self.least, self.greatest)
    }

    fn gaps(&self) -> (f32, f32) {
        (1.0, 1.0)
    }
}

/// Levels of a table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Rising, without repetition; integers at most 255 apart.
    levels: Vec<f32>,
    /// The first code of each level.
    codes: Vec<i32>,
    /// For every unit from the least level upwards. Levels are integers, so at most one point half way between two of
    /// them lies in a unit.
    units: Box<[Unit; 256]>,
}

/// Levels nearest to the values of one unit.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    /// Where the nearest level changes, if it does.
    middle: f32,
    below: f32,
    above: f32,
}

impl Table {
    pub(super) fn new(table: &[i8], zero: i32) -> Self {
        let mut pairs: Vec<(i32, i32)> =
            (0..).zip(table).map(|(code, &level)| (i32::from(level) - zero, code)).collect();
        pairs.sort();
        pairs.dedup_by_key(|&mut (level, _)| level);
        let levels: Vec<f32> = pairs.iter().map(|&(level, _)| level as f32).collect();
        let codes = pairs.iter().map(|&(_, code)| code).collect();
        let mut units = Box::new([Unit::default(); 256]);
        for (unit, start) in units.iter_mut().zip(0u16..) {
            let start = levels[0] + f32::from(start);
            let middles = levels.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
            let below = middles.clone().filter(|&middle| middle < start).count();
            let above = middles.clone().filter(|&middle| middle < start + 1.0).count();
            let middle = middles.clone().nth(below).filter(|_| above > below).unwrap_or(f32::MAX);
            *unit = Unit { middle, below: levels[below], above: levels[above] };
        }
        Table { levels, codes, units }
    }

    #[inline(always)]
    fn round(&self, v: f32) -> f32 {
        // The cast saturates at both ends, which is what values beyond the levels need.
        let unit = &self.units[usize::from((v - self.levels[0]) as u8)];
        if v > unit.middle { unit.above } else { unit.below }
    }
}

impl Levels for Table {
    #[inline(always)]
    fn nearest(&self, v: &mut Piece) {
        for v in v {
            *v = self.round(*v);
        }
    }

    fn nearest_one(&self, v: f32) -> f32 {
        self.round(v)
    }

    fn code(&self, v: f32) -> i32 {
        let level = self.round(v);
        self.codes[self.levels.iter().filter(|&&below| below < level).count()]
    }

    fn ends(&self) -> (f32, f32) {
        (self.levels[0], self.levels[self.levels.len() - 1])
    }

    fn gaps(&self) -> (f32, f32) {
        match self.levels.as_slice() {
            [] | [_] => (1.0, 1.0),
            [first, second, ..] => {
                let last = self.levels.len() - 1;
                (second - first, self.levels[last] - self.levels[last - 1])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GgmlType;

    fn nearest_by_hand(table: &[i8], v: f32) -> f32 {
        let mut levels: Vec<f32> = table.iter().map(|&level| level.into()).collect();
        levels.sort_by(f32::total_cmp);
        levels
            .into_iter()
            .reduce(|best, level| if (v - level).abs() < (v - best).abs() { level } else { best })
            .unwrap()
    }

    #[test]
    fn tables_round_to_the_nearest_level() {
        let iq4 = GgmlType::IQ4_NL.format().unwrap().as_blocks().unwrap();
        let fp4 = GgmlType::MXFP4.format().unwrap().as_blocks().unwrap();
        let tables = [iq4.table.as_deref().unwrap(), fp4.table.as_deref().unwrap(), &[-128, 127], &[3, 4], &[5, 5]];
        for table in tables {
            let levels = Table::new(table, 0);
            for step in -1200..1200 {
                let v = step as f32 / 8.0;
                let mut piece = [v; PIECE];
                levels.nearest(&mut piece);
                assert_eq!(piece, [nearest_by_hand(table, v); PIECE], "{v} in {table:?}");
                assert_eq!(f32::from(table[levels.code(v) as usize]), piece[0]);
            }
            for v in [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
                assert_eq!(levels.round(v), nearest_by_hand(table, v.clamp(-1e6, 1e6)));
            }
        }
    }

    #[test]
    fn evenly_spaced_levels_round_and_saturate() {
        let q6 = Uniform::new(GgmlType::Q6_K.format().unwrap().as_blocks().unwrap());
        for (v, level) in [(0.4, 0.0), (-0.6, -1.0), (31.4, 31.0), (99.0, 31.0), (-1e30, -32.0), (f32::INFINITY, 31.0)]
        {
            let mut piece = [v; PIECE];
            q6.nearest(&mut piece);
            assert_eq!((piece[0], q6.code(v)), (level, level as i32 + 32));
        }
    }
}
