//! What requests take of memory, counted by the allocator, beside what they are charged.

mod exercise;

use axum::body::Body;
use axum::http::Request;
use exercise::{Exercise, ROUTES};
use model::scheduler::Pooling;
use peak_alloc::PeakAlloc;
use server::arrival::Arrived;
use server::body::Work;
use server::budget::{MEMORY, SHARE, TEXT_WORK, TEXTS};
use server::{App, Options};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Parts of the default numbers with which this is tried, so that it is soon over.
const PART: usize = 8;

/// Parts of a body with its most bytes and values: as large as may be, and what is taken.
const PARTS: [usize; 2] = [PART, 10 * PART];

/// What anything else in the process may take meanwhile.
const SLACK: usize = 1 << 20;

/// Bytes that something holds when it is done, its result, and the bytes that it took at most.
fn heap<T>(run: impl FnOnce() -> T) -> (usize, T, usize) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let result = run();
    let (held, most) = (HEAP.current_usage(), HEAP.peak_usage());
    (held.saturating_sub(before), result, most.saturating_sub(before))
}

/// As many copies as go into a part of a body with its most bytes and values.
fn many(of: &str, values: usize, part: usize) -> String {
    vec![of; (4_000_000 / part / (of.len() + 1)).min(990_000 / part / values)].join(",")
}

/// Values that take much memory for their text.
fn nasty(part: usize) -> Vec<(&'static str, String)> {
    let list = |of: &str, values| format!("[{}]", many(of, values, part));
    let key = |length: usize| format!("{{\"{}\":0}}", "k".repeat(length));
    let members = |count: usize| (0..count).map(|i| format!("\"{i}\":0")).collect::<Vec<_>>().join(",");
    vec![
        ("empty lists", list("[]", 1)),
        ("lists of one", list("[0]", 2)),
        ("lists of five", list("[0,0,0,0,0]", 6)),
        ("deep lists", list(&format!("{}{}", "[".repeat(90), "]".repeat(90)), 90)),
        ("empty objects", list("{}", 1)),
        ("objects of one", list(&key(1), 3)),
        ("objects of four", list(&format!("{{{}}}", members(4)), 9)),
        ("objects of eight", list(&format!("{{{}}}", members(8)), 17)),
        ("objects in objects", list(&format!("{}{{}}{}", "{\"a\":".repeat(90), "}".repeat(90)), 181)),
        ("one object", format!("{{{}}}", members(300_000 / part))),
        ("long keys", list(&key(100), 3)),
        ("numbers", list("1e5", 1)),
        ("strings", list("\"a\"", 1)),
        ("longer strings", list("\"aaaaaaaaaaaaaaaaaaaaaaaaa\"", 1)),
        ("escapes", list("\"\\u0000\"", 1)),
        ("one string", format!("\"{}\"", "a".repeat(4_000_000 / part))),
    ]
}

/// A body with this for everything that a route may build or render.
fn body(path: &str, at: usize, value: &str) -> String {
    let message = |content: &str, more: &str| format!("{{\"role\":\"user\",\"content\":{content}{more}}}");
    let chat = |more: String| format!("{{\"max_tokens\":1,\"messages\":[{}]{more}}}", message("\"a\"", ""));
    let tool = format!("\"name\":\"f\",\"parameters\":{{\"x\":{value}}},\"input_schema\":{{\"x\":{value}}}");
    match (path, at) {
        ("/v1/responses", 0) => format!("{{\"input\":[{}]}}", message(value, "")),
        ("/v1/responses", 1) => format!("{{\"input\":\"a\",\"metadata\":{value}}}"),
        ("/v1/responses", _) => format!("{{\"input\":\"a\",\"tools\":[{{\"type\":\"function\",{tool}}}]}}"),
        ("/v1/messages", 2) => chat(format!(",\"tools\":[{{{tool}}}]")),
        (_, 2) => chat(format!(",\"tools\":[{{\"type\":\"function\",\"function\":{{{tool}}}}}]")),
        (_, 1) => format!(
            "{{\"prompt\":{value},\"x\":{value},\"messages\":[{}]}}",
            message("\"a\"", &format!(",\"x\":{value}"))
        ),
        (_, _) => format!("{{\"prompt\":{value},\"content\":{value},\"messages\":[{}]}}", message(value, "")),
    }
}

/// One test, as all that allocates would count in another.
#[test]
fn requests_take_no_more_memory_than_they_are_charged() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let app = App::new(Options { request_memory: usize::MAX / 64, ..Options::default() });
    let fields = nasty(PART).into_iter().find(|(name, _)| *name == "one object").expect("an object").1;
    let bodies = nasty(PART).into_iter().map(|(name, value)| (name, format!("{{\"x\":{value}}}")));
    for (name, text) in bodies.chain([("fields", fields)]) {
        let (held, body, most) = heap(|| {
            let request = Request::post("/").body(Body::from(text.clone())).expect("a request");
            let arrived = runtime.block_on(Arrived::wait(&app, request, Work::Plain)).expect("a body");
            let body = arrived.read().expect("JSON");
            assert!(name == "fields" || body.get("x").is_some_and(|x| !x.is_null()), "{name}");
            body
        });
        let charged = app.memory.taken();
        // The text is there once more in the test.
        assert!(most <= charged + text.len(), "{name}: {charged} are charged, {most} are taken");
        assert!(charged <= 4 * held + TEXT_WORK * text.len(), "{name}: {charged} are charged and {held} are held");
        drop(body);
        assert_eq!(app.memory.taken(), 0, "{name}");
    }

    // Through the router, where what would take more is refused before it takes anything.
    let (memory, mut taken) = (MEMORY / PART, 0);
    let exercise = Exercise::with(Options { request_memory: memory, ..Options::default() });
    for (name, value) in PARTS.into_iter().flat_map(nasty) {
        for path in [
            "/v1/chat/completions",
            "/completion",
            "/v1/responses",
            "/v1/messages",
            "/apply-template",
            "/tokenize",
            "/api/chat",
            "/api/generate",
        ] {
            let route = ROUTES.iter().position(|route| *route == path).expect("a route") as u8;
            for at in 0..3 {
                let bytes = [&[route][..], body(path, at, &value).as_bytes()].concat();
                let (held, (status, text), most) = heap(|| exercise.ask(&bytes));
                // What is sent is there as values and as text, and once more in the test.
                let sent = 3 * bytes.len() + 16 * text.len();
                assert!(most <= memory / SHARE + sent + SLACK, "{path} {at} {name}: {most} for a {status}");
                assert!(held <= text.capacity() + SLACK, "{path} {at} {name}: {held} stay");
                taken += usize::from(status != 413);
            }
        }
    }
    assert!(taken > 200, "{taken} were taken");

    // A query is there once, with however many documents.
    let options = Options { request_memory: memory, ..Options::default() };
    let ranks = Exercise::of(options, exercise::model_that_ranks("ranks", Pooling::Last));
    for query in [4_000_000 / PART, 31_000, 300] {
        let query = "q".repeat(query);
        let body = format!("{{\"query\":\"{query}\",\"documents\":[{}]}}", vec!["\"a\""; TEXTS].join(","));
        let (held, (status, text), most) = heap(|| ranks.request("POST", "/v1/rerank", &[], body.as_bytes()));
        assert_eq!(status == 200, query.len() == 300, "{text}");
        let sent = (3 + TEXT_WORK) * body.len() + 16 * text.len();
        assert!(most <= sent + SLACK, "{most} for a query of {} and a {status}", query.len());
        assert!(held <= text.capacity() + SLACK, "{held} stay");
    }

    // Its tokens are there with each of them, and are charged.
    let body = format!("{{\"query\":\"{}\",\"documents\":[{}]}}", "q".repeat(300), vec!["\"a\""; TEXTS].join(","));
    for (tokens, fits) in [(2 * 300 * TEXTS, true), (100 * TEXTS, false)] {
        let request_memory = SHARE * (TEXT_WORK * body.len() + 4 * tokens);
        let options = Options { request_memory, ..Options::default() };
        let ranks = Exercise::of(options, exercise::model_that_ranks("ranks", Pooling::Last));
        let (status, text) = ranks.request("POST", "/v1/rerank", &[], body.as_bytes());
        assert_eq!(status, if fits { 200 } else { 413 }, "{tokens} tokens have room: {text}");
    }
}
