//! `bench --report FILE`: the speeds of a machine, what it is, and whether it computes right, as one file to send.

use crate::arguments::EngineFlags;
use crate::devices_command;
use crate::smoke;
use anyhow::Context;
use device::host::{available, processor};
use device::store::publish;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// What goes to the file.
pub struct Record {
    path: PathBuf,
    object: Value,
    rows: Vec<Value>,
}

impl Record {
    /// Looks at the machine: its devices, and what the model that comes with the program says on the one that is measured.
    ///
    /// # Errors
    /// If it is interrupted, or the file cannot be written; a model that fails is recorded.
    pub fn of_machine(path: &Path, flags: &EngineFlags) -> anyhow::Result<Record> {
        let object = json!({
            "kernloom": env!("CARGO_PKG_VERSION"),
            "commit": option_env!("KERNLOOM_COMMIT").unwrap_or("unknown"),
            "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "processor": processor::name(),
            "memory": available::total_memory(),
            "devices": devices_command::json(&devices::list(None)),
            "demo": smoke::of_demo(flags)?,
        });
        let record = Record { path: path.to_owned(), object, rows: vec![] };
        // Before what takes long.
        record.write()?;
        Ok(record)
    }

    /// A result.
    pub fn add(&mut self, row: Map<String, Value>) {
        self.rows.push(row.into());
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.object["rows"] = std::mem::take(&mut self.rows).into();
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.object)? + "\n";
        publish::file(&self.path, text.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }
}
