//! What reports say of a kernel: where it comes from, and how many bytes it reads.

use crate::schedule::Schedule;
use ir::{Graph, Id, Op, index, walk};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// The part of the program that a kernel belongs to: that of the reduction over weights that it was made for, or else
/// of what it computes first.
pub(crate) fn scope(g: &Graph, s: &Schedule, group: usize) -> String {
    // Bodies of folds are shared by all folds of their shape.
    let mut members = s.groups[group].members.iter().filter(|m| !s.roles.merge.contains(m));
    let heavy = members.clone().find(|m| s.roles.heavy.contains(m));
    let first = heavy.or(members.next());
    first.map_or("", |&m| g.scope_name(g.scope(m))).to_string()
}

/// A name for reports: the tensors that a kernel reads.
pub(crate) fn origin(g: &Graph, s: &Schedule, group: usize) -> String {
    let mut names: Vec<String> = vec![];
    for p in params(g, s, group).0 {
        let (Op::Param { name } | Op::State { name }) = g.op(p) else { continue };
        let short = name.strip_suffix(".weight").unwrap_or(name).to_string();
        if !names.contains(&short) {
            names.push(short);
        }
    }
    names.join(" ")
}

/// The tensors that a group reads, and the nodes between them and its members.
pub(crate) fn params(g: &Graph, s: &Schedule, group: usize) -> (Vec<Id>, FxHashSet<Id>) {
    let mut out = vec![];
    let mut seen = FxHashSet::default();
    let read = s.groups[group].members.iter().flat_map(|&m| g.src(m)).copied();
    walk::reach(read, |id, more| {
        if s.home.contains_key(&id) {
            return;
        }
        seen.insert(id);
        if matches!(g.op(id), Op::Param { .. } | Op::State { .. }) {
            out.push(id);
        }
        more.extend(g.src(id));
    });
    out.sort_unstable();
    seen.extend(&s.groups[group].members);
    (out, seen)
}

/// Bytes of weights that one step reads in this kernel: all of a matrix, or
/// the selected rows of a stack.
pub(crate) fn read_bytes(g: &mut Graph, s: &Schedule, group: usize, inputs: &BTreeSet<String>) -> i64 {
    let mut total = 0;
    let (params, within) = params(g, s, group);
    for p in params {
        if !matches!(g.op(p), Op::Param { name } if !inputs.contains(name)) {
            continue;
        }
        let shape = g.shape(p).to_vec();
        let elems: i64 = shape.iter().map(|&d| index::bounds(g, d).1).product();
        let all = elems * g.dtype(p).bytes() as i64;
        let users = |id: Id| s.roles.users.get(&id).into_iter().flatten().copied().filter(|u| within.contains(u));
        let mut readers = users(p).chain(users(p).flat_map(users));
        let picked = readers.find_map(|u| {
            if *g.op(u) != Op::Gather {
                return None;
            }
            let n: i64 = g.shape(g.src(u)[1]).iter().map(|&d| g.as_int(d).unwrap_or(1)).product();
            let rows = g.as_int(g.shape(g.src(u)[0])[0])?;
            Some(all / rows * n.min(rows))
        });
        total += picked.unwrap_or(all);
    }
    total
}
