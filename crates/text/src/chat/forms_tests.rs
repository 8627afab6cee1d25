//! Every form of reasoning and of calls, whole, letter by letter, in pieces, and cut anywhere.

use super::*;
use crate::chat::forms::{AROUND, FORMS, Shape};
use proptest::prelude::*;

type Told = (String, String, Vec<(String, String)>);

fn tools() -> Vec<Json> {
    let properties = json!({
        "city": { "type": "string" }, "days": { "type": "integer" }, "where": { "type": "object" },
    });
    let weather = json!({ "name": "weather", "parameters": { "type": "object", "properties": properties } });
    vec![
        json!({ "type": "function", "function": weather }),
        json!({ "type": "function", "function": { "name": "now" } }),
    ]
}

/// Reasoning, content and calls.
pub(super) fn told(mut parser: OutputParser, pieces: &[impl AsRef<str>]) -> Told {
    let mut deltas: Vec<Delta> = pieces.iter().flat_map(|piece| parser.push(piece.as_ref())).collect();
    deltas.extend(parser.finish());
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), vec![]);
    for delta in deltas {
        match delta {
            Delta::Reasoning(text) => reasoning += &text,
            Delta::Content(text) => content += &text,
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(text) => calls.last_mut().expect("a call").1 += &text,
        }
    }
    (reasoning, content, calls)
}

fn parsers() -> [OutputParser; 2] {
    [OutputParser::new(false, &tools()), OutputParser::new(false, &tools()).in_pieces()]
}

fn check(output: &str, reasoning: &str, content: &str, calls: &[(&str, Json)]) {
    let letters: Vec<String> = output.chars().map(String::from).collect();
    for parser in parsers() {
        for pieces in [vec![output.to_owned()], letters.clone()] {
            let got = told(parser.clone(), &pieces);
            assert_eq!((got.0.as_str(), got.1.as_str()), (reasoning, content), "{output}");
            let parsed =
                |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{output}: {text}: {error}"));
            let got: Vec<(&str, Json)> = got.2.iter().map(|(name, text)| (name.as_str(), parsed(text))).collect();
            assert_eq!(got, calls, "{output}");
        }
    }
}

/// What a model of each family says when it calls `weather`, and then `now`.
fn calls_of_families() -> Vec<(&'static str, String)> {
    let json = r#"{"city": "Köln \"a\" <b>", "days": 3}"#;
    let named = |name: &str| if name == "now" { "{}" } else { json };
    let objects = |name: &str, arguments: &str| {
        format!(r#"[{{"{name}": "weather", "{arguments}": {json}}}, {{"{name}": "now", "{arguments}": {{}}}}]"#)
    };
    let elements = |open: &str, name: &str, key: &str, end: (&str, &str)| {
        let value = "Köln \"a\" <b>";
        format!(
            "{open}weather{name}\n{key}city{name}\n{value}\n{}\n{key}days{name}\n3\n{}\n{end}\n{open}now{name}\n{end}",
            end.0,
            end.0,
            end = end.1
        )
    };
    let function = elements("<function=", ">", "<parameter=", ("</parameter>", "</function>"));
    let functions: Vec<&str> = function.split_inclusive("</function>").map(str::trim).collect();
    vec![
        ("Hermes, Qwen, Granite 4, MiMo", ["weather", "now"].map(|name| format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {}}}\n</tool_call>", named(name))).join("\n")),
        ("Qwen3-Coder, Nemotron 3, Step", functions.iter().map(|call| format!("<tool_call>\n{call}\n</tool_call>\n")).collect()),
        ("Qwen3-Coder without its tags", function.clone()),
        ("Seed-OSS", functions.iter().map(|call| format!("<seed:tool_call>\n{call}\n</seed:tool_call>")).collect()),
        ("Functionary", format!("<function=weather>{json}</function><function=now>{{}}</function>")),
        ("MiniMax-M2", format!("<minimax:tool_call>\n{}\n</minimax:tool_call>", elements("<invoke name=\"", "\">", "<parameter name=\"", ("</parameter>", "</invoke>")))),
        (
            "DeepSeek V3.2",
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Köln \"a\" <b></｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>".into(),
        ),
        ("Kimi-K2", format!("<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{json}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{{}}<|tool_call_end|><|tool_calls_section_end|>")),
        ("DeepSeek R1", format!("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{json}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{{}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>")),
        ("DeepSeek V3.1", format!("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{json}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{{}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>")),
        ("Mistral until Small 3.1", format!("[TOOL_CALLS]{}", objects("name", "arguments"))),
        ("Mistral Small 3.2", format!("[TOOL_CALLS]weather[CALL_ID]a1b2c3d4e[ARGS]{json}[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{{}}")),
        ("Devstral, Ministral 3", format!("[TOOL_CALLS]weather[ARGS]{json}[TOOL_CALLS]now[ARGS]{{}}")),
        ("LFM2", "<|tool_call_start|>[weather(city=\"Köln \\\"a\\\" <b>\", days=3), now()]<|tool_call_end|>".into()),
        ("MiniCPM 3 and 4", "<|tool_call_start|>\n```python\nweather(city=\"Köln \\\"a\\\" <b>\", days=3)\nnow()\n```\n<|tool_call_end|>".into()),
        ("OLMo 3", "<function_calls>weather(city=\"Köln \\\"a\\\" <b>\", days=3)\nnow()</function_calls>".into()),
        ("Llama 4", "<|python_start|>[weather(city=\"Köln \\\"a\\\" <b>\", days=3), now()]<|python_end|>".into()),
        ("LFM2 as asked for JSON", format!("<|tool_call_start|>{}<|tool_call_end|>", objects("name", "arguments"))),
        ("Granite 3.3, Phi-4-mini", format!("<|tool_call|>{}", objects("name", "arguments"))),
        ("Nemotron Nano 2", format!("<TOOLCALL>{}</TOOLCALL>", objects("name", "arguments"))),
        ("Command R7B", format!("<|START_ACTION|>{}<|END_ACTION|>", objects("tool_name", "parameters"))),
        ("Apriel", format!("<tool_calls>{}</tool_calls>", objects("name", "arguments"))),
        ("Apertus", format!("<|tools_prefix|>[{{\"weather\": {json}}}, {{\"now\": {{}}}}]<|tools_suffix|>")),
        ("Gemma 4", "<|tool_call>call:weather{city:<|\"|>Köln \"a\" <b><|\"|>,days:3}<tool_call|><|tool_call>call:now{}<tool_call|>".into()),
        ("FunctionGemma", "<start_function_call>call:weather{city:<escape>Köln \"a\" <b><escape>,days:3}<end_function_call><start_function_call>call:now{}<end_function_call>".into()),
        ("gpt-oss", format!("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{json}<|call|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{{}}")),
    ]
}

#[test]
fn calls_of_every_family_are_told() {
    let calls = [("weather", json!({ "city": "Köln \"a\" <b>", "days": 3 })), ("now", json!({}))];
    for (family, output) in calls_of_families() {
        println!("{family}");
        check(&output, "", "", &calls);
        if family != "gpt-oss" {
            check(&format!("<think>hm</think>Let me see.\n\n{output}"), "hm", "Let me see.", &calls);
        }
    }
    assert!(calls_of_families().len() > 20);
}

#[test]
fn reasoning_of_every_family_is_told() {
    for (open, close) in tags::THOUGHTS {
        check(&format!("{open}\nwhy\n{close}\n\nIt is."), "why", "It is.", &[]);
        check(&format!("{open}{close}It is."), "", "It is.", &[]);
        let mut opened = OutputParser::new(true, &[]);
        let mut deltas = opened.push(&format!("why{close}It is."));
        deltas.extend(opened.finish());
        assert_eq!(deltas, [Delta::Reasoning("why".into()), Delta::Content("It is.".into())], "{close}");
    }
    for (output, reasoning, content) in [
        (
            "<|channel|>analysis<|message|>why < so<|end|><|start|>assistant<|channel|>final<|message|>It is.<|return|>",
            "why < so",
            "It is.",
        ),
        ("<|channel|>final<|message|>It is.", "", "It is."),
        (
            "<|start|>assistant<|channel|>commentary<|message|>First this.<|end|><|start|>assistant<|channel|>analysis<|message|>hm",
            "hm",
            "First this.",
        ),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>analysis<|message|>b<|end|><|channel|>final", "ab", ""),
        (
            "<|channel|>commentary to=functions.other<|message|>{}<|call|>",
            "",
            "<|channel|>commentary to=functions.other<|message|>{}<|end|>",
        ),
    ] {
        check(output, reasoning, content, &[]);
    }
}

#[test]
fn a_prompt_that_opens_reasoning_knows_how_it_ends() {
    for (open, close) in tags::THOUGHTS {
        let source = format!("{{{{ messages[0].content }}}}{open}\n");
        let template = ChatTemplate::parse(&source, "", "").unwrap();
        assert!(template.can_think(), "{open}");
        let mut conversation = Conversation::new(vec![json!({ "role": "user", "content": "Hi" })]);
        assert!(template.render(&conversation).unwrap().opens_reasoning, "{open}");
        conversation.enable_thinking = Some(false);
        let prompt = template.render(&conversation).unwrap();
        assert!(!prompt.opens_reasoning && prompt.text.ends_with(close), "{}", prompt.text);
    }
}

#[test]
fn what_is_no_call_is_text_in_every_form() {
    let nonsense = [
        "",
        " and more",
        "{}",
        "[]",
        "x",
        "now",
        "call:other{}",
        "[other()]",
        "other>",
        "{\"name\": \"other\"}",
        "now[ARGS]x",
    ];
    for form in &FORMS {
        for body in nonsense.into_iter().filter(|body| !(form.open == "<tool_call>" && *body == "now")) {
            let text = format!("See  {}{body}{} here", form.open, form.close);
            for parser in parsers() {
                let (_, content, calls) = told(parser, std::slice::from_ref(&text));
                assert!(content == text && calls.is_empty(), "{text}: {content} {calls:?}");
            }
        }
    }
    for text in [
        "use functools and <function_calls> or </tool_call>",
        "f(x) <function=f> g",
        "a <invoke name=\"x\"> b",
        "[TOOL] x",
    ] {
        check(text, "", text, &[]);
    }
}

/// All marks, and some of what stands between them.
fn words() -> Vec<String> {
    let mut words: Vec<String> = [
        "{\"name\": \"now\", \"arguments\": {",
        "}",
        "}}",
        "\"",
        " ",
        "\n",
        "é",
        "<",
        "now",
        "[",
        "]",
        "{\"name\": \"now\"}",
        "functions.now:0",
        "weather",
        ">",
        "\">",
        "call:now{",
        "city:",
        "3",
        "json",
        "now()",
        ",",
        "[CALL_ID]",
    ]
    .map(String::from)
    .to_vec();
    for form in &FORMS {
        words.extend([form.open, form.close].map(String::from));
        for shape in form.shapes {
            match shape {
                Shape::Named(marks) => words.extend(marks.iter().map(|mark| mark.to_string())),
                Shape::Braces(mark) => words.push(mark.to_string()),
                Shape::Pairs(pairs) => {
                    words.extend([pairs.key.0, pairs.key.1, pairs.values[0], pairs.after_value].map(String::from));
                    words.push(format!("{}weather{}{}city{}", form.open, pairs.after_name, pairs.key.0, pairs.key.1));
                }
                Shape::Objects | Shape::Python => {}
            }
        }
    }
    words.extend(AROUND.iter().flat_map(|(open, close)| [open.to_string(), close.to_string()]));
    words.extend(tags::THOUGHTS.iter().flat_map(|(open, close)| [open.to_string(), close.to_string()]));
    words.extend(
        ["<|start|>", "<|channel|>", "<|message|>", "<|call|>", "analysis", "to=functions.now"].map(String::from),
    );
    words.extend(calls_of_families().into_iter().map(|(_, output)| output));
    words.retain(|word| !word.is_empty());
    words
}

fn cut(text: &str, cuts: &[usize]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let (mut pieces, mut at) = (vec![], 0);
    for cut in cuts {
        let end = (at + cut).min(letters.len());
        pieces.push(String::from_iter(&letters[at..end]));
        at = end;
    }
    pieces.push(String::from_iter(&letters[at..]));
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn cuts_make_no_difference_in_any_form(
        words in prop::collection::vec(prop::sample::select(words()), 0..9),
        cuts in prop::collection::vec(1usize..12, 90),
        opened in any::<bool>(),
    ) {
        let whole = words.concat();
        let pieces = cut(&whole, &cuts);
        for parser in [OutputParser::new(opened, &tools()), OutputParser::new(opened, &tools()).in_pieces()] {
            prop_assert_eq!(told(parser.clone(), &pieces), told(parser, std::slice::from_ref(&whole)), "{}", whole);
        }
    }
}
