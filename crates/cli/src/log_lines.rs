//! The log of a server: what it says by `tracing`, a line on stderr for each event, as JSON or as text.

use serde_json::{Map, Value};
use std::fmt::{self, Write as _};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// What the targets of our own events begin with; libraries say other things.
const OURS: &str = "kernloom";

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An object, with the time in seconds since 1970
    Json,
    /// The time, and names with values
    Text,
}

/// From now on, events are lines on stderr.
pub fn begin(format: Format) {
    // Somebody who has one already, as a test has, keeps it.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(Lines(format)));
}

struct Lines(Format);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with(OURS) {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = self.0.line(SystemTime::now(), fields.0);
        // A stderr that nobody reads is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

impl Format {
    fn line(self, time: SystemTime, fields: Map<String, Value>) -> String {
        match self {
            Format::Json => {
                let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                let time = std::iter::once(("time".to_owned(), seconds.into()));
                Value::Object(time.chain(fields).collect()).to_string()
            }
            Format::Text => {
                let mut line = humantime::format_rfc3339_seconds(time).to_string();
                for (name, value) in fields {
                    // Words stand for themselves; what could be taken for something else is quoted.
                    let word = |text: &&str| {
                        !text.is_empty()
                            && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "\"=\\".contains(c))
                    };
                    let _ = match value.as_str().filter(word) {
                        Some(text) => write!(line, " {name}={text}"),
                        None => write!(line, " {name}={value}"),
                    };
                }
                line
            }
        }
    }
}

/// The fields of an event, in its order.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn lines_are_json_or_text() {
        let fields =
            json!({ "path": "/v1/completions", "status": 200, "note": "two words", "odd": "a=\"b\"", "none": "" });
        let Value::Object(fields) = fields else { unreachable!("an object") };
        let time = UNIX_EPOCH + Duration::from_secs(86_400);
        let json = Format::Json.line(time, fields.clone());
        assert_eq!(
            json,
            r#"{"time":86400,"path":"/v1/completions","status":200,"note":"two words","odd":"a=\"b\"","none":""}"#
        );
        let text = Format::Text.line(time, fields);
        let expected = r#"1970-01-02T00:00:00Z path=/v1/completions status=200 note="two words" odd="a=\"b\"" none="""#;
        assert_eq!(text, expected);
    }
}
