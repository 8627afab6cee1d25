//! Pre-tokenisation: cutting text into the pieces inside which byte-level BPE may merge.
//!
//! Each vocabulary was trained with a list of regular expressions; `tokenizer.ggml.pre` names the
//! list. Every expression cuts each piece left by the one before it, and both its matches and the
//! gaps between them become pieces. The matchers here are written by hand: they take time linear
//! in the text, need no look-ahead engine, and work on bytes that are not valid UTF-8 (a stray byte
//! counts as a symbol). The tests compare every one with the expression it stands for.

mod rules;
mod sets;
pub(super) mod text;

use rules::{Rule, Run};
use text::Text;

/// How a named pre-tokeniser splits and what else its name implies.
#[derive(Clone, Copy)]
pub(super) struct Splitter {
    rules: &'static [Rule],
    /// A piece that is a token is taken whole, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Whether a beginning-of-text token is added when the file does not say.
    pub(super) add_bos: bool,
}

const LLAMA3: &[Rule] = &[Rule::Words { digits: 3, marks: false }];
const QWEN2: &[Rule] = &[Rule::Words { digits: 1, marks: false }];
const QWEN35: &[Rule] = &[Rule::Words { digits: 1, marks: true }];
const GPT2: &[Rule] = &[Rule::Gpt2];
const STARCODER: &[Rule] = &[Rule::Runs(&[Run::exactly(1, sets::number)]), Rule::Gpt2];
const FALCON: &[Rule] =
    &[Rule::Runs(&[Run::of(sets::falcon_punctuation)]), Rule::Gpt2, Rule::Runs(&[Run::exactly(3, sets::ascii_digit)])];
const DEEPSEEK_LLM: &[Rule] = &[
    Rule::Runs(&[Run::exactly(1, sets::line_break)]),
    Rule::Runs(&[Run::after_space(sets::cased_letter)]),
    Rule::Runs(&[Run::after_space(sets::deepseek_sign)]),
    Rule::SpaceAtEnd,
    Rule::Runs(&[Run::of(sets::deepseek_cjk)]),
    Rule::Runs(&[Run::of(sets::number)]),
];
const DEEPSEEK_CODER: &[Rule] = &[
    Rule::Runs(&[Run::exactly(1, sets::line_break)]),
    Rule::Runs(&[Run::after_space(sets::letter)]),
    Rule::Runs(&[Run::after_space(sets::punctuation)]),
    Rule::Runs(&[Run::of(sets::deepseek_cjk)]),
    Rule::Runs(&[Run::exactly(1, sets::number)]),
];
const DEEPSEEK_V3: &[Rule] =
    &[Rule::Runs(&[Run::at_most(3, sets::number)]), Rule::Runs(&[Run::of(sets::han_or_kana)]), Rule::DeepseekV3];
const YOUTU: &[Rule] = &[
    Rule::Runs(&[
        Run::of(sets::hangul),
        Run::of(sets::wide_punctuation),
        Run::of(sets::bopomofo),
        Run::of(sets::han_or_kana),
    ]),
    Rule::CamelCase { contractions: true, digits: 1 },
];
const GPT_4O: &[Rule] = &[Rule::CamelCase { contractions: true, digits: 3 }];
const TEKKEN: &[Rule] = &[Rule::CamelCase { contractions: false, digits: 1 }];
const DEFAULT: &[Rule] = &[
    Rule::Runs(&[Run::of(sets::default_punctuation)]),
    Rule::Gpt2,
    Rule::Runs(&[Run::of(sets::number)]),
    Rule::Runs(&[Run::exactly(3, sets::ascii_digit)]),
];

impl Splitter {
    /// The splitter that `tokenizer.ggml.pre` names.
    pub(super) fn named(pre: &str) -> Option<Splitter> {
        let (rules, ignore_merges, add_bos) = match pre {
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => {
                (LLAMA3, true, true)
            }
            "glm4" => (LLAMA3, true, false),
            "chatglm-bpe" | "dbrx" | "smaug-bpe" => (LLAMA3, false, false),
            "qwen2" | "deepseek-r1-qwen" | "kormo" | "megrez" | "stablelm2" | "hunyuan" | "solar-open" => {
                (QWEN2, false, false)
            }
            "qwen35" => (QWEN35, false, false),
            "gpt-2" | "phi-2" | "mpt" | "olmo" | "jais" | "gigachat" | "a.x-4.0" | "mellum" | "trillion"
            | "granite-docling" | "exaone4" => (GPT2, false, false),
            "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b" => {
                (STARCODER, false, false)
            }
            "falcon" => (FALCON, false, false),
            "deepseek-llm" => (DEEPSEEK_LLM, false, false),
            "deepseek-coder" => (DEEPSEEK_CODER, false, false),
            "deepseek-v3" | "hunyuan-dense" | "joyai-llm" => (DEEPSEEK_V3, false, false),
            "youtu" => (YOUTU, true, false),
            "gpt-4o" | "llama4" | "kanana2" => (GPT_4O, false, false),
            "tekken" => (TEKKEN, true, true),
            "default" => (DEFAULT, false, false),
            _ => return None,
        };
        Some(Splitter { rules, ignore_merges, add_bos })
    }

    /// The rule for files that name none, or one that nobody knows.
    pub(super) fn fallback() -> Splitter {
        Splitter { rules: DEFAULT, ignore_merges: false, add_bos: false }
    }

    /// Hands the pieces of `text` to `sink` in order; together they are `text`.
    pub(super) fn split<'t>(&self, text: &'t [u8], sink: &mut impl FnMut(&'t [u8])) {
        split(self.rules, text, sink);
    }
}

fn split<'t>(rules: &[Rule], text: &'t [u8], sink: &mut impl FnMut(&'t [u8])) {
    let Some((rule, rest)) = rules.split_first() else {
        if !text.is_empty() {
            sink(text);
        }
        return;
    };
    let mut from = 0;
    while let Some((start, end)) = rule.next(Text(text), from) {
        if from < start {
            split(rest, &text[from..start], sink);
        }
        split(rest, &text[start..end], sink);
        from = end;
    }
    if from < text.len() {
        split(rest, &text[from..], sink);
    }
}

#[cfg(test)]
mod tests;
