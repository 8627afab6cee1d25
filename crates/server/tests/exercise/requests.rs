//! Requests that are made from any bytes: a route, headers, and fields from the words of the APIs with values that are
//! right, wrong, deep, long or many. What it writes is JSON in most cases; what only parsers of JSON see, raw bytes find.

use super::words::{FIELDS, GETS, HOSTS, Kind, LINKS, METHODS, NUMBERS, ORIGINS, SITES, TYPES, WORDS};
use std::fmt::Write;

/// Bytes of a body at most.
const MOST: usize = 64 << 10;

/// How deep values are chosen one by one; deeper ones are the same thing within itself.
const CHOSEN: usize = 4;

/// A request.
#[derive(Debug, Default)]
pub struct Made {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Whether a server without keys has to refuse it, whatever it asks for: it comes from somebody else's page.
    pub foreign: bool,
}

/// A request from any bytes, one of these routes for bodies or another.
pub fn made(bytes: &[u8], routes: &[&str]) -> Made {
    let mut maker = Maker { bytes, out: String::new() };
    let mut made = Made { method: "POST", ..Made::default() };
    made.path = match usize::from(maker.next()) % (routes.len() + 4) {
        at if at < routes.len() => routes[at].into(),
        _ => {
            made.method = maker.one_of(&METHODS);
            maker.one_of(&GETS).into()
        }
    };
    maker.headers(&mut made);
    if made.method == "POST" {
        maker.body();
        made.body = maker.out.into_bytes();
    }
    made
}

/// Reads choices from bytes, zeros at their end, and writes JSON.
struct Maker<'a> {
    bytes: &'a [u8],
    out: String,
}

impl Maker<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.next()) % all.len()]
    }

    /// Whether something rare happens: once in so many times.
    fn rarely(&mut self, times: u8) -> bool {
        self.next() % times == times - 1
    }

    /// Few in most cases, and up to as many as fit.
    fn count(&mut self) -> usize {
        match self.next() {
            few @ 0..=219 => usize::from(few % 5),
            220..=243 => usize::from(self.next()) * 4,
            _ => usize::from(self.next()) << 8,
        }
    }

    /// How often something of this length fits, at most so often.
    fn fitting(&self, count: usize, bytes: usize) -> usize {
        count.min(MOST.saturating_sub(self.out.len()) / bytes.max(1))
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn headers(&mut self, made: &mut Made) {
        let (host, own) = if self.rarely(8) { self.one_of(&HOSTS) } else { HOSTS[0] };
        made.headers.push(("host", host.into()));
        made.foreign = !own;
        if self.rarely(4) {
            let (origin, may) = self.one_of(&ORIGINS);
            made.headers.push(("origin", origin.into()));
            made.foreign |= !may;
        }
        if self.rarely(6) {
            let (site, may) = self.one_of(&SITES);
            made.headers.push(("sec-fetch-site", site.into()));
            // Where there is an origin it says who asks: another port of this machine is another site.
            made.foreign |= !may && !made.headers.iter().any(|header| header.0 == "origin");
        }
        if !self.rarely(5) {
            let kind = if self.rarely(4) { self.one_of(&TYPES) } else { TYPES[0] };
            made.headers.push(("content-type", kind.into()));
        }
        if self.rarely(8) {
            let name =
                self.one_of(&["x-request-id", "authorization", "x-api-key", "accept", "content-encoding", "expect"]);
            let long = self.count().min(8 << 10);
            made.headers.push((name, "x".repeat(long)));
        }
    }

    fn body(&mut self) {
        if self.rarely(32) {
            return self.value(0);
        }
        self.put("{");
        for at in 0..=self.next() % 12 {
            let (name, kind) = self.one_of(&FIELDS);
            let separator = if at == 0 { "" } else { "," };
            let _ = write!(self.out, "{separator}\"{name}\":");
            if self.rarely(8) { self.value(0) } else { self.of_kind(kind) }
        }
        self.put("}");
    }

    fn of_kind(&mut self, kind: Kind) {
        match kind {
            Kind::Text => self.text(),
            Kind::Number => self.number(),
            Kind::Flag => {
                let flag = self.one_of(&["true", "false"]);
                self.put(flag);
            }
            Kind::Texts => self.list(Maker::text),
            Kind::Ids => self.list(Maker::number),
            Kind::Messages => self.list(Maker::message),
            Kind::Items => self.list(Maker::item),
            Kind::Tools => self.list(Maker::tool),
            Kind::Choice => self.choice(),
            Kind::Schema => self.schema(0),
            Kind::Format => self.format(),
            Kind::Grammar => self.grammar(),
            Kind::Bias => self.bias(),
            Kind::Object => self.object(1),
            Kind::Options => self.options(),
        }
    }

    /// Options of Ollama.
    fn options(&mut self) {
        let name = self.one_of(&["num_predict", "temperature", "top_k", "stop", "seed", "mirostat", "num_ctx"]);
        let _ = write!(self.out, "{{\"{name}\":");
        if self.rarely(4) {
            self.value(1)
        } else {
            self.number()
        }
        self.put("}");
    }

    /// Anything.
    fn value(&mut self, depth: usize) {
        if depth >= CHOSEN || self.out.len() >= MOST {
            return self.put("0");
        }
        match self.next() % 10 {
            0 => self.put("null"),
            1 => self.put("true"),
            2 | 3 => self.number(),
            4 | 5 => self.text(),
            6 => self.object(depth + 1),
            7 => {
                let (before, after) = self.one_of(&[("[", "]"), ("{\"a\":", "}"), ("[{\"\":", "}]"), ("[0,", "]")]);
                let count = self.count();
                self.nested(count, before, "0", after);
            }
            8 => self.repeated(depth),
            _ => self.list(|maker| maker.value(depth + 1)),
        }
    }

    fn number(&mut self) {
        let number = self.one_of(&NUMBERS);
        if self.rarely(40) {
            let digits = self.count();
            let digits = self.fitting(digits, 1);
            self.put("1");
            return self.put(&"7".repeat(digits));
        }
        self.put(number);
    }

    fn text(&mut self) {
        let word = self.one_of(&WORDS);
        let count = if self.rarely(8) { self.count() } else { 1 };
        let count = self.fitting(count, word.len());
        self.put("\"");
        self.put(&word.repeat(count));
        self.put("\"");
    }

    fn list(&mut self, mut item: impl FnMut(&mut Self)) {
        self.put("[");
        for at in 0..=self.next() % 4 {
            if at > 0 {
                self.put(",");
            }
            item(self);
        }
        self.put("]");
    }

    fn object(&mut self, depth: usize) {
        self.put("{");
        for at in 0..self.next() % 4 {
            let name = self.one_of(&[
                "effort",
                "type",
                "format",
                "enable_thinking",
                "include_usage",
                "a",
                "schema",
                "budget_tokens",
            ]);
            let separator = if at == 0 { "" } else { "," };
            let _ = write!(self.out, "{separator}\"{name}\":");
            self.value(depth);
        }
        self.put("}");
    }

    /// Something within itself.
    fn nested(&mut self, count: usize, before: &str, within: &str, after: &str) {
        let count = self.fitting(count, before.len() + after.len());
        self.put(&before.repeat(count));
        self.put(within);
        self.put(&after.repeat(count));
    }

    /// The same value many times.
    fn repeated(&mut self, depth: usize) {
        let from = self.out.len();
        self.put("[");
        self.value(depth + 1);
        let item = format!(",{}", &self.out[from + 1..]);
        let count = self.count();
        let count = self.fitting(count, item.len());
        self.put(&item.repeat(count));
        self.put("]");
    }

    fn message(&mut self) {
        let role = self.one_of(&["user", "assistant", "system", "tool", "user", "developer", "nobody"]);
        let _ = write!(self.out, "{{\"role\":\"{role}\",\"content\":");
        if self.rarely(4) {
            let kind = self.one_of(&["text", "input_text", "tool_use", "tool_result", "thinking", "image_url"]);
            let _ = write!(self.out, "[{{\"type\":\"{kind}\",\"text\":");
            self.text();
            self.put(",\"input\":");
            self.value(2);
            self.put("}]");
        } else {
            self.text();
        }
        if self.rarely(5) {
            self.put(
                ",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":",
            );
            self.arguments();
            self.put("}}]");
        }
        if self.rarely(6) {
            self.put(",\"tool_call_id\":\"1\",\"reasoning_content\":");
            self.text();
        }
        self.put("}");
    }

    /// JSON in a string, which templates may read.
    fn arguments(&mut self) {
        let count = self.count();
        self.put("\"");
        self.nested(count, "[", "1", "]");
        self.put("\"");
    }

    fn item(&mut self) {
        match self.next() % 4 {
            0 => {
                self.put("{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":");
                self.arguments();
                self.put("}");
            }
            1 => {
                self.put("{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":");
                self.value(2);
                self.put("}");
            }
            _ => self.message(),
        }
    }

    fn tool(&mut self) {
        let (before, after) = self.one_of(&[
            ("{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":", "}}"),
            ("{\"type\":\"function\",\"name\":\"f\",\"parameters\":", "}"),
            ("{\"name\":\"f\",\"input_schema\":", "}"),
            ("{\"type\":\"web_search\",\"x\":", "}"),
        ]);
        self.put(before);
        self.schema(0);
        self.put(after);
    }

    fn choice(&mut self) {
        if self.rarely(6) {
            return self.value(1);
        }
        let choice = self.one_of(&[
            "\"auto\"",
            "\"required\"",
            "\"none\"",
            "\"any\"",
            "{\"type\":\"any\"}",
            "{\"type\":\"tool\",\"name\":\"f\"}",
            "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
            "{\"type\":\"allowed_tools\",\"mode\":\"required\"}",
        ]);
        self.put(choice);
    }

    fn format(&mut self) {
        let (before, after) = self.one_of(&[
            ("{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":", "}}"),
            ("{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"schema\":", "}}"),
            ("{\"type\":\"json_object\",\"schema\":", "}"),
            ("{\"type\":\"text\",\"x\":", "}"),
        ]);
        self.put(before);
        self.schema(0);
        self.put(after);
    }

    fn bias(&mut self) {
        if self.rarely(2) {
            let count = self.count();
            let count = self.fitting(count, 6);
            self.put("[[1,1]");
            self.put(&",[9,0]".repeat(count));
            return self.put("]");
        }
        self.put("{");
        for at in 0..self.next() % 4 {
            let _ = write!(self.out, "{}\"{at}\":", if at == 0 { "" } else { "," });
            self.number();
        }
        self.put("}");
    }

    fn schema(&mut self, depth: usize) {
        if depth >= CHOSEN || self.out.len() >= MOST {
            return self.put("true");
        }
        match self.next() % 12 {
            0 => self.value(2),
            1 => {
                let (before, after) = self.one_of(&LINKS);
                let count = self.count();
                self.nested(count, before, "{\"type\":\"null\"}", after);
            }
            2 => self.references(),
            3 => {
                self.put("{\"type\":\"string\",\"pattern\":\"");
                let part = self.one_of(&[
                    "a",
                    ".*",
                    "[a-z]{1,40}",
                    "(a|b)?",
                    "(",
                    ")",
                    ")*",
                    "){1,30}",
                    "\\\\p{L}",
                    "(?=a)",
                    "^",
                    "$",
                    "|",
                ]);
                let count = self.count();
                let count = self.fitting(count, part.len());
                self.put(&part.repeat(count));
                let end = self.one_of(&["", "x", ")", "){2,30}"]);
                self.put(end);
                self.put("\"}");
            }
            4 => {
                self.put("{\"enum\":");
                self.repeated(2);
                self.put("}");
            }
            5 => {
                let name = self.one_of(&[
                    "multipleOf",
                    "minimum",
                    "maximum",
                    "minLength",
                    "maxLength",
                    "minItems",
                    "maxItems",
                    "minProperties",
                ]);
                let _ = write!(self.out, "{{\"{name}\":");
                self.number();
                self.put("}");
            }
            6 | 7 => {
                let name = self.one_of(&["allOf", "anyOf", "oneOf", "prefixItems"]);
                let _ = write!(self.out, "{{\"{name}\":");
                self.list(|maker| maker.schema(depth + 1));
                self.put("}");
            }
            8 | 9 => {
                self.put("{\"type\":\"object\",\"properties\":{\"a\":");
                self.schema(depth + 1);
                self.put(",\"b\":");
                self.schema(depth + 1);
                self.put("},\"required\":[\"a\"]}");
            }
            _ => {
                let kind =
                    self.one_of(&["string", "integer", "number", "boolean", "null", "array", "object", "nothing"]);
                let _ = write!(self.out, "{{\"type\":\"{kind}\"}}");
            }
        }
    }

    /// Definitions of which each refers to the next, and the last perhaps to the first.
    fn references(&mut self) {
        let (before, after) = self.one_of(&LINKS);
        let count = self.count();
        let count = self.fitting(count, before.len() + after.len() + 32);
        self.put("{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
        for at in 0..count {
            let _ = write!(self.out, "\"d{at}\":{before}{{\"$ref\":\"#/$defs/d{}\"}}{after},", at + 1);
        }
        let last = self.one_of(&[
            "{\"type\":\"null\"}",
            "{\"$ref\":\"#/$defs/d0\"}",
            "{\"$ref\":\"#\"}",
            "{\"$ref\":\"#/x\"}",
        ]);
        let _ = write!(self.out, "\"d{count}\":{last}}}}}");
    }

    /// GBNF as a string of JSON.
    fn grammar(&mut self) {
        self.put("\"root ::= ");
        match self.next() % 5 {
            0 => {
                let repeat = self.one_of(&["*", "+", "?", "{2}", "{0,3}", "{1000000000}"]);
                let count = self.count();
                let count = self.fitting(count, repeat.len());
                self.put("[a-c]");
                self.put(&repeat.repeat(count));
            }
            1 => {
                let (before, after) = self.one_of(&[("(", ")"), ("(", ")*"), ("((a|", "))"), ("(", "")]);
                let count = self.count();
                self.nested(count, before, "[a]", after);
                self.put("\\na ::= root | [b]");
            }
            2 => {
                let (before, after) = self.one_of(&[("", ""), ("", "?"), ("[x] ", ""), ("", " | [y]"), ("(", ")*")]);
                let count = self.count();
                let count = self.fitting(count, before.len() + after.len() + 16);
                self.put("r0\\n");
                for at in 0..count {
                    let _ = write!(self.out, "r{at} ::= {before}r{}{after}\\n", at + 1);
                }
                let last = self.one_of(&["[a]", "root", "r0 r0", ""]);
                let _ = write!(self.out, "r{count} ::= {last}");
            }
            _ => {
                for _ in 0..=self.next() % 12 {
                    let part = self.one_of(&[
                        "[a-z]",
                        "\\\"a\\\"",
                        "root",
                        "(",
                        ")",
                        "|",
                        "*",
                        "+",
                        "?",
                        "{2,3}",
                        ".",
                        "[^\\\\n]",
                        "b",
                        "\\nb ::=",
                        "#",
                    ]);
                    self.put(part);
                    self.put(" ");
                }
            }
        }
        self.put("\"");
    }
}
