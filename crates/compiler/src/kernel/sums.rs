//! Sums as plain loops that end in an accumulator.

use crate::kernel::emitter::Emitter;
use crate::kernel::expression::{combine, find_reductions};
use crate::lower::identity;
use ir::{Graph, Id, Op};
use rustc_hash::FxHashMap;

impl<T> Emitter<T> {
    /// An expression whose sums are computed by statements before it.
    pub(crate) fn sums(&mut self, g: &mut Graph, value: Id) -> (Id, Vec<Id>) {
        let mut found = vec![];
        find_reductions(g, value, &mut found);
        let (mut before, mut map) = (vec![], FxHashMap::default());
        for reduce in found {
            let Op::Reduce(op, _) = *g.op(reduce) else { continue };
            let (src, ty) = (g.src(reduce).to_vec(), g.dtype(reduce));
            let acc = self.acc(g, ty);
            let start = g.constant(identity(op, ty), ty);
            let (body, mut inner) = self.sums(g, src[0]);
            let next = combine(g, op, acc, body);
            inner.push(self.set(g, vec![(acc, next)]));
            before.push(self.set(g, vec![(acc, start)]));
            before.extend(self.nest(g, &src[1..], inner));
            map.insert(reduce, acc);
        }
        (if map.is_empty() { value } else { g.substitute(value, &mut map) }, before)
    }
}
