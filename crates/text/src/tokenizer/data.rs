//! What a tokenizer is built from: the `tokenizer.ggml.*` metadata of a file, as plain values.

/// A list of byte strings in one allocation.
///
/// Vocabularies have 150 000 entries; a `Vec<Vec<u8>>` would spend its loading time in the
/// allocator.
///
/// ```
/// use text::tokenizer::ByteStrings;
///
/// let mut tokens = ByteStrings::new();
/// tokens.push(b"Hello");
/// tokens.push(" world");
/// assert_eq!(tokens.len(), 2);
/// assert_eq!(tokens.get(1), Some(&b" world"[..]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByteStrings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteStrings {
    /// An empty list.
    pub fn new() -> ByteStrings {
        ByteStrings::default()
    }

    /// An empty list with room for `count` strings of `bytes` bytes together.
    pub fn with_capacity(count: usize, bytes: usize) -> ByteStrings {
        ByteStrings { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Appends a string.
    pub fn push(&mut self, string: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(string.as_ref());
        self.ends.push(self.bytes.len());
    }

    /// The string at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |i| self.ends[i]);
        Some(&self.bytes[start..end])
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Appends to the string being built; [`seal`](Self::seal) ends it.
    pub(super) fn open(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the string built through [`open`](Self::open).
    pub(super) fn seal(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for ByteStrings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> ByteStrings {
        let mut list = ByteStrings::new();
        strings.into_iter().for_each(|string| list.push(string));
        list
    }
}

/// The tokenizer metadata of a model file. Field names follow the keys under `tokenizer.ggml.`;
/// an absent key is `None`, an absent array is empty.
#[derive(Debug, Clone, Default)]
pub struct TokenizerData {
    /// `model`: the algorithm, such as "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE).
    pub model: String,
    /// `pre`: the splitting rule of byte-level BPE.
    pub pre: Option<String>,
    /// `tokens`: the text of every token, as stored.
    pub tokens: ByteStrings,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_type: Vec<i32>,
    /// `scores` of a vocabulary of SentencePiece.
    pub scores: Vec<f32>,
    /// `merges` of a BPE vocabulary, best first, each "left right".
    pub merges: ByteStrings,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`: end of a turn.
    pub eot: Option<u32>,
    /// `eom_token_id`: end of a message, usually a tool call.
    pub eom: Option<u32>,
    /// `cls_token_id`: before a text, in vocabularies of encoders.
    pub cls: Option<u32>,
    /// `seperator_token_id`, as files spell it: behind such a text, or between two.
    pub sep: Option<u32>,
    /// `unknown_token_id`.
    pub unk: Option<u32>,
    /// `padding_token_id`.
    pub pad: Option<u32>,
    /// `fim_pad_token_id`, `fim_rep_token_id`, `fim_sep_token_id`: all end a generation.
    pub fim_ends: Vec<u32>,
    /// `add_bos_token`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_sep_token`: whether a separator stands between two texts.
    pub add_sep: Option<bool>,
    /// `normalizer.lowercase` of a WordPiece vocabulary.
    pub lowercase: Option<bool>,
    /// `normalizer.strip_accents` of a WordPiece vocabulary; where it is absent, that is so if text becomes lower case.
    pub strip_accents: Option<bool>,
    /// `add_space_prefix` of a SentencePiece vocabulary.
    pub add_space_prefix: Option<bool>,
    /// `remove_extra_whitespaces` of a unigram vocabulary.
    pub remove_extra_whitespaces: Option<bool>,
    /// `precompiled_charsmap` of a unigram vocabulary: what is written instead of characters.
    pub charsmap: Vec<u8>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`.
    pub name: Option<String>,
}
