//! What the server says about its model.

use model::engine::readiness::Readiness;
use model::memory_plan::ModelMemory;
use model::scheduler::Pooling;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::SystemTime;

/// What is said about a model.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where it came from.
    pub path: String,
    /// Names under which clients may ask for it; the first is its name. Any other name gets it too.
    pub names: Vec<String>,
    /// Words that clients may group models by.
    pub tags: Vec<String>,
    /// Its architecture, as its file says.
    pub architecture: String,
    /// The type of most of its weights.
    pub quantization: String,
    /// What tells its file from others.
    pub digest: String,
    /// When its file was written.
    pub modified: Option<SystemTime>,
    /// What its file says about it; long lists are null.
    pub metadata: Map<String, Value>,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Positions that it was made for.
    pub trained_context: u64,
    /// Length of its hidden state.
    pub width: u64,
    /// How its embeddings are made, if its file says so.
    pub pooling: Option<Pooling>,
    /// How the cache of keys and values is kept.
    pub cache: String,
    /// What runs it.
    pub device: String,
    /// What it takes there, if that is known.
    pub memory: Option<ModelMemory>,
    /// Which of its programs there are.
    pub programs: Arc<Readiness>,
}
