//! Vectors instead of text.

use super::server::Server;
use serde_json::json;

pub(super) fn embeddings(server: &Server) {
    let long = "a long text ".repeat(40);
    let body = json!({ "input": ["Hello", long, "Hello"], "model": "mine" });
    let whole = server.post("/v1/embeddings", body.clone()).json();
    let vectors: Vec<Vec<f64>> = whole["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| {
            entry["embedding"].as_array().expect("a vector").iter().map(|x| x.as_f64().expect("a number")).collect()
        })
        .collect();
    let length = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!(vectors.iter().all(|vector| vector.len() > 8 && (length(vector) - 1.0).abs() < 1e-4));
    let distance = |a: &[f64], b: &[f64]| length(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>());
    assert!(distance(&vectors[0], &vectors[2]) < 1e-2 && distance(&vectors[0], &vectors[1]) > 0.1);
    assert_eq!(whole["usage"]["prompt_tokens"], whole["usage"]["total_tokens"]);
    let mut packed = body;
    packed["encoding_format"] = "base64".into();
    let packed = server.post("/v1/embeddings", packed).json();
    let bytes = unpacked(packed["data"][1]["embedding"].as_str().expect("text"));
    let floats: Vec<f64> =
        bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect();
    assert!(floats.len() == vectors[1].len() && distance(&floats, &vectors[1]) < 1e-2);
    let native = server.post("/embedding", json!({ "content": "Hello", "embd_normalize": -1 })).json();
    assert_eq!(native[0]["embedding"][0].as_array().expect("a vector").len(), vectors[0].len());
    for wrong in [
        json!({}),
        json!({ "input": [] }),
        json!({ "input": "x", "encoding_format": "int8" }),
        json!({ "input": "x", "dimensions": 3 }),
        json!({ "input": { "content": [{ "type": "image_url" }] } }),
    ] {
        assert_eq!(server.post("/v1/embeddings", wrong).error(400), "invalid_request_error");
    }
    assert_eq!(
        server.post("/v1/embeddings", json!({ "input": "x ".repeat(3000) })).error(400),
        "exceed_context_size_error"
    );
}

/// A server that pools nothing has a vector for each token.
pub(super) fn vectors_of_tokens(server: &Server) {
    let tokens = server.post("/tokenize", json!({ "content": "Hello you", "add_special": true })).json();
    let vectors = server.post("/embedding", json!({ "content": "Hello you" })).json();
    let vectors = vectors[0]["embedding"].as_array().expect("vectors").clone();
    assert_eq!(vectors.len(), tokens["tokens"].as_array().expect("tokens").len());
    assert!(vectors.iter().all(|vector| vector.as_array().is_some_and(|vector| vector.len() == 256)));
    assert_eq!(server.post("/v1/embeddings", json!({ "input": "x" })).error(400), "invalid_request_error");
}

/// Base64 as bytes.
fn unpacked(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let four = |c: &[u8]| c.iter().fold(0, |all, &c| all << 6 | value(c)).to_be_bytes()[1..].to_vec();
    let mut bytes: Vec<u8> = text.as_bytes().chunks_exact(4).flat_map(four).collect();
    bytes.truncate(bytes.len() - text.bytes().rev().take_while(|&c| c == b'=').count());
    bytes
}
