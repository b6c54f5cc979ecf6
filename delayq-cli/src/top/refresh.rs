//! The one task that talks to the store: looks, again and again, and makes the changes that were agreed to.

use std::time::{Duration, Instant};

use delayq::Client;
use tokio::sync::{mpsc, watch};

use super::change;
use super::fetch;
use super::model::{Asked, Change, Place, Snapshot};
use crate::audit::Audit;
use crate::failure::Failure;

/// Between the end of a look and the next, however long it took.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// What comes from the store.
#[derive(Debug)]
pub(super) enum News {
    Looked(Snapshot),
    /// What came of a change, and whether that is what was wanted.
    Changed(Result<String, String>),
}

/// What the task works with.
#[derive(Debug)]
pub(super) struct Refresh {
    pub(super) client: Client,
    pub(super) audit: Audit,
    /// The queues that were asked for.
    pub(super) named: Vec<String>,
    pub(super) interval: Duration,
    pub(super) asked: watch::Receiver<Asked>,
    pub(super) changes: mpsc::Receiver<Change>,
    pub(super) news: mpsc::Sender<News>,
}

impl Refresh {
    /// Goes on until nobody asks or listens any more. A change that was begun is brought to its end.
    pub(super) async fn run(mut self) {
        // What was looked at last, so that a frozen view is looked at once.
        let mut last: Option<Place> = None;
        while self.turn(&mut last).await.is_some() {}
    }

    /// One look, and the wait for the next. `None` is the end.
    async fn turn(&mut self, last: &mut Option<Place>) -> Option<()> {
        let asked = self.asked.borrow_and_update().clone();
        let began = Instant::now();
        if !asked.is_frozen || last.as_ref() != Some(&asked.place) {
            tokio::select! {
                // Somebody went elsewhere meanwhile: what this look would see is of no use.
                other = self.asked.changed() => return other.ok(),
                change = self.changes.recv() => {
                    *last = None;
                    return self.make(change?).await;
                }
                seen = fetch::look(&self.client, &self.named, &asked.place) => {
                    let seen = seen.map_err(line);
                    *last = Some(asked.place.clone());
                    let snapshot = Snapshot { place: asked.place, at: began, seen };
                    self.news.send(News::Looked(snapshot)).await.ok()?;
                }
            }
        }
        let next = (began + self.interval).max(Instant::now() + PAUSE_MIN);
        tokio::select! {
            () = tokio::time::sleep_until(next.into()), if !asked.is_frozen => Some(()),
            other = self.asked.changed() => other.ok(),
            change = self.changes.recv() => {
                *last = None;
                self.make(change?).await
            }
        }
    }

    async fn make(&mut self, change: Change) -> Option<()> {
        let made = change::make(&self.client, &mut self.audit, &change).await;
        self.news.send(News::Changed(made.map_err(line))).await.ok()
    }
}

fn line(failure: Failure) -> String {
    failure.text().unwrap_or_else(|| "it failed".to_owned())
}
