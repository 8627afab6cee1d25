//! Commands about the machine and the installation: `smoke`, `doctor`, `man`.

use crate::support::{command, finished, folder, run, text, tiny};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// What the model that comes with the program says.
fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/smoke/demo.json")
}

#[test]
fn smoke_compares_with_what_was_kept() {
    let references = folder().join("references");
    let _ = std::fs::remove_dir_all(&references);
    let model = tiny("tiny-llama", "q4_0");
    let args = ["smoke", text(&model), "--references", text(&references), "-n", "6"];
    let first = run(&args).ok();
    let lines: Vec<&str> = first.text().lines().collect();
    assert!(lines[0].starts_with("ok") && lines[0].contains("kernloom-demo"), "{}", first.text());
    assert!(lines[1].starts_with("new") && lines[1].contains("kept as the reference in"), "{}", first.text());
    let second = run(&args).ok();
    assert!(second.text().lines().all(|line| line.starts_with("ok")), "{}", second.text());
    // Fewer tokens than were kept are compared as far as they go.
    assert!(run(&[&args[..4], &["-n", "2"]].concat()).ok().text().matches("ok ").count() == 2);
    let kept = std::fs::read_dir(&references).expect("a folder").next().expect("a file").expect("a file").path();
    let mut reference: Value = serde_json::from_slice(&std::fs::read(&kept).expect("a file")).expect("JSON");
    let third = reference["tokens"][2].as_u64().expect("an id");
    reference["tokens"][2] = json!(third ^ 1);
    std::fs::write(&kept, reference.to_string()).expect("a file");
    let third = run(&args);
    assert!(third.error(1).contains("1 of 2 models"), "{}", third.err);
    assert!(third.text().contains("DIFFERS") && third.text().contains("token 3 is "), "{}", third.text());
    run(&[&args[..], &["--update"]].concat()).ok();
    run(&args).ok();
}

#[test]
fn smoke_finds_models_in_a_folder_and_says_which_cannot_be_run() {
    let models = folder().join("models");
    let _ = std::fs::remove_dir_all(&models);
    std::fs::create_dir_all(models.join("inner")).expect("a folder");
    std::fs::copy(tiny("tiny-llama", "q4_0"), models.join("inner/good.gguf")).expect("a copy");
    std::fs::write(models.join("bad.gguf"), "no model").expect("a file");
    std::fs::write(models.join("readme.txt"), "no model").expect("a file");
    let references = folder().join("folder-references");
    let all = run(&["smoke", "--models", text(&models), "--references", text(&references), "--json", "-n", "3"]);
    assert!(all.error(1).contains("1 of 3 models"), "{}", all.err);
    let rows: Value = serde_json::from_slice(&all.out).expect("JSON");
    let outcomes: Vec<&str> = rows.as_array().expect("rows").iter().filter_map(|row| row["outcome"].as_str()).collect();
    assert!(outcomes[..2] == ["ok", "FAILED"], "{outcomes:?}");
    assert!(run(&["smoke", "--models", "/nowhere"]).error(1).contains("/nowhere"));
}

#[test]
fn the_demo_says_the_same_at_every_level() {
    for level in ["scalar", "avx2"] {
        if level.parse::<device::Isa>().expect("a level").is_available() {
            run(&["smoke", "--isa", level]).ok();
        }
    }
    run(&["smoke", "--numerics", "exact"]).ok();
}

#[test]
#[ignore = "writes what the demo must say, when the model has changed"]
fn write_what_the_demo_says() {
    let mut all = Map::new();
    for numerics in ["exact", "int8"] {
        let said = run(&["smoke", "--json", "--numerics", numerics]);
        let rows: Value = serde_json::from_slice(&said.out).expect("JSON");
        all.insert(numerics.into(), rows[0]["said"].clone());
    }
    let text = serde_json::to_string_pretty(&all).expect("JSON");
    std::fs::write(demo(), text + "\n").expect("a file");
}

#[test]
fn doctor_finds_what_there_is() {
    let all = run(&["doctor", "--json"]).ok();
    let findings: Value = serde_json::from_slice(&all.out).expect("JSON");
    let findings = findings.as_array().expect("findings");
    for area in ["version", "compiler", "instructions", "threads", "memory", "kernel cache", "kernels", "devices"] {
        assert!(findings.iter().any(|f| f["area"] == area && f["state"] != "missing"), "{area} in {}", all.text());
    }
    let table = run(&["doctor"]).ok();
    assert!(table.text().contains("one was compiled, loaded and run"), "{}", table.text());
}

#[test]
fn doctor_says_what_to_install() {
    let nothing = folder().join("doctor-without-kernels");
    let doctor = ["doctor", "--kernel-cache", text(&nothing)];
    let ran = finished(command(&doctor).env("PATH", "").output().expect("the program starts"));
    assert!(ran.error(1).contains("missing"), "{}", ran.err);
    assert!(ran.text().contains("apt install gcc"), "{}", ran.text());
    let bad = run(&["doctor", "--cc", "/nowhere/cc"]);
    assert!(bad.error(1).contains("missing") && bad.text().contains("/nowhere/cc"), "{}", bad.text());
}

#[test]
fn manual_pages_of_all_commands() {
    let pages = folder().join("man");
    let _ = std::fs::remove_dir_all(&pages);
    run(&["man", "--out", text(&pages)]).ok();
    for page in ["kernloom.1", "kernloom-run.1", "kernloom-serve.1", "kernloom-doctor.1"] {
        let page = std::fs::read_to_string(pages.join(page)).expect("a page");
        assert!(page.contains(".TH ") && page.contains("kernloom"), "{page}");
    }
    assert!(run(&["man"]).ok().text().contains(".SH SYNOPSIS"));
    let unwritable = run(&["man", "--out", "/proc/kernloom"]);
    assert!(unwritable.error(1).contains("/proc/kernloom"), "{}", unwritable.err);
}
