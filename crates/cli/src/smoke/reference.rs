//! What a model said: kept, and compared with.

use super::Outcome;
use anyhow::Context;
use device::store::publish;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Of the model that comes with the program, by numerics.
static DEMO: &str = include_str!("demo.json");

/// Tokens after a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Reference {
    /// Size of the model's files.
    pub bytes: u64,
    /// How numbers were represented.
    pub numerics: String,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Tokens that came out.
    pub tokens: Vec<u32>,
    /// Their text, for people.
    pub text: String,
}

/// A folder of references.
pub struct References(PathBuf);

impl References {
    /// In this folder, or in the usual one.
    pub fn new(folder: Option<PathBuf>) -> anyhow::Result<References> {
        let usual = || crate::folders::state().map(|folder| folder.join("smoke"));
        let folder = folder.or_else(usual);
        Ok(References(folder.context("there is no home folder for references; name one with --references")?))
    }

    /// Compares, or keeps what has nothing to be compared with.
    pub fn compare(&self, model: &Path, said: &Reference, update: bool) -> anyhow::Result<Outcome> {
        if model == Path::new(demo::NAME) {
            let all: BTreeMap<String, Reference> = serde_json::from_str(DEMO).context("the reference of the demo")?;
            let reference = all.get(&said.numerics).context("the demo has no reference for these numerics")?;
            return Ok(difference(reference, said).map_or(Outcome::Same, Outcome::Differs));
        }
        let path = self.path(model, said);
        let kept = match std::fs::read(&path) {
            Ok(bytes) if !update => {
                let wrong = || format!("{} is no reference; remove it, or give --update", path.display());
                Some(serde_json::from_slice::<Reference>(&bytes).with_context(wrong)?)
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            _ => None,
        };
        if let Some(reference) = kept {
            return Ok(difference(&reference, said).map_or(Outcome::Same, Outcome::Differs));
        }
        let text = serde_json::to_string_pretty(said)? + "\n";
        let cannot = || format!("cannot write {}", path.display());
        publish::folder(&self.0, publish::PRIVATE).with_context(cannot)?;
        publish::file(&path, text.as_bytes()).with_context(cannot)?;
        Ok(Outcome::Kept(path))
    }

    /// A model is known by its name and its size.
    fn path(&self, model: &Path, said: &Reference) -> PathBuf {
        let stem = model.file_stem().unwrap_or_default().to_string_lossy();
        self.0.join(format!("{stem}-{}-{}.json", said.bytes, said.numerics))
    }
}

/// Where they differ, as far as both go.
fn difference(reference: &Reference, said: &Reference) -> Option<String> {
    if reference.prompt != said.prompt {
        return Some("the prompt has other tokens than in the reference".into());
    }
    let at = reference.tokens.iter().zip(&said.tokens).position(|(a, b)| a != b)?;
    Some(format!(
        "token {} is {} instead of {}; '{}' instead of '{}'",
        at + 1,
        said.tokens[at],
        reference.tokens[at],
        crate::failure::one_line(&said.text),
        crate::failure::one_line(&reference.text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(tokens: &[u32]) -> Reference {
        Reference { bytes: 5, numerics: "int8".into(), prompt: vec![1], tokens: tokens.to_vec(), text: "x".into() }
    }

    #[test]
    fn as_far_as_both_go() {
        assert_eq!(difference(&said(&[1, 2, 3]), &said(&[1, 2])), None);
        let text = difference(&said(&[1, 2, 3]), &said(&[1, 4])).unwrap();
        assert!(text.starts_with("token 2 is 4 instead of 2"), "{text}");
        let other = Reference { prompt: vec![2], ..said(&[1]) };
        assert!(difference(&said(&[1]), &other).is_some());
    }
}
