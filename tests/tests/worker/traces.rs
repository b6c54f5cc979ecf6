//! What a run tells: spans and events, and the sender's trace going on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq::Worker;
use delayq_tests::{Running, eventually, server_and_client};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::{Act, Probe, log, probe};

/// What was written as text.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One subscriber for this whole program: a second one could not be set. Only this test looks at it.
fn subscribe() -> (Text, InMemorySpanExporter, SdkTracerProvider) {
    let text = Text::default();
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let writer = text.clone();
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("delayq")))
        .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone()))
        .with(tracing_subscriber::EnvFilter::new("delayq=debug,worker=debug"))
        .init();
    (text, spans, provider)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_spans_that_belong_to_the_senders_trace() {
    let (text, exported, _provider) = subscribe();
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).queues(["traced"]));
    let request = tracing::info_span!("request");
    let parent = request.context().span().span_context().clone();
    let hostile = "x\r\nERROR forged line \u{1b}[31m";
    let sent = async {
        let job = client.schedule::<Probe>(Duration::from_millis(30)).queue("traced");
        job.send(probe("retried", Act::FailUntil { attempt: 2 })).await.unwrap();
        client.enqueue::<Probe>().queue("traced").send(probe(hostile, Act::Bury)).await.unwrap();
    };
    sent.instrument(request).await;
    runs.take(3).await;
    let of_jobs = |spans: Vec<SpanData>| -> Vec<SpanData> {
        let queue = |span: &SpanData| {
            span.attributes.iter().any(|a| a.key.as_str() == "job.queue" && a.value.as_str() == "traced")
        };
        spans.into_iter().filter(|span| span.name == "job" && queue(span)).collect()
    };
    let spans = eventually("three spans", || async {
        let spans = of_jobs(exported.get_finished_spans().unwrap());
        (spans.len() == 3).then_some(spans)
    })
    .await;
    worker.stop().await.unwrap();
    let value = |span: &SpanData, key: &str| {
        span.attributes
            .iter()
            .find(|a| a.key.as_str() == key)
            .map(|a| a.value.as_str().into_owned())
            .unwrap_or_default()
    };
    for span in &spans {
        for key in ["job.id", "job.name", "job.queue", "job.attempt", "job.lateness_ms", "job.outcome"] {
            assert!(!value(span, key).is_empty(), "no {key} in {span:?}");
        }
    }
    let first = spans.iter().find(|span| value(span, "job.outcome") == "retry").unwrap();
    assert_eq!(first.span_context.trace_id(), parent.trace_id(), "the first run is a child");
    assert_eq!(first.parent_span_id, parent.span_id());
    let second = spans.iter().find(|span| value(span, "job.attempt") == "2").unwrap();
    assert_ne!(second.span_context.trace_id(), parent.trace_id(), "a retry is a trace of its own");
    assert_eq!(second.links.links.len(), 1);
    assert_eq!(second.links.links[0].span_context.span_id(), parent.span_id(), "linked to the sender");

    let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    for event in ["scheduled", "started", "finished", "retried", "dead"] {
        assert!(
            text.lines().any(|line| line.contains(event) && line.contains("probe")),
            "no event {event:?} in:\n{text}"
        );
    }
    assert!(text.contains("this worker serves:"), "{text}");
    // b105: nothing of a payload or an error makes a line of its own.
    assert!(!text.lines().any(|line| line.starts_with("ERROR forged")) && !text.contains('\u{1b}'), "{text}");
}
