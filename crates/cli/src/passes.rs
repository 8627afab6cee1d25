//! `passes`: names for `--without`.

use crate::output::Stdout;
use std::io::Write;

/// Prints one a line: the name, and what is done only if it is not left out; then those that stand for several.
pub fn run() -> anyhow::Result<()> {
    let mut out = Stdout;
    for switch in compiler::switches() {
        writeln!(out, "{:<10} {}", switch.name, switch.what)?;
    }
    for (name, of) in compiler::groups() {
        writeln!(out, "{name:<10} all of: {}", of.join(", "))?;
    }
    Ok(out.flush()?)
}
