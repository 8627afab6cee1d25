//! What an answer took, in the words of each API.

use crate::speech::Scored;
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::time::Duration;
use text::tokenizer::Tokenizer;

/// `usage` of OpenAI.
pub fn usage<'a>(spent: impl IntoIterator<Item = &'a Spent>) -> Value {
    let (mut prompt, mut cached, mut generated) = (0, 0, 0);
    for spent in spent {
        prompt += spent.prompt;
        cached += spent.cached;
        generated += spent.generated;
    }
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": { "cached_tokens": cached },
    })
}

/// `timings` of llama-server: finite, never null. The first token costs no step, so rates are over the others.
pub fn timings(spent: &Spent) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let per = |time: f64, count: usize| if count > 0 { time / count as f64 } else { 0.0 };
    let rate = |time: f64, count: usize| if count > 0 && time > 0.0 { 1e3 / time * count as f64 } else { 0.0 };
    let prompt = spent.prompt.saturating_sub(spent.cached);
    let steps = spent.generated.saturating_sub(1);
    let (prompt_ms, predicted_ms) = (ms(spent.prompt_time), ms(spent.decode_time));
    json!({
        "cache_n": spent.cached,
        "prompt_n": prompt,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": per(prompt_ms, prompt),
        "prompt_per_second": rate(prompt_ms, prompt),
        "predicted_n": spent.generated,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": per(predicted_ms, steps),
        "predicted_per_second": rate(predicted_ms, steps),
    })
}

/// `prompt_progress` of llama-server: how much of a prompt is done.
pub fn progress(cached: usize, done: usize, total: usize, time_ms: f64) -> Value {
    json!({ "total": total, "cache": cached, "processed": done, "time_ms": time_ms })
}

fn text(tokenizer: &Tokenizer, id: u32) -> (String, Vec<u8>) {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
}

/// An entry of `logprobs.content`.
pub fn chat_logprob(tokenizer: &Tokenizer, scored: &Scored) -> Value {
    let entry = |token: &text::sampler::Logprob| {
        let (text, bytes) = text(tokenizer, token.id);
        let mut entry = Map::new();
        entry.insert("id".into(), token.id.into());
        entry.insert("token".into(), text.into());
        entry.insert("bytes".into(), bytes.into());
        entry.insert("logprob".into(), finite(token.logprob));
        entry
    };
    let mut object = entry(&scored.token);
    let top: Vec<Value> = scored.top.iter().map(|token| Value::Object(entry(token))).collect();
    object.insert("top_logprobs".into(), top.into());
    Value::Object(object)
}

/// As [`chat_logprob`], with probabilities: llama-server's form for those that a token was drawn by.
pub fn native_prob(tokenizer: &Tokenizer, scored: &Scored) -> Value {
    let entry = |token: &text::sampler::Logprob| {
        let (text, bytes) = text(tokenizer, token.id);
        json!({ "id": token.id, "token": text, "bytes": bytes, "prob": token.logprob.exp() })
    };
    let mut object = entry(&scored.token);
    object["top_probs"] = scored.top.iter().filter(|token| token.logprob.exp() > 0.0).map(entry).collect();
    object
}

/// `logprobs` of the older completions API; `offset` is that of the first token in the text. A token that is `unscored` goes
/// first: that which a prompt begins with.
pub fn completion_logprobs(
    tokenizer: &Tokenizer,
    unscored: Option<u32>,
    scores: &[Scored],
    offset: &mut usize,
) -> Value {
    let (mut tokens, mut logprobs, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
    if let Some(id) = unscored {
        let (token, _) = text(tokenizer, id);
        offsets.push(*offset);
        *offset += token.chars().count();
        tokens.push(token);
        logprobs.push(Value::Null);
        tops.push(Value::Null);
    }
    for scored in scores {
        let (token, _) = text(tokenizer, scored.token.id);
        offsets.push(*offset);
        *offset += token.chars().count();
        tokens.push(token);
        logprobs.push(finite(scored.token.logprob));
        let mut top = Map::new();
        for token in &scored.top {
            // Of tokens that print alike, the likeliest.
            top.entry(text(tokenizer, token.id).0).or_insert_with(|| finite(token.logprob));
        }
        tops.push(Value::Object(top));
    }
    json!({ "tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets })
}

/// JSON has no infinity.
fn finite(logprob: f32) -> Value {
    json!(f64::from(logprob.max(-9999.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_finite_and_rates_leave_the_first_token_out() {
        let one = Spent { prompt: 5, cached: 5, generated: 1, ..Spent::default() };
        let t = timings(&one);
        for (name, value) in t.as_object().unwrap() {
            assert!(value.as_f64().is_some_and(|n| n >= 0.0), "{name}");
        }
        assert_eq!(t["predicted_per_second"], 0.0);
        let spent =
            Spent { prompt: 9, cached: 4, generated: 3, decode_time: Duration::from_secs(1), ..Spent::default() };
        assert_eq!(timings(&spent)["predicted_per_second"], 2.0);
        assert_eq!(usage([&spent, &one])["prompt_tokens_details"]["cached_tokens"], 9);
        assert_eq!(usage([&spent])["total_tokens"], 12);
    }
}
