//! Files in other quantisations: every one that can be written, from every one.

use gguf::dequant::Dequantiser;
use gguf::{GgmlType, Gguf, Tensor};
use model::importance::{Importances, Sums};
use model::quantize::{QUANTS, QuantizeError, QuantizeOptions, QuantizePlan};
use model::synth::{Quant, SynthOptions, SynthPlan};

fn values(file: &Gguf, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.shape().iter().product::<u64>() as usize];
    Dequantiser::of_type(tensor.ty).expect("a type with values").run(file.data(tensor), &mut values).expect("values");
    values
}

fn matrices(file: &Gguf) -> impl Iterator<Item = &Tensor> {
    file.tensors().iter().filter(|tensor| tensor.n_dims > 1)
}

/// A file as another quantisation, through the disk.
fn quantised(file: &Gguf, quant: Quant, allow_requantize: bool) -> Result<Gguf, QuantizeError> {
    written(file, quant, QuantizeOptions { allow_requantize, importances: None })
}

fn written(file: &Gguf, quant: Quant, options: QuantizeOptions<'_>) -> Result<Gguf, QuantizeError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("quantised.gguf");
    QuantizePlan::new(file, quant, options)?.write(&path, |_, _| ())?;
    let written = Gguf::parse(std::fs::read(&path).expect("a file")).expect("a model");
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
        GgmlType::Q1_0 => 0.66,
        GgmlType::TQ1_0 => 0.46,
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

/// Importances of which each matrix has its own, over four orders of magnitude.
fn importances(file: &Gguf) -> Importances {
    let sums = |tensor: &Tensor| {
        let (columns, count) = (tensor.dims[0], tensor.dims[2]);
        let of = |matrix: u64, column: u64| 10f64.powi(((column * 7 + matrix * 3) % 5) as i32);
        let squares = (0..count).flat_map(|m| (0..columns).map(move |c| of(m, c))).collect();
        Sums { squares, rows: vec![1.0; count as usize] }
    };
    let of_blocks = matrices(file).filter(|tensor| tensor.name.starts_with("blk."));
    let tensors = of_blocks.map(|tensor| (tensor.name.clone(), sums(tensor))).collect();
    Importances { tensors, texts: vec!["a text".into()], windows: (1, 512) }
}

/// The mean of squared errors, each by its importance.
fn weighted_error(from: &[f32], to: &[f32], tensor: &Tensor, means: &[f32]) -> f64 {
    let (columns, rows) = (tensor.dims[0] as usize, tensor.dims[1] as usize);
    let pairs = from.iter().zip(to).enumerate();
    pairs.map(|(at, (a, b))| f64::from(means[at / columns / rows * columns + at % columns] * (a - b).powi(2))).sum()
}

#[test]
fn errors_are_weighed_by_the_importances_of_each_matrix() {
    let source = SynthPlan::new("tiny-qwen3moe", "f32", &SynthOptions::default()).expect("a shape");
    let source = Gguf::parse(source.to_vec().expect("a file")).expect("a model");
    let known = importances(&source);
    for quant in [Quant::Q4_0, Quant::Q5_1, Quant::Q4KM, Quant::Q2K, Quant::Iq4Xs] {
        let plain = quantised(&source, quant, false).expect("a file");
        let options = QuantizeOptions { importances: Some(&known), ..QuantizeOptions::default() };
        let weighed = written(&source, quant, options).expect("a file");
        assert_eq!(weighed.metadata().i64("quantize.imatrix.entries_count").ok(), Some(known.tensors.len() as i64));
        for (name, sums) in &known.tensors {
            let of = |file: &Gguf| file.tensor(name).expect("a tensor").clone();
            let (tensor, to) = (of(&source), of(&weighed));
            if to.ty.block_len() == 1 || of(&plain).ty != to.ty {
                continue;
            }
            let error = |file: &Gguf| {
                let quantised = values(file, &of(file));
                weighted_error(&values(&source, &tensor), &quantised, &tensor, &sums.means())
            };
            let (with, without) = (error(&weighed), error(&plain));
            assert!(with < 0.8 * without, "{name} as {}: {with} with importances, {without} without", to.ty);
        }
    }
}

#[test]
fn importances_of_another_model_are_refused_and_missing_ones_named() {
    let source = SynthPlan::new("tiny-llama", "f32", &SynthOptions::default()).expect("a shape");
    let source = Gguf::parse(source.to_vec().expect("a file")).expect("a model");
    let mut known = importances(&source);
    known.tensors.remove("blk.1.ffn_up.weight");
    let plan = |known: &Importances| {
        let options = QuantizeOptions { importances: Some(known), ..QuantizeOptions::default() };
        let plan = QuantizePlan::new(&source, Quant::Q4_0, options)?;
        Ok::<_, QuantizeError>(plan.unweighted().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(plan(&known).expect("some may lack"), ["blk.1.ffn_up.weight"]);
    known.tensors.insert("blk.0.ffn_up.weight".into(), Sums { squares: vec![1.0; 7], rows: vec![1.0] });
    let error = plan(&known).expect_err("another shape").to_string();
    assert!(error.starts_with("tensor blk.0.ffn_up.weight has ") && error.ends_with("of another model"), "{error}");
}
