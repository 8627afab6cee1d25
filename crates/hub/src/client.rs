//! Requests: redirects followed by hand, so that the token stays with the hub, and failures told apart by whether
//! trying again can help.

use crate::error::Error;
use crate::settings::{Settings, Token};
use crate::watch::{Event, Watch};
use gguf::plain::{QUOTE, line};
use std::cell::Cell;
use std::io::Read;
use std::time::Duration;
use ureq::http::{HeaderMap, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// Bytes of a listing that are read at most.
const LISTING: u64 = 64 << 20;

/// Asks servers.
pub struct Client {
    agent: Agent,
    endpoint: String,
    origin: Option<Origin>,
    token: Option<Token>,
    patience: crate::settings::Patience,
    /// Whether any server has ever answered: until then a failure to connect is final.
    connected: Cell<bool>,
}

/// Scheme, host and port of an address.
#[derive(Clone, Debug, PartialEq)]
struct Origin(String, String, u16);

/// What a server answered, after redirects.
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Headers of the last answer.
    pub headers: HeaderMap,
    /// What the hub says of the file it redirects to.
    pub linked: Linked,
    /// The body.
    pub body: Body,
    /// Where it came from in the end.
    pub url: String,
}

/// What the hub says of a file, whoever serves its bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Linked {
    /// `X-Linked-Etag`: the hash of the bytes.
    pub etag: Option<String>,
    /// `X-Linked-Size`.
    pub size: Option<u64>,
}

/// Why there was no answer, or none that helps.
#[derive(Debug)]
pub enum Failure {
    /// Trying again may help, after this pause if the server names one.
    Passing(String, Option<Duration>),
    /// It will not.
    Final(Error),
}

impl Client {
    /// A client of a hub.
    pub fn new(settings: &Settings) -> Result<Client, Error> {
        let silence = Some(settings.patience.silence);
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(silence)
            .timeout_connect(silence)
            .timeout_recv_response(silence)
            .timeout_per_read(silence)
            .user_agent(concat!("kernloom/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity");
        if let Some(path) = &settings.certificates {
            let pem = std::fs::read(path).map_err(Error::io("read the certificates of SSL_CERT_FILE in", path))?;
            let certificates = ureq::tls::parse_pem(&pem).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            });
            let roots = RootCerts::Specific(std::sync::Arc::new(certificates.collect()));
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let hub = host(&settings.endpoint);
        if ["127.0.0.1", "localhost", "[::1]"].contains(&hub.rsplit_once(':').map_or(&*hub, |(name, _)| name)) {
            // No proxy leads back to this machine.
            config = config.proxy(None);
        }
        Ok(Client {
            agent: config.build().new_agent(),
            endpoint: settings.endpoint.clone(),
            origin: settings.endpoint.parse().ok().as_ref().and_then(origin),
            token: settings.token.clone(),
            patience: settings.patience,
            connected: Cell::new(false),
        })
    }

    /// The hub.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The name of the hub in messages.
    pub fn host(&self) -> String {
        host(&self.endpoint)
    }

    /// The token, which is sent to the hub alone.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Tries once, and follows redirects. `from` asks for the bytes from there on, of the version with this tag.
    pub fn get(&self, url: &str, from: Option<(u64, Option<&str>)>) -> Result<Reply, Failure> {
        let mut at = parsed(url)?;
        let mut linked = Linked::default();
        for _ in 0..=REDIRECTS {
            let mut request = self.agent.get(at.clone());
            if let Some(token) = self.token.as_ref().filter(|_| origin(&at).is_some() && origin(&at) == self.origin) {
                request = request.header("authorization", format!("Bearer {}", token.secret()));
            }
            if let Some((from, tag)) = from {
                request = request.header("range", format!("bytes={from}-"));
                if let Some(tag) = tag {
                    request = request.header("if-range", tag);
                }
            }
            let response = request.call().map_err(|error| self.failure(&at, &error))?;
            self.connected.set(true);
            let (head, body) = response.into_parts();
            let status = head.status.as_u16();
            linked.etag = linked.etag.or(text(&head.headers, "x-linked-etag").map(unquoted));
            linked.size = linked.size.or(text(&head.headers, "x-linked-size").and_then(|size| size.parse().ok()));
            match text(&head.headers, "location") {
                Some(location) if (300..400).contains(&status) => at = joined(&at, &location)?,
                _ if [408, 425, 429, 500, 502, 503, 504].contains(&status) => {
                    let pause =
                        text(&head.headers, "retry-after").and_then(|s| s.parse().ok()).map(Duration::from_secs);
                    return Err(Failure::Passing(format!("{} answers {status}", line(&shown(&at), QUOTE)), pause));
                }
                _ => return Ok(Reply { status, headers: head.headers, linked, body, url: shown(&at) }),
            }
        }
        Err(Failure::Final(Error::Answer { url: shown(&at), what: format!("more than {REDIRECTS} redirects") }))
    }

    /// Tries until there is an answer, or no hope.
    pub fn patiently(&self, url: &str, watch: &dyn Watch) -> Result<Reply, Error> {
        let mut tries = Tries::new(&self.patience);
        loop {
            match self.get(url, None) {
                Ok(reply) => return Ok(reply),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(reason, pause)) => {
                    if !tries.wait(&reason, pause, watch) {
                        return Err(Error::Unreachable { host: host(url), reason });
                    }
                }
            }
        }
    }

    /// Counts tries.
    pub(crate) fn tries(&self) -> Tries {
        Tries::new(&self.patience)
    }

    /// What a failure without an answer means.
    fn failure(&self, at: &Uri, error: &ureq::Error) -> Failure {
        let reason = match error {
            ureq::Error::Timeout(_) => "nothing was heard for too long".to_owned(),
            ureq::Error::HostNotFound => "its name is not known".to_owned(),
            ureq::Error::ConnectionFailed => "no connection".to_owned(),
            other => line(other.to_string().trim_start_matches("io: "), QUOTE).into_owned(),
        };
        let reason = match reason.contains("certificate") {
            true => format!("{reason} (SSL_CERT_FILE names the certificates that are trusted)"),
            false => reason,
        };
        let certain = matches!(error, ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::BadUri(_));
        let no_way = matches!(error, ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Io(_));
        match certain || no_way && !self.connected.get() {
            true => Failure::Final(Error::Unreachable { host: host(&at.to_string()), reason }),
            false => Failure::Passing(reason, None),
        }
    }
}

impl Reply {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        text(&self.headers, name)
    }

    /// Bytes of the whole file, as far as the server says.
    pub fn total(&self) -> Option<u64> {
        match self.status {
            206 => self.range()?.1,
            _ => self.linked.size.or_else(|| self.header("content-length")?.parse().ok()),
        }
    }

    /// Where a partial answer begins, and bytes of the whole.
    pub fn range(&self) -> Option<(u64, Option<u64>)> {
        let range = self.header("content-range")?;
        let (span, total) = range.strip_prefix("bytes ")?.split_once('/')?;
        Some((span.split('-').next()?.parse().ok()?, total.parse().ok()))
    }

    /// The body as text, if it is not too long.
    pub fn text(self) -> std::io::Result<String> {
        let mut text = String::new();
        self.body.into_reader().take(LISTING).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Counts tries without progress, and pauses between them.
pub struct Tries {
    patience: crate::settings::Patience,
    left: u32,
    pause: Duration,
}

impl Tries {
    fn new(patience: &crate::settings::Patience) -> Tries {
        Tries { patience: *patience, left: patience.tries, pause: patience.pause }
    }

    /// There was progress.
    pub fn reset(&mut self) {
        *self = Tries::new(&self.patience);
    }

    /// Waits before the next try; `false` if there is none.
    pub fn wait(&mut self, reason: &str, pause: Option<Duration>, watch: &dyn Watch) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return false;
        }
        let pause = pause.unwrap_or(self.pause).min(self.patience.longest * 6);
        self.pause = (self.pause * 2).min(self.patience.longest);
        watch.hear(&Event::Retry { reason, pause });
        std::thread::sleep(pause);
        true
    }
}

/// A tag without quotes.
pub fn unquoted(tag: String) -> String {
    tag.trim_start_matches("W/").trim_matches('"').to_owned()
}

/// The server of an address.
pub fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest).rsplit('@').next().unwrap_or(rest).to_owned()
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn parsed(url: &str) -> Result<Uri, Failure> {
    url.parse().map_err(|_| Failure::Final(Error::Address { text: url.to_owned() }))
}

fn origin(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(Origin(scheme, uri.host()?.to_ascii_lowercase(), port))
}

/// An address for messages: what follows the path of a signed address is secret.
fn shown(uri: &Uri) -> String {
    format!("{}://{}{}", uri.scheme_str().unwrap_or("http"), host(&uri.to_string()), uri.path())
}

/// Where a redirect leads.
fn joined(base: &Uri, location: &str) -> Result<Uri, Failure> {
    let scheme = base.scheme_str().unwrap_or("https");
    let authority = base.authority().map(ToString::to_string).unwrap_or_default();
    let url = if location.contains("://") && !location.starts_with('/') {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = base.path().rfind('/').map_or("/", |at| &base.path()[..=at]);
        format!("{scheme}://{authority}{folder}{location}")
    };
    let bad = |what: &str| Failure::Final(Error::Answer { url: shown(base), what: what.to_owned() });
    let next: Uri = url.parse().map_err(|_| bad("a redirect to nowhere"))?;
    match next.scheme_str() {
        Some("https") => Ok(next),
        Some("http") if scheme == "http" => Ok(next),
        _ => Err(bad("a redirect that leaves https")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects() {
        let to = |base: &str, location: &str| {
            joined(&base.parse().expect("an address"), location).map(|uri| uri.to_string()).ok()
        };
        assert_eq!(to("https://a.b/c/d?e", "/f?g=1").as_deref(), Some("https://a.b/f?g=1"));
        assert_eq!(to("https://a.b/c/d", "f").as_deref(), Some("https://a.b/c/f"));
        assert_eq!(to("https://a.b/c", "//x.y/z").as_deref(), Some("https://x.y/z"));
        assert_eq!(to("https://a.b/c", "https://x.y/z").as_deref(), Some("https://x.y/z"));
        assert_eq!(to("https://a.b/c", "http://x.y/z"), None);
        assert_eq!(to("https://a.b/c", "file:///etc/passwd"), None);
        let same = |a: &str, b: &str| origin(&a.parse().expect("a")) == origin(&b.parse().expect("b"));
        assert!(same("https://HF.co/x", "https://hf.co:443/y"));
        assert!(!same("https://hf.co/x", "http://hf.co/x") && !same("http://h:1/", "http://h:2/"));
        assert_eq!(shown(&"https://u:p@a.b/c?secret".parse().expect("an address")), "https://a.b/c");
    }
}
