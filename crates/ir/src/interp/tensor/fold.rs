//! Folds: reductions whose carrier and merge are written in the graph.
//!
//! The merge is evaluated once for each step on whole arrays, its placeholders
//! bound to what was carried so far and to the next slice of the parts. Rows
//! whose count is reached keep what they carry.

use super::super::array::{View, Walk};
use super::super::expression::Expr;
use super::{EvalError, Evaluator};
use crate::{Id, Op};

impl<'a> Evaluator<'_, 'a> {
    /// Evaluates a fold and all others over the same parts.
    pub(super) fn fold(&mut self, id: Id) -> Result<(), EvalError> {
        let g = self.g;
        let Op::Fold { axis, parts, .. } = *g.op(id) else { return Ok(()) };
        let src = g.src(id);
        let (streams, merge, identities) = (&src[..parts], &src[parts..2 * parts], &src[2 * parts..3 * parts]);
        let counts = self.integers(src[3 * parts])?;
        let body = self.bodies[&id].clone();
        // What the body reads from outside is computed once, not in every step.
        for &b in body.iter().chain(merge) {
            for &s in g.src(b) {
                if self.slots.contains_key(&s) && !body.contains(&s) {
                    self.force(s)?;
                }
            }
        }
        let streams = streams.iter().map(|&s| self.force(s)).collect::<Result<Vec<View<'a>>, _>>()?;
        let extent = streams[0].dims[axis];
        if streams.iter().any(|s| s.dims.get(axis) != Some(&extent)) {
            return Err(self.misfit(id, "the parts differ along the folded dimension".into()));
        }
        let mut carried = vec![];
        for (stream, &identity) in streams.iter().zip(identities) {
            let scalar = self.force(identity)?;
            let mut dims = stream.dims.clone();
            dims.remove(axis);
            let strides = vec![0; dims.len()];
            carried.push(View { data: scalar.data.clone(), offset: scalar.offset, dims, strides });
        }
        if let Some(&bad) = counts.iter().find(|&&c| c < 0 || c > extent as i64) {
            return Err(self.misfit(id, format!("{bad} steps of {extent}")));
        }
        let steps = counts.iter().copied().max().unwrap_or(0) as usize;
        // A fold inside a fold has placeholders of the same names.
        let outer: Vec<_> = body.iter().map(|&b| (b, self.slots.remove(&b))).collect();
        for step in 0..steps {
            for &b in &body {
                match *g.op(b) {
                    Op::Arg(n) => {
                        let value = if n < parts { carried[n].clone() } else { streams[n - parts].at(axis, step) };
                        if value.dims != self.dims(b)? {
                            return Err(self.misfit(b, format!("it is bound to {:?}", value.dims)));
                        }
                        self.slots.insert(b, Expr::view(g.dtype(b), value));
                    }
                    _ => self.compute(b)?,
                }
            }
            let next = merge.iter().map(|&m| self.force(m)).collect::<Result<Vec<View<'a>>, _>>()?;
            let live = |c: &i64| (step as i64) < *c;
            for (old, new) in carried.iter_mut().zip(next) {
                *old = if counts.iter().all(live) { new } else { blend(old, &new, &counts, live) };
            }
            body.iter().for_each(|b| drop(self.slots.remove(b)));
        }
        for (b, value) in outer {
            value.map(|v| self.slots.insert(b, v));
        }
        for f in self.folds[src].clone() {
            let Op::Fold { part, axis: along, .. } = *g.op(f) else { continue };
            if along == axis && (f == id || !self.slots.contains_key(&f)) {
                self.slots.insert(f, Expr::view(g.dtype(f), carried[part].clone()));
            }
        }
        Ok(())
    }
}

/// The rows of `new` where the step counts, else of `old`.
fn blend<'a>(old: &View<'a>, new: &View<'a>, counts: &[i64], live: impl Fn(&i64) -> bool) -> View<'a> {
    let mut out = old.copied();
    let inner = old.len().checked_div(counts.len()).unwrap_or(0);
    let walk = Walk::new(new);
    for (row, _) in counts.iter().enumerate().filter(|c| live(c.1)) {
        out.copy_from(row * inner, &walk, &new.data, row * inner, inner);
    }
    View::new(out, old.dims.clone())
}
