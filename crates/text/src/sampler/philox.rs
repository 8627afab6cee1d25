//! The random numbers of sampling: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3", 2011), keyed by the seed and counted by the step.
//!
//! The number of a step depends on nothing but seed and step, so a generation can be resumed or
//! repeated anywhere. The mapping is part of what a seed means to users and stays as it is: key =
//! the seed's low and high word, counter = (step low, step high, number, 0), where the number of the draw is 0, uniform = the first two
//! words of the output as a 64-bit integer (first word low), its upper 53 bits divided by 2^53.

const ROUNDS: usize = 10;
const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Golden ratio and square root of three less one, in 32 bits.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let product = [MULTIPLIERS[0] * u64::from(counter[0]), MULTIPLIERS[1] * u64::from(counter[2])];
        let high = |p: u64| (p >> 32) as u32;
        counter = [
            high(product[1]) ^ counter[1] ^ key[0],
            product[1] as u32,
            high(product[0]) ^ counter[3] ^ key[1],
            product[0] as u32,
        ];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

/// The uniform number in [0, 1) of a step.
pub(super) fn uniform(seed: u64, step: u64) -> f64 {
    nth_uniform(seed, step, 0)
}

/// Another number of the same step, for stages before the draw: its number is the third word of the counter.
pub(super) fn nth_uniform(seed: u64, step: u64, number: u32) -> f64 {
    let words = |x: u64| [x as u32, (x >> 32) as u32];
    let [low, high] = words(step);
    let out = philox([low, high, number, 0], words(seed));
    let bits = u64::from(out[1]) << 32 | u64::from(out[0]);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the Random123 distribution.
    #[test]
    fn known_answers() {
        for (counter, key, expected) in [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), expected);
        }
    }

    /// What a seed means must not change between versions.
    #[test]
    fn the_numbers_of_a_seed_are_frozen() {
        let bits = 0xe169_c58d_6627_e8d5_u64 >> 11;
        assert_eq!(uniform(0, 0), bits as f64 / 9007199254740992.0);
        assert_ne!(uniform(0, 1), uniform(0, 0));
        assert_ne!(uniform(1, 0), uniform(1 << 32, 0));
    }

    #[test]
    fn uniform_numbers_are_uniform() {
        let mut cells = [0u32; 20];
        let draws = 100_000;
        for step in 0..draws {
            let u = uniform(42, step);
            assert!((0.0..1.0).contains(&u));
            cells[(u * 20.0) as usize] += 1;
        }
        let expected = draws as f64 / 20.0;
        let chi2: f64 = cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        // 99.9th percentile of chi-square with 19 degrees of freedom.
        assert!(chi2 < 43.8, "{chi2}");
    }
}
