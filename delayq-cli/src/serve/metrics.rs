//! `/metrics`: what this process measured, and what the store says of each queue, in Prometheus's text format.

use std::fmt::{Display, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use delayq::{Client, Error, QueueStats};
use futures_util::{StreamExt, TryStreamExt, stream};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::App;
use super::limits::{AT_ONCE, QUEUES_MAX};
use super::problem::Problem;
use super::queues;
use crate::failure::{self, Failure, Outcome};
use crate::output::remark;

/// How long the store's part is good for, so that scrapes of any number ask it once a second at most.
pub(super) const FRESH: Duration = Duration::from_secs(1);
/// How often what was measured is gathered: nobody may scrape.
const UPKEEP: Duration = Duration::from_secs(5);
/// The bounds of all histograms, in seconds: from what a command takes to what a job may be late.
const BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];
/// How far ahead due jobs are counted: steps of this length, so many of them.
const NEAR: (Duration, usize) = (Duration::from_secs(60), 5);
const FAR: (Duration, usize) = (Duration::from_secs(900), 4);

/// What this process measures.
pub(super) struct Metrics(PrometheusHandle);

impl Metrics {
    pub(super) fn install() -> Outcome<Metrics> {
        let refused = |error: &dyn Display| Failure::Refused(format!("metrics can't be kept: {error}"));
        let recorder =
            PrometheusBuilder::new().set_buckets(&BUCKETS).map_err(|error| refused(&error))?.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| refused(&error))?;
        metrics::describe_histogram!("delayq_redis_command_seconds", "How long the store took to answer.");
        metrics::describe_histogram!("delayq_http_request_duration_seconds", "How long requests took.");
        Ok(Metrics(handle))
    }
}

/// Gathers what was measured, for as long as it is let.
pub(super) async fn upkeep(app: App) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        app.metrics.0.run_upkeep();
    }
}

/// `GET /metrics`.
pub(super) async fn scrape(State(app): State<App>) -> Result<Response, Problem> {
    let of_store = app.gauges.get(gauges(&app)).await;
    let text = app.metrics.0.render() + &of_store;
    let mut response = Response::new(Body::from(text));
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, format);
    Ok(response)
}

/// What the store says of a queue.
struct Queue {
    name: String,
    /// Nothing where it can't be read: its keys are damaged.
    figures: Option<Figures>,
}

struct Figures {
    stats: QueueStats,
    /// How many jobs fall due within so many seconds.
    ahead: [(u64, u64); 4],
}

/// The store's part. Where it can't be asked, no old figure is shown in place of a new one.
async fn gauges(app: &App) -> Arc<str> {
    match gather(app).await {
        Ok((queues, left_out)) => text(&queues, left_out).into(),
        Err(error) => {
            remark(format!("the store's metrics are missing: {}", failure::told(&error)));
            let mut out = Text::default();
            out.family("delayq_store_up", "gauge", "Whether the store could be asked.");
            out.sample("delayq_store_up", &[], 0);
            out.0.into()
        }
    }
}

async fn gather(app: &App) -> Result<(Vec<Queue>, usize), Error> {
    let mut names = app.client.queues().await?;
    let left_out = names.len().saturating_sub(QUEUES_MAX);
    names.truncate(QUEUES_MAX);
    let looks = names.into_iter().map(|name| queue(app.client.clone(), name));
    let all = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    Ok((all, left_out))
}

async fn queue(client: Client, name: String) -> Result<Queue, Error> {
    let figures = match figures(&client, &name).await {
        Ok(figures) => Some(figures),
        Err(error) if queues::is_of_all(&error) => return Err(error),
        Err(error) => {
            remark(format!("the metrics of the queue {name} are missing: {}", failure::told(&error)));
            None
        }
    };
    Ok(Queue { name, figures })
}

async fn figures(client: &Client, queue: &str) -> Result<Figures, Error> {
    let stats = client.stats(queue).await?;
    let near = client.forecast(queue, NEAR.0, NEAR.1).await?.steps;
    let far = client.forecast(queue, FAR.0, FAR.1).await?.steps;
    let within = |steps: &[u64], (step, _): (Duration, usize), count: usize| {
        (step.as_secs() * count as u64, steps.iter().take(count).sum::<u64>())
    };
    let ahead = [within(&near, NEAR, 1), within(&near, NEAR, 5), within(&far, FAR, 1), within(&far, FAR, 4)];
    Ok(Figures { stats, ahead })
}

/// Text in Prometheus's format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Labels have the alphabet of names, in which nothing needs to be escaped.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

fn text(queues: &[Queue], left_out: usize) -> String {
    let mut out = Text::default();
    out.family("delayq_store_up", "gauge", "Whether the store could be asked.");
    out.sample("delayq_store_up", &[], 1);
    out.family("delayq_queues_left_out", "gauge", "Queues that are too many to be told of here.");
    out.sample("delayq_queues_left_out", &[], left_out);
    out.family("delayq_queue_readable", "gauge", "Whether a queue could be read; if not, nothing else is told of it.");
    for Queue { name, figures } in queues {
        out.sample("delayq_queue_readable", &[("queue", name)], u8::from(figures.is_some()));
    }
    let readable: Vec<(&str, &Figures)> =
        queues.iter().filter_map(|queue| Some((queue.name.as_str(), queue.figures.as_ref()?))).collect();
    out.family("delayq_jobs", "gauge", "Jobs of a queue by state; what is scheduled is not due yet.");
    for (name, Figures { stats, .. }) in &readable {
        let scheduled = stats.waiting.saturating_sub(stats.due);
        for (state, count) in [
            ("scheduled", scheduled),
            ("due", stats.due),
            ("running", stats.running),
            ("dead", stats.dead),
            ("retained", stats.retained),
        ] {
            out.sample("delayq_jobs", &[("queue", name), ("state", state)], count);
        }
    }
    out.family("delayq_due_next_seconds", "gauge", "Jobs that fall due within the next so many seconds.");
    for (name, figures) in &readable {
        for (window, count) in figures.ahead {
            let window = window.to_string();
            out.sample("delayq_due_next_seconds", &[("queue", name), ("window", &window)], count);
        }
    }
    out.family("delayq_oldest_due_seconds", "gauge", "For how long the oldest due job has been due.");
    for (name, figures) in &readable {
        let late = figures.stats.oldest_due.as_secs_f64();
        out.sample("delayq_oldest_due_seconds", &[("queue", name)], late);
    }
    out.family("delayq_workers", "gauge", "Sessions of workers that serve a queue.");
    for (name, figures) in &readable {
        out.sample("delayq_workers", &[("queue", name)], figures.stats.sessions);
    }
    out.family("delayq_paused", "gauge", "Whether a queue is paused.");
    for (name, figures) in &readable {
        out.sample("delayq_paused", &[("queue", name)], u8::from(figures.stats.paused));
    }
    out.family("delayq_orphans", "gauge", "Records of a queue in no state at all.");
    for (name, figures) in &readable {
        out.sample("delayq_orphans", &[("queue", name)], figures.stats.orphans);
    }
    out.family(
        "delayq_events_total",
        "counter",
        "What happened to the jobs of a queue since it was made, by the store.",
    );
    for (name, figures) in &readable {
        for (event, count) in queues::totals(&figures.stats) {
            out.sample("delayq_events_total", &[("queue", name), ("event", event)], count);
        }
    }
    out.0
}
