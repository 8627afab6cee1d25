//! Where parts of NVIDIA's toolkit may lie: in folders that settings name, in the usual one, in Python's packages.

use std::path::PathBuf;

/// Folders of toolkits: those of `CUDA_HOME` and `CUDA_PATH`, and the usual one.
pub fn folders() -> impl Iterator<Item = PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named.chain([PathBuf::from("/usr/local/cuda")])
}

/// Folders of Python's packages: of an environment that is active, of the user, of the system.
pub fn python_packages() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let roots = environments.chain(home).chain(["/usr/local", "/usr"].map(PathBuf::from));
    let mut folders = vec![];
    for root in roots {
        let versions = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
        let mut pythons: Vec<PathBuf> = versions
            .map(|entry| entry.path())
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")))
            .collect();
        pythons.sort_unstable();
        for python in pythons.iter().rev() {
            folders.extend(["site-packages", "dist-packages"].map(|packages| python.join(packages)));
        }
    }
    folders
}
