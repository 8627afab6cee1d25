//! Small kernels that move into their readers: whole, where no task repeats
//! their work, or again in each reader, where that is cheaper than a stage.

use super::{Group, Scheduler, stands_alone};
use crate::schedule::axes::{Along, backward, unify};
use crate::schedule::roles::base;
use crate::schedule::versions;
use ir::{Graph, Id, Op, UnOp, walk};
use rustc_hash::{FxHashMap, FxHashSet};

impl Scheduler {
    /// Moves small kernels into their readers.
    pub(super) fn absorb_small(&mut self, g: &mut Graph, roots: &[Id]) {
        for small in 0..self.out.groups.len() {
            let gr = &self.out.groups[small];
            if gr.dead || gr.members.iter().any(|&m| roots.contains(&m) || stands_alone(g, m)) {
                continue;
            }
            let weights = gr.members.iter().any(|m| self.out.roles.heavy.contains(m));
            let readers: Vec<usize> = (0..self.out.groups.len())
                .filter(|&o| !self.out.groups[o].dead && self.out.groups[o].deps.contains(&small))
                .collect();
            if weights || readers.is_empty() {
                continue;
            }
            let kernel = self.kernel(g, small);
            let recurs =
                |group: usize| self.out.groups[group].members.iter().any(|m| matches!(g.op(*m), Op::Recur { .. }));
            // The loop of a recurrence is all that its kernel is.
            if readers.len() == 1 && !recurs(readers[0]) && self.absorb(g, small, readers[0]).is_ok() {
                let reader = self.kernel(g, readers[0]);
                self.out.notes.push(format!("{kernel} moved into {reader}"));
                continue;
            }
            let Some(work) = self.work_of(g, small) else { continue };
            // What is more than a trifle is computed again only to be a stage earlier, and for one token: a task of a kernel for
            // several computes it for all that it has, and those of its reader come one after another. Rows of weights are
            // unpacked once.
            let (trifle, one) = (self.prices.repeat, self.symbolic_axes(g, small).is_empty());
            let grows = |r: usize| work > trifle && !self.symbolic_axes(g, r).is_empty();
            let early = |&r: &usize| !self.waits_anyway(small, r) && !grows(r);
            let early: Vec<usize> = readers.iter().copied().filter(early).collect();
            let more = one && !self.unpacks(g, small);
            let most = if more { trifle.max(self.prices.stage_elements) } else { trifle };
            let again = if work <= trifle { &readers } else { &early };
            let is_custom = |&r: &usize| self.out.groups[r].members.iter().any(|m| matches!(g.op(*m), Op::Call { .. }));
            let custom = again.iter().any(is_custom);
            let serial = again.iter().any(|&r| self.out.groups[r].axes.iter().any(|a| a.serial));
            let apart = again.iter().all(|&r| self.keeps_versions_apart(g, &[small, r], &[]).is_ok());
            let why = match (work <= most, serial) {
                (false, _) => Err("that is too much"),
                (true, true) => Err("a reader loops"),
                (true, false) if custom => Err("a custom kernel reads memory"),
                (true, false) if !apart => Err(versions::OVERWRITES),
                (true, false) if early.is_empty() => Err("they wait for another kernel as long"),
                (true, false) => self.repeat_in(g, small, again, again.len() == readers.len()),
            };
            let what = match why {
                Ok(()) => "computed again by".to_owned(),
                Err(why) => format!("not computed again ({why}) by"),
            };
            let (times, of) = (again.len(), readers.len());
            self.out
                .notes
                .push(format!("{kernel} {what} its readers ({times} of {of}): {work} values of work, {most} at most"));
        }
    }

    /// Whether a reader waits as long without this kernel: for another one as deep that stays.
    fn waits_anyway(&self, small: usize, reader: usize) -> bool {
        let stays = |d: usize| d < small || self.out.groups[d].heavy;
        let deps = &self.out.groups[reader].deps;
        deps.iter().any(|&d| d != small && stays(d) && self.depth(d) >= self.depth(small))
    }

    /// Whether readers may compute a kernel again rather than wait for it.
    pub(super) fn is_cheap(&self, g: &mut Graph, group: usize) -> bool {
        self.work_of(g, group).is_some_and(|work| work <= self.prices.repeat)
    }

    /// Values that computing a kernel again reads; `None` if that is out of the question.
    fn work_of(&self, g: &mut Graph, group: usize) -> Option<i64> {
        let gr = &self.out.groups[group];
        if gr.heavy || gr.members.iter().any(|&m| stands_alone(g, m)) {
            return None;
        }
        Some(gr.members.iter().map(|&m| self.work(g, m)).sum())
    }

    /// Values that computing a node for one token reads; functions that a
    /// processor computes by polynomial count for more.
    fn work(&self, g: &mut Graph, id: Id) -> i64 {
        let each = match g.op(id) {
            Op::Unary(UnOp::Sin | UnOp::Cos) => 64,
            Op::Unary(UnOp::Exp) => 8,
            _ => 1,
        };
        let id = if matches!(g.op(id), Op::Reduce(..)) { g.src(id)[0] } else { id };
        let shape = g.shape(id).to_vec();
        each * shape.iter().filter_map(|&d| g.as_int(d)).product::<i64>()
    }

    /// The maps that `reader` asks of the values it reads from `small`.
    fn demanded(&mut self, g: &mut Graph, small: usize, reader: usize) -> Option<FxHashMap<Id, Vec<Along>>> {
        let mut want: FxHashMap<Id, Vec<Along>> = FxHashMap::default();
        let members = self.out.groups[reader].members.clone();
        for m in members {
            let map = self.out.maps[&(reader, m)].clone();
            let mut stack: Vec<(Id, usize, Vec<Along>)> = (0..g.src(m).len()).map(|o| (m, o, map.clone())).collect();
            while let Some((at, operand, map)) = stack.pop() {
                let s = g.src(at)[operand];
                if self.out.roles.free.contains(&s) {
                    continue;
                }
                let here = self.out.home.get(&s).copied();
                if here.is_some_and(|h| h != small) {
                    continue;
                }
                let m = match backward(g, at, operand, &map) {
                    Some(m) => m,
                    None if here.is_none() && !self.reaches(g, s, small) => continue,
                    None => return None,
                };
                if here == Some(small) {
                    let merged = match want.get(&s) {
                        Some(w) => unify(w, &m).ok()?,
                        None => m,
                    };
                    want.insert(s, merged);
                } else {
                    stack.extend((0..g.src(s).len()).map(|o| (s, o, m.clone())));
                }
            }
        }
        Some(want)
    }

    fn reaches(&self, g: &Graph, id: Id, group: usize) -> bool {
        match self.out.home.get(&id) {
            Some(&h) => h == group,
            None => g.src(id).iter().any(|&s| self.reaches(g, s, group)),
        }
    }

    /// Moves a small kernel into its only reader without repeating work.
    fn absorb(&mut self, g: &mut Graph, small: usize, reader: usize) -> Result<(), String> {
        let serial = |gr: &Group| gr.axes.iter().any(|a| a.serial);
        if serial(&self.out.groups[reader]) {
            return Err("the reader loops".into());
        }
        self.keeps_versions_apart(g, &[small, reader], &[])?;
        if let Some(steps) = self.steps_of_loop(g, small).filter(|&steps| steps > self.prices.moved_steps) {
            return Err(format!("its loop has {steps} steps, and {} are the most", self.prices.moved_steps));
        }
        for d in self.out.groups[reader].deps.clone() {
            if d != small && self.needs(d, small) {
                return Err("another kernel lies between".into());
            }
        }
        let saved = (self.out.groups.clone(), self.out.maps.clone());
        let r = self.absorb_inner(g, small, reader);
        if let Err(why) = &r {
            (self.out.groups, self.out.maps) = saved;
            let (kernel, into) = (self.kernel(g, small), self.kernel(g, reader));
            self.out.notes.push(format!("{kernel} not moved into {into}: {why}"));
        }
        r
    }

    /// Steps of the loop of a kernel at most, if it has one.
    fn steps_of_loop(&self, g: &mut Graph, group: usize) -> Option<i64> {
        let count = self.out.groups[group].axes.iter().find(|a| a.serial)?.count;
        Some(ir::index::bounds(g, count).1)
    }

    fn absorb_inner(&mut self, g: &mut Graph, small: usize, reader: usize) -> Result<(), String> {
        let want = self.demanded(g, small, reader).ok_or("its values are read in another order")?;
        // Match the axes of the small kernel to those of the reader.
        let mut to: FxHashMap<usize, (usize, i64)> = FxHashMap::default();
        for _ in 0..8 {
            to.clear();
            let mut demote = None;
            for (id, w) in &want {
                let mine = &self.out.maps[&(small, *id)];
                for (x, y) in mine.iter().zip(w) {
                    match (*x, *y) {
                        (Along::Axis { axis, unit }, Along::Axis { axis: other, unit: u }) => {
                            if u % unit != 0 && unit % u != 0 {
                                return Err("blocks of another size".into());
                            }
                            if u != unit {
                                demote = Some(axis);
                            }
                            if to.insert(axis, (other, 1)).is_some_and(|o| o.0 != other) {
                                return Err("an axis is read along two".into());
                            }
                        }
                        (Along::Axis { axis, .. }, _) => demote = Some(axis),
                        (Along::Inner, Along::Axis { .. }) => return Err("a task holds what the reader cuts".into()),
                        _ => {}
                    }
                }
            }
            match demote {
                Some(axis) => {
                    let heavy = std::mem::replace(&mut self.out.groups[small].heavy, false);
                    let r = self.demote(g, None, small, axis);
                    self.out.groups[small].heavy = heavy;
                    r?;
                }
                None => break,
            }
        }
        let open: Vec<usize> = (0..self.out.groups[small].axes.len())
            .filter(|&i| {
                !self.out.groups[small].axes[i].inner && !self.out.groups[small].axes[i].serial && !to.contains_key(&i)
            })
            .collect();
        if !open.is_empty() {
            return Err("it has an axis that the reader lacks".into());
        }
        for (&mine, &(theirs, _)) in &to {
            if self.out.groups[small].axes[mine].count != self.out.groups[reader].axes[theirs].count {
                return Err("axes of other lengths".into());
            }
        }
        // Axes of the reader along which the small kernel would be repeated. One that only copies what an index chooses is: to
        // read that costs no more than to read a copy.
        let used: FxHashSet<usize> = to.values().map(|v| v.0).collect();
        let repeated = |i: &usize| !self.out.groups[reader].axes[*i].inner && !used.contains(i);
        let repeated: Vec<usize> = match self.copies(g, small) {
            true => vec![],
            false => (0..self.out.groups[reader].axes.len()).filter(repeated).collect(),
        };
        for axis in repeated {
            self.demote(g, None, reader, axis)?;
        }
        self.move_into(small, reader, &to);
        Ok(())
    }

    fn move_into(&mut self, small: usize, reader: usize, to: &FxHashMap<usize, (usize, i64)>) {
        let moved = std::mem::take(&mut self.out.groups[small]);
        self.out.groups[small].dead = true;
        let mut serial: FxHashMap<usize, usize> = FxHashMap::default();
        for (i, a) in moved.axes.iter().enumerate() {
            if a.serial {
                self.out.groups[reader].axes.push(a.clone());
                serial.insert(i, self.out.groups[reader].axes.len() - 1);
            }
        }
        for m in &moved.members {
            if self.out.home.contains_key(m) {
                self.out.home.insert(*m, reader);
            }
            let mut map = self.out.maps.remove(&(small, *m)).unwrap();
            for x in map.iter_mut() {
                if let Along::Axis { axis, .. } = x {
                    *axis = to.get(axis).map(|v| v.0).or_else(|| serial.get(axis).copied()).unwrap();
                }
            }
            self.out.maps.insert((reader, *m), map);
        }
        let r = &mut self.out.groups[reader];
        r.members.extend(moved.members);
        r.members.sort_unstable();
        // Folds of one shape share their bodies.
        r.members.dedup();
        r.deps.remove(&small);
        r.deps.extend(moved.deps);
        for gr in &mut self.out.groups {
            if gr.deps.remove(&small) {
                gr.deps.insert(reader);
            }
        }
        self.depths.borrow_mut().clear();
    }

    /// Whether a kernel only copies elements of tensors that an index chooses.
    fn copies(&self, g: &Graph, group: usize) -> bool {
        let copy = |&m: &Id| *g.op(m) == Op::Gather && matches!(g.op(base(g, g.src(m)[0])), Op::Param { .. });
        self.out.groups[group].members.iter().all(copy)
    }

    /// Whether a kernel reads weights in a block format.
    fn unpacks(&self, g: &Graph, group: usize) -> bool {
        walk::any(self.out.groups[group].members.iter().copied(), |id, more| {
            let own = self.out.home.get(&id).is_none_or(|&home| home == group);
            more.extend(g.src(id).iter().copied().filter(|_| own));
            own && matches!(g.op(id), Op::Dequant(..))
        })
    }

    /// Axes of a kernel along which it has as many tasks as a step has tokens, or rows, or pages.
    pub(super) fn symbolic_axes(&self, g: &Graph, group: usize) -> Vec<usize> {
        let axes = &self.out.groups[group].axes;
        (0..axes.len()).filter(|&i| !axes[i].inner && g.as_int(axes[i].count).is_none()).collect()
    }

    /// Lets readers compute a small kernel again; if those are `all` that it has, it is gone.
    fn repeat_in(&mut self, g: &mut Graph, small: usize, readers: &[usize], all: bool) -> Result<(), &'static str> {
        // Each task needs all of it, except along symbolic axes.
        let symbolic = self.symbolic_axes(g, small);
        let mut plans = vec![];
        for &r in readers {
            let mut to: FxHashMap<usize, usize> = FxHashMap::default();
            if !symbolic.is_empty() {
                let want = self.demanded(g, small, r).ok_or("its values are read in another order")?;
                for (id, w) in &want {
                    for (x, y) in self.out.maps[&(small, *id)].iter().zip(w) {
                        let Along::Axis { axis, unit: 1 } = *x else { continue };
                        if !symbolic.contains(&axis) {
                            continue;
                        }
                        match *y {
                            Along::Axis { axis: other, unit: 1 }
                                if self.out.groups[r].axes[other].count == self.out.groups[small].axes[axis].count =>
                            {
                                if to.insert(axis, other).is_some_and(|o| o != other) {
                                    return Err("an axis is read along two");
                                }
                            }
                            _ => return Err("axes of other lengths"),
                        }
                    }
                }
            }
            if symbolic.iter().any(|i| !to.contains_key(i)) {
                return Err("it has an axis that a reader lacks");
            }
            plans.push((r, to));
        }
        let moved = match all {
            true => std::mem::replace(&mut self.out.groups[small], Group { dead: true, ..Group::default() }),
            false => self.out.groups[small].clone(),
        };
        for (r, to) in plans {
            for m in &moved.members {
                let mut map = self.out.maps[&(small, *m)].clone();
                for x in map.iter_mut() {
                    if let Along::Axis { axis, unit } = *x {
                        *x = match to.get(&axis) {
                            Some(&a) => Along::Axis { axis: a, unit },
                            None => Along::Inner,
                        };
                    }
                }
                self.out.maps.insert((r, *m), map);
            }
            let gr = &mut self.out.groups[r];
            gr.members.extend(moved.members.iter().copied());
            gr.members.sort_unstable();
            gr.members.dedup();
            gr.deps.remove(&small);
            gr.deps.extend(moved.deps.iter().copied());
        }
        if all {
            for m in &moved.members {
                self.out.maps.remove(&(small, *m));
                // Any of the readers is as good a home as another: none stores it.
                self.out.home.insert(*m, readers[0]);
            }
        }
        self.depths.borrow_mut().clear();
        Ok(())
    }
}
