//! Sends and cancels that leave their trace in the history.

use std::time::Duration;

use delayq::{CancelOutcome, Client, Error, ErrorKind, JobId, JobType};
use jiff::Timestamp;
use uuid::Uuid;

use crate::history::{Ending, Journal, What, When, checksum};
use crate::work::{QUEUE, Task};

/// How a job is sent.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) id: Uuid,
    pub(crate) when: When,
    pub(crate) ending: Ending,
    /// Keep its record so long once it is done.
    pub(crate) retain: Option<Duration>,
    pub(crate) unique: Option<String>,
    pub(crate) priority: u8,
}

impl Order {
    /// A job with an id of its own, due after so many ms.
    pub(crate) fn after(ms: u64, ending: Ending) -> Order {
        Order {
            id: Uuid::now_v7(),
            when: When::In(ms),
            ending,
            retain: Some(Duration::from_secs(3600)),
            unique: None,
            priority: 5,
        }
    }
}

/// What the store said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Sent { new: bool },
    Refused(ErrorKind),
    Unknown,
}

impl Answer {
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self, Answer::Sent { .. })
    }
}

/// Sends a job and says in the history what was asked and what was answered.
pub(crate) async fn send<J: JobType>(journal: &Journal, client: &Client, job: J, order: &Order) -> Answer {
    let id = order.id;
    let bytes = serde_json::to_vec(&job).map(|payload| checksum(&payload)).unwrap_or_default();
    journal.tell(What::EnqueueInvoke {
        id,
        when: order.when,
        ending: order.ending,
        attempts_max: J::MAX_RETRIES + 1,
        bytes,
    });
    let schedule = match order.when {
        When::In(ms) => client.schedule::<J>(Duration::from_millis(ms)),
        When::At(ms) => client.schedule_at::<J>(Timestamp::from_millisecond(ms as i64).unwrap_or(Timestamp::MAX)),
    };
    let mut schedule = schedule.id(JobId::from(id)).queue(QUEUE).priority(order.priority);
    if let Some(retain) = order.retain {
        schedule = schedule.retain_for(retain);
    }
    if let Some(unique) = &order.unique {
        schedule = schedule.unique(unique.clone());
    }
    match schedule.send(job).await {
        Ok(handle) => {
            journal.tell(What::EnqueueOk { id, new: handle.is_new() });
            Answer::Sent { new: handle.is_new() }
        }
        Err(error) => refused(journal, id, &error),
    }
}

pub(crate) fn refused(journal: &Journal, id: Uuid, error: &Error) -> Answer {
    if error.is_unknown() {
        journal.tell(What::EnqueueUnknown { id, text: error.to_string() });
        return Answer::Unknown;
    }
    journal.tell(What::EnqueueFail { id, kind: format!("{:?}", error.kind()), text: error.to_string() });
    Answer::Refused(error.kind())
}

/// Cancels a job.
pub(crate) async fn cancel(journal: &Journal, client: &Client, id: Uuid) -> String {
    journal.tell(What::CancelInvoke { id });
    let answer = match client.handle_in::<Task>(QUEUE, JobId::from(id)).cancel().await {
        Ok(CancelOutcome::Cancelled) => "cancelled".to_owned(),
        Ok(_) => "running".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    };
    journal.tell(What::CancelTold { id, answer: answer.clone() });
    answer
}
