//! Biases of scores by distances in buckets.

use super::Step;
use crate::config::ConfigError;
use crate::config::distance_bias::{FAR, bucket};
use compiler::{Tensor, dims};
use ir::{BinOp, DType};

/// Distances that differ: so many behind a token, its own, and so many ahead.
const DISTANCES: i64 = 2 * FAR + 1;

impl Step<'_> {
    /// What each head adds to the score of a position so far behind or ahead, `[DISTANCES, heads]`, in a model that has such
    /// biases: those of the layer, or of the first.
    pub(super) fn biases_by_distance(&self, layer: i64) -> Result<Option<Tensor>, ConfigError> {
        let Some(buckets) = self.c.distance_buckets else { return Ok(None) };
        let name = |layer: i64| format!("blk.{layer}.attn_rel_b.weight");
        let own = self.w.find(&name(layer), &[buckets, self.c.heads])?;
        let of_buckets = own.map_or_else(|| self.w.get(&name(0), &[buckets, self.c.heads]), Ok)?;
        let of_distance = (-FAR..=FAR).flat_map(|ahead| (bucket(ahead, buckets) as i32).to_le_bytes()).collect();
        let of_distance = self.b.table("distance_buckets", DType::I32, dims![DISTANCES], of_distance);
        Ok(Some(of_buckets.gather(&of_distance)))
    }
}

/// Of values for each distance `[DISTANCES, n]`, those of positions `at` for tokens at `position`, with n behind their shape.
pub(crate) fn at_distance(values: &Tensor, position: &Tensor, at: &Tensor) -> Tensor {
    let b = at.builder();
    let ahead = at.binary(BinOp::Sub, position).binary(BinOp::Min, &b.int32(FAR)).maximum(&b.int32(-FAR));
    values.gather(&ahead.binary(BinOp::Add, &b.int32(FAR)))
}
