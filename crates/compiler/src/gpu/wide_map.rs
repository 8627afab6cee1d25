//! Rows that are copied, as to where others chose them to be: a thread loads several neighbours at once, and stores them
//! at once, where a byte in a thread each would take as many loads and stores as there are bytes.
//!
//! Only what other kernels read is stored so, and only where there is enough for all threads. Where memory has words and no
//! halves or bytes, that holds for whatever is computed, too.

use crate::gpu::align::{align, alignment};
use crate::gpu::joined;
use crate::gpu::threads::Tiler;
use crate::kernel::expression::{by, has_reduction, is_scratch, loads_in, replace};
use crate::kernel::superword::Packer;
use crate::lower::Item;
use ir::index::{Linear, bounds};
use ir::{BinOp, DType, Graph, Id, Op};

/// Statements of such an item.
pub(super) fn wide_map(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let copied = *g.op(item.value) == Op::Load;
    let in_words = t.target.plan.words && g.dtype(item.buffer).bytes() < joined::WORD;
    if is_scratch(g, item.buffer) || !(copied || in_words && !has_reduction(g, item.value)) {
        return None;
    }
    let (&last, rows) = item.dims.split_last()?;
    let n = g.as_int(g.src(last)[0])?;
    if Linear::of(g, item.index).coefficient(last) != 1 {
        return None;
    }
    let all: i64 = rows.iter().map(|&d| bounds(g, g.src(d)[0]).1).fold(n, i64::saturating_mul);
    let (widest, ty) = (t.target.plan.widest, g.dtype(item.buffer));
    let fits = |v: &i64| *v as usize * ty.bytes() <= widest && n % v == 0 && all / v >= t.target.plan.threads();
    let lengths: Vec<i64> = [16, 8, 4, 2].into_iter().filter(fits).collect();
    t.attempt(|t| {
        lengths.into_iter().find_map(|v| {
            let r = t.counted(g, n / v);
            let at: Vec<Id> = (0..v)
                .map(|i| {
                    let first = by(g, BinOp::Mul, r, v);
                    by(g, BinOp::Add, first, i)
                })
                .collect();
            let index = replace(g, item.index, last, at[0]);
            let lanes: Vec<Id> = at
                .iter()
                .map(|&at| {
                    let value = replace(g, item.value, last, at);
                    g.cast(value, ty)
                })
                .collect();
            let mut packer = Packer::shifting();
            let mut packed = packer.pack_vector(g, &lanes)?;
            if !copied {
                packed = align(g, packed, widest);
            }
            let aligned = loads_in(g, packed).into_iter().all(|l| {
                let (buffer, index) = (g.src(l)[0], g.src(l)[1]);
                g.ty(l).bytes() <= alignment(g, buffer, index).min(widest)
            });
            if packer.gathered > 0 || !aligned || alignment(g, item.buffer, index) < v as usize * ty.bytes() {
                return None;
            }
            let dims: Vec<Id> = rows.iter().copied().chain([r]).collect();
            let shares = t.share(g, &dims);
            let place = |g: &mut Graph, e: Id| g.substitute(e, &mut shares.at.clone());
            let (index, value) = (place(g, index), place(g, packed));
            let store = g.make(Op::Store, DType::Index, vec![], vec![item.buffer, index, value]);
            let body = t.only(g, shares.has, vec![store]);
            Some(t.nest(g, &shares.outer, body))
        })
    })
}
