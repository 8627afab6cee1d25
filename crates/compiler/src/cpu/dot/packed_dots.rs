//! Integer dots in the lanes of vectors, and how several of them come to one.
//!
//! Where a machine adds products of bytes by twos, in 16 bits, bounds of the index algebra say how large a code can be: eight
//! vectors of codes of 4 bits fit into 16 bits, four of 5 bits, two of 6, and only then a second instruction widens the sums.
//! Codes of 8 bits take the dot of four, where such a processor multiplies the top bit apart, since a pair of products may leave
//! 16 bits. While sums fit, neighbouring lanes of two vectors are added into one: four groups of codes of 4 or 5 bits, or two
//! of 6, are widened, converted and scaled as one vector.

use crate::cpu::vectors::Tiler;
use crate::kernel::expression::zero;
use crate::kernel::superword::of_two;
use ir::DType;
use ir::{Const, Graph, Id, Op, Type};

/// Codes and values as vectors of as many bytes, and the group of each i32 lane.
pub(crate) type PackedStep = (Id, Id, Vec<u16>);

/// Sums of products of four codes and four values in each i32 lane, vector by vector.
pub(crate) struct Dots {
    /// What is in i32 so far.
    sums: Id,
    /// What is in i16 so far, and how many vectors' products that is.
    halves: Option<(Id, i64)>,
    /// So many vectors' products surely fit into 16 bits, summed by twos; 0 where they are summed by fours at once.
    fit: i64,
    /// The accumulators of both, where there are any.
    held: [Option<Id>; 2],
}

impl Dots {
    /// No sums yet, in so many lanes, of codes of `most` at most. With `pairs` they are summed by twos in 16 bits first.
    pub(crate) fn new(g: &mut Graph, lanes: usize, most: i64, pairs: bool) -> Dots {
        /// Magnitude of the least value.
        const VALUE: i64 = 128;
        let sums = zero(g, Type::vector(DType::I32, lanes));
        let fit = if pairs && lanes >= 4 { i64::from(i16::MAX) / (2 * VALUE * most.max(1)) } else { 0 };
        Dots { sums, halves: None, fit, held: [None; 2] }
    }

    /// Adds the products of a vector of codes and one of values.
    pub(crate) fn add(&mut self, g: &mut Graph, code: Id, x: Id) {
        if self.fit == 0 {
            self.sums = g.make(Op::Dot4, g.ty(self.sums), vec![], vec![self.sums, code, x]);
            return;
        }
        let ty = Type::vector(DType::I16, 2 * g.ty(self.sums).lanes as usize);
        if self.halves.is_some_and(|(_, n)| n == self.fit) {
            self.total(g);
        }
        let (sum, n) = self.halves.unwrap_or_else(|| (zero(g, ty), 0));
        self.halves = Some((g.make(Op::Dot2, ty, vec![], vec![sum, code, x]), n + 1));
    }

    /// Lanes of these sums and of others, each with the lane after it: a vector for two, of groups of their own. `None`
    /// where neighbours are not of one group, or would not fit. `maps` says the group of each i32 lane.
    fn hadd(&self, other: &Dots, maps: [&[u16]; 2], g: &mut Graph) -> Option<(Vec<u16>, Dots)> {
        let ((a, n), (b, m)) = (self.halves?, other.halves?);
        let (ty, none) = (g.ty(a), zero(g, g.ty(self.sums)));
        let by_twos = |map: &[u16]| map.chunks(2).all(|two| two.len() == 2 && two[0] == two[1]);
        let fit = 2 * n.max(m) <= self.fit.min(other.fit) && g.ty(b) == ty && ty.lanes.is_multiple_of(8);
        if !fit || [self.sums, other.sums] != [none; 2] || !maps.into_iter().all(by_twos) {
            return None;
        }
        // Four lanes of i32 in each part of a register: two of them from either vector.
        let (lanes, part) = (ty.lanes / 2, 4);
        let from = |odd: u16| -> Vec<u16> {
            let of_part = |first: u16| [first, first + 2, lanes + first, lanes + first + 2];
            (0..lanes).step_by(part).flat_map(of_part).map(|lane| lane + odd).collect()
        };
        let mut half = |odd: u16| {
            let map = from(odd).into_iter().flat_map(|lane| [2 * lane, 2 * lane + 1]).collect();
            of_two(g, a, b, map)
        };
        let (even, odd) = (half(0), half(1));
        let sum = g.add(even, odd);
        let map = from(0).into_iter().map(|lane| maps[usize::from(lane / lanes)][usize::from(lane % lanes)]).collect();
        Some((map, Dots { sums: none, halves: Some((sum, 2 * n.max(m))), fit: self.fit, held: [None; 2] }))
    }

    /// All of it in i32.
    pub(crate) fn total(&mut self, g: &mut Graph) -> Id {
        if let Some((halves, _)) = self.halves.take() {
            let ones =
                g.make(Op::Lanes(vec![Const::Int(1); g.ty(halves).lanes as usize]), g.ty(halves), vec![], vec![]);
            self.sums = g.make(Op::Dot2, g.ty(self.sums), vec![], vec![self.sums, halves, ones]);
        }
        self.sums
    }

    /// Goes on from accumulators: `set` is to write to them what there is so far.
    pub(crate) fn hold(&mut self, t: &mut Tiler, g: &mut Graph, set: &mut Vec<(Id, Id)>) {
        let parts = [Some(&mut self.sums), self.halves.as_mut().map(|h| &mut h.0)];
        for (value, held) in parts.into_iter().zip(&mut self.held) {
            let Some(value) = value.filter(|v| **v != zero(g, g.ty(**v)) && Some(**v) != *held) else { continue };
            let acc = *held.get_or_insert_with(|| t.acc(g, g.ty(*value)));
            set.push((acc, *value));
            *value = acc;
        }
    }
}

/// Sums of fewer lanes for each group, and so fewer vectors to convert and to scale: as long as they fit into 16 bits,
/// two vectors become one.
pub(super) fn added_across(g: &mut Graph, mut chains: Vec<(Vec<u16>, Dots)>) -> Vec<(Vec<u16>, Dots)> {
    loop {
        let before = chains.len();
        // Both halves of a byte after each other: one load serves them.
        chains.sort_by(|a, b| a.0.cmp(&b.0));
        let mut fewer: Vec<(Vec<u16>, Dots)> = vec![];
        let mut rest = chains.into_iter().peekable();
        while let Some((map, dots)) = rest.next() {
            let both = rest.peek().and_then(|(next, other)| dots.hadd(other, [&map, next], g));
            if both.is_some() {
                rest.next();
            }
            fewer.push(both.unwrap_or((map, dots)));
        }
        chains = fewer;
        if chains.len() == before {
            return chains;
        }
    }
}
