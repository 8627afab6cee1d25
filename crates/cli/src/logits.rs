//! `logits`: the logits of every token of a list, as little-endian f32 `[tokens, vocabulary]`.

use crate::arguments::{EngineFlags, ModelFile};
use crate::interrupt;
use crate::numbers::Tokens;
use crate::open::{self, Positions};
use crate::terminal;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// What to compute.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFile,
    /// Token ids, separated by commas
    #[arg(long, value_name = "IDS")]
    tokens: Tokens,
    /// Tokens of a step
    #[arg(short, long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(1..=8192))]
    batch: u32,
    /// File for the logits; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Writes the logits.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let Tokens(tokens) = &args.tokens;
    if tokens.is_empty() {
        bail!("--tokens is empty; give token ids separated by commas");
    }
    let batch = args.batch as usize;
    let mut flags = args.engine.clone();
    flags.kernels.ubatch_size = args.batch.min(tokens.len() as u32);
    let mut opened = open::engine(&args.model.resolve()?, &flags, Positions::Needed(tokens.len()), true)?;
    let vocab = opened.engine.config().vocab;
    if let Some(id) = tokens.iter().find(|&&id| i64::from(id) >= vocab) {
        bail!("token {id} is not in the vocabulary of {vocab} tokens (0 to {})", vocab - 1);
    }
    let classes = opened.engine.classes(0..tokens.len());
    opened.prepare(&classes)?;
    let to_stdout = args.out.as_os_str() == "-";
    let path = args.out.display().to_string();
    let sink: Box<dyn Write> = match to_stdout {
        true => Box::new(std::io::stdout().lock()),
        false => Box::new(File::create(&args.out).with_context(|| format!("cannot write {path}"))?),
    };
    let mut out = BufWriter::with_capacity(1 << 20, sink);
    let watch = interrupt::watch();
    for (step, chunk) in tokens.chunks(batch).enumerate() {
        watch.check()?;
        let start = step * batch;
        terminal::progress(&format!("token {start} of {}", tokens.len()));
        for logit in opened.engine.step(chunk, start, 0..chunk.len())? {
            out.write_all(&logit.to_le_bytes()).with_context(|| format!("cannot write {path}"))?;
        }
    }
    out.flush().with_context(|| format!("cannot write {path}"))?;
    terminal::wipe();
    Ok(())
}
