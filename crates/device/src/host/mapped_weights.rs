//! Weights straight from the mapped file of a model, but for those that kernels read in another type.

use crate::Result;
use crate::memory::Memory;
use crate::packing::fill_by_threads;
use gguf::{Gguf, ternary};
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
    /// Makes every tensor of an open file a weight of its name, without a copy; one of a type that is
    /// [unpacked](gguf::GgmlType::computed_as) is made when a program first reads it. What is unpacked is kept where kernels
    /// read it on the host; a device with a copy of its own has the only one.
    ///
    /// # Errors
    /// [`crate::Error::WeightRange`].
    pub fn add_file(&mut self, file: &Arc<Gguf>) -> Result<()> {
        for (tensor, t) in file.tensors().iter().enumerate() {
            if t.ty.is_unpacked() {
                let block = (t.ty.block_bytes() as usize, t.ty.computed_as().block_bytes() as usize);
                let file = file.clone();
                let unpack = move |out: &mut [u8]| {
                    fill_by_threads(file.data(&file.tensors()[tensor]), out, block, ternary::unpack);
                };
                self.add_late_weight(t.name.clone(), t.unpacked_bytes() as usize, unpack);
                continue;
            }
            let owner = Arc::new(Data { file: file.clone(), tensor });
            // SAFETY: the file is mapped (or held) read only, unmoved for as
            // long as `owner` lives, and lies over a reservation that is
            // readable past its end.
            unsafe { self.add_weight(t.name.clone(), owner, 0..t.bytes as usize)? };
        }
        Ok(())
    }
}
