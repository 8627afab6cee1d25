//! The head of a classifier: scores of a text instead of the logits of its next token.

use super::Step;
use crate::config::{ConfigError, Ranking, Reads, ranking};
use crate::family::Squash;
use compiler::Tensor;
use ir::{DType, UnOp};

impl Step<'_> {
    /// The scores of the texts of the rows that are asked for, `[rows, labels]`, by the hidden states after the last norm: of
    /// these rows, or where the head reads the mean, of all tokens of the step.
    pub(super) fn scores(&self, x: Tensor, of: &Ranking) -> Result<Tensor, ConfigError> {
        let hidden = self.c.hidden;
        let mut x = if of.reads == Reads::Mean { self.means(&x) } else { x };
        let has_labels = self.w.has(ranking::LABELS);
        if self.w.has(ranking::DENSE) {
            let rows = if has_labels { hidden } else { of.labels };
            x = x.linear(&self.w.get(ranking::DENSE, &[rows, hidden])?);
            x = self.biased(x, "cls.bias", rows)?;
            x = match self.family.classifier.map(|classifier| classifier.squash) {
                Some(Squash::Gelu) => x.gelu(),
                _ => x.tanh(),
            };
            if let Some(weight) = self.w.find("cls.norm.weight", &[rows])? {
                x = x.layer_norm(Some(&weight), self.c.eps);
            }
        }
        if has_labels {
            x = x.linear(&self.w.get(ranking::LABELS, &[of.labels, hidden])?);
            x = self.biased(x, "cls.output.bias", of.labels)?;
        }
        let adds_up = self.family.classifier.is_some_and(|classifier| classifier.adds_up);
        Ok(if adds_up { x.softmax() } else { x })
    }

    /// The mean of the rows of each text, `[rows, n]`: all of its tokens are in the step.
    fn means(&self, x: &Tensor) -> Tensor {
        let same = self.segment.gather(&self.rows).unsqueeze(1).equal(&self.segment);
        let sums = same.unsqueeze(2).select(&x.unsqueeze(0), &self.b.float(0.0)).sum(1);
        let count = same.cast(DType::F32).sum(1).unsqueeze(1);
        &sums * &count.unary(UnOp::Recip)
    }
}
