//! `ls`: the models that are here, and with `--all` those that have short names.

use crate::arguments::FetchFlags;
use crate::models::{self, Row};
use crate::output::{self, Stdout};
use crate::terminal;
use gguf::plain::name;
use hub::error::bytes;
use hub::table::MODELS;
use hub::{Entry, Hub};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// What to list.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// And the models that have short names
    #[arg(short, long)]
    all: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Lists.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let hub = models::hub(&FetchFlags { offline: true, ..FetchFlags::default() })?;
    if !args.json {
        output::print(&in_text(&hub, args.all))?;
        remarks(&hub);
        return Ok(());
    }
    let mut out = Stdout;
    writeln!(out, "{}", serde_json::to_string_pretty(&in_json(&hub, args.all))?)?;
    Ok(out.flush()?)
}

fn in_json(hub: &Hub, all: bool) -> Value {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let entry = |entry: &Entry| {
        json!({ "name": entry.name(), "repo": entry.repo, "quant": entry.quant, "bytes": entry.bytes,
                "used": entry.used.map(seconds), "files": entry.files, "path": entry.path.display().to_string() })
    };
    let partial = |partial: &hub::Partial| json!({ "repo": partial.repo, "bytes": partial.bytes });
    let mut value = json!({
        "cache": hub.cache().root().display().to_string(),
        "models": hub.entries().iter().map(entry).collect::<Vec<_>>(),
        "unfinished": hub.partials().iter().map(partial).collect::<Vec<_>>(),
    });
    if all {
        value["known"] = MODELS.iter().map(|model| Row(model).json()).collect();
    }
    value
}

fn in_text(hub: &Hub, all: bool) -> String {
    let mut rows = vec![["NAME", "QUANT", "SIZE", "USED", "FILE"].map(str::to_owned)];
    let used =
        |entry: &Entry| entry.used.and_then(|time| time.elapsed().ok()).map_or("?".into(), |ago| since(ago.as_secs()));
    let row = |entry: Entry| {
        let file = entry.files[0].rsplit('/').next().unwrap_or_default().to_owned();
        [entry.repo.clone(), entry.quant.clone(), bytes(entry.bytes), used(&entry), file].map(|cell| name(&cell).into())
    };
    rows.extend(hub.entries().into_iter().map(row));
    let mut text = if rows.len() > 1 { table(&rows) } else { String::new() };
    if all {
        let mut rows = vec![["SHORT NAME", "ALSO", "QUANTS", "REPOSITORY", ""].map(str::to_owned)];
        rows.extend(MODELS.iter().map(|model| {
            let mut quants: Vec<&str> = vec![];
            for file in model.files {
                if !quants.contains(&file.quant) {
                    quants.push(file.quant);
                }
            }
            let file = model.default_file();
            let mark = if model.files.iter().all(|file| file.checked) { "" } else { "unchecked" };
            let repo = file.map_or("", |file| file.repo);
            [model.name, model.aliases.first().unwrap_or(&""), &quants.join(" "), repo, mark].map(str::to_owned)
        }));
        if !text.is_empty() {
            text.push('\n');
        }
        text += &table(&rows);
    }
    text
}

/// What is said beside the list.
fn remarks(hub: &Hub) {
    let root = hub.cache().root().display();
    let entries = hub.entries();
    match entries.iter().map(|entry| entry.bytes).sum() {
        0 if entries.is_empty() => terminal::line(&format!("no models in {root}; `kernloom pull NAME` downloads one")),
        sum => terminal::line(&format!("{} in {root}", bytes(sum))),
    }
    for partial in hub.partials() {
        let size = bytes(partial.bytes);
        terminal::line(&format!(
            "unfinished: {size} of {0}; `pull` resumes it, `kernloom rm {0}` removes it",
            partial.repo
        ));
    }
}

/// A time that has passed.
fn since(seconds: u64) -> String {
    let units = [(86_400 * 7, "weeks"), (86_400, "days"), (3600, "hours"), (60, "minutes")];
    match units.iter().find(|(unit, _)| seconds >= unit * 2) {
        Some((unit, name)) => format!("{} {name} ago", seconds / unit),
        None => "just now".into(),
    }
}

/// Columns side by side.
fn table(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let line = |row: &[String; 5]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let all = [0, 119, 120, 7200, 172_800, 86_400 * 30].map(since);
        assert_eq!(all, ["just now", "just now", "2 minutes ago", "2 hours ago", "2 days ago", "4 weeks ago"]);
    }
}
