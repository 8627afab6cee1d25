//! `smoke`: whether every model that is here still says what it said.
//!
//! What the model that comes with the program must say is part of the program. For any other model the first run keeps
//! what came out as its reference, in a file, and says so; later runs compare.

mod found;
mod reference;

use crate::arguments::{EngineFlags, FetchFlags, Numerics};
use crate::failure::{self, Interrupted};
use crate::interrupt;
use crate::models;
use crate::open::{self, Positions};
use crate::output::{self, Stdout};
use crate::terminal;
use anyhow::bail;
use clap::ValueEnum;
use gguf::plain;
use model::generate::{Generator, Timing};
use model::sequence::{Event, Request};
use reference::{Reference, References};
use serde_json::{Value, json};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use text::sampler::SamplerConfig;

/// What every model goes on from.
const PROMPT: &str = "Once upon a time, there was a";

/// Tokens of each model, if nothing else is asked for.
const TOKENS: u16 = 16;

/// Which models.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// GGUF files, short names and whatever else other commands take, beside the model that comes with the program
    #[arg(value_name = "MODEL")]
    places: Vec<PathBuf>,
    #[command(flatten)]
    fetch: FetchFlags,
    /// Folder whose GGUF files are run, with the folders in it
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Folder of references [default: kernloom/smoke in the user's state folder]
    #[arg(long, value_name = "FOLDER")]
    references: Option<PathBuf>,
    /// Keep what comes out as the new references
    #[arg(long)]
    update: bool,
    /// Tokens of each model
    #[arg(short = 'n', long, value_name = "N", default_value_t = TOKENS, value_parser = clap::value_parser!(u16).range(1..=1024))]
    predict: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineFlags,
}

/// What decides what a model says.
struct Asked<'a> {
    engine: &'a EngineFlags,
    fetch: &'a FetchFlags,
    predict: u16,
    update: bool,
}

/// How the model that comes with the program does with these flags, as `--json` says it.
///
/// # Errors
/// [`Interrupted`]; whatever else goes wrong is an outcome.
pub fn of_demo(engine: &EngineFlags) -> anyhow::Result<Value> {
    let fetch = FetchFlags { offline: true, ..FetchFlags::default() };
    let asked = Asked { engine, fetch: &fetch, predict: TOKENS, update: false };
    Ok(of_model(Path::new(demo::NAME), &asked, &References::new(None)?)?.json())
}

/// How a model did.
struct Row {
    model: String,
    outcome: Outcome,
    /// What it said, if it said anything.
    said: Option<Reference>,
    /// Tokens a second.
    rate: f64,
}

impl Row {
    fn line(&self) -> String {
        let (tokens, rate) = (self.said.as_ref().map_or(0, |said| said.tokens.len()), format!("{:.1}", self.rate));
        let line = format!("{:8} {tokens:>4} tokens {rate:>9} tok/s  {}", self.outcome.word(), self.model);
        match self.outcome.note() {
            note if note.is_empty() => line,
            note => format!("{line}: {note}"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "model": self.model,
            "outcome": self.outcome.word(),
            "note": self.outcome.note(),
            "tokens_per_second": self.rate,
            "said": self.said,
        })
    }
}

enum Outcome {
    Same,
    /// There was no reference; now there is one, here.
    Kept(PathBuf),
    Differs(String),
    Failed(String),
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Outcome::Same => "ok",
            Outcome::Kept(_) => "new",
            Outcome::Differs(_) => "DIFFERS",
            Outcome::Failed(_) => "FAILED",
        }
    }

    fn note(&self) -> String {
        match self {
            Outcome::Same => String::new(),
            Outcome::Kept(path) => format!("kept as the reference in {}", path.display()),
            Outcome::Differs(note) | Outcome::Failed(note) => note.clone(),
        }
    }

    fn is_bad(&self) -> bool {
        matches!(self, Outcome::Differs(_) | Outcome::Failed(_))
    }
}

/// Runs all of them.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let mut paths = vec![PathBuf::from(demo::NAME)];
    paths.extend(args.places.iter().filter(|path| *path != Path::new(demo::NAME)).cloned());
    if let Some(folder) = &args.models {
        paths.extend(found::in_folder(folder)?.into_iter().filter(|path| !args.places.contains(path)));
    }
    let references = References::new(args.references.clone())?;
    let asked = Asked { engine: &args.engine, fetch: &args.fetch, predict: args.predict, update: args.update };
    let mut rows = vec![];
    for path in &paths {
        let row = of_model(path, &asked, &references)?;
        if !args.json {
            output::print(&format!("{}\n", plain::line(&row.line(), plain::MESSAGE)))?;
        }
        rows.push(row);
    }
    if args.json {
        let text = serde_json::to_string_pretty(&rows.iter().map(Row::json).collect::<Vec<_>>())?;
        writeln!(Stdout, "{text}")?;
    }
    match rows.iter().filter(|row| row.outcome.is_bad()).count() {
        0 => Ok(()),
        bad => bail!("{bad} of {} models did not say what they should", rows.len()),
    }
}

/// Only Ctrl-C ends the others too.
fn of_model(name: &Path, asked: &Asked<'_>, references: &References) -> anyhow::Result<Row> {
    let model = name.display().to_string();
    terminal::progress(&format!("{model}: loading"));
    let spoken = models::resolve(name, asked.fetch).and_then(|path| {
        let (reference, timing) = speak(&path, asked)?;
        Ok((path, reference, timing))
    });
    terminal::wipe();
    let (path, reference, timing) = match spoken {
        Ok(spoken) => spoken,
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => {
            return Ok(Row { model, outcome: Outcome::Failed(failure::message(&error)), said: None, rate: 0.0 });
        }
    };
    let outcome = references
        .compare(&path, &reference, asked.update)
        .unwrap_or_else(|error| Outcome::Failed(failure::message(&error)));
    Ok(Row { model, outcome, said: Some(reference), rate: timing.step_rate() })
}

/// The likeliest tokens after the prompt.
fn speak(path: &Path, asked: &Asked<'_>) -> anyhow::Result<(Reference, Timing)> {
    let watch = interrupt::watch();
    let file = open::file(path)?;
    let tokenizer = open::tokenizer(&file, path)?;
    let bytes = file.bytes();
    drop(file);
    let prompt = tokenizer.encode(PROMPT, true, false);
    let limit = usize::from(asked.predict);
    let positions = Positions::Needed(prompt.len() + limit);
    let mut opened = open::engine(path, asked.engine, positions, false)?;
    let mut timing = Timing::default();
    let mut tokens = vec![];
    // Past the end of a text too: the same number of tokens every time.
    let sampling = SamplerConfig::greedy();
    let request = Request { prompt: prompt.clone(), sampling, limit: Some(limit), ends: [].into() };
    Generator::new().generate(&mut opened.engine, request, &mut timing, |event| {
        if let Event::Token { sampled, .. } = event {
            tokens.push(sampled.id);
        }
        if watch.is_hit() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    watch.check()?;
    let text = String::from_utf8_lossy(&tokenizer.decode(&tokens, true)).into_owned();
    let numerics = numerics(asked.engine.kernels.numerics);
    Ok((Reference { bytes, numerics, prompt, tokens, text }, timing))
}

fn numerics(numerics: Numerics) -> String {
    numerics.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
