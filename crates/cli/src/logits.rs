//! `logits`: the logits of every token of a list, as little-endian f32 `[tokens, vocabulary]`.

use crate::arguments::{EngineFlags, ModelFile};
use crate::failure::Usage;
use crate::interrupt;
use crate::models;
use crate::numbers::Tokens;
use crate::open::{self, Positions};
use crate::terminal;
use anyhow::{Context, bail};
use gguf::Partial;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;

/// What to compute.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFile,
    /// Token ids, separated by commas
    #[arg(long, value_name = "IDS")]
    tokens: Tokens,
    /// Tokens of a step, at most; a text whose tokens see what follows them comes in one
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
    let to_stdout = args.out.as_os_str() == "-";
    if to_stdout && std::io::stdout().is_terminal() {
        return Err(Usage("the numbers of logits are no text for a terminal; name a file with --out".into()).into());
    }
    let Tokens(tokens) = &args.tokens;
    if tokens.is_empty() {
        bail!("--tokens is empty; give token ids separated by commas");
    }
    let mut flags = args.engine.clone();
    flags.kernels.ubatch_size = Some(args.batch.min(tokens.len() as u32));
    let mut opened = open::scoring_engine(
        &models::resolve(args.model.name(), &args.model.fetch)?,
        &flags,
        Positions::Needed(tokens.len()),
    )?;
    let batch = match opened.engine.config().causal {
        true => (args.batch as usize).min(opened.engine.limits().tokens),
        // A text whose tokens see what follows comes in one step.
        false => tokens.len(),
    };
    let vocab = opened.engine.config().vocab;
    if let Some(id) = tokens.iter().find(|&&id| i64::from(id) >= vocab) {
        bail!("token {id} is not in the vocabulary of {vocab} tokens (0 to {})", vocab - 1);
    }
    let classes = opened.engine.classes(0..tokens.len());
    opened.prepare(&classes)?;
    let cannot = || match to_stdout {
        true => "cannot write the output".to_owned(),
        false => format!("cannot write {}", args.out.display()),
    };
    let watch = interrupt::watch();
    let mut file = (!to_stdout).then(|| Partial::create(&args.out)).transpose().with_context(cannot)?;
    let mut stdout = BufWriter::with_capacity(1 << 20, std::io::stdout());
    let out: &mut dyn Write = match &mut file {
        Some(file) => file,
        None => &mut stdout,
    };
    for (step, chunk) in tokens.chunks(batch).enumerate() {
        watch.check()?;
        let start = step * batch;
        terminal::progress(&format!("token {start} of {}", tokens.len()));
        for logit in opened.engine.step(chunk, start, 0..chunk.len())? {
            out.write_all(&logit.to_le_bytes()).with_context(cannot)?;
        }
    }
    watch.check()?;
    match file {
        Some(file) => file.keep(),
        None => stdout.flush(),
    }
    .with_context(cannot)?;
    terminal::wipe();
    Ok(())
}
