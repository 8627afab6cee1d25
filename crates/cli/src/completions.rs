//! `completions`: scripts that complete commands and flags in a shell.

use crate::output::Stdout;
use clap::CommandFactory;
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
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut crate::arguments::Arguments::command(), "kernloom", &mut script);
    let mut out = Stdout;
    out.write_all(&script)?;
    Ok(out.flush()?)
}
