//! From the name of a model to its file, and what a terminal shows of a download.

use crate::arguments::FetchFlags;
use crate::failure::Usage;
use crate::output::Stdout;
use crate::terminal;
use gguf::plain;
use hub::error::bytes;
use hub::table::{self, Model};
use hub::{Event, Hub, Settings, Watch};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Models by name, as the environment and the flags say.
pub fn hub(flags: &FetchFlags) -> anyhow::Result<Hub> {
    Ok(Hub::new(settings(flags)?, Box::new(Shown::default())))
}

/// What the environment and the flags say of the hub.
pub fn settings(flags: &FetchFlags) -> anyhow::Result<Settings> {
    let mut settings = Settings::from_environment()?;
    settings.offline |= flags.offline;
    Ok(settings)
}

/// The file that a name stands for. A model that is not here is downloaded.
pub fn resolve(name: &Path, flags: &FetchFlags) -> anyhow::Result<PathBuf> {
    match named(name) {
        None if flags.hf_file.is_none() => Ok(name.to_owned()),
        _ => Ok(hub(flags)?.resolve(&with_file(name, flags)?)?),
    }
}

/// The name of a model with the file of its repository that the flags say, if they do.
pub fn with_file(name: &Path, flags: &FetchFlags) -> anyhow::Result<String> {
    let Some(file) = &flags.hf_file else { return Ok(name.display().to_string()) };
    let repository = named(name).filter(|text| text.split('/').count() == 2 && !text.contains(':'));
    let wrong = || Usage(format!("--hf-file goes with a repository, user/repo, and not with '{}'", name.display()));
    Ok(format!("hf://{}/{file}", repository.ok_or_else(wrong)?))
}

/// A name that is no path, and not that of the model that comes with the program.
pub fn named(name: &Path) -> Option<&str> {
    let text = name.to_str()?;
    let is_path = text.is_empty() || text.starts_with(['/', '.', '~']) || name.exists();
    (!is_path && text != demo::NAME).then_some(text)
}

/// The row of the table for a short name of a model that is not in the cache.
pub fn not_here(name: &Path) -> anyhow::Result<Option<Row>> {
    let Some(text) = named(name) else { return Ok(None) };
    let hub = hub(&FetchFlags { offline: true, ..FetchFlags::default() })?;
    if hub.locate(text)?.is_some() {
        return Ok(None);
    }
    match table::find(text) {
        Some(choice) => Ok(Some(Row(choice.model))),
        // Showing a model is no reason to download it.
        None => {
            let (name, cache) = (text.to_owned(), hub.cache().root().to_owned());
            Err(hub::Error::NotHere { name, cache, gets: "`kernloom pull` gets it, and " }.into())
        }
    }
}

/// A row of the table of short names.
pub struct Row(pub &'static Model);

impl Row {
    /// For programs.
    pub fn json(&self) -> Value {
        let file = |file: &table::File| json!({ "quant": file.quant, "repo": file.repo, "file": file.file, "checked": file.checked });
        let Model { name, aliases, architecture, context, default, files } = self.0;
        json!({ "name": name, "aliases": aliases, "architecture": architecture, "context": context,
                "default": default, "files": files.iter().map(file).collect::<Vec<_>>() })
    }

    /// Prints it.
    pub fn print(&self, as_json: bool) -> anyhow::Result<()> {
        let mut out = Stdout;
        if as_json {
            writeln!(out, "{}", serde_json::to_string_pretty(&self.json())?)?;
            return Ok(out.flush()?);
        }
        let model = self.0;
        writeln!(out, "{}: not here; `kernloom pull {0}` downloads {}", model.name, model.default)?;
        writeln!(out, "  also called   {}", model.aliases.join(", "))?;
        writeln!(out, "  architecture  {}, {} positions", model.architecture, model.context)?;
        for file in model.files {
            let mark = if file.checked { "" } else { "  (unchecked)" };
            writeln!(out, "  {:12}  {}/{}{mark}", file.quant, file.repo, file.file)?;
        }
        Ok(out.flush()?)
    }
}

/// A download on stderr: a bar on a terminal, a line at its start and end elsewhere.
#[derive(Default)]
struct Shown {
    bar: RefCell<Option<ProgressBar>>,
}

impl Shown {
    fn say(&self, text: &str) {
        match &*self.bar.borrow() {
            Some(bar) => bar.println(plain::line(text, plain::MESSAGE)),
            None => terminal::line(text),
        }
    }

    fn begin(&self, file: &str, total: Option<u64>) {
        if !terminal::is_watched() {
            return;
        }
        let short = file.rsplit('/').next().unwrap_or(file);
        let template = match total {
            Some(_) => "{msg} {wide_bar} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left",
            None => "{msg} {decimal_bytes}, {decimal_bytes_per_sec}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(total.unwrap_or(0)).with_style(style).with_message(plain::name(short).into_owned());
        *self.bar.borrow_mut() = Some(bar);
    }

    fn at(&self, position: u64) {
        if let Some(bar) = &*self.bar.borrow() {
            let resumed = bar.position() == 0 && position > 0;
            bar.set_position(position);
            if resumed {
                // What was there before says nothing about the speed.
                bar.reset_eta();
            }
        }
    }
}

impl Watch for Shown {
    fn hear(&self, event: &Event) {
        match event {
            Event::Plan { from, files, bytes: size, have, unchecked } => {
                let what = match files {
                    [one] => one.clone(),
                    several => format!("{} and {} more", several[0], several.len() - 1),
                };
                let here = if *have > 0 { format!(", {} of it here already", bytes(*have)) } else { String::new() };
                self.say(&format!("downloading {what} from {from}: {}{here}", bytes(*size)));
                if *unchecked {
                    self.say(
                        "note: this repository is unchecked: the table of short names has it from what others wrote",
                    );
                }
            }
            Event::Waiting(file) => self.say(&format!("waiting for another process that downloads {file}")),
            Event::Begin { file, bytes, .. } => self.begin(file, *bytes),
            Event::At(position) => self.at(*position),
            Event::Retry { reason, pause } => {
                self.say(&format!("{reason}; trying again in {:.1} s", pause.as_secs_f64()));
            }
            Event::Done { file, verified } => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                let checked = if *verified { "its hash is right" } else { "its server promises no hash" };
                self.say(&format!("{file} is here; {checked}"));
            }
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        for path in ["/x.gguf", "./x", "../x", "~/x", "src", "Cargo.toml", "", demo::NAME] {
            assert_eq!(named(Path::new(path)), None, "{path}");
        }
        for name in ["glm-4.7:flash-Q4_0", "user/repo:Q4_0", "https://x.org/m.gguf", "x.gguf"] {
            assert_eq!(named(Path::new(name)), Some(name));
        }
    }
}
