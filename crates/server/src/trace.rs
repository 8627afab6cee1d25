//! The trace that a request is part of, as W3C Trace Context says it: taken from `traceparent`, given back with a span of our own,
//! and named in the log, so that whoever gathers traces finds the line of a request.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;

/// The header.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Digits of a trace, of a span and of the flags.
const TRACE: usize = 32;
const SPAN: usize = 16;
const FLAGS: usize = 2;

/// A span of ours in the trace of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace, in 32 hexadecimal digits.
    pub id: String,
    /// The span that asked, in 16.
    pub parent: String,
    /// Ours.
    pub span: String,
    flags: String,
}

impl Trace {
    /// What the headers of a request say, if they are as the standard wants them (W3C Trace Context, 3.2.2): one value, digits in
    /// lower case, neither trace nor span all zeros. Versions to come may have more behind the flags.
    pub fn of(headers: &HeaderMap, span: u64) -> Option<Trace> {
        let mut values = headers.get_all(&TRACEPARENT).iter();
        let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
        let mut parts = value.split('-');
        let mut digits = |count: usize| {
            let part = parts.next().filter(|part| part.len() == count)?;
            part.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')).then_some(part)
        };
        let (version, id, parent, flags) = (digits(2)?, digits(TRACE)?, digits(SPAN)?, digits(FLAGS)?);
        let whole = version != "00" || parts.next().is_none();
        let zeros = |text: &str| text.bytes().all(|c| c == b'0');
        if version == "ff" || !whole || zeros(id) || zeros(parent) {
            return None;
        }
        let [id, parent, flags] = [id, parent, flags].map(str::to_owned);
        Some(Trace { id, parent, span: format!("{:016x}", span.max(1)), flags })
    }

    /// Whether who asked keeps the trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.flags, 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The header for whoever comes after us.
    pub fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.to_string()).ok()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{}", self.id, self.span, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn of(values: &[&str]) -> Option<Trace> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).expect("a header"));
        }
        Trace::of(&headers, 0xab)
    }

    #[test]
    fn a_trace_goes_on_with_a_span_of_ours() {
        let trace = of(&[&format!("00-{ID}-00f067aa0ba902b7-01")]).expect("a trace");
        assert_eq!((&*trace.id, &*trace.parent, &*trace.span), (ID, "00f067aa0ba902b7", "00000000000000ab"));
        assert_eq!(trace.to_string(), format!("00-{ID}-00000000000000ab-01"));
        assert!(trace.is_sampled() && !of(&[&format!("00-{ID}-00f067aa0ba902b7-02")]).expect("a trace").is_sampled());
        // Of a later version the parts that are known count.
        assert_eq!(of(&[&format!("cc-{ID}-00f067aa0ba902b7-01-what-comes")]), Some(trace));
    }

    #[test]
    fn what_is_no_trace_is_none() {
        let zeros = "0".repeat(32);
        for value in [
            "",
            "00",
            &format!("00-{ID}-00f067aa0ba902b7"),
            &format!("00-{ID}-00f067aa0ba902b7-01-more"),
            &format!("ff-{ID}-00f067aa0ba902b7-01"),
            &format!("00-{zeros}-00f067aa0ba902b7-01"),
            &format!("00-{ID}-0000000000000000-01"),
            &format!("00-{}-00f067aa0ba902b7-01", ID.to_uppercase()),
            &format!("00-{ID}-00f067aa0ba902b-01"),
            &format!("00-{ID}-00f067aa0ba902b7-0x"),
        ] {
            assert_eq!(of(&[value]), None, "{value}");
        }
        let good = format!("00-{ID}-00f067aa0ba902b7-01");
        assert_eq!(of(&[&good, &good]), None, "two of them");
        assert_eq!(of(&[]), None);
    }
}
