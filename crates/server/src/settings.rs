//! How a request wants its text: the fields that all of the APIs share.

use crate::budget::{BIASES, BREAKERS_OF_A_REQUEST, CHOICES, LOGPROBS, STOP_BYTES, STOPS};
use crate::error::ApiError;
use crate::fields::{Fields, whole};
use crate::grammar::Rule;
use crate::served::{Defaults, Model};
use crate::shelf::Stay;
use model::scheduler::Pooling;
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};
use text::sampler::{BREAKERS, Breakers, SETTINGS, SamplerConfig, Stage, UnknownStage};

/// How a request wants its text.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How tokens are chosen.
    pub sampling: SamplerConfig,
    /// Most tokens of a text.
    pub limit: Option<usize>,
    /// Strings that end a text and are not part of it.
    pub stops: Vec<String>,
    /// Texts of each prompt.
    pub choices: usize,
    /// Whether text is sent as it comes.
    pub stream: bool,
    /// Whether a stream ends with a word about usage.
    pub include_usage: bool,
    /// Whether every chunk has times.
    pub timings: bool,
    /// Whether a stream says how far the prompt is.
    pub progress: bool,
    /// Whether the model may not end its text.
    pub ignore_ends: bool,
    /// Whether control tokens are part of the text.
    pub special: bool,
    /// What the text has to follow.
    pub rule: Option<Rule>,
    /// Instead of text, a vector of the prompt.
    pub pooling: Option<Pooling>,
    /// Beside the text, the log-probabilities of the tokens of the prompt with those of so many likeliest.
    pub score: Option<usize>,
    /// How long the model stays loaded afterwards, if the request says.
    pub stay: Option<Stay>,
}

impl Settings {
    /// From the fields of a request.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn read(fields: Fields<'_>, model: &Model) -> Result<Settings, ApiError> {
        let mut settings = Settings::of_defaults(&model.defaults);
        settings.read_sampling(fields, model)?;
        for name in ["max_completion_tokens", "max_tokens", "n_predict", "max_output_tokens"] {
            // Many clients ask for more than there is: the context bounds it anyway. Below 0 is no limit.
            if let Some(limit) = fields.integer(name)? {
                settings.limit = usize::try_from(limit).ok();
                break;
            }
        }
        settings.read_stops(fields)?;
        settings.choices = fields.integer_in("n", 1..=CHOICES)?.unwrap_or(1) as usize;
        settings.stream = fields.flag("stream")?.unwrap_or(false);
        if let Some(options) = fields.object("stream_options")? {
            settings.include_usage = options.flag("include_usage")?.unwrap_or(false);
        }
        settings.timings = fields.flag("timings_per_token")?.unwrap_or(false);
        settings.progress = settings.stream && fields.flag("return_progress")?.unwrap_or(false);
        Ok(settings)
    }

    /// Reads the strings that end a text.
    ///
    /// # Errors
    /// Too many, or something else.
    pub fn read_stops(&mut self, fields: Fields<'_>) -> Result<(), ApiError> {
        self.stops = fields.texts("stop")?;
        self.stops.extend(fields.texts("stop_sequences")?);
        if self.stops.len() > STOPS || self.stops.iter().map(String::len).sum::<usize>() > STOP_BYTES {
            let problem = format!("more than {STOPS} strings, or than {STOP_BYTES} bytes in them");
            return Err(ApiError::field("stop", problem));
        }
        Ok(())
    }

    /// What a request gets that says nothing.
    pub fn of_defaults(defaults: &Defaults) -> Settings {
        let mut sampling = defaults.sampling.clone();
        sampling.seed = defaults.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Settings {
            sampling,
            limit: defaults.limit,
            stops: vec![],
            choices: 1,
            stream: false,
            include_usage: false,
            timings: false,
            progress: false,
            ignore_ends: false,
            special: false,
            rule: None,
            pooling: None,
            score: None,
            stay: None,
        }
    }

    /// Reads how tokens are chosen.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn read_sampling(&mut self, fields: Fields<'_>, model: &Model) -> Result<(), ApiError> {
        let s = &mut self.sampling;
        for setting in SETTINGS {
            let value = match setting.whole {
                true => fields.integer(setting.name)?.map(|n| n as f64),
                false => fields.number(setting.name)?.map(f64::from),
            };
            if let Some(value) = value {
                setting.set(s, value);
            }
        }
        // A negative temperature is greedy in llama-server.
        s.temperature = s.temperature.max(0.0);
        let context = model.worker.limits().context;
        s.penalty_window = s.penalty_window.min(context);
        s.dry.window = s.dry.window.min(context);
        if let Some(order) = fields.get("samplers") {
            s.order = stages(order)?;
        }
        let breakers = fields.texts("dry_sequence_breakers")?;
        if breakers.len() > BREAKERS_OF_A_REQUEST {
            return Err(ApiError::field("dry_sequence_breakers", format!("more than {BREAKERS_OF_A_REQUEST}")));
        }
        // They are looked for in the whole vocabulary, which was done when the server began if DRY was on then.
        if s.dry.multiplier > 0.0 {
            match breakers.as_slice() {
                [] if model.defaults.sampling.dry.multiplier > 0.0 => {}
                [] => s.dry.breakers = Breakers::of(&BREAKERS, &model.tokenizer),
                texts => s.dry.breakers = Breakers::of(texts, &model.tokenizer),
            }
        }
        if let Some(seed) = fields.get("seed") {
            let seed = seed.as_u64().or_else(|| whole(seed).map(|n| n as u64));
            let seed = seed.ok_or_else(|| ApiError::field("seed", "it is not a whole number"))?;
            // -1 asks for another one each time.
            if seed != u64::MAX && seed != u64::from(u32::MAX) {
                s.seed = seed;
            }
        }
        s.logit_bias = match fields.get("logit_bias") {
            Some(bias) => logit_bias(bias, model)?,
            None => vec![],
        };
        self.ignore_ends = fields.flag("ignore_eos")?.unwrap_or(false);
        if self.ignore_ends {
            let never = model.tokenizer.end_tokens().iter().map(|&id| (id, f32::NEG_INFINITY));
            self.sampling.logit_bias.extend(never);
        }
        self.sampling.check(model.worker.limits().vocab)?;
        Ok(())
    }

    /// Asks for log-probabilities of so many tokens: a number, or `true` with a number elsewhere.
    ///
    /// # Errors
    /// Too many.
    pub fn read_logprobs(&mut self, fields: Fields<'_>) -> Result<(), ApiError> {
        let number = match fields.get("logprobs") {
            Some(Value::Bool(true)) => fields.integer_in("top_logprobs", 0..=LOGPROBS)?.or(Some(0)),
            Some(Value::Bool(false)) | None => {
                if fields.integer("top_logprobs")?.is_some_and(|n| n > 0) {
                    return Err(ApiError::field("top_logprobs", "it needs \"logprobs\": true"));
                }
                fields.integer_in("n_probs", 0..=LOGPROBS)?.filter(|&n| n > 0)
            }
            Some(_) => fields.integer_in("logprobs", 0..=LOGPROBS)?,
        };
        self.sampling.logprobs = number.map(|n| n as usize);
        self.sampling.logprobs_of_draw = fields.flag("post_sampling_probs")?.unwrap_or(false);
        Ok(())
    }

    /// Reads what the text has to follow. `after_thought` says that the model thinks first.
    ///
    /// # Errors
    /// A grammar that cannot be read.
    pub fn read_grammar(&mut self, fields: Fields<'_>, after_thought: bool) -> Result<(), ApiError> {
        self.rule = Rule::read(fields, after_thought)?;
        Ok(())
    }
}

/// Names in a list, or a letter for each in a string, as llama-server takes them.
fn stages(value: &Value) -> Result<Vec<Stage>, ApiError> {
    let wrong = |problem: String| ApiError::field("samplers", problem);
    match value {
        Value::String(letters) => Stage::letters(letters).map_err(|error| wrong(error.to_string())),
        Value::Array(names) => names
            .iter()
            .map(|name| name.as_str().ok_or_else(|| wrong(format!("{name} is no name"))))
            .map(|name| name?.parse().map_err(|error: UnknownStage| wrong(error.to_string())))
            .collect(),
        _ => Err(wrong("it is neither a list of names nor a string of letters".into())),
    }
}

/// `{"15043": -100}`, or `[[15043, -1.0], ["text", false]]` as llama-server takes it.
fn logit_bias(value: &Value, model: &Model) -> Result<Vec<(u32, f32)>, ApiError> {
    let wrong = |problem: String| ApiError::field("logit_bias", problem);
    let vocab = model.worker.limits().vocab;
    let mut out = vec![];
    let mut add = |token: &Value, bias: &Value| {
        let bias = match bias {
            Value::Bool(false) => f32::NEG_INFINITY,
            bias => bias.as_f64().ok_or_else(|| wrong(format!("{bias} is not a number")))? as f32,
        };
        let ids = match token {
            Value::String(text) => match text.parse::<u32>() {
                Ok(id) => vec![id],
                Err(_) => model.tokenizer.encode(text, false, true),
            },
            token => vec![token.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX)],
        };
        if out.len() + ids.len() > BIASES {
            return Err(wrong(format!("more than {BIASES} tokens")));
        }
        for id in ids {
            if id as usize >= vocab {
                return Err(wrong(format!("{token} is no token")));
            }
            // OpenAI's -100 forbids a token.
            out.push((id, if bias <= -100.0 { f32::NEG_INFINITY } else { bias.clamp(-1e9, 1e9) }));
        }
        Ok(())
    };
    match value {
        Value::Object(all) => all.iter().try_for_each(|(token, bias)| add(&Value::from(token.as_str()), bias))?,
        Value::Array(all) => all.iter().try_for_each(|pair| match pair.as_array().map(Vec::as_slice) {
            Some([token, bias]) => add(token, bias),
            _ => Err(wrong(format!("{pair} is not a pair of a token and a number"))),
        })?,
        _ => return Err(wrong("it is not an object from token ids to numbers".into())),
    }
    Ok(out)
}
