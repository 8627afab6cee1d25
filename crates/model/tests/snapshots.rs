//! What one layer of each family of the first six was compiled to, at one token under `int8`: its stages, their kernels, and of each
//! kernel what decides how fast it is. A change that is wanted is written down by `KERNLOOM_BLESS=1 cargo test -p
//! kernloom-model --test all snapshots::`.

use crate::support::hollow::Hollow;
use compiler::Compiled;
use compiler::program::{Launch, Stage};
use ir::{DType, Op, Space};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// The layer that is written down: one in the middle, where layers with experts have them.
pub const LAYER: u32 = 2;

fn check(family: &str, shape: &str) {
    let layers = LAYER + 2;
    let [program, shorter] = [layers, layers - 1].map(|layers| Hollow::new(shape, layers).compile());
    let mut text = format!("{shape}, layer {LAYER} of {layers}, one token, int8, vectors of 64 bytes\n");
    for (number, stage) in stages_of_layer(&program, &shorter).iter().enumerate() {
        let _ = writeln!(text, "\nstage {}", number + 1);
        stage.launches.iter().for_each(|launch| kernel(&program, launch, &mut text));
    }
    compare(family, &text);
}

/// The stages of the layer, in a program that has two layers more and beside one that has one layer less.
pub fn stages_of_layer<'a>(c: &'a Compiled, shorter: &Compiled) -> &'a [Stage] {
    let stages = &c.program.stages;
    let first = stages.iter().position(begins).expect("the layer");
    &stages[first..][..stages.len() - shorter.program.stages.len()]
}

/// Whether a stage begins the layer: it reads more of it than the weight of its first norm, which the kernel before it
/// has multiplied with already.
fn begins(stage: &Stage) -> bool {
    let prefix = format!("blk.{LAYER}.");
    let mut reads = stage.launches.iter().flat_map(|launch| launch.origin.split(' '));
    reads.any(|name| name.starts_with(&prefix) && !name.ends_with(".attn_norm"))
}

/// The tensors that a launch reads, by their names within the layer.
pub fn reads(launch: &Launch) -> String {
    let of_layer = |name: &str| {
        let layer = |l| name.strip_prefix(&format!("blk.{l}.")).or(name.strip_prefix(&format!("cache.{l}")));
        match (layer(LAYER), layer(LAYER + 1)) {
            (Some(""), _) => "cache".into(),
            (Some(name), _) if name.starts_with('.') => format!("cache{name}"),
            (Some(name), _) => name.to_string(),
            (_, Some(name)) => format!("next {name}"),
            _ => name.to_string(),
        }
    };
    let reads: Vec<String> = launch.origin.split(' ').filter(|n| !n.is_empty()).map(of_layer).collect();
    if reads.is_empty() { "-".into() } else { reads.join(" ") }
}

/// What stays the same as long as a kernel does its work in the same way.
fn kernel(c: &Compiled, launch: &Launch, text: &mut String) {
    let program = &c.program;
    let tasks = launch.tasks.eval(&program.vars.iter().map(|v| v.max).collect::<Vec<_>>()).expect("a count");
    let body = &c.bodies[launch.kernel];
    let (mut loads, mut stores, mut dots) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for id in c.graph.toposort(&[body.root]) {
        let lanes = |ty: DType, lanes: u16| format!("{ty:?}x{lanes}").to_lowercase();
        let is = |space| matches!(c.graph.op(c.graph.src(id)[0]), Op::Buffer { space: s, .. } if *s == space);
        let ty = c.graph.ty(id);
        match c.graph.op(id) {
            Op::Load if !is(Space::Task) => _ = loads.insert(lanes(ty.base, ty.lanes)),
            Op::Store if !is(Space::Task) => {
                let value = c.graph.ty(c.graph.src(id)[2]);
                stores.insert(lanes(value.base, value.lanes));
            }
            Op::Dot4 => _ = dots.insert(format!("dot4 {}", lanes(ty.base, ty.lanes))),
            _ => {}
        }
    }
    let mut paths: Vec<String> = vec![];
    for run in body.paths().chunk_by(|a, b| a == b) {
        paths.push(if run.len() == 1 { run[0].into() } else { format!("{} {}", run.len(), run[0]) });
    }
    let join = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(" ");
    let _ = writeln!(text, "  {tasks} tasks: {}", reads(launch));
    let _ = writeln!(text, "    paths   {}", paths.join(", "));
    let _ = writeln!(text, "    loads   {}", join(loads));
    let _ = writeln!(text, "    stores  {}", join(stores));
    if !dots.is_empty() {
        let _ = writeln!(text, "    dots    {}", join(dots));
    }
    if !body.stashes.is_empty() {
        let _ = writeln!(text, "    stashes {}", body.stashes.len());
    }
}

/// Compares with what was written down under a name.
pub fn compare(family: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{family}.txt"));
    if std::env::var_os("KERNLOOM_BLESS").is_some() {
        std::fs::write(&path, text).expect("a folder for snapshots");
        return;
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        before == text,
        "{family}: other kernels than in {} (- before, + now):\n{}If that is wanted, say so with KERNLOOM_BLESS=1.",
        path.display(),
        difference(&before, text)
    );
}

/// The lines that differ, each under the stage that it belongs to.
fn difference(before: &str, now: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    // Length of the longest common subsequence of a[i..] and b[j..].
    let mut common = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let skip = common[i + 1][j].max(common[i][j + 1]);
            common[i][j] = if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { skip };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    let (mut stage, mut shown) = ("", "");
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            stage = if a[i].starts_with("stage") { a[i] } else { stage };
            (i, j) = (i + 1, j + 1);
            continue;
        }
        if stage != shown {
            let _ = writeln!(out, "{stage}");
            shown = stage;
        }
        let removed = j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1];
        let _ = if removed { writeln!(out, "- {}", a[i]) } else { writeln!(out, "+ {}", b[j]) };
        if removed { i += 1 } else { j += 1 }
    }
    out
}

#[test]
fn deepseek2() {
    check("deepseek2", "glm-4.7-flash");
}

#[test]
fn llama() {
    check("llama", "llama-3.2-1b");
}

#[test]
fn qwen2() {
    check("qwen2", "tiny-qwen2");
}

#[test]
fn qwen3() {
    check("qwen3", "qwen3-0.6b");
}

#[test]
fn qwen3moe() {
    check("qwen3moe", "qwen3-30b-a3b");
}

#[test]
fn glm4() {
    check("glm4", "tiny-glm4");
}

#[test]
fn differences_are_shown_with_their_stage() {
    let before = "head\nstage 1\n  a\n  b\nstage 2\n  c\n";
    let now = "head\nstage 1\n  a\nstage 2\n  d\n  c\n";
    assert_eq!(difference(before, now), "stage 1\n-   b\nstage 2\n+   d\n");
}
