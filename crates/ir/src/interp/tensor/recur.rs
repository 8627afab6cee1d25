//! Recurrences: their expressions are evaluated once for each step on whole arrays, with placeholders bound to what is carried
//! and to the inputs of the step.

use super::super::array::{Array, View, Walk};
use super::super::expression::Expr;
use super::{EvalError, Evaluator};
use crate::fold::Recurrence;
use crate::{Id, Op};
use rustc_hash::FxHashSet;

impl<'a> Evaluator<'_, 'a> {
    /// Evaluates a part of a recurrence, and its other parts.
    pub(super) fn recur(&mut self, id: Id) -> Result<(), EvalError> {
        let g = self.g;
        let Some(r) = Recurrence::of(g, id) else { return Ok(()) };
        let (src, last) = (g.src(id), r.inputs.len() + 1);
        let body = self.bodies[&id].clone();
        for &b in body.iter().chain(r.given).chain([&r.next]) {
            for &s in g.src(b) {
                if self.slots.contains_key(&s) && !body.contains(&s) {
                    self.force(s)?;
                }
            }
        }
        let [begins, ends, runs] = [r.begins, r.ends, r.run].map(|id| self.integers(id));
        let (begins, ends, runs) = (begins?, ends?, runs?);
        if begins.first() == Some(&0) {
            return Err(self.misfit(id, "no run begins at the first step".into()));
        }
        let start = self.force(r.start)?;
        let streams = r.inputs.iter().map(|&s| self.force(s)).collect::<Result<Vec<View<'a>>, _>>()?;
        let parts: Vec<Id> = self.folds[src].clone();
        let mut results: Vec<(Id, usize, Array<'a>, Vec<usize>)> = vec![];
        for &p in &parts {
            let Op::Recur { part, .. } = *g.op(p) else { continue };
            let dims = self.dims(p)?;
            results.push((p, part, Array::zeros(g.dtype(p), dims.iter().product()), dims));
        }
        // What reads what is carried on is known after that.
        let mut late: FxHashSet<Id> = FxHashSet::default();
        for &b in &body {
            if *g.op(b) == Op::Arg(last) || g.src(b).iter().any(|s| late.contains(s)) {
                late.insert(b);
            }
        }
        let (after, before): (Vec<Id>, Vec<Id>) = body.iter().partition(|b| late.contains(b));
        // A recurrence inside of another has placeholders of the same names.
        let outer: Vec<_> = body.iter().map(|&b| (b, self.slots.remove(&b))).collect();
        let mut carried: Option<View<'a>> = None;
        for step in 0..begins.len() {
            let so_far = match carried.take() {
                Some(carried) if begins[step] == 0 => carried,
                _ => start.at(0, step),
            };
            for &b in &before {
                self.node_of_step(b, [&so_far, &so_far], &streams, step)?;
            }
            let carried_on = self.force(r.next)?;
            for &b in &after {
                self.node_of_step(b, [&so_far, &carried_on], &streams, step)?;
            }
            for (_, part, out, dims) in &mut results {
                let row: usize = dims[1..].iter().product();
                let (value, at) = match *part {
                    0 if ends[step] == 0 => continue,
                    0 => (carried_on.clone(), runs[step]),
                    part => (self.force(r.given[part - 1])?, step as i64),
                };
                if at < 0 || at as usize >= dims[0] {
                    return Err(self.misfit(id, format!("run {at} of {}", dims[0])));
                }
                out.copy_from(at as usize * row, &Walk::new(&value), &value.data, 0, row);
            }
            carried = Some(carried_on);
            body.iter().for_each(|b| drop(self.slots.remove(b)));
        }
        for (b, value) in outer {
            value.map(|v| self.slots.insert(b, v));
        }
        for (p, _, out, dims) in results {
            if p == id || !self.slots.contains_key(&p) {
                self.slots.insert(p, Expr::view(g.dtype(p), View::new(out, dims)));
            }
        }
        Ok(())
    }

    /// A node of the expressions in a step: a placeholder of what is carried before and after it, or of an input, or what is
    /// made of them.
    fn node_of_step(
        &mut self,
        node: Id,
        [so_far, carried_on]: [&View<'a>; 2],
        streams: &[View<'a>],
        step: usize,
    ) -> Result<(), EvalError> {
        let g = self.g;
        let Op::Arg(n) = *g.op(node) else { return self.compute(node) };
        let value = match n.checked_sub(1).map(|input| streams.get(input)) {
            None => so_far.clone(),
            Some(Some(input)) => input.at(0, step),
            Some(None) => carried_on.clone(),
        };
        if value.dims != self.dims(node)? {
            return Err(self.misfit(node, format!("it is bound to {:?}", value.dims)));
        }
        self.slots.insert(node, Expr::view(g.dtype(node), value));
        Ok(())
    }
}
