//! From tokens on the engine's thread to text for a connection.
//!
//! The engine's side (`Speech`) turns tokens into whole characters and ends the text at a stop string, so that no
//! token is computed after it. The connection's side ([`Answer`]) waits for what was heard. When a connection goes, its
//! answer is dropped, and the engine finds the request closed before its next step.

use crate::app::App;
use crate::budget::{TEXTS, UNHEARD_BYTES};
use crate::error::ApiError;
use crate::grammar::Grammar;
use crate::metrics::Metrics;
use crate::served::Model;
use model::scheduler::{Failure, Job, Sink, Spent};
use model::sequence::{Event, Finish, Request};
use std::mem::size_of;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use text::sampler::{Logprob, StopStrings};
use text::tokenizer::Detokenizer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::settings::Settings;

/// Log-probabilities of a prompt that are told together.
const SCORES_AT_ONCE: usize = 64;

/// A token with its log-probability and those of the likeliest.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The token.
    pub token: Logprob,
    /// The likeliest, likeliest first.
    pub top: Vec<Logprob>,
}

/// Why a text ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The model ended it.
    Model,
    /// A stop string.
    Word(String),
    /// As many tokens as were asked for, or as fit.
    Length,
}

impl Ending {
    /// In OpenAI's words.
    pub fn reason(&self) -> &'static str {
        match self {
            Ending::Model | Ending::Word(_) => "stop",
            Ending::Length => "length",
        }
    }
}

/// What happened to one of the texts of a request.
#[derive(Clone, Debug)]
pub enum Heard {
    /// So much of the prompt is done.
    Progress {
        /// Which text.
        index: usize,
        /// Tokens that the cache held.
        cached: usize,
        /// Tokens done.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// Milliseconds since the text got its place.
        time_ms: f64,
    },
    /// More text.
    Text {
        /// Which text.
        index: usize,
        /// Whole characters; empty if the tokens are wanted and complete none.
        text: String,
        /// The tokens that it is made of, with those that printed nothing before.
        tokens: Vec<u32>,
        /// With their log-probabilities, if those are wanted.
        scores: Vec<Scored>,
        /// What was spent so far.
        spent: Spent,
    },
    /// Instead of text, the vector of a prompt.
    Vector {
        /// Which prompt.
        index: usize,
        /// As the model made it.
        vector: Vec<f32>,
    },
    /// A text is over.
    End {
        /// Which text.
        index: usize,
        /// Why.
        ending: Ending,
        /// The last tokens, if they printed nothing.
        tokens: Vec<u32>,
        /// What it took.
        spent: Spent,
    },
    /// A text cannot go on.
    Failed {
        /// Why.
        failure: Failure,
    },
}

impl Heard {
    /// Bytes that it takes until it is heard.
    fn bytes(&self) -> usize {
        let held = match self {
            Heard::Text { text, tokens, scores, .. } => {
                let top: usize = scores.iter().map(|score| size_of::<Scored>() + size_of_val(&score.top[..])).sum();
                text.len() + size_of_val(&tokens[..]) + top
            }
            Heard::Vector { vector, .. } => size_of_val(&vector[..]),
            Heard::End { tokens, .. } => size_of_val(&tokens[..]),
            Heard::Progress { .. } | Heard::Failed { .. } => 0,
        };
        size_of::<Heard>() + held
    }
}

/// The engine's side.
struct Speech {
    index: usize,
    model: Arc<Model>,
    app: Arc<App>,
    sender: UnboundedSender<Heard>,
    /// Bytes that were told and not heard, of all texts of the request.
    unheard: Arc<AtomicUsize>,
    detokenizer: Detokenizer,
    stops: StopStrings,
    words: Vec<String>,
    stopped: Option<usize>,
    tokens: Vec<u32>,
    scores: Vec<Scored>,
    wants_progress: bool,
    began: Instant,
    placed: Option<Instant>,
    last_token: Option<Instant>,
    spent: Spent,
}

impl Speech {
    fn tell(&self, heard: Heard) -> ControlFlow<()> {
        // A vector comes at once and whole, however long.
        let is_held_up = matches!(heard, Heard::Text { .. }) && self.unheard.load(Ordering::Relaxed) > UNHEARD_BYTES;
        self.unheard.fetch_add(heard.bytes(), Ordering::Relaxed);
        if !is_held_up && self.sender.send(heard).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn say(&mut self, text: String) -> ControlFlow<()> {
        if text.is_empty() && self.scores.is_empty() {
            return ControlFlow::Continue(());
        }
        let (tokens, scores) = (std::mem::take(&mut self.tokens), std::mem::take(&mut self.scores));
        self.tell(Heard::Text { index: self.index, text, tokens, scores, spent: self.spent })
    }

    fn metrics(&self) -> &Metrics {
        &self.app.metrics
    }

    fn token(&mut self, id: u32) -> ControlFlow<()> {
        let now = Instant::now();
        match self.last_token.replace(now) {
            None => {
                self.metrics().first_token(now - self.began);
                self.spent.prompt_time = self.placed.map_or_else(Default::default, |placed| now - placed);
                self.placed = Some(now);
            }
            Some(last) => self.metrics().next_token(now - last),
        }
        self.spent.generated += 1;
        self.spent.decode_time = self.placed.map_or_else(Default::default, |first| now - first);
        self.tokens.push(id);
        let piece = self.detokenizer.push(&self.model.tokenizer, id);
        let (text, stopped) = self.stops.push(piece);
        let text = text.to_owned();
        self.stopped = stopped.map(|stopped| stopped.string);
        self.say(text)?;
        if self.stopped.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Says what was held back, and why the text is over.
    fn finish(&mut self, finish: Finish, spent: Spent) -> ControlFlow<()> {
        self.metrics().spent(&spent);
        self.spent = spent;
        let rest = if self.stopped.is_some() {
            String::new()
        } else {
            let last = self.detokenizer.finish().to_owned();
            let (text, stopped) = self.stops.push(&last);
            let text = text.to_owned();
            self.stopped = stopped.map(|stopped| stopped.string);
            if self.stopped.is_some() { text } else { text + self.stops.finish() }
        };
        self.say(rest)?;
        let ending = match (self.stopped, finish) {
            (Some(word), _) => Ending::Word(self.words[word].clone()),
            (None, Finish::End | Finish::Stopped) => Ending::Model,
            (None, Finish::Limit | Finish::ContextFull) => Ending::Length,
        };
        let tokens = std::mem::take(&mut self.tokens);
        self.tell(Heard::End { index: self.index, ending, tokens, spent })
    }
}

impl Sink for Speech {
    fn event(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Prompt { cached, done, total } => {
                let now = Instant::now();
                let placed = *self.placed.get_or_insert(now);
                self.spent.prompt = total;
                self.spent.cached = cached;
                self.spent.waited = placed - self.began;
                if !self.wants_progress {
                    return self.say(String::new());
                }
                self.say(String::new())?;
                let time_ms = (now - placed).as_secs_f64() * 1e3;
                self.tell(Heard::Progress { index: self.index, cached, done, total, time_ms })
            }
            Event::Token { sampled, top } => {
                if let Some(logprob) = sampled.logprob {
                    self.scores.push(Scored { token: Logprob { id: sampled.id, logprob }, top: top.to_vec() });
                }
                self.token(sampled.id)
            }
        }
    }

    fn score(&mut self, token: Logprob, top: &[Logprob]) -> ControlFlow<()> {
        self.scores.push(Scored { token, top: top.to_vec() });
        // What a prompt has of them is told as it is read.
        if self.scores.len() < SCORES_AT_ONCE { ControlFlow::Continue(()) } else { self.say(String::new()) }
    }

    fn vector(&mut self, vector: &[f32]) {
        // Whoever is gone has no use for it.
        let _ = self.tell(Heard::Vector { index: self.index, vector: vector.to_vec() });
    }

    fn end(&mut self, end: Result<(Finish, Spent), Failure>) {
        let _ = match end {
            Ok((finish, spent)) => self.finish(finish, spent),
            Err(failure) => self.tell(Heard::Failed { failure }),
        };
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// The connection's side: what the texts of a request say.
pub struct Answer {
    receiver: UnboundedReceiver<Heard>,
    unheard: Arc<AtomicUsize>,
    /// Texts that are not over.
    left: usize,
    deadline: tokio::time::Instant,
}

impl Answer {
    /// Refuses prompts that are too long, and too many texts: before anything is made for each of them.
    ///
    /// # Errors
    /// The first that is too long, or their number.
    pub fn check(model: &Model, prompts: &[Vec<u32>], settings: &Settings) -> Result<(), ApiError> {
        let texts = prompts.len() * settings.choices;
        if texts > TEXTS {
            let problem = format!("{} prompts make {texts} texts, and a request may have {TEXTS}", prompts.len());
            return Err(ApiError::field("n", problem));
        }
        let context = model.worker.limits().context;
        match prompts.iter().map(Vec::len).find(|&tokens| tokens > context) {
            Some(tokens) => Err(ApiError::context(tokens, context)),
            None => Ok(()),
        }
    }

    /// Puts the prompts into the queue, each as often as the settings say; their texts follow the grammar.
    ///
    /// # Errors
    /// What [`Answer::check`] and the queue refuse.
    pub fn of(
        app: &Arc<App>,
        model: &Arc<Model>,
        prompts: Vec<Vec<u32>>,
        settings: &Settings,
        grammar: Option<&Grammar>,
    ) -> Result<Answer, ApiError> {
        Answer::check(model, &prompts, settings)?;
        let (sender, receiver) = unbounded_channel();
        let unheard = Arc::new(AtomicUsize::new(0));
        let mut jobs = vec![];
        for prompt in prompts {
            for choice in 0..settings.choices {
                let index = jobs.len();
                let mut sampling = settings.sampling.clone();
                // Texts of one prompt differ, and differ in the same way each time.
                sampling.seed = sampling.seed.wrapping_add(choice as u64);
                let speech = Speech {
                    index,
                    model: model.clone(),
                    app: app.clone(),
                    sender: sender.clone(),
                    unheard: unheard.clone(),
                    detokenizer: if settings.special { Detokenizer::with_special() } else { Detokenizer::new() },
                    stops: StopStrings::new(&settings.stops),
                    words: settings.stops.clone(),
                    stopped: None,
                    tokens: vec![],
                    scores: vec![],
                    wants_progress: settings.progress,
                    began: Instant::now(),
                    placed: None,
                    last_token: None,
                    spent: Spent::default(),
                };
                let ends = if settings.ignore_ends { Arc::from([]) } else { model.ends() };
                jobs.push(Job {
                    id: app.next(),
                    request: Request { prompt: prompt.clone(), sampling, limit: settings.limit, ends },
                    constraint: grammar.map(Grammar::begin),
                    pooling: settings.pooling,
                    score: settings.score,
                    sink: Box::new(speech),
                });
            }
        }
        let left = jobs.len();
        model.worker.submit_all(jobs)?;
        let deadline = tokio::time::Instant::now() + app.options.timeout;
        Ok(Answer { receiver, unheard, left, deadline })
    }

    /// What comes next; `None` when all texts are over.
    ///
    /// # Errors
    /// A text that cannot go on, an engine that is gone, or too much time. The answer is then over.
    pub async fn next(&mut self) -> Result<Option<Heard>, ApiError> {
        if self.left == 0 {
            return Ok(None);
        }
        let heard = match tokio::time::timeout_at(self.deadline, self.receiver.recv()).await {
            Err(_) => Err(ApiError::too_late()),
            Ok(None) if self.unheard.load(Ordering::Relaxed) > UNHEARD_BYTES => {
                let message =
                    format!("the answer was cut off: more than {UNHEARD_BYTES} bytes of it waited to be read");
                Err(ApiError::new(axum::http::StatusCode::REQUEST_TIMEOUT, "timeout_error", message))
            }
            Ok(None) => Err(ApiError::server("the engine gave the request up")),
            Ok(Some(Heard::Failed { failure })) => Err(failure.into()),
            Ok(Some(heard)) => Ok(Some(heard)),
        };
        if let Ok(Some(heard)) = &heard {
            self.unheard.fetch_sub(heard.bytes(), Ordering::Relaxed);
        }
        match &heard {
            Err(_) => {
                self.left = 0;
                self.receiver.close();
            }
            Ok(Some(Heard::End { .. })) => self.left -= 1,
            Ok(_) => {}
        }
        heard
    }
}
