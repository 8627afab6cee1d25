//! Engines whose kernels are built by a compiler that is quick.

use kernloom::{Builder, Engine};
use std::path::{Path, PathBuf};

/// What makes an engine of a model.
pub fn builder(model: impl Into<PathBuf>) -> Builder {
    let builder = Engine::builder(model);
    match testkit::quick_compiler::path(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Some(compiler) => builder.compiler(compiler),
        None => builder,
    }
}
