//! `doctor`: what this machine has for running models, and what to install where something is missing.

mod caches;
mod startup;
mod trial;

use crate::arguments::{ModelOrDemo, NvrtcFlag};
use crate::failure::Usage;
use crate::open::{self, bytes};
use crate::output::{self, Stdout};
use crate::settings;
use anyhow::bail;
use device::{Isa, Target, Toolchain, ToolchainConfig};
use devices::Listed;
use gguf::plain::{self, MESSAGE};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Compilers that are looked for.
const COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];

/// How to tell.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// C compiler to try [default: cc, gcc or clang, whichever is found first]
    #[arg(long, value_name = "PATH")]
    cc: Option<PathBuf>,
    /// Folder of compiled kernels [default: kernloom in the user's cache folder]
    #[arg(long, value_name = "DIR")]
    kernel_cache: Option<PathBuf>,
    /// Packs of kernels, beside those that came with the program
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    kernel_pack: Vec<PathBuf>,
    /// Folders that nobody else reaches, whatever owners and modes say
    #[arg(long, value_name = "DIRS", value_delimiter = ',')]
    trusted_folders: Vec<PathBuf>,
    #[command(flatten)]
    cards: NvrtcFlag,
    /// Time what happens until the first token of a model whose kernels were never compiled, instead
    #[arg(long)]
    startup: bool,
    #[command(flatten)]
    model: ModelOrDemo,
}

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// Models run, but not as well as they could.
    Poor,
    /// No model runs.
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Poor => "warning",
            State::Bad => "missing",
        }
    }
}

/// One thing that was looked at.
struct Finding {
    area: &'static str,
    state: State,
    text: String,
    /// What to do about it.
    advice: Option<String>,
}

impl Finding {
    fn good(area: &'static str, text: impl Into<String>) -> Finding {
        Finding { area, state: State::Good, text: text.into(), advice: None }
    }

    fn poor(area: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { area, state: State::Poor, text: text.into(), advice: Some(advice.into()) }
    }

    fn bad(area: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { area, state: State::Bad, text: text.into(), advice: Some(advice.into()) }
    }
}

/// Looks, and fails if no model could run.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let kernels = open::kernels(args.kernel_cache.as_ref(), &args.kernel_pack, &args.trusted_folders);
    if args.startup {
        return startup::run(args, &kernels);
    }
    if args.model.name() != Path::new(demo::NAME) {
        return Err(Usage("a model is started with --startup only".into()).into());
    }
    let mut findings = vec![Finding::good("version", concat!("kernloom ", env!("CARGO_PKG_VERSION")))];
    findings.push(match settings::file_in_use(None) {
        Some(path) => Finding::good("settings", path.display().to_string()),
        None => Finding::good("settings", "no file"),
    });
    // A compiler that is named takes no kernels of others.
    let targets = if args.cc.is_some() { vec![] } else { kernels.targets() };
    let ready: Vec<String> = targets.iter().filter(|target| target.is_available()).map(Target::to_string).collect();
    findings.extend(compilers(args, &ready));
    findings.extend(processor());
    findings.push(memory());
    findings.extend(caches::look(&kernels));
    findings.push(trial::run(args.cc.clone(), &kernels, &ready));
    findings.extend(devices::list(args.cards.nvrtc.clone()).into_iter().filter(|device| device.name != "cpu").map(gpu));
    if args.json {
        let rows = findings
            .iter()
            .map(|f| json!({ "area": f.area, "state": f.state.word(), "text": f.text, "advice": f.advice }));
        let text = serde_json::to_string_pretty(&rows.collect::<Vec<_>>())?;
        writeln!(Stdout, "{text}")?;
    } else {
        let mut text = String::new();
        for f in &findings {
            text += &format!("{:8} {:13} {}\n", f.state.word(), f.area, plain::line(&f.text, MESSAGE));
            if let Some(advice) = &f.advice {
                text += &format!("{:22} -> {}\n", "", plain::line(advice, MESSAGE));
            }
        }
        output::print(&text)?;
    }
    match findings.iter().filter(|f| f.state == State::Bad).count() {
        0 => Ok(()),
        1 => bail!("models cannot run here: one thing is missing"),
        n => bail!("models cannot run here: {n} things are missing"),
    }
}

/// Each compiler that there is, the one that is used first. Without one, models run whose kernels are `ready`.
fn compilers(args: &Arguments, ready: &[String]) -> Vec<Finding> {
    let config = |compiler| ToolchainConfig { compiler, ..ToolchainConfig::from_environment() };
    let names = match &args.cc {
        Some(path) => vec![path.clone()],
        None => COMPILERS.map(PathBuf::from).to_vec(),
    };
    let found = names.iter().map(|name| (name, Toolchain::find(&config(Some(name.clone())))));
    let mut findings: Vec<Finding> = vec![];
    let mut none = None;
    for (name, toolchain) in found {
        match toolchain {
            Ok(found) => {
                let used = if findings.iter().any(|f| f.state == State::Good) { "" } else { " (used)" };
                let text = format!("{}: {}{used}", found.path().display(), found.version());
                findings.push(Finding::good("compiler", text));
            }
            Err(device::Error::NoCompiler { .. }) if args.cc.is_none() => {}
            Err(error) => {
                let advice = format!("repair or remove {}, or name another with --cc", name.display());
                none = Some(Finding::poor("compiler", error.to_string(), advice));
            }
        }
    }
    if findings.is_empty() {
        let advice = "Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; Arch: pacman -S gcc; \
                      Alpine: apk add gcc musl-dev; macOS: xcode-select --install";
        let text = format!("no C compiler ({} were looked for)", COMPILERS.join(", "));
        findings.push(match ready.is_empty() {
            true => Finding::bad("compiler", text, advice),
            false => Finding::poor("compiler", text, advice),
        });
    }
    findings.extend(none);
    findings
}

fn processor() -> Vec<Finding> {
    let levels: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    let best = Target::detect(None).map_or_else(|error| error.to_string(), |target| target.to_string());
    let text = format!("{best} (of {})", levels.join(", "));
    let instructions = match Isa::detect() {
        Isa::Scalar => Finding::poor(
            "instructions",
            text,
            "kernels are plain C on this machine: expect a tenth of the speed; a virtual machine may hide what its host has",
        ),
        _ => Finding::good("instructions", text),
    };
    let seen = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = format!("{} worker threads by default, {seen} logical processors", device::default_threads());
    vec![instructions, Finding::good("threads", threads)]
}

fn memory() -> Finding {
    let size = |number: Option<u64>| number.map_or_else(|| "unknown".into(), bytes);
    let mut text = format!("{} of {} available", size(device::available_memory()), size(device::total_memory()));
    if let Some(limit) = device::memory_limit() {
        text += &format!("; the control group allows {}", bytes(limit));
    }
    match device::available_memory() {
        Some(available) if available < 1 << 30 => {
            Finding::poor("memory", text, "free some: a model of 2 billion weights in 4 bits reads 1.2 GiB a token")
        }
        _ => Finding::good("memory", text),
    }
}

/// A card; that there is none, or no driver for one, is nothing to worry about.
fn gpu(device: Listed) -> Finding {
    let card = format!("{}: {}", device.name, device.text);
    match device.problem {
        None => Finding::good("devices", card),
        Some(problem) if device.name == "cuda" => Finding::good("devices", problem.to_string()),
        Some(problem) => Finding::poor("devices", card, problem.to_string()),
    }
}
