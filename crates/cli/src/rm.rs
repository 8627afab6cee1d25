//! `rm`: removes models from the cache.

use crate::arguments::FetchFlags;
use crate::failure::Usage;
use crate::models;
use crate::terminal;
use anyhow::Context;
use hub::error::bytes;
use hub::remove::Removal;
use hub::{Entry, Hub};
use std::io::IsTerminal;

/// What to remove.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Names as `kernloom ls` shows them: user/repo for all of it, user/repo:QUANT, or a short name
    #[arg(value_name = "MODEL", required = true)]
    names: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Removes.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let hub = models::hub(&FetchFlags { offline: true, ..FetchFlags::default() })?;
    // All names are understood before anything is removed.
    let mut found = vec![];
    for name in &args.names {
        found.push((name, entries(&hub, name)?));
    }
    for (name, (repo, entries, whole)) in found {
        let removal = Removal::plan(hub.cache(), &repo, &entries, whole);
        if removal.is_empty() {
            continue;
        }
        let what: Vec<String> = entries.iter().map(Entry::name).collect();
        let what = if what.is_empty() { format!("what was downloaded of {repo}") } else { what.join(", ") };
        if !args.yes && !agreed(&format!("remove {what} ({})?", bytes(removal.bytes)))? {
            terminal::line(&format!("{name} stays"));
            continue;
        }
        removal.carry_out()?;
        terminal::line(&format!("removed {what}; {} are free now", bytes(removal.bytes)));
    }
    Ok(())
}

/// The repository and its models that a name means, and whether it means all of it.
fn entries(hub: &Hub, name: &str) -> anyhow::Result<(String, Vec<Entry>, bool)> {
    let whole = hub.entries().into_iter().filter(|entry| entry.repo.eq_ignore_ascii_case(name)).collect::<Vec<_>>();
    let partial = hub.partials().into_iter().find(|partial| partial.repo.eq_ignore_ascii_case(name));
    if let Some(repo) = whole.first().map(|entry| entry.repo.clone()).or(partial.map(|partial| partial.repo)) {
        return Ok((repo, whole, true));
    }
    let mut named = hub.cache().named(name);
    if named.is_empty() {
        let path = hub.locate(name)?;
        named = hub.entries().into_iter().filter(|entry| path.as_ref() == Some(&entry.path)).collect();
    }
    match &*named {
        [] => Err(hub::Error::NotHere { name: name.to_owned(), cache: hub.cache().root().to_owned(), gets: "" }.into()),
        [entry] => Ok((entry.repo.clone(), named, false)),
        several => {
            let models = several.iter().map(Entry::name).collect();
            Err(hub::Error::Ambiguous { text: name.to_owned(), models }.into())
        }
    }
}

/// Asks on a terminal.
fn agreed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Usage(format!("{question} There is no terminal to ask on; give -y")).into());
    }
    terminal::ask(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read stdin")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
