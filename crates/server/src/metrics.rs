//! Counters and histograms, and their text in the form of Prometheus: under our own names and, where asked for, under
//! those that dashboards and routers for vLLM and llama.cpp read.

use crate::facts::Facts;
use model::memory_plan::ModelMemory;
use model::scheduler::{Spent, Stats};
use std::fmt::{Display, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Seconds at which buckets end.
const BUCKETS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Stands for a name where numbers are those of several models.
const ALL: &str = "*";

/// Names that somebody else's dashboards read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compat {
    /// `vllm:…`
    pub vllm: bool,
    /// `llamacpp:…`
    pub llamacpp: bool,
}

/// How long things took.
#[derive(Clone, Debug, Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BUCKETS.partition_point(|&end| end < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// What the server counts; the engine counts for itself.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

#[derive(Clone, Debug, Default)]
struct Counts {
    first_token: Histogram,
    between_tokens: Histogram,
    queue: Histogram,
    total: Histogram,
    prompt_tokens: u64,
    cached_tokens: u64,
    generated_tokens: u64,
    /// From places to first tokens, and from first to last, over all requests.
    prompt_seconds: f64,
    decode_seconds: f64,
    /// Tokens after the first.
    decode_steps: u64,
    finished: u64,
    cancelled: u64,
    failed: u64,
    rejected: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Finished,
    /// Nobody listened any more.
    Cancelled,
    /// With an error.
    Failed,
    /// It was not taken.
    Rejected,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first token came, so long after the request.
    pub fn first_token(&self, after: Duration) {
        self.lock().first_token.add(after);
    }

    /// A token came, so long after the one before.
    pub fn next_token(&self, after: Duration) {
        self.lock().between_tokens.add(after);
    }

    /// One sequence is over.
    pub fn spent(&self, spent: &Spent) {
        let mut counts = self.lock();
        counts.queue.add(spent.waited);
        counts.prompt_tokens += (spent.prompt - spent.cached) as u64;
        counts.cached_tokens += spent.cached as u64;
        counts.generated_tokens += spent.generated as u64;
        counts.prompt_seconds += spent.prompt_time.as_secs_f64();
        counts.decode_seconds += spent.decode_time.as_secs_f64();
        counts.decode_steps += spent.generated.saturating_sub(1) as u64;
    }

    /// A request is over.
    pub fn request(&self, outcome: Outcome, total: Duration) {
        let mut counts = self.lock();
        match outcome {
            // How long others took says nothing about those that wait for an answer.
            Outcome::Finished => {
                counts.finished += 1;
                counts.total.add(total);
            }
            Outcome::Cancelled => counts.cancelled += 1,
            Outcome::Failed => counts.failed += 1,
            Outcome::Rejected => counts.rejected += 1,
        }
    }

    /// Everything in the text form of Prometheus, version 0.0.4.
    /// Numbers are those of all models together; what a model takes is told of each. Where there may be several, each is
    /// named there.
    pub fn text(&self, stats: &Stats, models: &[&Facts], several: bool, compat: Compat) -> String {
        let c = self.lock().clone();
        let running = stats.places.iter().flatten().count();
        let busy = if stats.steps > 0 { stats.sequences as f64 / stats.steps as f64 } else { 0.0 };
        let used = if stats.pages > 0 { stats.pages_in_use as f64 / stats.pages as f64 } else { 0.0 };
        let rate = |count: u64, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let name = |facts: &Facts| facts.names.first().cloned().unwrap_or_default();
        let of_all =
            if several { ALL.to_owned() } else { models.first().map_or_else(String::new, |facts| name(facts)) };
        let of_model = label("model_name", &of_all);
        let mut w = Writer { text: String::new(), prefix: "kernloom_", label: String::new() };
        w.counter("prompt_tokens_total", "Tokens of prompts that were computed", c.prompt_tokens);
        w.counter("prompt_tokens_cached_total", "Tokens of prompts that the cache held", c.cached_tokens);
        w.counter("generated_tokens_total", "Tokens that came out", c.generated_tokens);
        w.counter("prompt_seconds_total", "Time from places to first tokens", c.prompt_seconds);
        w.counter("decode_seconds_total", "Time from first tokens to last ones", c.decode_seconds);
        w.counter("steps_total", "Steps of the engine", stats.steps);
        w.counter("preemptions_total", "Sequences that had to make room", stats.preemptions);
        w.counter("cache_pages_out_total", "Pages of the cache that were moved beside the device", stats.moved_out);
        w.counter("cache_pages_in_total", "Pages of the cache that came back from there", stats.moved_in);
        w.counter("requests_finished_total", "Requests with an answer", c.finished);
        w.counter("requests_cancelled_total", "Requests whose client left", c.cancelled);
        w.counter("requests_failed_total", "Requests that ended in an error", c.failed);
        w.counter("requests_rejected_total", "Requests that were not taken", c.rejected);
        w.gauge("requests_running", "Sequences that have a place", running);
        w.gauge("requests_waiting", "Requests in the queue", stats.waiting);
        w.gauge("cache_usage_ratio", "Pages of the cache in use", used);
        w.gauge("cache_pages_beside", "Pages of the cache beside the device", stats.pages_beside);
        w.gauge("sequences_per_step", "Sequences of a step on average", busy);
        let of = |facts: &&Facts| {
            let device = label("device", &facts.device);
            let labels = if several { format!("{device},{}", label("model_name", &name(facts))) } else { device };
            Some((facts.memory?, labels))
        };
        w.memory(&models.iter().filter_map(of).collect::<Vec<_>>());
        if several {
            w.gauge("models_loaded", "Models that take requests", models.len());
        }
        w.histogram("time_to_first_token_seconds", "From request to first token", &c.first_token);
        w.histogram("inter_token_latency_seconds", "From one token to the next", &c.between_tokens);
        w.histogram("queue_seconds", "From request to place", &c.queue);
        w.histogram("request_seconds", "From request to end, of those with an answer", &c.total);
        if compat.vllm {
            w.prefix = "vllm:";
            w.label = of_model;
            w.gauge("num_requests_running", "Number of requests in model execution batches", running);
            w.gauge("num_requests_waiting", "Number of requests waiting to be processed", stats.waiting);
            w.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage", used);
            w.counter("prefix_cache_queries_total", "Prompt tokens looked up", c.prompt_tokens + c.cached_tokens);
            w.counter("prefix_cache_hits_total", "Prompt tokens found", c.cached_tokens);
            w.counter("prompt_tokens_total", "Number of prefill tokens processed", c.prompt_tokens + c.cached_tokens);
            w.counter("generation_tokens_total", "Number of generation tokens processed", c.generated_tokens);
            w.counter("num_preemptions_total", "Cumulative number of preemptions", stats.preemptions);
            w.counter("request_success_total", "Count of successfully processed requests", c.finished);
            w.histogram("time_to_first_token_seconds", "Time to first token in seconds", &c.first_token);
            w.histogram("inter_token_latency_seconds", "Inter-token latency in seconds", &c.between_tokens);
            w.histogram("e2e_request_latency_seconds", "End to end request latency in seconds", &c.total);
            w.histogram("request_queue_time_seconds", "Time spent in the waiting phase", &c.queue);
            w.label = format!("{},block_size=\"64\",num_gpu_blocks=\"{}\"", w.label, stats.pages);
            w.gauge("cache_config_info", "Information of the cache", 1);
        }
        if compat.llamacpp {
            w.prefix = "llamacpp:";
            w.label = String::new();
            w.counter("prompt_tokens_total", "Number of prompt tokens processed", c.prompt_tokens);
            w.counter("prompt_tokens_cached_total", "Number of prompt tokens reused", c.cached_tokens);
            w.counter("prompt_seconds_total", "Prompt process time", c.prompt_seconds);
            w.counter("tokens_predicted_total", "Number of generation tokens processed", c.generated_tokens);
            w.counter("tokens_predicted_seconds_total", "Predict process time", c.decode_seconds);
            w.counter("n_decode_total", "Total number of decode calls", stats.steps);
            w.counter("n_tokens_max", "Largest observed n_tokens", stats.longest);
            for name in ["num_draft_tokens", "num_accepted_tokens", "num_drafts"] {
                w.counter(&format!("spec_decode_{name}_total"), "Speculative decoding, which is not there", 0);
            }
            let speed = rate(c.prompt_tokens, c.prompt_seconds);
            w.gauge("prompt_tokens_seconds", "Average prompt throughput in tokens/s", speed);
            let speed = rate(c.decode_steps, c.decode_seconds);
            w.gauge("predicted_tokens_seconds", "Average generation throughput in tokens/s", speed);
            w.gauge("requests_processing", "Number of requests processing", running);
            w.gauge("requests_deferred", "Number of requests deferred", stats.waiting);
            w.gauge("n_busy_slots_per_decode", "Average number of busy slots per decode call", busy);
        }
        w.text
    }
}

/// A label and its value.
fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", gguf::plain::name(value).replace('\\', "\\\\").replace('"', "\\\""))
}

struct Writer {
    text: String,
    prefix: &'static str,
    label: String,
}

impl Writer {
    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.one(name, help, "counter", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.one(name, help, "gauge", value);
    }

    /// What models take of their devices. Weights that are mapped are a file that the system may drop and read again, so they
    /// have a name of their own: the sum of the others is what was allocated.
    fn memory(&mut self, plans: &[(ModelMemory, String)]) {
        if !plans.is_empty() {
            self.head("memory_bytes", "Memory of the device that the model takes, by its plan", "gauge");
        }
        for (plan, labels) in plans {
            let (mapped, keeps) = (plan.mapped(), plan.keeps_weights);
            let own = plan.weights.saturating_sub(mapped);
            let parts = [
                ("weights", (keeps || own > 0).then_some(own)),
                ("mapped_weights", (!keeps).then_some(mapped)),
                ("cache", Some(plan.cache)),
                ("workspace", plan.workspace),
            ];
            for (part, bytes) in parts {
                let Some(bytes) = bytes else { continue };
                let _ = writeln!(self.text, "{}memory_bytes{{{labels},part=\"{part}\"}} {bytes}", self.prefix);
            }
        }
        let available = || plans.iter().filter_map(|(plan, labels)| Some((plan.available?, labels)));
        if available().next().is_some() {
            self.head("memory_available_bytes", "What the device had for all of it when the model was loaded", "gauge");
        }
        for (bytes, labels) in available() {
            let _ = writeln!(self.text, "{}memory_available_bytes{{{labels}}} {bytes}", self.prefix);
        }
    }

    fn one(&mut self, name: &str, help: &str, kind: &str, value: impl Display) {
        self.head(name, help, kind);
        let label = if self.label.is_empty() { String::new() } else { format!("{{{}}}", self.label) };
        let _ = writeln!(self.text, "{}{name}{label} {value}", self.prefix);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let prefix = self.prefix;
        let _ = writeln!(self.text, "# HELP {prefix}{name} {help}.\n# TYPE {prefix}{name} {kind}");
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let (prefix, comma) = (self.prefix, if self.label.is_empty() { "" } else { "," });
        let mut below = 0;
        for (end, count) in BUCKETS.iter().zip(histogram.counts) {
            below += count;
            let _ = writeln!(self.text, "{prefix}{name}_bucket{{{}{comma}le=\"{end}\"}} {below}", self.label);
        }
        let label = if self.label.is_empty() { String::new() } else { format!("{{{}}}", self.label) };
        let _ = writeln!(
            self.text,
            "{prefix}{name}_bucket{{{}{comma}le=\"+Inf\"}} {}\n{prefix}{name}_sum{label} {}\n{prefix}{name}_count{label} {}",
            self.label, histogram.count, histogram.sum, histogram.count
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_every_reader() {
        let metrics = Metrics::default();
        metrics.first_token(Duration::from_millis(30));
        metrics.first_token(Duration::from_secs(500));
        let spent = Spent { prompt: 10, cached: 4, generated: 3, ..Spent::default() };
        metrics.spent(&spent);
        metrics.request(Outcome::Finished, Duration::from_secs(1));
        metrics.request(Outcome::Rejected, Duration::ZERO);
        let stats = Stats { steps: 2, sequences: 3, pages: 8, pages_in_use: 2, ..Stats::default() };
        let named = |name: &str| Facts { names: vec![name.into()], ..Facts::default() };
        let own = metrics.text(&stats, &[&named("m")], false, Compat::default());
        assert!(own.contains("kernloom_prompt_tokens_total 6\n") && !own.contains("vllm:"));
        assert!(own.contains("kernloom_time_to_first_token_seconds_bucket{le=\"0.04\"} 1\n"));
        assert!(own.contains("kernloom_time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n"));
        assert!(
            own.contains("kernloom_request_seconds_count 1\n") && own.contains("kernloom_requests_rejected_total 1\n")
        );
        let all = metrics.text(&stats, &[&named("a\"b")], false, Compat { vllm: true, llamacpp: true });
        assert!(all.contains("vllm:kv_cache_usage_perc{model_name=\"a\\\"b\"} 0.25\n"));
        assert!(all.contains("llamacpp:prompt_tokens_cached_total 4\n"));
        assert!(all.contains("llamacpp:n_busy_slots_per_decode 1.5\n"));
        for line in all.lines() {
            let ok = line.starts_with("# ") || line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<f64>().is_ok());
            assert!(ok, "{line}");
        }
    }

    #[test]
    fn memory_of_the_device_is_told_by_its_parts() {
        let plan = ModelMemory {
            context: 64,
            weights: 1000,
            unpacked: 0,
            keeps_weights: true,
            cache: 20,
            largest: 20,
            workspace: Some(3),
            available: Some(5000),
        };
        let facts = Facts { device: "cuda:0, \"A\" card".into(), memory: Some(plan), ..Facts::default() };
        let text = |facts: &Facts| Metrics::default().text(&Stats::default(), &[facts], false, Compat::default());
        let on_card = text(&facts);
        let device = "device=\"cuda:0, \\\"A\\\" card\"";
        for (part, bytes) in [("weights", 1000), ("cache", 20), ("workspace", 3)] {
            let line = format!("kernloom_memory_bytes{{{device},part=\"{part}\"}} {bytes}\n");
            assert!(on_card.contains(&line), "{line} in {on_card}");
        }
        assert!(on_card.contains(&format!("kernloom_memory_available_bytes{{{device}}} 5000\n")));
        let mapped = ModelMemory { keeps_weights: false, workspace: None, available: None, ..plan };
        let mapped = text(&Facts { memory: Some(mapped), ..facts });
        assert!(mapped.contains("part=\"mapped_weights\"} 1000\n") && !mapped.contains("part=\"weights\""));
        assert!(!mapped.contains("workspace") && !mapped.contains("available"));
        let unpacked = ModelMemory { keeps_weights: false, unpacked: 66, ..plan };
        let unpacked = text(&Facts { memory: Some(unpacked), ..Facts::default() });
        assert!(unpacked.contains("part=\"mapped_weights\"} 934\n") && unpacked.contains("part=\"weights\"} 66\n"));
        assert!(!text(&Facts::default()).contains("memory"), "before there is a model");
        let named = |name: &str| Facts { names: vec![name.into()], memory: Some(plan), ..Facts::default() };
        let both = Metrics::default().text(&Stats::default(), &[&named("a"), &named("b")], true, Compat::default());
        for name in ["a", "b"] {
            assert!(both.contains(&format!("model_name=\"{name}\",part=\"cache\"}} 20\n")), "{both}");
        }
        assert!(
            both.contains("kernloom_models_loaded 2\n") && both.matches("# TYPE kernloom_memory_bytes").count() == 1
        );
    }
}
