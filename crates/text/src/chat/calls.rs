//! Calls of tools in what a model says.
//!
//! They come in many forms (`forms.rs`), which are all looked for. A call is passed on when it is complete and makes sense;
//! what does not is text, word for word. In *pieces* it is passed on as soon as its tool is known and its arguments have
//! begun, and then as it comes. Values of pairs carry no type: the tool's schema says which it is.

use super::delta::{Delta, ToolCall, add};
use super::forms::{AROUND, FORMS, Form, Pairs, Shape};
use super::notation;
use super::scan::{Nesting, beginning_of, object_beginning};
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

/// Longest name of a function.
const LONGEST_NAME: usize = 512;

/// Finds calls in what the model says.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    tools: Vec<Json>,
    /// Whether calls are passed on as they come.
    pub(super) pieces: bool,
    state: State,
    held: String,
    /// White space before a call, which is part of the text if it turns out to be none.
    gap: String,
    /// Whether a call or text came before.
    begun: bool,
    /// Whether nothing but white space followed a call.
    called: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
enum State {
    /// Text, in which a call may begin.
    #[default]
    Text,
    /// After what a call of this form begins with.
    Call(usize),
    /// All of the output may be objects.
    Bare,
    /// In the arguments of a call.
    Object { scan: Nesting, form: Option<usize> },
    /// In the pairs of a call of this tool.
    Pairs { tool: usize, form: usize, pair: Pair },
    /// After the arguments of a call.
    After(Option<usize>),
}

/// Where in a pair; the first of them opens the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    First,
    Next,
    /// In a value that is text and passed on as it comes.
    Text,
    /// In another value; this key was told.
    Whole {
        is_text: bool,
    },
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

/// Something in text that may have to do with calls.
#[derive(Clone, Copy)]
enum Mark {
    /// A call of this form begins, unless it stands around others.
    Call(usize),
    /// Stands before calls.
    Before,
    /// Stands after calls.
    After,
}

/// All marks.
fn marks() -> impl Iterator<Item = (&'static str, Mark)> {
    let calls = FORMS.iter().enumerate().map(|(at, form)| (form.open, Mark::Call(at)));
    let is_form = |open: &str| FORMS.iter().any(|form| form.open == open);
    let before = AROUND.iter().filter(move |(open, _)| !is_form(open)).map(|(open, _)| (*open, Mark::Before));
    calls.chain(before).chain(AROUND.iter().map(|(_, close)| (*close, Mark::After)))
}

/// Whether a mark may stand before others.
fn is_around(mark: &str) -> bool {
    AROUND.iter().any(|(open, _)| *open == mark)
}

/// What may follow something that stands before calls.
fn openings() -> impl Iterator<Item = &'static str> {
    marks().filter(|(_, mark)| !matches!(mark, Mark::After)).map(|(text, _)| text)
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
            State::Call(form) => self.call(form, out),
            State::Bare => self.bare(out),
            State::Object { scan, form } => self.object(scan, form, out),
            State::Pairs { tool, form, pair } => self.pair(tool, form, pair, out),
            State::After(None) => self.after_bare(),
            State::After(Some(form)) => self.after(form),
        }
    }

    fn text(&mut self, out: &mut Vec<Delta>) -> bool {
        if !self.begun && self.is_bare() {
            self.state = State::Bare;
            return true;
        }
        let found = marks().filter_map(|(text, mark)| Some((self.held.find(text)?, text, mark)));
        let Some((at, text, mark)) = found.min_by_key(|(at, ..)| *at) else {
            self.pass_on(out);
            return false;
        };
        let rest = self.held[at + text.len()..].trim_start();
        let follows = openings().any(|open| rest.starts_with(open));
        let may_follow = openings().any(|open| open.starts_with(rest));
        let skipped = self.held.len() - rest.len();
        match mark {
            Mark::Before | Mark::Call(_) if is_around(text) && follows => self.skip(at, skipped, out),
            Mark::Before | Mark::Call(_) if is_around(text) && may_follow => return false,
            Mark::Call(form) => {
                self.skip(at, at + text.len(), out);
                self.state = State::Call(form);
            }
            Mark::After if self.called && self.held[..at].trim().is_empty() => drop(self.held.drain(..at + text.len())),
            Mark::Before | Mark::After => {
                let said: String = self.held.drain(..at + text.len()).collect();
                self.say(said, out);
            }
        }
        true
    }

    /// Passes on the text up to `at` and forgets what follows it up to `end`.
    fn skip(&mut self, at: usize, end: usize, out: &mut Vec<Delta>) {
        let before = self.held[..at].trim_end().to_owned();
        self.gap = self.held[before.len()..at].to_owned();
        self.held.drain(..end);
        self.begun = true;
        self.say(before, out);
    }

    fn say(&mut self, text: String, out: &mut Vec<Delta>) {
        self.begun |= !text.is_empty();
        self.called &= text.trim().is_empty();
        add(out, Delta::Content(text));
    }

    /// Whether the output begins as a bare object.
    fn is_bare(&self) -> bool {
        let start = self.held.trim_start();
        start.starts_with('{') || start.starts_with(PYTHON)
    }

    /// Passes on text that can be no part of a mark, nor white space before one.
    fn pass_on(&mut self, out: &mut Vec<Delta>) {
        let start = self.held.trim_start();
        if !self.begun && (start.is_empty() || PYTHON.starts_with(start)) {
            return;
        }
        let kept = marks().map(|(mark, _)| beginning_of(mark, &self.held)).max().unwrap_or(0);
        let text = self.held[..self.held.len() - kept].trim_end().len();
        let text: String = self.held.drain(..text).collect();
        self.say(text, out);
    }

    fn call(&mut self, number: usize, out: &mut Vec<Delta>) -> bool {
        let form = &FORMS[number];
        if self.is_none(form) {
            let said = std::mem::take(&mut self.gap) + form.open;
            self.say(said, out);
            self.state = State::Text;
            return true;
        }
        match if self.pieces { self.beginning(form, &self.held) } else { Beginning::Unclear } {
            Beginning::Object(name, at) => self.begin_object(name, at, Some(number), out),
            Beginning::Pairs(tool, at) => {
                self.begin(&self.name(tool), at, out);
                self.state = State::Pairs { tool, form: number, pair: Pair::First };
            }
            Beginning::More | Beginning::Unclear => {
                let Some((end, next)) = extent(form, &self.held) else { return false };
                let body: String = self.held.drain(..next).collect();
                self.state = State::Text;
                match self.read(form, &body[..end]) {
                    Some(calls) => self.tell(calls, out),
                    None => {
                        let said = std::mem::take(&mut self.gap) + form.open + &body;
                        self.say(said, out);
                    }
                }
            }
        }
        true
    }

    /// Whether what follows the beginning of a call shows that it is none.
    fn is_none(&self, form: &Form) -> bool {
        let start = self.held.trim_start();
        let name = form.shapes.iter().find_map(|shape| match shape {
            Shape::Pairs(pairs) if !pairs.after_name.is_empty() => Some(pairs.after_name),
            _ => None,
        });
        if start.is_empty() {
            return false;
        }
        if let Some(after) = name {
            let end = self.held.find(after).filter(|end| *end <= LONGEST_NAME);
            let unknown = end.is_some_and(|end| self.tool(self.held[..end].trim()).is_none());
            let within = &self.held[..end.unwrap_or(self.held.len())];
            return unknown || within.contains(['<', '\n']) || within.len() > LONGEST_NAME;
        }
        match form.shapes {
            [Shape::Braces(_)] => !(start.starts_with("call:") || "call:".starts_with(start)),
            shapes if shapes.iter().all(|shape| matches!(shape, Shape::Objects | Shape::Python)) => {
                let python = shapes.contains(&Shape::Python) && notation::begins_python(start);
                !(python || start.starts_with(['{', '[']))
            }
            _ => false,
        }
    }

    fn bare(&mut self, out: &mut Vec<Delta>) -> bool {
        let start = self.held.trim_start();
        let body = start.strip_prefix(PYTHON).unwrap_or(start);
        let skipped = self.held.len() - body.len();
        match if self.pieces { self.object_beginning(body) } else { Beginning::Unclear } {
            Beginning::Object(name, at) => self.begin_object(name, skipped + at, None, out),
            _ => return false,
        }
        true
    }

    /// What a call begins with.
    fn beginning(&self, form: &Form, body: &str) -> Beginning {
        let start = body.trim_start();
        if form.shapes.contains(&Shape::Objects) && start.starts_with(['{', '[']) {
            return self.object_beginning(body);
        }
        for shape in form.shapes {
            match shape {
                Shape::Named(marks) => {
                    if let Some((name, at)) = body.find('{').and_then(|at| Some((self.named(&body[..at], marks)?, at)))
                    {
                        return Beginning::Object(name, at);
                    }
                    // What follows the name tells whether an object or pairs do.
                    let after = marks.iter().find_map(|mark| Some(body[body.find(mark)? + mark.len()..].trim_start()));
                    if after.is_none_or(str::is_empty) || form.shapes.len() == 1 {
                        return Beginning::More;
                    }
                }
                Shape::Pairs(pairs) => {
                    let end = if pairs.after_name.is_empty() { pairs.key.0 } else { pairs.after_name };
                    let Some(at) = body.find(end) else { return Beginning::More };
                    let name = body[..at].trim();
                    return match self.tools.iter().position(|tool| tool["function"]["name"] == name) {
                        Some(tool) => Beginning::Pairs(tool, at + pairs.after_name.len()),
                        None => Beginning::Unclear,
                    };
                }
                Shape::Objects | Shape::Braces(_) | Shape::Python => {}
            }
        }
        Beginning::Unclear
    }

    fn object_beginning(&self, body: &str) -> Beginning {
        match object_beginning(body) {
            None => Beginning::Unclear,
            Some(None) => Beginning::More,
            Some(Some((name, _))) if self.tool(&name).is_none() => Beginning::Unclear,
            Some(Some((name, at))) => Beginning::Object(name, at),
        }
    }

    fn begin(&mut self, name: &str, at: usize, out: &mut Vec<Delta>) {
        self.begun = true;
        self.called = true;
        self.held.drain(..at);
        out.push(Delta::Call(name.to_owned()));
    }

    fn begin_object(&mut self, name: String, at: usize, form: Option<usize>, out: &mut Vec<Delta>) {
        self.begin(&name, at, out);
        self.state = State::Object { scan: Nesting::default(), form };
    }

    fn object(&mut self, mut scan: Nesting, form: Option<usize>, out: &mut Vec<Delta>) -> bool {
        let end = scan.end(&self.held);
        let piece: String = self.held.drain(..end.unwrap_or(self.held.len())).collect();
        add(out, Delta::Arguments(piece));
        self.state = match end {
            Some(_) => State::After(form),
            None => State::Object { scan, form },
        };
        end.is_some()
    }

    /// What may come between the arguments of a call and the end of it.
    fn after(&mut self, form: usize) -> bool {
        let close = FORMS[form].close;
        if close.is_empty() {
            // An object around the arguments ends here, too.
            let rest = self.held.trim_start();
            let held = rest.strip_prefix('}').unwrap_or(rest).to_owned();
            if rest.is_empty() {
                return false;
            }
            self.held = held;
            self.state = State::Text;
            return true;
        }
        // A call may begin without an end of the one before.
        let found = openings().chain([close]).filter_map(|mark| Some((self.held.find(mark)?, mark)));
        let Some((at, mark)) = found.min() else { return false };
        self.held.drain(..if mark == close { at + close.len() } else { at });
        self.state = State::Text;
        true
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

    fn pair(&mut self, tool: usize, form: usize, pair: Pair, out: &mut Vec<Delta>) -> bool {
        let Some(pairs) = pairs_of(&FORMS[form]) else { return false };
        let is_text = match pair {
            Pair::First | Pair::Next => return self.key(tool, form, pairs, pair == Pair::First, out),
            Pair::Text => {
                let end = self.held.find(pairs.after_value);
                let text = end.unwrap_or(self.held.len() - beginning_of(pairs.after_value, &self.held));
                add(out, Delta::Arguments(escaped(&self.held[..text])));
                self.held.drain(..text + end.map_or(0, |_| pairs.after_value.len()));
                if end.is_some() {
                    add(out, Delta::Arguments("\"".into()));
                    self.state = State::Pairs { tool, form, pair: Pair::Next };
                }
                return end.is_some();
            }
            Pair::Whole { is_text } => is_text,
        };
        let Some(end) = self.held.find(pairs.after_value) else { return false };
        add(out, Delta::Arguments(typed(pairs.value(&self.held[..end]), is_text).to_string()));
        self.held.drain(..end + pairs.after_value.len());
        self.state = State::Pairs { tool, form, pair: Pair::Next };
        true
    }

    /// The next key, or the end of the call.
    fn key(&mut self, tool: usize, form: usize, pairs: &Pairs, first: bool, out: &mut Vec<Delta>) -> bool {
        let rest = self.held.trim_start();
        let is_cut = |tag: &str, text: &str| text.len() < tag.len() && tag.starts_with(text);
        if is_cut(pairs.key.0, rest) || is_cut(FORMS[form].close, rest) {
            return false;
        }
        let found = rest.strip_prefix(pairs.key.0).map(|rest| match rest.split_once(pairs.key.1) {
            None => Ok(None),
            Some((key, rest)) => {
                let rest = if pairs.lines { rest } else { rest.trim_start() };
                if pairs.values.iter().any(|open| is_cut(open, rest)) {
                    return Ok(None);
                }
                let value = pairs.values.iter().find_map(|open| rest.strip_prefix(open));
                value.map(|rest| Some((key.trim().to_owned(), rest.to_owned()))).ok_or(())
            }
        });
        match found {
            Some(Ok(None)) => false,
            Some(Ok(Some((key, rest)))) => {
                let is_text = self.tools[tool]["function"]["parameters"]["properties"][&key]["type"] == "string";
                // The last line break of a value is none of it, which only its end tells.
                let flows = is_text && !pairs.lines;
                let comma = if first { "{" } else { ", " };
                let quote = if flows { "\"" } else { "" };
                add(out, Delta::Arguments(format!("{comma}\"{}\": {quote}", escaped(&key))));
                self.held = rest;
                let pair = if flows { Pair::Text } else { Pair::Whole { is_text } };
                self.state = State::Pairs { tool, form, pair };
                true
            }
            // The closing tag, or something that does not belong here.
            None | Some(Err(())) => {
                add(out, Delta::Arguments(if first { "{}" } else { "}" }.into()));
                self.state = State::After(Some(form));
                true
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Delta>) {
        let held = std::mem::take(&mut self.held);
        match std::mem::take(&mut self.state) {
            State::Text if self.called && held.trim().is_empty() => {}
            State::Text => add(out, Delta::Content(held)),
            // Some models end their turn without closing the tag.
            State::Call(form) => match self.read(&FORMS[form], &held) {
                Some(calls) => self.tell(calls, out),
                None => add(out, Delta::Content(std::mem::take(&mut self.gap) + FORMS[form].open + &held)),
            },
            State::Bare => {
                let body = held.trim_start().trim_start_matches(PYTHON);
                match self.read_all(body) {
                    Some(calls) => self.tell(calls, out),
                    None => add(out, Delta::Content(held)),
                }
            }
            State::Pairs { pair: Pair::Next, .. } => add(out, Delta::Arguments("}".into())),
            State::Pairs { pair: Pair::First, .. } => add(out, Delta::Arguments("{}".into())),
            // Cut short.
            State::Object { .. } | State::Pairs { .. } | State::After(_) => {}
        }
    }

    fn tell(&mut self, calls: Vec<ToolCall>, out: &mut Vec<Delta>) {
        self.called = true;
        for call in calls {
            out.push(Delta::Call(call.name));
            out.push(Delta::Arguments(call.arguments));
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

    /// The calls that all of `body` is.
    fn read(&self, form: &Form, body: &str) -> Option<Vec<ToolCall>> {
        let body = body.trim();
        form.shapes.iter().find_map(|shape| match shape {
            Shape::Objects => match serde_json::from_str(body).ok()? {
                Json::Array(list) if !list.is_empty() => list.iter().map(|object| self.of_object(object)).collect(),
                object => Some(vec![self.of_object(&object)?]),
            },
            Shape::Named(marks) => {
                let at = body.find('{')?;
                let name = self.named(&body[..at], marks)?;
                // Some stand in a fence.
                let value = body[at..].trim_end_matches(|c: char| c == '`' || c.is_whitespace());
                let arguments: Map<String, Json> = serde_json::from_str(value).ok()?;
                Some(vec![ToolCall { name, arguments: Json::Object(arguments).to_string() }])
            }
            Shape::Pairs(pairs) => Some(vec![self.of_pairs(pairs, body)?]),
            Shape::Braces(mark) => {
                notation::braces(body, mark).filter(|call| self.tool(&call.name).is_some()).map(|call| vec![call])
            }
            Shape::Python => {
                notation::python(body).filter(|calls| calls.iter().all(|call| self.tool(&call.name).is_some()))
            }
        })
    }

    /// The tool that the text before an object names, with marks around the name and other words.
    fn named(&self, head: &str, marks: &[&str]) -> Option<String> {
        let mut words = vec![];
        let mut rest = head;
        while let Some((at, mark)) = marks.iter().filter_map(|mark| Some((rest.find(mark)?, *mark))).min() {
            words.push(rest[..at].trim());
            rest = &rest[at + mark.len()..];
        }
        if words.is_empty() || !rest.trim().is_empty() || words.iter().any(|word| word.contains('<')) {
            return None;
        }
        // DeepSeek tells the kind of tool first.
        let word = if words[0] == "function" && words.len() > 1 { words[1] } else { words[0] };
        let bare = word.strip_prefix("functions.").unwrap_or(word);
        let numbered = bare.rsplit_once(':').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let names = [word, bare, numbered.map_or(bare, |(name, _)| name)];
        names.into_iter().find(|name| self.tool(name).is_some()).map(str::to_owned)
    }

    fn of_object(&self, object: &Json) -> Option<ToolCall> {
        let object = object.get("function").filter(|f| f.is_object()).unwrap_or(object);
        let Some(name) = object.get("name").or_else(|| object.get("tool_name")) else {
            // Or the name is the only key.
            let (name, arguments) = object.as_object().filter(|object| object.len() == 1)?.iter().next()?;
            self.tool(name)?;
            return arguments.is_object().then(|| ToolCall { name: name.clone(), arguments: arguments.to_string() });
        };
        let name = name.as_str()?;
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

    fn of_pairs(&self, pairs: &Pairs, body: &str) -> Option<ToolCall> {
        let (name, mut rest) = match pairs.after_name {
            "" => body.find(pairs.key.0).map_or((body, ""), |at| body.split_at(at)),
            after => body.split_once(after)?,
        };
        let name = name.trim();
        let tool = self.tool(name)?;
        let mut arguments = Map::new();
        while !rest.trim().is_empty() {
            let (key, after) = rest.trim_start().strip_prefix(pairs.key.0)?.split_once(pairs.key.1)?;
            let after = if pairs.lines { after } else { after.trim_start() };
            let value = pairs.values.iter().find_map(|open| after.strip_prefix(open))?;
            let (value, after) = value.split_once(pairs.after_value)?;
            let key = key.trim();
            let is_text = tool["function"]["parameters"]["properties"][key]["type"] == "string";
            arguments.insert(key.to_owned(), typed(pairs.value(value), is_text));
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

impl Pairs {
    /// A value without the line breaks around it that are none of it.
    fn value<'t>(&self, text: &'t str) -> &'t str {
        if !self.lines {
            return text;
        }
        let text = text.strip_prefix('\n').unwrap_or(text);
        text.strip_suffix('\n').unwrap_or(text)
    }

    /// Whether a text breaks off in a value.
    fn breaks_off_in_value(&self, mut text: &str) -> bool {
        while let Some((_, rest)) = text.split_once(self.key.0) {
            let value = rest.split_once(self.key.1).and_then(|(_, rest)| {
                self.values.iter().filter_map(|open| rest.split_once(open)).map(|(_, value)| value).next()
            });
            match value.map(|value| value.split_once(self.after_value)) {
                Some(Some((_, rest))) => text = rest,
                Some(None) => return true,
                None => return false,
            }
        }
        false
    }
}

fn pairs_of(form: &Form) -> Option<&Pairs> {
    form.shapes.iter().find_map(|shape| match shape {
        Shape::Pairs(pairs) => Some(pairs),
        _ => None,
    })
}

/// Where the body of a call ends, and what closes it: what stands in a string of an object, or in a value of a pair,
/// closes nothing.
fn extent(form: &Form, text: &str) -> Option<(usize, usize)> {
    let object = text.find(|c: char| !c.is_whitespace()).filter(|&at| text[at..].starts_with(['{', '[']));
    let is_named = matches!(form.shapes[0], Shape::Named(_)) || form.close.is_empty();
    if form.close.is_empty() {
        let start = object.or_else(|| text.find('{'))?;
        let end = start + Nesting::default().end(&text[start..])?;
        return Some((end, end));
    }
    let mut ends = text.match_indices(form.close).map(|(at, _)| at);
    let pairs = pairs_of(form);
    // A value of a pair may have braces, too.
    let named = text.find('{').filter(|&at| is_named && pairs.is_none_or(|pairs| !text[..at].contains(pairs.key.0)));
    let python = matches!(form.shapes[0], Shape::Python);
    let end = if let Some(start) = object.filter(|_| !python).or(named) {
        let (mut scan, mut from) = (Nesting::default(), start);
        ends.find(|&at| {
            if !scan.over && at > from {
                let _ = scan.end(&text[from..at]);
                from = at;
            }
            !scan.in_string
        })
    } else if let Shape::Braces(mark) = &form.shapes[0] {
        ends.find(|&at| text[..at].matches(mark).count() % 2 == 0)
    } else {
        ends.find(|&at| pairs.is_none_or(|pairs| !pairs.breaks_off_in_value(&text[..at])))
    };
    end.map(|end| (end, end + form.close.len()))
}

/// A value without a type of its own: text if the schema says so, else JSON if it is some.
fn typed(value: &str, is_text: bool) -> Json {
    if is_text {
        return Json::from(value);
    }
    serde_json::from_str(value.trim()).unwrap_or_else(|_| Json::from(value))
}

/// Text as it stands in a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Json::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
