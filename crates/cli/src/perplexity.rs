//! `perplexity`: how well a model predicts a text, and how far it is from a reference.

use crate::arguments::{EngineFlags, ModelFile};
use crate::failure::Interrupted;
use crate::interrupt;
use crate::models;
use crate::open::{self, Positions};
use crate::output::Stdout;
use crate::terminal;
use anyhow::{Context, bail};
use model::perplexity::base_logits::{BaseReader, BaseWriter};
use model::perplexity::{Distance, Mean, PerplexityError, Reference, Score, Windows, choices, score};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use text::tokenizer::Tokenizer;

/// What to score.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFile,
    /// File with the text; `-` is stdin
    #[arg(short, long, value_name = "TEXT", required_unless_present = "kl_base")]
    file: Option<PathBuf>,
    /// Length of a window in tokens; the second half of each is scored
    #[arg(short, long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(4..=1 << 24))]
    ctx_size: u32,
    /// Windows to score; all by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Write the log-probabilities to a file, as a reference for others
    #[arg(long, value_name = "FILE", conflicts_with = "kl_base")]
    save_logits: Option<PathBuf>,
    /// Answer the questions of a file of HellaSwag: six lines each
    #[arg(long, conflicts_with_all = ["winogrande", "multiple_choice", "save_logits", "kl_base", "chunks"])]
    hellaswag: bool,
    /// Answer those of a file of Winogrande: a line of CSV each
    #[arg(long, conflicts_with_all = ["multiple_choice", "save_logits", "kl_base", "chunks"])]
    winogrande: bool,
    /// Answer those of a binary file with several answers each, as llama-perplexity reads it
    #[arg(long, conflicts_with_all = ["save_logits", "kl_base", "chunks"])]
    multiple_choice: bool,
    /// Questions to answer, spread over the file; all by default
    #[arg(long, aliases = ["hellaswag-tasks", "winogrande-tasks", "multiple-choice-tasks"], value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    tasks: Option<u32>,
    /// Compare with the log-probabilities in a file, on the text that it was made from; with -f, that text is checked
    #[arg(long, alias = "kl-divergence-base", value_name = "FILE")]
    kl_base: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Scores the text.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    if args.hellaswag || args.winogrande || args.multiple_choice {
        return answer(args);
    }
    let path = &models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(path)?;
    let tokenizer = open::tokenizer(&file, path)?;
    let vocab = open::config(&file, path)?.vocab as usize;
    drop(file);
    let mut base = args.kl_base.as_deref().map(BaseReader::open).transpose()?;
    let windows = match &base {
        Some(base) => {
            if args.file.is_some() {
                base.windows().check_text(&tokenizer.encode(text(args)?, true, false))?;
            }
            let mut windows = base.windows_with(tokenizer.bos().filter(|_| tokenizer.adds_bos()));
            if let Some(chunks) = args.chunks {
                windows.truncate(chunks as usize);
            }
            check_ids(&windows, vocab)?;
            windows
        }
        None => windows_of(&tokenizer, vocab, text(args)?, args.ctx_size as usize, args.chunks)?,
    };
    let window = windows.window();
    let mut opened = open::scoring_engine(path, &args.engine, Positions::Needed(window))?;
    opened.engine.config().check_goes_on()?;
    let classes = opened.engine.classes(0..window - 1);
    opened.prepare(&classes)?;
    let mut save = args.save_logits.as_deref().map(|path| BaseWriter::create(path, &windows, vocab)).transpose()?;
    let watch = interrupt::watch();
    let base = base.as_mut().map(|base| base as &mut dyn Reference);
    let done = score(&mut opened.engine, &windows, save.as_mut(), base, |score| {
        let (perplexity, error) = score.perplexity();
        terminal::progress(&format!("{} of {}: {perplexity:.4} ± {error:.4}", score.windows, windows.count()));
        if watch.is_hit() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let interrupted = watch.is_hit();
    // Of an unfinished file nothing stays.
    if let Some(save) = save.filter(|_| !interrupted) {
        save.finish()?;
    }
    terminal::wipe();
    if done.windows > 0 {
        let mut out = Stdout;
        out.write_all(report(&done, window).as_bytes())?;
        out.flush()?;
    }
    if interrupted { Err(Interrupted.into()) } else { Ok(()) }
}

/// Answers questions.
fn answer(args: &Arguments) -> anyhow::Result<()> {
    let path = &models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(path)?;
    let tokenizer = open::tokenizer(&file, path)?;
    let vocab = open::config(&file, path)?.vocab as usize;
    drop(file);
    let encode = |text: &str| tokenizer.encode(text, true, false);
    let bytes = text(args)?;
    let words = || std::str::from_utf8(&bytes).context("the questions are no UTF-8");
    let (name, questions) = if args.hellaswag {
        ("HellaSwag", choices::hellaswag(words()?, &encode)?)
    } else if args.winogrande {
        ("Winogrande", choices::winogrande(words()?, &encode)?)
    } else {
        ("multiple choice", choices::multiple_choice(&bytes, &encode)?)
    };
    let questions = choices::spread(questions, args.tasks.map_or(usize::MAX, |tasks| tasks as usize));
    let tokens = || questions.iter().flat_map(|question| &question.0).flat_map(|text| &text.tokens);
    if let Some(id) = tokens().find(|&&id| id as usize >= vocab) {
        bail!("token {id} of a question is not in the vocabulary of {vocab} tokens");
    }
    let longest = questions.iter().map(choices::Question::longest).max().unwrap_or(1);
    let mut opened = open::scoring_engine(path, &args.engine, Positions::Needed(longest))?;
    opened.engine.config().check_goes_on()?;
    let classes = opened.engine.classes(0..longest);
    opened.prepare(&classes)?;
    let watch = interrupt::watch();
    let mut right = Mean::default();
    for question in &questions {
        if watch.is_hit() {
            break;
        }
        let scores = match choices::scores(&mut opened.engine, question) {
            Err(PerplexityError::Engine(error)) if error.is_stopped() => break,
            scores => scores?,
        };
        right.add(if choices::is_right(question, &scores) { 1.0 } else { 0.0 });
        let of = questions.len();
        terminal::progress(&format!("{} of {of}: {:.2} %", right.count(), 100.0 * right.mean()));
    }
    terminal::wipe();
    if right.count() > 0 {
        let (mean, error) = (100.0 * right.mean(), 100.0 * right.error());
        let mut out = Stdout;
        writeln!(out, "{name}: {mean:.4} ± {error:.4} % of {} questions", right.count())?;
        out.flush()?;
    }
    if watch.is_hit() { Err(Interrupted.into()) } else { Ok(()) }
}

fn text(args: &Arguments) -> anyhow::Result<Vec<u8>> {
    let stdin = PathBuf::from("-");
    text_of(args.file.as_ref().unwrap_or(&stdin))
}

/// What is in a file, or comes from stdin if it is called `-`.
pub fn text_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![];
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
    } else {
        bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(bytes)
}

/// A text in windows of so many tokens, at most so many.
pub fn windows_of(
    tokenizer: &Tokenizer,
    vocab: usize,
    text: Vec<u8>,
    window: usize,
    most: Option<u32>,
) -> anyhow::Result<Windows> {
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    let mut windows = Windows::new(tokenizer.encode(text, true, false), window, bos)?;
    if let Some(most) = most {
        windows.truncate(most as usize);
    }
    check_ids(&windows, vocab)?;
    Ok(windows)
}

fn check_ids(windows: &Windows, vocab: usize) -> anyhow::Result<()> {
    match windows.tokens().iter().find(|&&id| id as usize >= vocab) {
        Some(id) => bail!("token {id} of the text is not in the vocabulary of {vocab} tokens"),
        None => Ok(()),
    }
}

/// The score in words: the perplexity, and the distance from a reference.
pub fn report(score: &Score, window: usize) -> String {
    let (perplexity, error) = score.perplexity();
    let mut out = format!("PPL = {perplexity:.4} ± {error:.5} ({} windows of {window} tokens)\n", score.windows);
    if let Some(distance) = &score.distance {
        out += &of_distance(distance, perplexity);
    }
    out
}

fn of_distance(distance: &Distance, perplexity: f64) -> String {
    let base = distance.base.mean().exp();
    let mut sorted = distance.all.clone();
    sorted.sort_by(f32::total_cmp);
    let at = |share: f64| {
        let last = sorted.len().saturating_sub(1);
        sorted.get((share * last as f64).round() as usize).copied().unwrap_or(0.0)
    };
    let (mean, error) = (distance.divergence.mean(), distance.divergence.error());
    let (same, same_error) = (distance.same_top.mean() * 100.0, distance.same_top.error() * 100.0);
    format!(
        "PPL(base) = {base:.4}, ratio {:.6}\n\
         mean KLD = {mean:.6} ± {error:.6}\n\
         KLD: median {:.6}, 90% {:.6}, 99% {:.6}, max {:.6}\n\
         same top = {same:.3} ± {same_error:.3} %\n",
        perplexity / base,
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0),
    )
}
