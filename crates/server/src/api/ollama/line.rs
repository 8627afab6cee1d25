//! What the objects of all routes are made of.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use model::scheduler::Spent;
use serde_json::{Map, Value};
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};

/// What every object of an answer begins with.
pub struct Head {
    model: String,
    began: Instant,
}

impl Head {
    /// For a request that is being read.
    ///
    /// # Errors
    /// A name of a model that is none.
    pub fn new(fields: Fields<'_>, model: &Model) -> Result<Head, ApiError> {
        Ok(Head::of(&model.called_by(fields)?))
    }

    /// For a request to a model that it calls so.
    pub fn of(name: &str) -> Head {
        Head { model: name.to_owned(), began: Instant::now() }
    }

    /// An object that is to be filled.
    pub fn object(&self) -> Map<String, Value> {
        let mut object = self.named();
        object.insert("created_at".into(), time(SystemTime::now()).into());
        object
    }

    /// The same without its time.
    pub fn named(&self) -> Map<String, Value> {
        Map::from_iter([("model".into(), self.model.as_str().into())])
    }

    /// Adds what an answer took. Nothing is loaded for a request: what stands there is how long it waited for a place.
    pub fn took(&self, object: &mut Map<String, Value>, spent: &Spent) {
        object.insert("total_duration".into(), nanoseconds(self.began.elapsed()));
        object.insert("load_duration".into(), nanoseconds(spent.waited));
        object.insert("prompt_eval_count".into(), spent.prompt.into());
    }
}

/// A time as JSON.
pub fn nanoseconds(time: Duration) -> Value {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).into()
}

/// A moment as Ollama writes it.
pub fn time(moment: SystemTime) -> String {
    humantime::format_rfc3339_micros(moment).to_string()
}

/// The type of a stream of lines.
pub const TYPE: &str = "application/x-ndjson";

/// Writes an object as a line.
pub fn write(out: &mut String, data: &Value) {
    let _ = writeln!(out, "{data}");
}
