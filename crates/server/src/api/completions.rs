//! `/v1/completions`: text after text, without a template.

use super::chat::Head;
use super::prompt;
use super::usage::{completion_logprobs, progress, timings, usage};
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::speech::{Answer, Heard, Scored};
use crate::stream::{Prepared, Protocol, Said, event};
use model::scheduler::Spent;
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct Completion {
    head: Head,
    model: Arc<Model>,
    settings: Settings,
    /// For each text.
    texts: Vec<Text>,
    spent: Vec<Spent>,
}

/// One of the texts.
#[derive(Clone)]
struct Text {
    /// Its prompt, if that is to be repeated.
    prompt: String,
    /// The first token of the prompt, until it is told: nothing says how likely that is.
    first: Option<u32>,
    /// The place of the next token in the text.
    offset: usize,
}

/// Prepares an answer.
///
/// # Errors
/// A request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let mut settings = Settings::read(fields, model)?;
    settings.read_logprobs(fields)?;
    settings.read_grammar(fields, false)?;
    let prompts = match prompt::before_suffix(fields, model, settings.limit)? {
        Some(prompt) => vec![prompt],
        None => prompt::prompts("prompt", fields.get("prompt"), model)?,
    };
    Answer::check(model, &prompts, &settings)?;
    let echo = fields.flag("echo")?.unwrap_or(false);
    refuse(fields, &settings)?;
    settings.score = settings.sampling.logprobs.filter(|_| echo);
    let of_prompt = |prompt: &Vec<u32>| {
        let text = if echo { model.tokenizer.decode(prompt, false) } else { vec![] };
        let first = prompt.first().copied().filter(|_| settings.score.is_some());
        let text = Text { prompt: String::from_utf8_lossy(&text).into_owned(), first, offset: 0 };
        std::iter::repeat_n(text, settings.choices)
    };
    let texts: Vec<Text> = prompts.iter().flat_map(of_prompt).collect();
    let completion = Completion {
        head: Head::new(app.id("cmpl-"), fields, model)?,
        model: model.clone(),
        settings: settings.clone(),
        spent: vec![Spent::default(); texts.len()],
        texts,
    };
    Ok(Prepared { prompts, settings, protocol: Box::new(completion) })
}

/// Refuses what would change the text and is not there, rather than answer something else.
fn refuse(fields: Fields<'_>, settings: &Settings) -> Result<(), ApiError> {
    if fields.integer("best_of")?.is_some_and(|best| best > settings.choices as i64) {
        return Err(ApiError::field("best_of", "texts are not chosen among here; ask for all of them with n"));
    }
    Ok(())
}

impl Completion {
    fn logprobs(&mut self, index: usize, scores: &[Scored]) -> Value {
        if self.settings.sampling.logprobs.is_none() {
            return Value::Null;
        }
        let text = &mut self.texts[index];
        completion_logprobs(&self.model.tokenizer, text.first.take(), scores, &mut text.offset)
    }

    fn chunk(&self, out: &mut String, index: usize, text: &str, logprobs: Value, end: Option<(&str, &Spent)>) {
        let finish = end.map(|(reason, _)| reason);
        let choice = json!({ "text": text, "index": index, "logprobs": logprobs, "finish_reason": finish });
        let mut object = self.head.object("text_completion", json!([choice]));
        if let Some((_, spent)) = end {
            object.insert("timings".into(), timings(spent));
        }
        event(out, None, &Value::Object(object));
    }

    /// Usage of texts; a prompt counts once.
    fn usage(&self, spent: &[Spent]) -> Value {
        let first = |at: usize| at.is_multiple_of(self.settings.choices);
        let once = |(at, s): (usize, &Spent)| if first(at) { *s } else { Spent { prompt: 0, cached: 0, ..*s } };
        usage(&spent.iter().enumerate().map(once).collect::<Vec<_>>())
    }
}

impl Protocol for Completion {
    fn streams(&self) -> bool {
        self.settings.stream
    }

    fn start(&mut self, out: &mut String) {
        for index in 0..self.texts.len() {
            if !self.texts[index].prompt.is_empty() {
                self.chunk(out, index, &self.texts[index].prompt, Value::Null, None);
            }
        }
    }

    fn heard(&mut self, heard: Heard, out: &mut String) {
        match heard {
            Heard::Progress { index, cached, done, total, time_ms } => {
                let choice = json!({ "text": "", "index": index, "logprobs": null, "finish_reason": null });
                let mut object = self.head.object("text_completion", json!([choice]));
                object.insert("prompt_progress".into(), progress(cached, done, total, time_ms));
                event(out, None, &Value::Object(object));
            }
            Heard::Text { index, text, scores, .. } => {
                let logprobs = self.logprobs(index, &scores);
                self.chunk(out, index, &text, logprobs, None);
            }
            Heard::End { index, ending, spent, .. } => {
                self.spent[index] = spent;
                self.chunk(out, index, "", Value::Null, Some((ending.reason(), &spent)));
            }
            Heard::Vector { .. } | Heard::Failed { .. } => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        if self.settings.include_usage {
            let mut object = self.head.object("text_completion", json!([]));
            object.insert("usage".into(), self.usage(&self.spent));
            event(out, None, &Value::Object(object));
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn whole(&mut self, texts: Vec<Said>) -> Value {
        let mut choices = vec![];
        for (index, said) in texts.iter().enumerate() {
            let reason = said.ending.as_ref().map_or("length", |ending| ending.reason());
            let logprobs = self.logprobs(index, &said.scores);
            let mut choice = Map::new();
            choice.insert("text".into(), (self.texts[index].prompt.clone() + &said.text).into());
            choice.insert("index".into(), index.into());
            choice.insert("logprobs".into(), logprobs);
            choice.insert("finish_reason".into(), reason.into());
            choices.push(Value::Object(choice));
        }
        let mut object = self.head.object("text_completion", choices.into());
        let spent: Vec<Spent> = texts.iter().map(|said| said.spent).collect();
        object.insert("usage".into(), self.usage(&spent));
        object.insert("timings".into(), timings(&spent.first().copied().unwrap_or_default()));
        Value::Object(object)
    }
}
