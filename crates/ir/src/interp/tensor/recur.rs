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
        // A recurrence inside of another has placeholders of the same names.
        let outer: Vec<_> = body.iter().map(|&b| (b, self.slots.remove(&b))).collect();
        let mut carried: Option<View<'a>> = None;
        for step in 0..begins.len() {
            let so_far = match carried.take() {
                Some(carried) if begins[step] == 0 => carried,
                _ => start.at(0, step),
            };
            // What is carried on is known after the nodes that it is made of.
            let mut waiting: Vec<Id> = body.clone();
            let mut carried_on: Option<View<'a>> = None;
            while !waiting.is_empty() {
                let mut later: FxHashSet<Id> = FxHashSet::default();
                let mut left = vec![];
                for &b in &waiting {
                    let value = match *g.op(b) {
                        Op::Arg(n) if n == last => match &carried_on {
                            Some(value) => value.clone(),
                            None => {
                                later.insert(b);
                                left.push(b);
                                continue;
                            }
                        },
                        Op::Arg(0) => so_far.clone(),
                        Op::Arg(n) => streams[n - 1].at(0, step),
                        _ if g.src(b).iter().any(|s| later.contains(s)) => {
                            later.insert(b);
                            left.push(b);
                            continue;
                        }
                        _ => {
                            self.compute(b)?;
                            continue;
                        }
                    };
                    if value.dims != self.dims(b)? {
                        return Err(self.misfit(b, format!("it is bound to {:?}", value.dims)));
                    }
                    self.slots.insert(b, Expr::view(g.dtype(b), value));
                }
                if carried_on.is_none() {
                    carried_on = Some(self.force(r.next)?);
                } else if left.len() == waiting.len() {
                    return Err(self.misfit(id, "what is given depends on nothing that is known".into()));
                }
                waiting = left;
            }
            let carried_on = match carried_on {
                Some(value) => value,
                None => self.force(r.next)?,
            };
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
}
