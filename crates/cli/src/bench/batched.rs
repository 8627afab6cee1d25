//! `bench -np`: many sequences at a time, with the columns of llama-batched-bench.
//!
//! Every sequence has a prompt of its own. First all prompts are computed, in steps of as many tokens as the engine
//! takes; then each step decodes one token of every sequence.

use super::Arguments;
use crate::failure::Usage;
use crate::interrupt::{self, Watch};
use crate::models;
use crate::open::{self, Opened, Positions};
use crate::output::Stdout;
use crate::peaks;
use crate::sequences::{self, Sequences};
use crate::terminal;
use model::step::Class;
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

use super::report::Format;

/// One line: sequences of a prompt and of what is decoded after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    prompt: usize,
    generated: usize,
    sequences: usize,
}

impl Case {
    /// Positions of one sequence.
    fn positions(&self) -> usize {
        self.prompt + self.generated
    }
}

/// Measures every combination of prompt, tokens to decode and sequences.
pub fn run(args: &Arguments, parallel: &[usize]) -> anyhow::Result<()> {
    let mut cases = vec![];
    for &prompt in &args.n_prompt.0 {
        for &generated in &args.n_gen.0 {
            let case = |&sequences: &usize| Case { prompt, generated, sequences };
            cases.extend(parallel.iter().map(case));
        }
    }
    if cases.iter().any(|case| case.prompt == 0 || case.generated == 0 || case.sequences == 0) {
        return Err(Usage("-np needs a prompt (-p), tokens to decode (-n) and sequences, all above 0".into()).into());
    }
    let positions = cases.iter().map(Case::positions).max().unwrap_or(1);
    let sequences = parallel.iter().copied().max().unwrap_or(1);
    let sharing = sequences::sharing(sequences, positions);
    let path = &models::resolve(args.model.name(), &args.model.fetch)?;
    let mut opened = open::shared_engine(path, &args.engine, Positions::Needed(positions), sharing, true)?;
    opened.measurable()?;
    let chunk = opened.engine.limits().tokens;
    let mut classes: Vec<Class> =
        cases.iter().flat_map(|case| sequences::classes(&opened.engine, case.sequences, case.prompt)).collect();
    classes.sort_unstable();
    classes.dedup();
    opened.prepare(&classes)?;
    let _lock = peaks::lock(&args.measure)?;
    let watch = interrupt::watch();
    let mut table = Table { format: args.output, rows: 0 };
    for case in cases {
        let mut best: Option<(Duration, Duration)> = None;
        if !args.no_warmup {
            measure(&mut opened, Case { prompt: case.prompt.min(chunk), generated: 1, ..case }, &watch)?;
        }
        for repetition in 1..=args.repetitions {
            terminal::progress(&format!("{case:?}: {repetition} of {}", args.repetitions));
            let (prompt, decode) = measure(&mut opened, case, &watch)?;
            if best.is_none_or(|(p, d)| prompt + decode < p + d) {
                best = Some((prompt, decode));
            }
        }
        terminal::wipe();
        if let Some((prompt, decode)) = best {
            table.add(case, prompt, decode)?;
        }
    }
    table.finish()
}

/// Times of all prompts and of decoding.
fn measure(opened: &mut Opened, case: Case, watch: &Watch) -> anyhow::Result<(Duration, Duration)> {
    let mut sequences = Sequences::new(&opened.engine, case.sequences, case.positions());
    let began = Instant::now();
    sequences.read_prompts(&mut opened.engine, case.prompt, watch)?;
    let prompts = began.elapsed();
    let began = Instant::now();
    for at in case.prompt..case.positions() {
        watch.check()?;
        opened.engine.run(sequences.next(at)?)?;
    }
    Ok((prompts, began.elapsed()))
}

/// Writes rows as they come.
struct Table {
    format: Format,
    rows: usize,
}

const NAMES: [&str; 10] = ["PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s"];
const KEYS: [&str; 10] = ["pp", "tg", "pl", "n_kv", "t_pp", "speed_pp", "t_tg", "speed_tg", "t", "speed"];

impl Table {
    fn add(&mut self, case: Case, prompt: Duration, decode: Duration) -> anyhow::Result<()> {
        let Case { prompt: pp, generated: tg, sequences } = case;
        let (t_pp, t_tg) = (prompt.as_secs_f64(), decode.as_secs_f64());
        let speed = |tokens: usize, time: f64| tokens as f64 / time.max(1e-9);
        let all = sequences * case.positions();
        let speeds = [speed(sequences * pp, t_pp), speed(sequences * tg, t_tg), speed(all, t_pp + t_tg)];
        let counts = [pp, tg, sequences, all];
        let times = [t_pp, speeds[0], t_tg, speeds[1], t_pp + t_tg, speeds[2]];
        let mut out = Stdout;
        match self.format {
            Format::Md => {
                if self.rows == 0 {
                    let names: Vec<String> =
                        NAMES.iter().enumerate().map(|(i, n)| format!("{n:>0$}", width(i))).collect();
                    let rules: Vec<String> = (0..NAMES.len()).map(|i| "-".repeat(width(i) + 1) + ":").collect();
                    writeln!(out, "| {} |\n|{}|", names.join(" | "), rules.join("|"))?;
                }
                let counts = counts.iter().enumerate().map(|(i, n)| format!("{n:>0$}", width(i)));
                let times = times.iter().enumerate().map(|(i, n)| {
                    let digits = if i % 2 == 0 { 3 } else { 2 };
                    format!("{n:>0$.digits$}", width(i + 4))
                });
                writeln!(out, "| {} |", counts.chain(times).collect::<Vec<_>>().join(" | "))?;
            }
            Format::Csv => {
                if self.rows == 0 {
                    writeln!(out, "{}", KEYS.join(","))?;
                }
                let cells = counts.iter().map(usize::to_string).chain(times.iter().map(f64::to_string));
                writeln!(out, "{}", cells.collect::<Vec<_>>().join(","))?;
            }
            Format::Json | Format::Jsonl => {
                let values = counts.iter().map(|n| json!(n)).chain(times.iter().map(|n| json!(n)));
                let object: serde_json::Map<String, Value> =
                    KEYS.iter().map(|key| (*key).to_owned()).zip(values).collect();
                let text = serde_json::to_string(&object)?;
                match self.format {
                    Format::Json => write!(out, "{}\n  {text}", if self.rows == 0 { "[" } else { "," })?,
                    _ => writeln!(out, "{text}")?,
                }
            }
        }
        self.rows += 1;
        Ok(out.flush()?)
    }

    fn finish(self) -> anyhow::Result<()> {
        let mut out = Stdout;
        if self.format == Format::Json {
            writeln!(out, "{}", if self.rows == 0 { "[]" } else { "\n]" })?;
        }
        Ok(out.flush()?)
    }
}

/// Width of a column.
fn width(at: usize) -> usize {
    if at < 4 { 6 } else { 8 }
}
