//! `imatrix`: how much each column of a model's matrices matters on a text, for `quantize`.

use crate::arguments::{EngineFlags, FetchFlags};
use crate::failure::{Interrupted, Usage};
use crate::interrupt;
use crate::models;
use crate::open::{self, Positions};
use crate::output::Stdout;
use crate::perplexity::{text_of, windows_of};
use crate::terminal;
use anyhow::Context;
use model::importance::{self, Importances};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// What to read and to write.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// GGUF file, short name, user/repo[:QUANT] or address of a file; what is not here is downloaded
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    place: Option<PathBuf>,
    /// The same
    #[arg(short, long, aliases = ["hf-repo", "model-url"], value_name = "MODEL")]
    model: Option<PathBuf>,
    #[command(flatten)]
    fetch: FetchFlags,
    /// File with the text; `-` is stdin
    #[arg(short, long, value_name = "TEXT", required_unless_present = "in_file")]
    file: Option<PathBuf>,
    /// File to write
    #[arg(short, long, visible_alias = "output-file", value_name = "FILE", default_value = "imatrix.gguf")]
    out: PathBuf,
    /// Importance matrix whose sums are added; may be given several times, and without a text
    #[arg(long, value_name = "FILE")]
    in_file: Vec<PathBuf>,
    /// Format of the file: gguf, or dat for programs that know the older one only
    #[arg(long, value_name = "FORMAT", default_value = "gguf")]
    output_format: Format,
    /// Length of a window in tokens
    #[arg(short, long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(4..=1 << 24))]
    ctx_size: u32,
    /// Windows to read; all by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    #[command(flatten)]
    engine: EngineFlags,
}

/// How a file of importances is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Gguf,
    Dat,
}

/// Reads the text and writes the file.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let mut all = Importances::default();
    for path in &args.in_file {
        all.add(&Importances::read(path)?).with_context(|| path.display().to_string())?;
    }
    let interrupted = match &args.file {
        Some(text) => {
            let (told, interrupted) = collected(args, text)?;
            if interrupted && told.windows.0 == 0 {
                return Err(Interrupted.into());
            }
            all.add(&told)?;
            interrupted
        }
        None if args.in_file.len() < 2 && args.output_format == Format::Gguf => {
            return Err(Usage("give a text (-f), or several files to add up (--in-file)".into()).into());
        }
        None => false,
    };
    match args.output_format {
        Format::Gguf => all.write(&args.out)?,
        Format::Dat => all.write_old(&args.out)?,
    }
    let mut out = Stdout;
    let ((windows, tokens), tensors) = (all.windows, all.tensors.len());
    writeln!(out, "{}: {tensors} tensors, {windows} windows of {tokens} tokens", args.out.display())?;
    let (tensors, unmet) = all.unmet().fold((0, 0), |(tensors, unmet), (_, n, _)| (tensors + 1, unmet + n));
    if unmet > 0 {
        writeln!(out, "{unmet} matrices of {tensors} tensors met no token, and count evenly; a longer text helps")?;
    }
    out.flush()?;
    if interrupted { Err(Interrupted.into()) } else { Ok(()) }
}

/// What the matrices met, and whether Ctrl-C ended it.
fn collected(args: &Arguments, text: &Path) -> anyhow::Result<(Importances, bool)> {
    let Some(name) = args.model.as_ref().or(args.place.as_ref()) else {
        return Err(Usage("give the model that reads the text".into()).into());
    };
    let path = &models::resolve(name, &args.fetch)?;
    let file = open::file(path)?;
    let tokenizer = open::tokenizer(&file, path)?;
    let vocab = open::config(&file, path)?.vocab as usize;
    drop(file);
    let windows = windows_of(&tokenizer, vocab, text_of(text)?, args.ctx_size as usize, args.chunks)?;
    let mut opened = open::engine(path, &args.engine, Positions::Needed(windows.window()), true)?;
    let watch = interrupt::watch();
    let told = importance::collect(&mut opened.engine, &windows, |done| {
        terminal::progress(&format!("{done} of {} windows", windows.count()));
        if watch.is_hit() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    terminal::wipe();
    let texts = vec![text.display().to_string()];
    Ok((Importances { texts, ..told }, watch.is_hit()))
}
