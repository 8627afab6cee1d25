//! `man`: manual pages of the program and of each command.

use crate::output::Stdout;
use anyhow::Context;
use clap::Command;
use std::io::Write;
use std::path::PathBuf;

/// Where to.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Folder for a page a command [default: the page of the program to stdout]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Writes them.
pub fn run(args: &Arguments, program: Command) -> anyhow::Result<()> {
    let Some(folder) = &args.out else {
        let mut page = vec![];
        clap_mangen::Man::new(program).render(&mut page)?;
        let mut out = Stdout;
        out.write_all(&page)?;
        return Ok(out.flush()?);
    };
    let cannot = || format!("cannot write manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(program, folder).with_context(cannot)
}
