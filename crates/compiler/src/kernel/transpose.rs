//! Rows of units that become columns, in registers.
//!
//! A unit is a few neighbouring lanes that stay together (four bytes, or one
//! float). The rows are vectors; each round exchanges one bit of the vector's
//! number with one bit of the lane, by shuffles of pairs of vectors, so that `n`
//! by `n` units take `log n` rounds.

use crate::kernel::superword::join;
use ir::{Graph, Id, Op, Type};

/// The sum across the lanes of each of `rows`, one a lane; both counts are powers of two.
pub(crate) fn sums_of_rows(g: &mut Graph, rows: &[Id]) -> Id {
    let ty = g.ty(rows[0]);
    let columns = transpose(g, rows, 1, usize::from(ty.lanes));
    let mut sum = columns[1..].iter().fold(columns[0], |sum, &v| g.add(sum, v));
    let mut lanes = ty.lanes;
    while usize::from(lanes) > rows.len() {
        lanes /= 2;
        let half = Type::vector(ty.base, lanes.into());
        let mut part = |first: u16| g.make(Op::Shuffle((first..first + lanes).collect()), half, vec![], vec![sum]);
        let (low, high) = (part(0), part(lanes));
        sum = g.add(low, high);
    }
    sum
}

/// A bit of the number of a row, or of the number of a unit in its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bit {
    Row(u32),
    Unit(u32),
}

/// The units of `rows` column by column: unit 0 of every row, unit 1 of every
/// row, and so on, as vectors of `lanes` units. All counts are powers of two,
/// and `lanes` is at least the units of a row and at most all units.
pub(crate) fn transpose(g: &mut Graph, rows: &[Id], unit: usize, lanes: usize) -> Vec<Id> {
    let per_row = g.ty(rows[0]).lanes as usize / unit;
    let base = g.dtype(rows[0]);
    // Whole vectors first: some rows side by side.
    let n = rows.len() * per_row / lanes;
    let mut vectors: Vec<Id> = (0..n)
        .map(|v| {
            let parts: Vec<Id> = rows.iter().copied().skip(v).step_by(n).collect();
            if parts.len() == 1 { parts[0] } else { join(g, parts) }
        })
        .collect();
    let (row_bits, unit_bits) = (rows.len().ilog2(), per_row.ilog2());
    let flat: Vec<Bit> = (0..row_bits).map(Bit::Row).chain((0..unit_bits).map(Bit::Unit)).collect();
    let (want_lane, want_vector) = flat.split_at(lanes.ilog2() as usize);
    let low = n.ilog2();
    let mut vector: Vec<Bit> = (0..low).map(Bit::Row).collect();
    let mut lane: Vec<Bit> = (0..unit_bits).map(Bit::Unit).chain((low..row_bits).map(Bit::Row)).collect();
    loop {
        let moving = vector.iter().position(|b| !want_vector.contains(b));
        // The bit of the lane to leave is best where the new one belongs.
        let exchange = moving.map(|v| {
            let home = want_lane.iter().position(|b| *b == vector[v]).unwrap();
            let leaving = |b: usize| want_vector.contains(&lane[b]);
            (v, if leaving(home) { home } else { (0..lane.len()).find(|&b| leaving(b)).unwrap() })
        });
        if let Some((v, b)) = exchange {
            std::mem::swap(&mut vector[v], &mut lane[b]);
        }
        let last = vector.iter().all(|b| want_vector.contains(b));
        // Lane `l` of a result comes from lane `from[l]`.
        let from: Vec<usize> = (0..lanes)
            .map(|l| match last {
                false => l,
                true => (0..lane.len())
                    .map(|b| ((l >> want_lane.iter().position(|w| *w == lane[b]).unwrap()) & 1) << b)
                    .sum(),
            })
            .collect();
        vectors = match exchange {
            Some((v, b)) => exchanged(g, &vectors, v, b, &from, unit),
            None if from.iter().enumerate().all(|(i, &f)| i == f) => vectors,
            None => vectors.iter().map(|&x| shuffle(g, x, &from, unit)).collect(),
        };
        if last {
            break;
        }
    }
    // Naming the vectors in order is free.
    let place = |i: usize| -> usize {
        (0..vector.len()).map(|v| ((i >> v) & 1) << want_vector.iter().position(|w| *w == vector[v]).unwrap()).sum()
    };
    let mut out = vec![vectors[0]; n];
    for (i, x) in vectors.into_iter().enumerate() {
        out[place(i)] = x;
    }
    debug_assert!(out.iter().all(|&x| g.ty(x) == Type::vector(base, lanes * unit)));
    out
}

/// Exchanges bit `v` of the vector's number with bit `b` of the lane, then
/// takes lane `l` of every vector from lane `from[l]`.
fn exchanged(g: &mut Graph, vectors: &[Id], v: usize, b: usize, from: &[usize], unit: usize) -> Vec<Id> {
    let lanes = from.len();
    let bit = 1 << b;
    (0..vectors.len())
        .map(|i| {
            let (first, second) = (vectors[i & !(1 << v)], vectors[i | 1 << v]);
            let upper = (i >> v) & 1 == 1;
            let map: Vec<usize> = from
                .iter()
                .map(|&l| match (l & bit == 0, upper) {
                    (true, false) => l,
                    (true, true) => l | bit,
                    (false, false) => lanes + (l ^ bit),
                    (false, true) => lanes + l,
                })
                .collect();
            let ty = Type::vector(g.dtype(first), 2 * lanes * unit);
            let both = g.make(Op::Join, ty, vec![], vec![first, second]);
            shuffle(g, both, &map, unit)
        })
        .collect()
}

fn shuffle(g: &mut Graph, x: Id, map: &[usize], unit: usize) -> Id {
    let map: Vec<u16> = map.iter().flat_map(|&m| (0..unit).map(move |k| (m * unit + k) as u16)).collect();
    let ty = Type::vector(g.dtype(x), map.len());
    g.make(Op::Shuffle(map), ty, vec![], vec![x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Const, DType};

    /// What each lane of a tree of joins and shuffles of constants holds.
    fn lanes_of(g: &Graph, id: Id) -> Vec<i64> {
        match g.op(id) {
            Op::Lanes(v) => v.iter().map(|c| c.as_int()).collect(),
            Op::Join => g.src(id).iter().flat_map(|&s| lanes_of(g, s)).collect(),
            Op::Shuffle(map) => {
                let s = lanes_of(g, g.src(id)[0]);
                map.iter().map(|&m| s[m as usize]).collect()
            }
            op => panic!("{op:?}"),
        }
    }

    #[test]
    fn units_come_column_by_column() {
        for (rows, units, unit, lanes) in [
            (16, 16, 4, 16),
            (16, 8, 4, 16),
            (16, 4, 1, 16),
            (8, 16, 4, 16),
            (8, 8, 1, 8),
            (4, 4, 4, 4),
            (16, 1, 1, 16),
            (8, 2, 1, 16),
        ] {
            let mut g = Graph::new();
            let vectors: Vec<Id> = (0..rows)
                .map(|r| {
                    let v: Vec<Const> =
                        (0..units * unit).map(|i| Const::Int(((r * units) * unit + i) as i64)).collect();
                    let ty = Type::vector(DType::I32, v.len());
                    g.make(Op::Lanes(v), ty, vec![], vec![])
                })
                .collect();
            let out = transpose(&mut g, &vectors, unit, lanes);
            let got: Vec<i64> = out.iter().flat_map(|&v| lanes_of(&g, v)).collect();
            let want: Vec<i64> = (0..units)
                .flat_map(|u| (0..rows).flat_map(move |r| (0..unit).map(move |k| ((r * units + u) * unit + k) as i64)))
                .collect();
            assert_eq!(got, want, "{rows} rows of {units} units of {unit}, {lanes} a vector");
        }
    }
}
