//! Why a vocabulary is refused.

use gguf::plain::{NAME, cut};
use thiserror::Error;

/// A vocabulary that cannot be loaded, with the entry that is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenizerError {
    /// `tokenizer.ggml.model` names an algorithm that Kernloom does not have.
    #[error(
        "tokenizer model {:?} is not supported (supported: \"bert\", \"gpt2\", \"gemma4\", \"llama\", \"plamo2\", \"rwkv\", \"t5\")",
        cut(model, NAME)
    )]
    UnsupportedModel {
        /// The name in the file.
        model: String,
    },
    /// `tokenizer.ggml.pre` names a splitting rule that Kernloom does not know.
    #[error(
        "pre-tokenizer {:?} is not known, and guessing would give wrong tokens; a newer Kernloom may know it",
        cut(pre, NAME)
    )]
    UnknownPre {
        /// The name in the file.
        pre: String,
    },
    /// A byte-level BPE vocabulary without `tokenizer.ggml.pre`.
    #[error(
        "the file names no pre-tokenizer (tokenizer.ggml.pre), and guessing would give wrong tokens; \
         take a file that was converted more recently"
    )]
    MissingPre,
    /// No tokens at all, or more than an id can name.
    #[error("a vocabulary of {tokens} tokens cannot be used")]
    BadVocabularySize {
        /// How many tokens the file lists.
        tokens: usize,
    },
    /// An array that should run parallel to the tokens has another length.
    #[error("{array} has {len} entries for {tokens} tokens")]
    LengthMismatch {
        /// Which array.
        array: &'static str,
        /// Its length.
        len: usize,
        /// The number of tokens.
        tokens: usize,
    },
    /// A special id that lies outside the vocabulary.
    #[error("{key} is {id}, but the vocabulary has {tokens} tokens")]
    SpecialOutOfRange {
        /// Metadata key of the id.
        key: &'static str,
        /// The id in the file.
        id: u32,
        /// The number of tokens.
        tokens: usize,
    },
    /// A token longer than [`MAX_TOKEN_BYTES`](super::MAX_TOKEN_BYTES), or a special token longer
    /// than [`MAX_SPECIAL_BYTES`](super::MAX_SPECIAL_BYTES).
    #[error("token {id} is {len} bytes long, more than the {max} allowed")]
    TokenTooLong {
        /// The token.
        id: u32,
        /// Its length in bytes.
        len: usize,
        /// The limit it broke.
        max: usize,
    },
    /// A token type outside 0..=6.
    #[error("token {id} has type {value}, which does not exist")]
    BadTokenType {
        /// The token.
        id: u32,
        /// The type in the file.
        value: i32,
    },
    /// A byte token of a SentencePiece vocabulary that is not spelled `<0xXX>`.
    #[error("token {id} is marked as a byte but reads {text:?}")]
    BadByteToken {
        /// The token.
        id: u32,
        /// Its text, lossily decoded.
        text: String,
    },
    /// A score that is not a number.
    #[error("the score of token {id} is not a number")]
    BadScore {
        /// The token.
        id: u32,
    },
    /// A map of characters that ends early.
    #[error("precompiled_charsmap ends early, behind {bytes} bytes; the file is damaged, fetch it again")]
    BadCharsmap {
        /// Its length.
        bytes: usize,
    },
    /// A merge that is not "left right".
    #[error("merge {index} ({merge:?}) is not two tokens separated by a space")]
    MergeWithoutSpace {
        /// Position in `tokenizer.ggml.merges`.
        index: usize,
        /// Its text, lossily decoded.
        merge: String,
    },
    /// A merge whose left side, right side or result is not in the vocabulary.
    #[error("merge {index} ({merge:?}) needs {part:?}, which is not in the vocabulary")]
    MergeUnknown {
        /// Position in `tokenizer.ggml.merges`.
        index: usize,
        /// Its text, lossily decoded.
        merge: String,
        /// The missing token.
        part: String,
    },
}

/// Lossy text of a vocabulary entry for a message, cut to a readable length.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 64;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned();
    if bytes.len() > SHOWN_BYTES {
        text.push('…');
    }
    text
}
