//! Files in other quantisations: every one that can be written, from every one.

use gguf::dequant::Dequantiser;
use gguf::{GgmlType, Gguf, Tensor};
use model::quantize::{QUANTS, QuantizeError, QuantizeOptions, QuantizePlan};
use model::synth::{Quant, SynthOptions, SynthPlan};
use std::path::PathBuf;

fn values(file: &Gguf, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.shape().iter().product::<u64>() as usize];
    let format = tensor.ty.format().expect("a format with values");
    Dequantiser::new(format).expect("a dequantiser").run(file.data(tensor), &mut values).expect("values");
    values
}

fn matrices(file: &Gguf) -> impl Iterator<Item = &Tensor> {
    file.tensors().iter().filter(|tensor| tensor.n_dims > 1)
}

/// A file as another quantisation, through the disk.
fn quantised(file: &Gguf, quant: Quant, allow_requantize: bool) -> Result<Gguf, QuantizeError> {
    let path: PathBuf = std::env::temp_dir().join(format!("kernloom-{}-{}.gguf", std::process::id(), quant.name()));
    QuantizePlan::new(file, quant, QuantizeOptions { allow_requantize })?.write(&path, |_, _| ())?;
    let written = Gguf::parse(std::fs::read(&path).expect("a file")).expect("a model");
    std::fs::remove_file(&path).expect("it is removed");
    Ok(written)
}

/// The root of the mean squared error by that of the values.
fn error(from: &[f32], to: &[f32]) -> f64 {
    let square = |all: &mut dyn Iterator<Item = f32>| all.map(|x| f64::from(x).powi(2)).sum::<f64>();
    (square(&mut from.iter().zip(to).map(|(a, b)| a - b)) / square(&mut from.iter().copied())).sqrt()
}

/// What a type may lose of random weights: some tenth more than its codes do at best.
fn most(ty: GgmlType) -> f64 {
    match ty {
        GgmlType::F32 => 0.0,
        GgmlType::F16 => 3e-4,
        GgmlType::BF16 => 2e-3,
        GgmlType::Q8_0 => 0.008,
        GgmlType::Q6_K => 0.02,
        GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q5_K => 0.05,
        GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q4_K | GgmlType::IQ4_NL | GgmlType::IQ4_XS => 0.1,
        GgmlType::Q3_K => 0.2,
        _ => 0.4,
    }
}

#[test]
fn every_quantisation_from_floats_and_from_each_other() {
    let options = SynthOptions::default();
    let source = SynthPlan::new("tiny-llama", "f32", &options).expect("a shape").to_vec().expect("a file");
    let source = Gguf::parse(source).expect("a model");
    let mut errors = vec![];
    for quant in QUANTS {
        let file = quantised(&source, quant, false).expect("floats are a source");
        let mut worst = 0f64;
        for (from, to) in matrices(&source).zip(matrices(&file)) {
            let error = error(&values(&source, from), &values(&file, to));
            assert!(error <= most(to.ty), "{} as {} loses {error}", to.name, to.ty);
            worst = worst.max(error);
        }
        errors.push((quant.name(), file.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>(), worst));
        assert_eq!(file.metadata().u64("general.file_type").ok(), Some(quant.file_type().into()));
        // What is quantised needs to be asked for, and floats of it are what it stands for.
        if quant.base().block_len() > 1 {
            assert!(matches!(quantised(&file, Quant::F16, false), Err(QuantizeError::Quantised { .. })), "{errors:?}");
            let floats = quantised(&file, Quant::F32, true).expect("any file is a source");
            for (from, to) in matrices(&file).zip(matrices(&floats)) {
                assert!(to.ty == GgmlType::F32 && values(&file, from) == values(&floats, to), "{}", to.name);
            }
        }
    }
    assert!(matches!(quantised(&source, Quant::Mxfp4, false), Err(QuantizeError::Target("mxfp4"))));
    println!("{errors:?}");
}
