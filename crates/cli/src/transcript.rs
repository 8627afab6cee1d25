//! The tokens of a conversation as they were computed.
//!
//! A template writes the whole conversation anew for every turn. Encoding that text again may give other tokens for an
//! answer than the model chose, and the cache would then be of no use from there on. So text that goes on from what is
//! known keeps the known tokens, and only the rest is encoded.

use text::chat::Prompt;
use text::tokenizer::{TokenKind, Tokenizer};

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

    /// The tokens of what a template wrote.
    pub fn encode(&self, tokenizer: &Tokenizer, prompt: &Prompt) -> Vec<u32> {
        self.continued(tokenizer, prompt).unwrap_or_else(|| prompt.encode(tokenizer))
    }

    /// The known tokens and those of the rest, if the rest begins with a token of its own: elsewhere a word could begin
    /// before and end after the seam.
    fn continued(&self, tokenizer: &Tokenizer, prompt: &Prompt) -> Option<Vec<u32>> {
        if self.tokens.is_empty() || !prompt.text.starts_with(&self.text) {
            return None;
        }
        let rest = prompt.encode_from(tokenizer, self.text.len());
        let kind = tokenizer.kind(*rest.first()?)?;
        let stands_alone = matches!(kind, TokenKind::Control | TokenKind::UserDefined);
        stands_alone.then(|| [&self.tokens[..], &rest[..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::chat::{ChatTemplate, Conversation};

    fn demo() -> Tokenizer {
        text::vocabulary::tokenizer(&gguf::Gguf::parse(demo::GGUF.to_vec()).unwrap()).unwrap()
    }

    /// A prompt that is this text and nothing else.
    fn written(text: &str) -> Prompt {
        let template = ChatTemplate::parse(&format!("{{% raw %}}{text}{{% endraw %}}"), "", "").unwrap();
        template.render(&Conversation::new(vec![])).unwrap()
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
        let next = transcript.encode(&tokenizer, &written(&format!("Hello story{end}more")));
        assert_eq!(next[..known.len()], known[..]);
        assert_eq!(next[known.len()..], tokenizer.encode(format!("{end}more"), false, true)[..]);
        // Whatever does not go on from it is encoded anew.
        for other in ["Hello stories", "Hello", &format!("Hallo story{end}")] {
            assert_eq!(transcript.encode(&tokenizer, &written(other)), tokenizer.encode(other, true, true));
        }
    }
}
