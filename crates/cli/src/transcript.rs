//! The tokens of a conversation as they were computed.
//!
//! A template writes the whole conversation anew for every turn. Encoding that text again may give other tokens for an
//! answer than the model chose, and the cache would then be of no use from there on. So text that goes on from what is
//! known keeps the known tokens, and only the rest is encoded.

use model::tokenizer::{TokenKind, Tokenizer};

/// A text and its tokens: the last prompt and what was answered.
#[derive(Debug, Default)]
pub struct Transcript {
    text: String,
    tokens: Vec<u32>,
}

impl Transcript {
    /// Begins with a prompt.
    pub fn begin(&mut self, text: &str, tokens: &[u32]) {
        self.text = text.to_owned();
        self.tokens = tokens.to_vec();
    }

    /// Goes on with a token of the answer, and with text that became complete by it.
    pub fn push(&mut self, id: Option<u32>, text: &str) {
        self.text.push_str(text);
        self.tokens.extend(id);
    }

    /// The tokens of a text that a template wrote.
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        self.continued(tokenizer, text).unwrap_or_else(|| tokenizer.encode(text, true, true))
    }

    /// The known tokens and those of the rest, if the rest begins with a token of its own: elsewhere a word could begin
    /// before and end after the seam.
    fn continued(&self, tokenizer: &Tokenizer, text: &str) -> Option<Vec<u32>> {
        let rest = text.strip_prefix(&self.text).filter(|_| !self.tokens.is_empty())?;
        let rest = tokenizer.encode(rest, false, true);
        let kind = tokenizer.kind(*rest.first()?)?;
        let stands_alone = matches!(kind, TokenKind::Control | TokenKind::UserDefined);
        stands_alone.then(|| [&self.tokens[..], &rest[..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo() -> Tokenizer {
        model::vocabulary::tokenizer(&gguf::Gguf::parse(demo::GGUF.to_vec()).unwrap()).unwrap()
    }

    #[test]
    fn what_the_model_chose_is_kept() {
        let tokenizer = demo();
        let end = String::from_utf8(tokenizer.token_bytes(tokenizer.end_tokens()[0]).unwrap().to_vec()).unwrap();
        let mut transcript = Transcript::default();
        let prompt = tokenizer.encode("Hello", true, true);
        transcript.begin("Hello", &prompt);
        // Letter by letter, which encoding would never choose.
        for letter in [" ", "s", "t", "o", "r", "y"] {
            transcript.push(Some(tokenizer.encode(letter, false, false)[0]), letter);
        }
        let known = transcript.tokens.clone();
        let next = transcript.encode(&tokenizer, &format!("Hello story{end}more"));
        assert_eq!(next[..known.len()], known[..]);
        assert_eq!(next[known.len()..], tokenizer.encode(format!("{end}more"), false, true)[..]);
        // Whatever does not go on from it is encoded anew.
        for other in ["Hello stories", "Hello", &format!("Hallo story{end}")] {
            assert_eq!(transcript.encode(&tokenizer, other), tokenizer.encode(other, true, true));
        }
    }
}
