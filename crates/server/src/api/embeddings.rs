//! `/v1/embeddings`, and `/embedding` as llama-server has it: one vector for each prompt.

use super::prompt;
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::stream::{Prepared, Protocol, Said};
use base64::Engine;
use model::pooling;
use model::scheduler::Pooling;
use serde_json::{Value, json};
use std::sync::Arc;

/// How vectors are told.
enum Form {
    OpenAi {
        base64: bool,
    },
    /// With vectors of this length, as many as there are.
    Native {
        width: usize,
    },
}

struct Embeddings {
    form: Form,
    model: String,
    norm: Norm,
}

/// Prepares an answer in OpenAI's form.
///
/// # Errors
/// A server without embeddings, and a request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let base64 = match body.fields().text("encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let problem = format!("there is no format '{other}'; there are float and base64");
            return Err(ApiError::field("encoding_format", problem));
        }
    };
    pooled(body.fields(), app, model)?;
    begin_in(Form::OpenAi { base64 }, app, model, body)
}

/// Prepares an answer in llama-server's form.
///
/// # Errors
/// As [`begin`].
pub fn native(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    begin_in(Form::Native { width: (model.facts.width as usize).max(1) }, app, model, body)
}

fn begin_in(form: Form, app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let settings = settings(fields, app, model)?;
    let name = if fields.get("input").is_none() && fields.get("content").is_some() { "content" } else { "input" };
    let prompts = prompt::prompts(name, fields.get(name), model)?;
    let pools_nothing = settings.pooling == Some(Pooling::Each);
    let embeddings = Embeddings {
        form,
        model: model.called_by(fields)?,
        norm: Norm::of(fields.integer("embd_normalize")?.unwrap_or(if pools_nothing { -1 } else { 2 }))?,
    };
    Ok(Prepared { prompts, settings, protocol: Box::new(embeddings) })
}

/// How vectors of a model are made, or scores, if this server makes any of it.
pub fn pooling(app: &App, model: &Model) -> Option<Pooling> {
    let pooling = app.options.pooling.or(model.facts.pooling).unwrap_or(Pooling::Mean);
    let makes = app.options.embeddings || model.worker.limits().whole || pooling == Pooling::Rank;
    makes.then_some(pooling)
}

/// Vectors instead of text.
///
/// # Errors
/// A server without embeddings, and a length that vectors do not have.
fn settings(fields: Fields<'_>, app: &App, model: &Model) -> Result<Settings, ApiError> {
    let Some(pooling) = pooling(app, model) else {
        return Err(ApiError::unsupported("this server makes no embeddings; start it with --embeddings"));
    };
    if pooling == Pooling::Rank {
        let problem =
            "this model ranks documents, at /v1/rerank; start it with --pooling mean, cls or last for embeddings";
        return Err(ApiError::unsupported(problem));
    }
    if let Some(wanted) = fields.integer("dimensions")?
        && wanted != model.facts.width as i64
    {
        let problem = format!("vectors of this model have {} dimensions and cannot be cut", model.facts.width);
        return Err(ApiError::field("dimensions", problem));
    }
    let mut settings = Settings::of_defaults(&model.defaults);
    settings.pooling = Some(pooling);
    Ok(settings)
}

/// One vector for each prompt.
///
/// # Errors
/// A server that makes none, or one for each token.
pub fn pooled(fields: Fields<'_>, app: &App, model: &Model) -> Result<Settings, ApiError> {
    if pooling(app, model) == Some(Pooling::Each) {
        return Err(ApiError::invalid("this server pools nothing (--pooling none); its vectors are at /embedding"));
    }
    settings(fields, app, model)
}

/// What makes vectors comparable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// As they are.
    None,
    /// The root of the sum of squares is 1, and so on for other powers.
    Power(i32),
}

impl Norm {
    /// Length 1.
    pub const LENGTH: Norm = Norm::Power(2);

    fn of(number: i64) -> Result<Norm, ApiError> {
        match number {
            n if n < 0 => Ok(Norm::None),
            1..=16 => Ok(Norm::Power(number as i32)),
            _ => Err(ApiError::field("embd_normalize", format!("{number} is not -1 (none) or between 1 and 16"))),
        }
    }

    /// A vector that is comparable.
    pub fn apply(self, vector: &[f32]) -> Vec<f32> {
        let Norm::Power(power) = self else { return vector.to_vec() };
        pooling::normalised(vector, power)
    }
}

impl Protocol for Embeddings {
    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let one = |(index, said): (usize, &Said)| {
            let vector = || self.norm.apply(&said.vector);
            match self.form {
                Form::Native { width } => {
                    let vectors: Vec<_> = said.vector.chunks(width).map(|vector| self.norm.apply(vector)).collect();
                    json!({ "index": index, "embedding": vectors })
                }
                Form::OpenAi { base64: false } => {
                    json!({ "object": "embedding", "index": index, "embedding": vector() })
                }
                Form::OpenAi { base64: true } => {
                    let bytes: Vec<u8> = vector().iter().flat_map(|x| x.to_le_bytes()).collect();
                    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                    json!({ "object": "embedding", "index": index, "embedding": text, "encoding_format": "base64" })
                }
            }
        };
        let data: Vec<Value> = texts.iter().enumerate().map(one).collect();
        if matches!(self.form, Form::Native { .. }) {
            return data.into();
        }
        let tokens: usize = texts.iter().map(|said| said.spent.prompt).sum();
        let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
        json!({ "object": "list", "model": self.model, "data": data, "usage": usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms() {
        let norm = |number: i64| Norm::of(number).unwrap().apply(&[3.0, -4.0]);
        assert_eq!((norm(2), norm(-1), norm(1)), (vec![0.6, -0.8], vec![3.0, -4.0], vec![3.0 / 7.0, -4.0 / 7.0]));
        assert_eq!(Norm::Power(2).apply(&[0.0, 0.0]), [0.0, 0.0]);
        assert!(Norm::of(0).is_err() && Norm::of(99).is_err());
    }
}
