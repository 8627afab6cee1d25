//! From tensors to kernels: which values are computed together, which are
//! written to memory, and in which stage each kernel runs.
//!
//! Every reduction over weights or state seeds a kernel. Everything else joins
//! the kernel that produces what it reads when its tasks can be cut the same
//! way (an epilogue), or becomes a small kernel of its own; a small kernel with
//! one reader is then moved into it when no task repeats its work, or when
//! repeating it is cheaper than a stage. Layers are no boundary.

use crate::schedule::axes::{Along, Obstacle, backward, forward, unify};
use crate::schedule::roles::{Roles, base, is_view, usual_volume};
use ir::index::usual;
use ir::{Graph, Id, Op, walk};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

mod absorb;
pub mod axes;
pub(crate) mod cuts;
pub(crate) mod limits;
mod notes;
mod prices;
mod recurrences;
pub mod roles;
mod scans;
mod versions;

pub use prices::{ExpertTiles, Fusions, Heads, Latents, Prices, Profile, Several, Short, Splits, TiledHeads, Usual};
pub use versions::StateOrder;

/// One axis of a kernel.
#[derive(Clone, Debug)]
pub struct AxisInfo {
    /// Number of steps, an index expression (for a serial axis: the largest).
    pub count: Id,
    /// Whether it is the loop of a fold rather than a task axis.
    pub serial: bool,
    /// Whether it was given up.
    pub inner: bool,
}

impl AxisInfo {
    /// Whether each of its steps may be a task.
    pub fn is_task(&self) -> bool {
        !self.serial && !self.inner
    }
}

/// Values computed by one kernel.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The axes.
    pub axes: Vec<AxisInfo>,
    /// Members in topological order, views excluded.
    pub members: Vec<Id>,
    /// Whether it reads weights or state in a reduction.
    pub heavy: bool,
    /// Groups whose results it reads.
    pub deps: BTreeSet<usize>,
    /// Whether it was merged away.
    pub dead: bool,
    /// Stage number.
    pub level: usize,
}

/// The result of scheduling.
pub struct Schedule {
    /// Kernels; dead ones are skipped.
    pub groups: Vec<Group>,
    /// Roles of nodes.
    pub roles: Roles,
    /// The kernel of each computed node.
    pub home: FxHashMap<Id, usize>,
    /// The map of each computed node and of views of computed nodes, per group.
    pub maps: FxHashMap<(usize, Id), Vec<Along>>,
    /// Nodes that are written to memory.
    pub stored: FxHashSet<Id>,
    /// Why things were not fused, for reports.
    pub notes: Vec<String>,
}

/// Why a node was not fused: no axes fit both.
const CUT_ANOTHER_WAY: &str = "its tasks would be cut in another way";

/// Schedules everything under `roots`.
///
/// # Errors
/// A state whose old version is read after, or while, a step overwrites it.
pub fn schedule(g: &mut Graph, roots: &[Id], prices: &Prices) -> Result<Schedule, StateOrder> {
    let roles = Roles::of(g, roots, &prices.fusions);
    let mut s = Scheduler {
        prices: prices.clone(),
        out: Schedule {
            groups: vec![],
            roles,
            home: Default::default(),
            maps: Default::default(),
            stored: Default::default(),
            notes: vec![],
        },
        depths: RefCell::default(),
        old: versions::read_before_written(g, roots),
    };
    let live = s.out.roles.live.clone();
    s.place_folds(g, &live);
    s.place_scans(g, &live);
    s.place_recurrences(g, &live);
    for &id in &live {
        s.place(g, id);
    }
    if !s.prices.unfused && s.prices.fusions.absorb {
        s.absorb_small(g, roots);
    }
    s.find_stored(g, roots);
    s.order_states(g)?;
    s.find_levels(g);
    Ok(s.out)
}

/// Why a task has one step of an axis: it has one count.
const COUNTS: &str = "a fold counts its parts anew for each of its steps";

/// Whether a node has a kernel that is made for it: none takes it, or computes it again.
fn stands_alone(g: &Graph, id: Id) -> bool {
    matches!(g.op(id), Op::Scatter | Op::Scan(_) | Op::Recur { .. } | Op::Fence | Op::Call { .. })
}

struct Scheduler {
    prices: Prices,
    out: Schedule,
    /// Stages before each group, as far as they are known.
    depths: RefCell<Vec<Option<usize>>>,
    /// States that a step reads as they were and overwrites.
    old: FxHashSet<Id>,
}

impl Schedule {
    /// The groups that store something, by stage.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        let stores = |i: &usize| {
            let group = &self.groups[*i];
            !group.dead && group.members.iter().any(|&m| self.stores(*i, m))
        };
        let mut order: Vec<usize> = (0..self.groups.len()).filter(stores).collect();
        order.sort_by_key(|&i| (self.groups[i].level, i));
        order
    }

    /// Whether a group writes a member to memory; others may compute it again for themselves.
    pub(crate) fn stores(&self, group: usize, member: Id) -> bool {
        self.stored.contains(&member) && self.home.get(&member) == Some(&group)
    }

    /// The computed nodes that a node reads, through views and inlined bodies.
    pub fn reads(&self, g: &Graph, id: Id) -> Vec<Id> {
        let mut out = vec![];
        walk::reach(g.src(id).iter().copied(), |s, more| match self.home.contains_key(&s) {
            true => out.push(s),
            false => more.extend(g.src(s)),
        });
        out.sort_unstable();
        out
    }
}

impl Scheduler {
    fn is_transparent(&self, g: &Graph, id: Id) -> bool {
        let r = &self.out.roles;
        r.free.contains(&id) || r.inline.contains(&id) || r.merge.contains(&id) || is_view(g, id)
    }

    fn new_group(&mut self, heavy: bool) -> usize {
        self.out.groups.push(Group { heavy, ..Group::default() });
        self.out.groups.len() - 1
    }

    fn add_axis(&mut self, group: usize, count: Id, serial: bool) -> usize {
        self.out.groups[group].axes.push(AxisInfo { count, serial, inner: false });
        self.out.groups[group].axes.len() - 1
    }

    /// A group in which every dimension of `id` is an axis.
    fn seed(&mut self, g: &mut Graph, id: Id, heavy: bool) -> usize {
        let group = self.new_group(heavy);
        // The tasks of a scatter are the rows that it writes.
        let shaped = if matches!(g.op(id), Op::Scatter) { g.src(id)[2] } else { id };
        let shape = g.shape(shaped).to_vec();
        // The parts of a concatenation are written one after the other.
        let whole = match g.op(id) {
            Op::Concat(axis) => Some(*axis),
            _ => None,
        };
        let map = shape
            .iter()
            .enumerate()
            .map(|(i, &d)| match g.as_int(d) {
                Some(1) => Along::Free,
                _ if whole == Some(i) => Along::Inner,
                _ => Along::Axis { axis: self.add_axis(group, d, false), unit: 1 },
            })
            .collect();
        self.join(g, id, group, map);
        group
    }

    fn join(&mut self, g: &Graph, id: Id, group: usize, map: Vec<Along>) {
        self.out.home.insert(id, group);
        self.out.maps.insert((group, id), map);
        self.out.groups[group].members.push(id);
        self.record_deps(g, id, group);
    }

    /// Makes a node a member; what it reads is recorded when its turn comes.
    fn assign(&mut self, id: Id, group: usize, map: Vec<Along>) {
        self.out.home.insert(id, group);
        self.out.maps.insert((group, id), map);
        self.out.groups[group].members.push(id);
    }

    fn record_deps(&mut self, g: &Graph, id: Id, group: usize) {
        for r in self.out.reads(g, id) {
            let h = self.out.home[&r];
            if h != group {
                self.depend(group, h);
            }
        }
    }

    /// Lets a group run after another.
    fn depend(&mut self, group: usize, on: usize) {
        self.out.groups[group].deps.insert(on);
        let known = self.depths.borrow().get(group).copied().flatten();
        // What depends on a group that moves back moves with it.
        if known.is_some_and(|d| d <= self.depth(on)) {
            self.depths.borrow_mut().clear();
        }
    }

    /// Whether group `from` needs group `on`, directly or not.
    fn needs(&self, from: usize, on: usize) -> bool {
        let depth = self.depth(on);
        walk::any([from], |x, more| {
            // All that a group needs lies before it.
            if self.depth(x) > depth {
                more.extend(self.out.groups[x].deps.iter().copied());
            }
            x == on
        })
    }

    /// Every fold and what is computed inside its loop.
    fn place_folds(&mut self, g: &mut Graph, live: &[Id]) {
        for &id in live {
            let Op::Fold { axis, parts, .. } = *g.op(id) else { continue };
            if self.out.home.contains_key(&id) {
                continue;
            }
            let sources = g.src(id).to_vec();
            let group = self.new_group(true);
            // The largest part decides the axes: the dimensions before the
            // folded one are tasks, and the folded one is the serial loop.
            let largest = *sources[..parts].iter().max_by_key(|&&p| g.shape(p).len()).unwrap();
            let shape = g.shape(largest).to_vec();
            let mut lead = vec![];
            for (i, &d) in shape.iter().enumerate().take(axis + 1) {
                lead.push(if i == axis || g.as_int(d) != Some(1) {
                    Along::Axis { axis: self.add_axis(group, d, i == axis), unit: 1 }
                } else {
                    Along::Free
                });
            }
            let inside = self.fold_body(g, id, &lead);
            let rest_is_parallel = inside.is_empty();
            let mut tail = vec![];
            for &d in &shape[axis + 1..] {
                tail.push(if g.as_int(d) == Some(1) {
                    Along::Free
                } else if rest_is_parallel {
                    Along::Axis { axis: self.add_axis(group, d, false), unit: 1 }
                } else {
                    Along::Inner
                });
            }
            for (node, mut map) in inside {
                map.resize(g.shape(node).len(), Along::Inner);
                self.assign(node, group, map);
            }
            let part_map = |n: usize| -> Vec<Along> {
                let mut m = lead[..axis].to_vec();
                m.extend_from_slice(&tail[..n - axis]);
                m
            };
            // The merge expressions and the results.
            let merge = g.toposort(&sources[parts..2 * parts]);
            for m in merge {
                let rank = g.shape(m).len();
                // Bodies have no home: folds of one shape share them.
                if rank >= axis && self.out.roles.merge.contains(&m) && !is_view(g, m) {
                    self.out.maps.insert((group, m), part_map(rank));
                    self.out.groups[group].members.push(m);
                }
            }
            for &other in live {
                if matches!(*g.op(other), Op::Fold { .. }) && g.src(other) == &sources[..] {
                    let rank = g.shape(other).len();
                    self.assign(other, group, part_map(rank));
                }
            }
            self.out.groups[group].members.sort_unstable();
        }
    }

    /// Nodes that have the folded dimension and that nothing outside of the loop reads, with their maps. What others read they
    /// read whole, and the loop has only as many steps as data says; and it may need those others itself.
    fn fold_body(&mut self, g: &mut Graph, fold: Id, lead: &[Along]) -> Vec<(Id, Vec<Along>)> {
        let Op::Fold { axis, parts, .. } = *g.op(fold) else { unreachable!("the body of a fold") };
        // One step is no loop: nothing tells values with a dimension of length 1 from those without.
        let one = g.as_int(g.shape(g.src(fold)[0])[axis]) == Some(1);
        if self.prices.unfused || !self.prices.fusions.fold || one {
            return vec![];
        }
        let serial = lead[axis];
        let mut inside = FxHashSet::default();
        let mut body = vec![];
        // How the values that the loop reads are cut, where all who read one say the same. Users come before what they use.
        let mut open: BTreeMap<Id, Option<Vec<Along>>> = BTreeMap::new();
        for &part in &g.src(fold)[..parts] {
            let mut map = lead.to_vec();
            map.resize(g.shape(part).len(), Along::Inner);
            open.insert(part, Some(map));
        }
        while let Some((id, map)) = open.pop_last() {
            let roles = &self.out.roles;
            let in_loop = |user: &Id| {
                inside.contains(user) || matches!(g.op(*user), Op::Fold { .. }) && g.src(*user) == g.src(fold)
            };
            let only_here = !roles.outputs.contains(&id) && roles.users[&id].iter().all(in_loop);
            let Some(map) = map.filter(|map| only_here && map.contains(&serial)) else { continue };
            // The parts of a concatenation are written one after the other.
            let torn = matches!(*g.op(id), Op::Concat(along) if matches!(map[along], Along::Axis { .. }));
            // What a fence asks for is written in the loop.
            let alone = stands_alone(g, id) && *g.op(id) != Op::Fence;
            if roles.free.contains(&id) || self.out.home.contains_key(&id) || alone || torn {
                continue;
            }
            inside.insert(id);
            for (operand, source) in g.src(id).to_vec().into_iter().enumerate() {
                // An index has the dimensions of what it chooses, whatever it chooses from.
                if *g.op(id) == Op::Gather && operand == 1 {
                    continue;
                }
                let asked = backward(g, id, operand, &map);
                let known = open.remove(&source).unwrap_or_else(|| asked.clone());
                let both = known.zip(asked).and_then(|(known, asked)| unify(&known, &asked).ok());
                open.insert(source, both);
            }
            if !self.is_transparent(g, id) {
                body.push((id, map));
            }
        }
        body.reverse();
        body
    }

    /// Gives a node a kernel.
    fn place(&mut self, g: &mut Graph, id: Id) {
        if let Some(&group) = self.out.home.get(&id) {
            self.record_deps(g, id, group);
            return;
        }
        if self.is_transparent(g, id) {
            return;
        }
        if self.prices.unfused || matches!(g.op(id), Op::Fence | Op::Call { .. }) || self.is_in_place(g, id) {
            let heavy = self.out.roles.heavy.contains(&id);
            self.seed(g, id, heavy);
            return;
        }
        if self.out.roles.heavy.contains(&id) {
            self.seed(g, id, true);
            return;
        }
        let reads = self.out.reads(g, id);
        let mut homes: Vec<usize> = reads.iter().map(|r| self.out.home[r]).collect();
        homes.sort_unstable();
        homes.dedup();
        // Siblings: kernels cut the same way that do not need each other.
        if homes.len() > 1 && self.prices.fusions.merge {
            self.merge_siblings(g, id, &mut homes);
        }
        // The latest producer first: the others are then read from memory.
        homes.sort_by_key(|&h| std::cmp::Reverse(self.depth(h)));
        // What a scatter, a recurrence or a custom kernel wrote is complete only after it.
        let written: Vec<usize> = reads
            .iter()
            .filter(|&&r| matches!(g.op(r), Op::Scatter | Op::Recur { .. } | Op::Call { .. }))
            .map(|r| self.out.home[r])
            .collect();
        for &h in &homes {
            if written.contains(&h) || !self.prices.fusions.epilogue {
                continue;
            }
            if let Err(why) = self.keeps_versions_apart(g, &[h], &[id]) {
                let (node, kernel) = (self.node(g, id), self.kernel(g, h));
                self.out.notes.push(format!("{node} not fused into {kernel}: {why}"));
                continue;
            }
            // Joining must not delay what the kernel computes already.
            let depth = self.depth(h);
            let late = |s: &mut Self, g: &mut Graph, o: usize| {
                o != h && s.depth(o) >= depth && (s.needs(o, h) || !s.is_cheap(g, o))
            };
            if let Some(&o) = homes.iter().find(|&&o| late(self, g, o)) {
                let (node, kernel, other) = (self.node(g, id), self.kernel(g, h), self.kernel(g, o));
                self.out.notes.push(format!("{node} not fused into {kernel}: it would wait for {other}"));
                continue;
            }
            match self.try_join(g, id, h) {
                Ok(map) => {
                    self.join(g, id, h, map);
                    return;
                }
                Err(why) => {
                    let (node, kernel) = (self.node(g, id), self.kernel(g, h));
                    self.out.notes.push(format!("{node} not fused into {kernel}: {why}"));
                }
            }
        }
        self.seed(g, id, false);
    }

    /// The longest chain of groups that a group needs.
    fn depth(&self, group: usize) -> usize {
        if let Some(&Some(d)) = self.depths.borrow().get(group) {
            return d;
        }
        let d = self.out.groups[group].deps.iter().map(|&x| self.depth(x) + 1).max().unwrap_or(0);
        let mut depths = self.depths.borrow_mut();
        let len = depths.len().max(group + 1);
        depths.resize(len, None);
        depths[group] = Some(d);
        d
    }

    /// The map of `id` in `group`, after the axes of the group were adapted.
    /// The group is as before if there is none.
    fn try_join(&mut self, g: &mut Graph, id: Id, group: usize) -> Result<Vec<Along>, String> {
        match self.map_in(g, id, group) {
            Ok(map) => return Ok(map),
            Err(Obstacle::Never) => return Err(CUT_ANOTHER_WAY.into()),
            Err(_) => {}
        }
        let cut = self.cut_of(group);
        let joined = self.adapt(g, id, group);
        if joined.is_err() {
            self.restore(group, cut);
        }
        joined
    }

    /// How a group is cut: its axes, and the maps of its members.
    fn cut_of(&self, group: usize) -> (Vec<AxisInfo>, Vec<Vec<Along>>) {
        let gr = &self.out.groups[group];
        (gr.axes.clone(), gr.members.iter().map(|&m| self.out.maps[&(group, m)].clone()).collect())
    }

    /// Cuts a group as it was before.
    fn restore(&mut self, group: usize, (axes, maps): (Vec<AxisInfo>, Vec<Vec<Along>>)) {
        let gr = &mut self.out.groups[group];
        gr.axes = axes;
        for (&m, map) in gr.members.iter().zip(maps) {
            self.out.maps.insert((group, m), map);
        }
    }

    /// Changes the axes of a group until a node fits.
    fn adapt(&mut self, g: &mut Graph, id: Id, group: usize) -> Result<Vec<Along>, String> {
        for _ in 0..16 {
            match self.map_in(g, id, group) {
                Ok(map) => return Ok(map),
                Err(Obstacle::Never) => return Err(CUT_ANOTHER_WAY.into()),
                Err(Obstacle::Rescale(axis, by)) => self.rescale(g, Some(id), group, (axis, by))?,
                Err(Obstacle::Demote(axis)) => self.demote(g, Some(id), group, axis)?,
            }
        }
        Err("no common cut found".into())
    }

    /// The map that the operands of `id` in `group` imply.
    fn map_in(&mut self, g: &mut Graph, id: Id, group: usize) -> Result<Vec<Along>, Obstacle> {
        let n = if matches!(g.op(id), Op::Scatter) { g.shape(g.src(id)[2]).len() } else { g.shape(id).len() };
        let mut map = vec![Along::Free; n];
        for operand in 0..g.src(id).len() {
            let s = g.src(id)[operand];
            if let Some(m) = self.source_map(g, s, group)? {
                let m = forward(g, id, operand, &m)?;
                map = unify(&map, &m)?;
            }
        }
        // Dimensions that nothing constrains are held whole by each task.
        let shape = if matches!(g.op(id), Op::Scatter) { g.shape(g.src(id)[2]).to_vec() } else { g.shape(id).to_vec() };
        for (m, d) in map.iter_mut().zip(shape) {
            if *m == Along::Free && g.as_int(d) != Some(1) {
                *m = Along::Inner;
            }
        }
        Ok(map)
    }

    /// The map of a source that is computed in `group`, through views and
    /// inlined bodies; `None` if nothing of it is computed there.
    fn source_map(&mut self, g: &mut Graph, s: Id, group: usize) -> Result<Option<Vec<Along>>, Obstacle> {
        if let Some(m) = self.out.maps.get(&(group, s)) {
            return Ok(Some(m.clone()));
        }
        if self.out.home.contains_key(&s) || !self.is_transparent(g, s) || self.out.roles.free.contains(&s) {
            return Ok(None);
        }
        let mut all: Option<Vec<Along>> = None;
        for operand in 0..g.src(s).len() {
            let inner = g.src(s)[operand];
            if let Some(m) = self.source_map(g, inner, group)? {
                let m = forward(g, s, operand, &m)?;
                all = Some(match all {
                    None => m,
                    Some(a) => unify(&a, &m)?,
                });
            }
        }
        Ok(all)
    }

    fn rescale(&mut self, g: &mut Graph, id: Option<Id>, group: usize, (axis, by): (usize, i64)) -> Result<(), String> {
        let info = &self.out.groups[group].axes[axis];
        let Some(n) = g.as_int(info.count) else { return Err("a symbolic axis cannot be cut in blocks".into()) };
        if info.serial || n % by != 0 {
            return Err(format!("{n} steps cannot be cut in blocks of {by}"));
        }
        if cuts::counted_anew(g, &self.out, group, axis) {
            return Err(COUNTS.into());
        }
        let tasks = self.tasks(g, group, Some((axis, n / by)));
        self.leaves_enough(g, id, group, tasks)?;
        let rows = cuts::widest_unit(&self.out, group, axis) * by;
        if self.out.groups[group].heavy && rows > self.prices.rows_together && !self.symbolic_axes(g, group).is_empty()
        {
            return Err(format!("{rows} rows of several tokens are too many for a task"));
        }
        self.out.groups[group].axes[axis].count = g.int(n / by);
        for &m in &self.out.groups[group].members {
            for a in self.out.maps.get_mut(&(group, m)).into_iter().flatten() {
                if let Along::Axis { axis: x, unit } = a
                    && *x == axis
                {
                    *unit *= by;
                }
            }
        }
        Ok(())
    }

    /// Whether a kernel may be left with so many tasks, for a node that it takes: one that reads weights with a minimum,
    /// another unless each has much to do.
    fn leaves_enough(&self, g: &Graph, id: Option<Id>, group: usize, tasks: i64) -> Result<(), String> {
        let now = self.tasks(g, group, None);
        if !self.out.groups[group].heavy {
            let most = self.prices.task_elements;
            let each = self.elements(g, id, group) / tasks.max(1);
            return match each > most && tasks < now {
                true => Err(format!("each of {tasks} tasks would have {each} elements, and {most} are the most")),
                false => Ok(()),
            };
        }
        let least = self.prices.min_tasks;
        if tasks >= least {
            return Ok(());
        }
        Err(format!("{tasks} of its {now} tasks would be left, and {least} are the least"))
    }

    /// Elements that the largest reduction of a group with a node reads, symbolic dimensions counted once.
    fn elements(&self, g: &Graph, id: Option<Id>, group: usize) -> i64 {
        let of = |&m: &Id| {
            let read = if matches!(g.op(m), Op::Reduce(..)) { g.src(m)[0] } else { m };
            g.shape(read).iter().map(|&d| g.as_int(d).unwrap_or(1)).product()
        };
        self.out.groups[group].members.iter().chain(&id).map(of).max().unwrap_or(0)
    }

    /// Tasks of a group, symbolic axes counted once; one axis may be replaced.
    fn tasks(&self, g: &Graph, group: usize, replaced: Option<(usize, i64)>) -> i64 {
        self.out.groups[group]
            .axes
            .iter()
            .enumerate()
            .filter(|(_, a)| a.is_task())
            .map(|(i, a)| match replaced {
                Some((x, n)) if x == i => n,
                _ => g.as_int(a.count).unwrap_or(1),
            })
            .product()
    }

    /// Indices of prefixes that are no tasks of a group, along its other axes than this one.
    fn prefixes(&self, g: &mut Graph, group: usize, axis: usize) -> i64 {
        if self.prices.prefix_tasks || !self.out.groups[group].heavy {
            return 1;
        }
        let limited: BTreeSet<usize> = limits::limits(g, &self.out, group).into_values().map(|l| l.axis).collect();
        let axes = &self.out.groups[group].axes;
        let other = |&i: &usize| i != axis && !axes[i].inner;
        limited.into_iter().filter(other).filter_map(|i| g.as_int(axes[i].count)).product()
    }

    fn demote(&mut self, g: &mut Graph, id: Option<Id>, group: usize, axis: usize) -> Result<(), String> {
        let info = &self.out.groups[group].axes[axis];
        if g.as_int(info.count).is_none() {
            return Err("a symbolic axis cannot be held by one task".into());
        }
        if info.serial {
            return Err("it reads all steps of a serial loop".into());
        }
        if cuts::counted_anew(g, &self.out, group, axis) {
            return Err(COUNTS.into());
        }
        let tasks = self.tasks(g, group, Some((axis, 1))) / self.prefixes(g, group, axis);
        self.leaves_enough(g, id, group, tasks)?;
        self.out.groups[group].axes[axis].inner = true;
        for &m in &self.out.groups[group].members {
            for a in self.out.maps.get_mut(&(group, m)).into_iter().flatten() {
                if matches!(a, Along::Axis { axis: x, .. } if *x == axis) {
                    *a = Along::Inner;
                }
            }
        }
        Ok(())
    }

    /// Merges kernels that `id` combines, if none needs another and their
    /// results are cut alike.
    fn merge_siblings(&mut self, g: &mut Graph, id: Id, homes: &mut Vec<usize>) {
        let all = homes.clone();
        for (i, &a) in all.iter().enumerate() {
            for &b in &all[i + 1..] {
                if self.out.groups[a].heavy != self.out.groups[b].heavy || self.depth(a) != self.depth(b) {
                    continue;
                }
                if self.out.groups[a].dead || self.out.groups[b].dead || self.needs(a, b) || self.needs(b, a) {
                    continue;
                }
                if self.out.groups[a].axes.iter().chain(&self.out.groups[b].axes).any(|x| x.serial) {
                    continue;
                }
                let saved = [a, b].map(|x| (x, self.cut_of(x)));
                let (first, second) = (self.kernel(g, a), self.kernel(g, b));
                if let Err(why) = self.merge(g, id, a, b) {
                    saved.into_iter().for_each(|(x, cut)| self.restore(x, cut));
                    self.out.notes.push(format!("{first} and {second} not merged: {why}"));
                } else {
                    let node = self.node(g, id);
                    self.out.notes.push(format!("{first} and {second} merged for {node}"));
                    homes.retain(|&h| h != b);
                }
            }
        }
    }

    fn merge(&mut self, g: &mut Graph, id: Id, a: usize, b: usize) -> Result<(), String> {
        self.keeps_versions_apart(g, &[a, b], &[])?;
        // Adapt both until each alone could take the node, then match axes.
        let (ma, mb) = (self.try_join(g, id, a)?, self.try_join(g, id, b)?);
        let mut same: FxHashMap<usize, usize> = FxHashMap::default();
        for (x, y) in ma.iter().zip(&mb) {
            match (*x, *y) {
                (Along::Axis { axis: i, unit: u }, Along::Axis { axis: j, unit: v }) => {
                    if u != v || self.out.groups[a].axes[i].count != self.out.groups[b].axes[j].count {
                        return Err("cut differently".into());
                    }
                    same.insert(j, i);
                }
                (Along::Axis { .. }, _) | (_, Along::Axis { .. }) => return Err("cut differently".into()),
                _ => {}
            }
        }
        let live = |gr: &Group| gr.axes.iter().filter(|x| !x.inner).count();
        if live(&self.out.groups[b]) != same.len() || live(&self.out.groups[a]) != same.len() {
            return Err("one has an axis that the other lacks".into());
        }
        let moved = std::mem::take(&mut self.out.groups[b]);
        self.out.groups[b].dead = true;
        for m in &moved.members {
            self.out.home.insert(*m, a);
            let mut map = self.out.maps.remove(&(b, *m)).unwrap();
            for x in map.iter_mut() {
                if let Along::Axis { axis, .. } = x {
                    *axis = same[axis];
                }
            }
            self.out.maps.insert((a, *m), map);
        }
        let ga = &mut self.out.groups[a];
        ga.members.extend(moved.members);
        ga.members.sort_unstable();
        ga.members.dedup();
        ga.deps.extend(moved.deps);
        for gr in &mut self.out.groups {
            if gr.deps.remove(&b) {
                gr.deps.insert(a);
            }
        }
        self.depths.borrow_mut().clear();
        Ok(())
    }

    /// Values that another kernel or the host reads.
    fn find_stored(&mut self, g: &Graph, roots: &[Id]) {
        let mut stored: FxHashSet<Id> = roots.iter().map(|&r| base(g, r)).collect();
        for (i, gr) in self.out.groups.iter().enumerate() {
            for &m in &gr.members {
                for r in self.out.reads(g, m) {
                    if !self.out.maps.contains_key(&(i, r)) {
                        stored.insert(r);
                    }
                }
                if matches!(g.op(m), Op::Scatter | Op::Fence | Op::Call { .. }) {
                    stored.insert(m);
                }
            }
        }
        self.out.stored = stored;
    }

    /// A kernel runs as soon as it can, but for one that needs nothing: its values would only wait. Kernels of weights and many
    /// tokens wait for larger ones, if the target wants them to ([`Prices::beside_larger`]).
    fn find_levels(&mut self, g: &mut Graph) {
        let live: Vec<usize> = (0..self.out.groups.len()).filter(|&i| !self.out.groups[i].dead).collect();
        for &i in &live {
            self.out.groups[i].level = self.depth(i);
        }
        let first_reader = |s: &Schedule, i: usize| {
            live.iter().filter(|&&r| s.groups[r].deps.contains(&i)).map(|&r| s.groups[r].level).min()
        };
        for &i in &live {
            if self.out.groups[i].deps.is_empty()
                && let Some(reader) = first_reader(&self.out, i)
            {
                self.out.groups[i].level = reader - 1;
            }
        }
        if !self.prices.beside_larger {
            return;
        }
        let heavy = live.iter().copied().filter(|&i| self.out.groups[i].heavy);
        let mut all: Vec<(usize, i64)> = heavy.map(|i| (i, self.products(g, i))).collect();
        // Those that come last first, as what they read may then be later, too.
        all.sort_by_key(|&(i, _)| std::cmp::Reverse(self.out.groups[i].level));
        for &(i, products) in &all {
            let Some(reader) = first_reader(&self.out, i).filter(|_| self.has_many_tokens(g, i)) else { continue };
            let level = self.out.groups[i].level;
            let larger = all.iter().filter(|&&(other, of_other)| other != i && of_other >= products);
            let levels = larger.map(|&(other, _)| self.out.groups[other].level).filter(|l| (level..reader).contains(l));
            self.out.groups[i].level = levels.max().unwrap_or(level);
        }
    }

    /// Products in the sums of a group, at the usual number of tokens.
    fn products(&self, g: &mut Graph, group: usize) -> i64 {
        let members = self.out.groups[group].members.clone();
        let sums = members.into_iter().filter(|m| self.out.roles.heavy.contains(m));
        sums.map(|sum| usual_volume(g, g.src(sum)[0])).fold(0, i64::saturating_add)
    }

    /// Whether tasks of a group take many tokens together.
    fn has_many_tokens(&self, g: &mut Graph, group: usize) -> bool {
        let together = self.prices.profile.together;
        let axes = self.out.groups[group].axes.clone();
        axes.iter().any(|axis| g.as_int(axis.count).is_none() && usual(g, axis.count) > together)
    }
}
