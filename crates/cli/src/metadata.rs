//! The metadata of a model file as JSON.

use gguf::{Array, Gguf, Value as Meta};
use serde_json::{Map, Value, json};

/// Arrays are cut to this length where all are shown.
const ARRAY_SHOWN: usize = 1000;

/// Longer lists are left to whoever has the file, where they would be in the way.
const LIST_TOLD: usize = 16;

/// All of it; long arrays are cut, and say so.
pub fn shown(file: &Gguf) -> Map<String, Value> {
    file.metadata().iter().map(|(key, value)| (key.to_owned(), in_json(&value))).collect()
}

/// All of it, with null for long lists and without the chat template, which is told elsewhere.
pub fn without_long_lists(file: &Gguf) -> Map<String, Value> {
    let told = |value: Meta<'_>| match value {
        Meta::Array(array) if array.len() > LIST_TOLD => Value::Null,
        value => in_json(&value),
    };
    let all = file.metadata().iter().filter(|(key, _)| *key != "tokenizer.chat_template");
    all.map(|(key, value)| (key.to_owned(), told(value))).collect()
}

fn in_json(value: &Meta<'_>) -> Value {
    match value {
        Meta::Bool(v) => json!(v),
        Meta::String(v) => json!(String::from_utf8_lossy(v)),
        Meta::Array(array) if array.len() > ARRAY_SHOWN => {
            json!({ "array": array.len(), "of": array.element_type().to_string() })
        }
        Meta::Array(array) => array_in_json(array),
        other => match (other.integer(), other.float()) {
            (Some(v), _) => i64::try_from(v).map_or_else(|_| json!(v as u64), |v| json!(v)),
            (_, Some(v)) => json!(v),
            _ => Value::Null,
        },
    }
}

fn array_in_json(array: &Array<'_>) -> Value {
    Value::Array(array.iter().map(|value| in_json(&value)).collect())
}
