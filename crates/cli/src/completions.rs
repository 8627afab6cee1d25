//! `completions`: scripts that complete commands and flags in a shell.

use crate::output::Stdout;
use clap::Command;
use clap_complete::Shell;
use std::io::Write;

/// Which shell.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Arguments, mut program: Command) -> anyhow::Result<()> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut program, "kernloom", &mut script);
    let mut out = Stdout;
    out.write_all(&script)?;
    Ok(out.flush()?)
}
