//! Scheduling: a builder that says when and how, then the jobs.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

#[cfg(feature = "testing")]
use std::borrow::Cow;

#[cfg(feature = "testing")]
use bytes::Bytes;
use futures_util::future::Either;

use super::Client;
use super::flush::{CALLS_MAX, Results, parcels};
use super::handle::JobHandle;
use crate::clock::{When, delay_ms};
use crate::envelope;
#[cfg(feature = "testing")]
use crate::envelope::Envelope;
use crate::error::{Error, ErrorKind};
use crate::job::{JobId, JobType, check_name};
#[cfg(feature = "testing")]
use crate::job::{JobRequest, Meta};
use crate::limits::UNIQUE_KEY_BYTES_MAX;
use crate::store::ops::{NewJob, Options, Sent};
use crate::trace;

/// When and how a job shall run. Made by [`Client::schedule`], [`Client::schedule_at`] and [`Client::enqueue`].
#[must_use = "nothing is scheduled before `send` or `send_all` is called and awaited"]
pub struct Schedule<J> {
    client: Client,
    when: When,
    id: Option<JobId>,
    priority: Option<u8>,
    queue: Option<String>,
    unique: Option<String>,
    expires_in: Option<Duration>,
    retain_for: Option<Duration>,
    trace_parent: Option<String>,
    job: PhantomData<fn(J)>,
}

impl<J: JobType> Schedule<J> {
    pub(super) fn new(client: Client, when: When) -> Schedule<J> {
        Schedule {
            client,
            when,
            id: None,
            priority: None,
            queue: None,
            unique: None,
            expires_in: None,
            retain_for: None,
            trace_parent: None,
            job: PhantomData,
        }
    }

    /// The job's id, instead of a new one: however often it is sent, there is one job of this id.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The priority among the jobs that are due, instead of the type's: 0 runs first, 9 last.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The queue, instead of the type's.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The unique key, instead of the type's, of 1 to 200 bytes: while a job of this key has not ended, sending
    /// another one to the queue is refused as [`ErrorKind::Duplicate`].
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.unique = Some(key.into());
        self
    }

    /// How long after its due time the job is still worth starting. After that it ends as expired and its handler is not called.
    pub fn expires_in(mut self, after_due: Duration) -> Self {
        self.expires_in = Some(after_due);
        self
    }

    /// How long the job's record is kept once it is done, so that [`JobHandle::status`] can still tell.
    pub fn retain_for(mut self, after_done: Duration) -> Self {
        self.retain_for = Some(after_done);
        self
    }

    /// The W3C `traceparent` that the job's runs belong to. With the feature `opentelemetry` it is taken from the
    /// span that is current where the job is sent.
    pub fn trace_parent(mut self, parent: impl Into<String>) -> Self {
        self.trace_parent = Some(parent.into());
        self
    }

    /// Sends one job. It is encoded at once; what goes wrong there is told when the future is awaited.
    ///
    /// # Errors
    /// Refused before it is sent: [`InvalidArgument`](ErrorKind::InvalidArgument), [`Payload`](ErrorKind::Payload).
    /// Refused by the store: [`Duplicate`](ErrorKind::Duplicate), [`Full`](ErrorKind::Full) and others.
    /// [`Unknown`](ErrorKind::Unknown): no answer within the deadline; the job may be there, so send again with the same id.
    pub fn send(self, job: J) -> SendJob<J> {
        let client = self.client.clone();
        let encoded = self.plan().and_then(|plan| Ok((plan.encode(&job, self.id)?, plan.queue)));
        SendJob {
            future: Box::pin(async move {
                let (job, queue) = encoded?;
                let shard = client.shard(&queue)?;
                let id = JobId::from_bytes(job.id);
                let deadline = Instant::now() + client.inner.send_deadline;
                let result = client.inner.flushers.send(&shard, vec![job], deadline).await.pop();
                let sent = result.unwrap_or_else(|| Err(Error::corrupt("a send got no answer")))?;
                handle(client, queue, id, sent)
            }),
        }
    }

    /// Sends many jobs in calls of up to 200; answers for each of them, in their order.
    ///
    /// They are encoded at once; the iterator is not held while they are sent.
    pub fn send_all<I: IntoIterator<Item = J>>(self, jobs: I) -> SendAll<J> {
        let client = self.client.clone();
        let jobs: Vec<J> = jobs.into_iter().collect();
        let plan = match self.plan() {
            Ok(_) if self.id.is_some() && jobs.len() > 1 => {
                Err(Error::invalid("one id can't belong to several jobs: give an id to each by sending it alone"))
            }
            other => other,
        };
        let future: Pin<Box<dyn Future<Output = _> + Send>> = match plan {
            Ok(plan) => {
                let encoded = jobs.iter().map(|job| plan.encode(job, self.id)).collect();
                Box::pin(send_encoded(client, plan.queue, encoded))
            }
            Err(error) => Box::pin(std::future::ready(jobs.iter().map(|_| Err(error.again())).collect())),
        };
        SendAll { future }
    }

    /// What all jobs of a send have in common, checked.
    fn plan(&self) -> Result<Plan, Error> {
        let queue = self.queue.as_deref().unwrap_or(J::QUEUE);
        check_name("queue", queue)?;
        let terms = Terms {
            when: self.when,
            priority: self.priority.unwrap_or(J::PRIORITY),
            max_retries: J::MAX_RETRIES,
            unique: self.unique.clone(),
            expires_in: self.expires_in,
            retain_for: self.retain_for,
            trace_parent: self.trace_parent.clone().or_else(trace::current_parent),
        };
        terms.plan(queue, J::NAME, J::VERSION, self.client.inner.payload_limit)
    }
}

/// When and how a job shall run, whatever its type.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) when: When,
    pub(super) priority: u8,
    pub(super) max_retries: u32,
    pub(super) unique: Option<String>,
    pub(super) expires_in: Option<Duration>,
    pub(super) retain_for: Option<Duration>,
    pub(super) trace_parent: Option<String>,
}

impl Terms {
    /// Checked, for jobs of a name and version.
    pub(super) fn plan(self, queue: &str, name: &str, version: u32, payload_limit: usize) -> Result<Plan, Error> {
        check_name("job", name)?;
        let priority = self.priority;
        if priority > 9 {
            return Err(Error::invalid(format!("priority {priority} is out of range: 0 runs first, 9 last")));
        }
        if version == 0 {
            return Err(Error::invalid(format!("the job type {name} has version 0: versions start at 1")));
        }
        let ms = |what: &str, duration: Option<Duration>| match duration.map(|duration| (duration, delay_ms(duration)))
        {
            None => Ok(None),
            Some((_, Some(ms))) if ms > 0 => Ok(Some(ms)),
            Some((duration, _)) => {
                Err(Error::invalid(format!("{what} of {duration:?} is out of range: above zero, up to the year 9999")))
            }
        };
        if let Some(parent) = &self.trace_parent {
            trace::check_parent(parent)?;
        }
        let options = Options {
            priority,
            attempts_max: envelope::attempts_limit(self.max_retries),
            expires_ms: ms("expires_in", self.expires_in)?,
            retain_ms: ms("retain_for", self.retain_for)?,
            unique: self.unique,
        };
        Ok(Plan {
            queue: queue.into(),
            when: self.when.to_arg()?,
            options,
            head: envelope::head(name, version, self.trace_parent.as_deref()),
            payload_limit,
        })
    }
}

/// What all jobs of a send have in common.
pub(super) struct Plan {
    queue: Arc<str>,
    when: String,
    /// With the unique key that was asked for; a job's own comes where there is none.
    options: Options,
    /// The envelope's head line.
    head: Vec<u8>,
    payload_limit: usize,
}

impl Plan {
    /// A job as it is sent.
    fn encode<J: JobType>(&self, job: &J, id: Option<JobId>) -> Result<NewJob, Error> {
        let unique = self.options.unique.clone().or_else(|| job.unique_key());
        let write = |envelope: &mut Vec<u8>| {
            serde_json::to_writer(envelope, job).map_err(|error| {
                Error::new(ErrorKind::Payload, format!("the payload of {} can't be encoded as JSON", J::NAME))
                    .caused(error)
            })
        };
        self.job(J::NAME, id, unique, write)
    }

    /// A job as it is sent, whose payload stands already.
    pub(super) fn wrap(&self, name: &str, payload: &[u8], id: Option<JobId>) -> Result<NewJob, Error> {
        let unique = self.options.unique.clone();
        self.job(name, id, unique, |envelope| {
            envelope.extend_from_slice(payload);
            Ok(())
        })
    }

    fn job(
        &self,
        name: &str,
        id: Option<JobId>,
        unique: Option<String>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<NewJob, Error> {
        if let Some(key) = &unique
            && (key.is_empty() || key.len() > UNIQUE_KEY_BYTES_MAX)
        {
            return Err(Error::invalid(format!(
                "the unique key has {} bytes: 1 to {UNIQUE_KEY_BYTES_MAX} are allowed; hash what is longer",
                key.len()
            )));
        }
        let mut envelope = Vec::with_capacity(256);
        envelope.extend_from_slice(&self.head);
        write(&mut envelope)?;
        let (bytes, limit) = (envelope.len() - self.head.len(), self.payload_limit);
        if bytes > limit {
            return Err(Error::new(
                ErrorKind::Payload,
                format!(
                    "the payload of {name} has {bytes} bytes, over the limit of {limit}: store it elsewhere and send a reference, or raise ClientBuilder::payload_limit"
                ),
            ));
        }
        let id = id.unwrap_or_else(JobId::new);
        tracing::debug!(job.id = %id, job.name = name, queue = &*self.queue, "scheduled");
        Ok(NewJob {
            id: *id.as_bytes(),
            when: self.when.clone(),
            options: Options { unique, ..self.options },
            envelope,
        })
    }
}

#[cfg(feature = "testing")]
impl Client {
    /// The queues that something was sent to.
    pub(crate) fn sent_queues(&self) -> Vec<String> {
        self.inner.flushers.queues()
    }

    /// The request that a run of this job would be, as if it had been sent and were due now.
    pub(crate) fn request<J: JobType>(&self, job: &J, attempt: u32, now_us: u64) -> Result<JobRequest, Error> {
        let plan = self.enqueue::<J>().plan()?;
        let sent = plan.encode(job, None)?;
        let envelope = Bytes::from(sent.envelope);
        let read = Envelope::decode(&envelope).map_err(|malformed| Error::corrupt(malformed.0))?;
        Ok(JobRequest::new(Meta {
            id: JobId::from_bytes(sent.id),
            name: Cow::Borrowed(J::NAME),
            version: J::VERSION,
            queue: plan.queue,
            attempt,
            attempts_max: (J::MAX_RETRIES < u32::from(u16::MAX) - 1).then_some(J::MAX_RETRIES + 1),
            free_returns: 0,
            run_token: now_us / 1000,
            due_ms: now_us / 1000,
            enqueued_ms: now_us / 1000,
            claimed_us: now_us,
            trace_parent: read.trace_parent.map(str::to_owned),
            payload: envelope.slice(read.payload_at..),
        }))
    }
}

/// Sends jobs as they are; what could not be encoded answers with its error.
pub(super) async fn send_encoded<J>(
    client: Client,
    queue: Arc<str>,
    encoded: Vec<Result<NewJob, Error>>,
) -> Vec<Result<JobHandle<J>, Error>> {
    // What could not be encoded keeps its place among the answers.
    let mut answers: Vec<Option<Result<JobHandle<J>, Error>>> = Vec::with_capacity(encoded.len());
    let mut jobs = Vec::with_capacity(encoded.len());
    for job in encoded {
        match job {
            Ok(job) => {
                jobs.push(job);
                answers.push(None);
            }
            Err(error) => answers.push(Some(Err(error))),
        }
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| JobId::from_bytes(job.id)).collect();
    let mut results = Vec::with_capacity(jobs.len());
    match client.shard(&queue) {
        Ok(shard) => {
            let mut unsent: Option<Error> = None;
            let mut under_way = VecDeque::with_capacity(CALLS_MAX);
            for parcel in parcels(jobs) {
                if under_way.len() == CALLS_MAX {
                    unsent = land(&mut under_way, &mut results).await.or(unsent);
                }
                if let Some(error) = &unsent {
                    while !under_way.is_empty() {
                        land(&mut under_way, &mut results).await;
                    }
                    results.extend(parcel.iter().map(|_| Err(error.again())));
                    continue;
                }
                let deadline = Instant::now() + client.inner.send_deadline;
                let mut call = Box::pin(client.inner.flushers.send(&shard, parcel, deadline));
                // Handed over by being polled; the flushing task does the rest.
                let call = match futures_util::poll!(call.as_mut()) {
                    Poll::Ready(answers) => Either::Left(std::future::ready(answers)),
                    Poll::Pending => Either::Right(call),
                };
                under_way.push_back(call);
            }
            while !under_way.is_empty() {
                land(&mut under_way, &mut results).await;
            }
        }
        Err(error) => results.extend(jobs.iter().map(|_| Err(error.again()))),
    }
    let mut sent = ids
        .into_iter()
        .zip(results)
        .map(|(id, result)| result.and_then(|sent| handle(client.clone(), queue.clone(), id, sent)));
    answers
        .into_iter()
        .map(|answer| answer.or_else(|| sent.next()).unwrap_or_else(|| Err(Error::corrupt("a send got no answer"))))
        .collect()
}

/// Waits for the first of the calls under way. Where it got no answer in all its time, the caller doesn't wait for each of those
/// to come too: the error for them.
async fn land<F: Future<Output = Results> + Unpin>(
    under_way: &mut VecDeque<F>,
    results: &mut Results,
) -> Option<Error> {
    let answers = under_way.pop_front()?.await;
    let unsent = unanswered(&answers);
    results.extend(answers);
    unsent
}

/// What becomes of the jobs that would have come next, if none of these got an answer of the store's.
fn unanswered(answers: &[Result<Sent, Error>]) -> Option<Error> {
    let gave_up = |answer: &Result<Sent, Error>| {
        answer.as_ref().is_err_and(|error| error.is_temporary() && error.kind() != ErrorKind::Full)
    };
    let first = answers.first()?.as_ref().err()?;
    let kind = if first.is_unknown() { ErrorKind::Unreachable } else { first.kind() };
    let unsent = || Error::new(kind, format!("not sent, since those before it in this call failed: {first}"));
    answers.iter().all(gave_up).then(unsent)
}

fn handle<J>(client: Client, queue: Arc<str>, id: JobId, sent: Sent) -> Result<JobHandle<J>, Error> {
    match sent {
        Sent::Created => Ok(JobHandle::new(client, queue, id, true)),
        Sent::Already => Ok(JobHandle::new(client, queue, id, false)),
        Sent::Duplicate { owner } => Err(Error::new(
            ErrorKind::Duplicate,
            format!("the job {} has this unique key and has not ended", JobId::from_bytes(owner)),
        )
        .owned_by(owner)),
    }
}

impl<J> fmt::Debug for Schedule<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("when", &self.when).field("queue", &self.queue).finish_non_exhaustive()
    }
}

macro_rules! named_future {
    ($(#[$doc:meta])* $name:ident -> $output:ty) => {
        $(#[$doc])*
        #[must_use = "nothing is sent before this is awaited"]
        pub struct $name<J> {
            future: Pin<Box<dyn Future<Output = $output> + std::marker::Send>>,
        }

        impl<J> Future for $name<J> {
            type Output = $output;

            fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<$output> {
                self.future.as_mut().poll(cx)
            }
        }

        impl<J> fmt::Debug for $name<J> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

named_future! {
    /// One job on its way. Made by [`Schedule::send`].
    SendJob -> Result<JobHandle<J>, Error>
}

named_future! {
    /// Several jobs on their way. Made by [`Schedule::send_all`].
    SendAll -> Vec<Result<JobHandle<J>, Error>>
}
