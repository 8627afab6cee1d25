//! Tokens for steps whose text does not matter.

use crate::config::Config;

/// Tokens that differ, the same in every run.
pub struct Random(pub u64);

impl Random {
    /// A token of the vocabulary.
    pub fn token(&mut self, config: &Config) -> u32 {
        self.below(config.vocab as u64)
    }

    /// A number below another.
    pub fn below(&mut self, limit: u64) -> u32 {
        // Knuth's MMIX generator; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit.max(1)) as u32
    }
}
