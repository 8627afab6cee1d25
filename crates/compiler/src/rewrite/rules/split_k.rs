//! Long sums of products in two parts, where a product has so few tiles that most of a GPU would wait for them.

use crate::options::Options;
use crate::rewrite::rules::Rule;
use crate::rewrite::rules::movement::products_along_last;
use ir::index::usual;
use ir::rewrite::Kind;
use ir::{DType, Graph, Id, Op, ReduceOp};

/// Sums halves of a sum over weights for several tokens beside each other; whoever reads the sum adds both. The target says where,
/// by how many tiles the product has (`sum_parts`).
pub const SPLIT_K: Rule = Rule { name: "split-k", kind: Kind::Reassociating, apply: split_k };

/// Elements of the longest block of a format, of which no part has a piece.
const BLOCK: i64 = 256;

fn split_k(g: &mut Graph, id: Id, options: &Options) -> Option<Id> {
    let (a, b) = products_along_last(g, id)?;
    let [a, b] = [a, b].map(|factor| (*g.op(factor) == Op::Cast).then(|| g.src(factor)[0]));
    let (a, b) = a.zip(b).filter(|&(a, b)| g.dtype(a).bytes() == 2 && g.dtype(b).bytes() == 2)?;
    let mut shape = g.shape(a).to_vec();
    let elements = g.as_int(shape.pop()?)?;
    let symbolic: Vec<Id> = shape.iter().copied().filter(|&d| g.as_int(d).is_none()).collect();
    let [tokens] = symbolic[..] else { return None };
    let rows: i64 = shape.iter().filter_map(|&d| g.as_int(d)).product();
    let parts = options.target().sum_parts(rows, usual(g, tokens), elements);
    if parts < 2 || elements % (parts * BLOCK) != 0 {
        return None;
    }
    // [.., elements] as [parts, .., elements of a part].
    let last = shape.len();
    let in_parts = |g: &mut Graph, factor: Id| {
        let of_parts = [shape.clone(), [parts, elements / parts].map(|n| g.int(n)).to_vec()].concat();
        let factor = g.reshape(factor, of_parts);
        let factor = g.permute(factor, [vec![last], (0..last).collect(), vec![last + 1]].concat());
        g.cast(factor, DType::F32)
    };
    let (a, b) = (in_parts(g, a), in_parts(g, b));
    let product = g.mul(a, b);
    let sums = g.reduce(ReduceOp::Sum, product, vec![last + 1]);
    let (ty, shape) = (g.ty(sums), g.shape(sums).to_vec());
    let sums = g.make(Op::Fence, ty, shape, vec![sums]);
    Some(g.reduce(ReduceOp::Sum, sums, vec![0]))
}
