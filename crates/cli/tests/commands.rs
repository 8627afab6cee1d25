//! What the commands print, on tiny models.

use crate::support::{Run, command, finished, folder, run, run_with_input, text, tiny};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

fn model() -> PathBuf {
    tiny("tiny-llama", "q4_0")
}

fn json(run: &Run) -> Value {
    serde_json::from_slice(&run.out).unwrap_or_else(|e| panic!("{e} in {}", run.text()))
}

#[test]
fn a_seed_gives_the_same_text_again() {
    let path = model();
    let answer = |seed: &str, more: &[&str]| {
        let args = ["run", text(&path), "-p", "Once upon a time", "-n", "24", "--no-template", "--seed", seed];
        run(&[&args[..], more].concat()).ok()
    };
    let one = answer("1", &[]);
    assert!(!one.out.is_empty() && one.out.ends_with(b"\n"));
    assert_eq!(answer("1", &[]).out, one.out);
    assert_eq!(answer("1", &["-t", "1"]).out, one.out, "threads make no difference");
    assert!(!answer("1", &["--ubatch-size", "3"]).out.is_empty());
    assert_ne!(answer("2", &[]).out, one.out);
    let greedy = answer("1", &["--temp", "0"]);
    assert_eq!(answer("2", &["--temp", "0"]).out, greedy.out, "greedy needs no seed");
    assert_eq!(answer("2", &["--top-k", "1"]).out, greedy.out);
    assert!(!one.out.contains(&0x1b), "no colours in a pipe");
}

#[test]
fn a_run_says_what_it_did_in_one_line() {
    let path = model();
    let ran = run(&["run", "-m", text(&path), "-p", "Hello", "-n", "8", "--temp", "0", "--no-template"]).ok();
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.contains("tok/s")).collect();
    assert_eq!(lines.len(), 1, "{}", ran.err);
    for part in ["prompt ", "decode 8 tokens", "kernels in", "stages a token", "GB/s read"] {
        assert!(lines[0].contains(part), "{part} in {}", lines[0]);
    }
    assert!(ran.err.contains("device: cpu") && ran.err.contains("memory: cache"), "{}", ran.err);
}

#[test]
fn a_first_run_begins_before_the_kernels_of_its_prompt_are_compiled() {
    let path = model();
    let fresh = |name: &str| {
        let cache = folder().join(name);
        let _ = std::fs::remove_dir_all(&cache);
        cache
    };
    let prompt = "one two three four five six seven eight nine ten";
    let answer = |cache: &PathBuf, more: &[&str]| {
        let base = ["run", text(&path), "-p", prompt, "-n", "4", "--no-template", "--temp", "0"];
        let mut command = command(&[&base[..], &["--kernel-cache", text(cache)], more].concat());
        command.env_remove("KERNLOOM_WAIT_FOR_KERNELS");
        finished(command.output().expect("it runs")).ok()
    };
    let stood_in = "by other kernels, as theirs were not compiled yet";
    let cold = answer(&fresh("begins"), &[]);
    assert!(cold.err.contains(stood_in) && cold.err.contains("kernels for 1 token"), "{}", cold.err);
    assert!(!cold.err.contains("kernels for many"), "{}", cold.err);
    let cache = fresh("waits");
    let cold = answer(&cache, &["--wait-for-kernels"]);
    assert!(!cold.err.contains(stood_in) && cold.err.contains("kernels for many"), "{}", cold.err);
    let warm = answer(&cache, &[]);
    assert!(!warm.err.contains(stood_in) && !warm.err.contains("compiled"), "{}", warm.err);
    assert_eq!(warm.out, cold.out);
}

#[test]
fn doctor_times_a_start() {
    let path = model();
    let started = run(&["doctor", "--startup", "--json", text(&path)]).ok();
    let rows = json(&started);
    let all = |part: &str| rows[part].as_array().expect("rows").clone();
    let of = |part: &str, what: &str| {
        let found = all(part).into_iter().find(|row| row["what"].as_str().is_some_and(|text| text.contains(what)));
        found.unwrap_or_else(|| panic!("{what} in {rows}"))["seconds"].as_f64().expect("a number")
    };
    for what in ["vocabulary", "for 1 token to C", "kernels in", "loading", "first step"] {
        assert!(of("first_token", what) >= 0.0);
    }
    assert!(of("first_token", "kernels in") > 0.01, "compilers take their time: {rows}");
    assert!(of("behind_it", "for many tokens to C") > 0.0);
    assert!(run(&["doctor", text(&path)]).error(2).contains("--startup"));
}

#[test]
fn the_bandwidth_is_measured_beside_what_it_bounds_and_kept_nowhere() {
    let (path, lock) = (model(), folder().join("bandwidth.lock"));
    // What an earlier version kept would allow more than any machine reads.
    let kept = folder().join("cache/kernloom/bandwidth.json");
    let threads = |n: usize| format!("\"{}, {n} threads\": 1e18", device::host::processor::name());
    std::fs::create_dir_all(kept.parent().expect("a folder")).expect("a folder");
    let text_of_old = format!("{{{}}}", (1..64).map(threads).collect::<Vec<_>>().join(","));
    std::fs::write(&kept, &text_of_old).expect("a file of old");
    let bench = ["bench", "-m", text(&path), "-p", "12", "-n", "4", "-r", "2", "-o", "json", "--lock", text(&lock)];
    let rows = json(&run(&bench).ok());
    let of = |row: usize, key: &str| rows[row][key].as_f64();
    assert_eq!([of(0, "bandwidth"), of(0, "limit_ts"), of(0, "share")], [None; 3], "a prompt is not bound by it");
    let read = of(1, "bandwidth").expect("it was measured");
    assert!((1e8..1e13).contains(&read), "{read}");
    let limit = read / of(1, "bytes_per_token").expect("a number");
    assert!((of(1, "limit_ts").expect("a number") / limit - 1.0).abs() < 1e-9);
    assert!((of(1, "share").expect("a number") * limit / of(1, "avg_ts").expect("a number") - 1.0).abs() < 1e-9);
    assert_eq!(std::fs::read_to_string(&kept).expect("the file"), text_of_old, "nothing is kept any more");
    std::fs::remove_file(kept).expect("it was there");
}

#[test]
fn prompts_come_from_anywhere() {
    let path = model();
    let path = text(&path);
    let rest = ["-n", "6", "--temp", "0"];
    let given = run(&[&["run", path, "-p", "Hello there"], &rest[..]].concat()).ok();
    let piped = run_with_input(&[&["run", path], &rest[..]].concat(), b"Hello there\n").ok();
    assert_eq!(piped.out, given.out);
    let file = folder().join("prompt.txt");
    std::fs::write(&file, "Hello there").expect("a test file");
    assert_eq!(run(&[&["run", path, "-f", text(&file)], &rest[..]].concat()).ok().out, given.out);
    // The form without a command, whose number of tokens is called a count.
    let classic = ["--model", path, "--prompt", "Hello there", "--count", "6"];
    let err = run(&classic).ok().err;
    let count = err.split("decode ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse().ok());
    // Any token may end the text: the seed is another each time.
    assert!(count.is_some_and(|n: usize| n <= 6), "{err}");
    let system = run(&[&["run", path, "-p", "Hello there", "-sys", "Be brief."], &rest[..]].concat()).ok();
    assert!(system.err.contains("prompt ") && system.err != given.err);
}

#[test]
fn generation_ends_where_it_should() {
    let path = model();
    let path = text(&path);
    let base = ["run", path, "-p", "Hello", "--no-template", "--temp", "0"];
    let whole = run(&[&base[..], &["-n", "12"]].concat()).ok();
    let shown = whole.text().trim_end_matches('\n');
    let stop: String = shown.chars().skip(4).take(2).collect();
    let cut = run(&[&base[..], &["-n", "12", "--stop", &stop]].concat()).ok();
    assert_eq!(cut.text().trim_end_matches('\n'), shown.split(&stop).next().expect("a part"));
    assert_eq!(run(&[&base[..], &["-n", "0"]].concat()).ok().out, b"");
}

#[test]
fn numerics_and_levels_agree() {
    let path = model();
    let logits = |more: &[&str]| {
        let out = folder().join(format!("levels-{}.f32", more.join("")));
        let args =
            ["logits", text(&path), "--tokens", "1,2,3,4,5,6,7,8,9,10", "--out", text(&out), "--numerics", "exact"];
        run(&[&args[..], more].concat()).ok();
        crate::support::floats(&std::fs::read(out).expect("logits"))
    };
    let (best, scalar, unfused) = (logits(&[]), logits(&["--isa", "scalar"]), logits(&["--fuse", "off"]));
    let near = |a: &[f32], b: &[f32]| {
        let error: f32 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
        error <= 1e-9 * b.iter().map(|b| b * b).sum::<f32>()
    };
    assert_eq!(best.len(), 10 * 512);
    assert!(near(&best, &scalar) && near(&best, &unfused));
    assert_eq!(unfused, logits(&["--without", "fuse"]));
    assert_eq!(best, logits(&["--fuse", "on"]));
    let piped = run(&["logits", text(&path), "--tokens", "1", "--out", "-", "--numerics", "exact"]).ok();
    assert_eq!(piped.out.len(), 512 * 4);
}

#[test]
fn logits_of_a_model_that_remembers_take_as_many_tokens_a_step_as_it_can() {
    let (path, out) = (tiny("tiny-mamba2", "q8_0"), folder().join("remembered.f32"));
    let tokens: Vec<String> = (0..150).map(|id| id.to_string()).collect();
    run(&["logits", text(&path), "--tokens", &tokens.join(","), "--out", text(&out)]).ok();
    assert_eq!(std::fs::read(out).expect("logits").len(), tokens.len() * 512 * 4);
}

#[test]
fn the_interpreter_speaks_too() {
    let path = tiny("tiny-mla-moe", "q4_k_m");
    let answer = |more: &[&str]| {
        let base = ["run", text(&path), "-p", "Hi", "-n", "4", "--no-template", "--temp", "0", "--numerics", "exact"];
        run(&[&base[..], more].concat()).ok()
    };
    let interpreted = answer(&["--device", "interpreter"]);
    assert_eq!(interpreted.out, answer(&["--device", "cpu"]).out);
    assert!(interpreted.err.contains("device: interpreter"));
    let speed = run(&["bench", "-m", text(&path), "--device", "interpreter"]);
    assert!(speed.error(1).contains("--device cpu"), "{}", speed.err);
}

#[test]
fn prompts_may_have_threads_of_their_own() {
    let (path, lock) = (model(), folder().join("threads.lock"));
    let base =
        ["bench", "-m", text(&path), "-p", "12", "-n", "2", "-r", "1", "--bandwidth", "20", "--lock", text(&lock)];
    let bench = |more: &[&str]| run(&[&base[..], more].concat()).ok();
    let rows = json(&bench(&["-t", "1", "-tb", "3", "-o", "json"]));
    assert_eq!((rows[0]["n_threads"].as_u64(), rows[0]["n_threads_batch"].as_u64()), (Some(1), Some(3)));
    let table = bench(&["-t", "1", "--threads-batch", "3"]);
    assert!(table.text().contains(" 1/3 "), "{}", table.text());
    assert!(table.err.contains("1 threads (3 for prompts)"), "{}", table.err);
    // Threads do not change results.
    let prompt = "one two three four five six seven eight nine ten";
    let answer = |more: &[&str]| {
        let base = ["run", text(&path), "-p", prompt, "-n", "8", "--no-template", "--temp", "0", "-t", "1"];
        run(&[&base[..], more].concat()).ok().out
    };
    assert_eq!(answer(&[]), answer(&["-tb", "4"]));
    assert!(run(&["run", text(&path), "-p", "a", "-tb", "0"]).error(2).contains("--threads-batch"));
}

#[test]
fn bench_speaks_as_llama_bench_does() {
    let path = model();
    let lock = folder().join("bench.lock");
    let base = ["bench", "-m", text(&path), "-p", "12", "-n", "4", "-d", "0,20", "-r", "3"];
    let bench = |more: &[&str]| run(&[&base[..], &["--bandwidth", "20", "--lock", text(&lock)], more].concat()).ok();
    let rows = json(&bench(&["-o", "json"]));
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 4);
    for row in rows {
        for key in [
            "build_commit",
            "build_number",
            "cpu_info",
            "gpu_info",
            "backends",
            "model_filename",
            "model_type",
            "model_size",
            "model_n_params",
            "n_batch",
            "n_ubatch",
            "n_threads",
            "type_k",
            "type_v",
            "n_gpu_layers",
            "n_prompt",
            "n_gen",
            "n_depth",
            "test_time",
            "avg_ns",
            "stddev_ns",
            "avg_ts",
            "stddev_ts",
            "samples_ns",
            "samples_ts",
            "kernels",
            "stages",
            "bytes_per_token",
            "limit_ts",
            "share",
        ] {
            assert!(row.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(row["samples_ns"].as_array().map(Vec::len), Some(3));
        let mean = row["avg_ts"].as_f64().expect("a number");
        let samples = row["samples_ts"].as_array().expect("samples").iter().map(|v| v.as_f64().expect("a number"));
        assert!((samples.sum::<f64>() / 3.0 - mean).abs() < 1e-6 * mean);
    }
    let tests: Vec<[u64; 3]> =
        rows.iter().map(|r| ["n_prompt", "n_gen", "n_depth"].map(|k| r[k].as_u64().expect("a number"))).collect();
    assert_eq!(tests, [[12, 0, 0], [0, 4, 0], [12, 0, 20], [0, 4, 20]]);
    assert!(rows[3]["bytes_per_token"].as_u64() > rows[1]["bytes_per_token"].as_u64(), "the cache is read too");
    let file = folder().join("report.json");
    let table = bench(&["--report", text(&file)]);
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(report["demo"]["outcome"], "ok", "{}", report["demo"]);
    let devices = report["devices"].as_array().expect("devices");
    assert!(devices.iter().any(|device| device["name"] == "cpu"), "{devices:?}");
    let lines: Vec<&str> = table.text().lines().collect();
    assert!(lines[0].starts_with("| model") && lines[0].contains("| threads |"), "{}", lines[0]);
    for column in ["test", "t/s", "kernels", "MB/token", "limit t/s", "share"] {
        assert!(lines[0].contains(column), "{column} in {}", lines[0]);
    }
    let cells: Vec<&str> = lines[5].split('|').map(str::trim).collect();
    assert!(cells.contains(&"tg4 @ d20") && lines[5].contains(" ± "), "{}", lines[5]);
    let csv = bench(&["-o", "csv"]);
    assert_eq!(csv.text().lines().count(), 5);
    assert!(csv.text().lines().nth(1).is_some_and(|line| line.contains("\"tiny") || line.contains("\"llama")));
    let lines = bench(&["-o", "jsonl", "--prompt-and-gen", "5,3"]);
    let objects = lines.text().lines().filter(|l| serde_json::from_str::<Value>(l).is_ok_and(|v| v.is_object()));
    assert_eq!(objects.count(), 6);
    let block = bench(&["--block"]);
    assert!(block.text().contains("block ") && block.text().contains("feed-forward "), "{}", block.text());
    let times = |text: &str| -> usize {
        let number = text.split("(medians of ").nth(1).and_then(|rest| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    assert!(times(block.text().lines().next().unwrap_or("")) >= 30, "{}", block.text());
    let block = bench(&["--block", "100"]);
    assert!((100..200).contains(&times(block.text().lines().next().unwrap_or(""))), "{}", block.text());
    // The form without a command.
    let classic = run(&["--model", text(&path), "--benchmark", "3"]).ok();
    assert!(classic.text().contains("tg3"), "{}", classic.text());
}

#[test]
fn bench_takes_turns_with_another_setting() {
    let path = model();
    let lock = folder().join("turns.lock");
    let base = ["bench", "-m", text(&path), "-p", "12", "-n", "4", "--bandwidth", "20", "--lock", text(&lock)];
    let turns = |more: &[&str]| run(&[&base[..], more].concat());
    let whole = json(&turns(&["--ab", "--without merge -t 1", "--rounds", "3", "-o", "json"]).ok());
    assert_eq!(whole["b"], "--without merge -t 1");
    let tests = whole["tests"].as_array().expect("tests");
    assert_eq!(tests.iter().map(|t| t["test"].as_str().expect("a name")).collect::<Vec<_>>(), ["pp12", "tg4"]);
    for test in tests {
        let speeds = |side: &str| -> Vec<f64> {
            test[side].as_array().expect("speeds").iter().map(|v| v.as_f64().expect("a number")).collect()
        };
        let mut ratios: Vec<f64> = speeds("a_ts").iter().zip(speeds("b_ts")).map(|(a, b)| b / a).collect();
        ratios.sort_by(f64::total_cmp);
        assert_eq!(ratios.len(), 3);
        for (key, want) in ["least", "ratio", "most"].iter().zip(ratios) {
            assert!((test[*key].as_f64().expect("a number") - want).abs() < 1e-9 * want, "{key} of {test}");
        }
    }
    let table = turns(&["--ab", "", "-r", "2"]).ok();
    assert!(table.text().starts_with("| test") && table.text().contains("medians of 2 rounds"), "{}", table.text());
    assert!(turns(&["--ab", "--nonsense"]).error(2).contains("--nonsense"));
    assert!(turns(&["--ab", "--without nonsense"]).error(2).contains("nonsense"));
}

#[test]
fn bench_leaves_out_each_pass_and_writes_the_table() {
    let path = model();
    let lock = folder().join("each-off.lock");
    let table = folder().join("each-off.md");
    let marks = ["<!-- bench --each-off: begin -->", "<!-- bench --each-off: end -->"];
    let before = "| idea | switch |\n|---|---|\n| gate and up | `merge` |\n| planes | `planes` |\n| other | none |";
    std::fs::write(&table, format!("Text.\n{}\n{before}\n{}\nMore.\n", marks[0], marks[1])).expect("a file");
    let args = ["bench", "-m", text(&path), "-p", "0", "-n", "2", "--rounds", "1", "--each-off", "--lock", text(&lock)];
    let whole = json(&run(&[&args[..], &["--into", text(&table), "-o", "json"]].concat()).ok());
    let rows = whole["rows"].as_array().expect("rows");
    let passes = run(&["passes"]).ok();
    assert_eq!(rows.len(), passes.text().lines().filter(|line| !line.contains("all of: ")).count());
    let row = |name: &str| rows.iter().find(|row| row["switch"] == name).unwrap_or_else(|| panic!("{name}"));
    let more = |name: &str| row(name)["kernels"].as_u64() > whole["with_everything"][0]["kernels"].as_u64();
    assert!(more("merge") && more("fuse") && more("factor"), "{whole}");
    assert!(row("planes")["same_program"] == true && row("dot")["same_program"] == false, "{whole}");
    let filled = std::fs::read_to_string(&table).expect("the file");
    assert!(filled.starts_with("Text.\n") && filled.ends_with("More.\n"), "{filled}");
    let merge = filled.lines().find(|line| line.contains("`merge`")).expect("a row");
    assert!(merge.contains(&format!("| {} |", row("merge")["kernels"])), "{merge}");
    assert!(filled.contains("| other | none | - |") && filled.contains("With everything: "), "{filled}");
    // What changes nothing there is looked for elsewhere: integer scores need a cache in 8 bits.
    assert!(row("codes")["same_program"] == true, "{whole}");
    let also = ["-n", "0", "-o", "json", "--also", "-ctk q8_0"];
    let also = json(&run(&[&args[..5], &also, &args[7..]].concat()).ok());
    let rows = also["rows"].as_array().expect("rows");
    let on = |name: &str| rows.iter().find(|row| row["switch"] == name).unwrap_or_else(|| panic!("{name}"));
    assert!(on("codes")["same_program"] == false, "{also}");
    assert!(on("codes")["on"].as_str().is_some_and(|on| on.ends_with(", -ctk q8_0")), "{also}");
    assert_eq!(on("merge")["on"], also["with_everything"][0]["model"]);
    assert!(run(&[&args[..], &["--also", "--nonsense"]].concat()).error(2).contains("--also '--nonsense'"));
    std::fs::write(&table, "nothing").expect("a file");
    assert!(run(&[&args[..], &["--into", text(&table)]].concat()).error(1).contains("bench --each-off: begin"));
}

#[test]
fn bench_measures_the_machine_without_a_model() {
    let lock = folder().join("machine.lock");
    let peaks = json(&run(&["bench", "--machine", "-o", "json", "--lock", text(&lock)]).ok());
    for key in ["read_gb_per_s", "int8_gmac_per_s", "f32_gmac_per_s"] {
        assert!(peaks[key].as_f64().is_some_and(|peak| peak > 0.0), "{key} in {peaks}");
    }
    assert!(run(&["bench", "--machine", "--lock", text(&lock)]).ok().text().contains("GB/s"));
}

#[test]
fn every_pass_has_a_place_in_the_table_of_optimisations() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/optimisations.md"));
    let table = table.expect("the table");
    for line in run(&["passes"]).ok().text().lines().filter(|line| !line.contains("all of: ")) {
        let name = line.split(' ').next().expect("a name");
        assert!(table.contains(&format!("| `{name}` |")), "{name} is not in docs/optimisations.md");
    }
}

#[test]
fn bench_decodes_many_sequences_at_a_time() {
    let path = tiny("tiny-llama", "q4_0");
    let lock = folder().join("batched.lock");
    let base = ["bench", "-m", text(&path), "-p", "30", "-n", "4", "-np", "1,3,9", "-r", "1"];
    let bench = |more: &[&str]| run(&[&base[..], &["--bandwidth", "20", "--lock", text(&lock)], more].concat()).ok();
    let table = bench(&[]);
    let lines: Vec<&str> = table.text().lines().collect();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).filter(|c| !c.is_empty()).collect();
    let heading: Vec<String> = cells(lines[0]);
    assert_eq!(heading.join("|"), "PP|TG|B|N_KV|T_PP s|S_PP t/s|T_TG s|S_TG t/s|T s|S t/s");
    let row: Vec<String> = cells(lines[4]);
    assert_eq!(row[..4].join(" "), "30 4 9 306");
    let rows = json(&bench(&["-o", "json"]));
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["speed_tg"].as_f64().is_some_and(|speed| speed > 0.0)), "{rows:?}");
    // Prompts that end in a step of their own go on from where their sequence is remembered.
    let remembers = tiny("tiny-lfm2", "q4_0");
    let base = ["bench", "-m", text(&remembers), "-p", "40", "-n", "2", "-np", "3", "-r", "1", "-ub", "32"];
    run(&[&base[..], &["--bandwidth", "20", "--lock", text(&lock)]].concat()).ok();
}

#[test]
fn a_second_measurement_waits_and_says_for_whom() {
    let path = model();
    let lock = folder().join("waits.lock");
    let held = device::MachineLock::acquire(&lock, |_| panic!("nobody measures here")).expect("a lock");
    let args = ["bench", "-m", text(&path), "-p", "0", "-n", "2", "-r", "1", "--bandwidth", "9", "--lock", text(&lock)];
    let mut child = command(&args).spawn().expect("the program starts");
    let mut err = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let waiting = err.find_map(|line| line.ok().filter(|l| l.contains("waiting for"))).expect("a word");
    assert!(waiting.contains(&format!("process {}", std::process::id())), "{waiting}");
    assert!(child.try_wait().expect("a child").is_none());
    drop(held);
    drop(err);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn profile_explains_a_step() {
    let path = tiny("tiny-mla-moe", "q4_k_m");
    let (lock, trace) = (folder().join("profile.lock"), folder().join("trace.json"));
    let base = ["profile", "-m", text(&path), "-n", "5", "--bandwidth", "20", "--lock", text(&lock)];
    let profile = |more: &[&str]| run(&[&base[..], more].concat()).ok();
    let all = json(&profile(&["--json", "--trace", text(&trace)]));
    let lines = all["lines"].as_array().expect("lines");
    let sum = |key: &str| lines.iter().map(|l| l[key].as_f64().expect("a number")).sum::<f64>();
    assert_eq!(sum("count") as u64, all["kernels"].as_u64().expect("a number"));
    let of_part = |part: &str, key: &str| {
        let lines = lines.iter().filter(|l| l["part"] == part);
        lines.map(|l| l[key].as_f64().expect("a number")).sum::<f64>()
    };
    assert_eq!(of_part("blk.*.attn", "count") % 3.0, 0.0, "layers have equal kernels in attention");
    assert!(of_part("blk.*.ffn", "ns") > 0.0 && of_part("", "count") > 1.0);
    let deep = json(&profile(&["--json", "-d", "70", "--kernel", "blk.*.attn"]));
    let attention = deep["lines"].as_array().expect("lines").iter().filter(|l| l["part"] == "blk.*.attn");
    // The cache of 3 layers, 71 rows of 288 halves, is read by kernels that read no weights.
    let cache = attention.filter(|l| !l["origin"].as_str().is_some_and(|o| o.contains("blk.")));
    let cache: f64 = cache.map(|l| l["bytes"].as_f64().expect("a number")).sum();
    assert_eq!(cache, f64::from(3 * 71 * (256 + 32) * 2), "{deep}");
    let (rest, whole) = (all["rest_ns"].as_f64().expect("a number"), all["sum_ns"].as_f64().expect("a number"));
    assert!((sum("ns") + rest - whole).abs() <= 1e-9 * whole, "{} + {rest} is not {whole}", sum("ns"));
    assert!(all["output"] == "logits" && all["steps_ahead"] == 0, "of a processor: {all}");
    assert!(all["none_ahead_because"].as_str().is_some_and(|why| why.contains("this device")), "{all}");
    let (hits, misses) = (all["schedule_cache_hits"].as_u64(), all["schedule_cache_misses"].as_u64());
    assert_eq!(hits.zip(misses).map(|(h, m)| h + m), all["kernels"].as_u64());
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let kernels = events.iter().filter(|e| e["ph"] == "X" && e["tid"] == 2).count();
    assert_eq!(kernels as u64, all["kernels"].as_u64().expect("a number"));
    let table = profile(&["-d", "70"]);
    let last = table.text().lines().last().expect("a line");
    for part in ["kernels in", "stages", "hits", "misses", "MB a step", "limit", "reached", "% of it"] {
        assert!(last.contains(part), "{part} in {last}");
    }
    assert!(table.text().contains("steps ahead: none ("), "{}", table.text());
    assert!(table.text().contains("by the host's clock") && table.text().contains("blk.*."), "{}", table.text());
    // As people guess it.
    let guessed = ["profile", text(&path), "3", "--with-source", "--json", "--bandwidth", "20", "--lock", text(&lock)];
    assert_eq!(json(&run(&guessed).ok())["steps"], 3);
    let one = profile(&["--kernel", "ffn_down", "--source"]);
    assert!(one.text().contains("ffn_down") && one.text().contains("int64_t"), "{}", one.text());
    assert!(one.text().lines().count() > 10 && !one.text().contains("blk.*.attn_q_b "), "{}", one.text());
    let prompt = profile(&["-p", "16"]);
    assert!(
        prompt.text().contains("kernels in") && prompt.text().contains("steps ahead: none (the tokens of a prompt")
    );
    assert!(prompt.text().contains("choice blk.*.experts: slots "), "{}", prompt.text());
}

#[test]
fn debug_shows_what_the_compiler_did() {
    let path = model();
    let err = |level: &str| run(&["run", text(&path), "-p", "x", "-n", "1", "--debug", level]).ok().err;
    let (schedule, all) = (err("1"), err("6"));
    assert!(schedule.contains("stage 0: ") && !schedule.contains("schedule cache"), "{schedule}");
    for part in ["stage 0: ", "kernel k0_", "path blk.0.", "schedule cache", "int64_t begin", "IR of k0_", ".globl"] {
        assert!(all.contains(part), "{part}");
    }
}

#[test]
fn perplexity_and_the_distance_from_a_reference() {
    let path = tiny("tiny-llama", "q8_0");
    let (file, base) = (folder().join("text.txt"), folder().join("base.logits"));
    std::fs::write(&file, "the quick brown fox jumps over the lazy dog. ".repeat(20)).expect("a test file");
    let args = ["perplexity", "-m", text(&path), "-f", text(&file), "-c", "64"];
    let exact = run(&[&args[..], &["--numerics", "exact", "--save-logits", text(&base)]].concat()).ok();
    assert!(exact.text().starts_with("PPL = "), "{}", exact.text());
    let same = run(&["perplexity", text(&path), "--kl-base", text(&base), "--numerics", "exact"]).ok();
    let value = |text: &str, key: &str| -> f64 {
        let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_else(|| panic!("{key} in {text}"));
        line.split_whitespace().next().expect("a number").trim_end_matches(',').parse().expect("a number")
    };
    assert_eq!(value(same.text(), "PPL = "), value(exact.text(), "PPL = "));
    assert!(value(same.text(), "mean KLD = ").abs() < 1e-5, "{}", same.text());
    let named = ["perplexity", "-m", text(&path), "--kl-base", text(&base), "--numerics", "exact", "-f"];
    assert_eq!(run(&[&named[..], &[text(&file)]].concat()).ok().out, same.out, "the text says nothing new");
    let changed = folder().join("changed.txt");
    std::fs::write(&changed, "the quick brown fox jumps over the lazy cat. ".repeat(20)).expect("a test file");
    let changed = run(&[&named[..], &[text(&changed)]].concat());
    assert!(changed.error(1).contains("another text: its token"), "{}", changed.err);
    let int8 = run(&["perplexity", text(&path), "--kl-base", text(&base)]).ok();
    let distance = value(int8.text(), "mean KLD = ");
    assert!((0.0..0.01).contains(&distance), "{}", int8.text());
    let steps = run(&[&args[..], &["--numerics", "exact", "--ubatch-size", "5", "--chunks", "2"]].concat()).ok();
    assert!(steps.text().contains("2 windows of 64"), "{}", steps.text());
    let short = run_with_input(&["perplexity", text(&path), "-f", "-", "-c", "64"], b"too short");
    assert!(short.error(1).contains("128 are needed"), "{}", short.err);
    let wrong = run(&["perplexity", text(&path), "--kl-base", text(&file)]);
    assert!(wrong.error(1).contains("no file of saved logits"), "{}", wrong.err);
    let other = tiny("tiny-qwen3", "q4_0");
    assert_eq!(run(&["perplexity", text(&other), "--kl-base", text(&base), "-t", "1"]).code, 0, "the same vocabulary");
}

#[test]
fn show_knows_the_file_and_its_needs() {
    let path = tiny("tiny-mla-moe", "q4_k_m");
    let all = json(&run(&["show", "--json", text(&path), "-c", "1000"]).ok());
    assert_eq!(all["config"]["architecture"], "deepseek2");
    // The whole configuration, as it can be read back; of the angles, the last bit of a number in JSON may differ.
    let mut config: model::config::Config = serde_json::from_value(all["config"].clone()).expect("a configuration");
    let file = gguf::Gguf::open(&path).expect("a model");
    let of_file = model::config::Config::read(&file).expect("a configuration");
    let near = config.rope.theta.iter().zip(&of_file.rope.theta).all(|(a, b)| (a - b).abs() <= 1e-15 * b.abs());
    assert!(near && config.rope.theta.len() == of_file.rope.theta.len(), "{:?}", config.rope);
    config.rope.theta.clone_from(&of_file.rope.theta);
    assert_eq!(config, of_file);
    assert_eq!(all["metadata"]["general.architecture"], "deepseek2");
    assert_eq!(all["memory"]["context"], 1000);
    let tensors = all["tensors"].as_array().expect("tensors");
    let bytes = |list: &Value| {
        list.as_array().expect("a list").iter().map(|t| t["bytes"].as_u64().expect("bytes")).sum::<u64>()
    };
    assert_eq!(bytes(&all["tensors"]), bytes(&all["types"]));
    assert!(all["weight_bytes_per_token"].as_u64().expect("bytes") < bytes(&all["tensors"]));
    assert!(all["cache_bytes_per_position"].as_u64() == Some(3 * (256 + 32) * 2));
    let shown = run(&["show", text(&path)]).ok();
    for part in
        ["metadata: ", "configuration", &format!("tensors: {}", tensors.len()), "a token reads", "memory: cache"]
    {
        assert!(shown.text().contains(part), "{part} in {}", shown.text());
    }
    assert_eq!(shown.err, "");
    let again = run(&["info", text(&path)]).ok();
    assert_eq!(again.text().lines().next(), shown.text().lines().next());
}

#[test]
fn synth_is_reproducible() {
    let make = |name: &str, seed: &str| {
        let out = folder().join(name);
        let args = ["synth", "tiny-qwen3moe", "--quant", "q6_k", "--layers", "1", "--seed", seed, "--out", text(&out)];
        assert!(run(&args).ok().text().contains("tiny-qwen3moe q6_k"));
        std::fs::read(out).expect("a model")
    };
    let (one, two, three) = (make("one.gguf", "1"), make("two.gguf", "1"), make("three.gguf", "2"));
    assert!(one == two && one != three && one.len() == three.len());
    let unwritable = run(&["synth", "tiny-llama", "--out", "/nowhere/x.gguf"]);
    assert!(unwritable.error(1).contains("/nowhere/x.gguf"), "{}", unwritable.err);
}

#[test]
fn passes_and_completions() {
    let passes = run(&["passes"]).ok();
    assert!(passes.text().lines().any(|line| line.split(' ').next() == Some("fuse")), "{}", passes.text());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&["completions", shell]).ok().text().contains("kernloom"), "{shell}");
    }
}

#[test]
fn an_empty_pipe_is_an_empty_prompt() {
    // The template still frames it.
    let path = model();
    let ran = finished(command(&["run", text(&path), "-n", "2", "--temp", "0"]).output().expect("the program starts"));
    assert_eq!(ran.code, 0, "{}", ran.err);
}
