//! `quantize`: a model file in another quantisation.

use crate::arguments::FetchFlags;
use crate::failure::Usage;
use crate::models;
use crate::open::{self, bytes};
use crate::output::Stdout;
use crate::writing::with_progress;
use anyhow::Context;
use model::quantize::{QUANTS, QuantizeOptions, QuantizePlan};
use model::synth::Quant;
use std::io::Write;
use std::path::PathBuf;

/// What to write.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// GGUF file, or name of a model
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Quantisation: f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0, iq4_nl, iq4_xs, q3_k_m or q2_k, types
    /// mixed as llama.cpp does without importances
    #[arg(value_name = "TYPE")]
    quant: String,
    /// Take a file that is quantised already; it loses more than quantising the original
    #[arg(long)]
    allow_requantize: bool,
    #[command(flatten)]
    fetch: FetchFlags,
}

/// Writes the file.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let unknown = || {
        let known: Vec<_> = QUANTS.iter().map(|q| q.name()).collect();
        Usage(format!("there is no quantisation '{}' to write (quantisations: {})", args.quant, known.join(", ")))
    };
    let quant = Quant::named(&args.quant).ok_or_else(unknown)?;
    let input = models::resolve(&args.input, &args.fetch)?;
    let file = open::file(&input)?;
    let same = |a: &PathBuf, b: &PathBuf| a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    if same(&input, &args.out) {
        return Err(Usage(format!("{} is the input; give the output another name", args.out.display())).into());
    }
    let options = QuantizeOptions { allow_requantize: args.allow_requantize };
    let plan = QuantizePlan::new(&file, quant, options).with_context(|| input.display().to_string())?;
    let seconds = with_progress(|progress| plan.write(&args.out, progress))?;
    let before: u64 = file.tensors().iter().map(|tensor| tensor.bytes).sum();
    let mut out = Stdout;
    let name = args.out.display();
    writeln!(out, "{name}: {}, {} instead of {}, in {seconds:.1} s", quant.name(), bytes(plan.bytes()), bytes(before))?;
    Ok(out.flush()?)
}
