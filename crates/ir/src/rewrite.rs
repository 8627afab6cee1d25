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

/// One rewrite: where it matches, it returns a node of equal meaning. It may ask what the graph is rewritten for, a `C`.
pub struct Rule<C> {
    /// What `--without` and traces call it.
    pub name: &'static str,
    /// What it preserves.
    pub kind: Kind,
    /// The rewrite of one node, whose sources are already in final form. The result may contain the node itself, which
    /// then stays as it is there: a [`Choice`](crate::Op::Choice) between it and another.
    pub apply: fn(&mut Graph, Id, &C) -> Option<Id>,
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
/// Returns the new roots. What a node becomes is in the node's scope.
pub fn rewrite<C>(g: &mut Graph, roots: &[Id], rules: &[&Rule<C>], context: &C, budget: usize) -> (Vec<Id>, Trace) {
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut trace = Trace { fired: rules.iter().map(|r| (r.name, 0)).collect(), stopped: None };
    let mut left = budget;
    let order = g.toposort(roots);
    let scope = g.enter(Default::default());
    for id in order {
        settle(g, id, rules, context, &mut map, &mut trace, &mut left);
    }
    g.enter(scope);
    if left == 0 {
        trace.stopped = Some(format!("budget of {budget} rewrites spent"));
    }
    (roots.iter().map(|r| map[r]).collect(), trace)
}

/// The final form of a node whose original sources are settled already, or
/// that a rule just made.
fn settle<C>(
    g: &mut Graph,
    id: Id,
    rules: &[&Rule<C>],
    context: &C,
    map: &mut FxHashMap<Id, Id>,
    trace: &mut Trace,
    left: &mut usize,
) -> Id {
    if let Some(&r) = map.get(&id) {
        return r;
    }
    let src = g.src(id).to_vec();
    let new: Vec<Id> = src.iter().map(|&s| settle(g, s, rules, context, map, trace, left)).collect();
    // Sources were settled in scopes of their own.
    let scope = g.scope(id);
    g.enter(scope);
    let mut now = if new == src { id } else { g.rebuild(id, new) };
    if now != id
        && let Some(&r) = map.get(&now)
    {
        map.insert(id, r);
        return r;
    }
    if *left > 0 {
        for (i, rule) in rules.iter().enumerate() {
            if let Some(better) = (rule.apply)(g, now, context)
                && better != now
            {
                trace.fired[i].1 += 1;
                *left -= 1;
                // Inside of what it became, the node stays: an alternative among others.
                let before = now;
                map.insert(before, before);
                now = settle(g, better, rules, context, map, trace, left);
                map.insert(before, now);
                break;
            }
        }
    }
    map.insert(id, now);
    map.insert(now, now);
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BinOp, DType, Op, UnOp};

    /// `x * x` for the absolute value of `x`.
    fn square(g: &mut Graph, id: Id, (): &()) -> Option<Id> {
        let Op::Unary(UnOp::Abs) = g.op(id) else { return None };
        let x = g.src(id)[0];
        Some(g.mul(x, x))
    }

    #[test]
    fn scopes_follow_rewrites_and_part_no_equal_nodes() {
        let mut g = Graph::new();
        let (one, two) = (g.named_scope("one"), g.named_scope("two"));
        let x = g.param("x", DType::F32, vec![]);
        g.enter(one);
        let (a, shared) = (g.unary(UnOp::Abs, x), g.unary(UnOp::Exp, x));
        let b = g.binary(BinOp::Add, a, x);
        g.enter(two);
        assert_eq!(g.unary(UnOp::Exp, x), shared);
        let c = g.unary(UnOp::Sin, b);
        g.enter(Default::default());
        assert_eq!(g.binary(BinOp::Add, a, x), b);
        let rule = Rule { name: "square", kind: Kind::Exact, apply: square };
        let (roots, _) = rewrite(&mut g, &[c], &[&rule], &(), 10);
        let sum = g.src(roots[0])[0];
        let product = g.src(sum)[0];
        assert_eq!(*g.op(product), Op::Binary(BinOp::Mul));
        let names = [roots[0], sum, product, x, shared].map(|id| g.scope_name(g.scope(id)).to_string());
        assert_eq!(names, ["two", "one", "one", "", ""]);
        assert_eq!(g.named_scope("one"), one);
    }
}
