//! The account of one request: what it did and took, as a line of the log and in the metrics.

use crate::app::{Active, App};
use crate::error::ApiError;
use crate::memory::Charge;
use crate::metrics::Outcome;
use crate::shelf::Lease;
use crate::speech::Heard;
use crate::trace::Trace;
use gguf::plain;
use model::scheduler::Spent;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The target of what is logged of requests ([`tracing`]).
pub const LOG: &str = "kernloom::request";

/// What one request did, written when it is over.
pub struct Account {
    app: Arc<App>,
    /// The id that the client knows.
    pub request: String,
    path: String,
    trace: Option<Trace>,
    began: Instant,
    /// The status of the response.
    pub status: u16,
    /// How its text ended; without, its client left.
    pub finish: Option<&'static str>,
    /// What its sequences took together.
    pub spent: Spent,
    /// From the request to the first token.
    pub first_token: Option<Duration>,
    /// The memory that it takes.
    pub charge: Charge,
    /// Its model, with the tokens that stand-ins had computed before.
    lease: Option<(Lease, u64)>,
    _active: Active,
}

impl Account {
    /// Begins an account.
    pub fn open(app: &Arc<App>, path: &str, request: String, trace: Option<Trace>) -> Account {
        Account {
            request,
            path: path.to_owned(),
            trace,
            began: Instant::now(),
            status: 200,
            finish: None,
            spent: Spent::default(),
            first_token: None,
            charge: app.memory.open(),
            lease: None,
            _active: app.enter(),
            app: app.clone(),
        }
    }

    /// It has a model until it is over.
    pub fn keep(&mut self, lease: Lease) {
        let stood_in = lease.facts.programs.stood_in();
        self.lease = Some((lease, stood_in));
    }

    /// The path that was asked.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Takes down what was heard.
    pub fn note(&mut self, heard: &Heard) {
        match heard {
            Heard::Text { tokens, .. } if tokens.is_empty() => {}
            Heard::Text { .. } => {
                self.first_token.get_or_insert_with(|| self.began.elapsed());
            }
            Heard::End { ending, spent, .. } => {
                self.finish = Some(ending.reason());
                self.add(spent);
            }
            Heard::Progress { .. } | Heard::Vector { .. } | Heard::Failed { .. } => {}
        }
    }

    fn add(&mut self, spent: &Spent) {
        let all = &mut self.spent;
        all.prompt += spent.prompt;
        all.cached += spent.cached;
        all.generated += spent.generated;
        all.waited = all.waited.max(spent.waited);
        all.prompt_time = all.prompt_time.max(spent.prompt_time);
        all.decode_time = all.decode_time.max(spent.decode_time);
    }

    /// All is said. A request without texts ends here, too.
    pub fn close(&mut self) {
        self.finish.get_or_insert("stop");
    }

    /// The request was refused or failed.
    pub fn fail(&mut self, error: &ApiError) {
        self.status = error.status.as_u16();
        self.finish = Some(error.kind);
    }
}

/// Names fields in the log that a route did not ask for.
pub fn name_fields(path: &str, names: &[&str]) {
    for name in names {
        tracing::warn!(
            target: LOG,
            path = %plain::line(path, plain::QUOTE),
            field = %plain::name(name),
            note = "it has no effect here; this is said once",
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let total = self.began.elapsed();
        let outcome = match (self.finish, self.status) {
            (None, _) => Outcome::Cancelled,
            (_, 429 | 503) => Outcome::Rejected,
            (_, 400..) => Outcome::Failed,
            _ => Outcome::Finished,
        };
        self.app.metrics.request(outcome, total);
        if !self.app.options.log {
            return;
        }
        let s = &self.spent;
        let rate = |count: usize, time: Duration| {
            let seconds = time.as_secs_f64();
            if seconds > 0.0 { (count as f64 / seconds * 100.0).round() / 100.0 } else { 0.0 }
        };
        let ms = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
        // Of all requests to the model, those too that ran beside it.
        let stood_in = self.lease.as_ref().map_or(0, |(lease, before)| lease.facts.programs.stood_in() - before);
        let model = self.lease.as_ref().filter(|_| self.app.shelf.is_of_several()).map(|(lease, _)| lease.name());
        let trace = self.trace.as_ref();
        tracing::info!(
            target: LOG,
            request = %plain::line(&self.request, plain::QUOTE),
            path = %plain::line(&self.path, plain::QUOTE),
            status = self.status,
            end = self.finish.unwrap_or("cancelled"),
            prompt_cached = s.cached,
            prompt_new = s.prompt - s.cached,
            generated = s.generated,
            prefill_per_second = rate(s.prompt - s.cached, s.prompt_time),
            decode_per_second = rate(s.generated.saturating_sub(1), s.decode_time),
            queue_ms = ms(s.waited),
            first_token_ms = self.first_token.map(ms),
            total_ms = ms(total),
            stand_in_tokens = stood_in,
            model,
            trace_id = trace.map(|trace| &*trace.id),
            parent_id = trace.map(|trace| &*trace.parent),
            span_id = trace.map(|trace| &*trace.span),
            sampled = trace.map(Trace::is_sampled),
        );
    }
}
