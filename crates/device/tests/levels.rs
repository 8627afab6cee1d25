//! The C of every kernel of a set of programs, at every instruction level:
//! those of this machine with gcc and with clang, and those of AArch64 with a
//! cross compiler under emulation. Kernels compile without warnings and agree
//! with the interpreter.

#[path = "../../compiler/tests/support/mod.rs"]
mod cases;
mod standalone;

use cases::programs;
use compiler::tile::Plan;
use compiler::{Numerics, Options};
use device::Isa;
use device::toolchain::FLAGS;
use standalone::Standalone;
use std::path::{Path, PathBuf};
use std::process::Command;

/// NMSE that contracted products and sums may make.
const EXACT: f64 = 1e-11;

/// As [`EXACT`], where it may move an activation by a code.
const INT8: f64 = 1e-5;

/// All programs under both policies.
fn programs_for(isa: Isa) -> Standalone {
    let mut all = Standalone::new();
    for (numerics, most) in [(Numerics::Exact, EXACT), (Numerics::Int8, INT8)] {
        let mut options = Options::cpu(numerics, 0);
        // No kernel makes the codes of its input beside its sums: vectors of 256 bytes, on which gcc takes seconds.
        options.prices.repeat = 0;
        let vector = Plan {
            vector_bytes: isa.vector_bytes(),
            rows: 2,
            streams: 2,
            chains: 2,
            prefetch: 64,
            tokens: 4,
            product: false,
            dots: true,
            few: 9,
        };
        options.plan = if isa == Isa::Scalar { Plan::scalar() } else { vector };
        for (name, case) in programs::all() {
            let name = format!("{name}, {numerics:?}");
            let c = case.compile(&options).unwrap_or_else(|e| panic!("{name}: {e}"));
            all.add(&name, &case, &c, most).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    all
}

/// A compiler, what runs its programs, and the folder for both.
struct Builder<'a> {
    compiler: &'a Path,
    /// Words before the name of a program.
    run: &'a [&'a str],
    flags: &'a [&'a str],
}

impl Builder<'_> {
    /// Builds `all` in a folder, unless it was built from the same text by an earlier run.
    fn build(&self, folder: &Path, isa: Isa, source: &str) {
        // Vectors wider than those of the level cross no border of an object.
        let warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi"];
        let mut compile = Command::new(self.compiler);
        compile.current_dir(folder).args(FLAGS.iter().filter(|f| !["-shared", "-w"].contains(f)));
        compile.args(isa.flags()).args(self.flags).args(warnings).args(["-o", "all", "all.c", "-lm"]);
        let version = Command::new(self.compiler).arg("--version").output().expect("a compiler that starts").stdout;
        let source = format!("/* {compile:?}\n{}*/\n{source}", String::from_utf8_lossy(&version));
        let (text, built) = (folder.join("all.c"), folder.join("all"));
        if built.is_file() && std::fs::read_to_string(&text).is_ok_and(|old| old == source) {
            return;
        }
        let _ = std::fs::remove_file(&built);
        std::fs::write(text, source).expect("a source");
        let output = compile.output().expect("a compiler that starts");
        assert!(output.status.success(), "at {isa}:\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Builds the programs for a level and runs them.
    fn check(&self, isa: Isa) {
        let name = self.compiler.file_name().expect("a file").to_string_lossy();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("levels-{name}-{isa}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (source, data, kernels) = programs_for(isa).finish();
        std::fs::write(folder.join("data"), data).expect("data");
        self.build(&folder, isa, &source);
        let words: Vec<&str> = self.run.iter().copied().chain(["./all", "data"]).collect();
        let ran =
            Command::new(words[0]).args(&words[1..]).current_dir(&folder).output().expect("a program that starts");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{name} at {isa}: {}\n{said}", ran.status);
        println!("levels: {kernels} kernels agree at {isa} with {name}");
    }
}

/// A program of the search path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The levels of this machine, with a compiler if it is there.
fn native(compiler: &str) {
    match find(compiler) {
        Some(path) => {
            let builder = Builder { compiler: &path, run: &[], flags: &[] };
            Isa::available().into_iter().for_each(|isa| builder.check(isa));
        }
        None => println!("levels: {compiler} is not installed: nothing ran"),
    }
}

#[test]
fn gcc_at_every_level_of_this_machine() {
    native("gcc");
}

#[test]
fn clang_at_every_level_of_this_machine() {
    native("clang");
}

#[test]
fn aarch64_under_emulation() {
    match (find("aarch64-linux-gnu-gcc"), find("qemu-aarch64")) {
        (Some(compiler), Some(emulator)) => {
            let run = [emulator.to_str().expect("a path in UTF-8"), "-cpu", "max"];
            let builder = Builder { compiler: &compiler, run: &run, flags: &["-static"] };
            [Isa::Neon, Isa::NeonDot, Isa::NeonI8mm].into_iter().for_each(|isa| builder.check(isa));
        }
        _ => println!("levels: aarch64-linux-gnu-gcc or qemu-aarch64 is not installed: nothing ran"),
    }
}
