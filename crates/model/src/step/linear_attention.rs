//! Linear attention in which each head has a decay of its own, whatever it reads (Lightning Attention, arXiv 2501.08313): a state
//! space (`state_space.rs`) whose inputs are values.

use super::Step;
use super::segments::Segments;
use super::state_space::{Taken, read};
use crate::config::{ConfigError, Recurrence};
use compiler::{Tensor, dims};
use ir::DType;

/// Beside the share of the layers that are behind one, so that the last forgets, too.
const LEAST_SHARE: f64 = 1e-5;

/// What the heads of a layer leave of what was before a token: its logarithms are falling powers of two, and the less the later
/// the layer is.
fn left(heads: i64, layer: i64, layers: i64) -> Vec<f32> {
    let share = 1.0 - layer as f64 / (layers - 1).max(1) as f64 + LEAST_SHARE;
    let slope = (-8.0 / heads as f64).exp2();
    (0..heads).map(|head| (-slope.powi(head as i32 + 1) * share).exp() as f32).collect()
}

impl Step<'_> {
    /// `out(norm(y) * sigmoid(gate(x)))`, where queries, keys and values of each head lie side by side.
    pub(super) fn linear_attention(
        &self,
        layer: i64,
        x: &Tensor,
        segments: &Segments,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let Some(Recurrence::LinearAttention { heads, head }) = self.c.recurrence else { unreachable!() };
        let (t, hidden, inner) = (self.t, self.c.hidden, heads * head);
        let name = |part: &str| format!("blk.{layer}.attn_{part}");
        let all = x.linear(&self.w.get(&name("qkv.weight"), &[3 * inner, hidden])?).silu();
        let all = all.reshape(dims![t, heads, 3 * head]);
        let part = |i: i64| all.slice(2, i * head, head);
        let (q, k, v) = (part(0), part(1), part(2));
        let bytes = left(heads, layer, self.c.layers).iter().flat_map(|left| left.to_le_bytes()).collect();
        let left = self.b.table(&format!("left.{layer}"), DType::F32, dims![1, heads, 1], bytes);
        let taken = Taken { x: v.unsqueeze(2), b: k, c: q, left: left.expand(dims![t, heads, 1]) };
        let y = read(&taken, &format!("state.{layer}"), segments, states).reshape(dims![t, inner]);
        let y = self.norm(&y, &name("norm_2"), &[inner])?;
        let gate = x.linear(&self.w.get(&name("gate.weight"), &[inner, hidden])?).sigmoid();
        Ok((&y * &gate).linear(&self.w.get(&name("output.weight"), &[hidden, inner])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_layers_forget_little() {
        let [first, last] = [0, 3].map(|layer| left(8, layer, 4));
        assert!((first[0].ln() + 0.5).abs() < 1e-4 && (first[7].ln() + 1.0 / 256.0).abs() < 1e-6);
        assert!(last[0] < 1.0 && last[0] > 0.9999);
        assert_eq!(left(8, 0, 1).len(), 8);
    }
}
