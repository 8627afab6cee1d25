//! Byte-level vocabularies of any size, for files that are made here.
//!
//! Every text can be written in them: the first 256 tokens are the bytes. Then come the tokens of some merges that make
//! common English words, unused tokens, and the special tokens, where the real model has them if there is room.

use gguf::Writer;
use std::collections::{HashMap, HashSet};

/// `tokenizer.ggml.token_type` of a token of text.
const NORMAL: i32 = 1;
/// Of one that only the program writes.
const CONTROL: i32 = 3;
/// Of one that is always recognised.
const USER_DEFINED: i32 = 4;
/// Of one that nothing makes.
const UNUSED: i32 = 5;

/// Unused tokens that even the smallest vocabulary has.
const FEWEST_UNUSED: usize = 8;

/// A kind of vocabulary and chat: how text is split, what the special tokens are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// `tokenizer.ggml.pre`: the rule by which text is split before merging.
    pub pre: &'static str,
    /// Id of the first special token in the real vocabulary.
    pub first_special: u32,
    /// The special tokens, in order.
    pub specials: &'static [&'static str],
    /// Token that starts a text.
    pub bos: &'static str,
    /// Tokens that end a text, a turn, a message to a tool.
    pub ends: [Option<&'static str>; 3],
    /// Token that fills a batch.
    pub padding: &'static str,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.chat_template`.
    pub template: &'static str,
}

/// GLM-4 and later.
pub static GLM: Family = Family {
    pre: "glm4",
    first_special: 154_820,
    specials: &[
        "<|endoftext|>",
        "[MASK]",
        "[gMASK]",
        "[sMASK]",
        "<sop>",
        "<eop>",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
        "<|observation|>",
        "<|begin_of_image|>",
        "<|end_of_image|>",
        "<|begin_of_video|>",
        "<|end_of_video|>",
        "<|begin_of_audio|>",
        "<|end_of_audio|>",
        "<|begin_of_transcription|>",
        "<|end_of_transcription|>",
        "<|code_prefix|>",
        "<|code_middle|>",
        "<|code_suffix|>",
        "<think>",
        "</think>",
    ],
    bos: "[gMASK]",
    ends: [Some("<|endoftext|>"), Some("<|user|>"), Some("<|observation|>")],
    padding: "[MASK]",
    add_bos: None,
    template: "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}\
        {% if add_generation_prompt %}<|assistant|></think>{% endif %}",
};

/// DeepSeek-V2.
pub static DEEPSEEK: Family = Family {
    pre: "deepseek-llm",
    first_special: 100_000,
    specials: &["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"],
    bos: "<｜begin▁of▁sentence｜>",
    ends: [Some("<｜end▁of▁sentence｜>"), None, None],
    padding: "<｜end▁of▁sentence｜>",
    add_bos: Some(true),
    template: "{{ bos_token }}{% for m in messages %}\
        {% if m.role == 'user' %}User: {{ m.content }}\n\n\
        {% elif m.role == 'assistant' %}Assistant: {{ m.content }}{{ eos_token }}\
        {% else %}{{ m.content }}\n\n{% endif %}{% endfor %}\
        {% if add_generation_prompt %}Assistant:{% endif %}",
};

/// Youtu-LLM.
pub static YOUTU: Family = Family {
    pre: "youtu",
    first_special: 128_000,
    specials: &["<|begin_of_text|>", "<|end_of_text|>", "<|User|>", "<|Assistant|>", "<think>", "</think>"],
    bos: "<|begin_of_text|>",
    ends: [Some("<|end_of_text|>"), None, None],
    padding: "<|end_of_text|>",
    add_bos: None,
    template: "{{ bos_token }}{% for m in messages %}\
        {% if m.role == 'user' %}<|User|>{{ m.content }}\
        {% elif m.role == 'assistant' %}<|Assistant|>{{ m.content }}{{ eos_token }}\
        {% else %}{{ m.content }}{% endif %}{% endfor %}\
        {% if add_generation_prompt %}<|Assistant|>{% endif %}",
};

/// Llama 3.
pub static LLAMA3: Family = Family {
    pre: "llama-bpe",
    first_special: 128_000,
    specials: &[
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|finetune_right_pad_id|>",
        "<|reserved_special_token_2|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
    ],
    bos: "<|begin_of_text|>",
    ends: [Some("<|end_of_text|>"), Some("<|eot_id|>"), Some("<|eom_id|>")],
    padding: "<|finetune_right_pad_id|>",
    add_bos: Some(true),
    template: "{{ bos_token }}{% for m in messages %}\
        <|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}\
        {% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
};

/// Qwen.
pub static CHATML: Family = Family {
    pre: "qwen2",
    first_special: 151_643,
    specials: &["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    bos: "<|endoftext|>",
    ends: [Some("<|im_end|>"), None, None],
    padding: "<|endoftext|>",
    add_bos: Some(false),
    template: "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
};

/// One of each kind.
pub static FAMILIES: [&Family; 5] = [&GLM, &DEEPSEEK, &YOUTU, &LLAMA3, &CHATML];

/// A vocabulary: `tokenizer.ggml.{tokens, token_type, merges}` and where the special tokens are.
pub struct Vocab {
    tokens: Vec<String>,
    types: Vec<i32>,
    merges: Vec<String>,
    first_special: usize,
    family: &'static Family,
}

impl Vocab {
    /// A vocabulary of so many tokens, which must have room for the bytes and the special tokens.
    pub fn new(family: &'static Family, size: usize) -> Vocab {
        let first_special = (family.first_special as usize).min(size - family.specials.len());
        let mut tokens: Vec<String> = (0..=255).map(|byte| printable(byte).to_string()).collect();
        let room = first_special - FEWEST_UNUSED - tokens.len();
        let (made, merges) = merges(room);
        tokens.extend(made);
        let mut types = vec![NORMAL; tokens.len()];
        let pad = |tokens: &mut Vec<String>, to| {
            (tokens.len()..to).for_each(|id| tokens.push(format!("[PAD{id}]")));
        };
        pad(&mut tokens, first_special);
        types.resize(first_special, UNUSED);
        for &token in family.specials {
            tokens.push(token.to_owned());
            types.push(if token.ends_with("think>") { USER_DEFINED } else { CONTROL });
        }
        pad(&mut tokens, size);
        types.resize(size, UNUSED);
        Vocab { tokens, types, merges, first_special, family }
    }

    /// Writes the vocabulary and its chat template.
    pub fn write(self, writer: &mut Writer) {
        let family = self.family;
        writer.set("tokenizer.ggml.model", "gpt2");
        writer.set("tokenizer.ggml.pre", family.pre);
        let ids = ["eos", "eot", "eom"].into_iter().zip(family.ends);
        let ids = ids.filter_map(|(key, token)| Some((key, token?)));
        for (key, token) in ids.chain([("bos", family.bos), ("padding", family.padding)]) {
            writer.set(format!("tokenizer.ggml.{key}_token_id"), self.special(token));
        }
        if let Some(add) = family.add_bos {
            writer.set("tokenizer.ggml.add_bos_token", add);
        }
        writer.set("tokenizer.ggml.tokens", self.tokens);
        writer.set("tokenizer.ggml.token_type", self.types);
        writer.set("tokenizer.ggml.merges", self.merges);
        writer.set("tokenizer.chat_template", family.template);
    }

    /// The id of a special token.
    fn special(&self, token: &str) -> u32 {
        let at = self.family.specials.iter().position(|&special| special == token);
        (self.first_special + at.expect("families name their own tokens")) as u32
    }
}

/// The character that stands for a byte: itself if it can be printed, else the next free one from U+0100 on, as in
/// GPT-2.
fn printable(byte: u8) -> char {
    let prints = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    match prints(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|&b| !prints(b)).count() as u32;
            char::from_u32(256 + before).expect("a letter of Latin Extended-A")
        }
    }
}

/// Merges after which common pairs of letters and then whole words are single tokens, and these tokens; `room` tokens
/// at most.
fn merges(room: usize) -> (Vec<String>, Vec<String>) {
    let (mut tokens, mut list) = (Vec::new(), Vec::new());
    let (mut ranks, mut known) = (HashMap::new(), HashSet::new());
    let pairs = PAIRS.split_whitespace().map(str::to_owned);
    let words = WORDS.split_whitespace();
    let space = printable(b' ');
    let words = words.flat_map(|word| [format!("{space}{word}"), word.to_owned()]);
    for word in pairs.chain(words) {
        let mut parts: Vec<String> = word.chars().map(String::from).collect();
        loop {
            merge_all(&mut parts, &ranks);
            let [left, right, ..] = parts.as_slice() else {
                break;
            };
            let token = format!("{left}{right}");
            if !known.contains(&token) {
                if tokens.len() == room {
                    return (tokens, list);
                }
                known.insert(token.clone());
                tokens.push(token);
            }
            list.push(format!("{left} {right}"));
            ranks.insert((left.clone(), right.clone()), ranks.len());
        }
    }
    (tokens, list)
}

/// Joins neighbours, those of the earliest merge first, until no merge applies.
fn merge_all(parts: &mut Vec<String>, ranks: &HashMap<(String, String), usize>) {
    let rank = |pair: &[String]| ranks.get(&(pair[0].clone(), pair[1].clone())).copied();
    while let Some((_, at)) = (parts.windows(2).enumerate()).filter_map(|(at, pair)| Some((rank(pair)?, at))).min() {
        let right = parts.remove(at + 1);
        parts[at].push_str(&right);
    }
}

const PAIRS: &str = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me \
    de hi ri ro ic ne ea ra ce li ch ll be ma si om ur";

const WORDS: &str = "the of and to in a is that it for was on are with as be at by this have from or had not but what \
    all were when we there can an your which their if will each about how up out them then she many some so these would \
    other into has more her two like him see time could no make than first been its who now people my made over did \
    down only way find use may water long little very after word called just where most know get through back much \
    before go good new write our used me man too any day same right look think also around another came come work three \
    must because does part even place well such here take why things help put years different away again off went old \
    number great tell men say small every found still between name should home big give air line set own under read \
    last never us left end along while might next sound below saw something thought both few those always looked show \
    large often together asked house world going want school important until form food keep children feet land side \
    without boy once animals life enough took sometimes four head above kind began almost live page got earth need far \
    hand high year mother light parts country father let night following picture being study second eyes soon times \
    story boys since white days ever paper hard near sentence better best across during today others however sure means \
    knew try told young miles sun ways thing whole hear example heard several change answer room sea against top turned \
    learn point city play toward five using himself usually money seen car morning body upon family later turn move \
    face door cut done group true half red fish plants language model token memory layer weight kernel matrix vector \
    number value index order state table graph code type data file test run loop stack queue";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vocabulary_is_whole() {
        for (family, size) in FAMILIES.into_iter().flat_map(|family| [512, 4096, 200_000].map(|size| (family, size))) {
            let vocab = Vocab::new(family, size);
            assert_eq!((vocab.tokens.len(), vocab.types.len()), (size, size));
            let tokens: HashSet<&str> = vocab.tokens.iter().map(String::as_str).collect();
            assert_eq!(tokens.len(), size, "{}, {size}: a token occurs twice", family.pre);
            for merge in &vocab.merges {
                let (left, right) = merge.split_once(' ').unwrap();
                let whole = format!("{left}{right}");
                for token in [left, right, &whole] {
                    assert!(tokens.contains(token), "{}, {size}: {merge}", family.pre);
                }
            }
            for kind in [NORMAL, CONTROL, UNUSED] {
                assert!(vocab.types.contains(&kind), "{}, {size}: type {kind}", family.pre);
            }
            let named = family.ends.iter().flatten().chain([&family.bos, &family.padding]);
            for &token in named {
                assert_eq!(vocab.tokens[vocab.special(token) as usize], token);
            }
        }
    }

    #[test]
    fn special_tokens_are_where_the_real_model_has_them() {
        let vocab = Vocab::new(&GLM, 154_880);
        assert_eq!(vocab.special("[gMASK]"), 154_822);
        assert_eq!(vocab.special("<|observation|>"), 154_829);
        assert_eq!(vocab.special("</think>"), 154_842);
    }

    #[test]
    fn bytes_are_spelled_as_in_gpt_2() {
        assert_eq!([0, b' ', b'!', b'a', 0x7f, 0xad, 0xff].map(printable), ['Ā', 'Ġ', '!', 'a', 'ġ', 'Ń', 'ÿ']);
        let all: HashSet<char> = (0..=255).map(printable).collect();
        assert_eq!(all.len(), 256);
    }

    #[test]
    fn words_become_one_token() {
        let (tokens, list) = merges(usize::MAX);
        let ranks: HashMap<(String, String), usize> = list
            .iter()
            .map(|merge| merge.split_once(' ').unwrap())
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .zip(0..)
            .collect();
        assert_eq!(ranks.len(), list.len(), "a merge occurs twice");
        for word in WORDS.split_whitespace() {
            let mut parts = format!("Ġ{word}").chars().map(String::from).collect();
            merge_all(&mut parts, &ranks);
            assert_eq!(parts, [format!("Ġ{word}")]);
        }
        assert!(tokens.len() > 1000);
    }
}
