//! Tokens to text, one at a time, without ever cutting a character in two.

use super::Tokenizer;

/// Turns a stream of tokens into a stream of valid UTF-8.
///
/// Bytes that may still become a character are held back until the tokens that follow complete
/// it; bytes that cannot become one turn into U+FFFD. What comes out, joined, is the lossy decoding
/// of all the bytes. Generated text goes on from a prompt, so a space that its first token begins
/// with stays, unlike in [`Tokenizer::decode`].
///
/// ```
/// # use text::tokenizer::{Detokenizer, Tokenizer, TokenizerData};
/// # let mut data = TokenizerData { model: "llama".into(), ..Default::default() };
/// # for byte in [0xE6u8, 0x97, 0xA5] {
/// #     data.tokens.push(format!("<0x{byte:02X}>"));
/// #     data.token_type.push(6);
/// #     data.scores.push(0.0);
/// # }
/// # let tokenizer = Tokenizer::new(data).unwrap();
/// let mut text = Detokenizer::new();
/// assert_eq!(text.push(&tokenizer, 0), "");
/// assert_eq!(text.push(&tokenizer, 1), "");
/// assert_eq!(text.push(&tokenizer, 2), "日");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Detokenizer {
    special: bool,
    /// Bytes not handed out yet; between calls an incomplete character of at most three bytes.
    held: Vec<u8>,
    ready: String,
}

impl Detokenizer {
    /// A stream that leaves control tokens out.
    pub fn new() -> Detokenizer {
        Detokenizer::default()
    }

    /// A stream that prints control tokens too.
    pub fn with_special() -> Detokenizer {
        Detokenizer { special: true, ..Detokenizer::default() }
    }

    /// Takes the next token and returns the text that it completes, often empty. An id outside the
    /// vocabulary prints nothing.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> &str {
        let hidden = !self.special && tokenizer.kind(id).is_none_or(|kind| kind.is_hidden());
        let bytes = tokenizer.token_bytes(id).filter(|_| !hidden);
        self.push_bytes(bytes.unwrap_or_default())
    }

    /// Takes the next bytes and returns the text that they complete.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> &str {
        self.held.extend_from_slice(bytes);
        self.ready.clear();
        let mut used = 0;
        for chunk in self.held.utf8_chunks() {
            self.ready.push_str(chunk.valid());
            used += chunk.valid().len();
            let rest = &self.held[used..];
            if rest.len() == chunk.invalid().len() && is_incomplete(rest) {
                break;
            }
            if !chunk.invalid().is_empty() {
                self.ready.push(char::REPLACEMENT_CHARACTER);
            }
            used += chunk.invalid().len();
        }
        self.held.drain(..used);
        &self.ready
    }

    /// Ends the stream: an incomplete character becomes U+FFFD. The stream is then as new.
    pub fn finish(&mut self) -> &str {
        self.ready.clear();
        if !self.held.is_empty() {
            self.held.clear();
            self.ready.push(char::REPLACEMENT_CHARACTER);
        }
        &self.ready
    }
}

/// Whether `bytes` are the beginning of a character that more bytes could complete.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn streamed(chunks: &[Vec<u8>]) -> String {
        let mut text = Detokenizer::new();
        let mut out = String::new();
        for chunk in chunks {
            out += text.push_bytes(chunk);
        }
        out + text.finish()
    }

    #[test]
    fn an_emoji_comes_out_whole() {
        let bytes = "a👩‍🚀é".as_bytes();
        let mut text = Detokenizer::new();
        let parts: Vec<String> = bytes.iter().map(|&byte| text.push_bytes(&[byte]).to_owned()).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        assert_eq!(parts, ["a", "👩", "\u{200d}", "🚀", "é"]);
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn broken_bytes_are_replaced_as_soon_as_they_are_known_to_be_broken() {
        let mut text = Detokenizer::new();
        assert_eq!(text.push_bytes(b"\xe6\x97"), "");
        assert_eq!(text.push_bytes(b"a"), "\u{fffd}a");
        assert_eq!(text.push_bytes(b"\xff"), "\u{fffd}");
        assert_eq!(text.push_bytes(b"\xf0\x9f"), "");
        assert_eq!(text.finish(), "\u{fffd}");
        assert_eq!(text.finish(), "");
    }

    proptest! {
        #[test]
        fn a_stream_is_the_lossy_decoding_of_the_whole(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..20),
        ) {
            let whole = String::from_utf8_lossy(&chunks.concat()).into_owned();
            prop_assert_eq!(streamed(&chunks), whole);
        }

        #[test]
        fn text_cut_anywhere_is_the_text(text in "\\PC{0,40}", cut in 1usize..4) {
            let chunks: Vec<Vec<u8>> = text.as_bytes().chunks(cut).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(streamed(&chunks), text);
        }
    }
}
