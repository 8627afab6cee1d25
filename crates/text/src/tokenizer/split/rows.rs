//! The splitting rules that files name, as data.

use super::Splitter;
use super::rules::{Camel, Rule, Run, Words};
use super::sets;
use super::thousands::Groups;
use crate::tokenizer::vocab::Spelling;

const LLAMA3: &[Rule] = &[Rule::Words(Words::LLAMA3)];
const JAIS2: &[Rule] = &[Rule::Words(Words { halving_spaces: true, ..Words::LLAMA3 })];
const MINICPM5: &[Rule] = &[Rule::Runs(&[Run::at_most(3, sets::number)]), Rule::Words(Words::LLAMA3)];
const QWEN2: &[Rule] = &[Rule::Words(Words::QWEN2)];
const QWEN35: &[Rule] = &[Rule::Words(Words { marks: true, ..Words::QWEN2 })];
const UFAKZEKA: &[Rule] = &[Rule::Words(Words { contractions: false, ..Words::QWEN2 })];
const SEED_CODER: &[Rule] = &[Rule::Words(Words { breaks_after_symbols: 0, ..Words::QWEN2 })];
const EXAONE_MOE: &[Rule] = &[Rule::Words(Words { phrases: true, breaks_after_symbols: 1, ..Words::QWEN2 })];
const LAGUNA: &[Rule] = &[Rule::Runs(LINES), Rule::Words(Words::QWEN2)];
const GPT2: &[Rule] = &[Rule::Gpt2];
const STARCODER: &[Rule] = &[Rule::Runs(&[Run::exactly(1, sets::number)]), Rule::Gpt2];
const FALCON: &[Rule] =
    &[Rule::Runs(&[Run::of(sets::falcon_punctuation)]), Rule::Gpt2, Rule::Runs(&[Run::exactly(3, sets::ascii_digit)])];
const BLOOM: &[Rule] = &[Rule::Runs(&[Run::after_blank(sets::bloom_word)])];
const VIKING: &[Rule] =
    &[Rule::Runs(&[Run::after_blank(sets::bloom_word)]), Rule::Runs(&[Run::exactly(1, sets::number)])];
const CHAMELEON: &[Rule] = &[
    Rule::Sentinel,
    Rule::ImageToken,
    Rule::Runs(&[Run::exactly(1, sets::tab_or_line_feed), Run::exactly(4, sets::blank), Run::exactly(2, sets::blank)]),
    Rule::Runs(&[Run::exactly(1, sets::number)]),
    Rule::Runs(&[Run::exactly(1, sets::punctuation_or_ascii_sign)]),
    Rule::Gpt2,
];
const SUPERBPE: &[Rule] = &[Rule::Runs(&[Run::of(sets::number)]), Rule::Thousands(Groups::Cuts)];
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
const DEEPSEEK_V3: &[Rule] = &[
    Rule::Runs(&[Run::at_most(3, sets::number)]),
    Rule::Runs(&[Run::of(sets::han_or_kana)]),
    Rule::DeepseekV3 { lines: true },
];
const SPARK25: &[Rule] = &[
    Rule::Runs(&[Run::at_most(3, sets::number)]),
    Rule::Runs(&[Run::of(sets::han_or_kana)]),
    Rule::DeepseekV3 { lines: false },
    Rule::Runs(&[Run::exactly(1, sets::number)]),
];
const AFMOE: &[Rule] =
    &[Rule::Thousands(Groups::Runs), Rule::Runs(&[Run::of(sets::unspaced_script)]), Rule::DeepseekV3 { lines: true }];
const YOUTU: &[Rule] = &[
    Rule::Runs(&[
        Run::of(sets::hangul),
        Run::of(sets::wide_punctuation),
        Run::of(sets::bopomofo),
        Run::of(sets::han_or_kana),
    ]),
    Rule::CamelCase(Camel { digits: 1, ..Camel::GPT_4O }),
];
const GPT_4O: &[Rule] = &[Rule::CamelCase(Camel::GPT_4O)];
const TINY_AYA: &[Rule] = &[Rule::Thousands(Groups::BeforeWordEnd), Rule::CamelCase(Camel::GPT_4O)];
const TEKKEN: &[Rule] = &[Rule::CamelCase(Camel { contractions: false, digits: 1, ..Camel::GPT_4O })];
const KIMI_K2: &[Rule] = &[Rule::CamelCase(Camel { han_apart: true, ..Camel::GPT_4O })];
const DEFAULT: &[Rule] = &[
    Rule::Runs(&[Run::of(sets::default_punctuation)]),
    Rule::Gpt2,
    Rule::Runs(&[Run::of(sets::number)]),
    Rule::Runs(&[Run::exactly(3, sets::ascii_digit)]),
];
/// `[^\n]+|[\n]+`
const LINES: &[Run] = &[Run::of(sets::in_line), Run::of(sets::line_feed)];
const WHOLE_LINES: &[Rule] = &[Rule::Runs(LINES)];

/// Names of one meaning, and the meaning.
type Row = (&'static [&'static str], Splitter);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (
        &[
            "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
        ],
        Splitter::of(LLAMA3).ignoring_merges().with_bos(),
    ),
    (&["glm4", "glm5"], Splitter::of(LLAMA3).ignoring_merges()),
    (&["chatglm-bpe", "dbrx", "smaug-bpe"], Splitter::of(LLAMA3)),
    (&["jais-2"], Splitter::of(JAIS2)),
    (&["minicpm5"], Splitter::of(MINICPM5).ignoring_merges()),
    (
        &[
            "qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "f2llmv2", "grok-2",
            // Written in another way, these are the same.
            "bailingmoe", "bailingmoe2", "llada-moe",
        ],
        Splitter::of(QWEN2),
    ),
    (&["qwen35"], Splitter::of(QWEN35)),
    (&["ufakzeka"], Splitter::of(UFAKZEKA)),
    (&["seed-coder"], Splitter::of(SEED_CODER)),
    (&["exaone-moe"], Splitter::of(EXAONE_MOE)),
    (&["laguna"], Splitter::of(LAGUNA)),
    (
        &[
            "gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "a.x-4.0", "mellum", "trillion", "granite-docling",
            "exaone4", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "modern-bert",
        ],
        Splitter::of(GPT2),
    ),
    (&["jina-v1-en", "jina-v2-code", "roberta-bpe"], Splitter::of(GPT2).with_separator()),
    (
        &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        Splitter::of(STARCODER),
    ),
    (&["falcon"], Splitter::of(FALCON)),
    (&["bloom", "poro-chat", "gpt3-finnish"], Splitter::of(BLOOM)),
    (&["viking"], Splitter::of(VIKING)),
    (&["chameleon"], Splitter::of(CHAMELEON).with_bos()),
    (&["superbpe"], Splitter::of(SUPERBPE)),
    (&["deepseek-llm"], Splitter::of(DEEPSEEK_LLM)),
    (&["deepseek-coder"], Splitter::of(DEEPSEEK_CODER)),
    (&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], Splitter::of(DEEPSEEK_V3)),
    (&["spark2_5"], Splitter::of(SPARK25)),
    (&["afmoe"], Splitter::of(AFMOE)),
    (&["youtu"], Splitter::of(YOUTU).ignoring_merges()),
    (&["gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"], Splitter::of(GPT_4O)),
    (&["granite-embed-multi-97m"], Splitter::of(GPT_4O).ignoring_merges()),
    (&["tiny_aya", "cohere2moe"], Splitter::of(TINY_AYA)),
    (&["tekken"], Splitter::of(TEKKEN).ignoring_merges().with_bos()),
    (&["kimi-k2"], Splitter::of(KIMI_K2)),
    (&["gemma4", "granite-embed-multi-311m"], Splitter::of(WHOLE_LINES).unspelled().as_gemma()),
    (&["sarvam-moe"], Splitter::of(WHOLE_LINES).unspelled()),
    (&["default"], Splitter::of(DEFAULT)),
];

impl Splitter {
    const fn of(rules: &'static [Rule]) -> Splitter {
        let spelling = Spelling::ByteAlphabet;
        Splitter { rules, spelling, ignore_merges: false, gemma: false, add_bos: false, add_sep: false }
    }

    const fn ignoring_merges(self) -> Splitter {
        Splitter { ignore_merges: true, ..self }
    }

    const fn with_bos(self) -> Splitter {
        Splitter { add_bos: true, ..self }
    }

    const fn with_separator(self) -> Splitter {
        Splitter { add_sep: true, ..self }
    }

    const fn unspelled(self) -> Splitter {
        Splitter { spelling: Spelling::SentencePiece, ..self }
    }

    const fn as_gemma(self) -> Splitter {
        Splitter { gemma: true, add_bos: true, ..self }
    }

    /// The splitter that `tokenizer.ggml.pre` names.
    pub(in crate::tokenizer) fn named(pre: &str) -> Option<Splitter> {
        ROWS.iter().find(|(names, _)| names.contains(&pre)).map(|&(_, splitter)| splitter)
    }

    /// The rule for files that name none, or one that nobody knows.
    pub(in crate::tokenizer) fn fallback() -> Splitter {
        Splitter::of(DEFAULT)
    }
}
