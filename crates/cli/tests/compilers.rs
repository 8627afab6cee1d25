//! Compilers that hang, print without end, or leave something behind.

use crate::support::{Run, command, finished, folder, text, tiny};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long anything here may take on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(120);

/// A compiler that does something else when it is to compile kernels; `$here` is a folder of its own.
fn compiler(name: &str, compiling: &str, asked: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let here = folder().join(format!("cc-{name}"));
    let _ = std::fs::remove_dir_all(&here);
    std::fs::create_dir(&here).expect("a folder");
    let path = here.join("cc");
    let script = format!(
        "#!/bin/sh\nhere='{}'\ncase \"$*\" in\n*kernels.so*) {compiling} ;;\n*) {asked} ;;\nesac\n",
        here.display()
    );
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a script");
    path
}

/// A command with a model, this compiler and no kernels.
fn with(cc: &Path, command_and_flags: &[&str]) -> Command {
    let (model, kernels) = (tiny("tiny-llama", "q4_0"), cc.with_file_name("kernels"));
    let args = ["-m", text(&model), "--cc", text(cc), "--kernel-cache", text(&kernels)];
    command(&[command_and_flags, &args].concat())
}

const RUN: [&str; 6] = ["run", "--no-template", "-p", "a", "-n", "1"];

fn run(cc: &Path, more: &[&str]) -> Run {
    finished(with(cc, &[&RUN[..], more].concat()).output().expect("the program starts"))
}

/// What the compiler has written about itself, once it has.
fn written(path: &Path) -> String {
    let start = Instant::now();
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(start.elapsed() < DEADLINE, "no {}", path.display()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs; the system may not have cleared away one that has ended.
fn runs(pid: &str) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().expect("ps").stdout;
    !matches!(state.trim_ascii().first(), None | Some(b'Z'))
}

fn all_end(pids: &[String]) {
    let start = Instant::now();
    while let Some(pid) = pids.iter().find(|pid| runs(pid)) {
        assert!(start.elapsed() < DEADLINE, "{pid} lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a compiler that hangs, with a child: the program, and the processes of the compiler.
fn hanging(name: &str, command_and_flags: &[&str]) -> (Child, [String; 2]) {
    let script = "sleep 600 & echo $! >\"$here/child\"; echo $$ >\"$here/itself\"; wait";
    let cc = compiler(name, script, "exec cc \"$@\"");
    let program = with(&cc, command_and_flags).spawn().expect("the program starts");
    (program, ["itself", "child"].map(|file| written(&cc.with_file_name(file))))
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill").success());
}

#[test]
fn one_that_hangs_is_one_line_in_time() {
    for (name, compiling, asked) in
        [("mute", "sleep 600", "sleep 600"), ("slow", "trap '' TERM; sleep 600 & wait; wait", "exec cc \"$@\"")]
    {
        let cc = compiler(name, compiling, asked);
        let start = Instant::now();
        let ran = run(&cc, &["--cc-timeout", "2"]);
        let line = ran.error(1);
        assert!(line.contains(&format!("{} did not end within 2 s", cc.display())), "{line}");
        assert!(line.contains("raise --cc-timeout"), "{line}");
        assert!(start.elapsed() < DEADLINE);
    }
}

#[test]
fn it_ends_when_the_program_is_killed() {
    let (mut program, pids) = hanging("killed", &RUN);
    signal(&program, "-KILL");
    program.wait().expect("a child");
    all_end(&pids);
}

#[test]
fn it_ends_at_once_when_the_program_is_interrupted() {
    // The latter does not end at once by itself.
    let lock = folder().join("cc-interrupted.lock");
    for (name, flags) in [("run", &RUN[..]), ("tune", &["tune", "-p", "1", "--lock", text(&lock)])] {
        let (program, pids) = hanging(&format!("interrupted-{name}"), flags);
        let start = Instant::now();
        signal(&program, "-INT");
        let ran = finished(program.wait_with_output().expect("a child"));
        assert_eq!(ran.code, 130, "{}", ran.err);
        assert!(start.elapsed() < DEADLINE);
        all_end(&pids);
    }
}

#[test]
fn one_that_prints_without_end_is_one_line() {
    for (name, compiling, asked) in [("babbler", "yes", "yes"), ("noisy", "yes >&2", "exec cc \"$@\"")] {
        let cc = compiler(name, compiling, asked);
        let ran = run(&cc, &[]);
        assert!(ran.error(1).contains("printed more than 4 MiB"), "{}", ran.err);
    }
}

#[test]
fn what_it_leaves_behind_holds_nothing_up_and_ends() {
    let left = "sleep 600 & echo $! >>\"$here/left\"; exec cc \"$@\"";
    let cc = compiler("messy", left, left);
    run(&cc, &[]).ok();
    let pids: Vec<String> = written(&cc.with_file_name("left")).lines().map(str::to_owned).collect();
    assert!(pids.len() > 2, "{pids:?}");
    all_end(&pids);
}
