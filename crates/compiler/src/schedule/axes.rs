//! How the dimensions of the values of a kernel relate to its axes.
//!
//! A kernel has a few *axes*: task axes, along which its tasks are cut, and at
//! most one serial axis, the loop of a fold. A dimension of a value either lies
//! along an axis, with `unit` elements for each step of it, or is *inner*: each
//! task holds all of it. Following these maps through movement operations is
//! what tells whether a consumer can live in the kernel of its producer.

use ir::index::gcd;
use ir::{Graph, Id, Op};

/// Where a dimension lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Nothing depends on it (length 1, or repeated).
    Free,
    /// Each task has all of it.
    Inner,
    /// `unit` consecutive elements for each step of an axis.
    Axis {
        /// Number of the axis in its kernel.
        axis: usize,
        /// Elements for each step.
        unit: i64,
    },
}

/// What has to change before a map exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The steps of an axis must be this many times longer.
    Rescale(usize, i64),
    /// An axis must become inner.
    Demote(usize),
    /// Nothing helps.
    Never,
}

/// The one map that two operands agree on.
pub fn unify(a: &[Along], b: &[Along]) -> Result<Vec<Along>, Obstacle> {
    let mut out: Vec<Along> = vec![];
    for (&x, &y) in a.iter().zip(b) {
        let both = match (x, y) {
            (Along::Free, y) => y,
            (x, Along::Free) => x,
            (Along::Inner, Along::Axis { axis, .. }) | (Along::Axis { axis, .. }, Along::Inner) => {
                return Err(Obstacle::Demote(axis));
            }
            (x, y) if x == y => x,
            _ => return Err(Obstacle::Never),
        };
        if let Along::Axis { axis, .. } = both
            && out.iter().any(|o| matches!(o, Along::Axis { axis: other, .. } if *other == axis))
        {
            // Every pair of two values along one axis: no task has them all.
            return Err(Obstacle::Demote(axis));
        }
        out.push(both);
    }
    Ok(out)
}

/// The map of a node from the map of its source (the source number `operand`).
pub fn forward(g: &mut Graph, id: Id, operand: usize, map: &[Along]) -> Result<Vec<Along>, Obstacle> {
    let src = g.src(id)[operand];
    let shape = g.shape(id).to_vec();
    let free_ones = |g: &Graph, mut m: Vec<Along>| {
        for (a, d) in m.iter_mut().zip(&shape) {
            if g.as_int(*d) == Some(1) {
                *a = Along::Free;
            }
        }
        m
    };
    match g.op(id).clone() {
        op if op.is_elementwise() => Ok(map.to_vec()),
        Op::Prefix(_) if operand == 0 => Ok(map.to_vec()),
        Op::Fence => Err(Obstacle::Never),
        Op::Reshape => {
            let from = g.shape(src).to_vec();
            let m = reshape(g, &from, &shape, map)?;
            Ok(free_ones(g, m))
        }
        Op::Permute(p) => Ok(p.iter().map(|&i| map[i]).collect()),
        Op::Expand => {
            let from = g.shape(src).to_vec();
            Ok(map.iter().enumerate().map(|(i, &m)| if from[i] == shape[i] { m } else { Along::Free }).collect())
        }
        Op::Slice { axis, .. } | Op::Concat(axis) => match map[axis] {
            Along::Axis { axis, .. } => Err(Obstacle::Demote(axis)),
            _ => {
                let mut m = map.to_vec();
                m[axis] = Along::Inner;
                Ok(free_ones(g, m))
            }
        },
        Op::Reduce(_, axes) => {
            for &a in &axes {
                if let Along::Axis { axis, .. } = map[a] {
                    return Err(Obstacle::Demote(axis));
                }
            }
            Ok(map.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &m)| m).collect())
        }
        Op::Scatter if operand == 2 => Ok(map.to_vec()),
        _ => Err(Obstacle::Never),
    }
}

/// The map of a source that a node with this map asks for, where the node is
/// elementwise, a view or a reduction; `None` for other operations.
pub fn backward(g: &mut Graph, id: Id, operand: usize, map: &[Along]) -> Option<Vec<Along>> {
    let src = g.src(id)[operand];
    let from = g.shape(src).to_vec();
    let shape = g.shape(id).to_vec();
    let mut m = match g.op(id).clone() {
        op if op.is_elementwise() => map.to_vec(),
        Op::Prefix(axis) => map[..if operand == 0 { map.len() } else { axis }].to_vec(),
        Op::Reshape => reshape(g, &shape, &from, map).ok()?,
        Op::Permute(p) => {
            let mut m = vec![Along::Free; p.len()];
            for (i, &j) in p.iter().enumerate() {
                m[j] = map[i];
            }
            m
        }
        Op::Expand => (0..from.len()).map(|i| if from[i] == shape[i] { map[i] } else { Along::Free }).collect(),
        Op::Slice { axis, .. } => {
            let mut m = map.to_vec();
            if matches!(m[axis], Along::Axis { .. }) {
                return None;
            }
            m[axis] = Along::Inner;
            m
        }
        Op::Reduce(_, axes) => {
            let mut it = map.iter();
            (0..from.len()).map(|i| if axes.contains(&i) { Along::Inner } else { *it.next().unwrap() }).collect()
        }
        _ => return None,
    };
    for (a, d) in m.iter_mut().zip(&from) {
        if g.as_int(*d) == Some(1) {
            *a = Along::Free;
        }
    }
    Some(m)
}

fn reshape(g: &mut Graph, from: &[Id], to: &[Id], map: &[Along]) -> Result<Vec<Along>, Obstacle> {
    let mut out = vec![Along::Free; to.len()];
    for (f, t) in ir::index::reshape_groups(g, from, to) {
        let wide = |g: &Graph, d: Id| g.as_int(d) != Some(1);
        let dims: Vec<(Id, Along)> = f.map(|i| (from[i], map[i])).filter(|d| wide(g, d.0)).collect();
        let targets: Vec<usize> = t.filter(|&i| wide(g, to[i])).collect();
        if targets.is_empty() || dims.is_empty() {
            continue;
        }
        if dims.len() == targets.len() && dims.iter().zip(&targets).all(|(d, &t)| d.0 == to[t]) {
            for (d, &t) in dims.iter().zip(&targets) {
                out[t] = d.1;
            }
            continue;
        }
        let axes = dims.iter().filter(|d| matches!(d.1, Along::Axis { .. })).count();
        if axes == 0 {
            let inner = dims.iter().any(|d| d.1 == Along::Inner);
            for &t in &targets {
                out[t] = if inner { Along::Inner } else { Along::Free };
            }
            continue;
        }
        // One axis in front, the rest inner: rows of `flat` elements a step.
        let Along::Axis { axis, unit } = dims[0].1 else {
            let a = dims.iter().find_map(|d| if let Along::Axis { axis, .. } = d.1 { Some(axis) } else { None });
            return Err(Obstacle::Demote(a.unwrap()));
        };
        if let Some(other) =
            dims[1..].iter().find_map(|d| if let Along::Axis { axis, .. } = d.1 { Some(axis) } else { None })
        {
            return Err(Obstacle::Demote(other));
        }
        let mut flat = unit;
        for d in &dims[1..] {
            flat *= g.as_int(d.0).ok_or(Obstacle::Never)?;
        }
        let mut below = 1;
        for &t in &targets[1..] {
            below *= g.as_int(to[t]).ok_or(Obstacle::Never)?;
        }
        if flat % below == 0 {
            out[targets[0]] = Along::Axis { axis, unit: flat / below };
            for &t in &targets[1..] {
                out[t] = Along::Inner;
            }
        } else if below % flat == 0 {
            return Err(Obstacle::Rescale(axis, below / flat));
        } else {
            let g0 = gcd(flat, below);
            return Err(Obstacle::Rescale(axis, below / g0));
        }
    }
    Ok(out)
}
