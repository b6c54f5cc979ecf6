//! Answers of the store: every operation, and the client above it, with an answer that may be anything.
//!
//! What comes out is what stood in the answer, or an error that names the operation in a few words: never a panic, a success
//! out of an unknown code, more memory than the answer accounts for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use delayq::engine::Reply;
use delayq::engine::redis::{marker, reply as read};
use delayq::store::ops::{
    Audited, Claim, Claimed, DeadPage, DonePage, DuePage, Look, NewJob, Options, Order, Repaired, Settled, Verdict,
};
use delayq::store::{Member, Prefix, Refusal, SessionId, Shard, Store};
use delayq::{Client, DeadReason, Error, ErrorKind, JobHandle, JobId, JobQuery, JobState, JobType};
use futures_util::FutureExt;

use super::canned::Canned;
use super::{record, resp, within};

/// What decoding may take at once beside what it makes of the answer.
const SPARE: usize = 16 * 1024;
/// And what of it for each byte of the answer. The shortest value has three bytes; as a `Reply` in a list that grows it has up to 64.
const PER_BYTE: usize = 64;
/// The longest text of an error about an answer.
const ERROR_BYTES_MAX: usize = 512;

const SESSION: SessionId = [7; 16];
const ID: [u8; 16] = [9; 16];
const LEASE: Duration = Duration::from_secs(30);

/// A job type, for handles. It is never sent.
#[delayq::payload]
struct Nothing;

impl JobType for Nothing {
    const NAME: &'static str = "nothing";
    const VERSION: u32 = 1;
}

pub(crate) fn reply(data: &[u8]) {
    let limit = SPARE + PER_BYTE * data.len();
    let values = resp::values(data);
    if let Some(value) = values.first().cloned() {
        let popped = within(limit, || marker(value));
        let _ = popped.map_err(|error| refused("wait", &error));
    }
    let replies: Vec<Reply> = within(limit, || values.into_iter().map(read).collect());
    let first = match replies.first() {
        Some(Reply::List(parts)) => parts.clone(),
        _ => Vec::new(),
    };
    let engine = Arc::new(Canned::new(replies));
    let store = Store::new(engine.clone(), Prefix::default());
    let shard = store.shard("q", 0).expect("a name");
    let asked = Asked { client: Client::on(engine.clone()), engine, store, shard, limit, parts: first };
    asked.sessions();
    asked.jobs();
    asked.looks();
    asked.client();
}

/// The answers, and who is asked for them.
struct Asked {
    engine: Arc<Canned>,
    store: Store,
    shard: Shard,
    client: Client,
    limit: usize,
    /// The parts of the first answer.
    parts: Vec<Reply>,
}

/// An error about an answer says what it is about, briefly, and in one line.
#[track_caller]
fn refused(operation: &str, error: &Error) {
    use ErrorKind::{Corrupt, Duplicate, NotFound, Unsupported, WrongState};
    let kind = error.kind();
    assert!(matches!(kind, Corrupt | Duplicate | NotFound | Unsupported | WrongState), "{operation}: {kind:?}");
    let text = error.to_string();
    assert!(text.len() <= ERROR_BYTES_MAX, "{operation}: an error of {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "{operation}: an error of more than one line: {text:?}");
}

impl Asked {
    /// What an operation makes of the answers; `None` where it refused them.
    #[track_caller]
    fn ask<T>(&self, operation: &str, call: impl Future<Output = Result<T, Error>>) -> Option<T> {
        self.engine.rewind();
        let answer = within(self.limit, || call.now_or_never());
        answer.expect("an answer that is there is not waited for").map_err(|error| refused(operation, &error)).ok()
    }

    fn sessions(&self) {
        let (store, shard) = (&self.store, &self.shard);
        self.ask("open", store.open(shard, &SESSION, LEASE));
        self.ask("close", store.close(shard, &SESSION));
        if let Some(Ok(beat)) = self.ask("beat", store.beat(shard, &SESSION, LEASE, 7, None)) {
            assert_eq!(beat.lost.len() + 4, self.parts.len());
        }
        if let Some(sessions) = self.ask("sessions", store.sessions(shard)) {
            assert!(2 * sessions.len() + 2 <= self.parts.len());
        }
        self.ask("rescue", store.rescue(shard, &SESSION, 5));
        if let Some(Ok(told)) = self.ask("reconcile", store.reconcile(shard, &SESSION, 3, &[Member::new(&ID, 5)])) {
            assert_eq!(told.missing.len() + 2, self.parts.len());
        }
        self.ask("pass", store.pass(shard));
        self.ask("pause", store.pause(shard, true));
    }

    fn jobs(&self) {
        let (store, shard) = (&self.store, &self.shard);
        let job = |n: u8| NewJob {
            id: [n; 16],
            when: "+5".to_owned(),
            options: Options { priority: 5, attempts_max: 4, ..Options::default() },
            envelope: b"nothing 1\n".to_vec(),
        };
        let jobs = [job(1), job(2)];
        if let Some(sent) = self.ask("enqueue", store.enqueue(shard, &jobs)) {
            assert_eq!(sent.len(), jobs.len());
        }
        // They go out in another order than they came in.
        let verdicts = [
            (Member::new(&ID, 1), Verdict::Retry { delay_ms: 5, error: "no".to_owned() }),
            (Member::new(&ID, 2), Verdict::Done),
            (Member::new(&ID, 3), Verdict::DoneYoung),
            (Member::new(&ID, 4), Verdict::Bury { reason: DeadReason::Buried, error: String::new() }),
        ];
        let settled: Option<Result<Vec<Settled>, Refusal>> =
            self.ask("settle", store.settle(shard, &SESSION, 3, &verdicts));
        if let Some(Ok(settled)) = settled {
            assert_eq!(settled.len(), verdicts.len());
        }
        for verdicts in [&verdicts[..], &[]] {
            let claim = Claim { count: 5, bytes: 1 << 20, timer_ms: 0, alone: None, in_company: false, verdicts };
            if let Some(Ok(claimed)) = self.ask("claim", store.claim(shard, &SESSION, 3, claim)) {
                assert_eq!(claimed.settled.len(), verdicts.len());
                self.claimed(&claimed);
            }
        }
        let ids = [ID.to_vec(), vec![8; 16]];
        if let Some(deleted) = self.ask("dead_delete", store.dead_delete(shard, &ids)) {
            assert_eq!(deleted.len(), ids.len());
        }
        if let Some(redriven) = self.ask("dead_redrive", store.dead_redrive(shard, &ids)) {
            assert_eq!(redriven.len(), ids.len());
        }
        self.ask("cancel", store.cancel(shard, &ID));
        self.ask("reschedule", store.reschedule(shard, &ID, "+5"));
    }

    /// The jobs of a claim are those of the answer: ids and records one by one, none of them touched.
    fn claimed(&self, claimed: &Claimed) {
        let (Some(Reply::Bytes(ids)), Some(Reply::List(records))) = (self.parts.get(7), self.parts.get(8)) else {
            panic!("jobs out of an answer without ids and records");
        };
        let given: Vec<u8> = claimed.jobs.iter().flat_map(|job| job.id).collect();
        assert!(given == *ids, "other ids than were answered");
        assert_eq!(claimed.jobs.len(), records.len());
        for (job, answered) in claimed.jobs.iter().zip(records) {
            assert!(matches!(answered, Reply::Bytes(bytes) if job.record == *bytes), "another record");
            assert!(job.run >= claimed.now_us / 1000, "a run number below the store's clock");
            record(&job.record);
        }
    }

    fn looks(&self) {
        let (store, shard) = (&self.store, &self.shard);
        self.ask("inspect", store.inspect(shard, &ID));
        let page = DeadPage { order: Order::NewestFirst, after: None, limit: 5, until_ms: None, whole: true };
        if let Some(rows) = self.ask("dead_list", store.dead_list(shard, &page)) {
            assert_eq!(4 * rows.len() + 1, self.parts.len());
        }
        let page = DuePage { limit: 5, ..DuePage::default() };
        if let Some(rows) = self.ask("due_list", store.due_list(shard, &page)) {
            assert_eq!(4 * rows.len() + 1, self.parts.len());
            assert!(rows.iter().all(|row| row.priority <= 9));
        }
        if let Some(rows) = self.ask("done_list", store.done_list(shard, &DonePage { after: None, limit: 5 })) {
            assert_eq!(3 * rows.len() + 1, self.parts.len());
        }
        if let Some(rows) = self.ask("running_list", store.running_list(shard, &SESSION, &[], 5)) {
            assert_eq!(2 * rows.len() + 1, self.parts.len());
        }
        if let Some((_, rows)) = self.ask("workers", store.workers(shard, &[SESSION, [8; 16]])) {
            assert!(rows.len() <= 2 && self.parts.len() == 8);
        }
        if let Some(due) = self.ask("forecast", store.forecast(shard, &[LEASE, LEASE * 2])) {
            assert_eq!(due.due_by.len() + 3, self.parts.len());
        }
        if let Some(names) = self.ask("queues", store.queues(b"")) {
            assert_eq!(names.len() + 1, self.parts.len());
        }
        self.ask("register", store.register(shard));
        self.ask("probe", store.probe(shard));
        if let Some(Audited::Page(page)) = self.ask("audit", store.audit(shard, Look::Records, b"", 5, &[SESSION])) {
            assert_eq!(page.found.len() + 3, self.parts.len());
        }
        let ids = [ID.to_vec(), vec![8; 16]];
        if let Some(Repaired::Each(mended)) = self.ask("repair", store.repair(shard, Look::Dead, &ids, &[SESSION])) {
            assert_eq!(mended.len(), ids.len());
        }
        if let Some(stats) = self.ask("stats", store.stats(shard)) {
            let _ = stats.orphans();
        }
    }

    /// What users see of it.
    fn client(&self) {
        let handle: JobHandle<Nothing> = self.client.handle(JobId::named("nothing"));
        self.ask("status", handle.status());
        self.ask("cancel", handle.cancel());
        self.ask("reschedule", handle.reschedule(LEASE));
        let letters = self.client.dead_letters("q");
        if let Some(listing) = self.ask("dead_list", letters.oldest_first(5, None)) {
            assert_eq!(4 * listing.letters.len() + 1, self.parts.len());
        }
        self.ask("get", letters.get(handle.id()));
        self.ask("redrive", letters.redrive(handle.id()));
        self.ask("delete", letters.delete(handle.id()));
        self.ask("stats", self.client.stats("q"));
        self.ask("workers", self.client.workers("q"));
        self.ask("forecast", self.client.forecast("q", LEASE, 3));
        let jobs = self.client.jobs("q");
        self.ask("get", jobs.get(handle.id()));
        for state in JobState::ALL {
            // Each answer is given again and again: a list that never ends is looked at up to its bound.
            if let Some(page) = self.ask("list", jobs.list(&JobQuery::new(state).limit(3).scan(3))) {
                assert!(page.jobs.len() <= 3 && page.scanned <= 3);
            }
        }
        self.ask("resume", self.client.resume("q"));
    }
}
