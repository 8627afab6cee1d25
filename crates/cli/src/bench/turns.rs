//! Two settings that take turns in one run, so that a machine that gets slower slows both: `bench --ab`.

use super::report::{Format, name};
use super::{Arguments, Test, ready};
use crate::arguments::{EngineFlags, KernelFlags};
use crate::failure::Usage;
use crate::interrupt::Watch;
use crate::open::Opened;
use crate::output::Stdout;
use crate::{interrupt, models, peaks, spelling, terminal};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser};
use model::median::median;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// What a setting may change.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Setting {
    #[arg(short, long)]
    model: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineFlags,
}

/// The model that the text of an option names, if it names one, and flags with those of the text in their place.
///
/// # Errors
/// A text that is not made of flags of an engine.
pub fn changed(flags: &EngineFlags, option: &str, text: &str) -> Result<(Option<PathBuf>, EngineFlags), Usage> {
    let words = spelling::expanded(text.split_whitespace().map(OsString::from));
    let wrong = |error: clap::Error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Usage(format!("{option} '{text}': {first}"))
    };
    let matches = Setting::command().try_get_matches_from(words).map_err(wrong)?;
    let Setting { model, engine: new } = Setting::from_arg_matches(&matches).map_err(wrong)?;
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let cache = if given("cache_type_k") || given("cache_type_v") { &new.kernels } else { &flags.kernels };
    let (cache_type_k, cache_type_v) = (cache.cache_type_k, cache.cache_type_v);
    let kernels = KernelFlags {
        numerics: if given("numerics") { new.kernels.numerics } else { flags.kernels.numerics },
        cache_type_k,
        cache_type_v,
        least_tokens: flags.kernels.least_tokens,
        ubatch_size: if given("ubatch_size") { new.kernels.ubatch_size } else { flags.kernels.ubatch_size },
        without: if given("without") { new.kernels.without } else { flags.kernels.without.clone() },
        fuse: if given("fuse") { new.kernels.fuse } else { flags.kernels.fuse },
        cc: if given("cc") { new.kernels.cc } else { flags.kernels.cc.clone() },
        trusted_folders: match given("trusted_folders") {
            true => new.kernels.trusted_folders,
            false => flags.kernels.trusted_folders.clone(),
        },
        cc_timeout: if given("cc_timeout") { new.kernels.cc_timeout } else { flags.kernels.cc_timeout },
    };
    let engine = EngineFlags {
        threads: if given("threads") { new.threads } else { flags.threads },
        threads_batch: if given("threads_batch") { new.threads_batch } else { flags.threads_batch },
        kernels,
        device: if given("device") { new.device } else { flags.device },
        nvrtc: if given("nvrtc") { new.nvrtc } else { flags.nvrtc.clone() },
        sending: if given("sending") { new.sending } else { flags.sending },
        ahead: if given("ahead") { new.ahead } else { flags.ahead },
        swa_full: if given("swa_full") { new.swa_full } else { flags.swa_full },
        debug: if given("debug") { new.debug } else { flags.debug },
        kernel_cache: if given("kernel_cache") { new.kernel_cache } else { flags.kernel_cache.clone() },
        kernel_pack: if given("kernel_pack") { new.kernel_pack } else { flags.kernel_pack.clone() },
        isa: if given("isa") { new.isa } else { flags.isa.clone() },
    };
    Ok((model, engine))
}

/// Tokens a second of two settings, round by round.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

/// How much faster the second setting is; a ratio is taken of two runs side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Turns {
    fn ratios(&self) -> Vec<f64> {
        self.a.iter().zip(&self.b).map(|(a, b)| b / a).collect()
    }

    /// The ratio and its spread.
    pub fn ratio(&self) -> Ratio {
        let mut ratios = self.ratios();
        let median = median(&mut ratios);
        Ratio { median, least: ratios.first().copied().unwrap_or(0.0), most: ratios.last().copied().unwrap_or(0.0) }
    }

    /// As JSON, under the name of its test.
    pub fn json(&self, test: Test) -> Value {
        let Ratio { median: ratio, least, most } = self.ratio();
        json!({
            "test": name(test),
            "n_prompt": test.prompt,
            "n_gen": test.generated,
            "n_depth": test.depth,
            "a_ts": self.a,
            "b_ts": self.b,
            "ratio": ratio,
            "least": least,
            "most": most,
        })
    }
}

/// Runs a test A, B, A, B and so on, after both have filled their caches and, if wanted, warmed up.
pub fn take([a, b]: [&mut Opened; 2], test: Test, rounds: u32, warm: bool, watch: &Watch) -> anyhow::Result<Turns> {
    terminal::progress(&format!("{}: warming up", name(test)));
    let mut a = super::Running::new(a, test, watch, super::Fill::Computed, warm)?;
    let mut b = super::Running::new(b, test, watch, super::Fill::Computed, warm)?;
    let mut turns = Turns::default();
    let speed = |ns: u64| test.tokens() as f64 * 1e9 / ns.max(1) as f64;
    for round in 1..=rounds {
        terminal::progress(&format!("{}: round {round} of {rounds}", name(test)));
        turns.a.push(speed(a.repetition()?));
        turns.b.push(speed(b.repetition()?));
    }
    terminal::wipe();
    Ok(turns)
}

/// Measures the flags of the command line and those of `--ab` by turns.
pub fn run(args: &Arguments, setting: &str, tests: &[Test]) -> anyhow::Result<()> {
    let (model, flags) = changed(&args.engine, "--ab", setting)?;
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let other = model.map(|model| models::resolve(&model, &args.model.fetch)).transpose()?;
    let mut a = ready(&path, &args.engine, tests, true)?;
    let mut b = ready(other.as_ref().unwrap_or(&path), &flags, tests, true)?;
    let _lock = peaks::lock(&args.measure)?;
    let watch = interrupt::watch();
    let rounds = args.rounds.unwrap_or(args.repetitions);
    let mut table = Table { format: args.output, rows: vec![] };
    for &test in tests {
        let turns = take([&mut a, &mut b], test, rounds, !args.no_warmup, &watch)?;
        table.add(test, &turns)?;
    }
    table.finish(setting)
}

/// Writes rows as they come; JSON at the end.
struct Table {
    format: Format,
    rows: Vec<Value>,
}

impl Table {
    fn add(&mut self, test: Test, turns: &Turns) -> anyhow::Result<()> {
        let mut out = Stdout;
        if self.format == Format::Md {
            if self.rows.is_empty() {
                writeln!(out, "| test             |    A t/s |    B t/s |   B/A | least..most   |")?;
                writeln!(out, "|------------------|---------:|---------:|------:|---------------|")?;
            }
            let Ratio { median: ratio, least, most } = turns.ratio();
            let (a, b) = (median(&mut turns.a.clone()), median(&mut turns.b.clone()));
            let spread = format!("{least:.3}..{most:.3}");
            writeln!(out, "| {:<16} | {a:>8.2} | {b:>8.2} | {ratio:>5.3} | {spread:<13} |", name(test))?;
        }
        self.rows.push(turns.json(test));
        Ok(out.flush()?)
    }

    fn finish(self, setting: &str) -> anyhow::Result<()> {
        let mut out = Stdout;
        match self.format {
            Format::Md => writeln!(out, "\nB is A with {setting}; medians of {} rounds", self.rounds())?,
            Format::Json => {
                let whole = json!({ "b": setting, "rounds": self.rounds(), "tests": self.rows });
                writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
            }
            _ => {
                for row in &self.rows {
                    writeln!(out, "{}", serde_json::to_string(row)?)?;
                }
            }
        }
        Ok(out.flush()?)
    }

    fn rounds(&self) -> usize {
        self.rows.first().and_then(|row| row["a_ts"].as_array()).map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Numerics, OnOff};

    fn flags(text: &str) -> EngineFlags {
        Setting::parse_from(text.split_whitespace()).engine
    }

    #[test]
    fn a_setting_changes_what_it_names() {
        let a = flags("-t 2 --without merge");
        let changed = |flags: &EngineFlags, text: &str| changed(flags, "--ab", text).map(|(_, flags)| flags);
        let b = changed(&a, "--numerics exact -ctk f32").expect("flags");
        assert_eq!((b.threads, b.kernels.numerics, b.kernels.without.len()), (Some(2), Numerics::Exact, 1));
        assert!(b.kernels.cache_type_k.is_some() && a.kernels.cache_type_k.is_none());
        assert_eq!(changed(&a, "--without fold,dot").expect("flags").kernels.without, ["fold", "dot"]);
        assert_eq!((a.kernels.fuse, changed(&a, "--fuse off").expect("flags").kernels.fuse), (OnOff::On, OnOff::Off));
        let c = changed(&b, "-ctv q8_0").expect("flags");
        assert!(c.kernels.cache_type_k.is_none() && c.kernels.cache_type_v.is_some());
        let wrong = changed(&a, "--nonsense").expect_err("no flag").to_string();
        assert!(wrong.contains("--ab '--nonsense'") && !wrong.contains('\n'), "{wrong}");
    }

    #[test]
    fn a_setting_may_name_another_model() {
        let a = flags("-t 2");
        let (model, b) = changed(&a, "--ab", "-m other.gguf --without merge").expect("flags");
        assert_eq!((model, b.threads, b.kernels.without.len()), (Some("other.gguf".into()), Some(2), 1));
        assert_eq!(changed(&a, "--ab", "").expect("flags").0, None);
    }

    #[test]
    fn ratios_are_of_neighbours() {
        let turns = Turns { a: vec![10.0, 5.0, 10.0], b: vec![20.0, 10.0, 30.0] };
        assert_eq!(turns.ratio(), Ratio { median: 2.0, least: 2.0, most: 3.0 });
    }
}
