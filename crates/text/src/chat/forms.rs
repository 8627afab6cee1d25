//! The forms in which models write calls of tools, as data. What names they begin with is in `tokenizer/tags.rs`, too,
//! where they may be control tokens.

use crate::tokenizer::tags;

/// A way to write calls.
#[derive(Debug)]
pub(super) struct Form {
    /// What a call, or a list of them, begins with.
    pub open: &'static str,
    /// What follows; the first shape that fits counts.
    pub shapes: &'static [Shape],
    /// What ends it; nothing if its last brace does.
    pub close: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `{"name": …, "arguments": {…}}` or a list of these. Some say `tool_name` or `parameters`, or `{NAME: {…}}`.
    Objects,
    /// A name, one of these marks, and then an object.
    Named(&'static [&'static str]),
    /// A name and pairs.
    Pairs(Pairs),
    /// `call:NAME{key:value}`, where a string stands between two of this mark.
    Braces(&'static str),
    /// `[NAME(key="value"), …]`, or such calls on lines of their own.
    Python,
}

/// How the names and values of arguments are told apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pairs {
    /// What ends the name of the function; nothing if the first key does, or the end of the call.
    pub after_name: &'static str,
    pub key: (&'static str, &'static str),
    /// What a value begins with: one of these.
    pub values: &'static [&'static str],
    pub after_value: &'static str,
    /// Values have lines of their own.
    pub lines: bool,
}

const GLM: Shape = Shape::Pairs(Pairs {
    after_name: "",
    key: tags::KEY,
    values: &[tags::VALUE.0],
    after_value: tags::VALUE.1,
    lines: false,
});

/// All forms. No `open` is the beginning of another one.
pub(super) static FORMS: [Form; 18] = [
    // Qwen, Hermes, Youtu, GLM and many others.
    Form { open: tags::CALL.0, shapes: &[Shape::Objects, GLM], close: tags::CALL.1 },
    // Qwen3-Coder, Seed-OSS, Nemotron 3, Step; Functionary with an object for the pairs.
    Form {
        open: "<function=",
        shapes: &[
            Shape::Named(&[">"]),
            Shape::Pairs(Pairs {
                after_name: ">",
                key: ("<parameter=", ">"),
                values: &[""],
                after_value: "</parameter>",
                lines: true,
            }),
        ],
        close: "</function>",
    },
    // MiniMax-M2.
    Form {
        open: "<invoke name=\"",
        shapes: &[Shape::Pairs(Pairs {
            after_name: "\">",
            key: ("<parameter name=\"", "\">"),
            values: &[""],
            after_value: "</parameter>",
            lines: true,
        })],
        close: "</invoke>",
    },
    // DeepSeek V3.2.
    Form {
        open: "<｜DSML｜invoke name=\"",
        shapes: &[Shape::Pairs(Pairs {
            after_name: "\">",
            key: ("<｜DSML｜parameter name=\"", "\" string=\""),
            values: &["true\">", "false\">"],
            after_value: "</｜DSML｜parameter>",
            lines: true,
        })],
        close: "</｜DSML｜invoke>",
    },
    // Kimi-K2.
    Form {
        open: "<|tool_call_begin|>",
        shapes: &[Shape::Named(&["<|tool_call_argument_begin|>"])],
        close: "<|tool_call_end|>",
    },
    // DeepSeek R1, V3, V3.1.
    Form {
        open: "<｜tool▁call▁begin｜>",
        shapes: &[Shape::Named(&["<｜tool▁sep｜>", "\n```json\n"])],
        close: "<｜tool▁call▁end｜>",
    },
    // Mistral: a list until Mistral Small 3.1, since then a name each.
    Form { open: "[TOOL_CALLS]", shapes: &[Shape::Objects, Shape::Named(&["[CALL_ID]", "[ARGS]"])], close: "" },
    // gpt-oss, as the splitter of its channels leaves it.
    Form {
        open: super::harmony::CALL,
        shapes: &[Shape::Named(&[super::harmony::MESSAGE])],
        close: super::harmony::END,
    },
    // LFM2, MiniCPM 3 and 4.
    Form { open: "<|tool_call_start|>", shapes: &[Shape::Python, Shape::Objects], close: "<|tool_call_end|>" },
    // OLMo 3; others have calls of their own form in it.
    Form { open: FUNCTION_CALLS.0, shapes: &[Shape::Python], close: FUNCTION_CALLS.1 },
    // Llama 4.
    Form { open: "<|python_start|>", shapes: &[Shape::Python, Shape::Objects], close: "<|python_end|>" },
    // Granite 3, Phi-4-mini.
    Form { open: "<|tool_call|>", shapes: &[Shape::Objects], close: "" },
    // Nemotron Nano 2.
    Form { open: "<TOOLCALL>", shapes: &[Shape::Objects], close: "</TOOLCALL>" },
    // Command R7B and later.
    Form { open: "<|START_ACTION|>", shapes: &[Shape::Objects], close: "<|END_ACTION|>" },
    // Apriel.
    Form { open: "<tool_calls>", shapes: &[Shape::Objects], close: "</tool_calls>" },
    // Apertus.
    Form { open: "<|tools_prefix|>", shapes: &[Shape::Objects], close: "<|tools_suffix|>" },
    // Gemma 4.
    Form { open: "<|tool_call>", shapes: &[Shape::Braces("<|\"|>")], close: "<tool_call|>" },
    // FunctionGemma.
    Form { open: "<start_function_call>", shapes: &[Shape::Braces("<escape>")], close: "<end_function_call>" },
];

const FUNCTION_CALLS: (&str, &str) = ("<function_calls>", "</function_calls>");

/// What stands around calls that have marks of their own. Some of these are forms as well.
pub(super) const AROUND: [(&str, &str); 7] = [
    tags::CALL,
    ("<seed:tool_call>", "</seed:tool_call>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    FUNCTION_CALLS,
    ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Vec<&'static str> {
        let around = AROUND.iter().flat_map(|(open, close)| [*open, *close]);
        let forms = FORMS.iter().flat_map(|form| {
            let marks = form.shapes.iter().flat_map(|shape| match shape {
                Shape::Named(marks) => marks.to_vec(),
                Shape::Braces(mark) => vec![*mark],
                Shape::Pairs(pairs) => vec![pairs.after_value],
                Shape::Objects | Shape::Python => vec![],
            });
            [form.open, form.close].into_iter().chain(marks)
        });
        around.chain(forms).collect()
    }

    #[test]
    fn no_call_begins_as_another_does() {
        for (at, form) in FORMS.iter().enumerate() {
            let others = FORMS.iter().enumerate().filter(|(other, _)| *other != at);
            let opens = others.map(|(_, form)| form.open).chain(AROUND.iter().map(|(open, _)| *open));
            for open in opens.filter(|open| *open != form.open) {
                assert!(!open.starts_with(form.open), "{open} {}", form.open);
            }
        }
    }

    /// Else they would be left out of the text that is told apart here.
    #[test]
    fn marks_that_may_be_control_tokens_are_printed() {
        let is_token =
            |mark: &&str| ["<|", "<｜", "[", "<tool_call|", "<TOOL"].iter().any(|start| mark.starts_with(start));
        for mark in
            marks().into_iter().filter(is_token).filter(|mark| !mark.contains(['"', ' ']) || mark.contains("|\"|"))
        {
            assert!(tags::SPOKEN.contains(&mark) || mark.contains("DSML"), "{mark}");
        }
    }
}
