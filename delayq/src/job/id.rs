//! The id of a job: a UUID, made before the job is sent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;

/// The id of a job, unique within its queue.
///
/// It is made before the first attempt to send, so that a repeated send can't make a second job.
/// New ids are UUIDs of version 7, which sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// A new id.
    #[allow(clippy::new_without_default)] // A default would be another id each time.
    pub fn new() -> JobId {
        JobId(Uuid::now_v7())
    }

    /// The id that belongs to a name of your own, always the same one: `JobId::named("cancel-order-42")`.
    ///
    /// Sending twice with one id makes one job while that job exists and for 15 seconds after it ended.
    /// To allow one job at a time for a key, use a unique key instead.
    pub fn named(name: &str) -> JobId {
        const NAMESPACE: Uuid = Uuid::from_u128(0x6b0c_41e2_95d7_5f0a_8e51_d1f3_27c4_9a6b);
        JobId(Uuid::new_v5(&NAMESPACE, name.as_bytes()))
    }

    /// The UUID.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> JobId {
        JobId(Uuid::from_bytes(bytes))
    }
}

impl From<Uuid> for JobId {
    fn from(uuid: Uuid) -> JobId {
        JobId(uuid)
    }
}

impl From<JobId> for Uuid {
    fn from(id: JobId) -> Uuid {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({})", self.0)
    }
}

impl Error {
    /// The id of the job that holds the unique key, for [`ErrorKind::Duplicate`](crate::ErrorKind::Duplicate).
    pub fn owner(&self) -> Option<JobId> {
        self.owner_bytes().map(JobId::from_bytes)
    }
}

/// The text is not a job id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidJobId(String);

impl fmt::Display for InvalidJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a job id: it has the form 0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c", self.0)
    }
}

impl std::error::Error for InvalidJobId {}

impl FromStr for JobId {
    type Err = InvalidJobId;

    fn from_str(text: &str) -> Result<JobId, InvalidJobId> {
        let shown = || InvalidJobId(text.chars().take(64).collect());
        Uuid::parse_str(text).map(JobId).map_err(|_| shown())
    }
}
