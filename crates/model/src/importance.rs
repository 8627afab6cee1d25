//! Importance matrices: how much each column of a matrix matters, which is the mean square of what it is multiplied with on
//! a text. A quantiser that weighs its errors so loses less of what the model computes
//! ([`QuantizeOptions::importances`](crate::quantize::QuantizeOptions::importances)).
//!
//! Definition and files are those of llama.cpp: the tensors of all blocks, those of experts and heads matrix by matrix.

mod file;

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::perplexity::Windows;
use crate::step::{Counts, Observed, Output};
pub use file::FileError;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What is known of one tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Sums of squares, `[matrices, columns]`.
    pub squares: Vec<f64>,
    /// Rows that were summed, for each matrix.
    pub rows: Vec<f64>,
}

impl Sums {
    /// Columns of each matrix.
    pub fn columns(&self) -> usize {
        self.squares.len() / self.rows.len().max(1)
    }

    /// Mean squares, `[matrices, columns]`; 1 for a matrix that met nothing.
    pub fn means(&self) -> Vec<f32> {
        let columns = self.columns().max(1);
        let of_matrix = |(squares, &rows): (&[f64], &f64)| -> Vec<f32> {
            squares.iter().map(|sum| if rows > 0.0 { (sum / rows) as f32 } else { 1.0 }).collect()
        };
        self.squares.chunks(columns).zip(&self.rows).flat_map(of_matrix).collect()
    }

    fn add(&mut self, other: &Sums) -> bool {
        if self.rows.is_empty() {
            *self = other.clone();
            return true;
        }
        let same = self.squares.len() == other.squares.len() && self.rows.len() == other.rows.len();
        if same {
            self.squares.iter_mut().zip(&other.squares).for_each(|(a, b)| *a += b);
            self.rows.iter_mut().zip(&other.rows).for_each(|(a, b)| *a += b);
        }
        same
    }
}

/// What is known of the tensors of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importances {
    /// By the names of tensors.
    pub tensors: BTreeMap<String, Sums>,
    /// Names of the texts.
    pub texts: Vec<String>,
    /// Windows that were read, and tokens of each.
    pub windows: (u32, u32),
}

/// Importances of models of other shapes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{tensor} has {found} importances here and {expected} there; they are of different models")]
pub struct Mismatch {
    /// The first such tensor.
    pub tensor: String,
    /// Values of it.
    pub found: usize,
    /// Values of it in the others.
    pub expected: usize,
}

impl Importances {
    /// Adds those of another text.
    ///
    /// # Errors
    /// A tensor of another shape; some tensors may have been added by then.
    pub fn add(&mut self, other: &Importances) -> Result<(), Mismatch> {
        for (name, sums) in &other.tensors {
            let known = self.tensors.entry(name.clone()).or_default();
            if !known.add(sums) {
                let (found, expected) = (sums.squares.len(), known.squares.len());
                return Err(Mismatch { tensor: name.clone(), found, expected });
            }
        }
        self.texts.extend(other.texts.iter().filter(|text| !self.texts.contains(text)).cloned().collect::<Vec<_>>());
        let (windows, tokens) = other.windows;
        self.windows = (self.windows.0.saturating_add(windows), self.windows.1.max(tokens));
        Ok(())
    }

    /// Matrices that no token met, as `(tensor, how many of how many)`: experts that were never chosen.
    pub fn unmet(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.tensors.iter().filter_map(|(name, sums)| {
            let unmet = sums.rows.iter().filter(|&&rows| rows == 0.0).count();
            (unmet > 0).then_some((name.as_str(), unmet, sums.rows.len()))
        })
    }
}

/// Reads a text and sums up what the matrices of the model meet. `on` hears of the windows that are done and may stop, as
/// may the device within one; what is there by then is returned.
///
/// # Errors
/// What the engine says.
pub fn collect(
    engine: &mut Engine,
    windows: &Windows,
    mut on: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Importances, EngineError> {
    let observed = engine.observe()?;
    let mut sums: Vec<Sums> = observed.iter().map(Sums::of).collect();
    let pages: Vec<u32> = (0..engine.limits().row_pages() as u32).collect();
    let mut batch = Batch::new(engine.limits());
    let mut done = 0;
    'windows: for window in windows.inputs() {
        for (n, tokens) in window.chunks(engine.chunk()).enumerate() {
            batch.clear();
            batch.set_output(Output::Hidden);
            batch.add(tokens, n * engine.chunk(), &pages)?;
            batch.want_last();
            match engine.run(&batch) {
                Err(error) if error.is_stopped() => break 'windows,
                run => run?,
            };
            for (of, sums) in observed.iter().zip(&mut sums) {
                sums.take(of, tokens.len(), engine)?;
            }
        }
        done += 1;
        if on(done).is_break() {
            break;
        }
    }
    let tensors = observed.into_iter().map(|of| of.tensor).zip(sums).collect();
    let size = u32::try_from(windows.window()).unwrap_or(u32::MAX);
    Ok(Importances { tensors, texts: vec![], windows: (done as u32, size) })
}

impl Sums {
    fn of(observed: &Observed) -> Sums {
        let values = observed.matrices * observed.columns;
        Sums { squares: vec![0.0; values], rows: vec![0.0; observed.matrices] }
    }

    /// Adds what the last step told.
    fn take(&mut self, of: &Observed, tokens: usize, engine: &mut Engine) -> Result<(), EngineError> {
        let add = |sums: &mut [f64], more: &[f32]| sums.iter_mut().zip(more).for_each(|(a, b)| *a += f64::from(*b));
        add(&mut self.squares, engine.observed(&of.sums, of.matrices * of.columns)?);
        match &of.counts {
            Counts::OfToken(rows) => self.rows.iter_mut().for_each(|sum| *sum += (tokens * rows) as f64),
            Counts::Output(name) => add(&mut self.rows, engine.observed(name, of.matrices)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_by_matrix_and_what_met_nothing_counts_evenly() {
        let sums = Sums { squares: vec![2.0, 4.0, 0.0, 0.0], rows: vec![2.0, 0.0] };
        assert_eq!(sums.means(), [1.0, 2.0, 1.0, 1.0]);
        let of = |sums: &Sums| Importances {
            tensors: [("t".to_owned(), sums.clone())].into(),
            texts: vec!["a".into()],
            windows: (1, 8),
        };
        let mut all = of(&sums);
        all.add(&of(&sums)).expect("one shape");
        assert_eq!(all.tensors["t"].rows, [4.0, 0.0]);
        assert_eq!((all.windows, all.texts.len()), ((2, 8), 1));
        assert_eq!(all.unmet().collect::<Vec<_>>(), [("t", 1, 2)]);
        let other = Sums { squares: vec![1.0], rows: vec![1.0] };
        assert_eq!(all.add(&of(&other)), Err(Mismatch { tensor: "t".into(), found: 1, expected: 4 }));
    }
}
