//! Matrices of heads of which each value of a key is forgotten at its own pace, as the token says.
//!
//! A head keeps a matrix S from keys to values. Token t leaves `diag(w)` of it and takes the product of its value v and key k:
//! `S' = S diag(w) + v k`. Its query finds `S' q`, or, with a bonus for the token itself (RWKV-6, arXiv 2404.05892, section 4.2),
//! `S q + (q . bonus k) v`. With a generalised delta rule (RWKV-7, arXiv 2503.14456, section 4.1) it also takes what it has found by
//! one key, e, and puts it to another, a: `S' = S diag(w) + v k + (S e) a`.
//!
//! Over several tokens, with the step as the only chunk, what each finds by e depends on what those before it did:
//!
//! ```text
//! u[t] - sum over j < t of (e[t] . d[t-1, j] a[j]) u[j] = S d[t-1] e[t] + sum over j < t of (e[t] . d[t-1, j] k[j]) v[j]
//! y[t] = S d[t] q[t] + sum over j <= t of (q[t] . d[t, j] k[j]) v[j] + (q[t] . d[t, j] a[j]) u[j]
//! S'   = S d[last]   + sum over j of v[j] (d[last, j] k[j]) + u[j] (d[last, j] a[j])
//! ```
//!
//! where d[t, j] is what the tokens after j until t leave of each value of a key, and d[t] what all until t leave. The first line
//! is solved as that of the delta rule (`delta_rule.rs`), which is this one with `e = -beta k` and `a = k` after forgetting.
//!
//! Where there is a bound of what a token forgets, and a step cannot forget more than floats hold, d[t, j] is a product of what
//! belongs to t and what belongs to j, and products of keys are products of matrices ([`Segments::factors`]).

use super::delta_rule::solve;
use super::segments::{Decays, Segments, last_as_two};
use compiler::{Tensor, dims};

/// What a head reads of a token.
pub(super) struct Taken {
    /// Queries and keys `[T, heads, key]`.
    pub(super) q: Tensor,
    pub(super) k: Tensor,
    /// Values `[T, heads, value]`.
    pub(super) v: Tensor,
    /// Logarithm of what is left of each value of a key, `[T, heads, key]`.
    pub(super) log: Tensor,
    /// The least that this can be, if there is a bound.
    pub(super) least_log: Option<f32>,
    /// When a query is answered, and what else happens then.
    pub(super) rule: Rule,
}

/// When a query is answered, and what else happens then.
pub(super) enum Rule {
    /// After the token was taken.
    After,
    /// Before, and the key of the token itself counts times these, `[heads, key]`.
    Before { bonus: Tensor },
    /// After, and what was found by one key before is put to another, `[T, heads, key]` each.
    Delta { found: Tensor, put: Tensor },
}

/// What is left of tokens at others, where the first of two comes after the second.
struct Left<'a> {
    segments: &'a Segments,
    /// What is left of all that was before the step, `[T, heads, key]`.
    since: Tensor,
    ways: Ways,
}

/// How it is computed.
enum Ways {
    /// For each two tokens `[T, T, heads, key]`.
    Each(Tensor),
    /// As factors of both `[T, heads, key]`, so that sums over keys are products of matrices; a token sees itself, or does not.
    Factors([Tensor; 2], bool),
}

impl Left<'_> {
    /// Products of x of each token and y of those before it, times what is left, `[T, T, heads]`.
    fn products(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let each = |x: &Tensor, y: &Tensor| &x.unsqueeze(1) * &y.unsqueeze(0);
        match &self.ways {
            Ways::Each(left) => (&each(x, y) * left).sum(3),
            Ways::Factors([of_x, of_y], itself) => {
                self.segments.of_seen(&each(&(x * of_x), &(y * of_y)).sum(3), *itself)
            }
        }
    }
}

/// What the queries find in the state of this name, `[T, heads, value]`.
pub(super) fn read(taken: &Taken, name: &str, segments: &Segments, states: &mut Vec<Tensor>) -> Tensor {
    let Taken { q, k, v, log, least_log, rule } = taken;
    let (t, heads, key, value) = (segments.t, k.len(1), k.len(2), v.len(2));
    let flat = log.reshape(dims![t, heads * key]);
    let decays = segments.decays(&flat);
    let by_key = |x: &Tensor| last_as_two(x, [heads, key]);
    let kept = segments.state(name, &[heads, value, key]);
    let old = segments.remembered_by_tokens(&kept);
    let along = |x: &Tensor| x.reshape(dims![t, heads, 1, key]);
    let find = |state: &Tensor, x: &Tensor| (state * &along(x)).sum(3);
    let of_itself = |bonus: &Tensor| &(&(q * k) * bonus).sum(2).unsqueeze(2) * v;
    if segments.single {
        let mut next = &(&old * &along(&by_key(&decays.since))) + &(&v.unsqueeze(3) * &along(k));
        if let Rule::Delta { found, put } = rule {
            next = &next + &(&find(&old, found).unsqueeze(3) * &along(put));
        }
        let next = segments.remember(&kept, &next);
        states.push(next.clone());
        return match rule {
            Rule::Before { bonus } => &find(&old, q) + &of_itself(bonus),
            Rule::After | Rule::Delta { .. } => find(&segments.rows(&next), q),
        };
    }
    let before = segments.decays_before(&flat);
    let left = |here: &Decays, itself: bool| Left {
        segments,
        since: by_key(&here.since),
        ways: match least_log.is_some_and(|least| segments.has_factors(least)) {
            true => Ways::Factors(segments.factors(here, &decays).each_ref().map(by_key), itself),
            false if itself => Ways::Each(by_key(&segments.between(here))),
            false => Ways::Each(by_key(&segments.between_before(here, &decays))),
        },
    };
    let [now, when_it_comes] = [left(&decays, true), left(&before, false)];
    let of_tokens = |products: &Tensor, v: &Tensor| (&products.unsqueeze(3) * &v.unsqueeze(0)).sum(1);
    let answer = |x: &Tensor, left: &Left<'_>| &find(&old, &(x * &left.since)) + &of_tokens(&left.products(x, k), v);
    let until_last = by_key(&segments.until_last(&decays));
    let taken = |v: &Tensor, k: &Tensor| {
        let keys = &segments.by_segment(k) * &until_last;
        (&segments.by_segment(v).unsqueeze(4) * &keys.unsqueeze(3)).sum(1)
    };
    let rest = &segments.remembered(&kept) * &segments.last(&now.since).unsqueeze(2);
    let mut next = &rest + &taken(v, k);
    let y = match rule {
        Rule::After => answer(q, &now),
        Rule::Before { bonus } => &answer(q, &when_it_comes) + &of_itself(bonus),
        Rule::Delta { found, put } => {
            let by_others = -&when_it_comes.products(found, put);
            let moved = solve(&by_others, &answer(found, &when_it_comes), segments);
            next = &next + &taken(&moved, put);
            &answer(q, &now) + &of_tokens(&now.products(q, put), &moved)
        }
    };
    states.push(segments.remember(&kept, &next));
    y
}
