//! The chat page: files of `page/`, part of the program.
//!
//! They are plain HTML, CSS and modules, sent as they are. The policy allows nothing that is not from this server and
//! nothing inline, and no text can become markup by accident: scripts may only make elements one by one.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;

/// Where the page lies.
pub const ROOT: &str = "/";

/// What the paths of all its other files begin with.
const FOLDER: &str = "/page/";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// A file of the page.
#[derive(Debug)]
struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

/// A file by its name in `page/`.
macro_rules! file {
    ($name:literal, $kind:expr) => {
        File { path: concat!("/page/", $name), kind: $kind, text: include_str!(concat!("../page/", $name)) }
    };
}

static INDEX: File = File { path: ROOT, kind: HTML, text: include_str!("../page/index.html") };

static FILES: [File; 29] = [
    file!("answer.js", SCRIPT),
    file!("attachments.js", SCRIPT),
    file!("chats.js", SCRIPT),
    file!("conversation.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("events.js", SCRIPT),
    file!("files.js", SCRIPT),
    file!("formula.js", SCRIPT),
    file!("highlight.js", SCRIPT),
    file!("history.js", SCRIPT),
    file!("icon.svg", PICTURE),
    file!("inline.js", SCRIPT),
    file!("key.js", SCRIPT),
    file!("latex-commands.js", SCRIPT),
    file!("latex.js", SCRIPT),
    file!("main.js", SCRIPT),
    file!("markdown.js", SCRIPT),
    file!("messages.js", SCRIPT),
    file!("models.js", SCRIPT),
    file!("picker.js", SCRIPT),
    file!("preferences.js", SCRIPT),
    file!("render.js", SCRIPT),
    file!("server.js", SCRIPT),
    file!("settings.js", SCRIPT),
    file!("sidebar.js", SCRIPT),
    file!("style.css", STYLE),
    file!("suggestions.js", SCRIPT),
    file!("theme.js", SCRIPT),
    file!("transfer.js", SCRIPT),
];

/// Adds the page's routes.
pub fn add<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    FILES.iter().chain([&INDEX]).fold(router, |router, file| {
        router.route(file.path, get(async move |headers: HeaderMap| respond(file, &headers)))
    })
}

/// Whether a path is the page's, for which nobody needs a key: a browser asks for it before it has one.
pub fn is_part(path: &str) -> bool {
    path == ROOT || path.starts_with(FOLDER)
}

fn respond(file: &'static File, asked: &HeaderMap) -> Response {
    let tag = tag(file.text);
    let mut response = Response::new(Body::empty());
    if asked.get(header::IF_NONE_MATCH).is_some_and(|held| holds(held, &tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(file.text);
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, file.kind),
        // Another version of the program may answer next time: a browser has to ask whether its copy is still good.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// What tells versions of a file apart: FNV-1a of its text.
fn tag(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("\"{hash:016x}\"")
}

/// Whether a list of tags has this one.
fn holds(held: &HeaderValue, tag: &str) -> bool {
    let held = held.to_str().unwrap_or_default();
    held.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_sent_with_its_type() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let entries = std::fs::read_dir(folder).expect("the folder of the page");
        let mut found: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .filter(|name| name != "index.html")
            .collect();
        found.sort();
        let known: Vec<&str> = FILES.iter().map(|file| file.path.trim_start_matches(FOLDER)).collect();
        assert_eq!(found, known);
        for file in &FILES {
            let kind = match file.path.rsplit_once('.').expect("an ending").1 {
                "js" => SCRIPT,
                "css" => STYLE,
                _ => PICTURE,
            };
            assert_eq!(file.kind, kind, "{}", file.path);
            assert!(is_part(file.path));
        }
        assert!(is_part("/") && !is_part("/v1/models") && !is_part("/pages"));
    }

    /// What the page asks for by name is there, and nothing in it needs a laxer policy.
    #[test]
    fn files_name_only_files_that_are_there() {
        for file in FILES.iter().chain([&INDEX]) {
            let base = if file.path == ROOT { "page/" } else { "./" };
            for quote in ['\'', '"'] {
                let named = file.text.split(quote).skip(1).filter_map(|text| text.strip_prefix(base));
                for name in named.filter(|name| name.len() < 40 && name.contains('.')) {
                    assert!(FILES.iter().any(|file| file.path == format!("{FOLDER}{name}")), "{}: {name}", file.path);
                }
            }
            for never in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
                assert!(!file.text.contains(never), "{}: {never}", file.path);
            }
        }
        assert!(
            INDEX.text.contains("page/main.js") && !INDEX.text.contains(" style=") && !INDEX.text.contains("<style")
        );
        let scripts = INDEX.text.split("<script").skip(1);
        assert!(scripts.clone().count() > 0 && scripts.into_iter().all(|script| script.contains("></script>")));
    }

    #[test]
    fn tags_are_compared_as_lists() {
        let tag = tag("text");
        assert_ne!(tag, super::tag("other"));
        let holds = |list: String| holds(&HeaderValue::from_str(&list).expect("a header"), &tag);
        assert!(holds(tag.clone()) && holds(format!("\"x\", W/{tag}")) && holds("*".into()));
        assert!(!holds("\"x\"".into()) && !holds(String::new()));
    }
}
