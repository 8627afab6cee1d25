//! The weights of a file as floats, and files whose weights, types or metadata were changed.

use gguf::dequant::Dequantiser;
use gguf::quantise::Quantiser;
use gguf::{GgmlType, Gguf, Tensor, Writer};
use std::sync::Arc;

/// All values of a tensor.
pub fn values(file: &Gguf, tensor: &Tensor) -> Vec<f32> {
    let mut out = vec![0.0; tensor.elements() as usize];
    let dequantiser = Dequantiser::of_type(tensor.ty).expect("a known type");
    dequantiser.run(file.data(tensor), &mut out).expect("whole blocks");
    out
}

/// A file with the metadata and tensors of another, the type and data of each tensor given.
fn rewritten(
    file: &Gguf,
    set: impl FnOnce(&mut Writer),
    ty: impl Fn(&Tensor) -> GgmlType,
    mut data: impl FnMut(&Tensor) -> Vec<u8>,
) -> Arc<Gguf> {
    let mut writer = Writer::new();
    writer.copy_metadata(file.metadata());
    set(&mut writer);
    for tensor in file.tensors() {
        writer.tensor(&tensor.name, ty(tensor), tensor.shape()).expect("a legal tensor");
    }
    let bytes =
        writer.to_vec(|tensor, out| out.write_all(&data(file.tensor(&tensor.name).expect("a tensor of the file"))));
    Arc::new(Gguf::parse(bytes.expect("a file")).expect("a file that reads back"))
}

/// A file with more tensors of one dimension.
pub fn with_more(file: &Gguf, more: &[(&str, Vec<f32>)]) -> Arc<Gguf> {
    let mut writer = Writer::new();
    writer.copy_metadata(file.metadata());
    for t in file.tensors() {
        writer.tensor(&t.name, t.ty, t.shape()).expect("a legal tensor");
    }
    for (name, values) in more {
        writer.tensor(name, GgmlType::F32, &[values.len() as u64]).expect("a legal tensor");
    }
    let bytes = writer.to_vec(|t, out| match more.iter().find(|(name, _)| t.name == *name) {
        Some((_, values)) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())),
        None => out.write_all(file.data(file.tensor(&t.name).expect("a tensor of the file"))),
    });
    Arc::new(Gguf::parse(bytes.expect("a file")).expect("a file that reads back"))
}

/// The same model in F32, with the values of each tensor passed through `edit` and metadata changed by `set`.
pub fn edited(file: &Gguf, set: impl FnOnce(&mut Writer), mut edit: impl FnMut(&Tensor, &mut Vec<f32>)) -> Arc<Gguf> {
    let data = |tensor: &Tensor| {
        let mut values = values(file, tensor);
        edit(tensor, &mut values);
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    };
    rewritten(file, set, |_| GgmlType::F32, data)
}

/// The same file, with the bytes of each tensor passed through `edit`.
pub fn edited_bytes(file: &Gguf, mut edit: impl FnMut(&Tensor, &mut Vec<u8>)) -> Arc<Gguf> {
    let data = |tensor: &Tensor| {
        let mut bytes = file.data(tensor).to_vec();
        edit(tensor, &mut bytes);
        bytes
    };
    rewritten(file, |_| (), |tensor| tensor.ty, data)
}

/// The same model with each tensor quantised to a type.
pub fn converted(file: &Gguf, ty: impl Fn(&Tensor) -> GgmlType) -> Arc<Gguf> {
    let data = |tensor: &Tensor| {
        let (values, ty) = (values(file, tensor), ty(tensor));
        let mut out = vec![0; (tensor.rows() * ty.row_bytes(tensor.dims[0]).expect("whole blocks")) as usize];
        Quantiser::of_type(ty).and_then(|q| q.run(&values, &mut out)).expect("a quantiser");
        out
    };
    rewritten(file, |_| (), &ty, data)
}
