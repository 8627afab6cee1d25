//! Calls of tools in what a model says.
//!
//! They come in three forms, see [`CallForm`]. A call is passed on when it is complete and makes sense; what does not is
//! text, word for word. In *pieces* it is passed on as soon as its tool is known and its arguments have begun, and then
//! as it comes. Values of GLM carry no type: the tool's schema says which it is.

use super::delta::{Delta, ToolCall, add};
use crate::tokenizer::tags;
use serde_json::{Map, Value as Json};

pub(super) const OPEN: &str = tags::CALL.0;
pub(super) const CLOSE: &str = tags::CALL.1;
const PYTHON: &str = "<|python_tag|>";
const KEY: (&str, &str) = tags::KEY;
const VALUE: (&str, &str) = tags::VALUE;

/// How a model writes a call of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallForm {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Qwen, Hermes, Youtu), perhaps with lines between.
    #[default]
    Tagged,
    /// As [`CallForm::Tagged`], with the object on a line of its own.
    TaggedLines,
    /// `<tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>` (GLM).
    Pairs,
    /// Nothing but `{"name": …, "parameters": {…}}` (Llama 3).
    Bare,
}

impl CallForm {
    /// The form in a prompt that repeats a call of the function `name`.
    pub(super) fn of(prompt: &str, name: &str) -> CallForm {
        let line = format!("{OPEN}\n{{");
        if prompt.contains(&format!("{OPEN}{name}")) && prompt.contains(KEY.0) {
            CallForm::Pairs
        } else if prompt.contains(&line) {
            CallForm::TaggedLines
        } else if !prompt.contains(OPEN) && prompt.contains("\"parameters\"") {
            CallForm::Bare
        } else {
            CallForm::Tagged
        }
    }

    /// The tags of all forms: they may be tokens of their own.
    pub const TAGS: [&str; 6] = [OPEN, CLOSE, KEY.0, KEY.1, VALUE.0, VALUE.1];
}

/// Finds calls in what the model says.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    tools: Vec<Json>,
    /// Whether calls are passed on as they come.
    pub(super) pieces: bool,
    state: State,
    held: String,
    /// Whether a call or text came before.
    begun: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
enum State {
    /// Text, in which a call may begin.
    #[default]
    Text,
    /// After the opening tag.
    Call,
    /// All of the output may be objects.
    Bare,
    /// In the arguments of a call.
    Object { scan: Nesting, bare: bool },
    /// In the pairs of a call of this tool.
    Pairs { tool: usize, pair: Pair },
    /// After the arguments of a call.
    After { bare: bool },
}

/// Where in a pair; the first of them opens the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    First,
    Next,
    /// In a value that is text.
    Text,
    /// In a value that may be anything; this key was told.
    Typed,
}

/// What the beginning of a call says.
enum Beginning {
    /// Nothing yet.
    More,
    /// Only the end will tell.
    Unclear,
    /// Whose call it is, and where the arguments begin.
    Object(String, usize),
    Pairs(usize, usize),
}

impl Calls {
    /// Calls of these tools, each when it is complete.
    pub(super) fn new(tools: &[Json]) -> Calls {
        Calls { tools: tools.to_vec(), ..Calls::default() }
    }

    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// Goes from one state to the next; `false` if that takes more text.
    fn step(&mut self, out: &mut Vec<Delta>) -> bool {
        match self.state.clone() {
            State::Text => self.text(out),
            State::Call => self.call(out),
            State::Bare => self.bare(out),
            State::Object { scan, bare } => self.object(scan, bare, out),
            State::Pairs { tool, pair } => self.pair(tool, pair, out),
            State::After { bare: true } => self.after_bare(),
            State::After { bare: false } => {
                let (close, open) = (self.held.find(CLOSE), self.held.find(OPEN));
                let Some(at) = close.into_iter().chain(open).min() else { return false };
                // A call may begin without an end of the one before.
                self.held.drain(..if close == Some(at) { at + CLOSE.len() } else { at });
                self.state = State::Text;
                true
            }
        }
    }

    fn text(&mut self, out: &mut Vec<Delta>) -> bool {
        if !self.begun && self.is_bare() {
            self.state = State::Bare;
            return true;
        }
        let Some(at) = self.held.find(OPEN) else {
            self.pass_on(out);
            return false;
        };
        let before = self.held[..at].trim_end().to_owned();
        self.begun = true;
        add(out, Delta::Content(before));
        self.held.drain(..at + OPEN.len());
        self.state = State::Call;
        true
    }

    /// Whether the output begins as a bare object.
    fn is_bare(&self) -> bool {
        let start = self.held.trim_start();
        start.starts_with('{') || start.starts_with(PYTHON)
    }

    /// Passes on text that can be no part of a tag, nor white space before one.
    fn pass_on(&mut self, out: &mut Vec<Delta>) {
        let start = self.held.trim_start();
        if !self.begun && (start.is_empty() || PYTHON.starts_with(start)) {
            return;
        }
        let text = self.held[..self.held.len() - beginning_of(OPEN, &self.held)].trim_end().len();
        self.begun |= text > 0;
        let text: String = self.held.drain(..text).collect();
        add(out, Delta::Content(text));
    }

    fn call(&mut self, out: &mut Vec<Delta>) -> bool {
        let beginning = if self.pieces { self.beginning(&self.held) } else { Beginning::Unclear };
        match beginning {
            Beginning::Object(name, at) => self.begin_object(name, at, false, out),
            Beginning::Pairs(tool, at) => {
                self.begin(&self.name(tool), at, out);
                self.state = State::Pairs { tool, pair: Pair::First };
            }
            Beginning::More | Beginning::Unclear => {
                let Some(at) = end_of_call(&self.held) else { return false };
                let body = self.held[..at].to_owned();
                self.held.drain(..at + CLOSE.len());
                self.state = State::Text;
                match self.read(&body) {
                    Some(call) => tell(call, out),
                    None => add(out, Delta::Content(format!("{OPEN}{body}{CLOSE}"))),
                }
            }
        }
        true
    }

    fn bare(&mut self, out: &mut Vec<Delta>) -> bool {
        let start = self.held.trim_start();
        let body = start.strip_prefix(PYTHON).unwrap_or(start);
        let skipped = self.held.len() - body.len();
        match if self.pieces { self.beginning(body) } else { Beginning::Unclear } {
            Beginning::Object(name, at) => self.begin_object(name, skipped + at, true, out),
            _ => return false,
        }
        true
    }

    /// What a call begins with.
    fn beginning(&self, body: &str) -> Beginning {
        if body.trim_start().starts_with('{') {
            return match object_beginning(body) {
                None => Beginning::Unclear,
                Some(None) => Beginning::More,
                Some(Some((name, _))) if self.tool(&name).is_none() => Beginning::Unclear,
                Some(Some((name, at))) => Beginning::Object(name, at),
            };
        }
        let Some(at) = body.find(KEY.0) else { return Beginning::More };
        let name = body[..at].trim();
        match self.tools.iter().position(|tool| tool["function"]["name"] == name) {
            Some(tool) => Beginning::Pairs(tool, at),
            None => Beginning::Unclear,
        }
    }

    fn begin(&mut self, name: &str, at: usize, out: &mut Vec<Delta>) {
        self.begun = true;
        self.held.drain(..at);
        out.push(Delta::Call(name.to_owned()));
    }

    fn begin_object(&mut self, name: String, at: usize, bare: bool, out: &mut Vec<Delta>) {
        self.begin(&name, at, out);
        self.state = State::Object { scan: Nesting::default(), bare };
    }

    fn object(&mut self, mut scan: Nesting, bare: bool, out: &mut Vec<Delta>) -> bool {
        let end = scan.end(&self.held);
        let piece: String = self.held.drain(..end.unwrap_or(self.held.len())).collect();
        add(out, Delta::Arguments(piece));
        self.state = if end.is_some() { State::After { bare } } else { State::Object { scan, bare } };
        end.is_some()
    }

    /// The brace that ends a call, and what may come between two.
    fn after_bare(&mut self) -> bool {
        let rest = self.held.trim_start();
        let Some(rest) = rest.strip_prefix('}') else {
            if !rest.is_empty() {
                self.state = State::Text;
            }
            return !rest.is_empty();
        };
        let rest = rest.trim_start_matches(|c: char| c == ';' || c.is_whitespace());
        if rest.is_empty() {
            return false;
        }
        self.state = if rest.starts_with('{') { State::Bare } else { State::Text };
        self.held = rest.to_owned();
        true
    }

    fn pair(&mut self, tool: usize, pair: Pair, out: &mut Vec<Delta>) -> bool {
        match pair {
            Pair::First | Pair::Next => self.key(tool, pair == Pair::First, out),
            Pair::Text => {
                let end = self.held.find(VALUE.1);
                let text = end.unwrap_or(self.held.len() - beginning_of(VALUE.1, &self.held));
                add(out, Delta::Arguments(escaped(&self.held[..text])));
                self.held.drain(..text + end.map_or(0, |_| VALUE.1.len()));
                if end.is_some() {
                    add(out, Delta::Arguments("\"".into()));
                    self.state = State::Pairs { tool, pair: Pair::Next };
                }
                end.is_some()
            }
            Pair::Typed => {
                let Some(end) = self.held.find(VALUE.1) else { return false };
                add(out, Delta::Arguments(typed(&self.held[..end], &Json::Null).to_string()));
                self.held.drain(..end + VALUE.1.len());
                self.state = State::Pairs { tool, pair: Pair::Next };
                true
            }
        }
    }

    /// The next key, or the end of the call.
    fn key(&mut self, tool: usize, first: bool, out: &mut Vec<Delta>) -> bool {
        let rest = self.held.trim_start();
        let is_cut = |tag: &str, text: &str| text.len() < tag.len() && tag.starts_with(text);
        if is_cut(KEY.0, rest) || is_cut(CLOSE, rest) {
            return false;
        }
        let found = rest.strip_prefix(KEY.0).map(|rest| match rest.split_once(KEY.1) {
            None => Ok(None),
            Some((key, rest)) => match rest.trim_start() {
                rest if is_cut(VALUE.0, rest) => Ok(None),
                rest => rest.strip_prefix(VALUE.0).map(|rest| Some((key.trim().to_owned(), rest.to_owned()))).ok_or(()),
            },
        });
        match found {
            Some(Ok(None)) => false,
            Some(Ok(Some((key, rest)))) => {
                let is_text = self.tools[tool]["function"]["parameters"]["properties"][&key]["type"] == "string";
                let comma = if first { "{" } else { ", " };
                let quote = if is_text { "\"" } else { "" };
                add(out, Delta::Arguments(format!("{comma}\"{}\": {quote}", escaped(&key))));
                self.held = rest;
                self.state = State::Pairs { tool, pair: if is_text { Pair::Text } else { Pair::Typed } };
                true
            }
            // The closing tag, or something that does not belong here.
            None | Some(Err(())) => {
                add(out, Delta::Arguments(if first { "{}" } else { "}" }.into()));
                self.state = State::After { bare: false };
                true
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Delta>) {
        let held = std::mem::take(&mut self.held);
        match std::mem::take(&mut self.state) {
            State::Text => add(out, Delta::Content(held)),
            // Some models end their turn without closing the tag.
            State::Call => match self.read(&held) {
                Some(call) => tell(call, out),
                None => add(out, Delta::Content(format!("{OPEN}{held}"))),
            },
            State::Bare => {
                let body = held.trim_start().trim_start_matches(PYTHON);
                match self.read_all(body) {
                    Some(calls) => calls.into_iter().for_each(|call| tell(call, out)),
                    None => add(out, Delta::Content(held)),
                }
            }
            State::Pairs { pair: Pair::Next, .. } => add(out, Delta::Arguments("}".into())),
            State::Pairs { pair: Pair::First, .. } => add(out, Delta::Arguments("{}".into())),
            // Cut short.
            State::Object { .. } | State::Pairs { .. } | State::After { .. } => {}
        }
    }

    /// Objects one after the other, with semicolons or white space between them.
    fn read_all(&self, text: &str) -> Option<Vec<ToolCall>> {
        let mut calls = vec![];
        let mut rest = text.trim();
        while !rest.is_empty() {
            let mut objects = serde_json::Deserializer::from_str(rest).into_iter::<Json>();
            let object = objects.next()?.ok()?;
            calls.push(self.of_object(&object)?);
            rest = rest[objects.byte_offset()..].trim_start_matches(|c: char| c == ';' || c.is_whitespace());
        }
        (!calls.is_empty()).then_some(calls)
    }

    fn read(&self, body: &str) -> Option<ToolCall> {
        let body = body.trim();
        if body.starts_with('{') {
            return self.of_object(&serde_json::from_str(body).ok()?);
        }
        self.of_pairs(body)
    }

    fn of_object(&self, object: &Json) -> Option<ToolCall> {
        let object = object.get("function").filter(|f| f.is_object()).unwrap_or(object);
        let name = object.get("name")?.as_str()?;
        self.tool(name)?;
        let arguments = match object.get("arguments").or_else(|| object.get("parameters")) {
            None | Some(Json::Null) => "{}".to_owned(),
            Some(arguments @ Json::Object(_)) => arguments.to_string(),
            // Arguments as text, as the API has them.
            Some(Json::String(text)) => {
                serde_json::from_str::<Map<String, Json>>(text).ok()?;
                text.clone()
            }
            Some(_) => return None,
        };
        Some(ToolCall { name: name.to_owned(), arguments })
    }

    fn of_pairs(&self, body: &str) -> Option<ToolCall> {
        let (name, mut rest) = match body.find(KEY.0) {
            Some(at) => body.split_at(at),
            None => (body, ""),
        };
        let name = name.trim();
        let tool = self.tool(name)?;
        let mut arguments = Map::new();
        while !rest.trim().is_empty() {
            let (key, after) = rest.trim_start().strip_prefix(KEY.0)?.split_once(KEY.1)?;
            let (value, after) = after.trim_start().strip_prefix(VALUE.0)?.split_once(VALUE.1)?;
            let key = key.trim();
            let kind = &tool["function"]["parameters"]["properties"][key]["type"];
            arguments.insert(key.to_owned(), typed(value, kind));
            rest = after;
        }
        Some(ToolCall { name: name.to_owned(), arguments: Json::Object(arguments).to_string() })
    }

    fn tool(&self, name: &str) -> Option<&Json> {
        self.tools.iter().find(|tool| tool["function"]["name"] == name)
    }

    fn name(&self, tool: usize) -> String {
        self.tools[tool]["function"]["name"].as_str().unwrap_or_default().to_owned()
    }
}

fn tell(call: ToolCall, out: &mut Vec<Delta>) {
    out.push(Delta::Call(call.name));
    out.push(Delta::Arguments(call.arguments));
}

/// Where the closing tag of a call is: what stands in a string of an object, or in a value of a pair, is none.
fn end_of_call(text: &str) -> Option<usize> {
    let mut ends = text.match_indices(CLOSE).map(|(at, _)| at);
    if !text.trim_start().starts_with('{') {
        return ends.find(|&at| !ends_in_value(&text[..at]));
    }
    let (mut scan, mut from) = (Nesting::default(), 0);
    ends.find(|&at| {
        if !scan.over {
            let _ = scan.end(&text[from..at]);
            from = at;
        }
        !scan.in_string
    })
}

/// Whether pairs break off in a value.
fn ends_in_value(mut pairs: &str) -> bool {
    while let Some((_, rest)) = pairs.split_once(VALUE.0) {
        match rest.split_once(VALUE.1) {
            Some((_, rest)) => pairs = rest,
            None => return true,
        }
    }
    false
}

/// A value without a type of its own: text if the schema says so, else JSON if it is some.
fn typed(value: &str, kind: &Json) -> Json {
    if kind == "string" {
        return Json::from(value);
    }
    serde_json::from_str(value.trim()).unwrap_or_else(|_| Json::from(value))
}

/// Text as it stands in a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Json::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// How much of the beginning of a tag a text ends with.
fn beginning_of(tag: &str, text: &str) -> usize {
    (1..tag.len()).rev().find(|&n| text.ends_with(&tag[..n])).unwrap_or(0)
}

/// Reads `{"name": "NAME", "arguments": {` (or `parameters`) and returns the name and the place of the last brace.
/// `None` for something else, `Some(None)` for a part of it.
fn object_beginning(text: &str) -> Option<Option<(String, usize)>> {
    let mut rest = text;
    for token in ["{", "\"name\"", ":"] {
        match after(rest, token)? {
            Some(after) => rest = after,
            None => return Some(None),
        }
    }
    rest = rest.trim_start();
    if rest.is_empty() {
        return Some(None);
    }
    let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let name = match names.next()? {
        Ok(name) => name,
        Err(error) if error.is_eof() => return Some(None),
        Err(_) => return None,
    };
    rest = &rest[names.byte_offset()..];
    match after(rest, ",")? {
        Some(after) => rest = after,
        None => return Some(None),
    }
    let keys = ["\"arguments\"", "\"parameters\""].map(|key| after(rest, key));
    rest = match keys {
        [Some(Some(rest)), _] | [_, Some(Some(rest))] => rest,
        [None, None] => return None,
        _ => return Some(None),
    };
    match after(rest, ":")? {
        Some(after) => rest = after,
        None => return Some(None),
    }
    let rest = rest.trim_start();
    match rest.chars().next() {
        None => Some(None),
        Some('{') => Some(Some((name, text.len() - rest.len()))),
        Some(_) => None,
    }
}

/// What follows a token after white space: `None` for another one, `Some(None)` if it is cut.
fn after<'a>(text: &'a str, token: &str) -> Option<Option<&'a str>> {
    let text = text.trim_start();
    match text.strip_prefix(token) {
        Some(rest) => Some(Some(rest)),
        None => token.starts_with(text).then_some(None),
    }
}

/// Where in a JSON text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escape: bool,
    /// Whether the value has ended.
    over: bool,
}

impl Nesting {
    /// The end of the value in a text that goes on from the one before.
    fn end(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.escape => self.escape = false,
                b'\\' if self.in_string => self.escape = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.over = true;
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}
