//! What a schedule costs, in microseconds: `bytes / bandwidth + stages x cost of a stage`, and where that is more than
//! its bytes, the products of a kernel over the peak of their path.
//!
//! Symbolic integers count as what they are usually ([`ir::Graph::var_usually`]). Of a [`Prefix`](Op::Prefix), of
//! which it is data how much is wanted, as much counts as its readers gather. These are prices for telling alternatives
//! apart, not times: how a kernel is tiled is not known yet.

use crate::schedule::limits::{limits, wanted};
use crate::schedule::roles::{base, dot_under, is_view, usual_volume};
use crate::schedule::{Profile, Schedule};
use ir::index::usual;
use ir::{Graph, Id, Op, Recurrence, UnOp, walk};
use rustc_hash::{FxHashMap, FxHashSet};

/// Microseconds of a step that is scheduled so. `unit`: whether a matrix unit multiplies rows of block formats.
pub fn price(g: &mut Graph, s: &Schedule, profile: &Profile, unit: bool) -> f64 {
    let wanted = wanted(g, s);
    let mut levels: Vec<usize> = vec![];
    let mut total = 0.0;
    for group in 0..s.groups.len() {
        let alive = !s.groups[group].dead && s.groups[group].members.iter().any(|m| s.stored.contains(m));
        if alive {
            let mut p = Pricing { s, group, profile, unit, wanted: &wanted, share: 1.0, limit: None };
            p.find_limit(g);
            total += p.kernel(g);
            levels.push(s.groups[group].level);
        }
    }
    levels.sort_unstable();
    levels.dedup();
    total + levels.len() as f64 * profile.stage
}

struct Pricing<'a> {
    s: &'a Schedule,
    group: usize,
    profile: &'a Profile,
    unit: bool,
    wanted: &'a FxHashMap<Id, Id>,
    /// Part of its elements that a limited kernel computes.
    share: f64,
    /// Counts of that limit.
    limit: Option<Id>,
}

impl Pricing<'_> {
    fn find_limit(&mut self, g: &mut Graph) {
        let limits = limits(g, self.s, self.group);
        let Some(limit) = limits.values().min_by_key(|l| (l.counts, l.axis)) else { return };
        let Some(&index) = self.wanted.get(&limit.counts) else { return };
        let rows = usual_volume(g, index) as f64;
        let each = usual(g, self.s.groups[self.group].axes[limit.axis].count);
        let all = usual_volume(g, limit.counts).saturating_mul(each);
        self.share = (rows / all as f64).min(1.0);
        self.limit = Some(limit.counts);
    }

    /// Bytes and work overlap: the longer of the two.
    fn kernel(&self, g: &mut Graph) -> f64 {
        let members = self.s.groups[self.group].members.clone();
        let mut read: FxHashMap<Id, f64> = FxHashMap::default();
        let (mut bytes, mut work, mut serial) = (0.0, 0.0, 0.0f64);
        for m in members {
            let mut seen = FxHashSet::default();
            for operand in g.src(m).to_vec() {
                self.read(g, operand, 1.0, &mut read, &mut seen);
            }
            if self.s.stored.contains(&m) {
                let written = if *g.op(m) == Op::Scatter { g.src(m)[2] } else { m };
                bytes += self.share * usual_volume(g, written) as f64 * g.dtype(m).bytes() as f64;
            }
            work += self.share * self.work(g, m);
            let recurrence = Recurrence::of(g, m).map(|r| (g.shape(r.begins)[0], r.next));
            if let Some((steps, carried)) = recurrence {
                work += self.share * usual(g, steps) as f64 * usual_volume(g, carried) as f64 / self.profile.elements;
            }
            let steps = match *g.op(m) {
                Op::Scan(axis) => Some(g.shape(m)[axis]),
                _ => recurrence.map(|(steps, _)| steps),
            };
            if let Some(steps) = steps {
                let steps = usual(g, steps);
                serial = serial.max(steps as f64 * self.profile.step);
            }
        }
        bytes += read.values().sum::<f64>();
        (bytes / self.profile.bytes).max(work).max(serial) / self.reached(g)
    }

    /// Part of the machine that the tasks of the kernel keep busy. Tasks of weights take tokens, whose number is not known,
    /// together.
    fn reached(&self, g: &mut Graph) -> f64 {
        let group = &self.s.groups[self.group];
        let axes = group.axes.iter().filter(|axis| axis.is_task());
        let tasks = axes.fold(1i64, |tasks, axis| {
            let together = if group.heavy && g.as_int(axis.count).is_none() { self.profile.together } else { 1 };
            let count = usual(g, axis.count);
            tasks.saturating_mul((count + together - 1) / together)
        });
        (tasks as f64 / self.profile.tasks).min(1.0)
    }

    /// Adds the bytes that are read under a value: of a tensor, or of what another kernel stored. Of these `part` is read.
    fn read(&self, g: &mut Graph, id: Id, part: f64, read: &mut FxHashMap<Id, f64>, seen: &mut FxHashSet<Id>) {
        if self.s.maps.contains_key(&(self.group, id)) || !seen.insert(id) {
            return;
        }
        if matches!(g.op(id), Op::State { .. }) && self.writes(g, id) {
            return;
        }
        let leaf = matches!(g.op(id), Op::Param { .. } | Op::State { .. } | Op::Scatter);
        if leaf || self.s.home.contains_key(&id) {
            let bytes = part * usual_volume(g, id) as f64 * g.dtype(id).bytes() as f64;
            read.entry(id).and_modify(|most| *most = bytes.max(*most)).or_insert(bytes);
            return;
        }
        for (operand, source) in g.src(id).to_vec().into_iter().enumerate() {
            let part = match g.op(id) {
                Op::Gather if operand == 0 => {
                    let index = g.src(id)[1];
                    let mut rows = usual_volume(g, index) as f64;
                    // Of a tile in which nothing is wanted, nothing is read.
                    if let Some(counts) = self.limit
                        && g.shape(index) == g.shape(counts)
                    {
                        rows = rows.min(usual_volume(g, self.wanted[&counts]) as f64);
                    }
                    part * rows / usual(g, g.shape(source)[0]).max(1) as f64
                }
                Op::Slice { .. } => part * usual_volume(g, id) as f64 / usual_volume(g, source).max(1) as f64,
                _ => part,
            };
            self.read(g, source, part, read, seen);
        }
    }

    /// Whether this kernel replaces rows of a state, which it does not read for that.
    fn writes(&self, g: &Graph, state: Id) -> bool {
        self.s.groups[self.group].members.iter().any(|&m| *g.op(m) == Op::Scatter && base(g, g.src(m)[0]) == state)
    }

    /// Microseconds of computing a value, with what only its own loops hold.
    fn work(&self, g: &mut Graph, m: Id) -> f64 {
        let Op::Reduce(..) = g.op(m) else {
            return match g.op(m) {
                Op::Fence | Op::Call { .. } => 0.0,
                Op::Scatter => usual_volume(g, g.src(m)[2]) as f64 / self.profile.elements,
                _ => usual_volume(g, m) as f64 * each(g, m) / self.profile.elements,
            };
        };
        let body = g.src(m)[0];
        let products = usual_volume(g, body) as f64;
        if !self.s.roles.heavy.contains(&m) {
            return products * self.operations(g, body) / self.profile.elements;
        }
        let (dots, packed) = dot_under(g, &self.s.home, body);
        match dots {
            Some(dot) => usual_volume(g, dot) as f64 / self.profile.dots,
            None if packed && self.unit => products / self.profile.unit,
            None => products / self.profile.floats,
        }
    }

    /// Operations for each element of the body of a sum: those on values as large as itself.
    fn operations(&self, g: &mut Graph, body: Id) -> f64 {
        let full = usual_volume(g, body);
        let mut count = 0.0;
        walk::reach([body], |id, more| {
            if self.s.home.contains_key(&id)
                || usual_volume(g, id) < full
                || !(g.op(id).is_elementwise() || is_view(g, id))
            {
                return;
            }
            if g.op(id).is_elementwise() {
                count += each(g, id);
            }
            more.extend(g.src(id));
        });
        f64::max(count, 1.0)
    }
}

/// Elementwise operations that a processor needs for a function.
fn each(g: &Graph, id: Id) -> f64 {
    match g.op(base(g, id)) {
        Op::Unary(UnOp::Sin | UnOp::Cos) => 64.0,
        Op::Unary(UnOp::Exp) => 8.0,
        _ => 1.0,
    }
}
