//! A session as a worker would use it: it counts its calls, and knows what it was given.

use std::time::Duration;

use delayq::envelope::Record;
use delayq::store::ops::{Beat, Claim, Claimed, Closed, Reconciled, Settled, Verdict};
use delayq::store::{Member, Refusal, SessionId};

use super::{Id, World};

/// A session and its last call's number.
pub struct Hand<'w> {
    world: &'w World,
    /// The session.
    pub id: SessionId,
    /// The number of its last call.
    pub seq: u64,
    lease: Duration,
}

/// A job that a session was given.
#[derive(Debug, Clone)]
pub struct Run {
    /// The job.
    pub id: Id,
    /// Job and run number.
    pub member: Member,
    /// Its record.
    pub record: Record,
}

impl<'w> Hand<'w> {
    pub(super) fn new(world: &'w World, id: SessionId, lease: Duration) -> Hand<'w> {
        Hand { world, id, seq: 0, lease }
    }

    /// The next call's number.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// A claim as it is asked for, whatever comes of it.
    pub async fn try_claim(&mut self, claim: Claim<'_>) -> Result<Claimed, Refusal> {
        let seq = self.next_seq();
        let world = self.world;
        world.store.claim(&world.shard, &self.id, seq, claim).await.expect("claim answers")
    }

    /// A claim of `count` jobs by a session that watches `timer_ms`.
    pub async fn claim(&mut self, count: usize, timer_ms: u64) -> Claimed {
        self.try_claim(Claim { timer_ms, ..ask(count) }).await.expect("the session stands")
    }

    /// The jobs of a claim.
    pub async fn take(&mut self, count: usize) -> Vec<Run> {
        self.claim(count, 0).await.runs()
    }

    /// The only job of a claim.
    pub async fn take_one(&mut self) -> Run {
        let mut runs = self.take(10).await;
        assert_eq!(runs.len(), 1, "one job is due: {runs:?}");
        runs.remove(0)
    }

    /// Takes this one job alone.
    pub async fn take_alone(&mut self, id: Id) -> Vec<Run> {
        self.try_claim(Claim { alone: Some(id), ..ask(1) }).await.expect("the session stands").runs()
    }

    /// Verdicts, whatever comes of them.
    pub async fn try_settle(&mut self, verdicts: &[(Member, Verdict)]) -> Result<Vec<Settled>, Refusal> {
        let seq = self.next_seq();
        let world = self.world;
        world.store.settle(&world.shard, &self.id, seq, verdicts).await.expect("settle answers")
    }

    /// One verdict.
    pub async fn settle(&mut self, run: &Run, verdict: Verdict) -> Settled {
        let settled = self.try_settle(&[(run.member, verdict)]).await.expect("the session stands");
        assert_eq!(settled.len(), 1);
        settled[0]
    }

    /// Claims the only due job, and settles it.
    pub async fn run_one(&mut self, verdict: Verdict) -> Run {
        let run = self.take_one().await;
        assert_eq!(self.settle(&run, verdict).await, Settled::Accepted);
        run
    }

    /// Tells the store what is known to be held.
    pub async fn reconcile(&mut self, known: &[Member]) -> Result<Reconciled, Refusal> {
        let seq = self.next_seq();
        let world = self.world;
        world.store.reconcile(&world.shard, &self.id, seq, known).await.expect("reconcile answers")
    }

    /// Renews, whatever comes of it.
    pub async fn try_beat(&self, timer_ms: u64) -> Result<Beat, Refusal> {
        self.world.store.beat(&self.world.shard, &self.id, self.lease, timer_ms, None).await.expect("beat answers")
    }

    /// Renews.
    pub async fn beat(&self) -> Beat {
        self.try_beat(0).await.expect("the session stands")
    }

    /// Closes.
    pub async fn close(&self) -> Closed {
        self.world.store.close(&self.world.shard, &self.id).await.expect("close answers")
    }

    /// The name of what it holds, as in a dump.
    pub fn held_name(&self) -> String {
        let base = self.world.shard.key("").len();
        String::from_utf8_lossy(&self.world.shard.held(&self.id)[base..]).into_owned()
    }
}

/// A claim of up to `count` jobs and nothing else.
pub fn ask(count: usize) -> Claim<'static> {
    Claim { count, bytes: 4 * 1024 * 1024, timer_ms: 0, alone: None, in_company: false, verdicts: &[] }
}

/// The jobs of a claim, taken apart.
pub trait Runs {
    /// Each with its record and token.
    fn runs(&self) -> Vec<Run>;
}

impl Runs for Claimed {
    fn runs(&self) -> Vec<Run> {
        self.jobs
            .iter()
            .map(|taken| {
                let mut record = Record::decode(&taken.record).expect("only readable records are given");
                // From here on the number of the run that was given out is what matters.
                record.run = taken.run;
                Run { id: taken.id, member: Member::new(&taken.id, taken.run), record }
            })
            .collect()
    }
}
