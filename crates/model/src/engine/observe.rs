//! Steps that tell what the matrices of the model are multiplied with.

use super::Engine;
use crate::error::EngineError;
use crate::step::{self, Class, Observed, Output, Variant};
use std::sync::Arc;

impl Engine {
    /// From now on, steps of hidden states tell what the matrices of the model meet, with these outputs. All steps are run
    /// by one program, whatever their number of tokens.
    ///
    /// # Errors
    /// Of the compiler and of the device.
    pub(crate) fn observe(&mut self) -> Result<Vec<Observed>, EngineError> {
        self.make_batch_invariant();
        let variant = Variant { class: Class::Any, output: Output::Hidden };
        let sizes = self.sharing.sizes(variant, &self.config, &self.options);
        let (compiled, observed) = step::build_observed(&self.file, &self.config, &sizes, &self.options.compiler)?;
        let program = Arc::new(compiled.program);
        self.know_states(&program);
        let loaded = self.load(program, compiled.log)?;
        self.programs.insert(variant, loaded);
        Ok(observed)
    }

    /// The first values of an output of the last step.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn observed(&mut self, output: &str, values: usize) -> Result<&[f32], EngineError> {
        Ok(self.memory.output_start::<f32>(output, values)?)
    }
}
