//! Programs that an earlier process compiled.
//!
//! Compiling the step of a model of fifty layers takes about a second, each time for the same result. The result is plain
//! data once its kernels are source: a device that needs no more keeps it, under what it follows from.

use crate::config::Config;
use crate::step::Sizes;
use compiler::program::Program;
use compiler::{Log, Options};
use device::Device;
use gguf::Gguf;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A program that can be loaded, and how it came to be. Its kernels are source and have no IR.
#[derive(Deserialize)]
pub(crate) struct Kept {
    pub(crate) program: Program,
    pub(crate) log: Log,
}

#[derive(Serialize)]
struct Keep<'a> {
    program: &'a Program,
    log: &'a Log,
}

/// All that the program of a step follows from, beside the compiler: equal texts give equal programs.
pub fn follows_from(file: &Gguf, config: &Config, sizes: &Sizes, options: &Options) -> String {
    let mut text = format!("{config:?}\n{sizes:?}\n{options:?}\n");
    for tensor in file.tensors() {
        let _ = writeln!(text, "{:?} {:?} {:?}", tensor.name, tensor.ty, tensor.dims);
    }
    text
}

/// What the device has kept.
pub(crate) fn find(device: &dyn Device, follows_from: &str) -> Option<Kept> {
    postcard::from_bytes(&device.kept(follows_from)?).ok()
}

/// Has the device keep a program.
pub(crate) fn keep(device: &dyn Device, follows_from: &str, program: &Program, log: &Log) {
    if let Some(bytes) = bytes(program, log) {
        device.keep(follows_from, &bytes);
    }
}

/// A program as devices keep it.
pub fn bytes(program: &Program, log: &Log) -> Option<Vec<u8>> {
    postcard::to_stdvec(&Keep { program, log }).ok()
}
