//! Kernels that a user writes, in the languages that devices take.

use std::fmt;

/// What kernels are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// C, for a processor.
    C,
    /// CUDA C++.
    Cuda,
    /// The language of WebGPU.
    Wgsl,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::C => "C",
            Language::Cuda => "CUDA C++",
            Language::Wgsl => "WGSL",
        })
    }
}

/// The source of a custom kernel in one language.
///
/// Its buffers are those that it reads, then its result. In C it is a function with the signature of all kernels that runs the
/// tasks `begin..end`. In CUDA it is an `extern "C" __global__` function with a pointer for each buffer and a `long long` for
/// each variable of the program, and a task is a block. In WGSL it is an entry point of that name, `@group(0) @binding(i)` is
/// storage that is read and written for buffer `i`, the binding behind them a uniform `array<vec4<i32>>` of variables if there are
/// some, and a task is a workgroup: `x + y * 65535` of its `workgroup_id`, of which those past the last have nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomSource {
    /// What it is written in.
    pub language: Language,
    /// The text.
    pub text: String,
    /// Threads that run a task together; 1 in C.
    pub threads: usize,
}

impl CustomSource {
    /// In C.
    pub fn c(text: impl Into<String>) -> CustomSource {
        CustomSource { language: Language::C, text: text.into(), threads: 1 }
    }

    /// In CUDA C++, for blocks of so many threads.
    pub fn cuda(text: impl Into<String>, threads: usize) -> CustomSource {
        CustomSource { language: Language::Cuda, text: text.into(), threads }
    }

    /// In WGSL, whose `@workgroup_size` is so many threads.
    pub fn wgsl(text: impl Into<String>, threads: usize) -> CustomSource {
        CustomSource { language: Language::Wgsl, text: text.into(), threads }
    }
}
