//! Looking at what happens: the history as it grows, processes as they end.

use std::time::{Duration, Instant};

use delayq::BoxError;
use uuid::Uuid;

use super::{Kind, World, processes};
use crate::history::{Event, What};

/// How often what happens is looked at.
pub(super) const TICK: Duration = Duration::from_millis(5);
const SAMPLES: Duration = Duration::from_millis(700);

impl World {
    /// What came in meanwhile, who ended meanwhile.
    pub(crate) async fn tick(&mut self) -> Result<(), BoxError> {
        self.tail.read(&mut self.events)?;
        let mut ended = Vec::new();
        for at in (0..self.procs.len()).rev() {
            if let Some(end) = self.procs[at].ended() {
                ended.push((self.procs.remove(at), end));
            }
        }
        for (proc, end) in ended {
            for text in end.panics {
                self.tell(What::Panic { name: proc.name.clone(), text });
            }
            let by_plan = proc.kind == Kind::Worker && self.deaths_planned && end.how.starts_with("signal");
            let asked = proc.asked || by_plan;
            self.tell(What::Down { name: proc.name.clone(), how: end.how, asked });
            if proc.kind == Kind::Worker && self.respawn {
                self.add_worker().await?;
            }
        }
        if self.sampled.elapsed() > SAMPLES {
            self.sampled = Instant::now();
            for proc in &self.procs {
                if let Some((rss_kib, fds)) = processes::takes(proc.pid()) {
                    self.tell(What::Sample { name: proc.name.clone(), rss_kib, fds });
                }
            }
        }
        Ok(())
    }

    /// Lets time pass.
    pub(crate) async fn rest(&mut self, time: Duration) -> Result<(), BoxError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.tick().await?;
            tokio::time::sleep(TICK.min(until.saturating_duration_since(Instant::now()))).await;
        }
        self.tick().await
    }

    pub(crate) async fn rest_ms(&mut self, ms: u64) -> Result<(), BoxError> {
        self.rest(Duration::from_millis(ms)).await
    }

    /// Where the history stands now.
    pub(crate) fn mark(&mut self) -> usize {
        let _ = self.tail.read(&mut self.events);
        self.events.len()
    }

    /// Waits until an event from the mark on is the one that is looked for.
    pub(crate) async fn wait<T>(
        &mut self,
        from: usize,
        patience_ms: u64,
        wanted: impl Fn(&Event) -> Option<T>,
    ) -> Result<Option<T>, BoxError> {
        let until = Instant::now() + Duration::from_millis(patience_ms);
        let mut at = from;
        loop {
            self.tick().await?;
            if let Some(found) = self.events[at.min(self.events.len())..].iter().find_map(&wanted) {
                return Ok(Some(found));
            }
            at = self.events.len();
            if Instant::now() > until {
                return Ok(None);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Which worker claimed a job, from the mark on.
    pub(crate) async fn claimed(&mut self, from: usize, id: Uuid) -> Result<Option<(String, u64)>, BoxError> {
        self.wait(from, 15_000, |event| match &event.what {
            What::Claim { id: is, token, .. } if *is == id => Some((event.by.clone(), *token)),
            _ => None,
        })
        .await
    }

    /// How many runs of a job have begun.
    pub(crate) fn runs_of(&self, id: Uuid) -> usize {
        self.events.iter().filter(|e| matches!(&e.what, What::Claim { id: is, .. } if *is == id)).count()
    }

    pub(crate) fn effects_of(&self, id: Uuid) -> usize {
        self.events.iter().filter(|e| matches!(&e.what, What::Effect { id: is, .. } if *is == id)).count()
    }

    /// Waits until a job's run came to something.
    pub(crate) async fn outcome(&mut self, from: usize, id: Uuid) -> Result<Option<String>, BoxError> {
        self.wait(from, 20_000, |event| match &event.what {
            What::Outcome { id: is, how, .. } if *is == id => Some(how.clone()),
            _ => None,
        })
        .await
    }
}
