//! What each layer reads of a token beside the residual: a row of an embedding of its own, and a projection of the embedding of
//! the step (Gemma 3n and 4).

use super::{Part, Step};
use crate::config::ConfigError;
use compiler::{Dim, Tensor, dims};

impl Step<'_> {
    /// What all layers read, `[T, layers, width]`, of the embedding `x`; nothing of models whose layers read the residual alone.
    pub(super) fn layer_inputs(&self, x: &Tensor) -> Result<Option<Tensor>, ConfigError> {
        let c = self.c;
        let Some(width) = c.layer_input else { return Ok(None) };
        let rows = c.layers * width;
        let by_layer = |x: Tensor| x.reshape(dims![self.t, c.layers, width]);
        let of_token = self.w.get("per_layer_token_embd.weight", &[c.vocab, rows])?.gather(&self.token);
        let projected = x.linear(&self.w.get("per_layer_model_proj.weight", &[rows, c.hidden])?);
        let projected = by_layer(projected * (1.0 / (c.hidden as f32).sqrt()));
        let projected = self.norm(&projected, "per_layer_proj_norm", &[width])?;
        let sum = &projected + &by_layer(of_token * (width as f32).sqrt());
        Ok(Some(sum * std::f32::consts::FRAC_1_SQRT_2))
    }

    /// `norm(proj(gelu(gate(x)) * input))`, which is added to the stream.
    pub(super) fn input_of(&self, layer: i64, x: &Tensor, inputs: &Tensor) -> Result<Tensor, ConfigError> {
        let _scope = self.b.scope(&Part::FeedForward.scope(layer));
        let (hidden, width) = (self.c.hidden, inputs.len(2));
        let name = |part: &str| format!("blk.{layer}.{part}");
        let input = inputs.slice(1, layer, 1).reshape(&[self.t, Dim::Const(width)]);
        let gate = x.linear(&self.w.get(&name("inp_gate.weight"), &[width, hidden])?).gelu();
        let y = (&gate * &input).linear(&self.w.get(&name("proj.weight"), &[hidden, width])?);
        self.norm(&y, &name("post_norm"), &[hidden])
    }
}
