//! Opens the reference models beside the repository (`../shared/golden`), where they are present.

use gguf::dequant::dequantise;
use gguf::{GgmlType, Gguf};
use std::path::{Path, PathBuf};

fn golden() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let folder = root.parent()?.join("shared").join("golden");
    folder.is_dir().then_some(folder)
}

/// Types that a file of this name must contain.
fn expected(name: &str) -> &'static [GgmlType] {
    use GgmlType::*;
    match name.trim_end_matches(".gguf").rsplit_once('-').map_or("", |(_, quant)| quant) {
        "Q4_0" => &[Q4_0],
        "Q4_1" => &[Q4_1],
        "Q5_0" => &[Q5_0],
        "Q5_1" => &[Q5_1],
        "Q8_0" => &[Q8_0],
        "Q2_K" => &[Q2_K],
        "Q3_K_M" => &[Q3_K],
        "Q4_K_M" => &[Q4_K],
        "Q5_K_M" => &[Q5_K],
        "Q6_K" => &[Q6_K],
        "IQ4_NL" => &[IQ4_NL],
        "IQ4_XS" => &[IQ4_XS],
        "BF16" => &[BF16],
        _ => &[],
    }
}

#[test]
fn golden_models_open() {
    let Some(folder) = golden() else {
        println!("skipped: no ../shared/golden beside the repository");
        return;
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    paths.sort();
    assert!(!paths.is_empty());
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let file = Gguf::open(path).unwrap();
        let arch = file.architecture().unwrap();
        assert!(file.metadata().u64(&format!("{arch}.block_count")).unwrap() > 0, "{name}");
        let vocabulary = file.metadata().strings("tokenizer.ggml.tokens").unwrap();
        let embedding = file.tensor("token_embd.weight").unwrap();
        assert_eq!(embedding.dims[1], vocabulary.len() as u64, "{name}");
        for ty in expected(name) {
            assert!(file.tensors().iter().any(|tensor| tensor.ty == *ty), "{name} holds no {ty}");
        }
        let mut end = file.data_start(0);
        for tensor in file.tensors() {
            assert_eq!(tensor.offset, end, "{name} {}", tensor.name);
            assert_eq!(tensor.bytes, tensor.rows() * tensor.row_bytes());
            assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
            assert_eq!(file.data_with_slack(tensor)[..tensor.bytes as usize], *file.data(tensor));
            end = (tensor.offset + tensor.bytes).next_multiple_of(file.alignment());
            file.check_weights(tensor).unwrap();
            let mut values = vec![0f32; tensor.elements() as usize];
            dequantise(tensor.ty.format().unwrap(), file.data(tensor), &mut values).unwrap();
            let largest = values.iter().fold(0f32, |m, v| m.max(v.abs()));
            assert!(values.iter().all(|v| v.is_finite()) && largest > 0.0 && largest < 100.0, "{name} {}", tensor.name);
        }
        assert_eq!(end, file.shard_bytes(0), "{name}");
        file.check_unchanged().unwrap();
    }
    println!("{} golden models opened", paths.len());
}
