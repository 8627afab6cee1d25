//! Requests as spans for a collector of traces: OTLP over HTTP. A request that came with `traceparent` is a span of that trace,
//! with the id that its answer told; any other begins a trace. Below it are its time in the queue, that of its prompt and that
//! of its answer. Names of attributes are those of OpenTelemetry's conventions for generative models, as far as there are any.

use anyhow::Context as _;
use opentelemetry::trace::{
    Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer, SdkTracerProvider};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// Where a collector takes traces.
const PATH: &str = "/v1/traces";

thread_local! {
    /// The id of the next span of this thread, if it has been told already.
    static TOLD: Cell<Option<SpanId>> = const { Cell::new(None) };
}

/// Ids at random, but for spans whose id was told.
#[derive(Debug)]
struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        self.0.new_trace_id()
    }

    fn new_span_id(&self) -> SpanId {
        TOLD.take().unwrap_or_else(|| self.0.new_span_id())
    }
}

/// A collector.
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// Sends what is left when it goes.
pub struct Flushed(SdkTracerProvider);

impl Drop for Flushed {
    fn drop(&mut self) {
        // Who cannot be reached has been named when it was tried.
        let _ = self.0.shutdown();
    }
}

impl Traces {
    /// The collector at an address, which need not answer yet.
    pub fn to(endpoint: &str) -> anyhow::Result<Traces> {
        let endpoint = match endpoint.trim_end_matches('/') {
            whole if whole.ends_with(PATH) => whole.to_owned(),
            base => format!("{base}{PATH}"),
        };
        let exporter = SpanExporter::builder().with_http().with_endpoint(&endpoint).build();
        let exporter = exporter.with_context(|| format!("--otlp-traces-endpoint {endpoint}"))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(Ids(RandomIdGenerator::default()))
            .with_resource(Resource::builder().with_service_name("kernloom").build())
            .build();
        Ok(Traces { tracer: provider.tracer("kernloom"), provider })
    }

    /// Sends what is left when it goes.
    pub fn flushed_at_the_end(&self) -> Flushed {
        Flushed(self.provider.clone())
    }

    /// Takes a request that was over at this time, by the fields of its event.
    pub fn request(&self, end: SystemTime, fields: &Map<String, Value>) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let number = |name: &str| fields.get(name).and_then(Value::as_f64);
        let Some((total, path)) = number("total_ms").zip(text("path")) else { return };
        if fields.get("sampled").is_some_and(|sampled| sampled == false) {
            return;
        }
        let at = |ms: f64| end - Duration::from_secs_f64((total - ms).clamp(0.0, total) / 1000.0);
        let parent = match (text("trace_id"), text("parent_id")) {
            (Some(trace), Some(parent)) => remote(trace, parent),
            _ => Context::new(),
        };
        TOLD.set(text("span_id").and_then(|id| SpanId::from_hex(id).ok()));
        let builder = self.tracer.span_builder(format!("POST {path}")).with_kind(SpanKind::Server);
        let builder = builder.with_start_time(at(0.0)).with_attributes(attributes(fields));
        let mut span = self.tracer.build_with_context(builder, &parent);
        if number("status").is_some_and(|status| status >= 500.0) {
            span.set_status(Status::error(text("end").unwrap_or_default().to_owned()));
        }
        let within = parent.with_remote_span_context(span.span_context().clone());
        let queued = number("queue_ms").unwrap_or(0.0);
        let first = number("first_token_ms");
        let parts = [
            ("queue", Some((0.0, queued))),
            ("prompt", first.map(|ms| (queued, ms))),
            ("decode", first.map(|ms| (ms, total))),
        ];
        for (name, part) in parts {
            if let Some((from, to)) = part.filter(|(from, to)| to > from) {
                let builder = self.tracer.span_builder(name).with_start_time(at(from));
                self.tracer.build_with_context(builder, &within).end_with_timestamp(at(to));
            }
        }
        span.end_with_timestamp(end);
    }
}

/// A span of somebody else.
fn remote(trace: &str, span: &str) -> Context {
    let (Ok(trace), Ok(span)) = (TraceId::from_hex(trace), SpanId::from_hex(span)) else { return Context::new() };
    Context::new().with_remote_span_context(SpanContext::new(
        trace,
        span,
        TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    ))
}

fn attributes(fields: &Map<String, Value>) -> Vec<KeyValue> {
    let count = |name: &str| fields.get(name).and_then(Value::as_i64);
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let read = count("prompt_cached").zip(count("prompt_new")).map(|(cached, new)| cached + new);
    let counts = [
        ("http.response.status_code", count("status")),
        ("gen_ai.usage.input_tokens", read),
        ("gen_ai.usage.cache_read.input_tokens", count("prompt_cached")),
        ("gen_ai.usage.output_tokens", count("generated")),
    ];
    let texts = [
        ("url.path", text("path")),
        ("gen_ai.request.model", text("model")),
        ("gen_ai.response.finish_reason", text("end")),
        ("kernloom.request_id", text("request")),
    ];
    let counts = counts.into_iter().filter_map(|(name, value)| Some(KeyValue::new(name, value?)));
    counts.chain(texts.into_iter().filter_map(|(name, value)| Some(KeyValue::new(name, value?)))).collect()
}
