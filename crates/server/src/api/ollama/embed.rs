//! `/api/embed`, and the older `/api/embeddings` for one prompt.

use super::keep_alive;
use super::line::Head;
use crate::api::embeddings::{Norm, pooled};
use crate::api::prompt;
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::served::Model;
use crate::stream::{Prepared, Protocol, Said};
use model::scheduler::Spent;
use serde_json::{Value, json};
use std::sync::Arc;

/// Vectors, normalised.
struct Embeddings {
    head: Head,
    /// Whether they stand in a list.
    many: bool,
}

/// Prepares vectors of `input`. None is made of a text that was cut: what does not fit is refused.
///
/// # Errors
/// A server without embeddings, and a request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    prepare(app, model, body, "input")
}

/// Prepares the vector of `prompt`.
///
/// # Errors
/// As [`begin`].
pub fn begin_one(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    prepare(app, model, body, "prompt")
}

fn prepare(app: &Arc<App>, model: &Arc<Model>, body: &Body, name: &str) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let head = Head::new(fields, model)?;
    let mut settings = pooled(fields, app, model)?;
    settings.stay = keep_alive::stay(fields)?;
    // Nothing is what there is of nothing: clients ask so to have a model loaded.
    let is_empty = |value: &&Value| **value == json!([]) || **value == json!("");
    let prompts = match fields.get(name).filter(|value| !is_empty(value)) {
        None => vec![],
        Some(value) => prompt::prompts(name, Some(value), model)?,
    };
    let many = name == "input";
    if !many && prompts.len() > 1 {
        return Err(ApiError::field(name, "it is one text; /api/embed takes several"));
    }
    Ok(Prepared { prompts, settings, protocol: Box::new(Embeddings { head, many }) })
}

impl Protocol for Embeddings {
    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let mut vectors = texts.iter().map(|said| Norm::LENGTH.apply(&said.vector));
        if !self.many {
            return json!({ "embedding": vectors.next().unwrap_or_default() });
        }
        let mut object = self.head.named();
        object.insert("embeddings".into(), vectors.collect::<Vec<_>>().into());
        let spent = Spent {
            prompt: texts.iter().map(|said| said.spent.prompt).sum(),
            waited: texts.iter().map(|said| said.spent.waited).max().unwrap_or_default(),
            ..Spent::default()
        };
        self.head.took(&mut object, &spent);
        Value::Object(object)
    }
}
