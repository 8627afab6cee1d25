//! `doctor --startup`: where the time goes between a command and the first token of a model whose kernels were never
//! compiled.
//!
//! The way is that of `run`, in a folder of its own beside the kernels, which is empty and is removed at the end. What `run`
//! does meanwhile, compiling the program of prompts, comes last and by itself here.

use super::Arguments;
use crate::models;
use crate::open;
use crate::output::{self, Stdout};
use device::{CacheConfig, Cpu, CpuConfig, Device};
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions, Sharing};
use model::step::Class;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Positions of the cache, which decide nothing about kernels as long as prompts fit.
const CONTEXT: usize = 1024;

/// What came after what, and how long it took.
struct Timeline {
    rows: Vec<(String, Duration)>,
    last: Instant,
}

impl Timeline {
    /// What is over now.
    fn note(&mut self, what: impl Into<String>) {
        let now = Instant::now();
        self.rows.push((what.into(), now - self.last));
        self.last = now;
    }

    /// Of the last entry, so much was something else that came before.
    fn before(&mut self, what: String, time: Duration) {
        if let Some((_, all)) = self.rows.last_mut() {
            let time = time.min(*all);
            *all -= time;
            self.rows.insert(self.rows.len() - 1, (what, time));
        }
    }

    fn total(&self) -> Duration {
        self.rows.iter().map(|(_, time)| *time).sum()
    }
}

/// Starts as `run` does, and prints the times.
pub fn run(args: &Arguments, kernels: &CacheConfig) -> anyhow::Result<()> {
    let folder = kernels.folder.as_ref().map(|folder| folder.join(format!("startup-{}", std::process::id())));
    let cache = CacheConfig { folder: folder.clone(), ready: vec![], ..kernels.clone() };
    let lines = start(args, cache);
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir_all(folder);
    }
    let (first, behind) = lines?;
    if args.json {
        let rows = |timeline: &Timeline| {
            let row = |(what, time): &(String, Duration)| json!({ "what": what, "seconds": time.as_secs_f64() });
            timeline.rows.iter().map(row).collect::<Vec<_>>()
        };
        let object = json!({ "first_token": rows(&first), "behind_it": rows(&behind) });
        writeln!(Stdout, "{}", serde_json::to_string_pretty(&object)?)?;
        return Ok(());
    }
    let mut text = String::new();
    for (timeline, total) in [(&first, "until the first token"), (&behind, "behind it")] {
        for (what, time) in &timeline.rows {
            text += &format!("{:>9.3} s  {what}\n", time.as_secs_f64());
        }
        text += &format!("{:>9.3} s  {total}\n", timeline.total().as_secs_f64());
    }
    output::print(&text)
}

fn start(args: &Arguments, cache: CacheConfig) -> anyhow::Result<(Timeline, Timeline)> {
    let mut first = Timeline { rows: vec![], last: Instant::now() };
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(&path)?;
    let config = open::config(&file, &path)?;
    let tokenizer = open::tokenizer(&file, &path)?;
    first.note("reading the model's description and its vocabulary");
    let mut cpu = CpuConfig { cache, ..CpuConfig::from_environment() };
    cpu.toolchain.compiler.clone_from(&args.cc);
    let cpu = Arc::new(Cpu::new(&cpu)?);
    first.note("asking the C compiler what it is, starting threads");
    let numerics = compiler::Numerics::Int8;
    let context = CONTEXT.min(usize::try_from(config.context).unwrap_or(1).max(1)) as i64;
    let (compiler, cache) = (cpu.options(numerics), CacheKind::of(numerics));
    let options = EngineOptions { compiler, context, chunk: context, cache };
    let mut engine = Engine::shared(file, cpu, options, Sharing::of_texts(1, context))?;
    first.note("checking the model");
    make(&mut engine, Class::One, &mut first)?;
    let token = tokenizer.bos().or(tokenizer.end_tokens().first().copied()).unwrap_or(0);
    engine.step(&[token], 0, 0..1)?;
    first.note("the first step");
    let mut behind = Timeline { rows: vec![], last: Instant::now() };
    make(&mut engine, Class::Many, &mut behind)?;
    Ok((first, behind))
}

/// Makes a program ready.
fn make(engine: &mut Engine, class: Class, timeline: &mut Timeline) -> anyhow::Result<()> {
    engine.make(&[class.into()])?;
    timeline.note(format!("compiling the program for {} to C", class.words()));
    engine.prepare(class)?;
    timeline.note("loading the kernels");
    if let Some(report) = engine.report(class) {
        let compiler = report.compiler.as_deref().unwrap_or("no compiler");
        let what = format!("compiling {} kernels in {} files by {compiler}", report.compiled, report.units);
        timeline.before(what, report.compiling);
    }
    Ok(())
}
