//! Filling in: a text before a gap, the text after it, and the tokens with which a model is asked for what lies between.

use crate::tokenizer::Tokenizer;
use gguf::Gguf;

/// Stands between pieces of other files where no token does.
const SNIP: &str = "\n\n--- snip ---\n\n";

/// What the repository is called where a model wants a name.
const REPOSITORY: &str = "myproject\n";

/// What the file with the gap is called.
const THIS_FILE: &str = "filename\n";

/// A token with a meaning here: keys under `tokenizer.ggml.`, and how it is spelled in vocabularies whose file names none.
struct Role {
    name: &'static str,
    keys: &'static [&'static str],
    spelled: &'static [&'static str],
}

const PREFIX: Role = Role {
    name: "prefix",
    keys: &["fim_pre_token_id", "prefix_token_id"],
    spelled: &[
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<｜fim▁begin｜>",
        "<PRE>",
        "▁<PRE>",
        "<|code_prefix|>",
    ],
};

const SUFFIX: Role = Role {
    name: "suffix",
    keys: &["fim_suf_token_id", "suffix_token_id"],
    spelled: &[
        "<|fim_suffix|>",
        "<fim-suffix>",
        "<fim_suffix>",
        "<｜fim▁hole｜>",
        "<SUF>",
        "▁<SUF>",
        "<|code_suffix|>",
    ],
};

const MIDDLE: Role = Role {
    name: "middle",
    keys: &["fim_mid_token_id", "middle_token_id"],
    spelled: &["<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>"],
};

const REPO: Role = Role { name: "repository", keys: &["fim_rep_token_id"], spelled: &["<|repo_name|>", "<reponame>"] };

const FILE: Role = Role { name: "file", keys: &["fim_sep_token_id"], spelled: &["<|file_sep|>"] };

impl Role {
    fn token(&self, file: &Gguf, tokenizer: &Tokenizer) -> Option<u32> {
        let key = |key: &&str| file.metadata().find::<i64>(&format!("tokenizer.ggml.{key}")).ok().flatten();
        let named = self.keys.iter().find_map(key).and_then(|id| u32::try_from(id).ok());
        let is_there = |id: &u32| (*id as usize) < tokenizer.vocab_len();
        let spelled =
            || self.spelled.iter().find_map(|text| tokenizer.token_id(text).filter(|&id| tokenizer.is_special(id)));
        named.filter(is_there).or_else(spelled)
    }
}

/// The tokens of a model for filling in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Before what comes before the gap.
    pub prefix: u32,
    /// Before what comes after it.
    pub suffix: u32,
    /// Before what fills it.
    pub middle: u32,
    /// Before the name of a repository, if the model knows such.
    pub repository: Option<u32>,
    /// Before the name of a file, if the model knows such.
    pub file: Option<u32>,
}

/// A gap and what is known around it.
#[derive(Clone, Debug, Default)]
pub struct Gap<'a> {
    /// The text before it.
    pub before: &'a str,
    /// What the filling begins with.
    pub begun: &'a str,
    /// The text after it.
    pub after: &'a str,
    /// Names and texts of other files.
    pub others: Vec<(&'a str, &'a str)>,
}

impl Fill {
    /// The tokens that a file names, or whose vocabulary spells them as others do.
    ///
    /// # Errors
    /// The names of those that are missing.
    pub fn of(file: &Gguf, tokenizer: &Tokenizer) -> Result<Fill, String> {
        let mut missing = vec![];
        let mut need = |role: &Role| {
            let token = role.token(file, tokenizer);
            if token.is_none() {
                missing.push(role.name);
            }
            token.unwrap_or_default()
        };
        let (prefix, suffix, middle) = (need(&PREFIX), need(&SUFFIX), need(&MIDDLE));
        if !missing.is_empty() {
            return Err(format!("its file names no token for: {}", missing.join(", ")));
        }
        let maybe = |role: &Role| role.token(file, tokenizer);
        Ok(Fill { prefix, suffix, middle, repository: maybe(&REPO), file: maybe(&FILE) })
    }

    /// The prompt for a gap. Of other files, only so many tokens as leave the whole below `most`: those nearest to its end.
    pub fn prompt(&self, tokenizer: &Tokenizer, gap: &Gap<'_>, most: usize) -> Vec<u32> {
        let plain = |text: &str| tokenizer.encode(text, false, false);
        let mut near = vec![];
        near.extend(tokenizer.bos().filter(|_| tokenizer.adds_bos()));
        near.push(self.prefix);
        near.extend([gap.before, gap.begun].into_iter().flat_map(plain));
        near.push(self.suffix);
        near.extend(plain(gap.after));
        near.push(self.middle);
        let mut far = vec![];
        if let Some(repository) = self.repository {
            far.push(repository);
            far.extend(plain(REPOSITORY));
        }
        for (name, text) in &gap.others {
            match self.file {
                Some(file) => {
                    far.push(file);
                    far.extend(plain(&format!("{name}\n")));
                }
                None => far.extend(plain(SNIP)),
            }
            far.extend(plain(text));
        }
        if let Some(file) = self.file {
            far.push(file);
            far.extend(plain(THIS_FILE));
        }
        let kept = far.len().min(most.saturating_sub(near.len()));
        far.drain(..far.len() - kept);
        far.extend(near);
        far
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary;
    use gguf::{ValueBuf, Writer};

    /// A vocabulary of letters with four tokens behind them, and what a file says of these.
    fn file(keys: &[(&str, i32)], spelled: &[&str]) -> (Gguf, Tokenizer) {
        let mut tokens: Vec<String> = "abcdefghijklmnopqrstuvwxyz-Ċ".chars().map(String::from).collect();
        tokens.extend(["<1>", "<2>", "<3>", "<4>"].map(str::to_owned));
        tokens.extend(spelled.iter().map(|&text| text.to_owned()));
        let kinds: Vec<i32> = (0..tokens.len()).map(|at| if at < 28 { 1 } else { 3 }).collect();
        let mut w = Writer::new();
        w.set("tokenizer.ggml.model", "gpt2");
        w.set("tokenizer.ggml.pre", "gpt-2");
        w.set("tokenizer.ggml.tokens", ValueBuf::from(&tokens[..]));
        w.set("tokenizer.ggml.token_type", ValueBuf::from(&kinds[..]));
        w.set("tokenizer.ggml.merges", ValueBuf::from(&["a b".to_owned()][..0]));
        for &(key, id) in keys {
            w.set(format!("tokenizer.ggml.{key}"), id);
        }
        let file = Gguf::parse(w.to_vec(|_, _| Ok(())).unwrap()).unwrap();
        let tokenizer = vocabulary::tokenizer(&file).unwrap();
        (file, tokenizer)
    }

    const KEYS: [(&str, i32); 3] = [("fim_pre_token_id", 28), ("fim_suf_token_id", 29), ("fim_mid_token_id", 30)];

    fn text(tokenizer: &Tokenizer, ids: &[u32]) -> String {
        String::from_utf8(tokenizer.decode(ids, true)).unwrap()
    }

    #[test]
    fn a_gap_as_models_are_trained_on_it() {
        let (file, tokenizer) = self::file(&KEYS, &[]);
        let fill = Fill::of(&file, &tokenizer).unwrap();
        let gap = Gap { before: "ab", begun: "c", after: "<1>z", others: vec![("x", "other")] };
        let prompt = fill.prompt(&tokenizer, &gap, 100);
        assert_eq!(text(&tokenizer, &prompt), "\n\n---snip---\n\nother<1>abc<2>z<3>");
        assert!(prompt.iter().filter(|&&id| id == 28).count() == 1, "what is spelled in a text is text");
        // Other files make room, and what is near the gap does not.
        let near = text(&tokenizer, &fill.prompt(&tokenizer, &gap, 9));
        assert!(near.ends_with("r<1>abc<2>z<3>") || near == "<1>abc<2>z<3>", "{near}");
        assert_eq!(
            fill.prompt(&tokenizer, &gap, 0).len(),
            fill.prompt(&tokenizer, &Gap { others: vec![], ..gap }, 100).len()
        );
    }

    #[test]
    fn files_and_a_repository_where_the_model_knows_them() {
        let keys = [&KEYS[..], &[("fim_sep_token_id", 31)]].concat();
        let (file, tokenizer) = self::file(&keys, &["<|repo_name|>"]);
        let fill = Fill::of(&file, &tokenizer).unwrap();
        let gap = Gap { before: "a", after: "b", others: vec![("x", "y")], ..Gap::default() };
        let prompt = text(&tokenizer, &fill.prompt(&tokenizer, &gap, 100));
        assert_eq!(prompt, "<|repo_name|>myproject\n<4>x\ny<4>filename\n<1>a<2>b<3>");
    }

    #[test]
    fn tokens_by_other_names_and_those_that_are_missing() {
        let old = [("prefix_token_id", 28), ("suffix_token_id", 29), ("middle_token_id", 30)];
        let (file, tokenizer) = self::file(&old, &[]);
        assert_eq!(Fill::of(&file, &tokenizer).map(|fill| fill.middle), Ok(30));
        let (file, tokenizer) = self::file(&[], &["<fim_prefix>", "<fim_suffix>", "<fim_middle>"]);
        assert_eq!(Fill::of(&file, &tokenizer).map(|fill| (fill.prefix, fill.middle)), Ok((32, 34)));
        let (file, tokenizer) = self::file(&[("fim_pre_token_id", 28), ("fim_mid_token_id", 4000)], &[]);
        assert_eq!(Fill::of(&file, &tokenizer), Err("its file names no token for: suffix, middle".into()));
    }
}
