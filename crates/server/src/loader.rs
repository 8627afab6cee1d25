//! Models that a server can load, by name. Whoever makes the server knows where they lie and how an engine is made of a
//! file; here they are names and sizes.

use crate::error::ApiError;
use crate::library::Kept;
use crate::served::Model;
use model::memory_plan::ModelMemory;

/// Loads models by name. All of it may take its time, and is called where nobody waits for that.
pub trait Loader: Send + Sync {
    /// Those that are there, with the names under which they are loaded.
    fn list(&self) -> Vec<Kept>;

    /// The model that requests without a name get, which need not be there.
    fn usual(&self) -> Option<String>;

    /// Whether requests with any other name get it too.
    fn takes_any_name(&self) -> bool;

    /// The name in the list of a model that a request calls so; `None` if there is none. A name is compared with those that
    /// there are, and never becomes a part of a path.
    fn find(&self, name: &str) -> Option<String>;

    /// What a model needs, before anything of it is loaded.
    ///
    /// # Errors
    /// A file that is no model, or gone.
    fn plan(&self, name: &str) -> Result<ModelMemory, ApiError>;

    /// Loads a model.
    ///
    /// # Errors
    /// Why that cannot be.
    fn load(&self, name: &str) -> Result<Model, ApiError>;

    /// A model that a request wants cannot be loaded.
    fn failed(&self, error: &ApiError);

    /// Requests for a model are taken from now on.
    fn ready(&self, model: &Model);

    /// The model of this name is unloaded.
    fn gone(&self, name: &str);
}
