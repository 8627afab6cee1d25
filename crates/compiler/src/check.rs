//! Checks between the passes: what a pass leaves behind obeys the grammar of
//! its stage. Debug builds run them always, others if
//! [`Options::check`](crate::Options::check) says so. They prove form, not meaning.

use crate::error::CompileError;
use crate::kernel::body::Body;
use crate::lower::{Item, Nest};
use crate::schedule::Schedule;
use ir::spec::{SpecError, check_kernel, check_scalars, check_tensor};
use ir::{Axis, Graph, Id, Op, Space, print};

/// An error of the pass, unless a rule holds.
fn require(holds: bool, pass: &'static str, rule: impl FnOnce() -> String) -> Result<(), CompileError> {
    if holds { Ok(()) } else { Err(CompileError::Check { pass, why: rule() }) }
}

fn form(checked: Result<(), SpecError>, pass: &'static str) -> Result<(), CompileError> {
    checked.map_err(|e| CompileError::Check { pass, why: e.to_string() })
}

/// After a pass that rewrites tensors.
pub fn tensors(g: &Graph, pass: &'static str, roots: &[Id]) -> Result<(), CompileError> {
    form(check_tensor(g, roots), pass)
}

/// After scheduling: each kernel finds what it reads, in itself or stored by an
/// earlier stage.
pub fn schedule(g: &Graph, s: &Schedule) -> Result<(), CompileError> {
    let pass = "schedule";
    for (i, group) in s.groups.iter().enumerate().filter(|(_, group)| !group.dead) {
        for &m in &group.members {
            require(s.maps.contains_key(&(i, m)), pass, || {
                format!("{} has no place in kernel {i}", print::describe(g, m))
            })?;
            for r in s.reads(g, m).into_iter().filter(|r| !group.members.contains(r)) {
                let stored = s.stored.contains(&r) && s.home.get(&r).is_some_and(|&h| s.groups[h].level < group.level);
                require(stored, pass, || {
                    let (m, r) = (print::describe(g, m), print::describe(g, r));
                    format!("{m} of kernel {i} reads {r}, which no earlier stage stores")
                })?;
            }
        }
    }
    Ok(())
}

/// After lowering.
pub fn nest(g: &Graph, nest: &Nest) -> Result<(), CompileError> {
    let pass = "lower";
    form(check_scalars(g, &[nest.tasks], &[]), pass)?;
    let scratch = |b: Id| matches!(g.op(b), Op::Buffer { space: Space::Task, .. });
    for phase in &nest.phases {
        let mut around = vec![];
        if let Some(r) = phase.serial {
            range(g, nest, r, &around)?;
            around.push(r);
        }
        for item in &phase.items {
            let mut open = around.clone();
            for &d in &item.dims {
                range(g, nest, d, &open)?;
                open.push(d);
            }
            let Item { value, buffer, index, .. } = *item;
            form(check_scalars(g, &[value, index], &open), pass)?;
            let writable = matches!(g.op(buffer), Op::Buffer { space: Space::Output, .. });
            require(writable || nest.stashes.contains(&buffer), pass, || {
                format!("{} is written, and it is neither an output nor a stash", print::describe(g, buffer))
            })?;
        }
    }
    for (i, &s) in nest.stashes.iter().enumerate() {
        require(scratch(s) && !nest.stashes[..i].contains(&s), pass, || {
            format!("{} is no stash of its own", print::describe(g, s))
        })?;
    }
    Ok(())
}

/// A loop of a nest, inside of `open`.
fn range(g: &Graph, nest: &Nest, r: Id, open: &[Id]) -> Result<(), CompileError> {
    let sound = matches!(*g.op(r), Op::Range(n, Axis::Loop) if n < nest.ranges) && !open.contains(&r);
    require(sound, "lower", || format!("{} is no loop of its own", print::describe(g, r)))?;
    form(check_scalars(g, &[g.src(r)[0]], open), "lower")
}

/// After tiling.
pub fn body(g: &Graph, body: &Body) -> Result<(), CompileError> {
    form(check_kernel(g, body.root), "tile")
}
