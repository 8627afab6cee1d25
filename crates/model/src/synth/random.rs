//! Pseudo-random numbers that are the same on every machine: integers and exact float arithmetic only.

/// A generator: xoshiro256++ of Blackman and Vigna (arXiv 1805.01407).
#[derive(Clone, Debug)]
pub(super) struct Random([u64; 4]);

impl Random {
    /// The generator of a seed and of what it is used for.
    pub(super) fn new(seed: u64, purpose: &str) -> Random {
        let mut state = seed ^ fnv1a(purpose.as_bytes());
        Random(std::array::from_fn(|_| splitmix64(&mut state)))
    }

    /// 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// An integer in `0..n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A float in `0.0..1.0`.
    pub(super) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    /// About a standard normal variable, never beyond ±6: a sum of twelve uniform ones, which has variance 1.
    pub(super) fn normal(&mut self) -> f32 {
        let mut sum = 0;
        for _ in 0..3 {
            let bits = self.next();
            sum += (0..4).map(|i| bits >> (16 * i) & 0xffff).sum::<u64>();
        }
        (sum as f32 - 6.0 * 65535.0) / 65536.0
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_purposes_differ_and_repeat() {
        let first = |seed, purpose| Random::new(seed, purpose).next();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }

    #[test]
    fn normal_has_mean_0_and_variance_1() {
        let mut random = Random::new(7, "normal");
        let n = 100_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = f64::from(random.normal());
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        assert!(mean.abs() < 0.01, "mean {mean}");
        let variance = squares / f64::from(n) - mean * mean;
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
    }

    #[test]
    fn below_stays_below() {
        let mut random = Random::new(0, "below");
        let mut seen = [false; 5];
        (0..200).for_each(|_| seen[random.below(5) as usize] = true);
        assert_eq!(seen, [true; 5]);
    }
}
