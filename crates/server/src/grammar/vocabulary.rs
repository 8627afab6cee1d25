//! The tokens of a model as grammars see them, and how they are told to another process.

use super::wire;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use text::chat::CallForm;
use text::tokenizer::{TokenKind, Tokenizer};

/// What begins a word that no text can have.
const NO_TEXT: u8 = 0xff;

/// The tokens of a model.
pub struct Vocabulary {
    /// The bytes of each token.
    pub pieces: Box<[Box<[u8]>]>,
    /// Whether grammars of text may ask for it.
    is_text: Box<[bool]>,
    /// The tokens that end a text.
    pub ends: Box<[u32]>,
    /// The one of them that stands for all.
    pub eos: u32,
}

impl Vocabulary {
    /// Of a tokenizer.
    ///
    /// # Errors
    /// A vocabulary without an end.
    pub fn of(tokenizer: &Tokenizer) -> Result<Vocabulary, String> {
        let ends: Box<[u32]> = Box::from(tokenizer.end_tokens());
        let eos = tokenizer.eos().or(ends.first().copied()).ok_or("the vocabulary has no end token")?;
        let ids = 0..tokenizer.vocab_len() as u32;
        let pieces: Box<[Box<[u8]>]> = ids.map(|id| Box::from(tokenizer.token_bytes(id).unwrap_or_default())).collect();
        let is_text = |(id, piece): (u32, &[u8])| match tokenizer.kind(id) {
            Some(TokenKind::Normal | TokenKind::Byte | TokenKind::UserDefined) => true,
            // Calls of tools are written with these.
            _ => CallForm::TAGS.iter().any(|tag| tag.as_bytes() == piece),
        };
        let is_text = (0..).zip(pieces.iter().map(|piece| &**piece)).map(is_text).collect();
        Ok(Vocabulary { pieces, is_text, ends, eos })
    }

    /// What grammars take each token for.
    pub fn words(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.pieces.iter().zip(&self.is_text).map(|(piece, &is_text)| match is_text {
            true => Cow::from(&**piece),
            false => [&[NO_TEXT][..], piece].concat().into(),
        })
    }

    /// Writes what [`read_words`] reads.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = vec![];
        bytes.extend(self.eos.to_le_bytes());
        bytes.extend((self.pieces.len() as u32).to_le_bytes());
        for word in self.words() {
            wire::put(&mut bytes, &word);
        }
        out.write_all(&bytes)
    }
}

/// The words of a vocabulary, and the one that ends a text.
pub fn read_words(from: &mut impl Read) -> io::Result<(Vec<Vec<u8>>, u32)> {
    let (eos, count) = (wire::number(from)?, wire::number(from)?);
    let words = (0..count).map(|_| wire::bytes(from)).collect::<io::Result<_>>()?;
    Ok((words, eos))
}
