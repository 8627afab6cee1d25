//! `kernloom logits` against reference logits: every file, both policies, steps of 1, 7 and 64 tokens.

mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Golden, floats, folder, golden, run, text};

/// NMSE that `exact` may have.
const EXACT_NMSE: f64 = 1e-9;

const BATCHES: [usize; 3] = [1, 7, 64];

#[test]
fn logits_of_every_file() {
    let files = golden();
    let cases: Vec<(&Golden, &str, usize)> = files
        .iter()
        .flat_map(|file| ["exact", "int8"].into_iter().flat_map(move |n| BATCHES.map(|batch| (file, n, batch))))
        .collect();
    let next = AtomicUsize::new(0);
    let problems = Mutex::new(vec![]);
    let worker = |number: usize| {
        while let Some((file, numerics, batch)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(problem) = problem(file, numerics, *batch, number) {
                let problem = format!("{} {numerics} in steps of {batch}: {problem}", file.name);
                println!("{problem}");
                problems.lock().expect("no panic above").push(problem);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|number| drop(scope.spawn(move || worker(number)))));
    println!("{} golden files ran through the logits command, {} runs", files.len(), cases.len());
    let problems = problems.into_inner().expect("no panic above");
    assert!(problems.is_empty(), "{} of {} runs:\n{}", problems.len(), cases.len(), problems.join("\n"));
}

/// What is wrong with the logits of a file, if anything.
fn problem(file: &Golden, numerics: &str, batch: usize, number: usize) -> Option<String> {
    let out = folder().join(format!("golden-{number}.f32"));
    let (tokens, batch) = (file.tokens(), batch.to_string());
    let args = ["logits", "-m", text(&file.path), "--tokens", &tokens, "--batch", &batch, "-t", "1"];
    let ran = run(&[&args[..], &["--numerics", numerics, "--out", text(&out)]].concat());
    if ran.code != 0 {
        return Some(ran.err.lines().last().unwrap_or_default().to_owned());
    }
    let (got, want) = (floats(&std::fs::read(out).expect("logits")), file.logits());
    if got.len() != want.len() {
        return Some(format!("{} logits instead of {}", got.len(), want.len()));
    }
    if numerics == "exact" {
        let chosen: Vec<u32> = got.chunks(file.vocab).skip(file.prompt.len() - 1).map(argmax).collect();
        let same = chosen[..file.greedy.len()] == file.greedy;
        let nmse = nmse(&got, &want);
        return (!same || nmse.is_nan() || nmse > EXACT_NMSE)
            .then(|| format!("NMSE {nmse:.2e}, greedy ids equal: {same}"));
    }
    let most = if file.is_mixture() { 3.0 * file.peer_kld + 5e-3 } else { 2.0 * file.peer_kld + 1e-4 };
    let kl = mean_kl(&got, &want, file.vocab);
    (kl.is_nan() || kl > most).then(|| format!("mean KL {kl:.2e}, at most {most:.2e}"))
}

fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).expect("a row") as u32
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    error / want.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>()
}

fn mean_kl(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let rows = got.chunks(vocab).zip(want.chunks(vocab));
    let of_row = |(got, want): (&[f32], &[f32])| -> f64 {
        let (lg, lw) = (log_sum(got), log_sum(want));
        let term = |(&g, &w): (&f32, &f32)| {
            let (log_w, log_g) = (f64::from(w) - lw, f64::from(g) - lg);
            log_w.exp() * (log_w - log_g)
        };
        got.iter().zip(want).map(term).sum()
    };
    let count = want.len() / vocab;
    rows.map(of_row).sum::<f64>() / count as f64
}

fn log_sum(row: &[f32]) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    f64::from(max) + row.iter().map(|&v| f64::from(v - max).exp()).sum::<f64>().ln()
}
