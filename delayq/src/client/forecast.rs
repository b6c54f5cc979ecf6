//! How many jobs fall due when.

use std::time::Duration;

use jiff::Timestamp;

use super::Client;
use crate::clock::timestamp;
use crate::error::Error;
use crate::limits::FORECAST_MAX;

/// How many jobs of a queue fall due when. Made by [`Client::forecast`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// When it was made, by the store's clock.
    pub now: Timestamp,
    /// How many jobs are due already.
    pub due: u64,
    /// How many fall due within each step from now on, in order. What becomes due because a run fails is not foreseen.
    pub steps: Vec<u64>,
    /// How many fall due after the last step.
    pub later: u64,
}

impl Client {
    /// Counts how many of the jobs that wait now fall due in each of the next `steps` times of `step`; up to 499 of them.
    ///
    /// ```no_run
    /// # async fn example(client: delayq::Client) -> Result<(), delayq::Error> {
    /// let minute = std::time::Duration::from_secs(60);
    /// let hour_ahead = client.forecast("orders", minute, 60).await?;
    /// println!("{} are due, {} within a minute", hour_ahead.due, hour_ahead.steps[0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The name is none, `step` is below a millisecond, `steps` is out of range, they reach beyond a hundred years, or the store
    /// doesn't answer.
    pub async fn forecast(&self, queue: &str, step: Duration, steps: usize) -> Result<Forecast, Error> {
        const FAR: Duration = Duration::from_secs(100 * 366 * 86_400);
        if steps == 0 || steps >= FORECAST_MAX {
            return Err(Error::invalid(format!(
                "a forecast of {steps} steps is out of range: 1 to {}",
                FORECAST_MAX - 1
            )));
        }
        if step < Duration::from_millis(1) || step > FAR / steps as u32 {
            return Err(Error::invalid(format!(
                "a forecast in steps of {step:?} is out of range: from 1 ms on, to a hundred years ahead in all"
            )));
        }
        let shard = self.shard(queue)?;
        let ahead: Vec<Duration> = (0..=steps).map(|n| step * n as u32).collect();
        let counted = self.ask(|| self.store().forecast(&shard, &ahead)).await?;
        let due_by = |at: usize| counted.due_by.get(at).copied().unwrap_or(0);
        Ok(Forecast {
            now: timestamp(counted.now_ms),
            due: due_by(0),
            steps: (0..steps).map(|n| due_by(n + 1).saturating_sub(due_by(n))).collect(),
            later: counted.waiting.saturating_sub(due_by(steps)),
        })
    }
}
