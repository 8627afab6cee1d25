//! The tokens of a vocabulary: stored text, printed bytes, kind, and the way back from text to id.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::BTreeSet;
use std::hash::BuildHasher;

use super::data::{ByteStrings, TokenizerData};
use super::error::{TokenizerError, shown};
use super::{MAX_SPECIAL_BYTES, MAX_TOKEN_BYTES, byte_alphabet, escapes, tags};

/// What a token is for; the numbers are those of `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenKind {
    /// Ordinary text.
    Normal = 1,
    /// Stands for text that the vocabulary cannot write.
    Unknown = 2,
    /// Steers the model and is never text: turn markers, end of generation.
    Control = 3,
    /// Text that is always matched whole, before anything else.
    UserDefined = 4,
    /// A slot without meaning.
    Unused = 5,
    /// One raw byte of a SentencePiece vocabulary.
    Byte = 6,
}

impl TokenKind {
    fn from_file(id: u32, value: i32) -> Result<TokenKind, TokenizerError> {
        Ok(match value {
            0 | 1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return Err(TokenizerError::BadTokenType { id, value }),
        })
    }

    /// Whether decoding leaves the token out unless special tokens are asked for.
    pub fn is_hidden(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::Unknown | TokenKind::Unused)
    }

    /// Whether the token is matched in text before any splitting, if at all.
    pub(super) fn is_special(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined)
    }
}

/// The ways in which a file spells ordinary tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// In the printable byte alphabet of GPT-2.
    ByteAlphabet,
    /// With `▁` for a space and `<0xXX>` for a raw byte.
    SentencePiece,
    /// As it is printed, but for `<0xXX>`.
    Plain,
    /// With the escapes of Python.
    Escaped,
}

/// The character that SentencePiece writes for a space, U+2581.
pub(super) const SPACE_MARK: &[u8] = "▁".as_bytes();

pub(super) struct Vocab {
    texts: ByteStrings,
    printed: ByteStrings,
    kinds: Vec<TokenKind>,
    /// User-defined tokens that steer the model.
    tags: BTreeSet<u32>,
    by_text: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Vocab {
    pub(super) fn new(tokens: ByteStrings, token_type: &[i32], spelling: Spelling) -> Result<Vocab, TokenizerError> {
        // The largest id is kept free: it means "no token" in the merging code.
        if tokens.is_empty() || tokens.len() >= u32::MAX as usize {
            return Err(TokenizerError::BadVocabularySize { tokens: tokens.len() });
        }
        let kinds = kinds(&tokens, token_type)?;
        check_lengths(&tokens, &kinds)?;
        let printed = printed(&tokens, &kinds, spelling)?;
        let mut vocab = Vocab {
            by_text: HashTable::with_capacity(tokens.len()),
            hasher: DefaultHashBuilder::default(),
            texts: tokens,
            printed,
            kinds,
            tags: BTreeSet::new(),
        };
        vocab.index();
        Ok(vocab)
    }

    /// Fills `by_text`. Of two tokens with one text the first keeps the name; empty tokens have
    /// none.
    fn index(&mut self) {
        let Vocab { texts, by_text, hasher, .. } = self;
        let hash = |id: &u32| hasher.hash_one(texts.get(*id as usize));
        for (id, text) in texts.iter().enumerate() {
            if text.is_empty() {
                continue;
            }
            by_text
                .entry(hasher.hash_one(Some(text)), |&other| texts.get(other as usize) == Some(text), hash)
                .or_insert(id as u32);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The token whose stored text is `text`.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        self.by_text.find(self.hasher.hash_one(Some(text)), |&id| self.texts.get(id as usize) == Some(text)).copied()
    }

    pub(super) fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(id as usize)
    }

    /// The bytes that the token prints, hidden or not.
    pub(super) fn printed(&self, id: u32) -> Option<&[u8]> {
        self.printed.get(id as usize)
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// Makes a token a control token whatever the file says.
    pub(super) fn make_control(&mut self, id: u32) {
        self.kinds[id as usize] = TokenKind::Control;
    }

    /// Makes control tokens that outputs are told apart by user-defined ones that steer the model, so that they are
    /// printed; not those that end a generation.
    pub(super) fn print_spoken(&mut self, ends: &[u32]) {
        for text in tags::SPOKEN {
            let id = self.find(text.as_bytes()).filter(|&id| self.kind(id) == Some(TokenKind::Control));
            if let Some(id) = id.filter(|id| !ends.contains(id)) {
                self.kinds[id as usize] = TokenKind::UserDefined;
                self.tags.insert(id);
            }
        }
    }

    /// Adds user-defined tokens that steer the model.
    pub(super) fn add_tags(&mut self, tags: BTreeSet<u32>) {
        self.tags.extend(tags);
    }

    /// Whether the token steers the model: text that the template did not write never has it.
    pub(super) fn steers(&self, id: u32) -> bool {
        match self.kind(id) {
            Some(TokenKind::Control | TokenKind::Unknown) => true,
            Some(TokenKind::UserDefined) => self.tags.contains(&id),
            _ => false,
        }
    }

    /// Whether the token steers the model with some template.
    pub(super) fn may_steer(&self, id: u32) -> bool {
        match self.kind(id) {
            Some(TokenKind::UserDefined) => self.text(id).is_some_and(tags::looks_like_one),
            _ => self.steers(id),
        }
    }

    /// The tokens of raw bytes.
    pub(super) fn byte_tokens(&self) -> Box<[Option<u32>; 256]> {
        let mut tokens = Box::new([None; 256]);
        for id in 0..self.len() as u32 {
            if self.kind(id) == Some(TokenKind::Byte)
                && let Some(byte) = self.text(id).and_then(byte_of)
            {
                tokens[usize::from(byte)].get_or_insert(id);
            }
        }
        tokens
    }

    /// Longest stored text in bytes.
    pub(super) fn longest(&self) -> usize {
        self.texts.iter().map(<[u8]>::len).max().unwrap_or(0)
    }

    /// The tokens that are matched before splitting.
    pub(super) fn specials(&self) -> impl Iterator<Item = (u32, TokenKind, &[u8])> {
        let all = self.texts.iter().zip(&self.kinds).enumerate();
        all.filter(|(_, (text, kind))| kind.is_special() && !text.is_empty())
            .map(|(id, (text, &kind))| (id as u32, kind, text))
    }

    /// Checks an id that the metadata names.
    pub(super) fn check_id(&self, key: &'static str, id: Option<u32>) -> Result<Option<u32>, TokenizerError> {
        match id {
            Some(id) if id as usize >= self.len() => {
                Err(TokenizerError::SpecialOutOfRange { key, id, tokens: self.len() })
            }
            other => Ok(other),
        }
    }

    /// Checks every id that `data` names.
    pub(super) fn check_ids(&self, data: &TokenizerData) -> Result<(), TokenizerError> {
        for (key, id) in [
            ("bos_token_id", data.bos),
            ("eos_token_id", data.eos),
            ("eot_token_id", data.eot),
            ("eom_token_id", data.eom),
            ("cls_token_id", data.cls),
            ("seperator_token_id", data.sep),
            ("unknown_token_id", data.unk),
            ("padding_token_id", data.pad),
        ] {
            self.check_id(key, id)?;
        }
        for &id in &data.fim_ends {
            self.check_id("fim token id", Some(id))?;
        }
        Ok(())
    }
}

fn kinds(tokens: &ByteStrings, token_type: &[i32]) -> Result<Vec<TokenKind>, TokenizerError> {
    if token_type.is_empty() {
        return Ok(vec![TokenKind::Normal; tokens.len()]);
    }
    if token_type.len() != tokens.len() {
        return Err(TokenizerError::LengthMismatch {
            array: "token_type",
            len: token_type.len(),
            tokens: tokens.len(),
        });
    }
    let kinds = token_type.iter().enumerate();
    kinds.map(|(id, &value)| TokenKind::from_file(id as u32, value)).collect()
}

fn check_lengths(tokens: &ByteStrings, kinds: &[TokenKind]) -> Result<(), TokenizerError> {
    for (id, (text, kind)) in tokens.iter().zip(kinds).enumerate() {
        let max = if kind.is_special() { MAX_SPECIAL_BYTES } else { MAX_TOKEN_BYTES };
        if text.len() > max {
            return Err(TokenizerError::TokenTooLong { id: id as u32, len: text.len(), max });
        }
    }
    Ok(())
}

fn printed(tokens: &ByteStrings, kinds: &[TokenKind], spelling: Spelling) -> Result<ByteStrings, TokenizerError> {
    let bytes = tokens.iter().map(<[u8]>::len).sum();
    let mut printed = ByteStrings::with_capacity(tokens.len(), bytes);
    for (id, (text, kind)) in tokens.iter().zip(kinds).enumerate() {
        let out = printed.open();
        match (spelling, kind) {
            _ if kind.is_special() => out.extend_from_slice(text),
            // Added tokens of some files are marked normal and spelled raw.
            (Spelling::ByteAlphabet, _) if byte_alphabet::unspell(text, out) => {}
            (Spelling::ByteAlphabet, _) => out.extend_from_slice(text),
            (Spelling::Escaped, _) => escapes::unescape(text, out),
            (Spelling::SentencePiece | Spelling::Plain, TokenKind::Byte) => {
                let byte =
                    byte_of(text).ok_or_else(|| TokenizerError::BadByteToken { id: id as u32, text: shown(text) })?;
                out.push(byte);
            }
            (Spelling::SentencePiece, _) => print_spaces(text, out),
            (Spelling::Plain, _) => out.extend_from_slice(text),
        }
        printed.seal();
    }
    Ok(printed)
}

/// Text with `▁` for a space.
pub(super) fn marked(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b' ' => out.extend_from_slice(SPACE_MARK),
            _ => out.push(byte),
        }
    }
}

/// The byte that `<0xXX>` names.
fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let [high, low] = digits else { return None };
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    Some((value(high)? << 4 | value(low)?) as u8)
}

fn print_spaces(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(SPACE_MARK) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
}
