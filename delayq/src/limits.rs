//! Every bound of the library, and how the bounds depend on each other.

use std::time::Duration;

/// The longest job or queue name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest unique key, in bytes.
pub const UNIQUE_KEY_BYTES_MAX: usize = 200;
/// The largest payload unless [`ClientBuilder::payload_limit`](crate::ClientBuilder::payload_limit) says otherwise, in bytes.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1024 * 1024;
/// The largest payload that can be allowed, in bytes: Redis copies a record whole, and nothing else runs meanwhile.
pub const PAYLOAD_BYTES_CEILING: usize = 16 * 1024 * 1024;
/// The longest head line of an envelope, in bytes.
pub const ENVELOPE_HEAD_BYTES_MAX: usize = 1024;
/// The largest number of attempts that is counted; a job that allows more has no limit.
pub const ATTEMPTS_COUNTED_MAX: u32 = 65_534;
/// The text of an error that is kept with a job, in bytes; the rest is cut off.
pub const ERROR_BYTES_MAX: usize = 4096;
/// How many causes of an error are told: a chain that leads back to itself has no end.
pub const ERROR_CAUSES_MAX: usize = 32;
/// The latest due time, in ms since 1970: the end of the year 9999. A Redis score holds it exactly.
pub const DUE_MAX_MS: u64 = 253_402_300_799_999;

/// How many connections commands may share.
pub const CONNECTIONS_MAX: u32 = 1000;
/// How long connecting, or an answer, may be waited for at the longest: who waits longer is as good as stuck.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);

/// How many jobs one send call carries; more are split into several.
pub const SEND_BATCH_MAX: usize = 200;
/// How many bytes one send call carries, so that a batch of large jobs can't exceed the response timeout.
pub const SEND_BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many sends may wait in one client; a further one waits for room.
pub const SEND_BACKLOG_MAX: usize = 10_000;
/// How long a send is tried again, at the longest.
pub const SEND_DEADLINE_MAX: Duration = Duration::from_secs(10);
/// How long the store remembers that an id ended, so that a repeated send can't run it again.
pub const TOMBSTONE: Duration = Duration::from_secs(15);

/// How many jobs one claim takes at most, in the store: nothing else runs there meanwhile.
pub const CLAIM_MAX: usize = 1000;
/// How many jobs a worker claims at once.
pub const CLAIM_DEFAULT: usize = 100;
/// How many bytes of records one claim takes; the first job comes whatever its size.
pub const CLAIM_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many verdicts one call settles at most.
pub const SETTLE_MAX: usize = 1000;
/// How many jobs of a lost session one call takes back at most.
pub const RESCUE_CHUNK: usize = 500;
/// How many it takes back as a rule: nothing else runs in the store meanwhile.
pub const RESCUE_STEP: usize = 100;
/// The largest page of dead letters.
pub const DEAD_PAGE_MAX: usize = 100;
/// How many dead letters one call redrives or deletes at most.
pub const REDRIVE_CHUNK: usize = 500;
/// How many it redrives as a rule, where there are more: nothing else runs in the store meanwhile.
pub const REDRIVE_STEP: usize = 100;
/// The largest page of jobs.
pub const JOBS_PAGE_MAX: usize = 100;
/// How many jobs one search looks at unless told otherwise.
pub const SEARCH_SCAN_DEFAULT: usize = 10_000;
/// How many jobs one search may look at.
pub const SEARCH_SCAN_MAX: usize = 1_000_000;
/// How many instants one forecast may ask about.
pub const FORECAST_MAX: usize = 500;
/// How many records or entries one call of an audit looks at: nothing else runs in the store meanwhile.
pub const AUDIT_STEP: usize = 100;
/// How many jobs sessions may hold for an audit to look through them: nothing else runs in the store meanwhile.
pub const AUDIT_HELD_MAX: usize = 20_000;
/// How many calls of an audit a diagnosis makes for each kind of thing.
pub const AUDIT_CALLS: usize = 100;
/// How many a repair makes, which looks at all that there is.
pub const AUDIT_CALLS_MAX: usize = 1_000_000;
/// How many names of queues are listed in all.
pub const QUEUES_LISTED_MAX: usize = 100_000;
/// How many names of queues one call lists.
pub const QUEUES_PAGE_MAX: usize = 1000;
/// The longest name of a worker, in bytes.
pub const WORKER_NAME_BYTES_MAX: usize = 128;
/// How many sessions are counted.
pub const SESSIONS_MAX: usize = 1000;

/// How many jobs a worker runs at once unless told otherwise.
pub const CONCURRENCY_DEFAULT: usize = 300;
/// How many jobs a worker may run at once.
pub const CONCURRENCY_MAX: usize = 10_000;
/// How many queues one worker may serve.
pub const QUEUES_MAX: usize = 64;
/// How long one run may take if its type doesn't say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The longest timeout of a run.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long after its timeout a run that blocks its thread is given up: its job is settled as timed out.
pub const WEDGED_GRACE: Duration = Duration::from_secs(5);
/// A worker's lease unless told otherwise: so long after its last sign of life its jobs go to others.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_millis(500);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);
/// How often a worker gives a sign of life at the least.
pub const BEAT_MAX: Duration = Duration::from_secs(1);
/// How often a job may come back without spending an attempt.
pub const FREE_RETURNS_MAX: u32 = 1000;
/// How long a graceful shutdown waits for running jobs unless told otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(25);

/// The layout of the store that this version reads and writes.
pub(crate) const SCHEMA: u32 = 1;
/// Shards a queue has.
pub(crate) const SHARDS: u32 = 1;

const _: () = {
    // Lua unpacks at most 7,999 values: four arguments a job, two a ZADD entry.
    assert!(CLAIM_MAX * 4 < 7999 && SETTLE_MAX * 4 < 7999 && SEND_BATCH_MAX * 4 < 7999);
    assert!(RESCUE_CHUNK <= 500 && REDRIVE_CHUNK <= 500 && DEAD_PAGE_MAX <= 100 && AUDIT_STEP <= 100);
    assert!(RESCUE_STEP <= RESCUE_CHUNK && REDRIVE_STEP <= REDRIVE_CHUNK);
    assert!(CLAIM_DEFAULT <= CLAIM_MAX && CONCURRENCY_DEFAULT <= CONCURRENCY_MAX);
    // A send that is tried until its deadline must still meet the tombstone of what it sent first.
    assert!(SEND_DEADLINE_MAX.as_millis() < TOMBSTONE.as_millis());
    assert!(PAYLOAD_BYTES_DEFAULT <= PAYLOAD_BYTES_CEILING);
    // Several beats fit into the shortest lease.
    assert!(LEASE_MIN.as_millis() >= 4 * 100 && BEAT_MAX.as_millis() * 4 <= LEASE_DEFAULT.as_millis());
    assert!(DUE_MAX_MS < 1 << 48);
};
