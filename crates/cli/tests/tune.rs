//! Searching for faster plans of kernels, and using what was found.

use crate::support::{Run, command, finished, folder, run, text, tiny};
use compiler::{KernelKey, Setting};
use device::{CacheConfig, Target, TunedPlans};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A folder of kernels in which no search was made; those that are compiled stay from one run to the next.
fn kernels(name: &str) -> PathBuf {
    let folder = folder().join(format!("tuned-{name}"));
    let _ = std::fs::remove_dir_all(folder.join("tuned-3"));
    folder
}

fn lock(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

fn search(kernels: &Path, more: &[&str]) -> Run {
    let (path, lock) = (tiny("tiny-llama", "q4_0"), lock(kernels));
    let base = ["tune", text(&path), "-d", "3", "--json", "--kernel-cache", text(kernels), "--lock", text(&lock)];
    run(&[&base[..], more].concat())
}

fn outcomes(run: &Run) -> Vec<Value> {
    serde_json::from_slice(&run.out).unwrap_or_else(|e| panic!("{e} in {}", run.text()))
}

fn plans(kernels: &Path) -> TunedPlans {
    let config = CacheConfig { folder: Some(kernels.to_owned()), ..CacheConfig::from_environment() };
    TunedPlans::of_processor(&config, &Target::detect(None).expect("a target")).expect("a folder")
}

/// Logits of a prompt and of a token after it.
fn logits(kernels: &Path, more: &[&str]) -> (Vec<f32>, String) {
    let (path, out) = (tiny("tiny-llama", "q4_0"), kernels.with_extension("f32"));
    let base = ["logits", text(&path), "--tokens", "1,2,3,4,5,6,7,8,9,10", "-b", "9", "--out", text(&out)];
    let base = [&base[..], &["--kernel-cache", text(kernels)]].concat();
    let ran = run(&[&base[..], more].concat()).ok();
    (crate::support::floats(&std::fs::read(&out).expect("logits")), ran.err)
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(g, w)| (f64::from(*g) - f64::from(*w)).powi(2)).sum();
    error / want.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>()
}

fn warnings(err: &str) -> Vec<&str> {
    err.lines().filter(|line| line.starts_with("warning: ")).collect()
}

#[test]
fn a_search_ends_and_what_it_finds_is_used_from_then_on() {
    let kernels = kernels("used");
    let untuned = logits(&kernels, &[]);
    assert!(!untuned.1.contains("tuned: "), "{}", untuned.1);
    let start = Instant::now();
    let found = outcomes(&search(&kernels, &["-p", "1,9", "--seconds", "3"]).ok());
    assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
    let tokens: Vec<&Value> = found.iter().map(|outcome| &outcome["tokens"]).collect();
    assert_eq!(tokens, [1, 9]);
    let mut settings: BTreeMap<KernelKey, Option<Setting>> = BTreeMap::new();
    for outcome in &found {
        assert!(outcome["tried"].as_u64() > Some(0) && outcome["wrong"] == serde_json::json!([]), "{outcome:#}");
        assert!(outcome["end"] == "time" || outcome["end"] == "complete", "{outcome:#}");
        for kernel in outcome["kernels"].as_array().expect("kernels") {
            let key = u64::from_str_radix(kernel["key"].as_str().expect("a key"), 16).expect("a number");
            let default: Setting = kernel["default"].as_str().expect("a setting").parse().expect("a setting");
            let kept = kernel["tuned"].as_str().map(|tuned| tuned.parse().expect("a setting"));
            assert_eq!(plans(&kernels).read().expect("whole").0.get(&KernelKey(key)), kept.as_ref());
            // Which of them win is the machine's business; here all have another plan.
            let other = default.to_string().replace("streams=1", "streams=2").replace("rows=4", "rows=2");
            let other = other.replace("tokens=8", "tokens=4").replace("tokens=4", "tokens=2");
            settings.insert(KernelKey(key), Some(other.parse().expect("a setting")));
        }
    }
    plans(&kernels).keep(&settings).expect("a folder");
    let (tuned, err) = logits(&kernels, &[]);
    let said: Vec<&str> = err.lines().filter(|line| line.starts_with("tuned: ")).collect();
    assert_eq!(said.len(), 2, "{err}");
    assert!(said[0].contains(" kernels for ") && said.iter().all(|line| !line.contains("tuned: 0 ")), "{err}");
    assert_ne!(tuned, untuned.0, "another order of sums");
    assert!(nmse(&tuned, &untuned.0) < 2e-2, "{}", nmse(&tuned, &untuned.0));
    let (without, err) = logits(&kernels, &["--without", "tuned"]);
    assert_eq!(without, untuned.0);
    assert!(!err.contains("tuned: "), "{err}");
    // A report measures them, and changes nothing.
    let before = std::fs::read(plans(&kernels).file()).expect("plans");
    let report = outcomes(&search(&kernels, &["-p", "1", "--report"]).ok());
    assert_eq!((report.len(), &report[0]["tried"]), (1, &serde_json::json!(0)));
    assert_eq!(std::fs::read(plans(&kernels).file()).expect("plans"), before);
}

#[test]
fn a_search_may_come_before_another_command() {
    let kernels = kernels("before");
    let (path, lock) = (tiny("tiny-llama", "q4_0"), lock(&kernels));
    let base = ["profile", "-m", text(&path), "-n", "1", "--tune", "1", "--kernel-cache", text(&kernels)];
    let ran = run(&[&base[..], &["--lock", text(&lock), "--bandwidth", "10"]].concat()).ok();
    assert!(ran.err.contains(" kernels have a better plan, of "), "{}", ran.err);
    assert!(plans(&kernels).file().is_file() && ran.text().contains("origin"), "{}", ran.text());
}

#[test]
fn plans_that_are_damaged_are_left_aside() {
    let kernels = kernels("damaged");
    let (untuned, _) = logits(&kernels, &[]);
    let plans = plans(&kernels);
    plans.prepare().expect("a folder");
    for damage in ["", "kernloom tuned plans\n", "nonsense\nin\nfour\nlines"] {
        std::fs::write(plans.file(), damage).expect("a file");
        let (logits, err) = logits(&kernels, &[]);
        assert_eq!(logits, untuned);
        assert!(matches!(warnings(&err)[..], [one] if one.contains("ignored")), "{err}");
    }
    let searched = search(&kernels, &["-p", "1", "--seconds", "1"]).ok();
    assert_eq!(warnings(&searched.err).len(), 1, "{}", searched.err);
    assert_eq!(warnings(&logits(&kernels, &[]).1), Vec::<&str>::new(), "a search writes them anew");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_at_once() {
    let blocked = folder().join("tuned-blocked");
    std::fs::write(&blocked, "a file where a folder should be").expect("a test file");
    let ran = search(&blocked, &["-p", "1", "--seconds", "600"]);
    let line = ran.error(1);
    assert!(line.starts_with("error: cannot write ") && line.contains("tuned-3"), "{line}");
    let wrong = search(&kernels("wrong"), &["-p", "0"]);
    assert!(wrong.error(2).contains("-p"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_search_keeps_what_it_has() {
    let kernels = kernels("interrupted");
    let (path, lock) = (tiny("tiny-llama", "q4_0"), lock(&kernels));
    let args = ["tune", text(&path), "-p", "1", "--seconds", "3000", "--kernel-cache", text(&kernels)];
    let mut child = command(&[&args[..], &["--lock", text(&lock)]].concat()).spawn().expect("the program starts");
    // The search begins when the programs are compiled that fill the cache and that make the step.
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert_eq!(lines.by_ref().filter(|line| line.starts_with("compiled ")).take(2).count(), 2);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    let rest: String = lines.map(|line| line + "\n").collect();
    let ran = Run { err: rest, ..finished(child.wait_with_output().expect("the program ends")) };
    // The tiny model may have been searched through by then.
    if ran.code != 0 {
        assert_eq!(ran.code, 130, "{}", ran.err);
        assert!(ran.err.contains("what was found until then is kept"), "{}", ran.err);
        assert!(ran.text().contains("interrupted, not proved"), "{}", ran.text());
    }
    assert!(plans(&kernels).file().is_file());
    plans(&kernels).read().expect("whole");
}
