//! How the tasks of a kernel are cut for the cores of a CPU.

use crate::cpu::plan::Plan;
use crate::lower::{self, Cut};
use crate::program::products;
use crate::program::report::params;
use crate::schedule::Schedule;
use crate::schedule::axes::Along;
use crate::schedule::cuts::{before_fold, carried_by_step, widest_unit};
use crate::schedule::limits::limits;
use ir::{Graph, Id, PRODUCT, index};

/// Who decides how many steps of each axis a task takes, and how loops lie in each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// The compiler: by size, and as axes and dimensions follow.
    Sized,
    /// Chance, from a seed: any legal cut and order, for tests.
    Random(u64),
}

/// Shares of a task where many tokens are computed.
struct Shares {
    /// Tokens at most: enough to pay for unpacking its rows, few enough for its values to stay in a cache beside them.
    tokens: i64,
    /// Its rows are a multiple of this.
    rows: i64,
    /// Its rows at most.
    most: i64,
    /// Tasks at least, as far as there are rows.
    tasks: i64,
}

impl Shares {
    fn of(plan: &Plan) -> Shares {
        match plan.matrix_unit {
            true => Shares { tokens: 256, rows: PRODUCT as i64, most: 256, tasks: 8 },
            false => Shares { tokens: 128, rows: 16, most: 128, tasks: 16 },
        }
    }
}

/// Values that a task of a recurrence carries at most: they are read and written in each step, and lie in the nearest cache.
const CARRIED: i64 = 4096;

/// How many steps of each axis a task takes: enough tasks to share out, each
/// large enough to pay for starting.
pub(super) fn choose_cut(g: &mut Graph, s: &Schedule, group: usize, plan: &Plan) -> Cut {
    let share = Shares::of(plan);
    let gr = &s.groups[group];
    let fold = gr.axes.iter().any(|a| a.serial);
    let units: Vec<i64> = (0..gr.axes.len()).map(|a| widest_unit(s, group, a)).collect();
    let mut steps = vec![1; gr.axes.len()];
    // Each step of what counts the steps of another axis has a task of its own.
    let limits = limits(g, s, group);
    let counted: Vec<usize> = limits
        .values()
        .flat_map(|l| l.lead.clone())
        .filter_map(|a| if let Along::Axis { axis, .. } = a { Some(axis) } else { None })
        .collect();
    let limited: Vec<usize> = limits.values().map(|l| l.axis).collect();
    let many = !limited.is_empty() || gr.axes.iter().any(|a| g.as_int(a.count).is_none());
    // Tokens, of which there may be few or many.
    let tokens = |g: &Graph, i: usize| g.as_int(gr.axes[i].count).is_none() || limited.contains(&i);
    let fixed: Vec<usize> =
        (0..gr.axes.len()).filter(|&i| gr.axes[i].is_task() && !tokens(g, i) && !counted.contains(&i)).collect();
    // Rows of a block format, and those for the matrix unit.
    let in_blocks = params(g, s, group).0.iter().any(|&p| g.dtype(p) == ir::DType::U8);
    let coded = plan.matrix_unit && in_blocks;
    let columns = if many || fold { None } else { columns(g, s, group) };
    let mut carried = carried_by_step(g, s, group);
    let mut total: i64 = fixed.iter().filter_map(|&i| g.as_int(gr.axes[i].count)).product();
    for i in (0..gr.axes.len()).rev() {
        let a = &gr.axes[i];
        if a.serial || a.inner || counted.contains(&i) || before_fold(g, s, group, i) {
            continue;
        }
        if tokens(g, i) {
            if gr.heavy && !fold {
                steps[i] = index::bounds(g, a.count).1.min(share.tokens);
            }
            continue;
        }
        let Some(n) = g.as_int(a.count) else { continue };
        let (least, most) = match (carried, gr.heavy, many) {
            (Some(each), ..) => (1, (CARRIED / each).max(1)),
            (None, true, true) => (share.tasks, share.most),
            (None, true, false) => (64, 256),
            _ => (4, 1024),
        };
        let fits: Vec<i64> =
            (1..=n).rev().filter(|d| n % d == 0 && total / d >= least && d * units[i] <= most).collect();
        // Rows that fill vectors are multiplied with many tokens at once, and columns that do are summed side by side.
        let in_vectors = gr.heavy && many || columns == Some(i);
        let full = |d: &i64| in_vectors && d * units[i] % share.rows == 0;
        let full = fits.iter().copied().find(full).or_else(|| {
            // Fewer tasks than wanted cost less than products without the matrix unit, or without vectors.
            let needed = coded || columns == Some(i);
            (1..=n).filter(|d| needed && n % d == 0 && d * units[i] <= most).find(full)
        });
        let even = full.or(fits.first().copied()).unwrap_or(1);
        let laid_out = gr.heavy && many && in_blocks && !coded;
        let uneven = uneven(n, units[i], &share, most).filter(|&d| laid_out && d >= 2 * even && total / d >= least);
        steps[i] = uneven.unwrap_or(even);
        carried = carried.map(|each| each * steps[i]);
        total = total / n * ((n + steps[i] - 1) / steps[i]);
    }
    Cut { steps, order: None }
}

/// Steps of a task where the last one has fewer, if all fill vectors: their number may have no divisor that does, and tokens are
/// laid out anew by each task.
fn uneven(n: i64, unit: i64, share: &Shares, most: i64) -> Option<i64> {
    let each = share.rows / index::gcd(share.rows, unit);
    let tasks = (n * unit + most - 1) / most;
    let steps = (n + tasks - 1) / tasks;
    let steps = (steps + each - 1) / each * each;
    (n % each == 0 && steps * unit <= most).then_some(steps)
}

/// The axis of the columns of a sum whose blocks of weights lie across it: of no use to vectors but by their columns.
fn columns(g: &mut Graph, s: &Schedule, group: usize) -> Option<usize> {
    let heavy: Vec<Id> = s.groups[group].members.iter().copied().filter(|m| s.roles.heavy.contains(m)).collect();
    let sum = heavy.into_iter().find(|&m| products::goes_across(g, m))?;
    match s.maps[&(group, sum)].last() {
        Some(&Along::Axis { axis, .. }) => Some(axis),
        _ => None,
    }
}

/// Any cut that [`lower`] takes: from one step to all of an axis, a divisor of it or not, and loops in any order.
pub(super) fn random_cut(g: &mut Graph, s: &Schedule, group: usize, seed: u64) -> Cut {
    let axes = &s.groups[group].axes;
    let mut steps = vec![1; axes.len()];
    for (i, a) in axes.iter().enumerate() {
        if a.is_task() && !before_fold(g, s, group, i) {
            let most = index::bounds(g, a.count).1.max(1) as u64;
            steps[i] = (1 + lower::chance(seed, (group, i)) % most) as i64;
        }
    }
    Cut { steps, order: Some(seed) }
}
