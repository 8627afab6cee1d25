//! Whether what takes its time is to end.

use std::sync::Arc;

/// Asked again and again, by all who work: once it says so, a step or a compiler ends with
/// [`Error::Stopped`](crate::Error::Stopped).
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;
