//! `man`: manual pages of the program and of each command.

use crate::output::Stdout;
use anyhow::Context;
use clap::CommandFactory;
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
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let command = crate::arguments::Arguments::command();
    let Some(folder) = &args.out else {
        let mut page = vec![];
        clap_mangen::Man::new(command).render(&mut page)?;
        let mut out = Stdout;
        out.write_all(&page)?;
        return Ok(out.flush()?);
    };
    let cannot = || format!("cannot write manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(command, folder).with_context(cannot)
}
