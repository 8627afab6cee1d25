//! `pull`: downloads models, or looks whether there is a newer version of those that are here.

use crate::arguments::FetchFlags;
use crate::failure::Usage;
use crate::models;
use crate::output::Stdout;
use crate::terminal;
use hub::error::bytes;
use std::io::Write;
use std::path::Path;

/// What to download.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Short names, user/repo[:QUANT] or addresses of .gguf files; `kernloom ls --all` lists the short names
    #[arg(value_name = "MODEL", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    fetch: FetchFlags,
}

/// Downloads, and prints where the files are.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    if args.names.iter().any(|name| name == demo::NAME) {
        return Err(Usage(format!("{} comes with the program; there is nothing to download", demo::NAME)).into());
    }
    if let Some(path) = args.names.iter().find(|name| models::named(Path::new(name)).is_none()) {
        return Err(Usage(format!("'{path}' is a path; give a short name, user/repo[:QUANT] or an address")).into());
    }
    let hub = models::hub(&args.fetch)?;
    for name in &args.names {
        let pulled = hub.pull(&models::with_file(Path::new(name), &args.fetch)?)?;
        if pulled.downloaded == 0 {
            let state = match hub.settings().offline {
                true => "not looked for a newer version".to_owned(),
                false => format!("the newest version, {}", bytes(pulled.bytes)),
            };
            terminal::line(&format!("{name} is here: {state}"));
        }
        let mut out = Stdout;
        writeln!(out, "{}", pulled.path.display())?;
        out.flush()?;
    }
    Ok(())
}
