//! A model's output told apart as it streams: what it thinks, what it says, which tools it calls.
//!
//! Calls come in two forms. Between `<tool_call>` and `</tool_call>` there is a JSON object (Qwen, Hermes, Youtu) or a
//! name with `<arg_key>` and `<arg_value>` pairs (GLM); a Llama 3 answers with nothing but the object, which has
//! `parameters` for `arguments`. A call is passed on when it is complete and makes sense; what does not is text, word
//! for word. Values of GLM carry no type: the tool's schema says which it is.

use super::reasoning::ReasoningSplitter;
use serde_json::{Map, Value as Json};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const PYTHON: &str = "<|python_tag|>";

/// The next piece of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// What the model thinks.
    Reasoning(String),
    /// What the model says.
    Content(String),
    /// A call of a tool.
    Call(ToolCall),
}

/// A complete call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// A JSON object as text.
    pub arguments: String,
}

/// Tells the parts of an output apart.
///
/// ```
/// use model::chat::{Delta, OutputParser};
/// use serde_json::json;
///
/// let tools = [json!({ "type": "function", "function": { "name": "add" } })];
/// let mut output = OutputParser::new(true, &tools);
/// assert_eq!(output.push("hm</think>\n\nIt is "), [Delta::Reasoning("hm".into()), Delta::Content("It is".into())]);
/// assert_eq!(output.push("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</too"), []);
/// let Delta::Call(call) = &output.push("l_call>")[0] else { panic!() };
/// assert_eq!((call.name.as_str(), call.arguments.as_str()), ("add", "{\"a\":1}"));
/// ```
#[derive(Debug, Clone)]
pub struct OutputParser {
    splitter: Option<ReasoningSplitter>,
    /// None if there are no tools: then everything is text.
    calls: Option<Calls>,
}

impl OutputParser {
    /// A parser for output after a prompt that `opened` the thinking tag, or not, and offered these tools.
    pub fn new(opened: bool, tools: &[Json]) -> OutputParser {
        OutputParser {
            splitter: Some(ReasoningSplitter::new(opened)),
            calls: (!tools.is_empty()).then(|| Calls { tools: tools.to_vec(), ..Calls::default() }),
        }
    }

    /// Leaves reasoning in the text, tags and all.
    pub fn without_reasoning(self) -> OutputParser {
        OutputParser { splitter: None, ..self }
    }

    /// Takes the next text and returns what is decided.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        let mut out = vec![];
        let content = match &mut self.splitter {
            None => text.to_owned(),
            Some(splitter) => {
                let split = splitter.push(text);
                add(&mut out, Delta::Reasoning(split.reasoning));
                split.content
            }
        };
        self.say(&content, &mut out);
        out
    }

    /// Ends the output and returns what was held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        let mut out = vec![];
        if let Some(splitter) = &mut self.splitter {
            let split = splitter.finish();
            add(&mut out, Delta::Reasoning(split.reasoning));
            self.say(&split.content, &mut out);
        }
        if let Some(calls) = &mut self.calls {
            calls.finish(&mut out);
        }
        out
    }

    fn say(&mut self, content: &str, out: &mut Vec<Delta>) {
        match &mut self.calls {
            Some(calls) => calls.push(content, out),
            None => add(out, Delta::Content(content.to_owned())),
        }
    }
}

fn add(out: &mut Vec<Delta>, delta: Delta) {
    match (&delta, out.last_mut()) {
        (Delta::Content(text) | Delta::Reasoning(text), _) if text.is_empty() => {}
        (Delta::Content(text), Some(Delta::Content(last))) => last.push_str(text),
        _ => out.push(delta),
    }
}

/// Finds calls in what the model says.
#[derive(Debug, Clone, Default)]
struct Calls {
    tools: Vec<Json>,
    state: State,
    held: String,
    /// Whether a call or text came before.
    begun: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Text, in which a call may begin.
    #[default]
    Text,
    /// After the opening tag.
    Call,
    /// All of the output may be one object.
    Bare,
}

impl Calls {
    fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        self.held.push_str(text);
        loop {
            match self.state {
                State::Text => {
                    if !self.begun && self.is_bare() {
                        self.state = State::Bare;
                        return;
                    }
                    let Some(at) = self.held.find(OPEN) else {
                        self.pass_on(out);
                        return;
                    };
                    let before = self.held[..at].trim_end().to_owned();
                    self.begun = true;
                    add(out, Delta::Content(before));
                    self.held.drain(..at + OPEN.len());
                    self.state = State::Call;
                }
                State::Call => {
                    let Some(at) = self.held.find(CLOSE) else { return };
                    let body = self.held[..at].to_owned();
                    self.held.drain(..at + CLOSE.len());
                    self.state = State::Text;
                    match self.read(&body) {
                        Some(call) => out.push(Delta::Call(call)),
                        None => add(out, Delta::Content(format!("{OPEN}{body}{CLOSE}"))),
                    }
                }
                State::Bare => return,
            }
        }
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
        let tag = (1..OPEN.len()).rev().find(|&n| self.held.ends_with(&OPEN[..n])).unwrap_or(0);
        let text = self.held[..self.held.len() - tag].trim_end().len();
        self.begun |= text > 0;
        let text: String = self.held.drain(..text).collect();
        add(out, Delta::Content(text));
    }

    fn finish(&mut self, out: &mut Vec<Delta>) {
        let held = std::mem::take(&mut self.held);
        match std::mem::take(&mut self.state) {
            State::Text => add(out, Delta::Content(held)),
            // Some models end their turn without closing the tag.
            State::Call => match self.read(&held) {
                Some(call) => out.push(Delta::Call(call)),
                None => add(out, Delta::Content(format!("{OPEN}{held}"))),
            },
            State::Bare => {
                let body = held.trim_start().trim_start_matches(PYTHON);
                match self.read_all(body) {
                    Some(calls) => out.extend(calls.into_iter().map(Delta::Call)),
                    None => add(out, Delta::Content(held)),
                }
            }
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
        let (name, mut rest) = match body.find("<arg_key>") {
            Some(at) => body.split_at(at),
            None => (body, ""),
        };
        let name = name.trim();
        let tool = self.tool(name)?;
        let mut arguments = Map::new();
        while !rest.trim().is_empty() {
            let (key, after) = rest.trim_start().strip_prefix("<arg_key>")?.split_once("</arg_key>")?;
            let (value, after) = after.trim_start().strip_prefix("<arg_value>")?.split_once("</arg_value>")?;
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
}

/// A value without a type of its own: text if the schema says so, else JSON if it is some.
fn typed(value: &str, kind: &Json) -> Json {
    if kind == "string" {
        return Json::from(value);
    }
    serde_json::from_str(value.trim()).unwrap_or_else(|_| Json::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn tools() -> Vec<Json> {
        let properties = json!({ "city": { "type": "string" }, "days": { "type": "integer" }, "where": {} });
        vec![
            json!({ "type": "function", "function": { "name": "weather", "parameters": { "properties": properties } } }),
            json!({ "type": "function", "function": { "name": "now" } }),
        ]
    }

    /// Reasoning, content and calls.
    fn run(pieces: &[&str]) -> (String, String, Vec<(String, String)>) {
        let mut parser = OutputParser::new(false, &tools());
        let mut deltas: Vec<Delta> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        deltas.extend(parser.finish());
        let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), vec![]);
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => reasoning += &text,
                Delta::Content(text) => content += &text,
                Delta::Call(ToolCall { name, arguments }) => calls.push((name, arguments)),
            }
        }
        (reasoning, content, calls)
    }

    fn check(output: &str, reasoning: &str, content: &str, calls: &[(&str, Json)]) {
        let letters: Vec<String> = output.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for pieces in [vec![output], letters] {
            let got = run(&pieces);
            assert_eq!((got.0.as_str(), got.1.as_str()), (reasoning, content), "{output:?}");
            let parsed: Vec<(&str, Json)> =
                got.2.iter().map(|(name, text)| (name.as_str(), serde_json::from_str(text).unwrap())).collect();
            assert_eq!(parsed, calls, "{output:?}");
        }
    }

    #[test]
    fn calls_of_every_family() {
        let oslo = json!({ "city": "Oslo", "days": 3 });
        check(
            "<think>hm</think>Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>",
            "hm",
            "Let me see.",
            &[("weather", oslo.clone())],
        );
        check(
            "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now</tool_call>",
            "",
            "",
            &[("weather", oslo.clone()), ("now", json!({}))],
        );
        // A string that looks like a number stays one; what has no type is what it looks like.
        check(
            "<tool_call>weather<arg_key>city</arg_key><arg_value>12</arg_value><arg_key>where</arg_key><arg_value>[1, 2]</arg_value></tool_call>",
            "",
            "",
            &[("weather", json!({ "city": "12", "where": [1, 2] }))],
        );
        check(
            "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}; {\"name\": \"now\", \"parameters\": {}}",
            "",
            "",
            &[("weather", oslo.clone()), ("now", json!({}))],
        );
        check("<|python_tag|>{\"name\": \"now\"}", "", "", &[("now", json!({}))]);
        // The closing tag may be missing, arguments may be text.
        check("<tool_call>{\"name\": \"now\", \"arguments\": \"{}\"}", "", "", &[("now", json!({}))]);
    }

    #[test]
    fn what_is_no_call_is_text() {
        for text in [
            "plain < text with <tool_calls>",
            "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": }}</tool_call>",
            "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call> and more",
            "<tool_call>weather<arg_key>city</arg_key></tool_call>",
            "{\"answer\": 42}",
            "{ not json",
            "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>",
            "<tool_ca",
            "ends with space \n",
            "  ",
            "",
        ] {
            check(text, "", text, &[]);
        }
    }

    #[test]
    fn without_tools_everything_is_text() {
        let mut parser = OutputParser::new(false, &[]);
        let text = "<tool_call>{}</tool_call>";
        assert_eq!(parser.push(text), [Delta::Content(text.into())]);
        let mut raw = OutputParser::new(true, &[]).without_reasoning();
        assert_eq!(raw.push("hm</think>"), [Delta::Content("hm</think>".into())]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            words in prop::collection::vec(prop::sample::select(vec![
                "<tool_call>", "</tool_call>", "{\"name\": \"now\"}", "now", "<", " ", "\n", "é", "<think>", "</think>",
                "<arg_key>", "{", "<|python_tag|>", "tool_call>",
            ]), 0..10),
            cuts in prop::collection::vec(1usize..9, 60),
        ) {
            let whole = words.concat();
            let characters: Vec<char> = whole.chars().collect();
            let (mut pieces, mut at) = (vec![], 0);
            for cut in cuts {
                let end = (at + cut).min(characters.len());
                pieces.push(String::from_iter(&characters[at..end]));
                at = end;
            }
            pieces.push(String::from_iter(&characters[at..]));
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&pieces), run(&[&whole]));
        }
    }
}
