//! `bench --each-off`: what each pass, fusion and path of kernels is worth, by leaving it out.
//!
//! The engine with everything and one without something take turns. What changes nothing on this machine and model is
//! found by comparing the programs, and is not timed; it is looked for on the models and flags of `--also`, and its row says
//! on which it was found. With `--into FILE` the figures are written into the table of a Markdown file, behind the column
//! `switch`.

use super::report::{Format, name};
use super::turns::{self, Turns};
use super::{Arguments, Test, ready, variants};
use crate::arguments::EngineFlags;
use crate::failure::Usage;
use crate::open::{self, Opened};
use crate::output::Stdout;
use crate::{interrupt, models, peaks, terminal};
use anyhow::{Context, bail};
use compiler::Switch;
use model::median::median;
use model::step::Variant;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What encloses the table that is written anew.
const BEGIN: &str = "<!-- bench --each-off: begin -->";
const END: &str = "<!-- bench --each-off: end -->";

/// Heading of the column behind which the figures stand.
const SWITCH: &str = "switch";

/// An engine with everything.
struct Base {
    /// What tells it from the others.
    name: String,
    path: PathBuf,
    flags: EngineFlags,
    with: Opened,
}

impl Base {
    /// The model and the flags of the command line, and those of each `--also`.
    fn all(args: &Arguments, tests: &[Test]) -> anyhow::Result<Vec<Base>> {
        let path = models::resolve(args.model.name(), &args.model.fetch)?;
        let open = |path: &Path, flags: &EngineFlags, more: String| {
            let with = ready(path, flags, tests, true)?;
            let name = open::description(with.engine.file()) + &more;
            anyhow::Ok(Base { name, path: path.to_owned(), flags: flags.clone(), with })
        };
        let mut all = vec![open(&path, &args.engine, String::new())?];
        for text in &args.also {
            let (model, flags) = turns::changed(&args.engine, "--also", text)?;
            let model = model.map(|model| models::resolve(&model, &args.model.fetch)).transpose()?;
            all.push(open(model.as_ref().unwrap_or(&path), &flags, beside_the_model(text))?);
        }
        Ok(all)
    }

    /// The same without something, if that is another program.
    fn without(&self, switch: Switch, tests: &[Test]) -> anyhow::Result<(Opened, bool)> {
        let mut flags = self.flags.clone();
        flags.kernels.without.push(switch.name.into());
        let without = ready(&self.path, &flags, tests, false)
            .with_context(|| format!("{} without {}", self.name, switch.name))?;
        let differs = !same(&self.with, &without, tests);
        Ok((without, differs))
    }
}

/// The flags of a text but for the model, with a comma before them.
fn beside_the_model(text: &str) -> String {
    let mut rest = vec![];
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-m" | "--model" => _ = words.next(),
            _ if word.starts_with("--model=") => {}
            _ => rest.push(word),
        }
    }
    if rest.is_empty() { String::new() } else { format!(", {}", rest.join(" ")) }
}

/// What came out without something.
struct Row {
    switch: Switch,
    /// Which of the engines with everything it was taken from.
    base: usize,
    /// Kernels and stages of a decoding step.
    counts: Counts,
    /// Of each test; `None` if the programs are those with everything.
    turns: Option<Vec<Turns>>,
}

#[derive(Clone, Copy, PartialEq)]
struct Counts {
    kernels: usize,
    stages: usize,
}

impl Counts {
    fn of(opened: &Opened, tests: &[Test]) -> Counts {
        let at = super::decoded(tests)[0];
        let program = opened.engine.program(super::decoding(&opened.engine, at)).map(|(program, _)| program);
        Counts { kernels: program.map_or(0, |p| p.launches()), stages: program.map_or(0, |p| p.stages.len()) }
    }
}

/// Leaves out each switch in turn.
pub fn run(args: &Arguments, tests: &[Test]) -> anyhow::Result<()> {
    if !matches!(args.output, Format::Md | Format::Json) {
        return Err(Usage("--each-off writes -o md or json".into()).into());
    }
    // A file without a table is found before the hour that measuring may take.
    let file = args.into.as_deref().map(|path| Ok::<_, anyhow::Error>((path, read(path)?))).transpose()?;
    let mut bases = Base::all(args, tests)?;
    let _lock = peaks::lock(&args.measure)?;
    let watch = interrupt::watch();
    let rounds = args.rounds.unwrap_or(args.repetitions);
    let switches = compiler::switches();
    let names = bases.iter().map(|base| (base.name.clone(), Counts::of(&base.with, tests))).collect();
    let mut outcome = Outcome { tests, bases: names, rows: vec![], rounds };
    for (at, switch) in switches.iter().enumerate() {
        terminal::line(&format!("{} of {}: without {}", at + 1, switches.len(), switch.name));
        let mut row = Row { switch: *switch, base: 0, counts: Counts::of(&bases[0].with, tests), turns: None };
        let mut other = None;
        for (at, base) in bases.iter().enumerate() {
            let (without, differs) = base.without(*switch, tests)?;
            if at == 0 || differs {
                row = Row { base: at, counts: Counts::of(&without, tests), ..row };
            }
            if differs {
                other = Some(without);
                break;
            }
        }
        if let Some(mut without) = other {
            let with = &mut bases[row.base].with;
            let each = |&test: &Test| turns::take([&mut *with, &mut without], test, rounds, !args.no_warmup, &watch);
            row.turns = Some(tests.iter().map(each).collect::<anyhow::Result<_>>()?);
        }
        outcome.rows.push(row);
        // What is measured stays when the rest is interrupted.
        if let Some((path, text)) = &file {
            std::fs::write(path, outcome.filled(text)?).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let text = match args.output {
        Format::Json => serde_json::to_string_pretty(&outcome.json())? + "\n",
        _ => outcome.table(),
    };
    let mut out = Stdout;
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    split(&text).with_context(|| path.display().to_string())?;
    Ok(text)
}

/// Whether two engines run the same kernels in the same stages.
fn same(a: &Opened, b: &Opened, tests: &[Test]) -> bool {
    let of = |opened: &Opened, variant: Variant| {
        let (program, _) = opened.engine.program(variant)?;
        let sources: Vec<String> = program.kernels.iter().map(|kernel| kernel.source.clone()).collect();
        let stages: Vec<Vec<usize>> =
            program.stages.iter().map(|s| s.launches.iter().map(|launch| launch.kernel).collect()).collect();
        Some((sources, stages))
    };
    variants(tests, &a.engine).into_iter().all(|variant| of(a, variant) == of(b, variant))
}

struct Outcome<'a> {
    tests: &'a [Test],
    /// What tells the engines with everything apart, and their kernels and stages.
    bases: Vec<(String, Counts)>,
    rows: Vec<Row>,
    rounds: u32,
}

impl Outcome<'_> {
    /// Median tokens a second of an engine with everything, over all turns; none if it had no turn.
    fn speed(&self, base: usize, test: usize) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.base == base);
        let turns = rows.filter_map(|row| Some(&row.turns.as_ref()?[test].a));
        let mut all: Vec<f64> = turns.flatten().copied().collect();
        (!all.is_empty()).then(|| median(&mut all))
    }

    fn heading(&self) -> Vec<String> {
        let tests = self.tests.iter().map(|&test| format!("{} t/s off", name(test)));
        let on = (self.bases.len() > 1).then(|| "on".into());
        ["kernels off".into(), "stages off".into()].into_iter().chain(tests).chain(on).collect()
    }

    /// The figures of a row.
    fn figures(&self, row: &Row) -> Vec<String> {
        let Some(turns) = &row.turns else { return vec!["the same program".into(); 1] };
        let speed = |turns: &Turns| {
            let ratio = turns.ratio();
            let speed = median(&mut turns.b.clone());
            format!("{speed:.1} ({:.2}; {:.2}..{:.2})", ratio.median, ratio.least, ratio.most)
        };
        let counts = [row.counts.kernels, row.counts.stages].map(|n| n.to_string());
        let on = (self.bases.len() > 1).then(|| self.bases[row.base].0.clone());
        counts.into_iter().chain(turns.iter().map(speed)).chain(on).collect()
    }

    /// What the figures are and where they come from.
    fn caption(&self) -> String {
        let mut out = String::from("With everything: ");
        for (at, (model, Counts { kernels, stages })) in self.bases.iter().enumerate() {
            let _ = write!(out, "{kernels} kernels in {stages} stages a token");
            let speeds = self.tests.iter().enumerate().filter_map(|(i, &test)| Some((name(test), self.speed(at, i)?)));
            let speeds: Vec<String> = speeds.map(|(name, speed)| format!("{name} {speed:.1}")).collect();
            if !speeds.is_empty() {
                let _ = write!(out, ", tok/s {}", speeds.join(", "));
            }
            let _ = write!(out, " ({model}); ");
        }
        let _ = write!(out, "{}", device::host::processor::name());
        if !self.tests.is_empty() {
            let _ =
                write!(out, "; medians of {} turns, in brackets the ratio to everything and its spread", self.rounds);
        }
        out + "."
    }

    fn table(&self) -> String {
        let mut out = String::new();
        let heading = self.heading();
        let _ = writeln!(out, "| {SWITCH} | what | {} |", heading.join(" | "));
        let _ = writeln!(out, "|{}", "---|".repeat(heading.len() + 2));
        for row in &self.rows {
            let figures = padded(self.figures(row), heading.len());
            let _ = writeln!(out, "| `{}` | {} | {} |", row.switch.name, row.switch.what, figures.join(" | "));
        }
        let _ = writeln!(out, "\n{}", self.caption());
        out
    }

    fn json(&self) -> Value {
        let row = |row: &Row| {
            let tests = row.turns.iter().flat_map(|turns| turns.iter().zip(self.tests));
            json!({
                "switch": row.switch.name,
                "what": row.switch.what,
                "on": self.bases[row.base].0,
                "kernels": row.counts.kernels,
                "stages": row.counts.stages,
                "same_program": row.turns.is_none(),
                "tests": tests.map(|(turns, &test)| turns.json(test)).collect::<Vec<_>>(),
            })
        };
        let base = |(name, counts): &(String, Counts)| json!({ "model": name, "kernels": counts.kernels, "stages": counts.stages });
        json!({
            "with_everything": self.bases.iter().map(base).collect::<Vec<_>>(),
            "cpu_info": device::host::processor::name(),
            "rounds": self.rounds,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// A text whose table has these figures behind its column `switch`.
    fn filled(&self, text: &str) -> anyhow::Result<String> {
        let (before, table, after) = split(text)?;
        let figures: HashMap<String, Vec<String>> =
            self.rows.iter().map(|row| (row.switch.name.to_owned(), self.figures(row))).collect();
        let mut lines = table.lines().filter(|line| line.starts_with('|'));
        let heading = self.heading();
        let (Some(head), Some(_)) = (lines.next(), lines.next()) else { bail!("there is no table after {BEGIN}") };
        let Some(column) = cells(head).iter().position(|cell| cell == SWITCH) else {
            bail!("the table after {BEGIN} has no column '{SWITCH}'");
        };
        let kept = |line: &str| cells(line).into_iter().take(column + 1).collect::<Vec<String>>();
        let mut out = format!("{before}{BEGIN}\n");
        let mut write = |cells: Vec<String>| {
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        };
        write([kept(head), heading.clone()].concat());
        write(vec!["---".into(); column + 1 + heading.len()]);
        for line in lines {
            let kept = kept(line);
            let switch = kept.last().map(|cell| cell.trim_matches('`').to_owned()).unwrap_or_default();
            let row = figures.get(&switch).cloned().unwrap_or_default();
            write([kept, padded(row, heading.len())].concat());
        }
        Ok(format!("{out}\n{}\n{END}{after}", self.caption()))
    }
}

/// The text before the marks, between them, and after them.
fn split(text: &str) -> anyhow::Result<(&str, &str, &str)> {
    let marked = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let (before, (table, after)) = marked.with_context(|| format!("there are no lines '{BEGIN}' and '{END}'"))?;
    Ok((before, table, after))
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

fn padded(mut cells: Vec<String>, n: usize) -> Vec<String> {
    cells.resize(n, "-".into());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_go_behind_the_switch() {
        let tests = [Test { prompt: 0, generated: 8, depth: 0 }];
        let turns = Turns { a: vec![10.0], b: vec![5.0] };
        let row = |name, base, turns| {
            let counts = Counts { kernels: 9, stages: 7 };
            Row { switch: Switch { name, what: "" }, base, counts, turns }
        };
        let rows = vec![row("merge", 0, Some(vec![turns])), row("planes", 0, None)];
        let bases = vec![("m".to_owned(), Counts { kernels: 8, stages: 6 })];
        let mut outcome = Outcome { tests: &tests, bases, rows, rounds: 1 };
        let text = format!(
            "before\n{BEGIN}\n| idea | switch | old |\n|---|---|---|\n| a | `merge` | 1 |\n| b | none | |\n\
             | c | `planes` |\nold\n{END}\nafter\n"
        );
        let filled = outcome.filled(&text).expect("a table");
        let lines: Vec<&str> = filled.lines().collect();
        assert_eq!(lines[2], "| idea | switch | kernels off | stages off | tg8 t/s off |");
        assert_eq!(lines[4], "| a | `merge` | 9 | 7 | 5.0 (0.50; 0.50..0.50) |");
        assert_eq!(lines[5], "| b | none | - | - | - |");
        assert_eq!(lines[6], "| c | `planes` | the same program | - | - |");
        assert!(
            lines[8].starts_with("With everything: 8 kernels in 6 stages a token, tok/s tg8 10.0 (m); "),
            "{filled}"
        );
        assert!(filled.starts_with("before\n") && filled.ends_with(&format!("{END}\nafter\n")));
        // What was filled can be filled again.
        assert_eq!(outcome.filled(&filled).expect("a table"), filled);
        assert!(outcome.filled("no table").is_err());
        // What another model shows says so.
        outcome.bases.push(("n, -ctk q8_0".into(), Counts { kernels: 5, stages: 4 }));
        outcome.rows[1] = row("planes", 1, Some(vec![Turns { a: vec![4.0], b: vec![5.0] }]));
        let filled = outcome.filled(&filled).expect("a table");
        let lines: Vec<&str> = filled.lines().collect();
        assert_eq!(lines[2], "| idea | switch | kernels off | stages off | tg8 t/s off | on |");
        assert_eq!(lines[4], "| a | `merge` | 9 | 7 | 5.0 (0.50; 0.50..0.50) | m |");
        assert_eq!(lines[6], "| c | `planes` | 9 | 7 | 5.0 (1.25; 1.25..1.25) | n, -ctk q8_0 |");
        assert!(lines[8].contains("; 5 kernels in 4 stages a token, tok/s tg8 4.0 (n, -ctk q8_0); "), "{filled}");
    }

    #[test]
    fn flags_tell_settings_of_one_model_apart() {
        assert_eq!(beside_the_model("-m a.gguf"), "");
        assert_eq!(beside_the_model("--model=a.gguf -ctk q8_0"), ", -ctk q8_0");
    }
}
