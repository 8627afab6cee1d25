//! Channel mixing: a feed-forward that reads each token beside the one before it (RWKV, arXiv 2404.05892, section 4.3).

use super::Step;
use crate::config::ConfigError;
use compiler::Tensor;

impl Step<'_> {
    /// `value(relu(key(xk))^2)`, times `sigmoid(receptance(xr))` in files that have it, where xk and xr lie between a token and the
    /// one before it.
    pub(super) fn channel_mixing(
        &self,
        layer: i64,
        x: &Tensor,
        width: i64,
        states: &mut Vec<Tensor>,
    ) -> Result<Tensor, ConfigError> {
        let segments = self.segments.as_ref().expect("a model that remembers");
        let hidden = self.c.hidden;
        let name = |part: &str| format!("blk.{layer}.channel_mix_{part}.weight");
        let shift = self.step_back(&format!("state.{layer}.channels"), x, segments, states);
        let between = |part: &str| -> Result<Tensor, ConfigError> {
            Ok(x + &(&shift * &self.w.get(&name(&format!("lerp_{part}")), &[hidden])?))
        };
        let k = between("k")?.linear(&self.w.get(&name("key"), &[width, hidden])?).maximum(&self.b.float(0.0));
        let y = (&k * &k).linear(&self.w.get(&name("value"), &[hidden, width])?);
        if !self.w.has(&name("receptance")) {
            return Ok(y);
        }
        let r = between("r")?.linear(&self.w.get(&name("receptance"), &[hidden, hidden])?);
        Ok(&y * &r.sigmoid())
    }
}
