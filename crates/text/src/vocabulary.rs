//! The vocabulary of a model file: its `tokenizer.ggml.*` metadata, for [`Tokenizer`].
//!
//! Needs neither tensors nor a known architecture, so that the vocabulary-only files that exist for tests load too.

use crate::tokenizer::{ByteStrings, Tokenizer, TokenizerData, TokenizerError};
use gguf::{Error as GgufError, Gguf, Strings};

/// Why a file has no tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// A key of another type than it must have.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A file without any vocabulary.
    #[error("the file has no vocabulary (metadata tokenizer.ggml.model is missing)")]
    None,
    /// A vocabulary that cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// The tokenizer of a file.
///
/// # Errors
/// Metadata of a wrong type, and what [`Tokenizer::new`] refuses.
pub fn tokenizer(file: &Gguf) -> Result<Tokenizer, VocabularyError> {
    Ok(Tokenizer::new(tokenizer_data(file)?)?)
}

/// The tokenizer metadata of a file as plain values.
///
/// # Errors
/// Metadata of a wrong type, or none at all.
pub fn tokenizer_data(file: &Gguf) -> Result<TokenizerData, VocabularyError> {
    let keys = Keys { file };
    let text =
        |key: &str| -> Result<Option<String>, GgufError> { Ok(file.metadata().find::<&str>(key)?.map(str::to_owned)) };
    let mut fim_ends = vec![];
    for key in ["fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"] {
        fim_ends.extend(keys.id(key)?);
    }
    Ok(TokenizerData {
        model: text("tokenizer.ggml.model")?.ok_or(VocabularyError::None)?,
        pre: text("tokenizer.ggml.pre")?,
        tokens: keys.strings("tokens")?,
        token_type: keys.list("token_type")?,
        scores: keys.list("scores")?,
        merges: keys.strings("merges")?,
        bos: keys.id("bos_token_id")?,
        eos: keys.id("eos_token_id")?,
        eot: keys.id("eot_token_id")?,
        eom: keys.id("eom_token_id")?,
        cls: keys.id("cls_token_id")?,
        sep: keys.id("seperator_token_id")?,
        unk: keys.id("unknown_token_id")?,
        pad: keys.id("padding_token_id")?,
        fim_ends,
        add_bos: keys.find("add_bos_token")?,
        add_eos: keys.find("add_eos_token")?,
        add_sep: keys.find("add_sep_token")?,
        lowercase: keys.find("normalizer.lowercase")?,
        strip_accents: keys.find("normalizer.strip_accents")?,
        add_space_prefix: keys.find("add_space_prefix")?,
        remove_extra_whitespaces: keys.find("remove_extra_whitespaces")?,
        charsmap: keys.list::<i64>("precompiled_charsmap")?.into_iter().map(|byte| byte as u8).collect(),
        chat_template: text("tokenizer.chat_template")?,
        architecture: text("general.architecture")?.unwrap_or_default(),
        name: text("general.name")?,
    })
}

/// The keys under `tokenizer.ggml.`.
struct Keys<'a> {
    file: &'a Gguf,
}

impl<'a> Keys<'a> {
    fn find<T: gguf::FromValue<'a>>(&self, key: &str) -> Result<Option<T>, GgufError> {
        self.file.metadata().find(&format!("tokenizer.ggml.{key}"))
    }

    /// A token; negative numbers mean none.
    fn id(&self, key: &str) -> Result<Option<u32>, GgufError> {
        let id: Option<i64> = self.find(key)?;
        // What does not fit is refused by the tokenizer, which names it.
        Ok(id.filter(|&id| id >= 0).map(|id| u32::try_from(id).unwrap_or(u32::MAX)))
    }

    fn list<T: gguf::FromValue<'a>>(&self, key: &str) -> Result<Vec<T>, GgufError> {
        Ok(self.find(key)?.unwrap_or_default())
    }

    fn strings(&self, key: &str) -> Result<ByteStrings, GgufError> {
        let strings: Option<Strings<'a>> = self.find(key)?;
        Ok(strings.map(|all| all.iter().collect()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf::{ValueBuf, Writer};

    fn file(set: impl FnOnce(&mut Writer)) -> Gguf {
        let mut writer = Writer::new();
        set(&mut writer);
        Gguf::parse(writer.to_vec(|_, _| Ok(())).unwrap()).unwrap()
    }

    #[test]
    fn a_file_without_tensors_or_architecture_tokenizes() {
        let tokens = ["a", "b", "ab"].map(str::to_owned);
        let file = file(|w| {
            w.set("tokenizer.ggml.model", "gpt2");
            w.set("tokenizer.ggml.pre", "gpt-2");
            w.set("tokenizer.ggml.tokens", ValueBuf::from(&tokens[..]));
            w.set("tokenizer.ggml.merges", ValueBuf::from(&["a b".to_owned()][..]));
            w.set("tokenizer.ggml.eos_token_id", -1i32);
        });
        let tokenizer = tokenizer(&file).unwrap();
        assert_eq!(tokenizer.encode("abb", false, false), [2, 1]);
        assert_eq!(tokenizer.eos(), None);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let none = tokenizer(&file(|_| {})).unwrap_err().to_string();
        assert!(none.contains("tokenizer.ggml.model"), "{none}");
        let wrong = file(|w| {
            w.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.tokens", 7u32);
        });
        let wrong = tokenizer(&wrong).unwrap_err().to_string();
        assert!(wrong.contains("tokenizer.ggml.tokens"), "{wrong}");
    }
}
