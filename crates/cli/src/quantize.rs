//! `quantize`: a model file in another quantisation.

use crate::arguments::{EngineFlags, FetchFlags};
use crate::failure::{Interrupted, Usage};
use crate::interrupt;
use crate::models;
use crate::open::{self, Positions, bytes};
use crate::output::Stdout;
use crate::perplexity::{report, text_of, windows_of};
use crate::terminal;
use crate::writing::with_progress;
use anyhow::Context;
use gguf::Gguf;
use model::importance::Importances;
use model::perplexity::{OtherModel, score};
use model::quantize::{QUANTS, QuantizeOptions, QuantizePlan};
use model::synth::Quant;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Length of a window of the comparison in tokens.
const WINDOW: usize = 512;

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
    /// mixed as llama.cpp does
    #[arg(value_name = "TYPE")]
    quant: String,
    /// Take a file that is quantised already; it loses more than quantising the original
    #[arg(long)]
    allow_requantize: bool,
    /// Importance matrix by which errors are weighed, as `kernloom imatrix` and llama-imatrix write it
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Compare the two files on a text afterwards: perplexity and divergence; `-` is stdin
    #[arg(long, value_name = "TEXT")]
    kl_text: Option<PathBuf>,
    /// Windows of 512 tokens to compare them on; all of the text by default
    #[arg(long, value_name = "N", requires = "kl_text", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    #[command(flatten)]
    fetch: FetchFlags,
    #[command(flatten)]
    engine: EngineFlags,
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
    let importances = args.imatrix.as_deref().map(Importances::read).transpose()?;
    let options = QuantizeOptions { allow_requantize: args.allow_requantize, importances: importances.as_ref() };
    let plan = QuantizePlan::new(&file, quant, options).with_context(|| input.display().to_string())?;
    let unweighted: Vec<&str> = plan.unweighted().collect();
    if let Some(first) = unweighted.first() {
        let n = unweighted.len();
        terminal::line(&format!("{n} matrices have no importances and are quantised without, {first} for one"));
    }
    let seconds = with_progress(|progress| plan.write(&args.out, progress))?;
    let before: u64 = file.tensors().iter().map(|tensor| tensor.bytes).sum();
    let mut out = Stdout;
    let name = args.out.display();
    writeln!(out, "{name}: {}, {} instead of {}, in {seconds:.1} s", quant.name(), bytes(plan.bytes()), bytes(before))?;
    out.flush()?;
    match &args.kl_text {
        Some(text) => compared(args, &file, &input, text),
        None => Ok(()),
    }
}

/// Says how far the file that was written is from its source on a text.
fn compared(args: &Arguments, file: &Gguf, input: &Path, text: &Path) -> anyhow::Result<()> {
    let (tokenizer, config) = (open::tokenizer(file, input)?, open::config(file, input)?);
    config.check_goes_on()?;
    let windows = windows_of(&tokenizer, config.vocab as usize, text_of(text)?, WINDOW, args.chunks)?;
    let engine = |path: &Path| open::scoring_engine(path, &args.engine, Positions::Needed(WINDOW));
    let (mut base, mut other) = (engine(input)?, engine(&args.out)?);
    for opened in [&mut base, &mut other] {
        let classes = opened.engine.classes(0..WINDOW - 1);
        opened.prepare(&classes)?;
    }
    let watch = interrupt::watch();
    let mut base = OtherModel::new(&mut base.engine);
    let score = score(&mut other.engine, &windows, None, Some(&mut base), |score| {
        terminal::progress(&format!("{} of {} windows", score.windows, windows.count()));
        if watch.is_hit() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    terminal::wipe();
    if score.windows > 0 {
        let mut out = Stdout;
        out.write_all(report(&score, WINDOW).as_bytes())?;
        out.flush()?;
    }
    if watch.is_hit() { Err(Interrupted.into()) } else { Ok(()) }
}
