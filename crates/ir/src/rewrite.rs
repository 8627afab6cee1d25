//! The rewrite engine: rules as data, applied to a fixed point.

use crate::{Graph, Id};
use rustc_hash::FxHashMap;

/// Whether a rule keeps every bit, or only the value in real arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The result is the same bit for bit.
    Exact,
    /// Equal in real arithmetic; rounding may differ.
    Reassociating,
}

/// One rewrite: where it matches, it returns a node of equal meaning.
pub struct Rule {
    /// What `--without` and traces call it.
    pub name: &'static str,
    /// What it preserves.
    pub kind: Kind,
    /// The rewrite of one node, whose sources are already in final form. The result may contain the node itself, which
    /// then stays as it is there: a [`Choice`](crate::Op::Choice) between it and another.
    pub apply: fn(&mut Graph, Id) -> Option<Id>,
}

/// How often each rule fired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Rule name and number of rewrites, in the order of the rules.
    pub fired: Vec<(&'static str, usize)>,
    /// Why the engine stopped before a fixed point, if it did.
    pub stopped: Option<String>,
}

/// Applies rules bottom-up until none matches, at most `budget` rewrites.
/// Returns the new roots.
pub fn rewrite(g: &mut Graph, roots: &[Id], rules: &[Rule], budget: usize) -> (Vec<Id>, Trace) {
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut trace = Trace { fired: rules.iter().map(|r| (r.name, 0)).collect(), stopped: None };
    let mut left = budget;
    let order = g.toposort(roots);
    for id in order {
        settle(g, id, rules, &mut map, &mut trace, &mut left);
    }
    if left == 0 {
        trace.stopped = Some(format!("budget of {budget} rewrites spent"));
    }
    (roots.iter().map(|r| map[r]).collect(), trace)
}

/// The final form of a node whose original sources are settled already, or
/// that a rule just made.
fn settle(
    g: &mut Graph,
    id: Id,
    rules: &[Rule],
    map: &mut FxHashMap<Id, Id>,
    trace: &mut Trace,
    left: &mut usize,
) -> Id {
    if let Some(&r) = map.get(&id) {
        return r;
    }
    let src = g.src(id).to_vec();
    let new: Vec<Id> = src.iter().map(|&s| settle(g, s, rules, map, trace, left)).collect();
    let mut now = if new == src { id } else { g.rebuild(id, new) };
    if now != id
        && let Some(&r) = map.get(&now)
    {
        map.insert(id, r);
        return r;
    }
    if *left > 0 {
        for (i, rule) in rules.iter().enumerate() {
            if let Some(better) = (rule.apply)(g, now)
                && better != now
            {
                trace.fired[i].1 += 1;
                *left -= 1;
                // Inside of what it became, the node stays: an alternative among others.
                let before = now;
                map.insert(before, before);
                now = settle(g, better, rules, map, trace, left);
                map.insert(before, now);
                break;
            }
        }
    }
    map.insert(id, now);
    map.insert(now, now);
    now
}
