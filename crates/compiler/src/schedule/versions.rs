//! Versions of states: a step that reads a state as it was, and overwrites it, does one after the other.
//!
//! All versions of a state lie in one buffer. So who reads the old one runs in an earlier stage than who writes the new
//! one, and no kernel does both: new rows that are made of old ones are computed apart, and then written. The exception is
//! a row each of whose values is made of the one that it replaces, and of no other: that is changed in place.

use super::Scheduler;
use crate::schedule::roles::base;
use ir::{Graph, Id, Op, walk};
use rustc_hash::FxHashSet;

/// An old version of a state is needed after it was overwritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state '{0}' is read in its old version by what depends on the new one; read one of the two")]
pub struct StateOrder(pub String);

/// Why two values are not computed by one kernel.
pub(super) const OVERWRITES: &str = "it would overwrite a state that it reads";

/// What a node reads; of a scatter, not the version that it replaces.
fn read(g: &Graph, id: Id) -> &[Id] {
    match g.op(id) {
        Op::Scatter => &g.src(id)[1..],
        _ => g.src(id),
    }
}

/// Whether the rows that a scatter replaces are those that another node reads.
fn replaces(g: &Graph, scatter: Id, read: Id) -> bool {
    *g.op(scatter) == Op::Scatter && *g.op(read) == Op::Gather && g.src(read)[..] == g.src(scatter)[..2]
}

/// States that are read as they were before a step, and overwritten by it.
pub(super) fn read_before_written(g: &Graph, roots: &[Id]) -> FxHashSet<Id> {
    let (mut read_old, mut written) = (FxHashSet::default(), FxHashSet::default());
    for id in g.toposort(roots) {
        read_old.extend(read(g, id).iter().map(|&s| base(g, s)).filter(|&s| matches!(g.op(s), Op::State { .. })));
        if *g.op(id) == Op::Scatter {
            written.insert(base(g, g.src(id)[0]));
        }
    }
    read_old.intersection(&written).copied().collect()
}

impl Scheduler {
    /// Readers of an old version of a state run before it is overwritten.
    pub(super) fn order_states(&mut self, g: &Graph) -> Result<(), StateOrder> {
        let mut readers: Vec<(usize, Id)> = vec![];
        let mut writers: Vec<(usize, Id)> = vec![];
        for (i, gr) in self.out.groups.iter().enumerate() {
            for &m in &gr.members {
                if *g.op(m) == Op::Scatter {
                    writers.push((i, base(g, g.src(m)[0])));
                }
                readers.extend(self.states_read(g, m).into_iter().map(|state| (i, state)));
            }
        }
        for (writer, state) in writers {
            for &(reader, s) in readers.iter().filter(|r| r.1 == state) {
                if reader == writer || self.needs(reader, writer) {
                    let Op::State { name } = g.op(s) else { unreachable!() };
                    return Err(StateOrder(name.clone()));
                }
                self.depend(writer, reader);
            }
        }
        Ok(())
    }

    /// States whose old versions a node reads, through what has no kernel of its own; not what it changes in place.
    fn states_read(&self, g: &Graph, id: Id) -> Vec<Id> {
        let mut states = vec![];
        // A value that is reached element by element has the place of the one that is written.
        let elements = |s: Id| g.op(s).is_elementwise();
        let rows = read(g, id).iter().map(|&s| (s, *g.op(id) == Op::Scatter && Some(&s) == g.src(id).last()));
        walk::reach(rows, |(s, same), more| {
            if self.out.home.contains_key(&s) || same && replaces(g, id, s) {
                return;
            }
            if matches!(g.op(s), Op::State { .. }) {
                states.push(s);
            }
            more.extend(g.src(s).iter().map(|&source| (source, same && elements(s))));
        });
        states
    }

    /// Whether a node changes rows of a state in place. It has a kernel of its own, as others that read the rows as they were
    /// may need what it would be computed with.
    pub(super) fn is_in_place(&self, g: &Graph, id: Id) -> bool {
        *g.op(id) == Op::Scatter
            && walk::any([g.src(id)[2]], |s, more| {
                if g.op(s).is_elementwise() && !self.out.home.contains_key(&s) {
                    more.extend(g.src(s));
                }
                replaces(g, id, s)
            })
    }

    /// Whether a kernel of all members of these groups, and of these nodes, would not write a state whose old version it
    /// reads.
    pub(super) fn keeps_versions_apart(&self, g: &Graph, groups: &[usize], nodes: &[Id]) -> Result<(), &'static str> {
        if self.old.is_empty() {
            return Ok(());
        }
        let members = || groups.iter().flat_map(|&i| &self.out.groups[i].members).chain(nodes).copied();
        let scatters = members().filter(|&m| *g.op(m) == Op::Scatter);
        let written: FxHashSet<Id> = scatters.map(|m| base(g, g.src(m)[0])).filter(|s| self.old.contains(s)).collect();
        let overwrites = |m: Id| self.states_read(g, m).iter().any(|s| written.contains(s));
        if !written.is_empty() && members().any(overwrites) { Err(OVERWRITES) } else { Ok(()) }
    }
}
