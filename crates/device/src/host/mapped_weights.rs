//! Weights straight from the mapped file of a model.

use crate::Result;
use crate::memory::Memory;
use gguf::Gguf;
use std::sync::Arc;

struct Data {
    file: Arc<Gguf>,
    tensor: usize,
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self.file.data(&self.file.tensors()[self.tensor])
    }
}

impl Memory {
    /// Makes every tensor of an open file a weight of its name, without a copy.
    ///
    /// # Errors
    /// [`crate::Error::WeightRange`], which a file that opened cannot cause.
    pub fn add_file(&mut self, file: &Arc<Gguf>) -> Result<()> {
        for (tensor, t) in file.tensors().iter().enumerate() {
            let owner = Arc::new(Data { file: file.clone(), tensor });
            // SAFETY: the file is mapped (or held) read only, unmoved for as
            // long as `owner` lives, and lies over a reservation that is
            // readable past its end.
            unsafe { self.add_weight(t.name.clone(), owner, 0..t.bytes as usize)? };
        }
        Ok(())
    }
}
