//! Who may ask: names under which the server is called, and web pages on whose behalf a browser calls it.
//!
//! A browser lets any page send requests to any address, also to one that only this machine can reach. Two headers tell
//! who is behind one. `Host` is the name in the address bar: a stranger's name that was made to point here (DNS
//! rebinding) is still his. `Origin` and `Sec-Fetch-Site` name the page that asks. Neither can be set by a page; programs
//! that are no browsers can send what they like, and are kept out by keys only.

use crate::error::ApiError;
use crate::page;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use std::net::{IpAddr, Ipv6Addr};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Who may ask.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Names beside those of this machine; none if every name is one.
    names: Option<Vec<String>>,
    origins: Vec<Allowed>,
}

/// Origins that may ask beside the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    All,
    /// Pages of this machine on any port.
    Loopback,
    /// All of a scheme, such as `vscode-webview`.
    Scheme(String),
    One(String),
}

impl Allowed {
    fn of(given: &str) -> Allowed {
        let given = given.trim().to_ascii_lowercase();
        match given.as_str() {
            "*" => Allowed::All,
            "localhost" => Allowed::Loopback,
            _ => match given.trim_end_matches('*').strip_suffix("://") {
                Some(scheme) => Allowed::Scheme(scheme.to_owned()),
                None => Allowed::One(given.trim_end_matches('/').to_owned()),
            },
        }
    }

    fn holds(&self, origin: &str) -> bool {
        match self {
            Allowed::All => true,
            Allowed::Loopback => Page::of(origin).is_some_and(|page| is_loopback(&page.name)),
            Allowed::Scheme(scheme) => origin.split_once("://").is_some_and(|(given, _)| given == scheme),
            Allowed::One(one) => match (Page::of(one), Page::of(origin)) {
                (Some(one), Some(page)) => one == page,
                _ => one == origin,
            },
        }
    }
}

/// An origin on the web.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    is_tls: bool,
    name: String,
    port: u16,
}

impl Page {
    fn of(origin: &str) -> Option<Page> {
        let (scheme, authority) = origin.split_once("://")?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let (name, port) = name_and_port(authority)?;
        Some(Page { is_tls, name, port: port.unwrap_or(if is_tls { 443 } else { 80 }) })
    }
}

/// The name of an authority, in small letters and without brackets or a last dot, and its port.
fn name_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (name, rest) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            // The zone is this machine's own word for an interface.
            let address = address.split_once('%').map_or(address, |(address, _)| address);
            (address.parse::<Ipv6Addr>().ok()?.to_string(), rest)
        }
        None => {
            let (name, rest) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let name = name.strip_suffix('.').unwrap_or(name);
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
            if name.is_empty() || !name.bytes().all(is_plain) {
                return None;
            }
            (name.to_ascii_lowercase(), rest)
        }
    };
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some((name, None)),
        Some("") => Some((name, None)),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some((name, Some(port.parse().ok()?))),
        Some(_) => None,
    }
}

/// Whether a name is this machine's wherever it is said.
fn is_loopback(name: &str) -> bool {
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn refused(message: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "permission_error", message)
}

/// The values of a header that may come once, as text in small letters.
fn once(headers: &HeaderMap, name: HeaderName) -> Result<Option<String>, ApiError> {
    let mut all = headers.get_all(&name).iter();
    let (first, second) = (all.next(), all.next());
    if second.is_some() {
        return Err(ApiError::invalid(format!("there is more than one header {name}")));
    }
    let text = |value: &HeaderValue| value.to_str().map(|text| text.trim().to_ascii_lowercase());
    first.map(text).transpose().map_err(|_| ApiError::invalid(format!("the header {name} is no text")))
}

impl Admission {
    /// For a server that listens on these hosts, with these names (`*` for all) and origins; without origins, pages of
    /// this machine may ask. A server with keys may have any name.
    pub fn new(hosts: &[String], names: &[String], origins: &[String], has_keys: bool) -> Admission {
        let any = has_keys || names.iter().any(|name| name.trim() == "*");
        let known = hosts.iter().chain(names).filter_map(|name| name_and_port(name.trim())).map(|(name, _)| name);
        let origins = match origins {
            [] => vec![Allowed::Loopback],
            origins => origins.iter().map(|origin| Allowed::of(origin)).collect(),
        };
        Admission { names: (!any).then(|| known.collect()), origins }
    }

    /// Whether a request may come in; then with the origin that is to be told so, if it is another's.
    ///
    /// # Errors
    /// 403 with what would let it in; 400 if a header is there twice, 415 if a page sends something that is not JSON.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Option<HeaderValue>, ApiError> {
        let host = once(headers, header::HOST)?;
        // A target that is a whole address counts beside the header.
        let target = uri.authority().map(|authority| authority.as_str().to_ascii_lowercase());
        for name in host.iter().chain(&target) {
            self.check_host(name)?;
        }
        let own = target.or(host);
        let (origin, site) = (once(headers, header::ORIGIN)?, once(headers, SITE)?);
        match &origin {
            Some(origin) => self.check_origin(origin, own.as_deref())?,
            None => self.check_site(site.as_deref(), own.as_deref(), method, uri, headers)?,
        }
        // Without this, a form or a script could post to the API without asking for leave first.
        if method == Method::POST && (origin.is_some() || site.is_some()) && !is_json(headers) {
            let message = "a web page has to send its body as application/json (the header Content-Type)";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", message));
        }
        Ok(headers.get(header::ORIGIN).cloned())
    }

    fn check_host(&self, authority: &str) -> Result<(), ApiError> {
        let Some(names) = &self.names else { return Ok(()) };
        // Addresses are no names that somebody could point elsewhere.
        let may = |name: &str| name.parse::<IpAddr>().is_ok() || is_loopback(name) || names.iter().any(|n| n == name);
        match name_and_port(authority) {
            Some((name, _)) if may(&name) => Ok(()),
            Some((name, _)) => Err(refused(format!(
                "this server is not known as '{name}': start it with --allowed-hosts {name}, or with --api-key"
            ))),
            None => Err(refused("the header Host is no name of this server (--allowed-hosts)".into())),
        }
    }

    fn check_origin(&self, origin: &str, own: Option<&str>) -> Result<(), ApiError> {
        if self.origins.iter().any(|allowed| allowed.holds(origin)) || is_own(origin, own) {
            return Ok(());
        }
        Err(refused(format!("pages of '{origin}' may not use this server: start it with --cors-origins {origin}")))
    }

    /// A request without an origin: a program's, or a browser's for a link, an image, a script.
    fn check_site(
        &self,
        site: Option<&str>,
        own: Option<&str>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        let is_others = match site {
            None | Some("same-origin" | "none") => false,
            // Another port of this machine, or a neighbour below the same domain.
            Some("same-site") => !own.and_then(name_and_port).is_some_and(|(name, _)| is_loopback(&name)),
            Some(_) => true,
        };
        let reads = method == Method::GET || method == Method::HEAD;
        // A link to the page shows it, and tells whoever has the link nothing.
        let shows_page =
            || reads && page::is_part(uri.path()) && headers.get(MODE).is_some_and(|mode| mode == "navigate");
        if !is_others || self.origins.contains(&Allowed::All) || shows_page() {
            return Ok(());
        }
        Err(refused("pages of other sites may not use this server (--cors-origins)".into()))
    }
}

/// Whether an origin is the server's own, under the name that it was called by.
fn is_own(origin: &str, own: Option<&str>) -> bool {
    let (Some(page), Some(own)) = (Page::of(origin), own) else { return false };
    let default = if page.is_tls { 443 } else { 80 };
    name_and_port(own).is_some_and(|(name, port)| name == page.name && port.unwrap_or(default) == page.port)
}

/// Whether a body says that it is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

#[cfg(test)]
mod tests;
