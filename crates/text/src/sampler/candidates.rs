//! The tokens still in play, and the stages that cut them down.
//!
//! The order is total: higher logits first, equal logits by lower id. Nothing here sees NaN or
//! minus infinity; plus infinity is a logit like any other and outweighs all finite ones.

use std::cmp::Ordering;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) logit: f32,
    pub(super) id: u32,
}

pub(super) fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    let by_logit = b.logit.partial_cmp(&a.logit);
    by_logit.unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// The candidate of highest rank.
pub(super) fn best(logits: &[f32]) -> Option<Candidate> {
    // Lane by lane, so that it compiles to vector instructions; a comparison with NaN is false.
    const LANES: usize = 16;
    let mut highest = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for (high, &logit) in highest.iter_mut().zip(chunk) {
            *high = if logit > *high { logit } else { *high };
        }
    }
    let all = highest.iter().chain(rest);
    let logit = all.fold(f32::NEG_INFINITY, |high, &logit| high.max(logit));
    let id = logits.iter().position(|&other| other == logit)?;
    (logit > f32::NEG_INFINITY).then_some(Candidate { logit, id: id as u32 })
}

/// Fills `out` with the `count` best candidates in order of rank.
///
/// One pass keeps what beats the worst of the best so far in a buffer, which is cut back to `count`
/// whenever it is full: linear in the logits, and most of them cost one comparison.
pub(super) fn top(logits: &[f32], count: usize, out: &mut Vec<Candidate>) {
    out.clear();
    let room = buffer_len(count, logits.len());
    let mut bar = f32::NEG_INFINITY;
    for (id, &logit) in logits.iter().enumerate() {
        // Later ids lose ties, so equal is not enough once the bar is set. False for NaN.
        if logit > bar {
            out.push(Candidate { logit, id: id as u32 });
            if out.len() == room && room > count {
                out.select_nth_unstable_by(count - 1, by_rank);
                out.truncate(count);
                bar = out[count - 1].logit;
            }
        }
    }
    out.sort_unstable_by(by_rank);
    out.truncate(count);
}

/// How many candidates [`top`] may hold at a time.
pub(super) fn buffer_len(count: usize, logits: usize) -> usize {
    const SPARE: usize = 256;
    count.saturating_mul(2).saturating_add(SPARE).min(logits)
}

/// Weight of a candidate relative to the best, whose logit is `max`.
fn weight(logit: f32, max: f32) -> f64 {
    if logit == max { 1.0 } else { f64::from((logit - max).exp()) }
}

/// Sum of the weights of all logits relative to the best. NaN counts as minus infinity.
pub(super) fn total_weight(logits: &[f32], max: f32) -> f64 {
    let weights = logits.iter().filter(|logit| !logit.is_nan());
    weights.map(|&logit| weight(logit, max)).sum()
}

/// How many of the ranked candidates it takes for their weights to reach `share` of the sum.
pub(super) fn top_p(ranked: &[Candidate], share: f32) -> usize {
    let max = ranked.first().map_or(0.0, |best| best.logit);
    let weights = || ranked.iter().map(|c| weight(c.logit, max));
    let goal = f64::from(share) * weights().sum::<f64>();
    let mut sum = 0.0;
    let last = weights().position(|weight| {
        sum += weight;
        sum >= goal
    });
    last.map_or(ranked.len(), |last| last + 1)
}

/// The lowest of the candidates that it takes for the weights to reach `share` of the sum, where
/// `max` is the highest logit.
///
/// Weights are summed in bins by how far they lie below the best; only the bin in which the sum is
/// reached has to be ranked, in `scratch`.
pub(super) fn top_p_bar(logits: &[f32], max: f32, share: f32, scratch: &mut Vec<Candidate>) -> Option<Candidate> {
    const BINS: usize = 1024;
    const BINS_PER_NAT: f32 = 32.0;
    // Infinity below infinity is NaN and lands in bin 0, where it belongs.
    let bin = |logit: f32| (((max - logit) * BINS_PER_NAT) as usize).min(BINS - 1);
    let mut bins = [0.0; BINS];
    let mut filled = 0;
    for &logit in logits {
        if logit > f32::NEG_INFINITY {
            let bin = bin(logit);
            bins[bin] += weight(logit, max);
            filled = filled.max(bin);
        }
    }
    let goal = f64::from(share) * bins.iter().sum::<f64>();
    let (mut before, mut reached) = (0.0, 0);
    while reached < filled && before + bins[reached] < goal {
        before += bins[reached];
        reached += 1;
    }
    scratch.clear();
    let all = logits.iter().enumerate();
    let in_bin = all.filter(|(_, logit)| **logit > f32::NEG_INFINITY && bin(**logit) == reached);
    scratch.extend(in_bin.map(|(id, &logit)| Candidate { logit, id: id as u32 }));
    scratch.sort_unstable_by(by_rank);
    let mut sum = before;
    let last = scratch.iter().find(|c| {
        sum += weight(c.logit, max);
        sum >= goal
    });
    last.or(scratch.last()).copied()
}

/// The lowest logit that is at least `fraction` as likely as the highest.
pub(super) fn min_p_floor(max: f32, fraction: f32) -> f32 {
    max + fraction.ln()
}

/// The ranked candidate that `uniform` in [0, 1) falls on, with logits divided by `temperature`.
pub(super) fn draw(ranked: &[Candidate], temperature: f32, uniform: f64) -> Option<Candidate> {
    let max = ranked.first()?.logit;
    let warmed = |c: &Candidate| warm_weight(c.logit, max, temperature);
    let mut left = uniform * ranked.iter().map(warmed).sum::<f64>();
    let hit = ranked.iter().find(|c| {
        left -= warmed(c);
        left < 0.0
    });
    // Rounding can leave a rest; what has no weight is never drawn.
    hit.or_else(|| ranked.iter().rev().find(|c| warmed(c) > 0.0)).copied()
}

/// Like [`draw`], from the logits of rank `bar` or better, in the order of their ids. `max` is the
/// highest logit. Overwrites the logits.
pub(super) fn draw_above(
    logits: &mut [f32],
    max: f32,
    bar: Option<Candidate>,
    temperature: f32,
    uniform: f64,
) -> Option<u32> {
    let mut total = 0.0;
    for (id, slot) in logits.iter_mut().enumerate() {
        let (logit, id) = (*slot, id as u32);
        let kept = match bar {
            Some(bar) => by_rank(&Candidate { logit, id }, &bar).is_le() && !logit.is_nan(),
            None => logit > f32::NEG_INFINITY,
        };
        let weight = if kept { warm_weight(logit, max, temperature) } else { 0.0 };
        total += weight;
        *slot = weight as f32;
    }
    let mut left = uniform * total;
    let hit = logits.iter().position(|&weight| {
        left -= f64::from(weight);
        left < 0.0
    });
    hit.or_else(|| logits.iter().rposition(|&weight| weight > 0.0)).map(|id| id as u32)
}

fn warm_weight(logit: f32, max: f32, temperature: f32) -> f64 {
    // Dividing the difference, not the logits, keeps tiny temperatures finite at the top.
    if logit == max { 1.0 } else { weight((logit - max) / temperature, 0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn odd_logit() -> impl Strategy<Value = f32> {
        prop_oneof![
            6 => (-50i8..50).prop_map(|x| f32::from(x) / 4.0),
            1 => any::<f32>(),
            1 => Just(f32::NAN),
            1 => Just(f32::NEG_INFINITY),
            1 => Just(f32::INFINITY),
            1 => Just(-0.0),
        ]
    }

    /// All candidates in order of rank, by sorting.
    fn ranked(logits: &[f32]) -> Vec<Candidate> {
        let all = logits.iter().enumerate().map(|(id, &logit)| Candidate { logit, id: id as u32 });
        let mut all: Vec<Candidate> = all.filter(|c| c.logit > f32::NEG_INFINITY).collect();
        all.sort_by(by_rank);
        all
    }

    proptest! {
        #[test]
        fn top_is_the_head_of_the_sorted_list(
            logits in prop::collection::vec(odd_logit(), 0..2000),
            count in 1usize..700,
        ) {
            let mut out = vec![];
            top(&logits, count, &mut out);
            let mut expected = ranked(&logits);
            expected.truncate(count);
            prop_assert_eq!(&out, &expected);
            let first = best(&logits);
            prop_assert_eq!(first.map(|c| c.logit), expected.first().map(|c| c.logit));
        }

        #[test]
        fn draws_are_candidates_with_weight(
            logits in prop::collection::vec(odd_logit(), 1..50),
            uniform in 0.0f64..1.0,
            temperature in prop_oneof![Just(f32::MIN_POSITIVE), Just(f32::MAX), 0.01f32..5.0],
        ) {
            let ranked = ranked(&logits);
            let drawn = draw(&ranked, temperature, uniform);
            prop_assert_eq!(drawn.is_some(), !ranked.is_empty());
            let Some(best) = best(&logits) else { return Ok(()) };
            let of_all = draw_above(&mut logits.clone(), best.logit, None, temperature, uniform);
            prop_assert!(ranked.iter().any(|c| Some(c.id) == of_all));
            if let Some(drawn) = drawn {
                prop_assert!(ranked.contains(&drawn));
                if ranked[0].logit == f32::INFINITY {
                    prop_assert_eq!(drawn.logit, f32::INFINITY);
                }
            }
        }
    }

    #[test]
    fn ties_go_to_the_lower_id() {
        let mut out = vec![];
        top(&[1.0; 1000], 3, &mut out);
        assert_eq!(out.iter().map(|c| c.id).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(best(&[1.0, 2.0, 2.0]).unwrap().id, 1);
        assert_eq!(best(&[f32::NAN, f32::NEG_INFINITY]), None);
    }

    proptest! {
        #[test]
        fn the_bar_of_top_p_is_its_last_candidate(
            logits in prop::collection::vec(odd_logit(), 1..300),
            share in 0.0f32..1.0,
        ) {
            let ranked = ranked(&logits);
            let Some(best) = best(&logits) else { return Ok(()) };
            let bar = top_p_bar(&logits, best.logit, share, &mut vec![]).unwrap();
            // Sums in another order may round to the neighbour.
            let place = ranked.iter().position(|c| *c == bar).unwrap();
            prop_assert!(place.abs_diff(top_p(&ranked, share) - 1) <= 1);
        }
    }

    #[test]
    fn cuts_by_probability() {
        let probabilities = [0.5f32, 0.25, 0.125, 0.125];
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
        let ranked = ranked(&logits);
        for (share, kept) in [(0.0, 1), (0.4, 1), (0.6, 2), (0.8, 3), (0.99, 4)] {
            assert_eq!(top_p(&ranked, share), kept);
            let bar = top_p_bar(&logits, logits[0], share, &mut vec![]);
            assert_eq!(bar, Some(ranked[kept - 1]));
        }
        assert_eq!(top_p_bar(&[f32::NAN], 0.0, 0.5, &mut vec![]), None);
    }
}
