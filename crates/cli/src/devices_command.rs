//! `devices`: what can run models on this machine.

use crate::arguments::NvrtcFlag;
use crate::output::Stdout;
use devices::Listed;
use gguf::plain::{self, MESSAGE};
use serde_json::{Value, json};
use std::io::Write;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cards: NvrtcFlag,
}

/// Prints a line for each, and what to do where one cannot be used.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let all = devices::list(args.cards.nvrtc.clone());
    let mut out = Stdout;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&json(&all))?)?;
        return Ok(out.flush()?);
    }
    for Listed { name, text, problem } in &all {
        writeln!(out, "{name:<8} {}", plain::line(text, MESSAGE))?;
        if let Some(problem) = problem {
            writeln!(out, "{:<8} not usable: {}", "", plain::line(&problem.to_string(), MESSAGE))?;
        }
    }
    Ok(out.flush()?)
}

/// The same as JSON.
pub fn json(all: &[Listed]) -> Value {
    let row =
        |d: &Listed| json!({ "name": d.name, "text": d.text, "problem": d.problem.as_ref().map(ToString::to_string) });
    all.iter().map(row).collect()
}
