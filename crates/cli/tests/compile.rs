//! `compile`, and running what it built on machines without a compiler.

use crate::support::{Run, command, finished, folder, run, text, tiny};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The levels that everybody has names for, of this architecture.
const TARGET: &str = if cfg!(target_arch = "aarch64") { "neon" } else { "x86-64-v3" };
const LEVEL: &str = if cfg!(target_arch = "aarch64") { "neon" } else { "avx2" };

/// A folder with the kernels of a small model, made once.
fn ready() -> (PathBuf, PathBuf) {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one = MAKING.lock().unwrap_or_else(|e| e.into_inner());
    let (model, out) = (tiny("tiny-llama", "q4_0"), folder().join("ready"));
    let args = ["compile", "-m", text(&model), "--target", TARGET, "--out", text(&out)];
    let built = finished(with_umask("000", &args).output().expect("the program starts")).ok();
    assert!(built.text().contains(&format!("kernels for {LEVEL} in")), "{}", built.text());
    (model, out)
}

/// The program, with a mask that lets others do everything.
fn with_umask(umask: &str, args: &[&str]) -> Command {
    let program = command(args);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask $1; shift; exec \"$@\"", "sh", umask]).arg(program.get_program()).args(args);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Whether this machine runs what is built.
fn runs_here() -> bool {
    let here = LEVEL.parse::<device::Isa>().expect("a level").is_available();
    if !here {
        println!("this machine has no {LEVEL}: nothing ran");
    }
    here
}

/// The program, where there is no compiler and nothing was ever run.
fn bare(args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("PATH", "").env("XDG_CACHE_HOME", folder().join("empty-cache"));
    command
}

fn run_bare(args: &[&str]) -> Run {
    finished(bare(args).output().expect("the program starts"))
}

#[test]
fn what_is_ready_needs_no_compiler_and_gives_the_same_bits() {
    let (model, out) = ready();
    if !runs_here() {
        return;
    }
    // As many as a step takes: fewer have kernels of their own.
    let tokens = (0..520).map(|i| (i % 50).to_string()).collect::<Vec<_>>().join(",");
    let logits = |name: &str, arguments: &[&str], bare: bool| {
        let file = folder().join(name);
        let args = [&["logits", "-m", text(&model), "--tokens", &tokens, "--out", text(&file)], arguments].concat();
        let ran = if bare { run_bare(&args) } else { run(&args) }.ok();
        assert!(!bare || !ran.err.contains("compiled"), "{}", ran.err);
        std::fs::read(file).expect("logits")
    };
    let here = logits("compiled.f32", &["--isa", LEVEL], false);
    assert_eq!(logits("ready.f32", &["--kernel-cache", text(&out)], true), here);
    // Other sizes of the cache are no other kernels.
    let prompt = "a b c ".repeat(200);
    let args = ["run", "-m", text(&model), "--no-template", "-p", &prompt, "-n", "4", "-c", "3000"];
    run_bare(&[&args[..], &["--kernel-cache", text(&out)]].concat()).ok();
    // Nor are other numbers of sequences, be they so many that a step has room for the logits of all tokens.
    for sequences in ["3", "70"] {
        let args = ["bench", "-m", text(&model), "-p", "40", "-n", "1", "-r", "1", "-np", sequences];
        run_bare(&[&args[..], &["--kernel-cache", text(&out)]].concat()).ok();
    }
    // A setting like others.
    let by_variable = bare(&args).env("KERNLOOM_KERNEL_CACHE", &out).output().expect("the program starts");
    finished(by_variable).ok();
    assert!(!folder().join("empty-cache").exists(), "nothing is written where nothing is compiled");
    let again = run(&["compile", "-m", text(&model), "--target", TARGET, "--out", text(&out)]).ok();
    assert!(again.text().contains("built 0 kernels"), "{}", again.text());
}

#[test]
fn what_is_not_ready_is_one_line() {
    let (_, out) = ready();
    let other = tiny("tiny-qwen2", "q4_0");
    let args = ["run", "-m", text(&other), "--no-template", "-p", "a", "-n", "1", "--kernel-cache"];
    if runs_here() {
        let missing = run_bare(&[&args[..], &[text(&out)]].concat());
        let line = missing.error(1);
        assert!(line.contains("were not built ahead for") && line.contains("apt install gcc"), "{line}");
    }
    // Made on a machine of another kind.
    let foreign = if cfg!(target_arch = "aarch64") { "x86_64-avx2" } else { "aarch64-neon" };
    let (elsewhere, level) = (folder().join("elsewhere"), foreign.split_once('-').expect("a level").1);
    let _ = std::fs::remove_dir_all(&elsewhere);
    let kernels = elsewhere.join("kernels-3").join(foreign);
    std::fs::create_dir_all(&kernels).expect("a folder");
    std::fs::write(kernels.join("some.ref"), "").expect("a file");
    let refused = run_bare(&[&args[..], &[text(&elsewhere)]].concat());
    let line = refused.error(1);
    assert!(line.contains(&format!("were built for {level}")) && line.contains("kernloom compile"), "{line}");
    // With a compiler they are in nobody's way.
    run(&[&args[..], &[text(&elsewhere)]].concat()).ok();
}

/// A pack with the kernels of few tokens of a small model, made once.
fn pack() -> (PathBuf, PathBuf) {
    static MADE: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    let make = || {
        let (model, pack) = (tiny("tiny-llama", "q4_0"), folder().join("few.pack"));
        let args = ["compile", "-m", text(&model), "--target", TARGET, "--steps", "few", "--pack", text(&pack)];
        let built = run(&args).ok();
        assert!(built.text().contains("few.pack: ") && built.text().contains(" kernels, "), "{}", built.text());
        (model, pack)
    };
    MADE.get_or_init(make).clone()
}

#[test]
fn a_pack_needs_no_compiler_and_what_it_lacks_is_compiled() {
    let (model, pack) = pack();
    if !runs_here() {
        return;
    }
    let logits = |name: &str, arguments: &[&str], bare: bool| {
        let file = folder().join(name);
        let args = [&["logits", "-m", text(&model), "--tokens", "1,2,3", "--out", text(&file)], arguments].concat();
        if bare { run_bare(&args) } else { run(&args) }.ok();
        std::fs::read(file).expect("logits")
    };
    let here = logits("compiled-few.f32", &["--isa", LEVEL], false);
    // All rows of logits are another program; its kernels but for the last are the same.
    let kernels = folder().join("beside-pack");
    let _ = std::fs::remove_dir_all(&kernels);
    let args = ["--isa", LEVEL, "--kernel-cache", text(&kernels), "--kernel-pack", text(&pack)];
    assert_eq!(logits("pack.f32", &args, false), here);
    // A prompt is read by the kernels of few tokens, and no compiler is there.
    let prompt = "a b c ".repeat(60);
    let args = ["run", "-m", text(&model), "--no-template", "-p", &prompt, "-n", "4", "--kernel-pack", text(&pack)];
    let passing = folder().join("cache-of-pack");
    let bare = || {
        let mut command = bare(&args);
        command.env("XDG_CACHE_HOME", &passing);
        command
    };
    let early = bare().env_remove("KERNLOOM_WAIT_FOR_KERNELS").output().expect("the program starts");
    let ran = finished(early).ok();
    let compiled = ran.err.lines().any(|line| line.starts_with("compiled "));
    assert!(ran.err.contains("by other kernels") && !compiled, "{}", ran.err);
    assert!(
        finished(bare().output().expect("the program starts")).error(1).contains("were not built ahead for"),
        "all kernels were asked for"
    );
    // With a compiler, kernels that both have are not compiled again.
    let _ = std::fs::remove_dir_all(&kernels);
    let near = run(&[&args[..], &["--isa", LEVEL, "--kernel-cache", text(&kernels)]].concat()).ok();
    let line = near.err.lines().find(|line| line.starts_with("compiled ")).expect("some kernels");
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] < numbers[1], "{line}");
    // One that is not whole is ignored, with a warning.
    let damaged = folder().join("damaged.pack");
    std::fs::write(&damaged, &std::fs::read(&pack).expect("a pack")[..200]).expect("a file");
    let args = ["run", "-m", text(&model), "--no-template", "-p", "a", "-n", "1", "--kernel-pack", text(&damaged)];
    let ran = run(&args).ok();
    assert!(ran.err.contains("warning") && ran.err.contains("damaged.pack"), "{}", ran.err);
    assert!(run(&["compile", "--target", "sm_80", "--pack", "x.pack"]).error(2).contains("--out"));
}

#[test]
fn a_pack_is_found_where_the_program_is_installed() {
    let (model, pack) = pack();
    if !runs_here() {
        return;
    }
    let root = folder().join("installed");
    let _ = std::fs::remove_dir_all(&root);
    let (program, share) = (root.join("bin/kernloom"), root.join("share/kernloom"));
    [&root.join("bin"), &share].into_iter().for_each(|folder| std::fs::create_dir_all(folder).expect("a folder"));
    std::fs::copy(env!("CARGO_BIN_EXE_kernloom"), &program).expect("a copy");
    let installed = |args: &[&str]| {
        let bare = bare(args);
        let mut command = Command::new(&program);
        command.args(args).env_clear();
        command.envs(bare.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("XDG_CACHE_HOME", root.join("cache"));
        finished(command.env_remove("KERNLOOM_WAIT_FOR_KERNELS").output().expect("the program starts"))
    };
    let args = ["run", "-m", text(&model), "--no-template", "-p", "a", "-n", "2"];
    let line = installed(&args);
    let line = line.error(1);
    let name = format!("{}.pack", std::env::consts::ARCH);
    assert!(line.contains("no C compiler found") && line.contains(&name) && line.contains("--kernel-pack"), "{line}");
    let there = share.join("kernels.pack");
    std::fs::copy(&pack, &there).expect("a copy");
    installed(&args).ok();
    // It was made by the same program, whose first start is as fast as all others: there is nothing to keep.
    assert!(!root.join("cache").exists());
    let looked = installed(&["doctor"]).ok();
    assert!(
        looked.text().contains("kernel pack") && looked.text().contains(&format!("for {LEVEL}")),
        "{}",
        looked.text()
    );
    #[cfg(unix)]
    {
        std::fs::set_permissions(&there, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("our file");
        let refused = installed(&args);
        let line = refused.error(1);
        assert!(line.contains("kernels.pack can be changed by other users"), "{line}");
        assert!(installed(&["doctor"]).text().contains("can be changed by other users"));
    }
}

#[test]
fn sources_of_every_target_need_no_compiler() {
    let (model, out) = (tiny("tiny-llama", "q4_0"), folder().join("sources"));
    let args = ["compile", "-m", text(&model), "--emit", "source", "--target", "avx2,neon,cuda", "--out", text(&out)];
    run_bare(&args).ok();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("a text");
    let schedule = read("avx2/one-1024-tokens-1-rows.txt");
    assert!(schedule.starts_with("program one (One)") && schedule.contains("schedule cache:"), "{schedule}");
    let (c, cuda) = (read("neon/prompt-1024-tokens-64-rows.c"), read("cuda/one-4096-tokens-1-rows.cu"));
    assert!(c.contains("#include") && !c.contains("__global__") && cuda.contains("__global__"));
    let refused = run_bare(&["compile", "-m", text(&model), "--target", "cuda", "--out", text(&out)]);
    assert!(refused.error(2).contains("--emit source"), "{}", refused.err);
}

#[test]
fn what_cannot_be_built_is_one_line() {
    let out = folder().join("nothing");
    let build = |target: &str| bare(&["compile", "--target", target, "--out", text(&out)]).output();
    let cross = if cfg!(target_arch = "aarch64") { ("x86-64-v3", "x86_64") } else { ("neon", "aarch64") };
    let missing = finished(build(cross.0).expect("the program starts"));
    let line = missing.error(1);
    assert!(line.contains(&format!("no C compiler for {}", cross.1)) && line.contains("apt install gcc-"), "{line}");
    let unknown = finished(build("x86-64-v9").expect("the program starts"));
    assert!(unknown.error(1).contains("x86-64-v9"), "{}", unknown.err);
    assert!(!out.exists());
    let unwritable = run(&["compile", "--out", "/proc/kernels"]);
    assert!(unwritable.error(1).contains("/proc/kernels"), "{}", unwritable.err);
}

/// Runs a script of a shell with mounts of its own, if this machine allows that.
#[cfg(target_os = "linux")]
fn with_mounts(script: &str, arguments: &[&Path]) -> Option<Run> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
        command
    };
    if !unshare("mount -t tmpfs none /mnt").output().is_ok_and(|output| output.status.success()) {
        println!("no mounts of our own here: nothing ran");
        return None;
    }
    Some(finished(unshare(script).args(arguments).output().expect("a shell")))
}

#[test]
#[cfg(target_os = "linux")]
fn a_read_only_root_and_a_folder_that_forbids_code() {
    let (model, out) = ready();
    if !runs_here() {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_kernloom"));
    let run = "PATH= XDG_CACHE_HOME=/mnt/cache exec \"$1\" run -m \"$2\" --no-template -p a -n 2 --kernel-cache";
    let read_only = format!(
        "set -e; mount -t tmpfs -o ro none /mnt; mount --bind \"$3\" \"$3\"; mount -o remount,bind,ro \"$3\"; {run} \"$3\""
    );
    let Some(ran) = with_mounts(&read_only, &[program, &model, &out]) else { return };
    let ran = ran.ok();
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let noexec = format!("set -e; mount -t tmpfs -o noexec none /mnt; cp -r \"$3\" /mnt/kernels; {run} /mnt/kernels");
    let refused = with_mounts(&noexec, &[program, &model, &out]).expect("mounts");
    assert!(refused.error(1).contains("noexec") && refused.err.contains("--kernel-cache"), "{}", refused.err);
}

/// All files and folders below one, itself included, with their permissions.
#[cfg(unix)]
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).expect("a file").permissions().mode() & 0o7777;
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
    std::iter::once((path.to_owned(), mode)).chain(inside.flat_map(|entry| modes(&entry.path()))).collect()
}

#[test]
#[cfg(unix)]
fn whatever_the_umask_others_cannot_change_what_is_kept() {
    let (model, out) = ready();
    let kernels = folder().join("umask");
    let _ = std::fs::remove_dir_all(&kernels);
    let args = ["run", "-m", text(&model), "--no-template", "-p", "a", "-n", "1", "--kernel-cache", text(&kernels)];
    finished(with_umask("000", &args).output().expect("the program starts")).ok();
    for (folder, most) in [(&out, 0o755), (&kernels, 0o700)] {
        let all = modes(folder);
        assert!(all.iter().any(|(path, _)| path.extension().is_some_and(|ending| ending == "so")), "{all:?}");
        for (path, mode) in all {
            let most = if path.is_dir() { most } else { 0o644 };
            assert_eq!(mode & !most, 0, "{}: {mode:04o}", path.display());
        }
    }
}

#[test]
#[cfg(unix)]
fn what_others_could_change_is_refused_with_the_command_that_mends_it() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
    let (model, out) = ready();
    if !runs_here() {
        return;
    }
    let outer = folder().join("shared");
    let _ = std::fs::remove_dir_all(&outer);
    let kernels = outer.join("kernels");
    std::fs::create_dir(&outer).expect("a folder");
    assert!(Command::new("cp").arg("-rp").args([&out, &kernels]).status().expect("cp").success());
    let link = folder().join("link-to-kernels");
    let _ = std::fs::remove_file(&link);
    symlink(&kernels, &link).expect("a link");
    let run = || {
        let args = ["run", "-m", text(&model), "--no-template", "-p", "a", "-n", "1", "--kernel-cache", text(&link)];
        run_bare(&args)
    };
    let mended = |what: &Path| {
        let refused = run();
        let line = refused.error(1);
        assert!(line.contains(&format!("{} ", what.display())), "{line}");
        let (_, command) = line.split_once("if you trust what is there: ").unwrap_or_else(|| panic!("{line}"));
        assert!(Command::new("sh").args(["-c", command]).status().expect("a shell").success(), "{command}");
        run().ok();
    };
    let objects = modes(&kernels).into_iter().map(|(path, _)| path);
    let object = objects.clone().find(|path| path.extension().is_some_and(|ending| ending == "so")).expect("an object");
    let target = object.parent().expect("a folder").to_owned();
    let all = objects.filter(|path| path.extension().is_some_and(|ending| ending == "so"));
    all.for_each(|object| std::fs::set_permissions(object, PermissionsExt::from_mode(0o664)).expect("our file"));
    let refused = run();
    assert!(refused.error(1).contains(&format!("chmod -R go-w {}", target.display())), "{}", refused.err);
    assert!(Command::new("chmod").args(["-R", "go-w"]).arg(&target).status().expect("chmod").success());
    run().ok();
    for path in [&target, &kernels, &outer] {
        for mode in [0o775, 0o757] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our folder");
            mended(path);
        }
    }
    std::fs::set_permissions(&outer, PermissionsExt::from_mode(0o777)).expect("our folder");
    let trusted = ["run", "-m", text(&model), "--no-template", "-p", "a", "-n", "1", "--kernel-cache", text(&link)];
    run_bare(&[&trusted[..], &["--trusted-folders", text(&outer)]].concat()).ok();
    std::fs::set_permissions(&outer, PermissionsExt::from_mode(0o755)).expect("our folder");
    if std::fs::metadata(&outer).expect("a folder").uid() != 0 {
        println!("only root can give files away: that part did not run");
        return;
    }
    for path in [&target, &kernels, &outer, &link] {
        lchown(path, Some(4711), None).expect("root may");
        mended(path);
    }
}
