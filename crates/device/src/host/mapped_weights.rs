//! Weights straight from the mapped file of a model, but for those that kernels read in another type.

use crate::Result;
use crate::memory::Memory;
use gguf::{Gguf, Tensor, ternary};
use std::sync::Arc;
use std::thread;

struct Data {
    file: Arc<Gguf>,
    tensor: usize,
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self.file.data(&self.file.tensors()[self.tensor])
    }
}

/// Bytes that are worth a thread.
const WORTH: usize = 1 << 20;

/// Unpacks a tensor, as many rows on each thread.
fn unpack_by_threads(data: &[u8], tensor: &Tensor, out: &mut [u8]) {
    let rows = tensor.rows().max(1) as usize;
    let (from, to) = (data.len() / rows, out.len() / rows);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(data.len() / WORTH).max(1);
    let share = rows.div_ceil(threads).max(1);
    thread::scope(|scope| {
        for (data, out) in data.chunks((share * from).max(1)).zip(out.chunks_mut((share * to).max(1))) {
            scope.spawn(move || ternary::unpack(data, out));
        }
    });
}

impl Memory {
    /// Makes every tensor of an open file a weight of its name, without a copy; one of a type that is
    /// [unpacked](gguf::GgmlType::computed_as) as that.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] for what is unpacked.
    pub fn add_file(&mut self, file: &Arc<Gguf>) -> Result<()> {
        for (tensor, t) in file.tensors().iter().enumerate() {
            if t.ty.is_unpacked() {
                let bytes = t.unpacked_bytes() as usize;
                self.make_weight(t.name.clone(), bytes, |out| unpack_by_threads(file.data(t), t, out))?;
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
