//! What a launch of a kernel has to provide.

use crate::gpu::plan::GpuPlan;
use crate::kernel::body::Body;
use crate::program::Geometry;
use ir::{Axis, Graph, Op, Space, index};

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

/// Blocks of a kernel that a multiprocessor should have registers for, at the usual number of tasks.
pub(crate) fn beside(g: &mut Graph, body: &Body, plan: &GpuPlan, size: &Geometry) -> i64 {
    let room = (plan.shared_of_two.saturating_mul(2) / size.shared_bytes.max(1)).max(1);
    plan.blocks_beside(index::usual(g, body.tasks), size.threads).min(room as i64)
}
