//! The results of `bench` in the forms of llama-bench: its columns, its keys, and some of our own behind them.

use super::Test;
use crate::arguments::{EngineFlags, Numerics};
use crate::open::{self, Opened};
use crate::output::Stdout;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A Markdown table
    Md,
    /// One JSON array
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values
    Csv,
}

/// A test and what came out.
pub struct Row {
    test: Test,
    times: Vec<u64>,
    test_time: String,
    /// Kernels of a decoding step.
    kernels: usize,
    stages: usize,
    /// Bytes that decoding a token reads at this depth, the cache included.
    bytes: f64,
    /// Bytes that the machine read a second beside a test that decodes.
    bandwidth: Option<f64>,
}

impl Row {
    /// A row for the repetitions' times in nanoseconds, and the bandwidths beside them.
    pub fn new(opened: &Opened, test: Test, times: Vec<u64>, reads: &[f64]) -> Row {
        let program =
            opened.engine.program(super::decoding(&opened.engine, test.decoded()[0])).map(|(program, _)| program);
        let positions = test.depth as f64 + test.prompt as f64 + test.generated as f64 / 2.0;
        Row {
            test,
            times,
            test_time: now(),
            kernels: program.map_or(0, |p| p.launches()),
            stages: program.map_or(0, |p| p.stages.len()),
            bytes: opened.step_bytes() as f64 + opened.cache_bytes(positions),
            bandwidth: (!reads.is_empty()).then(|| mean(reads).0),
        }
    }

    /// Tokens a second of every repetition.
    fn speeds(&self) -> Vec<f64> {
        let tokens = (self.test.prompt + self.test.generated) as f64;
        self.times.iter().map(|&ns| tokens * 1e9 / ns.max(1) as f64).collect()
    }

    /// Tokens a second that the bandwidth allows.
    fn limit(&self) -> Option<f64> {
        Some(self.bandwidth? / self.bytes.max(1.0))
    }
}

/// `pp512`, `tg128 @ d4096`.
pub fn name(test: Test) -> String {
    let part = |kind: &str, n: usize| if n > 0 { format!("{kind}{n}") } else { String::new() };
    let both = if test.prompt > 0 && test.generated > 0 { "+" } else { "" };
    let depth = if test.depth > 0 { format!(" @ d{}", test.depth) } else { String::new() };
    format!("{}{both}{}{depth}", part("pp", test.prompt), part("tg", test.generated))
}

/// Writes rows as they come.
pub struct Report {
    format: Format,
    /// What all rows have in common.
    fixed: Map<String, Value>,
    description: String,
    rows: usize,
}

impl Report {
    /// Begins a report on stdout.
    pub fn new(format: Format, path: &Path, opened: &Opened, flags: &EngineFlags) -> anyhow::Result<Report> {
        let file = opened.engine.file();
        let description = open::description(file);
        let cache = opened.engine.cache().to_string();
        let size: u64 = file.tensors().iter().map(|t| t.bytes).sum();
        let fixed = json!({
            "build_commit": option_env!("KERNLOOM_COMMIT").unwrap_or("unknown"),
            "build_number": 0,
            "cpu_info": device::host::processor::name(),
            "gpu_info": opened.machine.card().unwrap_or_default(),
            "backends": opened.machine.backend(),
            "model_filename": path.display().to_string(),
            "model_type": description,
            "model_size": size,
            "model_n_params": open::parameters(file),
            "n_batch": opened.engine.chunk(),
            "n_ubatch": opened.engine.chunk(),
            "n_threads": opened.workers(false),
            "n_threads_batch": opened.workers(true),
            "type_k": cache,
            "type_v": cache,
            "n_gpu_layers": 0,
            "engine": format!("kernloom {}", env!("CARGO_PKG_VERSION")),
            "numerics": match flags.kernels.numerics { Numerics::Exact => "exact", Numerics::Int8 => "int8" },
            "device": opened.engine.device().name(),
        });
        let fixed = fixed.as_object().cloned().unwrap_or_default();
        Ok(Report { format, fixed, description, rows: 0 })
    }

    /// Writes a row.
    pub fn add(&mut self, row: &Row) -> anyhow::Result<()> {
        let object = self.object(row);
        let mut out = Stdout;
        match self.format {
            Format::Md => {
                if self.rows == 0 {
                    writeln!(out, "{}", self.heading())?;
                }
                writeln!(out, "{}", self.line(row))?;
            }
            Format::Json => {
                let text = serde_json::to_string_pretty(&object)?.replace('\n', "\n  ");
                write!(out, "{}\n  {text}", if self.rows == 0 { "[" } else { "," })?;
            }
            Format::Jsonl => writeln!(out, "{}", serde_json::to_string(&object)?)?,
            Format::Csv => {
                let flat = |(_, value): &(&String, &Value)| !value.is_array();
                if self.rows == 0 {
                    let names: Vec<&str> = object.iter().filter(flat).map(|(name, _)| name.as_str()).collect();
                    writeln!(out, "{}", names.join(","))?;
                }
                let values: Vec<String> = object.iter().filter(flat).map(|(_, value)| quoted(value)).collect();
                writeln!(out, "{}", values.join(","))?;
            }
        }
        self.rows += 1;
        Ok(out.flush()?)
    }

    /// Ends the report.
    pub fn finish(self) -> anyhow::Result<()> {
        let mut out = Stdout;
        if self.format == Format::Json {
            writeln!(out, "{}", if self.rows == 0 { "[]" } else { "\n]" })?;
        }
        Ok(out.flush()?)
    }

    /// A row by the keys of llama-bench.
    pub fn object(&self, row: &Row) -> Map<String, Value> {
        let speeds = row.speeds();
        let nanoseconds: Vec<f64> = row.times.iter().map(|&ns| ns as f64).collect();
        let (avg_ns, stddev_ns) = mean(&nanoseconds);
        let (avg_ts, stddev_ts) = mean(&speeds);
        let limit = row.limit();
        let mut object = self.fixed.clone();
        let mut set = |key: &str, value: Value| object.insert(key.into(), value);
        set("n_prompt", json!(row.test.prompt));
        set("n_gen", json!(row.test.generated));
        set("n_depth", json!(row.test.depth));
        set("test_time", json!(row.test_time));
        set("avg_ns", json!(avg_ns.round() as u64));
        set("stddev_ns", json!(stddev_ns.round() as u64));
        set("avg_ts", json!(avg_ts));
        set("stddev_ts", json!(stddev_ts));
        set("samples_ns", json!(row.times));
        set("samples_ts", json!(speeds));
        set("kernels", json!(row.kernels));
        set("stages", json!(row.stages));
        set("bytes_per_token", json!(row.bytes.round() as u64));
        set("bandwidth", json!(row.bandwidth));
        set("limit_ts", json!(limit));
        set("share", json!(limit.map(|limit| avg_ts / limit)));
        object
    }

    fn heading(&self) -> String {
        let names = ["model", "size", "params", "backend", "threads", "test", "t/s"];
        let ours = ["kernels", "stages", "MB/token", "limit t/s", "share"];
        let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let cells = |left: usize, text: &str, at: usize| {
            let width = WIDTHS[at];
            if at < left { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        let all: Vec<&str> = names.into_iter().chain(ours).collect();
        let head = row(all.iter().enumerate().map(|(at, text)| cells(1, text, at)).collect());
        let rules = WIDTHS
            .iter()
            .enumerate()
            .map(|(at, &w)| if at == 0 { "-".repeat(w) } else { format!("{}:", "-".repeat(w - 1)) });
        format!("{head}\n{}", row(rules.collect()))
    }

    fn line(&self, row: &Row) -> String {
        let (avg, stddev) = mean(&row.speeds());
        let limit = row.limit();
        let number = |key: &str| self.fixed[key].as_u64().unwrap_or(0);
        let threads = match (number("n_threads"), number("n_threads_batch")) {
            (few, many) if few == many => few.to_string(),
            (few, many) => format!("{few}/{many}"),
        };
        let of_decoding = |text: String| if row.test.decodes() { text } else { "-".into() };
        let of_limit = |text: &dyn Fn(f64) -> String| limit.map_or_else(|| "-".into(), text);
        let cells = [
            self.description.clone(),
            open::bytes(number("model_size")),
            format!("{:.2} {}", scaled(number("model_n_params")).0, scaled(number("model_n_params")).1),
            self.fixed["backends"].as_str().unwrap_or_default().into(),
            threads,
            name(row.test),
            format!("{avg:.2} ± {stddev:.2}"),
            of_decoding(row.kernels.to_string()),
            of_decoding(row.stages.to_string()),
            of_decoding(format!("{:.1}", row.bytes / 1e6)),
            of_limit(&|limit| format!("{limit:.2}")),
            of_limit(&|limit| format!("{:.0}%", avg / limit * 100.0)),
        ];
        let cells: Vec<String> = cells
            .iter()
            .zip(WIDTHS)
            .enumerate()
            .map(|(at, (text, w))| if at == 0 { format!("{text:<w$}") } else { format!("{text:>w$}") })
            .collect();
        format!("| {} |", cells.join(" | "))
    }
}

/// Widths of the columns.
const WIDTHS: [usize; 12] = [30, 10, 10, 10, 7, 16, 20, 7, 6, 9, 9, 5];

fn scaled(n: u64) -> (f64, &'static str) {
    if n >= 1_000_000_000 { (n as f64 / 1e9, "B") } else { (n as f64 / 1e6, "M") }
}

/// The mean and the standard deviation of a sample.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
}

/// A value as a field of CSV.
fn quoted(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The time as `2026-11-20T13:05:09Z`.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    utc(seconds)
}

/// Seconds since 1970 as a date and time; the civil calendar by Hinnant's method.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days since 1 March of the year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_called_what_llama_bench_calls_them() {
        let test = |prompt, generated, depth| name(Test { prompt, generated, depth });
        assert_eq!(test(512, 0, 0), "pp512");
        assert_eq!(test(0, 128, 4096), "tg128 @ d4096");
        assert_eq!(test(512, 128, 0), "pp512+tg128");
    }

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_179_909), "2026-11-20T13:05:09Z");
    }

    #[test]
    fn statistics() {
        assert_eq!(mean(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
        assert_eq!(mean(&[5.0]), (5.0, 0.0));
        assert_eq!(quoted(&json!("a\"b")), "\"a\"\"b\"");
    }
}
