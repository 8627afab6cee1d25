//! Any bytes as a vocabulary and a text: an error, or tokens that are in the vocabulary and give the text back.

use text::tokenizer::{Detokenizer, Tokenizer, TokenizerData, UnknownPre};

/// Ends the vocabulary; the text follows.
pub const BETWEEN: u8 = 0;

/// A SentencePiece vocabulary; else byte-level BPE.
pub const SENTENCE_PIECE: u8 = 1;
/// There is a token for each byte, and one for a space.
pub const BYTES: u8 = 2;
/// Tokens around a text are asked for.
pub const AROUND: u8 = 4;
/// No space before a text.
pub const NO_PREFIX: u8 = 8;
/// Special tokens take the whitespace after them.
pub const ABSORB: u8 = 16;
/// An unknown splitting rule is not refused.
pub const ANY_PRE: u8 = 32;
/// A vocabulary of encoders: WordPiece, or unigrams of SentencePiece.
pub const ENCODER: u8 = 64;

/// A splitting rule of each kind, and one that nobody knows.
pub const PRES: [&str; 28] = [
    "llama-bpe",
    "glm4",
    "smaug-bpe",
    "qwen2",
    "qwen35",
    "gpt-2",
    "starcoder",
    "falcon",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "youtu",
    "gpt-4o",
    "unheard of",
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

/// The character that SentencePiece writes for a space.
const SPACE_MARK: &str = "\u{2581}";

/// Makes a tokenizer of flags, the number of a splitting rule and lines, and encodes what follows them. A line is a
/// token after its kind (a digit), a merge (`m`), a special id (`b`, `e`, `t`, `u`, `p`), or a map of characters (`c`). Gives the number of tokens.
pub fn exercise(bytes: &[u8]) -> Option<usize> {
    let [flags, pre, rest @ ..] = bytes else { return None };
    let at = rest.iter().position(|byte| *byte == BETWEEN).unwrap_or(rest.len());
    let (lines, text) = (&rest[..at], rest.get(at + 1..).unwrap_or_default());
    let has = |flag: u8| flags & flag != 0;
    let mut data = TokenizerData {
        model: match (has(ENCODER), has(SENTENCE_PIECE)) {
            (false, false) => "gpt2",
            (false, true) => "llama",
            (true, false) => "bert",
            (true, true) => "t5",
        }
        .into(),
        lowercase: Some(!has(NO_PREFIX)),
        remove_extra_whitespaces: Some(has(ABSORB)),
        pre: PRES.get(*pre as usize).map(|name| (*name).to_owned()),
        add_bos: Some(has(AROUND)),
        add_eos: Some(has(AROUND)),
        add_space_prefix: Some(!has(NO_PREFIX)),
        name: has(ABSORB).then(|| "phi-3".into()),
        ..TokenizerData::default()
    };
    if has(BYTES) {
        all_bytes(&mut data, has(SENTENCE_PIECE));
    }
    let mut plain = has(BYTES) && !has(ENCODER);
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((first, rest)) = line.split_first() else { continue };
        let id = std::str::from_utf8(rest).ok().and_then(|digits| digits.parse().ok());
        match first {
            b'0'..=b'9' => {
                data.tokens.push(rest);
                data.token_type.push(i32::from(first - b'0'));
                // Ties, both zeros and long ranges of scores.
                data.scores
                    .push(f32::from(*rest.last().unwrap_or(&0) as i8) * if rest.len() % 2 == 0 { 0.0 } else { 1.5 });
                plain &= *first == b'1';
            }
            b'm' => data.merges.push(rest),
            b'c' => data.charsmap = rest.to_vec(),
            b'b' => data.bos = id,
            b'e' => data.eos = id,
            b't' => data.eot = id,
            b'u' => data.unk = id,
            b'p' => data.pad = id,
            _ => {}
        }
    }
    let unknown = if has(ANY_PRE) { UnknownPre::UseDefault } else { UnknownPre::Refuse };
    let tokenizer = Tokenizer::with_unknown_pre(data, unknown).ok()?;
    let mut most = 0;
    for (around, special) in [(false, false), (true, false), (true, true)] {
        let ids = tokenizer.encode(text, around, special);
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_len()), "a token that is not in the vocabulary");
        // A character may stand for many.
        assert!(has(ENCODER) || ids.len() <= 6 * text.len() + 5, "{} tokens of {} bytes", ids.len(), text.len());
        streams_as_a_whole(&tokenizer, &ids);
        most = most.max(ids.len());
    }
    let marked = text.windows(SPACE_MARK.len()).any(|window| window == SPACE_MARK.as_bytes());
    if plain && !(has(SENTENCE_PIECE) && marked) {
        let ids = tokenizer.encode(text, false, false);
        assert_eq!(tokenizer.decode(&ids, true), text, "the text does not come back from {ids:?}");
    }
    Some(most)
}

/// A stream prints what all its tokens print.
fn streams_as_a_whole(tokenizer: &Tokenizer, ids: &[u32]) {
    let mut stream = Detokenizer::with_special();
    let mut out: String = ids.iter().map(|&id| stream.push(tokenizer, id).to_owned()).collect();
    out += stream.finish();
    let whole: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap_or_default()).copied().collect();
    assert_eq!(out, String::from_utf8_lossy(&whole));
}

/// A token for each byte, as each algorithm spells it, and one for a space.
fn all_bytes(data: &mut TokenizerData, sentence_piece: bool) {
    for byte in 0..=u8::MAX {
        let (text, kind) = match sentence_piece {
            true => (format!("<0x{byte:02X}>"), 6),
            false => (spelled(byte).to_string(), 1),
        };
        data.tokens.push(text);
        data.token_type.push(kind);
        data.scores.push(0.0);
    }
    if sentence_piece {
        data.tokens.push(SPACE_MARK);
        data.token_type.push(1);
        data.scores.push(-1.0);
    }
}

/// A byte in the printable alphabet of GPT-2: itself where it prints, else from U+0100 on, in order.
fn spelled(byte: u8) -> char {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if prints(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !prints(other)).count() as u32;
    char::from_u32(0x100 + before).expect("a letter")
}
