//! What a server tells of itself: models, properties, metrics, traces.

use super::server::Server;
use crate::support::tiny;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn models_and_properties(server: &Server) {
    let models = server.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("first")));
    assert_eq!(server.get("/v1/models/second").json()["object"], "model");
    assert_eq!(server.get("/v1/models/third").error(404), "not_found_error");
    let props = server.get("/props").json();
    assert_eq!((&props["total_slots"], &props["default_generation_settings"]["n_ctx"]), (&json!(3), &json!(1024)));
    let slots = server.get("/slots").json();
    assert_eq!(slots.as_array().expect("a list").len(), 3);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
}

pub(super) fn metrics(server: &Server) {
    let response = server.get("/metrics");
    assert!(response.head.contains("process-start-time-unix: "));
    for name in [
        "kernloom_time_to_first_token_seconds_bucket",
        "vllm:num_requests_waiting{model_name=\"first\"}",
        "llamacpp:n_decode_total",
    ] {
        assert!(response.body.contains(name), "{name}");
    }
    memory(server, &response.body);
    let line = server.log.try_iter().find(|line| line.starts_with('{')).expect("a line for each request");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert!(line["path"].is_string() && line["prompt_new"].is_u64(), "{line}");
}

/// What the model takes of its device is told by `/props` and by metrics alike.
fn memory(server: &Server, metrics: &str) {
    let props = server.get("/props").json();
    let (device, memory) = (props["device"].as_str().expect("a name"), &props["memory"]);
    assert!(device.starts_with("cpu"), "{props}");
    let number = |name: &str| memory[name].as_u64().unwrap_or_else(|| panic!("{name} in {props}"));
    let file = std::fs::metadata(tiny("tiny-llama", "q4_0")).expect("a file").len();
    assert_eq!((number("weights"), &memory["weights_mapped"]), (file, &json!(true)));
    // Halves: keys and values of 1024 positions, two layers, two heads of 64.
    assert_eq!(number("cache"), 1024 * 2 * 2 * (64 + 64) * 2);
    assert!(number("workspace") > 0 && number("available") > number("cache") + number("workspace"));
    for (part, name) in [("mapped_weights", "weights"), ("cache", "cache"), ("workspace", "workspace")] {
        let line = format!("kernloom_memory_bytes{{device=\"{device}\",part=\"{part}\"}} {}\n", number(name));
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let line = format!("kernloom_memory_available_bytes{{device=\"{device}\"}} {}\n", number("available"));
    assert!(metrics.contains(&line), "{line} in {metrics}");
}

/// A request that is part of a trace gets a span in it, and its line of the log names both.
pub(super) fn traces(server: &Server) {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let asked = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n");
    let body = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    let head = server.ask("POST", "/v1/completions", &asked, body.as_bytes()).head;
    let given = head.lines().find_map(|line| line.strip_prefix("traceparent: 00-")).expect("a trace");
    let span = given.strip_prefix(&format!("{trace}-")).and_then(|rest| rest.strip_suffix("-01")).expect("a span");
    assert!(span.len() == 16 && span != "00f067aa0ba902b7", "{given}");
    let mut lines = std::iter::from_fn(|| server.log.recv_timeout(Duration::from_secs(30)).ok());
    let line = lines.find(|line| line.starts_with('{') && line.contains(trace)).expect("a line for the request");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!([&line["trace_id"], &line["parent_id"], &line["span_id"]], [trace, "00f067aa0ba902b7", span]);
}
