//! From a nest to a kernel of a CPU: the first path that fits each item.
//!
//! | path | for |
//! |---|---|
//! | block product | rows of a block format and several tokens, by a matrix unit |
//! | integer tile | sums over blocks of integer dots, where a task has several tokens and rows enough to fill a vector |
//! | integer dot | the same for few tokens |
//! | vector reduction | lanes along the innermost summed dimension |
//! | vector columns | lanes along the last dimension of the output, the sum as a plain loop |
//! | vector map | no sum: one element a lane |
//! | vector exchange | no sum, loads that are neighbours along an outer dimension |
//! | scalar reduction, scalar map | what is left |
//!
//! A vector map and a vector reduction of what it makes may be one pass (`summed_map.rs`).

use crate::cpu::plan::Plan;
use crate::cpu::vectors::Tiler;
use crate::cpu::{bf16_tile, dot, hoisted_dequant, int_tile, summed_map, transposed_map};
use crate::kernel::body::{Body, Way};
use crate::kernel::emitter::{block, phases};
use crate::kernel::expression::has_reduction;
use crate::lower::{Item, Nest};
use ir::{Graph, Id, Op};

/// Tiles a nest. Every plan gives the same result up to the order of sums.
pub fn tile(g: &mut Graph, nest: &Nest, plan: &Plan) -> Body {
    let mut t = Tiler::new(plan.clone(), nest, nest.stashes.clone());
    let mut ways = vec![];
    let root = phases(g, nest, |g, items, out| {
        if let [map, sum, ..] = items
            && let Some(stmts) = t.attempt(|t| summed_map::summed_map(t, g, map, sum))
        {
            out.extend(stmts);
            ways.extend([Way::by("vector map"), Way::by("vector reduction")]);
            return 2;
        }
        ways.push(statements(&mut t, g, &items[0], out));
        1
    });
    let root = block(g, root);
    Body { root, stashes: t.into_stashes(), tasks: nest.tasks, ways }
}

/// The statements of an item, and the path that it took.
fn statements(t: &mut Tiler, g: &mut Graph, item: &Item, out: &mut Vec<Id>) -> Way {
    let mut no_dot = None;
    let (path, stmts) = match *g.op(item.value) {
        Op::Reduce(op, _) => {
            if let Some(s) = t.attempt(|t| bf16_tile::block_product(t, g, item)) {
                ("block product", s)
            } else if let Some(s) = t.attempt(|t| int_tile::register_tile(t, g, item)) {
                ("integer tile", s)
            } else if let Ok(s) = integer_dot(t, g, item).map_err(|why| no_dot = Some(why)) {
                ("integer dot", s)
            } else if let Some((write, item)) = t.attempt(|t| hoisted_dequant::converted_once(t, g, item)) {
                out.extend(write);
                return Way { before: Some("vector map"), ..statements(t, g, &item, out) };
            } else if let Some(s) = t.lanes_along_reduction(g, item, op, None) {
                ("vector reduction", s)
            } else if let Some(s) = t.lanes_along_output(g, item, op) {
                ("vector columns", s)
            } else {
                ("scalar reduction", scalars(t, g, item))
            }
        }
        _ => {
            if let Some(s) = t.vector_map(g, item) {
                ("vector map", s)
            } else if let Some(s) = exchanged(t, g, item) {
                ("vector exchange", s)
            } else {
                ("scalar map", scalars(t, g, item))
            }
        }
    };
    out.extend(stmts);
    Way { no_dot, ..Way::by(path) }
}

fn integer_dot(t: &mut Tiler, g: &mut Graph, item: &Item) -> Result<Vec<Id>, &'static str> {
    if t.target.dots { dot::integer_dot(t, g, item, None) } else { Err("the plan has no dots") }
}

fn exchanged(t: &mut Tiler, g: &mut Graph, item: &Item) -> Option<Vec<Id>> {
    let may = t.target.transposed_map && t.target.vector_bytes > 0 && !has_reduction(g, item.value);
    may.then(|| transposed_map::squares(t, g, item)).flatten()
}

/// One element after another, its sums as plain loops.
fn scalars(t: &mut Tiler, g: &mut Graph, item: &Item) -> Vec<Id> {
    let (value, mut body) = t.sums(g, item.value);
    body.push(t.store(g, item.buffer, item.index, value));
    t.nest(g, &item.dims, body)
}
