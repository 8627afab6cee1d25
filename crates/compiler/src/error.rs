//! What cannot be compiled, and why.

use ir::Language;

/// What cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A state that is overwritten too early.
    #[error(transparent)]
    State(#[from] crate::schedule::StateOrder),
    /// A rewrite did not settle.
    #[error("pass {pass}: {why}")]
    Budget {
        /// The pass.
        pass: &'static str,
        /// The reason.
        why: String,
    },
    /// A custom kernel without a source in the language of the target.
    #[error(
        "custom kernel {symbol} has no source in {language}, only in {}: add one where it is made, or take a device for these",
        has.iter().map(Language::to_string).collect::<Vec<_>>().join(" and ")
    )]
    Call {
        /// Its symbol.
        symbol: String,
        /// What kernels of the target are written in.
        language: Language,
        /// What it is written in.
        has: Vec<Language>,
    },
    /// A kernel that the language of the target cannot say.
    #[error("{0}; this is a bug of the compiler")]
    Unwritable(#[from] crate::render::Unwritable),
    /// A pass left something that is not well formed.
    #[error("pass {pass} broke a rule: {why}; this is a bug of the compiler")]
    Check {
        /// The pass.
        pass: &'static str,
        /// The rule, and the node that breaks it.
        why: String,
    },
}
