//! Biases of scores that are learned for distances in buckets (T5, arXiv 1910.10683, section 2.1).

use super::ConfigError;
use super::keys::Keys;

/// Distances from which all are in the last bucket.
pub(crate) const FAR: i64 = 128;

/// Buckets at most: a quarter of them are of near distances, which are less than [`FAR`].
const MOST_BUCKETS: i64 = 4 * FAR - 4;

/// How many buckets a file has.
pub(super) fn buckets(k: &Keys<'_>) -> Result<i64, ConfigError> {
    let key = "attention.relative_buckets_count";
    let count = k.positive(key, MOST_BUCKETS)?;
    match count % 4 == 0 {
        true => Ok(count),
        false => Err(super::out_of_range(&k.key(key), count, "expected a multiple of 4")),
    }
}

/// The bucket of a position that lies so far ahead of a token, of so many. Half of them are of those ahead, and half of each of
/// near ones, with a distance each; the others grow with the distance.
pub(crate) fn bucket(ahead: i64, buckets: i64) -> i64 {
    let half = buckets / 2;
    let (near, distance) = (half / 2, ahead.abs());
    let of_far = || {
        let grown = (distance as f32 / near as f32).ln() * (half - near) as f32;
        let far = (near as f64 + f64::from(grown) / (FAR as f64 / near as f64).ln()) as f32;
        (far.floor() as i64).min(half - 1)
    };
    let within = if distance < near { distance } else { of_far() };
    if ahead > 0 { half + within } else { within }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_distances_have_a_bucket_each_and_far_ones_share_some() {
        let of = |aheads: [i64; 8]| aheads.map(|ahead| bucket(ahead, 32));
        assert_eq!(of([0, -1, -7, -8, -16, -63, -127, -128]), [0, 1, 7, 8, 10, 13, 15, 15]);
        assert_eq!(of([1, 2, 7, 8, 32, 64, 127, 4000]), [17, 18, 23, 24, 28, 30, 31, 31]);
    }

    #[test]
    fn as_many_buckets_as_there_may_be() {
        let of = |ahead| bucket(ahead, MOST_BUCKETS);
        assert_eq!([-1, -126, -127, -FAR, -4000].map(of), [1, 126, 127, 253, 253]);
        assert_eq!([1, 126, 127, FAR, 4000].map(of), [255, 380, 381, 507, 507]);
    }
}
