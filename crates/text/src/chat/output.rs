//! A model's output told apart as it streams: what it thinks, what it says, which tools it calls.

use super::calls::Calls;
use super::delta::{Delta, add};
use super::reasoning::ReasoningSplitter;
use serde_json::Value as Json;

/// Tells the parts of an output apart.
///
/// ```
/// use text::chat::{Delta, OutputParser};
/// use serde_json::json;
///
/// let tools = [json!({ "type": "function", "function": { "name": "add" } })];
/// let mut output = OutputParser::new(true, &tools);
/// assert_eq!(output.push("hm</think>\n\nIt is "), [Delta::Reasoning("hm".into()), Delta::Content("It is".into())]);
/// assert_eq!(output.push("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</too"), []);
/// assert_eq!(output.push("l_call>"), [Delta::Call("add".into()), Delta::Arguments("{\"a\":1}".into())]);
/// ```
#[derive(Debug, Clone)]
pub struct OutputParser {
    splitter: Option<ReasoningSplitter>,
    /// None if there are no tools: then everything is text.
    calls: Option<Calls>,
    most_calls: usize,
    begun_calls: usize,
}

impl OutputParser {
    /// A parser for output after a prompt that `opened` the thinking tag, or not, and offered these tools. A call comes
    /// when it is complete.
    pub fn new(opened: bool, tools: &[Json]) -> OutputParser {
        OutputParser {
            splitter: Some(ReasoningSplitter::new(opened)),
            calls: (!tools.is_empty()).then(|| Calls::new(tools)),
            most_calls: usize::MAX,
            begun_calls: 0,
        }
    }

    /// Leaves reasoning in the text, tags and all.
    pub fn without_reasoning(self) -> OutputParser {
        OutputParser { splitter: None, ..self }
    }

    /// Passes calls on as they come. What turns out to be no call only after its arguments have begun stays one.
    pub fn in_pieces(mut self) -> OutputParser {
        if let Some(calls) = &mut self.calls {
            calls.pieces = true;
        }
        self
    }

    /// Leaves out all calls but the first.
    pub fn with_one_call(self) -> OutputParser {
        OutputParser { most_calls: 1, ..self }
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
        self.bounded(out)
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
        self.bounded(out)
    }

    fn say(&mut self, content: &str, out: &mut Vec<Delta>) {
        match &mut self.calls {
            Some(calls) => calls.push(content, out),
            None => add(out, Delta::Content(content.to_owned())),
        }
    }

    fn bounded(&mut self, mut deltas: Vec<Delta>) -> Vec<Delta> {
        deltas.retain(|delta| {
            self.begun_calls += usize::from(matches!(delta, Delta::Call(_)));
            self.begun_calls <= self.most_calls || !matches!(delta, Delta::Call(_) | Delta::Arguments(_))
        });
        deltas
    }
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
        run_with(OutputParser::new(false, &tools()), pieces)
    }

    fn run_with(parser: OutputParser, pieces: &[&str]) -> (String, String, Vec<(String, String)>) {
        crate::chat::forms_tests::told(parser, pieces)
    }

    fn check(output: &str, reasoning: &str, content: &str, calls: &[(&str, Json)]) {
        check_whole(output, reasoning, content, calls);
        check_with(&OutputParser::new(false, &tools()).in_pieces(), output, reasoning, content, calls);
    }

    fn check_whole(output: &str, reasoning: &str, content: &str, calls: &[(&str, Json)]) {
        check_with(&OutputParser::new(false, &tools()), output, reasoning, content, calls);
    }

    fn check_with(parser: &OutputParser, output: &str, reasoning: &str, content: &str, calls: &[(&str, Json)]) {
        let letters: Vec<String> = output.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for pieces in [vec![output], letters] {
            let got = run_with(parser.clone(), &pieces);
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
        // A tag in a string is text.
        check(
            "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"</tool_call>\"}}</tool_call>",
            "",
            "",
            &[("weather", json!({ "city": "</tool_call>" }))],
        );
        check(
            "<tool_call>weather<arg_key>city</arg_key><arg_value></tool_call><arg_value></arg_value></tool_call>",
            "",
            "",
            &[("weather", json!({ "city": "</tool_call><arg_value>" }))],
        );
        // The closing tag may be missing, arguments may be text.
        check("<tool_call>{\"name\": \"now\", \"arguments\": \"{}\"}", "", "", &[("now", json!({}))]);
    }

    #[test]
    fn what_is_no_call_is_text() {
        for text in [
            "plain < text with <tool_calls>",
            "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call> and more",
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
    fn arguments_that_break_off_are_text_unless_they_were_told() {
        let pairs = "<tool_call>weather<arg_key>city</arg_key></tool_call>";
        check_whole(pairs, "", pairs, &[]);
        check_with(&OutputParser::new(false, &tools()).in_pieces(), pairs, "", "", &[("weather", json!({}))]);
        let object = "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": }}</tool_call>";
        check_whole(object, "", object, &[]);
        let got = run_with(OutputParser::new(false, &tools()).in_pieces(), &[object]);
        assert_eq!(got.2, [("weather".into(), "{\"city\": }".into())]);
    }

    #[test]
    fn arguments_come_as_they_are_written() {
        let told = |text: &str| {
            let mut parser = OutputParser::new(false, &tools()).in_pieces();
            text.chars().flat_map(|c| parser.push(&c.to_string())).collect::<Vec<_>>()
        };
        let join = |deltas: &[Delta]| {
            let mut all = String::new();
            for delta in deltas {
                match delta {
                    Delta::Call(name) => all += &format!("[{name}]"),
                    Delta::Arguments(text) => all += text,
                    other => panic!("{other:?}"),
                }
            }
            all
        };
        let object = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a } \\\" </tool_call>\", \"da";
        let deltas = told(object);
        assert!(deltas.len() > 20, "{deltas:?}");
        assert_eq!(join(&deltas), "[weather]{\"city\": \"a } \\\" </tool_call>\", \"da");
        let pairs = "<tool_call>weather<arg_key>city</arg_key><arg_value>a \"é\" </arg</arg_value><arg_key>days</arg_key><arg_value>3";
        assert_eq!(join(&told(pairs)), "[weather]{\"city\": \"a \\\"é\\\" </arg\", \"days\": ");
        let bare = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Os";
        assert_eq!(join(&told(bare)), "[weather]{\"city\": \"Os");
    }

    #[test]
    fn of_several_calls_only_the_first_may_be_wanted() {
        let one = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
        for parser in [OutputParser::new(false, &tools()), OutputParser::new(false, &tools()).in_pieces()] {
            let got = run_with(parser.with_one_call(), &[one, "\n", one, " and text"]);
            assert_eq!(got, (String::new(), " and text".into(), vec![("now".into(), "{}".into())]));
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
                "<arg_key>", "{", "<|python_tag|>", "tool_call>", "<tool_call>weather<arg_key>city", "</arg_key><arg_value>",
                "</arg_value>", "{\"name\": \"now\", \"arguments\": {", "}", "\"", ";",
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
            let parser = || OutputParser::new(false, &tools()).in_pieces();
            prop_assert_eq!(run_with(parser(), &pieces), run_with(parser(), &[&whole]));
        }
    }
}
