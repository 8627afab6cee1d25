//! Tokenizers, built from nothing but the metadata of a model file.
//!
//! Six algorithms: BPE by merges ("gpt2" or "gemma4" in the file, here `bpe`) with a splitting rule named by
//! the file (`split`), SentencePiece BPE ("llama", here `spm`), the longest token ("rwkv"), the best scores ("plamo2", and
//! "t5", here `unigram`), and the longest pieces of words ("bert", here `wordpiece`). Others are refused, and so is a splitting
//! rule that is not known: wrong tokens give fluent nonsense, which nobody notices.
//!
//! Not here: pairs of texts, masks, and the clean-up of spaces that some decoders do.

mod bpe;
mod byte_alphabet;
mod charsmap;
mod data;
mod detokenizer;
mod ends;
mod error;
mod escapes;
mod plamo2;
mod prefixes;
mod rwkv;
mod specials;
mod split;
mod spm;
pub(crate) mod tags;
mod template_tags;
mod unigram;
mod vocab;
mod wordpiece;

pub use data::{ByteStrings, TokenizerData};
pub use detokenizer::Detokenizer;
pub use error::TokenizerError;
pub use vocab::TokenKind;

use std::ops::Range;

use bpe::Bpe;
use plamo2::Plamo2;
use rwkv::Rwkv;
use specials::{Fragment, Specials};
use split::Splitter;
use spm::Spm;
use unigram::Unigram;
use vocab::{Spelling, Vocab};
use wordpiece::WordPiece;

/// Longest token that is loaded, in bytes. Real vocabularies stay under 1000.
pub const MAX_TOKEN_BYTES: usize = 1 << 16;

/// Longest special token that is loaded, in bytes; text is searched for them byte by byte.
pub const MAX_SPECIAL_BYTES: usize = 1 << 10;

/// What to do with a splitting rule that is missing or not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownPre {
    /// Refuse the vocabulary.
    #[default]
    Refuse,
    /// Split by the rule "default", as old files were meant to be. The tokens may differ from those
    /// the model was trained on, and its answers get worse without a sign.
    UseDefault,
}

/// Text to tokens and back. Immutable, and free to share between threads.
pub struct Tokenizer {
    vocab: Vocab,
    algorithm: Algorithm,
    specials: Specials,
    bos: Option<u32>,
    eos: Option<u32>,
    pad: Option<u32>,
    separator: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    ends: Vec<u32>,
    architecture: String,
    chat_template: Option<String>,
}

enum Algorithm {
    Bpe(Bpe),
    Spm(Spm),
    Rwkv(Rwkv),
    Plamo2(Plamo2),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

/// `tokenizer.ggml.model`.
#[derive(Clone, Copy)]
enum Model {
    Bpe(Splitter),
    Spm,
    Rwkv,
    Plamo2,
    WordPiece,
    Unigram,
}

impl Model {
    fn spelling(self) -> Spelling {
        match self {
            Model::Bpe(splitter) => splitter.spelling,
            Model::Spm | Model::WordPiece | Model::Unigram => Spelling::SentencePiece,
            Model::Rwkv => Spelling::Escaped,
            Model::Plamo2 => Spelling::Plain,
        }
    }
}

impl Tokenizer {
    /// Builds a tokenizer; an unknown splitting rule is an error.
    ///
    /// # Errors
    /// Whatever is wrong with the metadata: see [`TokenizerError`].
    pub fn new(data: TokenizerData) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::with_unknown_pre(data, UnknownPre::Refuse)
    }

    /// Builds a tokenizer, with a say in what happens to an unknown splitting rule.
    ///
    /// # Errors
    /// Whatever is wrong with the metadata: see [`TokenizerError`].
    pub fn with_unknown_pre(mut data: TokenizerData, unknown_pre: UnknownPre) -> Result<Tokenizer, TokenizerError> {
        let model = match data.model.as_str() {
            "gpt2" => Model::Bpe(splitter(data.pre.as_deref(), unknown_pre)?),
            // The name of the algorithm is that of the rule, too.
            "gemma4" => Model::Bpe(splitter(Some("gemma4"), unknown_pre)?),
            "llama" => Model::Spm,
            "rwkv" => Model::Rwkv,
            "plamo2" => Model::Plamo2,
            "bert" => Model::WordPiece,
            "t5" => Model::Unigram,
            _ => return Err(TokenizerError::UnsupportedModel { model: data.model }),
        };
        let spelling = model.spelling();
        let tokens = std::mem::take(&mut data.tokens);
        let mut vocab = Vocab::new(tokens, &data.token_type, spelling)?;
        if matches!(model, Model::Spm) {
            name_classic_ids(&mut data, &vocab);
        }
        if matches!(model, Model::WordPiece) {
            name_marks(&mut data, &vocab);
        }
        vocab.check_ids(&data)?;
        let ends = ends::end_tokens(&mut vocab, &data, spelling);
        vocab.print_spoken(&ends);
        vocab.add_tags(template_tags::find(&vocab, data.chat_template.as_deref().unwrap_or_default()));
        let (algorithm, adds_bos) = match model {
            Model::Bpe(splitter) => (Algorithm::Bpe(Bpe::new(&vocab, &data.merges, splitter)?), splitter.add_bos),
            Model::Spm => {
                let prefix = data.add_space_prefix.unwrap_or(true);
                let spm = Spm::new(&vocab, &data.scores, data.unk, prefix)?;
                (Algorithm::Spm(spm), true)
            }
            Model::Rwkv => (Algorithm::Rwkv(Rwkv::new(&vocab, data.unk)), false),
            Model::Plamo2 => (Algorithm::Plamo2(Plamo2::new(&vocab, &data.scores)?), false),
            Model::WordPiece => {
                let lowercase = data.lowercase.unwrap_or(true);
                let strips_accents = data.strip_accents.unwrap_or(lowercase);
                (Algorithm::WordPiece(WordPiece::new(&vocab, data.unk, lowercase, strips_accents)), true)
            }
            Model::Unigram => (Algorithm::Unigram(Unigram::new(&vocab, &data)?), false),
        };
        let always_bos = matches!(model, Model::Bpe(splitter) if splitter.gemma);
        let separates = data.add_sep.unwrap_or(matches!(model, Model::Bpe(splitter) if splitter.add_sep));
        Ok(Tokenizer {
            specials: Specials::new(&vocab, data.name.as_deref()),
            vocab,
            algorithm,
            bos: data.bos,
            eos: data.eos,
            pad: data.pad,
            separator: data.sep.or(data.eos).filter(|_| separates),
            add_bos: data.add_bos.unwrap_or(adds_bos) || always_bos,
            add_eos: data.add_eos.unwrap_or(matches!(model, Model::WordPiece | Model::Unigram)),
            ends,
            architecture: data.architecture,
            chat_template: data.chat_template,
        })
    }

    /// The tokens of `text`, which need not be valid UTF-8.
    ///
    /// `add_special` puts the beginning-of-text and end-of-text tokens around it where the
    /// vocabulary asks for them; text that already has one does not get a second.
    /// `parse_special` lets tokens that steer the model be written in the text: control tokens, and
    /// the tags of reasoning and calls. Right for what a chat template wrote, wrong for what a user
    /// typed; [`encode_with_data`](Self::encode_with_data) takes both in one text.
    pub fn encode(&self, text: impl AsRef<[u8]>, add_special: bool, parse_special: bool) -> Vec<u32> {
        let text = text.as_ref();
        let whole = 0..text.len();
        self.encode_with_data(text, add_special, if parse_special { &[] } else { std::slice::from_ref(&whole) })
    }

    /// The tokens of `text`, in which the ranges of bytes in `data`, in order, are words that must not steer the model: a
    /// special token counts only where all of its text is outside of them. Without one in them the tokens are those of
    /// [`encode`](Self::encode) with `parse_special`.
    pub fn encode_with_data(&self, text: impl AsRef<[u8]>, add_special: bool, data: &[Range<usize>]) -> Vec<u32> {
        let text = text.as_ref();
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        let mut leading = true;
        self.specials.split(&self.vocab, text, data, |fragment| match fragment {
            Fragment::Special(id) => {
                out.push(id);
                leading = true;
            }
            Fragment::Text(text) => {
                match &self.algorithm {
                    Algorithm::Bpe(bpe) => bpe.encode(&self.vocab, text, &mut out),
                    Algorithm::Spm(spm) => spm.encode(&self.vocab, text, leading, &mut out),
                    Algorithm::Rwkv(rwkv) => rwkv.encode(text, &mut out),
                    Algorithm::Plamo2(plamo2) => plamo2.encode(text, &mut out),
                    Algorithm::WordPiece(pieces) => pieces.encode(text, &mut out),
                    Algorithm::Unigram(unigram) => unigram.encode(text, &mut out),
                }
                leading = false;
            }
        });
        if let Some(bos) = self.bos.filter(|_| add_special && self.add_bos)
            && out.first() != Some(&bos)
        {
            out.insert(0, bos);
        }
        if let Some(eos) = self.eos.filter(|_| add_special && self.add_eos)
            && out.last() != Some(&eos)
        {
            out.push(eos);
        }
        out
    }

    /// The bytes that `ids` print. Control tokens are left out unless `special`; ids outside the
    /// vocabulary print nothing. A space that encoding would put before the text is taken away.
    pub fn decode(&self, ids: &[u32], special: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(ids.len() * 4);
        let mut prefixed = match &self.algorithm {
            Algorithm::Spm(spm) => spm.has_space_prefix(),
            Algorithm::Unigram(unigram) => unigram.has_space_prefix(),
            Algorithm::WordPiece(_) => true,
            Algorithm::Bpe(_) | Algorithm::Rwkv(_) | Algorithm::Plamo2(_) => false,
        };
        for &id in ids {
            let Some(kind) = self.vocab.kind(id).filter(|kind| special || !kind.is_hidden()) else {
                continue;
            };
            let bytes = self.vocab.printed(id).unwrap_or_default();
            let is_text = !kind.is_special();
            let bytes = match bytes.strip_prefix(b" ") {
                Some(rest) if prefixed && is_text => rest,
                _ => bytes,
            };
            prefixed &= !is_text;
            out.extend_from_slice(bytes);
        }
        out
    }

    /// The bytes that a token prints, control tokens included.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocab.printed(id)
    }

    /// The token whose text in the file is `text`, such as `<|user|>`.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.vocab.find(text.as_bytes())
    }

    /// What a token is for.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocab.kind(id)
    }

    /// Takes another chat template than the file's: the user-defined tokens that it writes as tags are special, too.
    pub fn use_template(&mut self, template: &str) {
        self.vocab.add_tags(template_tags::find(&self.vocab, template));
    }

    /// Whether a token is special, so that text has it only where `parse_special` allows it.
    pub fn is_special(&self, id: u32) -> bool {
        self.vocab.steers(id)
    }

    /// Number of tokens; every id is below it.
    pub fn vocab_len(&self) -> usize {
        self.vocab.len()
    }

    /// The beginning-of-text token.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-text token.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The padding token.
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// The token between two texts that are read as one, beside what ends the first.
    pub fn separator(&self) -> Option<u32> {
        self.separator
    }

    /// Whether encoding with `add_special` begins with the beginning-of-text token.
    pub fn adds_bos(&self) -> bool {
        self.add_bos && self.bos.is_some()
    }

    /// Whether encoding with `add_special` ends with the end-of-text token.
    pub fn adds_eos(&self) -> bool {
        self.add_eos && self.eos.is_some()
    }

    /// The tokens that end a generation, in ascending order.
    pub fn end_tokens(&self) -> &[u32] {
        &self.ends
    }

    /// Whether a token ends a generation.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The chat template of the file.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// `general.architecture` of the file.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("architecture", &self.architecture)
            .field("tokens", &self.vocab_len())
            .field("bos", &self.bos)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

fn splitter(pre: Option<&str>, unknown_pre: UnknownPre) -> Result<Splitter, TokenizerError> {
    let named = match pre {
        Some(pre) => Splitter::named(pre).ok_or_else(|| TokenizerError::UnknownPre { pre: pre.to_owned() }),
        None => Err(TokenizerError::MissingPre),
    };
    match unknown_pre {
        UnknownPre::Refuse => named,
        UnknownPre::UseDefault => Ok(named.unwrap_or_else(|_| Splitter::fallback())),
    }
}

/// The marks around a text of WordPiece: those of the file, or those that have their names.
fn name_marks(data: &mut TokenizerData, vocab: &Vocab) {
    data.bos = data.cls.or(data.bos).or_else(|| vocab.find(b"[CLS]"));
    data.eos = data.sep.or_else(|| vocab.find(b"[SEP]"));
    data.unk = data.unk.or_else(|| vocab.find(b"[UNK]"));
}

/// SentencePiece files without special ids mean the first three tokens, when they look like it.
fn name_classic_ids(data: &mut TokenizerData, vocab: &Vocab) {
    let classic = |id: u32, text: &[u8]| Some(id).filter(|&id| vocab.text(id) == Some(text));
    data.unk = data.unk.or_else(|| classic(0, b"<unk>"));
    data.bos = data.bos.or_else(|| classic(1, b"<s>"));
    data.eos = data.eos.or_else(|| classic(2, b"</s>"));
}
