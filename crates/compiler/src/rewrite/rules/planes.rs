//! Weights in planes: the rewrite that makes kernels read them, and the list of tensors to repack.

use crate::rewrite::rules::Rule;
use gguf::format::Planes;
use ir::rewrite::Kind;
use ir::{DType, FormatId, Graph, Id, Op};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the parts of blocks from rows in planes, where a row has them.
pub const PLANES: Rule = Rule { name: "planes", kind: Kind::Exact, apply: |g, id, _| planes(g, id) };

/// The planes of the rows of a tensor of bytes.
fn planes_of(g: &Graph, format: FormatId, bytes: Id) -> Option<Planes> {
    let f = g.format(format).clone();
    if !matches!(g.op(bytes), Op::Param { .. }) {
        return None;
    }
    let (values, size) = g.block_size(format);
    let row = g.as_int(*g.shape(bytes).last()?)? / size * values;
    // Planes are one block of several floats.
    if f.as_blocks()?.scale.floats.is_some() && values == row {
        return None;
    }
    Planes::of(&f, u64::try_from(row).ok()?)
}

fn planes(g: &mut Graph, id: Id) -> Option<Id> {
    let Op::Dequant(format, part) = *g.op(id) else { return None };
    let bytes = g.src(id)[0];
    let planes = planes_of(g, format, bytes)?;
    let Op::Param { name } = g.op(bytes).clone() else { return None };
    let to = g.format_id(&Arc::new(planes.to().clone()));
    let mut shape = g.shape(bytes).to_vec();
    *shape.last_mut()? = g.int(g.block_size(to).1);
    let packed = g.param(&name, DType::U8, shape);
    Some(g.dequant(packed, to, part))
}

/// Tensors whose rows lie in planes, by name.
pub(crate) type Repacked = BTreeMap<String, Arc<Planes>>;

/// Every tensor under `roots` that [`PLANES`] repacks.
pub(crate) fn repacked(g: &Graph, roots: &[Id]) -> Repacked {
    let mut all = Repacked::default();
    for id in g.toposort(roots) {
        if let Op::Dequant(format, _) = *g.op(id)
            && let Op::Param { name } = g.op(g.src(id)[0])
            && let Some(planes) = planes_of(g, format, g.src(id)[0])
        {
            all.insert(name.clone(), Arc::new(planes));
        }
    }
    all
}
