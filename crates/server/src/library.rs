//! Models beside the one that is served, by name, and how they come and go. Whoever makes the server knows where they lie;
//! here they are names, sizes and progress.

use crate::error::ApiError;
use std::fmt::Debug;
use std::time::SystemTime;

/// Models that can be listed, brought in and removed by name.
pub trait Library: Debug + Send + Sync {
    /// Those that are there.
    fn list(&self) -> Vec<Kept>;

    /// What names of the same model have in common.
    ///
    /// # Errors
    /// A name that is none, or of something that must not be brought in.
    fn key(&self, name: &str) -> Result<String, ApiError>;

    /// Brings a model in, which takes its time. It ends soon after nobody waits any more.
    ///
    /// # Errors
    /// A model that is not to be had, or for which there is no room.
    fn pull(&self, name: &str, told: Box<dyn Told>) -> Result<(), ApiError>;

    /// Removes a model.
    ///
    /// # Errors
    /// A model that is not there, or in use.
    fn delete(&self, name: &str) -> Result<(), ApiError>;
}

/// Hears how a model comes in.
pub trait Told: Send {
    /// What happens now.
    fn hear(&self, step: PullStep);

    /// Whether somebody still waits.
    fn waits(&self) -> bool;
}

/// What happens on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullStep {
    /// It is being found out which files there are.
    Listing,
    /// In words.
    Remark(String),
    /// A file comes in.
    File {
        /// Its name.
        name: String,
        /// Its SHA-256, if that is known.
        sha256: Option<String>,
        /// Its size, if that is known.
        total: Option<u64>,
        /// Bytes that are there.
        completed: u64,
    },
}

/// A model that is there.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// What tells it from others.
    pub digest: String,
    /// Its quantisation.
    pub quantization: String,
    /// When it came.
    pub modified: Option<SystemTime>,
}
