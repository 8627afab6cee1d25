//! What the machine can read at most: measured once and kept, or measured afresh under the machine-wide lock.

use crate::arguments::MeasureFlags;
use crate::terminal;
use anyhow::bail;
use device::cpu::bandwidth::{self, Peaks, READ_BYTES};
use device::host::processor;
use device::store::publish;
use device::{CacheConfig, Cpu, MachineLock};
use devices::Machine;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Takes the lock of measurements; says for whom it waits.
pub fn lock(flags: &MeasureFlags) -> anyhow::Result<MachineLock> {
    let path = flags.lock.clone().unwrap_or_else(MachineLock::default_path);
    let lock = MachineLock::acquire(&path, |holder| {
        terminal::line(&format!("waiting for {holder}, which is measuring on this machine"));
    })?;
    Ok(lock)
}

/// Bytes a second that this device reads: given, or measured now and kept.
pub fn measured(machine: &Machine, flags: &MeasureFlags) -> anyhow::Result<f64> {
    if let Some(given) = flags.bandwidth {
        return Ok(given * 1e9);
    }
    match machine {
        Machine::Cpu(cpu) => Ok(all(cpu)?.read),
        Machine::Cuda(cuda) => {
            let read = cuda.read_bandwidth()?;
            keep(&key(machine), read);
            Ok(read)
        }
        Machine::Interpreter(_) => bail!("the speed of the interpreter says nothing; use --device cpu"),
    }
}

/// Everything that this device can do at most, measured now; the bandwidth is kept.
pub fn all(cpu: &Arc<Cpu>) -> anyhow::Result<Peaks> {
    terminal::progress("measuring the machine");
    let room = device::available_memory().map_or(READ_BYTES, |bytes| (bytes / 4) as usize);
    let peaks = bandwidth::measure(cpu, READ_BYTES.min(room).max(64 << 20))?;
    terminal::wipe();
    keep(&key(&Machine::Cpu(cpu.clone())), peaks.read);
    Ok(peaks)
}

/// Bytes a second that this device read when it was last measured; measures if it never was.
pub fn known(machine: &Machine) -> anyhow::Result<f64> {
    let kept = path().and_then(|path| read(&path)).and_then(|all| all.get(key(machine))?.as_f64());
    match kept {
        Some(read) if read > 0.0 => Ok(read),
        _ => measured(machine, &MeasureFlags { bandwidth: None, lock: None }),
    }
}

fn path() -> Option<PathBuf> {
    Some(CacheConfig::from_environment().folder?.join("bandwidth.json"))
}

fn read(path: &PathBuf) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn key(machine: &Machine) -> String {
    match machine {
        Machine::Cuda(cuda) => cuda.card().name.clone(),
        other => format!("{}, {} threads", processor::name(), other.workers(false)),
    }
}

/// Keeping it is a courtesy to the next run: a folder that cannot be written is none of its business.
fn keep(key: &str, bytes_per_second: f64) {
    let Some(path) = path() else { return };
    let mut all = read(&path).filter(Value::is_object).unwrap_or_else(|| json!({}));
    all[key] = json!(bytes_per_second);
    let text = serde_json::to_string_pretty(&all).unwrap_or_default();
    let _ = publish::file(&path, text.as_bytes());
}
