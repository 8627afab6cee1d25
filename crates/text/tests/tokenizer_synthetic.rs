//! The tokenizer on vocabularies made here: whole-text properties, special tokens, hostile files.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use text::tokenizer::{ByteStrings, Detokenizer, Tokenizer, TokenizerData, TokenizerError};
use text::tokenizer::{MAX_SPECIAL_BYTES, MAX_TOKEN_BYTES, TokenKind, UnknownPre};

/// Every rule list once.
const PRES: [&str; 30] = [
    "llama-bpe",
    "glm4",
    "chatglm-bpe",
    "qwen2",
    "deepseek-r1-qwen",
    "qwen35",
    "gpt-2",
    "starcoder",
    "falcon",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "youtu",
    "gpt-4o",
    "tekken",
    "default",
    "jais-2",
    "minicpm5",
    "ufakzeka",
    "seed-coder",
    "exaone-moe",
    "laguna",
    "bloom",
    "viking",
    "chameleon",
    "superbpe",
    "spark2_5",
    "afmoe",
    "tiny_aya",
    "kimi-k2",
];

/// GPT-2's spelling of a byte, from its description.
pub fn spelled(byte: u8) -> char {
    let plain = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if plain(byte) {
        char::from(byte)
    } else {
        let others_before = (0..byte).filter(|&b| !plain(b)).count() as u32;
        char::from_u32(256 + others_before).unwrap()
    }
}

/// Learns `count` merges from words and how often they occur, the way vocabularies are made.
pub fn train(mut words: BTreeMap<Vec<String>, usize>, count: usize) -> Vec<(String, String)> {
    let mut merges = vec![];
    while merges.len() < count {
        let mut pairs: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (word, times) in &words {
            for two in word.windows(2) {
                *pairs.entry((&two[0], &two[1])).or_default() += times;
            }
        }
        let Some((&(left, right), _)) = pairs.iter().max_by_key(|(pair, times)| (**times, *pair)) else {
            break;
        };
        let (left, right) = (left.to_owned(), right.to_owned());
        words = words.iter().map(|(word, &times)| (joined(word, &left, &right), times)).collect();
        merges.push((left, right));
    }
    merges
}

fn joined(word: &[String], left: &str, right: &str) -> Vec<String> {
    let mut out: Vec<String> = vec![];
    let mut rest = word.iter();
    while let Some(symbol) = rest.next() {
        match rest.as_slice().first() {
            Some(next) if symbol == left && next == right => {
                out.push(symbol.clone() + next);
                rest.next();
            }
            _ => out.push(symbol.clone()),
        }
    }
    out
}

const CORPUS: &str = "the quick brown fox jumps over the lazy dog and the other dogs \
    don't mind that they're there 日本語 日本 it's 2024 2025 fn main() { println!(\"hi\"); }   \n\n\
    the weather there is thereby the other's matter  \n";

const SPECIALS: [(&str, i32); 6] =
    [("<|bos|>", 3), ("<|im_end|>", 3), ("<|user|>", 3), ("<|user", 3), ("<tool>", 4), ("<|pad|>", 5)];

fn words(corpus: &str) -> BTreeMap<Vec<String>, usize> {
    let mut words = BTreeMap::new();
    for word in corpus.split(' ') {
        let bytes = std::iter::once(b' ').chain(word.bytes());
        let symbols = bytes.map(|byte| spelled(byte).to_string()).collect();
        *words.entry(symbols).or_default() += 1;
    }
    words
}

/// All bytes, what the corpus teaches, then [`SPECIALS`].
fn data(pre: &str) -> TokenizerData {
    static MERGES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| train(words(CORPUS), 200));
    let mut data = TokenizerData { model: "gpt2".into(), pre: Some(pre.into()), ..TokenizerData::default() };
    (0..=255).for_each(|byte| data.tokens.push(spelled(byte).to_string()));
    for (left, right) in MERGES.iter() {
        data.tokens.push(format!("{left}{right}"));
        data.merges.push(format!("{left} {right}"));
    }
    data.token_type = vec![1; data.tokens.len()];
    for (text, kind) in SPECIALS {
        data.tokens.push(text);
        data.token_type.push(kind);
    }
    data.bos = Some(data.tokens.len() as u32 - 6);
    data.eos = Some(data.tokens.len() as u32 - 5);
    data
}

fn tokenizer(pre: &str) -> Tokenizer {
    Tokenizer::new(data(pre)).unwrap()
}

static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| PRES.iter().map(|pre| tokenizer(pre)).collect());

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut text = Detokenizer::new();
    let mut out = String::new();
    for &id in ids {
        out += text.push(tokenizer, id);
    }
    out + text.finish()
}

proptest! {
    #[test]
    fn any_bytes_survive_the_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for tokenizer in TOKENIZERS.iter() {
            let ids = tokenizer.encode(&bytes, false, false);
            prop_assert_eq!(&tokenizer.decode(&ids, false), &bytes);
            prop_assert_eq!(streamed(tokenizer, &ids), String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn text_survives_the_round_trip(
        text in "(the |日本語|there|[0-9]{1,5}|\\PC{0,6}|[ \n\t]{0,4}|👩‍🚀|<tool>|<\\|user\\|>){0,12}",
        parse in any::<bool>(),
    ) {
        for tokenizer in TOKENIZERS.iter() {
            let ids = tokenizer.encode(&text, true, parse);
            let decoded = String::from_utf8(tokenizer.decode(&ids, true)).unwrap();
            let decoded = decoded.strip_prefix("<|bos|>").unwrap_or(&decoded);
            prop_assert_eq!(decoded, &text);
        }
    }
}

#[test]
fn learned_words_are_one_token() {
    for tokenizer in TOKENIZERS.iter() {
        let ids = tokenizer.encode(" the other", false, false);
        let texts: Vec<_> = ids.iter().map(|&id| tokenizer.token_bytes(id).unwrap()).collect();
        assert_eq!(texts, [&b" the"[..], b" other"]);
    }
}

#[test]
fn control_tokens_only_where_they_are_allowed() {
    let tokenizer = tokenizer("qwen2");
    let user = tokenizer.token_id("<|user|>").unwrap();
    let tool = tokenizer.token_id("<tool>").unwrap();
    let text = "<|user|><tool>";
    assert_eq!(tokenizer.encode(text, false, true), [user, tool]);
    let typed = tokenizer.encode(text, false, false);
    assert!(!typed.contains(&user) && typed.contains(&tool));
    assert_eq!(tokenizer.decode(&typed, false), text.as_bytes());
    assert_eq!(tokenizer.decode(&[user, tool], false), b"<tool>");
    assert_eq!(tokenizer.decode(&[user, tool], true), text.as_bytes());
    assert_eq!(tokenizer.kind(user), Some(TokenKind::Control));
    assert_eq!(tokenizer.kind(9999), None);
    assert_eq!(tokenizer.decode(&[9999, u32::MAX], true), b"");
}

#[test]
fn one_beginning_and_one_end() {
    let mut plain = data("llama-bpe");
    plain.add_eos = Some(true);
    let tokenizer = Tokenizer::new(plain).unwrap();
    let (bos, eos) = (tokenizer.bos().unwrap(), tokenizer.eos().unwrap());
    assert!(tokenizer.adds_bos());
    let a = u32::from(b'a');
    assert_eq!(tokenizer.encode("a", true, true), [bos, a, eos]);
    assert_eq!(tokenizer.encode("<|bos|>a<|im_end|>", true, true), [bos, a, eos]);
    assert_eq!(tokenizer.encode("a", false, true), [a]);
    assert_eq!(tokenizer.encode("", true, true), [bos, eos]);
    assert_eq!(tokenizer.encode("<|bos|>", true, false)[0], bos);
    assert!(tokenizer.encode("<|bos|>", true, false).len() > 2);
}

#[test]
fn beginnings_by_default_and_by_the_file() {
    for (pre, in_file, expected) in [
        ("llama-bpe", None, true),
        ("tekken", None, true),
        ("glm4", None, false),
        ("qwen2", None, false),
        ("deepseek-llm", Some(true), true),
        ("llama-bpe", Some(false), false),
    ] {
        let mut data = data(pre);
        data.add_bos = in_file;
        let tokenizer = Tokenizer::new(data).unwrap();
        assert_eq!(tokenizer.adds_bos(), expected, "{pre} {in_file:?}");
    }
    let mut nameless = data("llama-bpe");
    nameless.bos = None;
    let tokenizer = Tokenizer::new(nameless).unwrap();
    assert!(!tokenizer.adds_bos());
    assert_eq!(tokenizer.encode("a", true, true), [97]);
}

#[test]
fn generations_end_at_the_known_tokens() {
    let mut data = data("qwen2");
    let turn = data.tokens.len() as u32 - 4;
    data.eot = Some(turn);
    let tokenizer = Tokenizer::new(data).unwrap();
    assert_eq!(tokenizer.end_tokens(), [tokenizer.eos().unwrap(), turn]);
    assert!(tokenizer.is_end(turn) && !tokenizer.is_end(97));
}

fn error(change: impl FnOnce(&mut TokenizerData)) -> String {
    let mut data = data("qwen2");
    change(&mut data);
    Tokenizer::new(data).expect_err("accepted").to_string()
}

#[test]
fn hostile_vocabularies_are_refused_with_a_reason() {
    for model in ["hybriddna", "none", ""] {
        let message = error(|data| data.model = model.into());
        assert!(message.contains(&format!("{model:?}")), "{message}");
    }
    assert!(error(|data| data.pre = Some("llama-9".into())).contains("\"llama-9\""));
    assert!(error(|data| data.pre = None).contains("tokenizer.ggml.pre"));
    assert!(error(|data| data.tokens = ByteStrings::new()).contains("0 tokens"));
    assert!(error(|data| data.token_type.truncate(3)).contains("token_type has 3"));
    assert!(error(|data| data.token_type[7] = -1).contains("token 7 has type -1"));
    assert!(error(|data| data.bos = Some(data.tokens.len() as u32)).contains("bos_token_id is"));
    assert!(error(|data| data.eom = Some(u32::MAX)).contains("eom_token_id"));
    assert!(error(|data| data.fim_ends = vec![1, 99999]).contains("99999"));
    for merge in ["", " ", "ab", "a ", " a", " ab"] {
        let message = error(|data| data.merges.push(merge));
        assert!(message.contains("not two tokens"), "{merge:?}: {message}");
    }
    for (merge, part) in [("zz q", "zz"), ("z qq", "qq"), ("z \u{10ffff}", "\u{10ffff}"), ("q z", "qz")] {
        let message = error(|data| data.merges.push(merge));
        assert!(message.contains(&format!("needs {part:?}")), "{merge:?}: {message}");
    }
    let long = "x".repeat(MAX_TOKEN_BYTES + 1);
    assert!(
        error(|data| {
            data.tokens.push(&long);
            data.token_type.push(1)
        })
        .contains("65537")
    );
    let long = "x".repeat(MAX_SPECIAL_BYTES + 1);
    assert!(
        error(|data| {
            data.tokens.push(&long);
            data.token_type.push(3)
        })
        .contains("1025")
    );
}

#[test]
fn spm_vocabularies_are_checked_too() {
    let spm = || TokenizerData {
        model: "llama".into(),
        tokens: ["<unk>", "<s>", "</s>", "▁", "a", "<0x41>"].iter().collect(),
        token_type: vec![2, 3, 3, 1, 1, 6],
        scores: vec![0.0; 6],
        ..TokenizerData::default()
    };
    let tokenizer = Tokenizer::new(spm()).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert_eq!(tokenizer.encode("a a", true, false), [1, 3, 4, 3, 4]);
    assert_eq!(tokenizer.decode(&[1, 3, 4, 3, 4], false), b"a a");
    assert_eq!(tokenizer.encode("<s>a", true, true), [1, 3, 4]);
    assert_eq!(tokenizer.end_tokens(), [2]);
    let refused = |change: fn(&mut TokenizerData)| {
        let mut data = spm();
        change(&mut data);
        Tokenizer::new(data).unwrap_err()
    };
    let error = refused(|data| data.scores.truncate(1));
    assert!(matches!(error, TokenizerError::LengthMismatch { len: 1, tokens: 6, .. }));
    assert_eq!(refused(|data| data.scores[4] = f32::NAN), TokenizerError::BadScore { id: 4 });
    let error = refused(|data| data.token_type[4] = 6);
    assert_eq!(error.to_string(), "token 4 is marked as a byte but reads \"a\"");
}

#[test]
fn odd_entries_are_harmless() {
    let mut odd = data("glm4");
    for text in [&b""[..], b"\xff\xfe", b"a b", "日".as_bytes(), b"a", b""] {
        odd.tokens.push(text);
        odd.token_type.push(1);
    }
    for text in [&b""[..], b"\xff"] {
        odd.tokens.push(text);
        odd.token_type.push(4);
    }
    let tokenizer = Tokenizer::new(odd).unwrap();
    let text = b"a b \xff\xfe \xe6\x97\xa5 <tool>";
    let ids = tokenizer.encode(text, true, true);
    assert_eq!(tokenizer.decode(&ids, true), text);
    for id in 0..tokenizer.vocab_len() as u32 {
        assert!(tokenizer.token_bytes(id).is_some());
    }
}

#[test]
fn an_unknown_rule_can_fall_back_when_asked_to() {
    let unknown = data("llama-9");
    let tokenizer = Tokenizer::with_unknown_pre(unknown, UnknownPre::UseDefault).unwrap();
    let default = self::tokenizer("default");
    let text = "the 12345 dogs, don't!";
    assert_eq!(tokenizer.encode(text, true, true), default.encode(text, true, true));
}

proptest! {
    /// Whatever the arrays hold: an error or a tokenizer that works, never a panic.
    #[test]
    fn random_vocabularies_never_panic(
        spm in any::<bool>(),
        tokens in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..12),
        kinds in prop::collection::vec(-1i32..8, 0..12),
        scores in prop::collection::vec(any::<f32>(), 0..12),
        merges in prop::collection::vec("[ab ]{0,4}", 0..4),
        ids in prop::collection::vec(prop::option::of(0u32..14), 6),
        same_length in any::<bool>(),
        text in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let count = tokens.len();
        let mut data = TokenizerData {
            model: if spm { "llama" } else { "gpt2" }.into(),
            pre: Some("qwen2".into()),
            tokens: tokens.iter().chain([&b"a".to_vec(), &b"b".to_vec(), &b"ab".to_vec()]).collect(),
            token_type: kinds,
            scores,
            merges: merges.iter().collect(),
            bos: ids[0],
            eos: ids[1],
            eot: ids[2],
            eom: ids[3],
            unk: ids[4],
            pad: ids[5],
            add_bos: Some(true),
            add_eos: Some(true),
            ..TokenizerData::default()
        };
        if same_length {
            data.token_type.resize(count + 3, 1);
            data.scores.resize(count + 3, 0.0);
        }
        if let Ok(tokenizer) = Tokenizer::new(data) {
            let ids = tokenizer.encode(&text, true, true);
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_len()));
            tokenizer.decode(&ids, true);
        }
    }
}

/// gpt-oss and others call them control tokens, and what a model says is told apart by them.
#[test]
fn tokens_by_which_an_output_is_told_apart_are_printed() {
    let mut data = data("gpt-4o");
    let first = data.tokens.len() as u32;
    for text in ["<|channel|>", "<|message|>", "[TOOL_CALLS]", "<|end|>", "<|return|>", "<|call|>", "<|other|>"] {
        data.tokens.push(text);
        data.token_type.push(3);
    }
    let tokenizer = Tokenizer::new(data).unwrap();
    let shown: Vec<bool> = (first..first + 7).map(|id| !tokenizer.decode(&[id], false).is_empty()).collect();
    assert_eq!(shown, [true, true, true, true, false, false, false]);
    // They steer all the same: text that somebody wrote never has them.
    let text = "<|channel|>final<|message|>";
    assert!(tokenizer.encode(text, false, false).iter().all(|&id| id < first));
    assert_eq!(tokenizer.encode(text, false, true).iter().filter(|&&id| id >= first).count(), 2);
}
