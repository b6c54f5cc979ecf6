//! `/metrics` of a real run: every metric that is named is there, no id is a label, and alerts and dashboard ask for what there is.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use delayq::RawJob;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::kit::Serving;
use crate::kit::{Folder, ORDERS, Running, charge, eventually, server_and_client, waiting};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

/// A sample: its metric, and its labels.
fn samples(text: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (series, _) = line.rsplit_once(' ').unwrap();
            let (name, labels) =
                series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
            let labels = labels.split("\",").filter(|label| !label.is_empty());
            let labels = labels
                .map(|label| label.split_once("=\"").unwrap())
                .map(|(name, value)| (name, value.trim_end_matches('"')));
            (name, labels.collect())
        })
        .collect()
}

/// The metrics of a text, histograms by their own names.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).filter_map(|rest| rest.split(' ').next()).collect()
}

fn is_an_id(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_hexdigit).count();
    value.parse::<delayq::JobId>().is_ok() || (value.len() >= 16 && digits == value.len())
}

#[tokio::test]
async fn b87_a_real_run_has_each_metric_and_no_id_among_its_labels() {
    // The library's metrics are those of the process that runs the worker: here this one.
    let recorder = PrometheusBuilder::new().build_recorder();
    let of_worker = recorder.handle();
    metrics::set_global_recorder(recorder).unwrap();
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let worker = Running::start(&client, "0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c");
    let (mut jobs, bogus) = (Vec::new(), 50);
    for nth in 0..200 {
        jobs.push(charge(if nth % 10 == 0 { "bury" } else { "pass" }));
    }
    for sent in client.enqueue().send_all(jobs).await {
        sent.unwrap();
    }
    let unknown = (0..bogus).map(|nth| RawJob::new(format!("bogus-{nth}"), 1, "{}")).collect();
    for sent in client.send_raw(ORDERS, unknown).await {
        sent.unwrap();
    }
    eventually("all have ended", || async {
        let stats = client.stats(ORDERS).await.unwrap();
        (stats.done_total == 180 && stats.dead == 20 + bogus).then_some(())
    })
    .await;
    worker.stop().await;
    waiting(&client, "mail", "newsletter", 3).await;
    client.schedule(Duration::from_secs(30)).send(charge("pass")).await.unwrap();
    client.enqueue().send(charge("pass")).await.unwrap();
    // Of requests only those before a scrape are in it.
    service.get("/api/v1/queues").await.is(200);
    // What is scraped may be a second old.
    let text = eventually("the last job is seen", || async {
        let scraped = service.get("/metrics").await;
        assert_eq!(scraped.status, 200);
        let due = "delayq_jobs{queue=\"orders\",state=\"due\"} 1\n";
        (scraped.body.contains(due) && scraped.body.contains("queue=\"mail\"")).then_some(scraped.body)
    })
    .await;

    let of_worker = of_worker.render();
    for (text, metrics) in [
        (&of_worker, &["delayq_jobs_total", "delayq_job_duration_seconds", "delayq_lateness_seconds"][..]),
        (&of_worker, &["delayq_redis_command_seconds", "delayq_stuck_runs"]),
        (
            &text,
            &[
                "delayq_jobs",
                "delayq_due_next_seconds",
                "delayq_oldest_due_seconds",
                "delayq_redis_command_seconds",
                "delayq_http_request_duration_seconds",
                "delayq_events_total",
                "delayq_workers",
                "delayq_paused",
                "delayq_orphans",
                "delayq_store_up",
                "delayq_queues_left_out",
                "delayq_queue_readable",
            ],
        ),
    ] {
        for metric in metrics {
            assert!(names(text).contains(metric), "{metric} is not in {text}");
        }
    }
    for line in [
        "delayq_jobs{queue=\"orders\",state=\"dead\"} 70\n",
        "delayq_jobs{queue=\"orders\",state=\"scheduled\"} 1\n",
        "delayq_jobs{queue=\"mail\",state=\"scheduled\"} 3\n",
        "delayq_due_next_seconds{queue=\"orders\",window=\"60\"} 1\n",
        "delayq_due_next_seconds{queue=\"mail\",window=\"3600\"} 1\n",
        "delayq_workers{queue=\"orders\"} 0\n",
        "delayq_events_total{queue=\"orders\",event=\"done\"} 180\n",
        "delayq_events_total{queue=\"orders\",event=\"repaired\"} 0\n",
        "delayq_queue_readable{queue=\"orders\"} 1\n",
        "delayq_store_up 1\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(of_worker.contains("job=\"unknown\"") && !of_worker.contains("bogus"), "{of_worker}");
    for text in [&text, &of_worker] {
        for (name, labels) in samples(text) {
            let mut told: Vec<&str> = Vec::new();
            for (label, value) in labels {
                assert!(!is_an_id(value), "{name} has {label}={value}");
                told.push(label);
            }
            // How a histogram is told is up to the recorder.
            told.retain(|label| !matches!(*label, "le" | "quantile"));
            let mut documented = labels_of(name).to_vec();
            told.sort_unstable();
            documented.sort_unstable();
            assert_eq!(told, documented, "{name}");
        }
    }
    let told: BTreeSet<&str> = names(&text).into_iter().chain(names(&of_worker)).collect();
    asked_for_are(&told);
    promtool(&["check", "metrics"], Some(&text));
}

/// The labels that a metric is documented to have.
fn labels_of(name: &str) -> &'static [&'static str] {
    match ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name) {
        "delayq_jobs_total" => &["queue", "job", "outcome"],
        "delayq_job_duration_seconds" | "delayq_lateness_seconds" => &["queue", "job"],
        "delayq_redis_command_seconds" => &["operation"],
        "delayq_http_request_duration_seconds" => &["method", "route", "status"],
        "delayq_jobs" => &["queue", "state"],
        "delayq_due_next_seconds" => &["queue", "window"],
        "delayq_events_total" => &["queue", "event"],
        "delayq_store_up" | "delayq_queues_left_out" => &[],
        _ => &["queue"],
    }
}

/// What alerts and dashboard ask for is among what is told, or comes from the exporter of Redis.
fn asked_for_are(told: &BTreeSet<&str>) {
    let mut count = 0;
    for file in ["alerts.yml", "grafana.json"] {
        let text = std::fs::read_to_string(Path::new(DOCS).join(file)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        for word in words.filter(|word| word.starts_with("delayq_")) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            assert!(told.contains(base), "{file} asks for {word}, which nothing tells");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn the_dashboard_is_one() {
    let text = std::fs::read_to_string(Path::new(DOCS).join("grafana.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 6);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        assert!(panel["targets"][0]["expr"].is_string() && panel["gridPos"]["w"].is_u64(), "{panel}");
    }
}

/// The workers' label `job` is the job's name where the scrape honours their labels; otherwise that is in `exported_job`, and `job` is the
/// scrape's.
#[test]
fn the_dashboard_tells_jobs_apart_with_honor_labels_and_without() {
    let text = std::fs::read_to_string(Path::new(DOCS).join("grafana.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let by_job = |metric: &str| -> String {
        let expressions = dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| {
            let target = &panel["targets"][0];
            let legend = target["legendFormat"].as_str().unwrap();
            target["expr"].as_str().filter(|expr| expr.contains(metric) && legend.contains("{{type}}"))
        });
        let all: Vec<&str> = expressions.collect();
        let [expression] = all.as_slice() else { panic!("{metric} is asked for by {all:?}") };
        expression.replace("$queue", ".*").replace("$__rate_interval", "5m")
    };
    let without = r#"queue="orders", job="workers", exported_job="charge_card""#;
    let with = r#"queue="orders", job="cancel_order""#;
    let series = |metric: &str, labels: &str, more: &str| serde_json::json!({ "series": format!("{metric}{{{labels}, {more}}}"), "values": "0+60x20" });
    let (runs, took) = ("delayq_jobs_total", "delayq_job_duration_seconds_bucket");
    let mut input = Vec::new();
    for labels in [without, with] {
        input.push(series(runs, labels, r#"outcome="done""#));
        input.push(series(took, labels, r#"le="0.1""#));
        input.push(series(took, labels, r#"le="+Inf""#));
    }
    let expect = |metric: &str, more: &str| {
        let sample = |name: &str| serde_json::json!({ "labels": format!("{{type=\"{name}\"{more}}}"), "value": 1 });
        serde_json::json!({
            "expr": format!("count without () ({})", by_job(metric)),
            "eval_time": "10m",
            "exp_samples": [sample("cancel_order"), sample("charge_card")],
        })
    };
    let test = serde_json::json!({
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": input,
            "promql_expr_test": [expect(runs, r#", outcome="done""#), expect(took, "")],
        }],
    });
    let folder = Folder::new();
    // YAML takes JSON.
    let file = folder.write("dashboard.test.yml", &test.to_string());
    promtool(&["test", "rules", &file], None);
}

#[test]
fn the_alerts_are_rules_and_fire_when_they_are_to() {
    promtool(&["check", "rules", "alerts.yml"], None);
    promtool(&["test", "rules", "alerts.test.yml"], None);
}

/// Prometheus's own check, where it is installed: `./test` sees to that.
fn promtool(args: &[&str], input: Option<&str>) {
    use std::io::Write;

    let mut command = Command::new("promtool");
    command.args(args).current_dir(DOCS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("promtool is not installed: {args:?} is not checked");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&text));
}
