//! How many warps a block of a nest has work for.

use crate::gpu::gathered::{Gathered, gathered};
use crate::gpu::int_tile;
use crate::gpu::matrix::{M, is_product};
use crate::gpu::places::InFragments;
use crate::gpu::plan::GpuPlan;
use crate::gpu::{lane_rows, warp_rows, whole_product};
use crate::kernel::expression::has_reduction;
use crate::lower::{Item, Nest, Phase};
use ir::index::{bounds, usual};
use ir::{Graph, Op};

/// Warps that a block of a nest has work for.
pub(super) fn wanted(g: &mut Graph, nest: &Nest, plan: &GpuPlan) -> i64 {
    let most = nest.phases.iter().map(|p| work(g, p)).max().unwrap_or(0);
    let items: Vec<&Item> = nest.phases.iter().flat_map(|p| &p.items).collect();
    if let Some(warps) = int_tile::warps(g, items.iter().copied(), plan) {
        return warps;
    }
    if items.iter().any(|i| whole_product::is_product(g, i, plan)) {
        return plan.product_warps;
    }
    if plan.multiplies && items.iter().any(|i| is_product(g, i, false)) {
        let Gathered { nest: gathered, .. } = gathered(g, nest, plan, InFragments::Carriers);
        let mut loops = gathered.phases.iter().filter(|p| p.serial.is_some());
        if let Some(rows) = loops.find_map(|p| warp_rows::rows_of(g, &p.items)) {
            return (rows / M).min(plan.product_warps);
        }
        // Its tile needs the registers of as many as it can have, however many blocks there are.
        let least = bounds(g, nest.tasks).0;
        return plan.for_blocks(least, most).warps.min(plan.product_warps);
    }
    if let Some(rows) = nest.phases.iter().find_map(|p| p.serial.and_then(|_| lane_rows::Rows::of(g, &p.items))) {
        return rows.warps(plan);
    }
    let tasks = usual(g, nest.tasks);
    // A fold of many parts waits for memory in each of its rounds, and groups of threads share those out.
    let merges = nest.phases.iter().any(|p| merges_many(g, p));
    let all_warps = if merges { 2 * plan.all_warps } else { plan.all_warps };
    GpuPlan { all_warps, ..plan.clone() }.for_blocks(tasks, most).warps
}

/// Steps from which on a fold has many.
const MANY: i64 = 64;

/// Whether a phase is a loop of many steps that sums nothing within a step.
fn merges_many(g: &mut Graph, phase: &Phase) -> bool {
    let Some(range) = phase.serial else { return false };
    let extent = g.src(range)[0];
    bounds(g, extent).1 >= MANY && !phase.items.iter().any(|i| has_reduction(g, i.value))
}

/// Elements that the largest item of a phase computes with, at most.
fn work(g: &mut Graph, phase: &Phase) -> i64 {
    let steps = phase.serial.map_or(1, |r| {
        let extent = g.src(r)[0];
        bounds(g, extent).1
    });
    phase.items.iter().map(|i| elements(g, i)).max().unwrap_or(0).saturating_mul(steps)
}

/// Elements that an item computes with, at most.
fn elements(g: &mut Graph, item: &Item) -> i64 {
    let mut ranges = item.dims.clone();
    for r in g.toposort(&[item.value]) {
        if matches!(g.op(r), Op::Reduce(..)) {
            ranges.extend_from_slice(&g.src(r)[1..]);
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    ranges.iter().fold(1i64, |n, &r| {
        let extent = g.src(r)[0];
        n.saturating_mul(bounds(g, extent).1)
    })
}
