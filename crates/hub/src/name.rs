//! What a model argument means, before anything is looked for.

use crate::error::Error;
use crate::quant;
use crate::table::{self, Choice};
use percent_encoding::percent_decode_str;

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A repository of the hub.
    Repo {
        /// `user/name`.
        repo: String,
        /// A branch, a tag or a commit.
        revision: String,
        /// Which of its files.
        wanted: Wanted,
    },
    /// A file on another server.
    Url(String),
}

/// Which file of a repository is meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// The usual one.
    Any,
    /// That of a quantisation.
    Quant(String),
    /// This one; of a split model, the first.
    File(String),
    /// This one as the table has it, or else that of the quantisation.
    Listed {
        /// The file.
        file: String,
        /// The quantisation.
        quant: String,
        /// Whether somebody looked that it is there.
        checked: bool,
    },
}

/// Names under which the hub is known.
const HUBS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

/// The branch that is meant when none is named.
const MAIN: &str = "main";

/// Reads an address, a short name or `user/repo[:QUANT]`; `None` if the text has the form of none of them.
pub fn parse(text: &str, endpoint: &str) -> Result<Option<Source>, Error> {
    if let Some(rest) = on_hub(text, endpoint) {
        let bad = || Error::Address { text: text.to_owned() };
        return of_hub(rest).ok_or_else(bad).map(Some);
    }
    if text.starts_with("http://") || text.starts_with("https://") {
        let path = text.split(['?', '#']).next().unwrap_or_default();
        return match path.to_ascii_lowercase().ends_with(".gguf") {
            true => Ok(Some(Source::Url(text.to_owned()))),
            false => Err(Error::Address { text: text.to_owned() }),
        };
    }
    if let Some(Choice { repo, quant, file, .. }) = table::find(text) {
        let wanted = match file {
            Some(file) => Wanted::Listed { file: file.file.into(), quant: file.quant.into(), checked: file.checked },
            None => Wanted::Quant(quant.to_owned()),
        };
        return Ok(Some(Source::Repo { repo: repo.into(), revision: MAIN.into(), wanted }));
    }
    Ok(repository(text))
}

/// What follows the name of the hub in an address.
fn on_hub<'a>(text: &'a str, endpoint: &str) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix("hf://") {
        return Some(rest.strip_prefix("models/").unwrap_or(rest));
    }
    if let Some(rest) = text.strip_prefix(endpoint).and_then(|rest| rest.strip_prefix('/')) {
        return Some(rest);
    }
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    HUBS.iter().find_map(|hub| address.strip_prefix(hub)?.strip_prefix('/'))
}

/// `user/repo[:QUANT]`, `user/repo/FILE.gguf`, `user/repo/resolve/REVISION/FILE.gguf` or `user/repo/tree/REVISION`.
fn of_hub(rest: &str) -> Option<Source> {
    let rest = rest.split(['?', '#']).next()?.trim_end_matches('/');
    let parts: Vec<String> = rest
        .split('/')
        .map(|part| percent_decode_str(part).decode_utf8().map(Into::into))
        .collect::<Result<_, _>>()
        .ok()?;
    if parts.len() == 2 {
        return repository(rest);
    }
    let repo = format!("{}/{}", parts.first()?, parts.get(1)?);
    if !is_repository(&repo) {
        return None;
    }
    let (revision, file) = match parts[2].as_str() {
        "resolve" | "blob" | "raw" => (parts.get(3)?.clone(), parts[4..].join("/")),
        "tree" if parts.len() == 4 => (parts[3].clone(), String::new()),
        _ => (MAIN.to_owned(), parts[2..].join("/")),
    };
    let wanted = match file.to_ascii_lowercase().ends_with(".gguf") && is_safe_path(&file) {
        true => Wanted::File(file),
        false if file.is_empty() && parts[2] == "tree" => Wanted::Any,
        false => return None,
    };
    is_safe_path(&revision).then_some(Source::Repo { repo, revision, wanted })
}

/// `user/repo[:QUANT]`.
fn repository(text: &str) -> Option<Source> {
    let (repo, quant) = match text.split_once(':') {
        Some((repo, quant)) => (repo, Some(quant)),
        None => (text, None),
    };
    let is_file = repo.to_ascii_lowercase().ends_with(".gguf");
    if !is_repository(repo) || is_file || quant.is_some_and(|quant| quant.is_empty() || quant.contains('/')) {
        return None;
    }
    let wanted = match quant {
        None | Some("latest") => Wanted::Any,
        Some(quant) => Wanted::Quant(quant.to_owned()),
    };
    Some(Source::Repo { repo: repo.to_owned(), revision: MAIN.to_owned(), wanted })
}

/// Whether a text is the name of a repository.
pub fn is_repository(text: &str) -> bool {
    let word = |word: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !word.is_empty() && word.len() <= 96 && word.chars().all(allowed) && !word.starts_with(['.', '-'])
    };
    let mut words = text.split('/');
    matches!((words.next(), words.next(), words.next()), (Some(a), Some(b), None) if word(a) && word(b))
        && !text.contains("--")
        && !text.contains("..")
}

/// Whether a path from a server stays in the folder that it is put into.
pub fn is_safe_path(path: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.len() <= 1024 && path.split('/').all(part) && !path.contains(|c: char| c.is_control() || c == '\\' || c == ':')
}

impl Wanted {
    /// The quantisation that is meant, if one is.
    pub fn quant(&self) -> Option<String> {
        match self {
            Wanted::Any => None,
            Wanted::Quant(quant) | Wanted::Listed { quant, .. } => Some(quant.clone()),
            Wanted::File(file) => quant::of_file(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: &str = "https://huggingface.co";

    fn repo(repo: &str, revision: &str, wanted: Wanted) -> Option<Source> {
        Some(Source::Repo { repo: repo.into(), revision: revision.into(), wanted })
    }

    #[test]
    fn forms() {
        let parse = |text| parse(text, HUB).expect(text);
        let quant = |q: &str| Wanted::Quant(q.into());
        let file = |f: &str| Wanted::File(f.into());
        for text in ["a/b:Q4_0", "hf.co/a/b:Q4_0", "https://huggingface.co/a/b:Q4_0", "hf://a/b:Q4_0"] {
            assert_eq!(parse(text), repo("a/b", "main", quant("Q4_0")), "{text}");
        }
        for text in ["a/b", "a/b:latest", "hf.co/a/b", "https://hf.co/a/b/", "https://huggingface.co/a/b/tree/main"] {
            assert_eq!(parse(text), repo("a/b", "main", Wanted::Any), "{text}");
        }
        for text in [
            "https://huggingface.co/a/b/resolve/main/x/c%20d.gguf?download=true",
            "https://huggingface.co/a/b/blob/main/x/c d.gguf",
            "hf.co/a/b/x/c d.gguf",
        ] {
            assert_eq!(parse(text), repo("a/b", "main", file("x/c d.gguf")), "{text}");
        }
        assert_eq!(parse("hf.co/a/b/resolve/v2/c.gguf"), repo("a/b", "v2", file("c.gguf")));
        assert_eq!(parse("https://x.org/m.gguf?k=1"), Some(Source::Url("https://x.org/m.gguf?k=1".into())));
        let Some(Source::Repo { repo, .. }) = parse("ds2-lite") else { panic!("a short name") };
        assert_eq!(repo, "mradermacher/DeepSeek-V2-Lite-Chat-GGUF");
        for text in ["x.gguf", "a/b.gguf", "/a/b", "./a", "../b", "~/b", "a", "a/b/c", "a/b:", "a/--b", "a/b..c", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_of_nothing() {
        for text in [
            "https://x.org/model.bin",
            "https://huggingface.co/a",
            "hf.co/a/b/resolve/main",
            "hf.co/a/b/resolve/main/..%2fx.gguf",
            "hf.co/a/b/resolve/main/%2e%2e/x.gguf",
            "https://huggingface.co/a/b/blob/main/README.md",
        ] {
            assert!(matches!(parse(text, HUB), Err(Error::Address { .. })), "{text}");
        }
    }
}
