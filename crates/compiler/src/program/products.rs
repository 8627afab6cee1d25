//! The matrix products of a program, and the path that each of them took.
//!
//! A product is a sum of floats over products of values that are repeated along each other's dimensions. It is known by
//! the weights or the cache that it reads; one whose factors were all computed, by the products that computed them. What
//! is said of it is what became of the item that computes it, so nothing can hide behind other items of its kernel.

use crate::kernel::body::Way;
use crate::schedule::Schedule;
use crate::schedule::roles::{is_view, summed_below};
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, walk};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Paths of sums over rows of codes by packed integer dots, or by the matrix unit.
pub const PACKED: [&str; 3] = ["integer dot", "integer tile", "block product"];

/// A matrix product, and how it is computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// The weights and parts of the cache that it reads, without `.weight`.
    pub operands: Vec<String>,
    /// Whether it reads results of products with `operands`, and not these themselves.
    pub computed: bool,
    /// The kernel that computes it, as an index into [`crate::program::Program::kernels`].
    pub kernel: usize,
    /// The path that it took.
    pub path: Cow<'static, str>,
    /// Why it is not an integer dot, where it is none of [`PACKED`].
    pub why: Option<Cow<'static, str>>,
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands = self.operands.join(", ");
        let of = if self.computed { "results of " } else { "" };
        write!(f, "path {of}{operands}: {}", self.path)?;
        match &self.why {
            Some(why) => write!(f, ", not an integer dot because {why}"),
            None => Ok(()),
        }
    }
}

/// The products of a launch of a kernel: `made` are the tensors that its items compute, and `ways` how. Inputs of a step
/// are no operands.
pub(crate) fn of(
    g: &mut Graph,
    s: &Schedule,
    made: &[Id],
    kernel: usize,
    ways: &[Way],
    inputs: &BTreeSet<String>,
) -> Vec<Product> {
    let mut found = vec![];
    let mut seen = FxHashSet::default();
    for (&sum, way) in made.iter().zip(ways) {
        // What computes a sum into scratch may be followed by what stores it.
        let Some(read) = product(g, s, sum, inputs).filter(|_| seen.insert(sum)) else { continue };
        let computed = read.names.is_empty();
        let why = match read {
            _ if PACKED.contains(&way.path) => None,
            _ if computed => Some("its factors are computed"),
            Operands { dots: true, .. } => way.no_dot,
            Operands { codes: true, .. } if goes_across(g, sum) => Some("the sum goes across blocks"),
            Operands { codes: true, .. } => Some("its input is not quantised"),
            _ => Some("floats have no codes"),
        };
        let operands = if computed { behind(g, s, sum, inputs) } else { read.names };
        let (operands, why) = (operands.into_iter().collect(), why.map(Cow::Borrowed));
        found.push(Product { operands, computed, kernel, path: way.path.into(), why });
    }
    found
}

/// What a sum reads, if it is one of products in which operands are repeated.
fn product(g: &Graph, s: &Schedule, id: Id, inputs: &BTreeSet<String>) -> Option<Operands> {
    let body = *g.src(id).first()?;
    let is_sum = matches!(g.op(id), Op::Reduce(ReduceOp::Sum, _)) && g.dtype(id) == DType::F32;
    // Products that need no room of their own, or that have no computed factor.
    if !is_sum || !s.roles.inline.contains(&body) && !s.roles.free.contains(&body) {
        return None;
    }
    let read = Operands::of(g, body, inputs);
    // A dot may have something added to it.
    (read.dots || *g.op(body) == Op::Binary(BinOp::Mul)).then_some(read)
}

/// Whether a sum is one of products of codes, which are summed as integers.
pub(crate) fn is_dot(g: &Graph, s: &Schedule, sum: Id) -> bool {
    product(g, s, sum, &BTreeSet::new()).is_some_and(|read| read.dots)
}

/// What factors are made of by renaming, choosing and converting alone.
#[derive(Default)]
struct Operands {
    names: BTreeSet<String>,
    /// Whether some hold codes.
    codes: bool,
    /// Whether codes are summed as integers.
    dots: bool,
}

impl Operands {
    fn of(g: &Graph, body: Id, inputs: &BTreeSet<String>) -> Operands {
        let mut found = Operands::default();
        walk::reach([body], |id, more| {
            let sources = g.src(id);
            match g.op(id) {
                Op::Param { name } | Op::State { name } if g.shape(id).len() > 1 && !inputs.contains(name) => {
                    found.names.insert(name.strip_suffix(".weight").unwrap_or(name).to_string());
                    found.codes |= !g.dtype(id).is_float();
                }
                // Rows of a matrix are data; matrices of a stack and pages of a cache are operands.
                Op::Gather if g.shape(sources[0]).len() > 2 => more.push(sources[0]),
                Op::Gather => {}
                Op::Reduce(ReduceOp::Sum, _) if g.dtype(id) == DType::I32 => {
                    found.dots = true;
                    more.push(sources[0]);
                }
                Op::Dequant(..) | Op::Cast | Op::Scatter => more.push(sources[0]),
                Op::Binary(_) => more.extend(sources),
                _ if is_view(g, id) => more.push(sources[0]),
                _ => {}
            }
        });
        // Sums of codes of the input alone are no dots.
        found.dots &= found.codes;
        found
    }
}

/// The operands of the products whose results a sum reads.
fn behind(g: &Graph, s: &Schedule, sum: Id, inputs: &BTreeSet<String>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    walk::reach(g.src(sum).iter().copied(), |id, more| match g.op(id) {
        Op::Reduce(..) => match product(g, s, id, inputs) {
            Some(read) if read.names.is_empty() => more.extend(g.src(id)),
            Some(read) => names.extend(read.names),
            None => {}
        },
        Op::Gather => more.push(g.src(id)[0]),
        _ => more.extend(g.src(id)),
    });
    names
}

/// Whether a sum runs along another dimension of its coded operand than the one that blocks lie along.
pub(crate) fn goes_across(g: &mut Graph, sum: Id) -> bool {
    let Op::Reduce(_, axes) = g.op(sum).clone() else { return false };
    let body = g.src(sum)[0];
    let summed: Vec<bool> = (0..g.shape(body).len()).map(|d| axes.contains(&d)).collect();
    let mut across = false;
    let each = |(id, summed): (Id, Vec<bool>), more: &mut Vec<_>| {
        let coded = match g.op(id) {
            Op::Dequant(..) => true,
            Op::Cast => !g.dtype(g.src(id)[0]).is_float(),
            _ => false,
        };
        if coded && summed.last() == Some(&false) {
            across = true;
            return;
        }
        match summed_below(g, id, &summed) {
            Some(below) => more.extend(below),
            // Part of a dimension: what counts is the last one.
            None if *g.op(id) == Op::Reshape && g.shape(id).last() == g.shape(g.src(id)[0]).last() => {
                let source = g.src(id)[0];
                let mut below = vec![false; g.shape(source).len()];
                below.last_mut().zip(summed.last()).into_iter().for_each(|(b, s)| *b = *s);
                more.push((source, below));
            }
            None => {}
        }
    };
    walk::reach_by([(body, summed)], |at| at.0, each);
    across
}
