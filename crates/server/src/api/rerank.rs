//! `/v1/rerank`: documents by how well they fit a query, in the form of Jina and Cohere, or with `texts` in that of TEI.

use super::embeddings::pooling;
use crate::app::App;
use crate::body::Body;
use crate::budget::TEXTS;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::stream::{Prepared, Protocol, Said};
use model::scheduler::{Pooling, Rejected};
use model::sequence::check_prompt;
use serde_json::{Value, json};
use std::sync::Arc;

/// How scores are told.
enum Form {
    /// An object with results, of the model of this name.
    Results {
        model: String,
    },
    List,
}

struct Ranks {
    form: Form,
    /// The documents, if they come back with their scores.
    documents: Vec<String>,
    /// Results at most.
    most: usize,
}

/// Prepares the scores of documents.
///
/// # Errors
/// A model that does not rank, and a request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    check(app, model)?;
    let query = fields.text("query")?.ok_or_else(|| ApiError::field("query", "it is missing"))?;
    let is_list = fields.get("documents").is_none() && fields.get("texts").is_some();
    let name = if is_list { "texts" } else { "documents" };
    let documents = documents(fields, name)?;
    let most = fields.integer_in("top_n", 0..=i64::MAX)?.map_or(usize::MAX, |most| most as usize);
    let returns = fields.flag(if is_list { "return_text" } else { "return_documents" })?.unwrap_or(false);
    let form = if is_list { Form::List } else { Form::Results { model: model.called_by(fields)? } };
    let prompts = prompts(app, model, body, query, &documents)?;
    let mut settings = Settings::of_defaults(&model.defaults);
    settings.pooling = Some(Pooling::Rank);
    let documents = if returns { documents.into_iter().map(str::to_owned).collect() } else { vec![] };
    Ok(Prepared { prompts, settings, protocol: Box::new(Ranks { form, documents, most }) })
}

/// Whether this model ranks on this server.
fn check(app: &App, model: &Model) -> Result<(), ApiError> {
    let problem = match model.worker.limits().ranks {
        None => "this model ranks no documents: its file has no head of a classifier (cls.weight or cls.output.weight)",
        Some(_) if pooling(app, model) != Some(Pooling::Rank) => {
            "this server ranks no documents; start it with --reranking (--pooling rank)"
        }
        Some(_) => return Ok(()),
    };
    Err(ApiError::unsupported(problem))
}

/// Texts, which may stand in objects.
fn documents<'a>(fields: Fields<'a>, name: &str) -> Result<Vec<&'a str>, ApiError> {
    let wrong = |problem: String| ApiError::field(name, problem);
    let all = fields.list(name)?.unwrap_or_default();
    if all.is_empty() {
        return Err(wrong("a list of documents is missing".into()));
    }
    if all.len() > TEXTS {
        return Err(wrong(format!("{} documents, and a request may have {TEXTS}", all.len())));
    }
    let text = |(at, document): (usize, &'a Value)| {
        let text = document.as_str().or_else(|| document.get("text")?.as_str());
        text.ok_or_else(|| wrong(format!("document {at} is neither a string nor an object with a text")))
    };
    all.iter().enumerate().map(text).collect()
}

/// The tokens of each pair, until one does not fit. They are more than the body, which has the query once.
fn prompts(app: &App, model: &Model, body: &Body, query: &str, documents: &[&str]) -> Result<Vec<Vec<u32>>, ApiError> {
    let (bytes, most) = (query.len().saturating_mul(documents.len()), app.options.body_limit);
    if bytes > most {
        let count = documents.len();
        let problem =
            format!("with each of {count} documents it has {bytes} bytes, and {most} are taken (--body-limit)");
        return Err(ApiError::field("query", problem));
    }
    let limits = model.worker.limits();
    let asked = model.pairs.asked(&model.tokenizer, query);
    let tokens = |document: &&str| {
        let tokens = asked.with(document);
        check_prompt(&tokens, limits.vocab, limits.context).map_err(Rejected::from)?;
        body.hold(tokens.capacity() * size_of::<u32>())?;
        Ok(tokens)
    };
    documents.iter().map(tokens).collect()
}

impl Protocol for Ranks {
    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let score = |said: &Said| said.vector.first().copied().unwrap_or(f32::NEG_INFINITY);
        let mut ranked: Vec<(usize, f32)> = texts.iter().map(score).enumerate().collect();
        ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        ranked.truncate(self.most);
        let result = |(index, score): (usize, f32)| {
            let document = self.documents.get(index);
            match (&self.form, document) {
                (Form::Results { .. }, None) => json!({ "index": index, "relevance_score": score }),
                (Form::Results { .. }, Some(text)) => {
                    json!({ "index": index, "relevance_score": score, "document": { "text": text } })
                }
                (Form::List, None) => json!({ "index": index, "score": score }),
                (Form::List, Some(text)) => json!({ "index": index, "score": score, "text": text }),
            }
        };
        let results: Vec<Value> = ranked.into_iter().map(result).collect();
        match &self.form {
            Form::List => results.into(),
            Form::Results { model } => {
                let tokens: usize = texts.iter().map(|said| said.spent.prompt).sum();
                let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
                json!({ "object": "list", "model": model, "results": results, "usage": usage })
            }
        }
    }
}
