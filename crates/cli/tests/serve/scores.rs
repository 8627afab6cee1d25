//! Log-probabilities of prompts, which programs that evaluate models ask for.

use super::server::Server;
use crate::support::{folder, run, text, tiny};
use serde_json::{Value, json};

/// Those of the tokens after the first, by `kernloom logits`.
fn by_logits(tokens: &[u64]) -> Vec<f64> {
    let (path, out) = (tiny("tiny-llama", "q4_0"), folder().join("scores.f32"));
    let ids = tokens.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    run(&["logits", text(&path), "--tokens", &ids, "--numerics", "exact", "--out", text(&out)]).ok();
    let bytes = std::fs::read(&out).expect("logits");
    let logits: Vec<f64> =
        bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("four bytes")))).collect();
    let rows = logits.chunks_exact(logits.len() / tokens.len());
    let score = |(row, &next): (&[f64], &u64)| {
        let most = row.iter().copied().fold(f64::MIN, f64::max);
        row[next as usize] - most - row.iter().map(|logit| (logit - most).exp()).sum::<f64>().ln()
    };
    rows.zip(&tokens[1..]).map(score).collect()
}

#[test]
fn prompts_have_the_log_probabilities_that_their_logits_say() {
    let server = Server::start(&["--numerics", "exact"]);
    let long = "The quick brown fox jumps over the lazy dog. ".repeat(8);
    let tokenized = server.post("/tokenize", json!({ "prompt": long })).json();
    let tokens: Vec<u64> = tokenized["tokens"].as_array().expect("tokens").iter().filter_map(Value::as_u64).collect();
    assert!(tokens.len() > 100 && tokenized["count"] == tokens.len(), "more than a step has rows: {}", tokens.len());
    let expected = by_logits(&tokens);
    let ask = |more: Value| {
        let mut body = json!({ "prompt": tokens, "echo": true, "logprobs": 2, "max_tokens": 0, "temperature": 0 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.post("/v1/completions", body)
    };
    let near = |choice: &Value, generated: usize| {
        let logprobs = &choice["logprobs"];
        let (all, tops) = (logprobs["token_logprobs"].as_array(), logprobs["top_logprobs"].as_array());
        let (all, tops) = (all.expect("numbers"), tops.expect("objects"));
        assert_eq!(
            (all.len(), &all[0], tops.len()),
            (tokens.len() + generated, &Value::Null, tokens.len() + generated)
        );
        for (at, (given, expected)) in all[1..].iter().zip(&expected).enumerate() {
            let given = given.as_f64().expect("a number");
            assert!((given - expected).abs() < 1e-4, "token {at}: {given}, by its logits {expected}");
            let best = tops[at + 1].as_object().expect("an object").values().filter_map(Value::as_f64);
            assert!(best.fold(f64::MIN, f64::max) >= given);
        }
    };
    let whole = ask(json!({})).json();
    let choice = &whole["choices"][0];
    near(choice, 0);
    assert_eq!((&choice["finish_reason"], &whole["usage"]["completion_tokens"]), (&json!("length"), &json!(0)));
    let text = choice["text"].as_str().expect("text");
    assert!(text.contains(long.trim()), "{text}");
    // The second time the cache has the prompt; a token comes, and others ask meanwhile.
    let one = ask(json!({ "max_tokens": 1, "ignore_eos": true })).json();
    near(&one["choices"][0], 1);
    // In a stream they come as the prompt is read.
    let events = ask(json!({ "stream": true })).events();
    let count = |event: &Value| event["choices"][0]["logprobs"]["tokens"].as_array().map_or(0, Vec::len);
    assert_eq!(events.iter().map(count).sum::<usize>(), tokens.len());
    assert!(
        events.iter().map(count).all(|count| count <= 66),
        "bounded: {:?}",
        events.iter().map(count).collect::<Vec<_>>()
    );
    // What RemoteTokenizer of lm_eval asks.
    let info = server.get("/tokenizer_info").json();
    assert!(info["eos_token"].is_string() && info["bos_token"].is_string(), "{info}");
    let plain = server.post("/tokenize", json!({ "prompt": long, "add_special_tokens": false })).json();
    let text = server.post("/detokenize", json!({ "tokens": plain["tokens"] })).json();
    assert_eq!(text["prompt"].as_str().map(str::trim), Some(long.trim()));
}
