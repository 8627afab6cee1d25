//! NVIDIA's compiler of kernels as a library: where it is found, and one call that compiles.

use crate::driver::unusable;
use crate::toolkit;
use device::Result;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// The newest major version that is looked for.
pub const NEWEST: i32 = 13;
/// The oldest.
const OLDEST: i32 = 12;

/// The compiler.
pub struct Nvrtc {
    /// Where it is, or its name if the system's loader found it.
    pub path: PathBuf,
    /// Its version (major, minor).
    pub version: (i32, i32),
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Text,
    code_size: Size,
    code: Text,
    destroy: Destroy,
    /// The code of the functions above, and what it looks for by name only.
    _library: (Library, Option<Library>),
}

impl Nvrtc {
    /// Finds one that makes code for a driver of this CUDA version: the library that is named, or else those of the
    /// loader, of `CUDA_HOME` and `CUDA_PATH`, of the toolkit's usual folder and of Python's packages.
    ///
    /// # Errors
    /// [`device::Error::Unusable`] with where it was looked for and the command that installs it.
    pub fn find(named: Option<&Path>, driver: (i32, i32)) -> Result<Nvrtc> {
        if let Some(path) = named {
            return Nvrtc::open(path, driver).map_err(|why| unusable(format!("{}: {why}", path.display())));
        }
        let mut refused = vec![];
        for path in candidates(driver.0.min(NEWEST)) {
            if path.is_absolute() && !path.exists() {
                continue;
            }
            match Nvrtc::open(&path, driver) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) if path.is_absolute() => refused.push(format!("{}: {why}", path.display())),
                Err(_) => {}
            }
        }
        let major = driver.0.min(NEWEST);
        let package =
            if major >= 13 { "nvidia-cuda-nvrtc".to_string() } else { format!("nvidia-cuda-nvrtc-cu{major}") };
        let found = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) };
        Err(unusable(format!(
            "NVRTC, which compiles kernels for NVIDIA cards, is not found{found}: looked for libnvrtc.so.{major} where the \
             loader does, in CUDA_HOME and in Python's packages; install it (pip install '{package}=={}.*'), name it with \
             --nvrtc, or use --device cpu",
            if major >= 13 { format!("{}.{}", driver.0, driver.1) } else { major.to_string() },
        )))
    }

    fn open(path: &Path, driver: (i32, i32)) -> std::result::Result<Nvrtc, String> {
        // SAFETY: it is NVIDIA's library by its name, from a place that the user or the system names; the functions have
        // the signatures of nvrtc.h of CUDA 12 and 13.
        unsafe {
            let library = Library::new(path).map_err(|error| error.to_string())?;
            let builtins = builtins(path).and_then(|path| Library::new(path).ok());
            macro_rules! function {
                ($name:literal: $type:ty) => {
                    *library.get::<$type>($name).map_err(|error| error.to_string())?
                };
            }
            let (mut major, mut minor) = (0, 0);
            let version = function!(b"nvrtcVersion": Version);
            if version(&mut major, &mut minor) != 0 {
                return Err("does not say its version".into());
            }
            if major > driver.0 || major < OLDEST {
                return Err(format!(
                    "version {major}.{minor} does not go with a driver of CUDA {}.{}",
                    driver.0, driver.1
                ));
            }
            Ok(Nvrtc {
                path: path.to_owned(),
                version: (major, minor),
                create: function!(b"nvrtcCreateProgram": Create),
                compile: function!(b"nvrtcCompileProgram": Compile),
                log_size: function!(b"nvrtcGetProgramLogSize": Size),
                log: function!(b"nvrtcGetProgramLog": Text),
                code_size: function!(b"nvrtcGetCUBINSize": Size),
                code: function!(b"nvrtcGetCUBIN": Text),
                destroy: function!(b"nvrtcDestroyProgram": Destroy),
                _library: (library, builtins),
            })
        }
    }

    /// Compiles a translation unit for an architecture; what the compiler says otherwise.
    ///
    /// # Errors
    /// The first error of the compiler.
    pub fn compile(&self, source: &str, options: &[String]) -> std::result::Result<Vec<u8>, String> {
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let options: Vec<CString> = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let (mut program, none): (Handle, _) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: pointers are to live memory of the stated sizes; the program is destroyed once.
        unsafe {
            if (self.create)(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, none, none) != 0 {
                return Err("nvrtcCreateProgram failed".into());
            }
            let failed = (self.compile)(program, options.len() as c_int, options.as_ptr()) != 0;
            let (size, get) = if failed { (self.log_size, self.log) } else { (self.code_size, self.code) };
            let mut bytes = 0;
            size(program, &mut bytes);
            let mut text = vec![0u8; bytes.max(1)];
            get(program, text.as_mut_ptr().cast());
            (self.destroy)(&mut program);
            if !failed {
                return Ok(text);
            }
            let log = CStr::from_bytes_until_nul(&text).map_or(String::new(), |log| log.to_string_lossy().into_owned());
            let error = log.lines().find(|line| line.contains("error")).or(log.lines().next());
            Err(error.unwrap_or("it says nothing").to_string())
        }
    }

    /// What tells its output from that of others.
    pub fn identity(&self) -> String {
        format!("nvrtc {}.{}", self.version.0, self.version.1)
    }
}

/// What lies beside the library in a Python package, where it would not find it.
fn builtins(library: &Path) -> Option<PathBuf> {
    let beside = std::fs::read_dir(library.parent().filter(|folder| folder.is_absolute())?).ok()?;
    let mut paths = beside.flatten().map(|entry| entry.path());
    paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so")))
}

/// What it is told to make code for an architecture.
pub fn options(architecture: &str) -> Vec<String> {
    vec![format!("--gpu-architecture={architecture}"), "--std=c++17".into()]
}

/// Where it may be, the likeliest first.
fn candidates(newest: i32) -> Vec<PathBuf> {
    let names: Vec<String> = (OLDEST..=newest).rev().map(|major| format!("libnvrtc.so.{major}")).collect();
    let mut paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    for toolkit in toolkit::folders() {
        for folder in ["lib64", "lib", "targets/x86_64-linux/lib"] {
            paths.extend(names.iter().map(|name| toolkit.join(folder).join(name)));
        }
    }
    for packages in toolkit::python_packages() {
        for (folder, major) in [("nvidia/cu13/lib", 13), ("nvidia/cuda_nvrtc/lib", 12)] {
            if (OLDEST..=newest).contains(&major) {
                paths.push(packages.join(folder).join(format!("libnvrtc.so.{major}")));
            }
        }
    }
    paths
}
