//! A vocabulary of single characters, for tests.

use text::tokenizer::{Tokenizer, TokenizerData};

/// Tokens of one printable character after these, which have their kinds beside them; the first two of them begin and end
/// a text.
pub fn tokenizer<T: AsRef<str>>(first: impl IntoIterator<Item = (T, i32)>) -> Tokenizer {
    let mut data = TokenizerData {
        model: "llama".into(),
        architecture: "llama".into(),
        bos: Some(0),
        eos: Some(1),
        add_space_prefix: Some(false),
        ..TokenizerData::default()
    };
    let mut add = |token: &str, kind: i32| {
        data.tokens.push(token);
        data.token_type.push(kind);
        data.scores.push(0.0);
    };
    first.into_iter().for_each(|(token, kind)| add(token.as_ref(), kind));
    (b' '..=b'~').for_each(|byte| add(&char::from(byte).to_string().replace(' ', "▁"), 1));
    Tokenizer::new(data).expect("a tokenizer")
}
