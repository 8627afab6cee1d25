//! `keep_alive`: how long a model stays loaded after a request. It has an effect where models come and go.

use super::line::Head;
use super::reply::{Form, Loaded};
use crate::app::App;
use crate::arrival::Arrived;
use crate::budget::NAME_BYTES;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::shelf::{Status, Stay};
use crate::stream::Protocol;
use serde_json::Value;
use std::time::Duration;

/// Units of a time with their seconds, longer names first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
];

/// Longer times are for ever.
const LONGEST: f64 = 1e9;

/// How long a request lets its model stay, if it says; negative times are for ever.
///
/// # Errors
/// A field that is neither a number of seconds nor a time such as `5m` or `1h30m`.
pub fn stay(fields: Fields<'_>) -> Result<Option<Stay>, ApiError> {
    let seconds = match fields.get("keep_alive") {
        None => return Ok(None),
        Some(Value::Number(seconds)) => seconds.as_f64(),
        Some(Value::String(text)) => Some(seconds(text).ok_or_else(|| {
            ApiError::field("keep_alive", "it is no time; there are 5m, 1h30m, 0, and numbers of seconds")
        })?),
        Some(_) => {
            return Err(ApiError::field("keep_alive", "it is neither a number of seconds nor a time such as 5m"));
        }
    };
    Ok(seconds.map(|seconds| match seconds {
        0.0..LONGEST => Stay::For(Duration::from_secs_f64(seconds)),
        _ => Stay::Long,
    }))
}

/// Whether a model that stays so goes at once.
pub fn unloads(stay: Option<Stay>) -> bool {
    stay == Some(Stay::For(Duration::ZERO))
}

/// The answer to a request that only lets a model go, if that is not loaded: it is not loaded to go again.
pub async fn gone(app: &App, body: &Arrived, form: Form) -> Option<Value> {
    if !app.shelf.lets_go() || app.check().is_err() {
        return None;
    }
    let body = body.short_object()?;
    let is_empty = |name| match &body[name] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let asked = body["model"].as_str().filter(|name| name.len() <= NAME_BYTES)?;
    if !["prompt", "suffix", "messages"].into_iter().all(is_empty) || !unloads(stay(Fields::of(&body).ok()?).ok()?) {
        return None;
    }
    let name = app.shelf.named(Some(asked)).await.ok()?;
    let head = Head::of(if asked.is_empty() { &name } else { asked });
    (app.shelf.status(&name) == Status::Unloaded).then(|| Loaded { head, form, unloads: true }.whole(vec![]))
}

/// The seconds of a time; `None` for what is no time.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let mut rest = text.trim_start_matches(['+', '-']);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if let Ok(seconds) = rest.parse::<f64>() {
        return seconds.is_finite().then_some(sign * seconds);
    }
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = rest[..end].parse::<f64>().ok()?;
        let (unit, seconds) = UNITS.iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        sum += number * seconds;
        rest = &rest[end + unit.len()..];
    }
    (!text.is_empty()).then_some(sign * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("0", 0.0),
            ("0s", 0.0),
            ("0h0m", 0.0),
            ("5m", 300.0),
            ("-1", -1.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("5", 5.0),
            ("300ms", 0.3),
            ("-5m", -300.0),
        ] {
            let seconds = seconds(text).unwrap_or_else(|| panic!("{text}"));
            assert!((seconds - expected).abs() < 1e-9, "{text}: {seconds}");
        }
        for text in ["", "m", "5 m", "5x", "inf", "nan", "..s", "1h30"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
