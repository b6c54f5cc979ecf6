//! Jobs whose type this program doesn't have: a name, a version and the payload's bytes.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::Client;
use super::handle::JobHandle;
use super::jobs::AnyJob;
use super::schedule::{Terms, send_encoded};
use crate::clock::When;
use crate::error::Error;
use crate::job::JobId;

/// A job whose type this program doesn't have: for tools and gateways. Programs that have the type use [`Client::schedule`].
///
/// ```no_run
/// # async fn example(client: delayq::Client) -> Result<(), delayq::Error> {
/// use delayq::RawJob;
/// use std::time::Duration;
///
/// let job = RawJob::new("cancel_order", 1, r#"{"order_id":42}"#).at(Duration::from_secs(30 * 60));
/// for sent in client.send_raw("orders", vec![job]).await {
///     println!("{}", sent?.id());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is sent before it is given to `Client::send_raw`"]
pub struct RawJob {
    name: Cow<'static, str>,
    version: u32,
    payload: Bytes,
    id: Option<JobId>,
    terms: Terms,
}

impl RawJob {
    /// A job of this name and version, to be run at once, with priority 5 and 3 retries. The payload is stored as it is; types made
    /// with `#[delayed_job]` expect JSON.
    pub fn new(name: impl Into<Cow<'static, str>>, version: u32, payload: impl Into<Bytes>) -> RawJob {
        RawJob {
            name: name.into(),
            version,
            payload: payload.into(),
            id: None,
            terms: Terms {
                when: Duration::ZERO.into(),
                priority: 5,
                max_retries: 3,
                unique: None,
                expires_in: None,
                retain_for: None,
                trace_parent: None,
            },
        }
    }

    /// When it is to run: after a `Duration`, or at an instant.
    pub fn at(mut self, when: impl Into<When>) -> RawJob {
        self.terms.when = when.into();
        self
    }

    /// Its id, instead of a new one: however often it is sent, there is one job of this id.
    pub fn id(mut self, id: JobId) -> RawJob {
        self.id = Some(id);
        self
    }

    /// Its priority among the jobs that are due: 0 runs first, 9 last.
    pub fn priority(mut self, priority: u8) -> RawJob {
        self.terms.priority = priority;
        self
    }

    /// How often it is run again if it fails.
    pub fn max_retries(mut self, retries: u32) -> RawJob {
        self.terms.max_retries = retries;
        self
    }

    /// Its unique key, of 1 to 200 bytes.
    pub fn unique(mut self, key: impl Into<String>) -> RawJob {
        self.terms.unique = Some(key.into());
        self
    }

    /// How long after its due time it is still worth starting.
    pub fn expires_in(mut self, after_due: Duration) -> RawJob {
        self.terms.expires_in = Some(after_due);
        self
    }

    /// How long its record is kept once it is done.
    pub fn retain_for(mut self, after_done: Duration) -> RawJob {
        self.terms.retain_for = Some(after_done);
        self
    }

    /// The W3C `traceparent` that its runs belong to.
    pub fn trace_parent(mut self, parent: impl Into<String>) -> RawJob {
        self.terms.trace_parent = Some(parent.into());
        self
    }
}

impl Client {
    /// Sends jobs whose types this program doesn't have, in calls of up to 200; answers for each of them, in their order.
    pub async fn send_raw(&self, queue: &str, jobs: Vec<RawJob>) -> Vec<Result<JobHandle<AnyJob>, Error>> {
        let limit = self.inner.payload_limit;
        let encode = |job: RawJob| {
            let RawJob { name, version, payload, id, terms } = job;
            terms.plan(queue, &name, version, limit)?.wrap(&name, &payload, id)
        };
        let encoded = jobs.into_iter().map(encode).collect();
        send_encoded(self.clone(), queue.into(), encoded).await
    }
}

impl fmt::Debug for RawJob {
    // Payloads may hold what must not be in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawJob")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("id", &self.id)
            .field("when", &self.terms.when)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
