//! Machine code of cards as text (SASS), by NVIDIA's `nvdisasm`, where it is found.

use crate::driver::unusable;
use crate::toolkit;
use device::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program.
const NAME: &str = "nvdisasm";

/// Folders of Python's packages that have it: its own, and that of a compiler of kernels that comes with PyTorch.
const IN_PACKAGES: [&str; 2] = ["nvidia/cu13/bin", "triton/backends/nvidia/bin"];

/// The program that disassembles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembler {
    path: PathBuf,
}

impl Disassembler {
    /// Finds it: on the path, in a toolkit, in Python's packages.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] with the command that installs it.
    pub fn find() -> Result<Disassembler> {
        let folders = std::env::var_os("PATH").map_or(vec![], |path| std::env::split_paths(&path).collect());
        let toolkits = toolkit::folders().map(|folder| folder.join("bin"));
        let packages = toolkit::python_packages();
        let packages = packages.iter().flat_map(|folder| IN_PACKAGES.map(|place| folder.join(place)));
        let mut paths = folders.into_iter().chain(toolkits).chain(packages).map(|folder| folder.join(NAME));
        let found = paths.find(|path| path.is_file()).map(|path| Disassembler { path });
        found.ok_or_else(|| {
            unusable(format!(
                "{NAME}, which shows machine code of NVIDIA cards, is not found: looked for it on PATH, in CUDA_HOME and in \
                 Python's packages; install it (pip install nvidia-cuda-nvdisasm)"
            ))
        })
    }

    /// The program of this path.
    pub fn at(path: &Path) -> Disassembler {
        Disassembler { path: path.to_owned() }
    }

    /// A cubin as text.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] with what the program says, or why it does not run.
    pub fn text(&self, cubin: &[u8]) -> Result<String> {
        let failed = |why: String| unusable(format!("{}: {why}", self.path.display()));
        let cannot = |error: std::io::Error| failed(error.to_string());
        let mut file = tempfile::Builder::new().prefix("kernloom-").suffix(".cubin").tempfile().map_err(cannot)?;
        file.write_all(cubin).map_err(cannot)?;
        let ran = Command::new(&self.path).arg("--print-code").arg(file.path()).output().map_err(cannot)?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            return Err(failed(said.lines().next().unwrap_or("failed without a word").into()));
        }
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program that does this with the file behind its first argument.
    fn script(folder: &Path, body: &str) -> Disassembler {
        let path = folder.join(NAME);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it can be run");
        Disassembler::at(&path)
    }

    #[test]
    fn what_the_program_says_is_the_text_or_the_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = script(folder.path(), "cat \"$2\"").text(b"code").expect("a text");
        assert_eq!(text, "code");
        let error = script(folder.path(), "echo no cubin >&2; echo more >&2; exit 3").text(b"code").unwrap_err();
        assert!(error.to_string().ends_with("nvdisasm: no cubin"), "{error}");
        let error = Disassembler::at(&folder.path().join("nothing")).text(b"code").unwrap_err();
        assert!(error.to_string().contains("nothing: "), "{error}");
    }
}
