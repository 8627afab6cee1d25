//! Which axes of a kernel its tokens lie along.

use crate::kernel::dot_pattern::half_factors;
use crate::program::products::is_dot;
use crate::schedule::Schedule;
use crate::schedule::axes::Along;
use crate::schedule::roles::{is_view, lies_as_halves, reads_state};
use ir::{DType, FormatId, Graph, Id, Op, index, walk};

/// What several tokens are multiplied with in a group.
pub(super) struct Tokens {
    /// The task axes along which they lie.
    pub(super) axes: Vec<usize>,
    /// Sums of products with them.
    pub(super) sums: i64,
    /// Whether all are sums of bf16 numbers, or of f16.
    pub(super) halves: bool,
    /// Whether all are of weights in block formats.
    pub(super) blocks: bool,
    /// Whether a lane has registers for rows of theirs and for the sums of many tokens.
    pub(super) light: bool,
}

/// The task axes along which the tokens lie of the sums of a group by integer dots, or of halves: what moves their
/// values and not their weights.
pub(super) fn token_axes(g: &mut Graph, s: &Schedule, group: usize) -> Tokens {
    let members = s.groups[group].members.clone();
    let is_tile = |g: &Graph, m: Id| s.roles.heavy.contains(&m) && (is_dot(g, s, m) || is_of_halves(g, m));
    let dots: Vec<Id> = members.into_iter().filter(|&m| is_tile(g, m)).collect();
    let axes = &s.groups[group].axes;
    let mut all: Vec<usize> = (0..axes.len()).filter(|&i| axes[i].is_task()).collect();
    if dots.is_empty() {
        return Tokens { axes: vec![], sums: 0, halves: false, blocks: false, light: false };
    }
    let sums = dots.len() as i64;
    let halves = dots.iter().all(|&dot| is_of_halves(g, dot));
    let formats: Vec<Vec<FormatId>> = dots.iter().map(|&dot| formats(g, s, dot)).collect();
    let blocks = formats.iter().all(|of| !of.is_empty());
    let light = blocks && formats.iter().flatten().all(|&format| is_light(g, format));
    for dot in dots {
        let of_weights = |g: &Graph, id: Id| {
            let is_half = matches!(g.dtype(id), DType::BF16 | DType::F16);
            let half = || is_half && s.roles.free.contains(&id) && !is_view(g, id);
            matches!(g.op(id), Op::Dequant(..)) || *g.op(id) != Op::Gather && half()
        };
        let (own, moved) = moved_by(g, s, group, dot, of_weights);
        all.retain(|&i| own.has(i) && !moved.has(i));
    }
    Tokens { axes: all, sums, halves, blocks, light }
}

/// Bits of a weight of which a lane has few registers, with the scale of its block.
const LIGHT: f64 = 5.0;

/// Whether weights are codes of a few bits, each block of which has a float for a scale and nothing else.
fn is_light(g: &Graph, format: FormatId) -> bool {
    let f = g.format(format);
    f.as_blocks().is_some_and(|b| b.min.is_none() && b.scale.sub.is_none()) && f.bits_per_value() < LIGHT
}

/// The block formats of the weights of a sum.
fn formats(g: &Graph, s: &Schedule, sum: Id) -> Vec<FormatId> {
    let mut all = vec![];
    let own = |id: &Id| !s.home.contains_key(id);
    walk::reach(g.src(sum).iter().copied().filter(own), |id, more| {
        more.extend(g.src(id).iter().copied().filter(own));
        if let Op::Dequant(format, _) = *g.op(id) {
            all.push(format);
        }
    });
    all
}

/// Whether a sum is one of products of halves.
fn is_of_halves(g: &Graph, sum: Id) -> bool {
    g.src(sum).first().is_some_and(|&body| half_factors(g, body).is_some())
}

/// The task axes along which rows of halves lie, of a cache or of a value that lies in memory, and those of the columns, if
/// all sums that a group was made for are products of such rows.
pub(super) fn halves_axes(g: &mut Graph, s: &Schedule, group: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    let members = s.groups[group].members.clone();
    let sums: Vec<Id> = members.into_iter().filter(|m| s.roles.heavy.contains(m)).collect();
    let axes = &s.groups[group].axes;
    let task = |i: &usize| axes[*i].is_task();
    let mut found: Option<(Vec<usize>, Vec<usize>)> = None;
    for sum in sums {
        let cached =
            |g: &Graph, id: Id| *g.op(id) == Op::Cast && g.dtype(g.src(id)[0]) == DType::F16 && reads_state(g, id);
        let halves = |g: &Graph, id: Id| cached(g, id) || lies_as_halves(g, id);
        let (own, moved) = moved_by(g, s, group, sum, halves);
        let (rows, columns): (Vec<usize>, Vec<usize>) =
            (0..axes.len()).filter(task).filter(|&i| own.has(i)).partition(|&i| moved.has(i));
        if found.as_ref().is_some_and(|f| *f != (rows.clone(), columns.clone())) {
            return None;
        }
        found = Some((rows, columns));
    }
    found.filter(|(rows, columns): &(Vec<usize>, Vec<usize>)| !rows.is_empty() && !columns.is_empty())
}

/// The axes that move a sum, and those that move what it reads of this kind.
fn moved_by(g: &mut Graph, s: &Schedule, group: usize, sum: Id, of: impl Fn(&Graph, Id) -> bool) -> (Axes, Axes) {
    let lies: Vec<Axes> = s.maps[&(group, sum)].iter().map(|&a| Axes::of(a)).collect();
    let mut moved = Axes::default();
    moves(g, s, sum, &lies, &of, &mut moved);
    (lies.into_iter().fold(Axes::default(), Axes::and), moved)
}

/// Which axes of a group move the index along a dimension.
#[derive(Clone, Copy, Default)]
struct Axes(u64);

impl Axes {
    fn of(along: Along) -> Axes {
        if let Along::Axis { axis, .. } = along { Axes(1 << axis) } else { Axes(0) }
    }

    fn and(self, other: Axes) -> Axes {
        Axes(self.0 | other.0)
    }

    fn has(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }
}

/// Collects the axes that move nodes of a kind under a value, of which these move each dimension; whether there are
/// such nodes.
fn moves(
    g: &mut Graph,
    s: &Schedule,
    id: Id,
    lies: &[Axes],
    of: &impl Fn(&Graph, Id) -> bool,
    moved: &mut Axes,
) -> bool {
    let all = |lies: &[Axes]| lies.iter().copied().fold(Axes::default(), Axes::and);
    if of(g, id) {
        *moved = moved.and(all(lies));
        return true;
    }
    let mut coded = false;
    for (operand, source) in g.src(id).to_vec().into_iter().enumerate() {
        // What other kernels, or this one, have computed are values.
        if s.home.contains_key(&source) {
            continue;
        }
        let Some(below) = lies_below(g, id, operand, lies) else { continue };
        if moves(g, s, source, &below, of, moved) {
            coded = true;
            if *g.op(id) == Op::Gather {
                let index = g.shape(g.src(id)[1]).len();
                *moved = moved.and(all(&lies[..index]));
            }
        }
    }
    coded
}

/// The axes that move each dimension of a source.
fn lies_below(g: &mut Graph, id: Id, operand: usize, lies: &[Axes]) -> Option<Vec<Axes>> {
    let source = g.src(id)[operand];
    let (from, shape) = (g.shape(source).to_vec(), g.shape(id).to_vec());
    Some(match g.op(id).clone() {
        op if op.is_elementwise() => lies.to_vec(),
        Op::Reshape => {
            let mut below = vec![Axes::default(); from.len()];
            for (to, of) in index::reshape_groups(g, &shape, &from) {
                let all = lies[to].iter().copied().fold(Axes::default(), Axes::and);
                of.for_each(|i| below[i] = all);
            }
            below
        }
        Op::Permute(p) => {
            let mut below = vec![Axes::default(); p.len()];
            p.iter().zip(lies).for_each(|(&i, &l)| below[i] = l);
            below
        }
        Op::Expand => (0..from.len()).map(|i| if from[i] == shape[i] { lies[i] } else { Axes::default() }).collect(),
        Op::Slice { .. } => lies.to_vec(),
        Op::Reduce(_, axes) => {
            let mut rest = lies.iter().copied();
            let below = (0..from.len()).map(|i| if axes.contains(&i) { None } else { rest.next() });
            below.map(Option::unwrap_or_default).collect()
        }
        Op::Gather if operand == 0 => {
            let index = g.shape(g.src(id)[1]).len();
            std::iter::once(Axes::default()).chain(lies[index..].iter().copied()).collect()
        }
        _ => return None,
    })
}
