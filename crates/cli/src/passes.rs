//! `passes`: names for `--without`.

use std::io::Write;

/// Rules without which some programs cannot be lowered at all.
const NEEDED: [&str; 1] = ["topk"];

/// Names that may be left out.
pub fn names() -> Vec<&'static str> {
    compiler::compile::pass_names().into_iter().filter(|name| !NEEDED.contains(name)).collect()
}

/// Prints one name a line.
pub fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for name in names() {
        writeln!(out, "{name}")?;
    }
    Ok(out.flush()?)
}
