//! What can go wrong while a model runs.

use crate::config::ConfigError;
use crate::step::StepError;

/// What can go wrong while a model runs.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file, its metadata or its tensors.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// A token that the vocabulary lacks.
    #[error("token {0} is not in the vocabulary of {1}")]
    Token(u32, i64),
    /// More positions than the cache holds.
    #[error("position {0} is past the context of {1} (raise it with -c)")]
    Context(usize, i64),
    /// A batch that does not fit into a step.
    #[error("a step cannot take {0}")]
    Batch(String),
    /// More rows of logits than the engine has room for ([`crate::engine::Sharing::rows`]).
    #[error("a step cannot give {wanted} rows of logits (at most {most})")]
    Rows {
        /// Rows that were asked for.
        wanted: usize,
        /// Rows of a step at most.
        most: usize,
    },
    /// A sequence that shall go on from where its state is not.
    #[error(
        "a model that remembers cannot go on from position {position} (it is at {at:?}); begin with the first token"
    )]
    Remembered {
        /// Where it shall go on.
        position: usize,
        /// Where its state is, if that is known.
        at: Option<usize>,
    },
}

impl EngineError {
    /// Whether the device was told to end the step.
    pub fn is_stopped(&self) -> bool {
        matches!(self, EngineError::Device(device::Error::Stopped))
    }

    /// Whether kernels were missing and nothing was there to compile them.
    pub fn is_not_built(&self) -> bool {
        matches!(self, EngineError::Device(device::Error::NotBuilt { .. }))
    }
}
