//! Devices as the command line names them, on machines that have no card: what is missing is one line.

use crate::support::{command, finished, folder, run, text, tiny};

/// The program where NVRTC is, if a setting of the tests says so.
fn nvrtc() -> Option<String> {
    let named = std::env::var("KERNLOOM_NVRTC").ok();
    if named.is_none() {
        println!("NVRTC is not there: no cubins");
    }
    named
}

#[test]
fn the_processor_is_always_there() {
    let listed = run(&["devices"]).ok();
    assert!(listed.text().lines().any(|line| line.starts_with("cpu ")), "{}", listed.text());
    let json: serde_json::Value = serde_json::from_slice(&run(&["devices", "--json"]).ok().out).expect("JSON");
    let cpu = json.as_array().and_then(|all| all.last()).expect("a device");
    assert!(cpu["name"] == "cpu" && cpu["problem"].is_null(), "{cpu}");
}

#[test]
fn a_card_that_is_not_there_is_a_line_that_says_what_to_do() {
    let model = tiny("tiny-llama", "q4_0");
    for device in ["cuda", "cuda:7"] {
        let ran = run(&["run", "-m", text(&model), "-p", "a", "-n", "1", "--device", device]);
        // The tests hide the cards that there may be.
        let line = ran.error(1);
        assert!(line.contains("NVIDIA driver") && line.contains("--device cpu"), "{line}");
    }
    let line = run(&["run", "-m", text(&model), "-p", "a", "--device", "gpu"]);
    assert!(line.err.contains("cuda:N"), "{}", line.err);
    let tuned = run(&["tune", "-m", text(&model), "--device", "cuda"]);
    assert!(tuned.error(1).contains("NVIDIA driver"), "{}", tuned.err);
    let line = run(&["tune", "-m", text(&model), "--device", "interpreter"]);
    assert!(line.err.contains("not for interpreter"), "{}", line.err);
}

#[test]
fn the_line_of_the_device_says_why_others_are_not_used() {
    let model = tiny("tiny-llama", "q4_0");
    let shown = |args: &[&str]| {
        let mut command = command(args);
        command.env_remove("VK_DRIVER_FILES");
        finished(command.output().expect("the program starts")).ok()
    };
    let listed = shown(&["devices"]);
    let adapters: Vec<&str> = listed.text().lines().filter(|line| line.starts_with("wgpu:")).collect();
    // Others may be taken.
    if adapters.iter().any(|line| !line.contains(", software, ")) {
        return;
    }
    let ran = shown(&["run", "-m", text(&model), "-p", "a", "-n", "1"]);
    let line = ran.err.lines().find(|line| line.starts_with("device: cpu")).expect("the line of the device");
    assert_eq!(line.matches(" is not used: it is software").count(), adapters.len(), "{line}");
}

#[test]
fn kernels_of_cards_are_built_without_one() {
    let (model, out) = (tiny("tiny-llama", "q4_0"), folder().join("cubins"));
    let _ = std::fs::remove_dir_all(&out);
    let missing = text(&folder().join("no-such-library.so")).to_owned();
    let few = ["--steps", "few", "-c", "256"];
    let args = [&["compile", "-m", text(&model), "--target", "sm_90a", "--out", text(&out)][..], &few].concat();
    let refused = run(&[&args[..], &["--nvrtc", &missing]].concat());
    assert!(refused.error(1).contains("no-such-library.so"), "{}", refused.err);
    let Some(nvrtc) = nvrtc() else { return };
    let built = |expected: fn(usize) -> bool| {
        let ran = finished(command(&args).env("KERNLOOM_NVRTC", &nvrtc).output().expect("the program starts")).ok();
        let count = ran.text().split_whitespace().skip_while(|word| *word != "built").nth(1).map(str::parse);
        assert!(matches!(count, Some(Ok(count)) if expected(count)), "{}", ran.text());
    };
    built(|count| count > 20);
    built(|count| count == 0);
    // A damaged one is built again.
    let folder = out.join("blobs-1/sm_90a");
    let file = std::fs::read_dir(&folder).expect("a folder").next().expect("a file").expect("an entry").path();
    let mut bytes = std::fs::read(&file).expect("a cubin");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&file, bytes).expect("written");
    built(|count| count == 1);
}
