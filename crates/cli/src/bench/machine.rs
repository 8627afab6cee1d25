//! `bench --machine`: what the machine can do at most, by kernels that do nothing else.

use super::Arguments;
use super::report::Format;
use crate::output::Stdout;
use crate::{open, peaks};
use serde_json::json;
use std::io::Write;

/// Measures and prints the peaks.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let cpu = open::cpu(&args.engine, false)?;
    let _lock = peaks::lock(&args.measure)?;
    let peaks = peaks::all(&cpu)?;
    let mut out = Stdout;
    let target = cpu.target().to_string();
    let giga = |value: f64| value / 1e9;
    let rows = [
        ("read from memory", "read_gb_per_s", Some(giga(peaks.read)), "GB/s"),
        ("8-bit integer dots", "int8_gmac_per_s", Some(giga(peaks.integer_dot)), "G multiply-adds/s"),
        ("f32", "f32_gmac_per_s", Some(giga(peaks.f32)), "G multiply-adds/s"),
        ("bf16 in the matrix unit", "bf16_tile_gmac_per_s", peaks.tiles.map(giga), "G multiply-adds/s"),
    ];
    match args.output {
        Format::Md => {
            writeln!(out, "{}, {} threads, {target}", device::host::processor::name(), peaks.workers)?;
            for (what, _, value, unit) in rows {
                let value = value.map_or("none".into(), |value| format!("{value:.1} {unit}"));
                writeln!(out, "{what:<24} {value}")?;
            }
        }
        _ => {
            let mut object =
                json!({ "cpu_info": device::host::processor::name(), "n_threads": peaks.workers, "target": target });
            rows.iter().for_each(|(_, key, value, _)| object[*key] = json!(value));
            writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
        }
    }
    Ok(out.flush()?)
}
