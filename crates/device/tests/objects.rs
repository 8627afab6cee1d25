//! Compiling and keeping kernels: hits, misses, damage, failures.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{self, Builder, Folder, check_counting, config, counting, cpu};
use compiler::program::{BufferKind, Count, Program};
use device::{Ahead, Cpu, Device, Error, Memory, ToolchainConfig, Warning};

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found
}

/// A program with many kernels, each of which writes its number, with some text that says so.
fn many(kernels: usize) -> Arc<Program> {
    let mut program = Builder::new();
    let y = program.buffer(BufferKind::Output("y".into()), 8 * kernels);
    program.stage();
    for k in 0..kernels {
        let text = "its number ".repeat(3000);
        let body = format!("((int64_t *)bufs[0])[{k}] = {k} * {k}; /* {text}*/");
        let kernel = program.kernel(&format!("k{k}"), &body);
        program.launch(kernel, &[y], Count::Const(1));
    }
    program.build()
}

fn check_many(cpu: &Cpu, program: &Arc<Program>) -> device::CompileReport {
    let mut memory = Memory::new();
    let mut executable = cpu.load(program.clone(), &mut memory).unwrap();
    executable.run(&mut memory, &[]).unwrap();
    let y = memory.output::<i64>("y").unwrap();
    assert!((0..).zip(y).all(|(k, y)| *y == k * k));
    executable.report().clone()
}

#[test]
fn kernels_are_compiled_once_in_few_units() {
    let folder = Folder::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut config = config(&folder, 1);
    let sink = told.clone();
    config.progress = Some(Arc::new(move |done, all| sink.lock().unwrap().push((done, all))));
    let first = check_many(&Cpu::new(&config).unwrap(), &many(20));
    assert_eq!((first.kernels, first.compiled, first.units), (20, 20, 4));
    assert_eq!(files(&folder.0, "so").len(), 4);
    assert!(files(&folder.0, "c").is_empty(), "sources are removed");
    {
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 4);
        assert!(told.contains(&(20, 20)));
    }
    // Another process, as far as the cache can tell.
    let second = check_many(&cpu(&folder, 2), &many(20));
    assert_eq!((second.compiled, second.units), (0, 0));
    // More kernels: only the new ones are built, and so few are worth no second unit.
    let third = check_many(&cpu(&folder, 2), &many(25));
    assert_eq!((third.compiled, third.units), (5, 1));
}

#[test]
fn what_is_compiled_beside_steps_needs_no_compiler_when_it_is_loaded() {
    let folder = Folder::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut config = config(&folder, 1);
    let sink = told.clone();
    config.progress = Some(Arc::new(move |done, all| sink.lock().unwrap().push((done, all))));
    let (cpu, program) = (Cpu::new(&config).unwrap(), many(20));
    let (goes_on, stops): (device::Stop, device::Stop) = (Arc::new(|| false), Arc::new(|| true));
    let stopped = cpu.compile_beside(&program, &stops);
    assert!(matches!(stopped, Err(device::Error::Stopped)), "{stopped:?}");
    let beside = cpu.compile_beside(&program, &goes_on).unwrap();
    assert!(beside.kernels == 20 && beside.compiled == 20 && beside.units > 4, "{beside:?}");
    std::fs::remove_dir_all(&folder.0).unwrap();
    assert_eq!(check_many(&cpu, &program), beside, "it has them already");
    assert!(told.lock().unwrap().is_empty(), "nobody is told");
}

#[test]
fn what_changes_code_changes_the_key() {
    let folder = Folder::new();
    let base = || Program::clone(&counting("count", 1, 8));
    let load = |program: Program, config: &device::CpuConfig| {
        let cpu = Cpu::new(config).unwrap();
        let executable = cpu.load(Arc::new(program), &mut Memory::new()).unwrap();
        executable.report().compiled
    };
    let plain = config(&folder, 1);
    assert_eq!(load(base(), &plain), 1);
    assert_eq!(load(base(), &plain), 0);
    let mut other = base();
    other.prelude.push_str("#define UNUSED 1\n");
    assert_eq!(load(other, &plain), 1);
    let mut other = base();
    other.kernels[0].source.push('\n');
    assert_eq!(load(other, &plain), 1);
    let mut scalar = plain.clone();
    scalar.target = Some(device::Target::detect(Some(device::Isa::Scalar)).unwrap());
    let expected = usize::from(device::Isa::detect() != device::Isa::Scalar);
    assert_eq!(load(base(), &scalar), expected);
    let mut renamed = base();
    renamed.name = "other".into();
    assert_eq!(load(renamed, &plain), 0, "names of programs do not matter");
}

#[test]
fn programs_may_use_one_symbol_for_different_kernels() {
    let folder = Folder::new();
    let cpu = cpu(&folder, 2);
    let mut memory = Memory::new();
    let (one, two) = (counting("same", 1, 8), counting("same", 2, 8));
    let mut first = cpu.load(one, &mut memory).unwrap();
    let mut second = cpu.load(two, &mut memory).unwrap();
    for _ in 0..3 {
        first.run(&mut memory, &[10]).unwrap();
        assert_eq!(memory.output::<i64>("y").unwrap()[0], 11);
        second.run(&mut memory, &[10]).unwrap();
        assert_eq!(memory.output::<i64>("y").unwrap()[0], 12);
    }
}

#[test]
fn helpers_with_one_name_in_two_kernels_are_built_apart() {
    let folder = Folder::new();
    let mut program = Builder::new();
    let y = program.buffer(BufferKind::Output("y".into()), 16);
    program.stage();
    for k in 0..2 {
        let symbol = format!("k{k}");
        let source = format!(
            "static int64_t helper(void) {{ return {k} + 5; }}\nvoid {symbol}({}) {{ ((int64_t *)bufs[0])[{k}] = helper(); }}",
            support::ARGS
        );
        let kernel = program.source(&symbol, &source);
        program.launch(kernel, &[y], Count::Const(1));
    }
    let mut config = config(&folder, 1);
    config.compile_jobs = 1;
    let cpu = Cpu::new(&config).unwrap();
    let mut memory = Memory::new();
    let mut program = Program::clone(&program.build());
    // Long enough to share a unit with one of the others.
    for k in 0..4 {
        let mut filler = program.kernels[0].clone();
        filler.symbol = format!("filler{k}");
        filler.source = filler.source.replace("k0", &filler.symbol);
        program.kernels.push(filler);
    }
    let mut executable = cpu.load(Arc::new(program), &mut memory).unwrap();
    executable.run(&mut memory, &[]).unwrap();
    assert_eq!(memory.output::<i64>("y").unwrap(), [5, 6]);
}

#[test]
fn equal_kernels_give_equal_objects() {
    let names = |folder: &Folder| -> Vec<_> {
        check_many(&cpu(folder, 1), &many(6));
        let mut names: Vec<_> =
            files(&folder.0, "so").iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&Folder::new()), names(&Folder::new()));
}

#[test]
fn damaged_objects_and_references_are_built_again() {
    let folder = Folder::new();
    let program = counting("count", 3, 8);
    let compiled = check_counting(&cpu(&folder, 1), &program, 3);
    assert_eq!(compiled.compiled, 1);
    let object = files(&folder.0, "so").remove(0);
    let whole = fs::read(&object).unwrap();
    for damage in [&whole[..whole.len() / 2], b"".as_slice(), b"not an object"] {
        fs::remove_file(&object).unwrap();
        fs::write(&object, damage).unwrap();
        let report = check_counting(&cpu(&folder, 1), &program, 3);
        assert_eq!(report.compiled, 1);
        assert!(matches!(&report.warnings[..], [Warning::Damaged { object: o }] if *o == object));
        assert_eq!(check_counting(&cpu(&folder, 1), &program, 3).compiled, 0);
    }
    fs::remove_file(&object).unwrap();
    assert_eq!(check_counting(&cpu(&folder, 1), &program, 3).compiled, 1);
    fs::write(files(&folder.0, "ref").remove(0), "nonsense").unwrap();
    assert_eq!(check_counting(&cpu(&folder, 1), &program, 3).compiled, 1);
    assert_eq!(check_counting(&cpu(&folder, 1), &program, 3).compiled, 0);
}

#[test]
fn a_sound_file_that_is_no_object_is_built_again() {
    use sha2::{Digest, Sha256};
    let folder = Folder::new();
    let program = counting("count", 4, 8);
    check_counting(&cpu(&folder, 1), &program, 4);
    // Its name is right, so only opening it can tell.
    let reference = files(&folder.0, "ref").remove(0);
    let name: String = Sha256::digest(b"text").iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(reference.with_file_name(format!("{name}.so")), "text").unwrap();
    fs::write(&reference, name).unwrap();
    assert_eq!(check_counting(&cpu(&folder, 1), &program, 4).compiled, 1);
    assert_eq!(check_counting(&cpu(&folder, 1), &program, 4).compiled, 0);
}

#[test]
fn processes_may_fill_one_cache_at_the_same_time() {
    let folder = Folder::new();
    let compiled = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let report = check_many(&cpu(&folder, 1), &many(12));
                compiled.fetch_add(report.compiled, Ordering::Relaxed);
            });
        }
    });
    assert!(compiled.into_inner() >= 12);
    assert_eq!(check_many(&cpu(&folder, 1), &many(12)).compiled, 0);
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let folder = Folder::new();
    fs::write(folder.join("cache"), "in the way").unwrap();
    let cpu = Cpu::new(&config(&folder, 1)).unwrap();
    assert!(cpu.warnings().is_empty(), "nothing was compiled yet");
    let program = counting("count", 5, 8);
    let report = check_counting(&cpu, &program, 5);
    let warning = report.warnings[0].to_string();
    assert!(warning.contains("compiled again at every start"), "{warning}");
    assert_eq!(report.compiled, 1);
    // Within this process the kernels are still kept.
    assert_eq!(check_counting(&cpu, &program, 5).compiled, 0);
    drop(cpu);
    assert!(files(&folder.0, "so").is_empty(), "nothing is left behind");
}

#[test]
fn no_cache_folder_is_no_warning() {
    let folder = Folder::new();
    let mut config = config(&folder, 1);
    config.cache.folder = None;
    let cpu = Cpu::new(&config).unwrap();
    assert!(cpu.warnings().is_empty());
    check_counting(&cpu, &counting("count", 6, 8), 6);
}

#[test]
fn a_kernel_that_does_not_compile_is_named_and_its_source_kept() {
    let folder = Folder::new();
    let mut program = Program::clone(&many(6));
    program.kernels[4].source = format!("void k4({}) {{ int x = undefined_name; }}", support::ARGS);
    let cpu = cpu(&folder, 1);
    let error = cpu.load(Arc::new(program), &mut Memory::new()).err().unwrap();
    let Error::Compile { kernel, message, source_path } = &error else {
        panic!("{error}");
    };
    assert_eq!(kernel, "k4");
    assert!(message.contains("undefined_name"), "{message}");
    let kept = fs::read_to_string(source_path).unwrap();
    assert!(kept.contains("#include <stdint.h>") && kept.contains("undefined_name"));
    assert!(!kept.contains("k3"), "the kernel alone");
    let line = error.to_string();
    assert!(!line.contains('\n') && line.contains(&*source_path.to_string_lossy()));
    // What did compile is not compiled again once the kernel is mended.
    let mended = many(6);
    let report = check_many(&cpu, &mended);
    assert!(report.compiled < 6, "{report:?}");
}

#[test]
fn a_kernel_that_does_not_define_its_symbol_is_an_error() {
    let folder = Folder::new();
    let mut program = Program::clone(&counting("count", 0, 8));
    program.kernels[0].source = "static int nothing;".into();
    let error = cpu(&folder, 1).load(Arc::new(program), &mut Memory::new()).err().unwrap();
    assert!(matches!(error, Error::Open { .. }), "{error}");
}

#[test]
fn no_compiler_no_device() {
    let folder = Folder::new();
    let mut config = config(&folder, 1);
    config.toolchain = ToolchainConfig { search: vec![folder.0.clone()], ..ToolchainConfig::default() };
    let error = Cpu::new(&config).err().unwrap();
    assert!(matches!(error, Error::NoCompiler { .. }));
}

#[test]
fn both_compilers_work_where_they_are_installed() {
    let folder = Folder::new();
    for name in ["gcc", "clang"] {
        let mut config = config(&folder, 2);
        config.toolchain.compiler = Some(name.into());
        match Cpu::new(&config) {
            Ok(cpu) => {
                let program = counting("count", 7, 8);
                assert_eq!(check_counting(&cpu, &program, 7).compiled, 1, "{name}");
            }
            Err(Error::NoCompiler { .. }) => eprintln!("{name} is not installed"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A configuration without a compiler, for kernels of a folder.
fn without_compiler(folder: &Folder, ready: &Path) -> device::CpuConfig {
    let mut config = config(folder, 1);
    config.toolchain.search.clear();
    config.cache.ready = vec![ready.into()];
    config
}

#[test]
fn kernels_built_ahead_run_without_a_compiler() {
    let (folder, ready) = (Folder::new(), Folder::new());
    let toolchain = ToolchainConfig::from_environment();
    // Not all that the machine has: what is there is taken.
    let target = device::Target { isa: device::Isa::Scalar, extras: vec![] };
    let ahead = Ahead::new(&target, &toolchain, &ready.0, &[], 2, None).unwrap();
    let program = counting("count", 5, 8);
    assert_eq!(ahead.build(&program).unwrap().compiled, 1);
    assert_eq!(ahead.build(&program).unwrap().compiled, 0);
    let cpu = Cpu::new(&without_compiler(&folder, &ready.0)).unwrap();
    assert_eq!(*cpu.target(), target);
    let report = check_counting(&cpu, &program, 5);
    assert_eq!((report.compiled, report.compiler), (0, None));
    let error = cpu.load(counting("count", 6, 8), &mut Memory::new()).err().unwrap();
    assert!(matches!(error, Error::NotBuilt { missing: 1, kernels: 1, .. }), "{error}");
    assert!(files(&folder.0, "so").is_empty(), "nothing is written");
    // Where there is a compiler, the best of the machine is taken.
    let mut config = without_compiler(&folder, &ready.0);
    config.toolchain = toolchain;
    assert_eq!(Cpu::new(&config).unwrap().target().isa, device::Isa::detect());
}

#[test]
fn kernels_built_ahead_do_not_depend_on_the_machine_that_builds() {
    let objects = |jobs: usize| {
        let ready = Folder::new();
        let target = device::Target { isa: device::Isa::Scalar, extras: vec![] };
        let ahead = Ahead::new(&target, &ToolchainConfig::from_environment(), &ready.0, &[], jobs, None).unwrap();
        ahead.build(&many(20)).unwrap();
        let mut names: Vec<_> =
            files(&ready.0, "so").iter().filter_map(|path| Some(path.file_name()?.to_owned())).collect();
        names.sort();
        names
    };
    assert_eq!(objects(1), objects(5));
}

#[test]
fn kernels_of_other_machines_are_refused() {
    let (folder, ready) = (Folder::new(), Folder::new());
    let foreign = if cfg!(target_arch = "aarch64") { "x86_64-avx2" } else { "aarch64-neon" };
    let place = ready.0.join("kernels-3").join(foreign);
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("some.ref"), "").unwrap();
    let error = Cpu::new(&without_compiler(&folder, &ready.0)).err().unwrap();
    assert!(matches!(&error, Error::OtherTargets { .. }), "{error}");
    let line = error.to_string();
    assert!(line.contains(foreign.split_once('-').unwrap().1) && line.contains(&*ready.0.to_string_lossy()), "{line}");
}

#[test]
fn kernels_of_a_named_compiler_are_its_own() {
    let folder = Folder::new();
    let program = counting("count", 5, 8);
    assert_eq!(check_counting(&cpu(&folder, 1), &program, 5).compiled, 1);
    let mut named = config(&folder, 1);
    named.toolchain.compiler = Some("cc".into());
    assert_eq!(check_counting(&Cpu::new(&named).unwrap(), &program, 5).compiled, 1);
    assert_eq!(check_counting(&Cpu::new(&named).unwrap(), &program, 5).compiled, 0);
}
