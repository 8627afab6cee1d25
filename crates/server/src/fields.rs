//! Fields of a request, read with a word about what is wrong. Null counts as absent, and what is not known is ignored.

use crate::body::Body;
use crate::error::ApiError;
use serde_json::{Map, Value};

/// The fields of an object.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// A whole body, whose fields become values when they are asked for.
    Body(&'a Body),
    Object(&'a Map<String, Value>),
}

impl Body {
    /// Its fields.
    pub fn fields(&self) -> Fields<'_> {
        Fields(Source::Body(self))
    }
}

impl<'a> Fields<'a> {
    /// Of a value, which must be an object.
    ///
    /// # Errors
    /// Anything else.
    pub fn of(value: &'a Value) -> Result<Fields<'a>, ApiError> {
        let object = value.as_object().ok_or_else(|| ApiError::invalid("it is not a JSON object"))?;
        Ok(Fields(Source::Object(object)))
    }

    /// A field that is there and not null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let found = match self.0 {
            Source::Body(body) => body.get(name),
            Source::Object(object) => object.get(name),
        };
        found.filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        name: &str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| ApiError::field(name, format!("it is {}, not {what}", described(value))))
    }

    /// Text.
    ///
    /// # Errors
    /// A field of another type.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.read(name, "a string", Value::as_str)
    }

    /// A truth value.
    ///
    /// # Errors
    /// A field of another type.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// A number.
    ///
    /// # Errors
    /// A field of another type, or a number that is not finite in f32.
    pub fn number(&self, name: &str) -> Result<Option<f32>, ApiError> {
        let finite = |value: &Value| value.as_f64().map(|n| n as f32).filter(|n| n.is_finite());
        self.read(name, "a number of sensible size", finite)
    }

    /// A whole number; one with a zero fraction counts.
    ///
    /// # Errors
    /// A field of another type, or a number that does not fit.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.read(name, "a whole number", whole)
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// As [`Fields::integer`], and a number out of the range.
    pub fn integer_in(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        match self.integer(name)? {
            Some(n) if !range.contains(&n) => {
                Err(ApiError::field(name, format!("{n} is not between {} and {}", range.start(), range.end())))
            }
            n => Ok(n),
        }
    }

    /// A list.
    ///
    /// # Errors
    /// A field of another type.
    pub fn list(&self, name: &str) -> Result<Option<&'a [Value]>, ApiError> {
        self.read(name, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    /// An object.
    ///
    /// # Errors
    /// A field of another type.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        Ok(self.map(name)?.map(|map| Fields(Source::Object(map))))
    }

    /// An object with all that is in it.
    ///
    /// # Errors
    /// A field of another type.
    pub fn map(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, ApiError> {
        self.read(name, "an object", Value::as_object)
    }

    /// A string, or a list of strings.
    ///
    /// # Errors
    /// A field of another type.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let read = |value: &Value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(all) => all.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        Ok(self.read(name, "a string or a list of strings", read)?.unwrap_or_default())
    }
}

/// A whole number, also one that is written with a fraction of zero.
pub fn whole(value: &Value) -> Option<i64> {
    let fraction_free = |n: &f64| n.fract() == 0.0 && n.abs() < 9e15;
    value.as_i64().or_else(|| value.as_f64().filter(fraction_free).map(|n| n as i64))
}

/// A value in a few words.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "true or false".into(),
        Value::Number(n) => n.to_string(),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_types_are_named_and_null_is_nothing() {
        let body = json!({ "a": "x", "b": null, "c": 3.0, "d": 1e300, "e": [1], "f": -5, "g": 2.5 });
        let fields = Fields::of(&body).unwrap();
        assert_eq!(fields.text("b").unwrap(), None);
        assert_eq!(fields.integer("c").unwrap(), Some(3));
        assert_eq!(fields.flag("missing").unwrap(), None);
        let message = |error: ApiError| error.message;
        assert_eq!(message(fields.flag("a").unwrap_err()), "a: it is a string, not true or false");
        assert!(message(fields.number("d").unwrap_err()).contains("1e+300"));
        assert!(message(fields.texts("e").unwrap_err()).starts_with("e: it is a list"));
        assert!(message(fields.integer_in("f", 0..=9).unwrap_err()).contains("not between 0 and 9"));
        assert!(fields.integer("g").is_err());
        assert!(Fields::of(&json!([])).is_err());
    }
}
