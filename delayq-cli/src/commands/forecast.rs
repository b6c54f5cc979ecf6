//! `forecast`: how many jobs fall due when.

use std::time::Duration;

use clap::Args;
use delayq::Forecast;
use serde::Serialize;

use super::Session;
use crate::failure::{OneByOne, Outcome};
use crate::find;
use crate::output::colour::{FAINT, GOOD, HEAD};
use crate::output::json::{in_ms, ms};
use crate::output::{Out, remark};
use crate::time;

/// The longest bar, in columns.
const BAR_MAX: usize = 50;
/// What a row has beside its bar, in columns.
const BESIDE: usize = 30;

/// Which queues, and how far ahead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq forecast
  delayq forecast orders --step 1m --steps 60")]
pub(crate) struct Options {
    /// Only these
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// How long a step is
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = time::duration)]
    step: Duration,
    /// How many steps
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..500))]
    steps: u16,
}

#[derive(Debug, Serialize)]
struct View<'a> {
    queue: &'a str,
    now: String,
    step_ms: u64,
    due: u64,
    steps: &'a [u64],
    later: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let queues = find::queues(&session.client, &options.queues).await?;
    if queues.is_empty() {
        remark("no queue was used yet under this prefix");
    }
    let mut each = OneByOne::default();
    for queue in &queues {
        let shown = show(session, queue, &options).await;
        find::spare(&mut each, queue, shown)?;
    }
    each.end()
}

async fn show(session: &mut Session, queue: &str, options: &Options) -> Outcome {
    let forecast = session.client.forecast(queue, options.step, usize::from(options.steps)).await?;
    if !session.out.json {
        return chart(&mut session.out, queue, options.step, &forecast);
    }
    let Forecast { now, due, steps, later, .. } = &forecast;
    let (now, step_ms) = (in_ms(*now), ms(options.step));
    Ok(session.out.json_line(&View { queue, now, step_ms, due: *due, steps, later: *later })?)
}

/// Steps in which nothing falls due are passed over.
fn chart(out: &mut Out, queue: &str, step: Duration, forecast: &Forecast) -> Outcome {
    let within: u64 = forecast.steps.iter().sum();
    let ahead = step * u32::try_from(forecast.steps.len()).unwrap_or(u32::MAX);
    let title = out.styled(HEAD, queue);
    out.line(format!(
        "{title}: {} due now, {within} within {}, {} later",
        forecast.due,
        time::short(ahead),
        forecast.later
    ))?;
    let most = forecast.steps.iter().copied().max().unwrap_or(0);
    let room = out.columns().map_or(BAR_MAX, |columns| columns.saturating_sub(BESIDE).clamp(10, BAR_MAX));
    for (nth, count) in forecast.steps.iter().enumerate().filter(|(_, count)| **count > 0) {
        let nth = u32::try_from(nth).unwrap_or(u32::MAX);
        let (from, to) = (time::short(step * nth), time::short(step * (nth + 1)));
        let bar = out.styled(GOOD, bar(*count, most, room));
        let span = out.styled(FAINT, format!("{from:>8} to {to:<8}"));
        out.line(format!("  {span} {count:>8} {bar}"))?;
    }
    Ok(())
}

/// As long as its share of the most; what is there at all is seen.
pub(crate) fn bar(count: u64, most: u64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count as f64 / most.max(1) as f64 * (room * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(count > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██");
        assert_eq!(bar(1, 10, 1), "▏");
        assert_eq!(bar(1, 1_000_000, 4), "▏", "what is there at all is seen");
        assert_eq!(bar(0, 10, 4), "");
    }
}
