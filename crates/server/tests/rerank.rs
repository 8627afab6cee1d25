//! Documents by their scores, through the router.

use crate::exercise::{self, Exercise};
use model::scheduler::Pooling;
use serde_json::{Value, json};
use server::Options;
use server::budget::TEXTS;

/// Whose score of a document is the id of its last character.
fn ranker(pooling: Option<Pooling>) -> Exercise {
    let options = Options { log: false, pooling, ..Options::default() };
    Exercise::of(options, exercise::model_that_ranks("ranks", Pooling::Last))
}

fn ask(exercise: &Exercise, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = exercise.request("POST", path, &[], body.to_string().as_bytes());
    (status, serde_json::from_str(&text).expect("JSON"))
}

fn told(exercise: &Exercise, path: &str, body: &Value, status: u16) -> String {
    let (given, answer) = ask(exercise, path, body);
    assert_eq!(given, status, "{path} {body}: {answer}");
    answer["error"]["message"].as_str().expect("a message").to_owned()
}

#[test]
fn documents_come_by_their_scores() {
    let exercise = ranker(None);
    let body = json!({ "model": "mine", "query": "q", "documents": ["xa", "xc", { "text": "xb" }] });
    let (status, answer) = ask(&exercise, "/v1/rerank", &body);
    assert_eq!((status, &answer["model"], &answer["object"]), (200, &json!("mine"), &json!("list")), "{answer}");
    let results = answer["results"].as_array().expect("results");
    let indices: Vec<u64> = results.iter().map(|result| result["index"].as_u64().expect("an index")).collect();
    assert_eq!(indices, [1, 2, 0], "{answer}");
    let score = |at: usize| results[at]["relevance_score"].as_f64().expect("a score");
    assert_eq!((score(0) - score(1), score(1) - score(2)), (1.0, 1.0));
    assert!(results[0].get("document").is_none());
    // The token of the beginning, and a character of the query and two of the document.
    let tokens = answer["usage"]["prompt_tokens"].as_u64().expect("tokens");
    assert_eq!((tokens, &answer["usage"]["total_tokens"]), (12, &json!(tokens)));
    for path in ["/rerank", "/v1/reranking", "/reranking"] {
        assert_eq!(ask(&exercise, path, &body), (200, answer.clone()), "{path}");
    }
}

#[test]
fn as_many_come_back_as_are_wanted_and_with_their_texts() {
    let exercise = ranker(None);
    let body = json!({ "query": "q", "documents": ["a", "c", "b"], "top_n": 2, "return_documents": true });
    let (_, answer) = ask(&exercise, "/v1/rerank", &body);
    let documents: Vec<&Value> =
        answer["results"].as_array().expect("results").iter().map(|r| &r["document"]).collect();
    assert_eq!(documents, [&json!({ "text": "c" }), &json!({ "text": "b" })]);
    assert_eq!(answer["model"], "ranks");
    let body = json!({ "query": "q", "texts": ["a", "c"], "return_text": true });
    let (_, list) = ask(&exercise, "/rerank", &body);
    assert_eq!((&list[0]["text"], &list[0]["index"], list[0]["score"].is_number()), (&json!("c"), &json!(1), true));
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    let equal = json!({ "query": "q", "documents": ["a", "a", "a"], "top_n": 9 });
    let (_, answer) = ask(&exercise, "/v1/rerank", &equal);
    let indices: Vec<&Value> = answer["results"].as_array().expect("results").iter().map(|r| &r["index"]).collect();
    assert_eq!(indices, [0, 1, 2], "equal scores leave the order");
}

#[test]
fn what_is_wrong_is_named() {
    let exercise = ranker(None);
    let many = vec!["a"; TEXTS + 1];
    for (body, word) in [
        (json!({ "documents": ["a"] }), "query"),
        (json!({ "query": 7, "documents": ["a"] }), "query"),
        (json!({ "query": "q" }), "documents"),
        (json!({ "query": "q", "documents": [] }), "documents"),
        (json!({ "query": "q", "documents": "a" }), "documents"),
        (json!({ "query": "q", "documents": ["a", 7] }), "document 1"),
        (json!({ "query": "q", "documents": [{ "image": "a" }] }), "document 0"),
        (json!({ "query": "q", "documents": many }), "129 documents"),
        (json!({ "query": "q", "documents": ["a"], "top_n": -1 }), "top_n"),
        (json!({ "query": "q", "documents": ["a"], "return_documents": "yes" }), "return_documents"),
        (json!({ "query": "q", "documents": ["a".repeat(600)] }), "context"),
    ] {
        let message = told(&exercise, "/v1/rerank", &body, 400);
        assert!(message.contains(word), "{body}: {message}");
    }
}

#[test]
fn a_query_counts_with_each_document() {
    let exercise = Exercise::of(
        Options { log: false, body_limit: 4000, ..Options::default() },
        exercise::model_that_ranks("ranks", Pooling::Last),
    );
    let body =
        |query: usize, documents: usize| json!({ "query": "q".repeat(query), "documents": vec!["a"; documents] });
    assert_eq!(ask(&exercise, "/v1/rerank", &body(40, 100)).0, 200);
    let message = told(&exercise, "/v1/rerank", &body(41, 100), 400);
    assert_eq!(message, "query: with each of 100 documents it has 4100 bytes, and 4000 are taken (--body-limit)");
    let (_, answer) = ask(&exercise, "/v1/rerank", &body(600, 2));
    assert_eq!(answer["error"]["code"], "context_length_exceeded");
}

#[test]
fn who_ranks_makes_no_embeddings_and_the_other_way_round() {
    let body = json!({ "query": "q", "documents": ["a"] });
    let ranks = ranker(None);
    let says = |exercise: &Exercise| {
        let shown = ask(exercise, "/api/show", &json!({ "model": "ranks" })).1;
        shown["capabilities"].as_array().expect("capabilities").contains(&json!("embedding"))
    };
    assert!(!says(&ranks));
    let options = Options { pooling: Some(Pooling::Mean), ..Exercise::everything() };
    assert!(says(&Exercise::of(options, exercise::model_that_ranks("ranks", Pooling::Last))));
    assert!(told(&ranks, "/v1/embeddings", &json!({ "input": "a" }), 501).contains("/v1/rerank"));
    assert!(told(&ranks, "/embedding", &json!({ "content": "a" }), 501).contains("--pooling"));
    let embeds = ranker(Some(Pooling::Mean));
    assert!(told(&embeds, "/v1/rerank", &body, 501).contains("--reranking"));
    let headless = Exercise::of(Options { log: false, ..Options::default() }, exercise::model_of_embeddings("vectors"));
    assert!(told(&headless, "/v1/rerank", &body, 501).contains("no head of a classifier"));
    assert!(told(&Exercise::new(), "/v1/rerank", &body, 501).contains("no head of a classifier"));
}

#[test]
fn a_model_that_sees_ahead_ranks_by_its_first_token() {
    let options = Options { log: false, ..Options::default() };
    let exercise = Exercise::of(options, exercise::model_that_ranks("ranks", Pooling::First));
    let (status, answer) = ask(&exercise, "/v1/rerank", &json!({ "query": "q", "documents": ["a", "b"] }));
    assert_eq!((status, answer["results"].as_array().map(Vec::len)), (200, Some(2)), "{answer}");
    assert_eq!(answer["results"][0]["relevance_score"], answer["results"][1]["relevance_score"]);
    assert!(told(&exercise, "/v1/completions", &json!({ "prompt": "a" }), 400).contains("no text"));
}
