//! The one task that talks to the store: looks, again and again, and makes the changes that were agreed to.

use std::time::{Duration, Instant};

use delayq::Client;
use tokio::sync::{mpsc, watch};

use super::change;
use super::fetch;
use super::model::{Asked, Change, Place, Seen, Snapshot};
use crate::audit::Audit;
use crate::failure::{Failure, Outcome};

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

/// What was looked at last, and when the next look is due.
#[derive(Debug)]
struct Last {
    place: Option<Place>,
    chart: Option<String>,
    next: Instant,
}

/// What came first.
enum During<T> {
    Seen(T),
    Elsewhere,
    Change(Change),
}

impl Refresh {
    /// Goes on until nobody asks or listens any more. A change that was begun is brought to its end.
    pub(super) async fn run(mut self) {
        let mut last = Last { place: None, chart: None, next: Instant::now() };
        while self.turn(&mut last).await.is_some() {}
    }

    /// One look where one is due, and the wait for the next. `None` is the end.
    async fn turn(&mut self, last: &mut Last) -> Option<()> {
        let asked = self.asked.borrow_and_update().clone();
        let is_due = !asked.is_frozen && last.next <= Instant::now();
        if is_due || last.place.as_ref() != Some(&asked.place) {
            let began = Instant::now();
            let (client, named) = (self.client.clone(), self.named.clone());
            let look = fetch::look(&client, &named, &asked.place, asked.chart.as_deref());
            let seen = match self.unless_elsewhere(&asked.place, look).await? {
                During::Seen(seen) => seen,
                During::Elsewhere => return Some(()),
                During::Change(change) => return self.make(change, last).await,
            };
            last.next = (began + self.interval).max(Instant::now() + PAUSE_MIN);
            last.place = Some(asked.place.clone());
            last.chart.clone_from(&asked.chart);
            self.tell(asked.place, began, seen).await?;
        } else if last.chart != asked.chart {
            last.chart.clone_from(&asked.chart);
            if let Some(queue) = &asked.chart {
                let (client, began) = (self.client.clone(), Instant::now());
                let look = fetch::ahead(&client, queue);
                match self.unless_elsewhere(&asked.place, look).await? {
                    During::Seen(seen) => self.tell(asked.place, began, seen.map(Seen::Ahead)).await?,
                    During::Elsewhere => return Some(()),
                    During::Change(change) => return self.make(change, last).await,
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep_until(last.next.into()), if !asked.is_frozen => Some(()),
            other = self.asked.changed() => other.ok(),
            change = self.changes.recv() => self.make(change?, last).await,
        }
    }

    /// Looks, unless somebody goes elsewhere meanwhile, where what this look would see is of no use, or changes something.
    async fn unless_elsewhere<T>(&mut self, place: &Place, look: impl Future<Output = T>) -> Option<During<T>> {
        tokio::pin!(look);
        let mut is_other = false;
        loop {
            tokio::select! {
                other = self.asked.changed() => {
                    other.ok()?;
                    if self.asked.borrow().place != *place {
                        return Some(During::Elsewhere);
                    }
                    is_other = true;
                }
                change = self.changes.recv() => return change.map(During::Change),
                seen = &mut look => {
                    if is_other {
                        // Another chart, or a freeze: the next turn's.
                        self.asked.mark_changed();
                    }
                    return Some(During::Seen(seen));
                }
            }
        }
    }

    async fn tell(&self, place: Place, at: Instant, seen: Outcome<Seen>) -> Option<()> {
        self.news.send(News::Looked(Snapshot { place, at, seen: seen.map_err(line) })).await.ok()
    }

    async fn make(&mut self, change: Change, last: &mut Last) -> Option<()> {
        // What came of it is to be seen, also where the view is frozen.
        last.place = None;
        let made = change::make(&self.client, &mut self.audit, &change).await;
        self.news.send(News::Changed(made.map_err(line))).await.ok()
    }
}

fn line(failure: Failure) -> String {
    failure.text().unwrap_or_else(|| "it failed".to_owned())
}
