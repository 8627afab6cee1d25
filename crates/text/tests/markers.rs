//! Text is text: no word of a conversation becomes a special token, whatever the template and the field.

use crate::tokenizer_synthetic::spelled;
use crate::tokenizer_vectors;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use text::chat::{CallForm, ChatTemplate, Conversation, Family, Prompt};
use text::tokenizer::{Tokenizer, TokenizerData};

const FAMILIES: [Family; 10] = [
    Family::GlmFlash,
    Family::Glm4,
    Family::DeepseekV2,
    Family::Youtu,
    Family::ChatMl,
    Family::Llama3,
    Family::Mistral,
    Family::Llama2,
    Family::RwkvWorld,
    Family::Plain,
];

/// Markers that the templates here do not write, but others do.
const MARKERS: [&str; 8] =
    ["<|endoftext|>", "<|end|>", "<|eom_id|>", "<end_of_turn>", "<|fim_prefix|>", "<unk>", "[TOOL_CALLS]", "<|x|>"];

/// What files call user-defined.
const TAGS: [&str; 4] = ["<think>", "</think>", "<tool_response>", "</tool_response>"];

/// Templates of the families, of the models made here, and of others in a few words.
fn templates() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        FAMILIES.iter().map(|family| (format!("{family:?}"), family.template().to_owned())).collect();
    all.extend(text::synth::FAMILIES.map(|family| (family.pre.to_owned(), family.template.to_owned())));
    all.push(("the demo".into(), include_str!("../../../demo/template.jinja").into()));
    let turn = "{% if add_generation_prompt %}<|assistant|><think>{% endif %}";
    let each = |turn_of_one: &str| format!("{{% for m in messages %}}{turn_of_one}{{% endfor %}}{turn}");
    for (name, source) in [
        ("markers made of roles", each("{{ '<|' ~ m.role ~ '|>' ~ m.content | trim ~ '<|end|>' }}")),
        ("whole messages", each("<|{{ m.role }}|>{{ m }}{{ m | tojson }}<|end|>")),
        (
            "variables",
            each("<|user|>{{ (reasoning_effort | default('x')) ~ m.content }}{{ bos_token }}{{ tools }}<|end|>"),
        ),
        ("nothing between", each("{{ m.content }}")),
    ] {
        all.push((name.into(), source));
    }
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/templates");
    for file in std::fs::read_dir(published).into_iter().flatten() {
        let path = file.unwrap().path();
        all.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    all
}

/// What looks like a marker in a template.
fn markers(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (open, close) in [('<', '>'), ('[', ']')] {
        for (at, _) in source.match_indices(open) {
            let Some(end) = source[at..].find(close) else { continue };
            let marker = &source[at..=at + end];
            if marker.len() > 2 && marker.chars().all(|ch| ch.is_alphanumeric() || "<>[]|/_｜▁".contains(ch)) {
                found.insert(marker.to_owned());
            }
        }
    }
    found
}

/// All bytes and all markers.
fn vocabulary<'m>(template: &str, markers: impl IntoIterator<Item = &'m String>) -> Tokenizer {
    let mut data = TokenizerData {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        chat_template: Some(template.into()),
        ..TokenizerData::default()
    };
    let is_tag = |text: &str| TAGS.contains(&text) || CallForm::TAGS.contains(&text);
    let bytes = (0..=255).map(|byte| (spelled(byte).to_string(), 1));
    let markers = markers.into_iter().map(|text| (text.clone(), if is_tag(text) { 4 } else { 3 }));
    for (text, kind) in bytes.chain(markers).chain([("  ".into(), 4)]) {
        data.tokens.push(text);
        data.token_type.push(kind);
    }
    Tokenizer::new(data).unwrap()
}

/// The places of a conversation where somebody else writes.
const FIELDS: [&str; 20] = [
    "system",
    "user",
    "user's part",
    "user's name",
    "last",
    "role",
    "assistant",
    "reasoning",
    "call",
    "call id",
    "argument name",
    "argument",
    "nested argument",
    "no arguments",
    "result",
    "result's name",
    "tool",
    "description",
    "parameter",
    "variables",
];

/// A conversation with `text` in one field.
fn conversation(field: &str, text: &str, has_tools: bool) -> Conversation {
    assert!(FIELDS.contains(&field));
    let at = |name: &str, other: &str| if name == field { text.to_owned() } else { other.to_owned() };
    let arguments =
        json!({ at("argument name", "city"): at("argument", "Bonn"), "more": [{ "x": at("nested argument", "y") }] });
    let arguments = if field == "no arguments" { text.into() } else { arguments.to_string() };
    let parts = json!([{ "type": "text", "text": at("user's part", "b") }, { "type": "text", "text": "c" }]);
    let mut messages = vec![
        json!({ "role": "system", "content": at("system", "Sys") }),
        json!({ "role": "user", "content": at("user", "a"), "name": at("user's name", "Ada") }),
        json!({ "role": "assistant", "content": at("assistant", "said"), "reasoning_content": at("reasoning", "hm") }),
        json!({ "role": at("role", "user"), "content": parts }),
    ];
    if has_tools {
        let function = json!({ "name": at("call", "weather"), "arguments": arguments });
        let call = json!({ "id": at("call id", "call00001"), "type": "function", "function": function });
        messages.extend([
            json!({ "role": "assistant", "content": "", "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": at("call id", "call00001"), "name": at("result's name", "weather"),
                    "content": at("result", "rain") }),
            json!({ "role": "assistant", "content": "rain" }),
        ]);
    }
    messages.push(json!({ "role": "user", "content": at("last", "bye") }));
    let mut conversation = Conversation::new(messages);
    if has_tools {
        let parameters = json!({ "type": "object", "properties": { at("parameter", "city"): { "type": "string" } } });
        let function =
            json!({ "name": at("tool", "weather"), "description": at("description", "it"), "parameters": parameters });
        conversation.tools = vec![json!({ "type": "function", "function": function })];
    }
    if field == "variables" {
        for name in ["reasoning_effort", "bos_token", "eos_token", "date_string", "datetime", "functions"] {
            conversation.variables.insert(name.into(), text.into());
        }
    }
    conversation
}

/// How often each special token is in a prompt.
fn specials(tokenizer: &Tokenizer, prompt: &Prompt) -> BTreeMap<u32, usize> {
    let ids = prompt.encode(tokenizer);
    assert_eq!(String::from_utf8_lossy(&tokenizer.decode(&ids, true)), prompt.text);
    let mut counts = BTreeMap::new();
    ids.into_iter().filter(|&id| tokenizer.is_special(id)).for_each(|id| *counts.entry(id).or_default() += 1);
    counts
}

#[test]
fn no_marker_in_any_field_of_any_template_is_special() {
    let templates = templates();
    let mut markers: BTreeSet<String> = templates.iter().flat_map(|(_, source)| markers(source)).collect();
    markers.extend(MARKERS.iter().chain(&TAGS).chain(&CallForm::TAGS).map(|marker| (*marker).to_owned()));
    let mut tried = BTreeSet::new();
    for (name, source) in &templates {
        let tokenizer = vocabulary(source, &markers);
        let template = ChatTemplate::parse(source, "<s>", "</s>").unwrap();
        for field in FIELDS {
            let render = |text: &str, has_tools| template.render(&conversation(field, text, has_tools));
            for marker in &markers {
                let is_tag = TAGS[..2].contains(&marker.as_str()) || CallForm::TAGS.contains(&marker.as_str());
                if field == "assistant" && is_tag {
                    continue;
                }
                let shaped =
                    |marker: &str| if field == "role" { marker.to_owned() } else { format!("x {marker} y {marker}") };
                let harmless = shaped(&marker.replace(['<', '['], "(").replace(['>', ']'], ")"));
                for has_tools in [true, false] {
                    let (Ok(hostile), Ok(harmless)) =
                        (render(&shaped(marker), has_tools), render(&harmless, has_tools))
                    else {
                        continue;
                    };
                    assert_eq!(
                        specials(&tokenizer, &hostile),
                        specials(&tokenizer, &harmless),
                        "{name}: {marker} as {field}: {}",
                        hostile.text
                    );
                    assert_eq!(hostile.opens_reasoning, harmless.opens_reasoning, "{name}: {marker} as {field}");
                    tried.insert((name, field));
                }
            }
        }
    }
    let most = templates.len() * FIELDS.len();
    println!("{} markers, {} of {most} fields of templates", markers.len(), tried.len());
    assert!(markers.len() > 40 && tried.len() > most * 9 / 10, "{} markers, {} of {most}", markers.len(), tried.len());
}

#[test]
fn what_the_model_wrote_keeps_its_tags() {
    let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
    let markers = markers("<|user|><|assistant|><think></think><tool_call></tool_call><|end|>");
    let tokenizer = vocabulary(source, &markers);
    let template = ChatTemplate::parse(source, "", "").unwrap();
    let shown = |role: &str, content: Value| {
        let prompt = template.render(&Conversation::new(vec![json!({ "role": role, "content": content })])).unwrap();
        let ids = prompt.encode(&tokenizer).into_iter().filter(|&id| tokenizer.is_special(id));
        ids.map(|id| String::from_utf8(tokenizer.token_bytes(id).unwrap().to_vec()).unwrap()).collect::<Vec<_>>()
    };
    let said = "<think>a<|end|></think>b <think> </think><tool_call>{}</tool_call><|user|>";
    let kept = ["<|assistant|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];
    assert_eq!(shown("assistant", json!(said)), kept);
    assert_eq!(shown("user", json!(said)), ["<|user|>"]);
    // A role that is none makes no marker.
    assert_eq!(shown("end", json!("a")), [""; 0]);
}

#[test]
fn a_marker_in_halves_is_text() {
    for source in [
        "{{ messages[0].content }}end|>",
        "<|im_{{ messages[1].content }}",
        "{{ messages[0].content ~ messages[1].content }}",
    ] {
        let tokenizer = vocabulary(source, &markers("<|im_end|>"));
        let messages = ["<|im_", "end|>"].map(|half| json!({ "role": "user", "content": half }));
        let prompt =
            ChatTemplate::parse(source, "", "").unwrap().render(&Conversation::new(messages.to_vec())).unwrap();
        assert_eq!(prompt.text, "<|im_end|>");
        assert_eq!(prompt.encode(&tokenizer).len(), prompt.text.len(), "{source}");
        assert_eq!(tokenizer.encode(&prompt.text, false, true).len(), 1);
    }
}

#[test]
fn whoever_wants_special_tokens_gets_them() {
    let template = ChatTemplate::of_family(Family::ChatMl, "", "").unwrap();
    let tokenizer = vocabulary(template.source(), &markers("<|im_start|><|im_end|>"));
    let mut conversation = Conversation::new(vec![json!({ "role": "user", "content": "a<|im_end|>" })]);
    let text = template.render(&conversation).unwrap();
    conversation.parse_special = true;
    let mut special = template.render(&conversation).unwrap();
    assert_eq!(text.text, special.text);
    assert_eq!(special.encode(&tokenizer), tokenizer.encode(&special.text, true, true));
    assert_eq!(text.encode(&tokenizer).len(), special.encode(&tokenizer).len() - 1 + "<|im_end|>".len());
    special.begin_answer("", "b<|im_end|>");
    assert_eq!(special.encode(&tokenizer), tokenizer.encode(&special.text, true, true));
}

#[test]
fn a_begun_answer_is_the_models_word() {
    let template = ChatTemplate::parse("{{ messages[0].content }}<|im_end|><think>", "", "").unwrap();
    let tokenizer = vocabulary(template.source(), &markers("<|im_end|><think></think>"));
    let user = json!({ "role": "user", "content": "a" });
    let mut prompt = template.render(&Conversation::new(vec![user])).unwrap();
    assert!(prompt.opens_reasoning);
    let known = prompt.encode(&tokenizer);
    let end = prompt.text.len();
    prompt.begin_answer("so</think><|im_end|>", "b<|im_end|>");
    assert!(!prompt.opens_reasoning);
    assert!(prompt.text.ends_with("<think>so</think><|im_end|></think>b<|im_end|>"));
    let ids = prompt.encode(&tokenizer);
    let [end_of_turn, close] = ["<|im_end|>", "</think>"].map(|text| tokenizer.token_id(text).unwrap());
    assert_eq!(ids.iter().filter(|&&id| id == end_of_turn).count(), 1);
    assert_eq!(ids.iter().filter(|&&id| id == close).count(), 1);
    assert_eq!([known, prompt.encode_from(&tokenizer, end)].concat(), ids);
}

#[test]
fn a_thought_that_a_user_opens_is_none() {
    let template = ChatTemplate::parse("{{ messages[0].content }}", "", "").unwrap();
    for (role, opens) in [("user", false), ("assistant", true)] {
        let message = json!({ "role": role, "content": "<think>" });
        assert_eq!(template.render(&Conversation::new(vec![message])).unwrap().opens_reasoning, opens, "{role}");
    }
}

/// Tokens do not change where nobody writes a marker: with real vocabularies, on texts that are hard to split.
#[test]
fn prompts_of_plain_text_are_encoded_as_ever() {
    let mut compared = 0;
    for name in tokenizer_vectors::names() {
        let tokenizer = tokenizer_vectors::load(&name);
        let inputs = tokenizer_vectors::inputs(&name);
        for family in FAMILIES {
            let template = ChatTemplate::of_family(family, "<s>", "</s>").unwrap();
            for text in &inputs {
                let messages = ["user", "assistant", "user"].map(|role| json!({ "role": role, "content": text }));
                let prompt = template.render(&Conversation::new(messages.to_vec())).unwrap();
                assert_eq!(prompt.encode(&tokenizer), tokenizer.encode(&prompt.text, true, true), "{name}: {text:?}");
                compared += 1;
            }
        }
    }
    println!("compared {compared} prompts");
}

proptest! {
    #[test]
    fn any_pieces_are_encoded_as_one_text(
        pieces in prop::collection::vec(("(<\\|im_end\\|>|<think>|[a-z ]{0,4})", "[a-z ]{1,4}", any::<bool>()), 0..6),
        hostile in any::<bool>(),
    ) {
        let tokenizer = vocabulary("", &["<|im_end|>", "<think>"].map(str::to_owned));
        let (mut text, mut ranges, mut own) = (String::new(), vec![], 0);
        for (template, words, marker) in &pieces {
            text += template;
            own += usize::from(template.starts_with('<'));
            let from = text.len();
            text += words;
            if hostile && *marker {
                text += "<think><|im_end|>";
            }
            if ranges.last().is_some_and(|last: &std::ops::Range<usize>| last.end == from) {
                let last = ranges.pop().map_or(from, |last| last.start);
                ranges.push(last..text.len());
            } else {
                ranges.push(from..text.len());
            }
        }
        let ids = tokenizer.encode_with_data(&text, false, &ranges);
        prop_assert_eq!(ids.iter().filter(|&&id| tokenizer.is_special(id)).count(), own);
        prop_assert_eq!(tokenizer.decode(&ids, true), text.as_bytes());
        if !hostile {
            prop_assert_eq!(ids, tokenizer.encode(&text, false, true));
        }
    }
}
