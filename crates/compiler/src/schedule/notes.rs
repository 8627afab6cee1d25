//! Names for the decision log: nodes and kernels by the tensors of the file and by the part of the program.

use super::Scheduler;
use ir::{Graph, Id, Op, walk};

/// Tensors that a name lists at most.
const MOST: usize = 4;

impl Scheduler {
    /// A node: its part of the program, its number and operation, and the tensors that it reads itself.
    pub(super) fn node(&self, g: &Graph, id: Id) -> String {
        let scope = g.scope_name(g.scope(id));
        let space = if scope.is_empty() { "" } else { " " };
        let tensors = self.tensors(g, id);
        let of = if tensors.is_empty() { "" } else { " of " };
        format!("{scope}{space}{id:?} {:?}{of}{tensors}", g.op(id))
    }

    /// A kernel: the tensors that it was made for, or else what it computes first.
    pub(super) fn kernel(&self, g: &Graph, group: usize) -> String {
        let members = &self.out.groups[group].members;
        let made_for = members.iter().find(|m| self.out.roles.heavy.contains(m));
        let tensors = made_for.map_or(String::new(), |&m| self.tensors(g, m));
        match members.first() {
            Some(&first) if tensors.is_empty() => format!("the kernel of {}", self.node(g, first)),
            _ => format!("the kernel of {tensors}"),
        }
    }

    /// Weights, states and inputs that a node reads without other kernels between.
    fn tensors(&self, g: &Graph, id: Id) -> String {
        let mut names: Vec<&str> = vec![];
        walk::reach(g.src(id).iter().copied(), |s, more| {
            if names.len() == MOST || self.out.home.contains_key(&s) {
                return;
            }
            if let Op::Param { name } | Op::State { name } = g.op(s) {
                names.push(name.strip_suffix(".weight").unwrap_or(name));
            }
            more.extend(g.src(s));
        });
        names.join(" ")
    }
}
