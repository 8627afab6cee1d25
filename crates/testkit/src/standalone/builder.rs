//! Compilers of C programs, and what runs these.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A compiler, what runs its programs, and the folder for both.
pub struct Builder<'a> {
    pub compiler: &'a Path,
    /// Words before the name of a program.
    pub run: &'a [&'a str],
    pub flags: &'a [&'a str],
}

impl Builder<'_> {
    /// Builds `all` in a folder, with these flags of kernels as far as they are not for libraries, unless it was built from
    /// the same text by an earlier run.
    pub fn build(&self, folder: &Path, kernels: &[&str], source: &str) {
        // Vectors wider than those of the level cross no border of an object.
        let warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi"];
        let mut compile = Command::new(self.compiler);
        compile.current_dir(folder).args(kernels.iter().filter(|f| !["-shared", "-w"].contains(f)));
        compile.args(self.flags).args(warnings).args(["-o", "all", "all.c", "-lm"]);
        let version = Command::new(self.compiler).arg("--version").output().expect("a compiler that starts").stdout;
        let source = format!("/* {compile:?}\n{}*/\n{source}", String::from_utf8_lossy(&version));
        let (text, built) = (folder.join("all.c"), folder.join("all"));
        if built.is_file() && std::fs::read_to_string(&text).is_ok_and(|old| old == source) {
            return;
        }
        let _ = std::fs::remove_file(&built);
        std::fs::write(text, source).expect("a source");
        let output = compile.output().expect("a compiler that starts");
        assert!(output.status.success(), "{kernels:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs what was built in a folder to its end.
    pub fn run(&self, folder: &Path, args: &[&str]) -> Output {
        let words: Vec<&str> = self.run.iter().copied().chain(["./all"]).chain(args.iter().copied()).collect();
        Command::new(words[0]).args(&words[1..]).current_dir(folder).output().expect("a program that starts")
    }
}

/// A program of the search path.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
