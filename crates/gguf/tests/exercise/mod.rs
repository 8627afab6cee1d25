//! Uses all of a file: what the fuzzer does with any bytes and the corpus test with its inputs.

use gguf::dequant::dequantise;
use gguf::{Error, Gguf, ValueBuf, Writer};

/// Largest alignment at which the file is written again: padding would cost that much.
const WRITTEN_ALIGNMENT: u64 = 4096;

/// Reads the bytes as a file; if they are one, decodes all metadata, dequantises all tensors, writes the file again and
/// checks that it reads the same.
///
/// # Panics
/// If anything about the file is inconsistent, which is what the fuzzer looks for.
pub fn exercise(bytes: Vec<u8>) -> Result<(), Error> {
    let len = bytes.len() as u64;
    let file = Gguf::parse(bytes).inspect_err(|error| assert!(!error.to_string().contains('\n')))?;
    read_metadata(&file);
    for tensor in file.tensors() {
        assert_eq!(file.tensor(&tensor.name), Some(tensor));
        assert_eq!(tensor.bytes, tensor.rows() * tensor.row_bytes());
        assert!(tensor.offset + tensor.bytes <= len && tensor.offset % file.alignment() == 0);
        let data = file.data(tensor);
        assert_eq!(&file.data_with_slack(tensor)[..data.len()], data);
        let _ = file.check_weights(tensor);
        if let Some(format) = tensor.ty.format() {
            let mut values = vec![0f32; usize::try_from(tensor.elements()).unwrap()];
            dequantise(format, data, &mut values).unwrap();
        }
    }
    if file.alignment() <= WRITTEN_ALIGNMENT {
        write_again(&file);
    }
    Ok(())
}

fn read_metadata(file: &Gguf) {
    let metadata = file.metadata();
    for (key, value) in metadata.iter() {
        assert!(metadata.get(key).is_some() && !value.to_string().is_empty());
        let _ = (metadata.u64(key), metadata.i64(key), metadata.f32(key), metadata.bool(key));
        let _ = (metadata.str(key), metadata.require::<Vec<&str>>(key), metadata.require::<Vec<i64>>(key));
        if let Ok(array) = metadata.array(key) {
            assert_eq!(array.iter().count(), array.len());
            assert!(array.get(array.len()).is_none());
        }
        if let Ok(strings) = metadata.strings(key) {
            let bytes: usize = strings.iter().map(|string| string.len() + 8).sum();
            assert_eq!(bytes, metadata.array(key).unwrap().raw().len());
        }
    }
}

fn write_again(file: &Gguf) {
    let mut writer = Writer::new();
    writer.copy_metadata(file.metadata());
    for tensor in file.tensors() {
        writer.tensor(&tensor.name, tensor.ty, tensor.shape()).unwrap();
    }
    let data = |tensor: &gguf::Tensor| file.data(file.tensor(&tensor.name).unwrap());
    let copy = Gguf::parse(writer.to_vec(|tensor, out| out.write_all(data(tensor))).unwrap()).unwrap();
    let kept = |file: &Gguf| -> Vec<(String, ValueBuf)> {
        let entries = file.metadata().iter().filter(|(key, _)| !key.starts_with("split."));
        entries.map(|(key, value)| (key.to_owned(), value.into())).collect()
    };
    assert_eq!(kept(&copy), kept(file));
    assert_eq!(copy.tensors().len(), file.tensors().len());
    for (ours, theirs) in copy.tensors().iter().zip(file.tensors()) {
        assert_eq!((&ours.name, ours.ty, ours.shape()), (&theirs.name, theirs.ty, theirs.shape()));
        assert_eq!(copy.data(ours), file.data(theirs));
    }
}
