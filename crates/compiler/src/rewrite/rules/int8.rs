//! Weights in block formats as integers.

use crate::rewrite::rules::Rule;
use crate::rewrite::rules::integer_dots::{Coded, format_under, integer_dots};
use crate::rewrite::rules::movement::replay;
use ir::rewrite::Kind;
use ir::{Graph, Id, Op, Part};

/// Reads block-quantised weights as integers against an input quantised once
/// (the `int8` policy).
pub const INT8: Rule = Rule { name: "int8", kind: Kind::Reassociating, apply: |g, id, _| int8(g, id) };

/// As [`INT8`], of signed bytes that need no added term, for formats whose weights are multiples of such bytes
/// ([`Part::Level`]).
pub const LEVELS: Rule = Rule { name: "levels", kind: Kind::Reassociating, apply: |g, id, _| levels(g, id) };

fn levels(g: &mut Graph, id: Id) -> Option<Id> {
    integer_dots(g, id, |g, w| {
        let format = format_under(g, w)?;
        let f = g.format(format).clone();
        let up = f.as_blocks().filter(|blocks| blocks.min.is_none())?.level_shift()?;
        let group = g.format_group(format);
        let (code, scale) = (other_part(g, w, Part::Level)?, other_part(g, w, Part::Scale)?);
        Some(Coded { code, group, scale, unit: 1.0 / (1u32 << up) as f32, offset: None })
    })
}

fn int8(g: &mut Graph, id: Id) -> Option<Id> {
    integer_dots(g, id, |g, w| {
        let format = format_under(g, w)?;
        let group = g.format_group(format);
        let offset = if offset_is_zero(g, format) { None } else { Some(other_part(g, w, Part::Offset)?) };
        let (code, scale) = (other_part(g, w, Part::Code)?, other_part(g, w, Part::Scale)?);
        Some(Coded { code, group, scale, unit: 1.0, offset })
    })
}

/// Replaces the `Dequant(Value)` under a chain of views that keep rows whole
/// with another part of the block.
fn other_part(g: &mut Graph, id: Id, part: Part) -> Option<Id> {
    let n = g.node(id).clone();
    match n.op {
        Op::Dequant(f, Part::Value) => Some(g.dequant(n.src[0], f, part)),
        Op::Reshape | Op::Expand => {
            if g.shape(n.src[0]).last() != n.shape.last() {
                return None;
            }
            let leaf = other_part(g, n.src[0], part)?;
            Some(replay(g, &[id], leaf))
        }
        Op::Slice { axis, start } if axis + 1 < n.shape.len() => {
            let leaf = other_part(g, n.src[0], part)?;
            let len = g.as_int(n.shape[axis])?;
            Some(g.slice(leaf, axis, start, len))
        }
        Op::Permute(p) if p.last() == Some(&(p.len() - 1)) => {
            let leaf = other_part(g, n.src[0], part)?;
            Some(g.permute(leaf, p))
        }
        // Of experts. A row of one matrix is data that weights multiply: an embedding.
        Op::Gather if g.shape(n.src[0]).len() > 2 => {
            let leaf = other_part(g, n.src[0], part)?;
            Some(g.gather(leaf, n.src[1]))
        }
        _ => None,
    }
}

/// Whether the value of a format is a plain multiple of its code.
fn offset_is_zero(g: &Graph, format: ir::FormatId) -> bool {
    let f = g.format(format).clone();
    let b = f.as_blocks().expect("a block format");
    b.min.is_none() && code_bias(b) == b.zero
}

/// What is subtracted from codes (or table entries) so that the least is 0.
pub fn code_bias(b: &gguf::format::Blocks) -> i32 {
    match &b.table {
        Some(t) => t.iter().copied().min().unwrap_or(0) as i32,
        None => b.code.range().0,
    }
}
