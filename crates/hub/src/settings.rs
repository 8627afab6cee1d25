//! What the environment says, by the rules and the variables of Hugging Face's tools.

use crate::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The hub, if HF_ENDPOINT names no other.
pub const ENDPOINT: &str = "https://huggingface.co";

/// Where models come from and where they go.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hub, without a slash at the end.
    pub endpoint: String,
    /// The cache.
    pub cache: PathBuf,
    /// Who asks.
    pub token: Option<Token>,
    /// Whether the network must be left alone.
    pub offline: bool,
    /// Certificates that count instead of those that come with the program.
    pub certificates: Option<PathBuf>,
    /// Patience.
    pub patience: Patience,
}

/// How long to wait and how often to try.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries without a byte of progress before giving up.
    pub tries: u32,
    /// The first pause; each is twice the one before.
    pub pause: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// For a connection, and for each read of it.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            tries: 5,
            pause: Duration::from_millis(500),
            longest: Duration::from_secs(10),
            silence: Duration::from_secs(30),
        }
    }
}

/// A secret, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: String,
    origin: String,
}

impl Token {
    /// A token and where it was found; `None` if it could not be sent.
    pub fn new(secret: &str, origin: impl Into<String>) -> Option<Token> {
        let secret = secret.trim();
        let sendable = !secret.is_empty() && secret.bytes().all(|b| b.is_ascii_graphic());
        sendable.then(|| Token { secret: secret.into(), origin: origin.into() })
    }

    /// For the header of a request.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// Where it was found.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(from {})", self.origin)
    }
}

impl Settings {
    /// What the environment of this process says.
    pub fn from_environment() -> Result<Settings, Error> {
        Settings::from(|name| std::env::var_os(name))
    }

    /// What an environment says.
    pub fn from(environment: impl Fn(&str) -> Option<OsString>) -> Result<Settings, Error> {
        let value = |name: &str| environment(name).filter(|value| !value.is_empty());
        let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
        let home = value("HOME").map(PathBuf::from);
        let path = |name: &str| value(name).map(|path| in_home(path.into(), home.as_deref()));
        let is_set = |name: &str| text(name).is_some_and(|v| ["1", "on", "yes", "true"].contains(&&*v.to_lowercase()));

        let huggingface = path("HF_HOME")
            .or_else(|| Some(path("XDG_CACHE_HOME")?.join("huggingface")))
            .or_else(|| Some(home.as_ref()?.join(".cache/huggingface")));
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(huggingface.as_ref()?.join("hub")))
            .ok_or(Error::NoHome)?;
        let of_variable = |name: &str| Token::new(&text(name)?, name);
        let of_file = || {
            let file = path("HF_TOKEN_PATH").or_else(|| Some(huggingface.as_ref()?.join("token")))?;
            Token::new(&std::fs::read_to_string(&file).ok()?, file.display().to_string())
        };
        let implicit = !is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN");
        let token = of_variable("HF_TOKEN").or_else(|| of_variable("HUGGING_FACE_HUB_TOKEN")).or_else(of_file);
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.into()).trim_end_matches('/').to_owned();
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            let expected = "an address that begins with https:// or http://";
            return Err(Error::Setting { name: "HF_ENDPOINT", value: endpoint, expected });
        }
        Ok(Settings {
            endpoint,
            cache,
            token: token.filter(|_| implicit),
            offline: is_set("HF_HUB_OFFLINE"),
            certificates: path("SSL_CERT_FILE"),
            patience: Patience::default(),
        })
    }
}

/// `~` at the start of a path is the home folder.
fn in_home(path: PathBuf, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        Settings::from(find).expect("settings")
    }

    #[test]
    fn the_cache_is_where_others_have_it() {
        let cache = |variables: &[(&str, &str)]| {
            let mut all = vec![("HOME", "/home/x")];
            all.extend(variables);
            settings(&all).cache.to_str().expect("UTF-8").to_owned()
        };
        assert_eq!(cache(&[]), "/home/x/.cache/huggingface/hub");
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/c")]), "/c/huggingface/hub");
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/c"), ("HF_HOME", "~/hf")]), "/home/x/hf/hub");
        assert_eq!(cache(&[("HF_HOME", "/hf"), ("HUGGINGFACE_HUB_CACHE", "/old")]), "/old");
        assert_eq!(cache(&[("HF_HUB_CACHE", "/hub"), ("HUGGINGFACE_HUB_CACHE", "/old")]), "/hub");
        assert_eq!(cache(&[("HF_HUB_CACHE", "")]), "/home/x/.cache/huggingface/hub");
        assert!(matches!(Settings::from(|_| None), Err(Error::NoHome)));
    }

    #[test]
    fn tokens() {
        let folder = std::env::temp_dir().join(format!("kernloom-hub-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("token"), "hf_of_file\n").expect("a file");
        let home = ("HF_HOME", folder.to_str().expect("UTF-8"));
        let secret = |variables: &[(&str, &str)]| settings(variables).token.map(|token| token.secret);
        assert_eq!(secret(&[home]).as_deref(), Some("hf_of_file"));
        assert_eq!(secret(&[home, ("HF_TOKEN", "hf_x")]).as_deref(), Some("hf_x"));
        assert_eq!(secret(&[home, ("HUGGING_FACE_HUB_TOKEN", "hf_y")]).as_deref(), Some("hf_y"));
        assert_eq!(secret(&[home, ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), None);
        assert_eq!(secret(&[home, ("HF_TOKEN_PATH", "/nowhere")]), None);
        let debug = format!("{:?}", settings(&[home]));
        assert!(!debug.contains("hf_of_file"), "{debug}");
        assert_eq!(Token::new("two words", "x"), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn endpoints() {
        let base = ("HOME", "/h");
        assert_eq!(settings(&[base]).endpoint, ENDPOINT);
        assert_eq!(settings(&[base, ("HF_ENDPOINT", "http://127.0.0.1:1/")]).endpoint, "http://127.0.0.1:1");
        assert!(settings(&[base, ("HF_HUB_OFFLINE", "1")]).offline);
        let bad = Settings::from(|name| ["HOME", "HF_ENDPOINT"].contains(&name).then(|| "mirror".into()));
        assert!(matches!(bad, Err(Error::Setting { .. })));
    }
}
