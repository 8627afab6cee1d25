//! The chat page's routes, while no model is there: a browser gets the page at once, and the page says what it waits for.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use server::{App, Options};
use std::sync::Arc;
use tower::ServiceExt;

async fn ask(options: &Options, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let router = server::router::router(Arc::new(App::new(options.clone())));
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    router.oneshot(request.body(Body::empty()).expect("a request")).await.expect("a response")
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.expect("a body").to_vec()).expect("UTF-8")
}

#[tokio::test]
async fn files_have_types_a_tag_and_a_strict_policy() {
    let options = Options::default();
    for (path, kind, part) in [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/page/main.js", "text/javascript; charset=utf-8", "import"),
        ("/page/style.css", "text/css; charset=utf-8", "color-scheme"),
        ("/page/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let response = ask(&options, "GET", path, &[]).await;
        assert_eq!((response.status(), header(&response, "content-type")), (StatusCode::OK, kind), "{path}");
        let policy = header(&response, "content-security-policy");
        for rule in ["default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        assert_eq!(header(&response, "referrer-policy"), "no-referrer");
        assert_eq!(header(&response, "cache-control"), "no-cache");
        let tag = header(&response, "etag").to_owned();
        assert!(text(response).await.contains(part), "{path}");

        let again = ask(&options, "GET", path, &[("if-none-match", &tag)]).await;
        assert_eq!((again.status(), header(&again, "etag")), (StatusCode::NOT_MODIFIED, tag.as_str()));
        assert!(!header(&again, "content-security-policy").is_empty() && text(again).await.is_empty());
        let other = ask(&options, "GET", path, &[("if-none-match", "\"0\"")]).await;
        assert_eq!(other.status(), StatusCode::OK);
        let head = ask(&options, "HEAD", path, &[]).await;
        assert_eq!((head.status(), header(&head, "etag")), (StatusCode::OK, tag.as_str()));
        assert!(text(head).await.is_empty());
    }
}

#[tokio::test]
async fn the_page_needs_no_key_and_the_api_does() {
    let options = Options { api_keys: vec!["alpha".into()], ..Options::default() };
    for path in ["/", "/page/main.js", "/page/style.css"] {
        assert_eq!(ask(&options, "GET", path, &[]).await.status(), StatusCode::OK, "{path}");
    }
    for path in ["/props", "/slots", "/v1/models", "/page"] {
        assert_eq!(ask(&options, "GET", path, &[]).await.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    assert_eq!(ask(&options, "POST", "/v1/chat/completions", &[]).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn nothing_else_is_there_and_all_of_it_can_be_switched_off() {
    let (on, off) = (Options::default(), Options { page: false, ..Options::default() });
    for path in ["/page/", "/page/nothing.js", "/page/../Cargo.toml", "/page/%2e%2e/Cargo.toml"] {
        assert_eq!(ask(&on, "GET", path, &[]).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(ask(&on, "POST", "/", &[]).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    let response = ask(&off, "GET", "/page/main.js", &[]).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(text(response).await.contains("not_found_error"));
    assert_eq!(text(ask(&off, "GET", "/", &[]).await).await, "Ollama is running");
}
