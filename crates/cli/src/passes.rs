//! `passes`: names for `--without`.

use compiler::compile::pass_names;
use std::io::Write;

/// Prints one name a line.
pub fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for name in pass_names() {
        writeln!(out, "{name}")?;
    }
    Ok(out.flush()?)
}
