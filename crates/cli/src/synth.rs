//! `synth`: a model file of a real shape with random weights.

use crate::failure::Usage;
use crate::open::bytes;
use crate::output::Stdout;
use crate::writing::with_progress;
use model::synth::{Quant, SynthOptions, SynthPlan, shapes};
use std::io::Write;
use std::path::PathBuf;

/// What to write.
#[derive(clap::Args, Debug)]
#[command(after_help = format!(
    "Shapes: {}\nQuantisations: {}",
    shapes().iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
    Quant::ALL.iter().map(|q| q.name()).collect::<Vec<_>>().join(", ")
))]
pub struct Arguments {
    /// Shape of the model
    #[arg(value_name = "SHAPE")]
    shape: String,
    /// Quantisation, as llama.cpp mixes types for it
    #[arg(short, long, value_name = "Q", default_value = "q4_0")]
    quant: String,
    /// Number of layers [default: those of the model]
    #[arg(long, value_name = "N")]
    layers: Option<u32>,
    /// Seed of the weights
    #[arg(short, long, value_name = "S", default_value = "0")]
    seed: u64,
    /// Give keys and shared experts other types than the matrices beside them
    #[arg(long)]
    mixed: bool,
    /// Write one attn_kv_b instead of split matrices, as old files do
    #[arg(long)]
    legacy_kv_b: bool,
    /// Write zeros that take no room on disk instead of weights, to compile kernels for the shape
    #[arg(long)]
    hollow: bool,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
}

/// Writes the file.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let options =
        SynthOptions { layers: args.layers, seed: args.seed, mixed: args.mixed, legacy_kv_b: args.legacy_kv_b };
    let plan = SynthPlan::new(&args.shape, &args.quant, &options).map_err(|e| Usage(e.to_string()))?;
    let seconds = with_progress(|progress| match args.hollow {
        true => plan.write_hollow(&args.out, true),
        false => plan.write(&args.out, progress),
    })?;
    let mut out = Stdout;
    writeln!(
        out,
        "{}: {} {}, {} tensors, {}, {} a token, in {seconds:.1} s",
        args.out.display(),
        plan.shape().name,
        args.quant,
        plan.tensors().len(),
        bytes(plan.bytes()),
        bytes(plan.step_bytes()),
    )?;
    Ok(out.flush()?)
}
