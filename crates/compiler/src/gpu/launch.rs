//! What a launch of a kernel has to provide.

use crate::gpu::plan::GpuPlan;
use crate::kernel::body::Body;
use crate::program::Geometry;
use ir::{Axis, Graph, Id, Op, Space, index};

/// Bytes at whose multiples scratch arrays begin.
pub(crate) const ALIGN: usize = 16;

/// What a launch of a kernel has to provide.
pub(crate) fn geometry(g: &Graph, body: &Body, plan: &GpuPlan) -> Geometry {
    let warps = g.toposort(&[body.root]).into_iter().find(|&id| matches!(g.op(id), Op::Range(_, Axis::Warp)));
    let warps = warps.and_then(|id| g.as_int(g.src(id)[0])).unwrap_or(1);
    Geometry {
        threads: (warps * plan.lanes) as usize,
        widest: Some(plan.widest),
        waits: waits(g, body),
        shared_bytes: body.bytes_in(g, Space::Shared, ALIGN),
        scratch_bytes: body.bytes_in(g, Space::Task, ALIGN),
    }
}

/// Whether a kernel waits for the launches before it.
fn waits(g: &Graph, body: &Body) -> bool {
    body.parts(g).iter().all(|(part, _)| g.src(*part).iter().any(|&s| *g.op(s) == Op::Wait))
}

/// Registers that a thread has beside the sums of its products, and beside those that a loop scales from round to round.
const OTHERS: usize = 48;
const OTHERS_OF_LOOPS: usize = 96;

/// Blocks of a kernel that a multiprocessor should have registers for, at the usual number of tasks: no more than have room
/// for the sums of products that their threads keep.
pub(crate) fn beside(g: &mut Graph, body: &Body, plan: &GpuPlan, size: &Geometry) -> i64 {
    let room = (plan.shared_of_two.saturating_mul(2) / size.shared_bytes.max(1)).max(1);
    let products = g.toposort(&[body.root]).into_iter().filter(|&id| *g.op(id) == Op::WarpProduct);
    let mut sums: Vec<Id> = products.map(|id| g.src(id)[0]).filter(|&id| matches!(g.op(id), Op::Acc(_))).collect();
    sums.sort_unstable();
    sums.dedup();
    let words: usize = sums.into_iter().map(|id| g.ty(id).bytes() / 4).sum();
    let others = if body.paths().contains(&"fragments") { OTHERS_OF_LOOPS } else { OTHERS };
    let fit = (plan.registers / (4 * size.threads * (words + others)).max(1)).max(1);
    plan.blocks_beside(index::usual(g, body.tasks), size.threads).min(room.min(fit) as i64)
}
