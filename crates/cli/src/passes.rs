//! `passes`: names for `--without`.

use std::io::Write;

/// Prints one name a line.
pub fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for name in compiler::compile::pass_names() {
        writeln!(out, "{name}")?;
    }
    Ok(out.flush()?)
}
