//! The pictures themselves: how late, how fast, and what a backlog costs.

use super::scale::{Scale, short};
use super::svg::{Anchor, COLOURS, Canvas, INK};
use crate::all::Results;
use crate::report::{JOBS_PER_S, Measure, REDIS_US, Report, Series};

const WIDTH: f64 = 760.0;
/// Room at the right for a bar's number.
const RIGHT: f64 = WIDTH - 90.0;
const BAR: f64 = 15.0;

fn figure<'a>(results: &'a Results, name: &str) -> Option<&'a Report> {
    results.figures.iter().find(|report| report.figure == name)
}

fn median(series: &Series, key: &str) -> Option<f64> {
    Some(series.measure(key)?.spread.median)
}

fn foot(report: &Report) -> String {
    let runs = report.series.iter().flat_map(|series| &series.measures).map(|m| m.spread.runs.len()).max();
    let runs = match runs {
        Some(1) | None => "one run".to_owned(),
        Some(runs) => format!("medians of {runs} runs"),
    };
    format!("{}; {runs}{}", report.machine.line(), if report.quick { ", quick sizes" } else { "" })
}

/// p50, p99 and max of each load, on a logarithmic axis.
pub(super) fn lateness(results: &Results) -> Option<String> {
    let report = figure(results, "lateness")?;
    let keys = ["start_p50_ms", "start_p99_ms", "start_max_ms"];
    let rows: Vec<(&str, Vec<f64>)> = report
        .series
        .iter()
        .filter_map(|s| Some((s.name.as_str(), keys.iter().map(|key| median(s, key)).collect::<Option<Vec<f64>>>()?)))
        .collect();
    let all = || rows.iter().flat_map(|(_, values)| values.iter().copied().map(|ms| ms.max(0.01)));
    let (lowest, highest) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let (left, top, group) = (150.0, 78.0, 3.0 * BAR + 16.0);
    let bottom = top + group * rows.len() as f64;
    let mut canvas = Canvas::new(WIDTH, bottom + 66.0, "Lateness of jobs");
    canvas.heading(16.0, 26.0, "From the due time to the handler's start");
    let colours = [COLOURS[0], COLOURS[1], INK];
    canvas.legend(16.0, 52.0, &[("p50", colours[0]), ("p99", colours[1]), ("max", colours[2])]);
    let scale = Scale::log(lowest, highest, left, RIGHT);
    axis(&mut canvas, &scale, top, bottom, "ms, logarithmic");
    for (nth, (name, values)) in rows.iter().enumerate() {
        let y = top + group * nth as f64 + 8.0;
        canvas.text(left - 10.0, y + 1.5 * BAR + 4.0, Anchor::End, name);
        for (at, (value, colour)) in values.iter().zip(colours).enumerate() {
            let (y, end) = (y + BAR * at as f64, scale.place(*value));
            canvas.bar(left, y + 1.0, (end - left).max(1.0), BAR - 2.0, colour);
            canvas.small(end + 5.0, y + BAR - 3.5, Anchor::Start, &format!("{} ms", short(*value)));
        }
    }
    Some(canvas.finish(&foot(report)))
}

/// Jobs a second of all that was taken.
pub(super) fn throughput(results: &Results) -> Option<String> {
    let mut rows: Vec<(String, f64, &str)> = Vec::new();
    let mut from: Option<&Report> = None;
    for (name, what, colour) in [
        ("drain", "drain", COLOURS[0]),
        ("burst", "burst, one worker,", COLOURS[1]),
        ("enqueue", "enqueue,", COLOURS[2]),
    ] {
        let Some(report) = figure(results, name) else { continue };
        from = from.or(Some(report));
        for series in &report.series {
            rows.extend(median(series, JOBS_PER_S.key).map(|per_s| (format!("{what} {}", series.name), per_s, colour)));
        }
    }
    let highest = rows.iter().map(|(_, per_s, _)| *per_s).reduce(f64::max)?;
    let (left, top, group) = (250.0, 52.0, BAR + 9.0);
    let bottom = top + group * rows.len() as f64;
    let mut canvas = Canvas::new(WIDTH, bottom + 66.0, "Throughput");
    canvas.heading(16.0, 26.0, "Jobs a second");
    let scale = Scale::linear(highest, left, RIGHT);
    axis(&mut canvas, &scale, top, bottom, "jobs/s");
    for (nth, (name, per_s, colour)) in rows.iter().enumerate() {
        let (y, end) = (top + group * nth as f64 + 5.0, scale.place(*per_s));
        canvas.text(left - 10.0, y + BAR - 3.0, Anchor::End, name);
        canvas.bar(left, y, (end - left).max(1.0), BAR, colour);
        canvas.small(end + 5.0, y + BAR - 3.5, Anchor::Start, &short(*per_s));
    }
    Some(canvas.finish(&foot(from?)))
}

/// Redis's time a job by the number of jobs behind that are not due.
pub(super) fn backlog(results: &Results) -> Option<String> {
    let report = figure(results, "behind")?;
    let kinds: [(&str, &str, &str); 2] =
        [("claim and settle", REDIS_US.key, COLOURS[0]), ("send", SEND_US.key, COLOURS[1])];
    let points: Vec<(f64, &Series)> =
        report.series.iter().filter_map(|series| Some((*series.labels.get("behind")?, series))).collect();
    let spreads = || points.iter().flat_map(|(_, series)| kinds.iter().filter_map(|(_, key, _)| series.measure(key)));
    let highest = spreads().map(|measured| measured.spread.max).reduce(f64::max)?;
    let (left, right, top, bottom) = (70.0, RIGHT, 78.0, 318.0);
    let mut canvas = Canvas::new(WIDTH, bottom + 80.0, "Cost against backlog");
    canvas.heading(16.0, 26.0, "Redis's time a job, with jobs behind that are not due");
    canvas.legend(16.0, 52.0, &kinds.map(|(name, _, colour)| (name, colour)));
    let up = Scale::linear(highest, bottom, top);
    for tick in up.ticks() {
        let y = up.place(tick);
        canvas.grid((left, y), (right, y));
        canvas.small(left - 8.0, y + 4.0, Anchor::End, &short(tick));
    }
    canvas.small(16.0, top - 10.0, Anchor::Start, "us/job");
    canvas.line((left, bottom), (right, bottom), INK, 1.0);
    let place = |nth: usize| left + (right - left) * (nth as f64 + 0.5) / points.len() as f64;
    for (nth, (behind, _)) in points.iter().enumerate() {
        let text = if *behind == 0.0 { "none".to_owned() } else { short(*behind) };
        canvas.text(place(nth), bottom + 20.0, Anchor::Middle, &text);
    }
    canvas.small(
        (left + right) / 2.0,
        bottom + 40.0,
        Anchor::Middle,
        "jobs behind (evenly spaced, not to scale); whiskers: least and most",
    );
    for (_, key, colour) in kinds {
        let mut last: Option<(f64, f64)> = None;
        for (nth, (_, series)) in points.iter().enumerate() {
            let Some(measured) = series.measure(key) else { continue };
            let s = &measured.spread;
            let (x, y) = (place(nth), up.place(s.median));
            if let Some(last) = last {
                canvas.line(last, (x, y), colour, 2.0);
            }
            canvas.line((x, up.place(s.min)), (x, up.place(s.max)), colour, 1.5);
            canvas.dot(x, y, colour);
            canvas.small(x + 9.0, y - 7.0, Anchor::Start, &short(s.median));
            last = Some((x, y));
        }
    }
    Some(canvas.finish(&foot(report)))
}

/// What sends cost, in the figure `behind`.
const SEND_US: Measure = crate::figures::behind::SEND_US;

/// A horizontal axis with its lines, numbers and unit.
fn axis(canvas: &mut Canvas, scale: &Scale, top: f64, bottom: f64, unit: &str) {
    for tick in scale.ticks() {
        let x = scale.place(tick);
        canvas.grid((x, top), (x, bottom));
        canvas.small(x, bottom + 16.0, Anchor::Middle, &short(tick));
    }
    canvas.line((scale.place(0.0), top), (scale.place(0.0), bottom), INK, 1.0);
    canvas.small(scale.place(0.0), bottom + 34.0, Anchor::Start, unit);
}
