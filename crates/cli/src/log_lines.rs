//! What a server says by `tracing`: a line on stderr for each event, as JSON or as text, and with the feature `otlp` a span for
//! each request.

use crate::otlp::{Flushed, Traces};
use serde_json::{Map, Value};
use std::fmt::{self, Write as _};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What the targets of our own events begin with; libraries say other things.
const OURS: &str = "kernloom";

/// The library that exports traces, whose warnings are said.
const EXPORTER: &str = "opentelemetry";

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An object, with the time in seconds since 1970
    Json,
    /// The time, and names with values
    Text,
}

/// Where events go.
pub struct Log {
    /// How they are written to stderr, if they are.
    format: Option<Format>,
    /// Who gets spans of requests.
    traces: Option<Traces>,
}

impl Log {
    /// Lines of this format, if there are any, and spans for the collector at this address, if there is one.
    pub fn new(format: Option<Format>, collector: Option<&str>) -> anyhow::Result<Log> {
        Ok(Log { format, traces: collector.map(Traces::to).transpose()? })
    }

    /// From now on, events go there; until what is returned goes.
    pub fn begin(self) -> Option<Flushed> {
        let flushed = self.traces.as_ref().map(Traces::flushed_at_the_end);
        // Somebody who has one already, as a test has, keeps it.
        let _ = tracing::subscriber::set_global_default(self);
        flushed
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        metadata.is_event()
            && (target.starts_with(OURS) || target.starts_with(EXPORTER) && *metadata.level() <= Level::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let (mut fields, time) = (Fields::default(), SystemTime::now());
        event.record(&mut fields);
        if let Some(traces) = self.traces.as_ref().filter(|_| event.metadata().target().starts_with(OURS)) {
            traces.request(time, &fields.0);
        }
        if let Some(format) = self.format {
            // A stderr that nobody reads is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{}", format.line(time, fields.0));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
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
