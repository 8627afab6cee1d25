//! The samplers of llama-server, by its names.

use super::server::Server;
use serde_json::{Value, json};

/// Each has an effect, or is refused.
pub(super) fn all_have_an_effect_or_are_refused(server: &Server) {
    let ask = |more: Value| {
        let mut body = json!({ "prompt": "word word word", "n_predict": 12, "seed": 1, "ignore_eos": true });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.post("/completion", body)
    };
    let text = |more: Value| {
        let answer = ask(more).json();
        assert_eq!(answer["tokens_predicted"], 12, "{answer}");
        answer["content"].as_str().expect("text").to_owned()
    };
    let greedy = text(json!({ "temperature": 0 }));
    assert_eq!(text(json!({ "samplers": ["top_k"], "top_k": 1 })), greedy);
    assert_eq!(text(json!({ "samplers": "k", "top_k": 1 })), greedy);
    assert_eq!(text(json!({ "top_n_sigma": 1e-6 })), greedy);
    assert_eq!(text(json!({ "mirostat": 2, "mirostat_tau": 0 })), greedy);
    assert_eq!(text(json!({ "typical_p": 0.5 })), text(json!({ "typical_p": 0.5 })), "a seed decides");
    let warm = json!({ "temperature": 3, "top_k": 0, "top_p": 1, "min_p": 0 });
    let changed = |more: Value| {
        let mut all = warm.clone();
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        assert_ne!(text(all), text(warm.clone()), "{more}");
    };
    changed(json!({ "typical_p": 0.1 }));
    changed(json!({ "xtc_probability": 1, "xtc_threshold": 0.00001 }));
    changed(json!({ "dynatemp_range": 2.9 }));
    changed(json!({ "mirostat": 1, "mirostat_tau": 1, "mirostat_eta": 0.5 }));
    // Whatever would go on with a passage is forbidden, and so a greedy text that runs in a circle does not.
    let again = text(
        json!({ "temperature": 0, "dry_multiplier": 1000, "dry_allowed_length": 1, "dry_sequence_breakers": ["\n"] }),
    );
    let known = |piece: &str| greedy.matches(piece).count();
    assert!(again != greedy || known(&greedy[..greedy.len() / 4]) < 2, "{again}");
    let told = ask(json!({ "dry_multiplier": 0.5, "samplers": ["dry", "temperature"] })).json();
    let told = &told["generation_settings"];
    assert_eq!((&told["dry_multiplier"], &told["samplers"]), (&json!(0.5), &json!(["dry", "temperature"])));
    assert_eq!((&told["mirostat"], &told["dry_penalty_last_n"]), (&json!(0), &json!(1024)));
    for wrong in [
        json!({ "samplers": ["infill"] }),
        json!({ "samplers": "kk" }),
        json!({ "samplers": 1 }),
        json!({ "mirostat": 3 }),
        json!({ "typical_p": 2 }),
        json!({ "dry_base": 0.5, "dry_multiplier": 1 }),
        json!({ "dry_sequence_breakers": vec!["a"; 17] }),
    ] {
        ask(wrong).error(400);
    }
}
