//! What cannot be compiled, and why.

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
    /// A kernel with source of its own that is not in the language of the target.
    #[error("kernel {symbol} has source of its own in C, which runs on the processor only; use --device cpu")]
    Call {
        /// Its symbol.
        symbol: String,
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
