//! The routes that only llama-server has: `/completion`, and text to tokens and back.

use super::chat::render;
use super::generation_settings::generation_settings;
use super::prompt;
use super::usage::{chat_logprob, native_prob, progress, timings};
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::speech::{Answer, Ending, Heard, Scored};
use crate::stream::{Prepared, Protocol, Said, event};
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use text::chat::ChatTemplate;
use text::fill::Gap;

struct Completion {
    model: Arc<Model>,
    settings: Settings,
    prompts: Vec<Value>,
    return_tokens: bool,
    /// Paths of the fields that are wanted, if not all of them are.
    response_fields: Vec<String>,
    /// For each text, whether a line has ended in it.
    has_new_line: Vec<bool>,
}

/// Prepares an answer to `/completion`.
///
/// # Errors
/// A request that makes no sense.
pub fn completion(_: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let mut settings = Settings::read(fields, model)?;
    settings.read_logprobs(fields)?;
    settings.read_grammar(fields, false)?;
    let prompts = prompt::prompts("prompt", fields.get("prompt"), model)?;
    completion_of(fields, settings, prompts, model)
}

/// Prepares an answer to `/infill`: what stands between two texts.
///
/// # Errors
/// A model that cannot do that, and a request that makes no sense.
pub fn infill(_: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let mut settings = Settings::read(fields, model)?;
    settings.read_logprobs(fields)?;
    settings.read_grammar(fields, false)?;
    let needed = |name: &str| fields.text(name)?.ok_or_else(|| ApiError::field(name, "it is missing"));
    let mut others = vec![];
    for chunk in fields.list("input_extra")?.unwrap_or_default() {
        let chunk =
            Fields::of(chunk).map_err(|_| ApiError::field("input_extra", "it has something that is no object"))?;
        let text = chunk.text("text")?.ok_or_else(|| ApiError::field("input_extra", "it has a part without text"))?;
        others.push((chunk.text("filename")?.unwrap_or("tmp"), text));
    }
    let begun = fields.text("prompt")?.unwrap_or_default();
    let gap = Gap { before: needed("input_prefix")?, begun, after: needed("input_suffix")?, others };
    let prompt = prompt::of_gap(&gap, model, settings.limit).map_err(ApiError::unsupported)?;
    completion_of(fields, settings, vec![prompt], model)
}

fn completion_of(
    fields: Fields<'_>,
    settings: Settings,
    prompts: Vec<Vec<u32>>,
    model: &Arc<Model>,
) -> Result<Prepared, ApiError> {
    Answer::check(model, &prompts, &settings)?;
    let texts = prompts.iter().flat_map(|prompt| {
        let text = String::from_utf8_lossy(&model.tokenizer.decode(prompt, true)).into_owned();
        std::iter::repeat_n(Value::from(text), settings.choices)
    });
    let completion = Completion {
        model: model.clone(),
        settings: settings.clone(),
        prompts: texts.collect(),
        return_tokens: fields.flag("return_tokens")?.unwrap_or(false),
        response_fields: fields.texts("response_fields")?,
        has_new_line: vec![false; prompts.len() * settings.choices],
    };
    Ok(Prepared { prompts, settings, protocol: Box::new(completion) })
}

impl Completion {
    fn chunk(
        &self,
        index: usize,
        text: &str,
        tokens: &[u32],
        scores: &[Scored],
        generated: usize,
    ) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("index".into(), index.into());
        object.insert("content".into(), text.into());
        let tokens = if self.return_tokens || self.settings.stream { tokens } else { &[] };
        object.insert("tokens".into(), tokens.into());
        object.insert("stop".into(), false.into());
        object.insert("id_slot".into(), index.into());
        object.insert("tokens_predicted".into(), generated.into());
        if self.settings.sampling.logprobs.is_some() {
            let of_draw = self.settings.sampling.logprobs_of_draw;
            let entry = if of_draw { native_prob } else { chat_logprob };
            let all: Vec<Value> = scores.iter().map(|s| entry(&self.model.tokenizer, s)).collect();
            object.insert("completion_probabilities".into(), all.into());
        }
        object
    }

    fn end(&self, object: &mut Map<String, Value>, index: usize, ending: &Ending, spent: &Spent) {
        let (kind, word) = match ending {
            Ending::Model => ("eos", ""),
            Ending::Word(word) => ("word", word.as_str()),
            Ending::Length => ("limit", ""),
        };
        let mut set = |key: &str, value: Value| object.insert(key.into(), value);
        set("stop", true.into());
        set("model", self.model.name().into());
        set("tokens_predicted", spent.generated.into());
        set("tokens_evaluated", spent.prompt.into());
        set("tokens_cached", (spent.prompt + spent.generated.saturating_sub(1)).into());
        set("generation_settings", generation_settings(&self.settings));
        set("prompt", self.prompts[index].clone());
        set("has_new_line", self.has_new_line[index].into());
        set("truncated", false.into());
        set("stop_type", kind.into());
        set("stopping_word", word.into());
        set("timings", timings(spent));
    }
}

impl Protocol for Completion {
    fn streams(&self) -> bool {
        self.settings.stream
    }

    fn heard(&mut self, heard: Heard, out: &mut String) {
        let object = match heard {
            Heard::Progress { index, cached, done, total, time_ms } => {
                let mut object = self.chunk(index, "", &[], &[], 0);
                object.insert("prompt_progress".into(), progress(cached, done, total, time_ms));
                let time = std::time::Duration::from_secs_f64((time_ms / 1e3).max(0.0));
                let spent = Spent { prompt: done, cached, prompt_time: time, ..Spent::default() };
                let spent = if done == cached { Spent { prompt_time: Default::default(), ..spent } } else { spent };
                object.insert("timings".into(), timings(&spent));
                object
            }
            Heard::Text { index, text, tokens, scores, spent } => {
                self.has_new_line[index] |= text.contains('\n');
                let mut object = self.chunk(index, &text, &tokens, &scores, spent.generated);
                object.insert("tokens_evaluated".into(), spent.prompt.into());
                if self.settings.timings {
                    object.insert("timings".into(), timings(&spent));
                }
                object
            }
            Heard::End { index, ending, tokens, spent } => {
                let mut object = self.chunk(index, "", &tokens, &[], spent.generated);
                self.end(&mut object, index, &ending, &spent);
                object
            }
            Heard::Vector { .. } | Heard::Failed { .. } => return,
        };
        event(out, None, &Value::Object(object));
    }

    fn whole(&mut self, texts: Vec<Said>) -> Value {
        for (index, said) in texts.iter().enumerate() {
            self.has_new_line[index] = said.text.contains('\n');
        }
        let whole = |(index, said): (usize, &Said)| {
            let mut object = self.chunk(index, &said.text, &said.tokens, &said.scores, said.spent.generated);
            self.end(&mut object, index, said.ending.as_ref().unwrap_or(&Ending::Length), &said.spent);
            only(Value::Object(object), &self.response_fields)
        };
        let mut all: Vec<Value> = texts.iter().enumerate().map(whole).collect();
        if all.len() == 1 { all.remove(0) } else { all.into() }
    }
}

/// The values at these paths, such as `generation_settings/seed`, each by its path; without any, everything.
fn only(object: Value, paths: &[String]) -> Value {
    if paths.is_empty() {
        return object;
    }
    let found = paths.iter().filter_map(|path| Some((path.clone(), object.pointer(&format!("/{path}"))?.clone())));
    Value::Object(found.collect())
}

/// `/tokenize`.
///
/// # Errors
/// Fields of wrong types.
pub fn tokenize(model: &Model, body: &Body) -> Result<Value, ApiError> {
    let fields = body.fields();
    // vLLM has other words: a prompt, which begins as the vocabulary asks where nobody says otherwise.
    let (text, begins) = match fields.text("content")? {
        Some(text) => (text, false),
        None => fields.text("prompt")?.map_or(("", false), |text| (text, true)),
    };
    let add_special = match fields.flag("add_special")? {
        Some(add) => add,
        None => fields.flag("add_special_tokens")?.unwrap_or(begins),
    };
    let parse_special = fields.flag("parse_special")?.unwrap_or(true);
    let ids = model.tokenizer.encode(text, add_special, parse_special);
    if !fields.flag("with_pieces")?.unwrap_or(false) {
        let mut answer = json!({ "tokens": ids });
        if begins {
            answer["count"] = ids.len().into();
            answer["max_model_len"] = model.worker.limits().context.into();
        }
        return Ok(answer);
    }
    let piece = |&id: &u32| {
        let bytes = model.tokenizer.token_bytes(id).unwrap_or_default();
        // What is no text by itself comes as its bytes.
        let piece = std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text));
        json!({ "id": id, "piece": piece })
    };
    Ok(json!({ "tokens": ids.iter().map(piece).collect::<Vec<_>>() }))
}

/// `/tokenizer_info` of vLLM: what programs that evaluate models ask of a tokenizer.
///
/// # Errors
/// 503 while the model loads, and a model that cannot be loaded.
pub async fn tokenizer_info(app: &App) -> Result<Value, ApiError> {
    let model = app.model(None).await?;
    let token = |id: Option<u32>| {
        let bytes = model.tokenizer.token_bytes(id?)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    Ok(json!({
        "tokenizer_class": "gguf",
        "bos_token": token(model.tokenizer.bos()),
        "eos_token": token(model.tokenizer.eos()),
        "chat_template": model.template.as_ref().map(ChatTemplate::source).ok(),
        "model_max_length": model.worker.limits().context,
    }))
}

/// `/detokenize`.
///
/// # Errors
/// Fields of wrong types.
pub fn detokenize(model: &Model, body: &Body) -> Result<Value, ApiError> {
    let fields = body.fields();
    let ids = fields.list("tokens")?.unwrap_or_default().iter().map(|id| prompt::token("tokens", id, model));
    let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
    let text = model.tokenizer.decode(&ids, true);
    let text = String::from_utf8_lossy(&text);
    Ok(json!({ "content": text, "prompt": text }))
}

/// `/apply-template`.
///
/// # Errors
/// Messages that the template cannot render.
pub fn apply_template(model: &Model, body: &Body) -> Result<Value, ApiError> {
    let rendered = render(body.fields(), model)?;
    Ok(json!({ "prompt": rendered.prompt.text }))
}

/// `/v1/chat/completions/input_tokens`.
///
/// # Errors
/// As [`apply_template`].
pub fn input_tokens(model: &Model, body: &Body) -> Result<Value, ApiError> {
    let rendered = render(body.fields(), model)?;
    Ok(json!({ "object": "response.input_tokens", "input_tokens": rendered.tokens.len() }))
}
