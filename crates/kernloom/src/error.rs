//! What can go wrong, in one type.

use model::config::Pooling;
use std::path::PathBuf;

/// Why there is no model, or no text. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing at this path.
    #[error("there is no file {}", .0.display())]
    NoFile(PathBuf),
    /// The file.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// The model in the file.
    #[error("{}: {source}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The C compiler, the processor or memory.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The context does not fit into memory.
    #[error(transparent)]
    TooLarge(#[from] model::memory_plan::TooLarge),
    /// A setting of the sampler.
    #[error(transparent)]
    Sampler(#[from] text::sampler::SamplerError),
    /// The chat template, with these messages.
    #[error("the chat template: {0}")]
    Template(#[from] text::chat::ChatError),
    /// A model whose file says that it makes no vectors of texts.
    #[error("{}", no_vector(*.0))]
    Pooling(Pooling),
    /// [`Builder::pooling`](crate::Builder::pooling) with what makes no vector of a text.
    #[error("Builder::pooling takes Mean, First or Last, and not {0:?}; scores come from Engine::rank without it")]
    NoVector(Pooling),
    /// A vector or a score of a text.
    #[error(transparent)]
    Vector(#[from] model::pooling::VectorError),
    /// While text was generated.
    #[error(transparent)]
    Generate(#[from] model::generate::GenerateError),
}

fn no_vector(pooling: Pooling) -> String {
    let what = match pooling {
        Pooling::Rank => "ranks documents (Engine::rank)",
        _ => "leaves the hidden states of tokens apart",
    };
    format!("the file says that this model {what}; for embeddings all the same, say how (Builder::pooling)")
}
