//! The calls of a lane that are on their way: each settles what is owed, and claims for the services that are ready.
//!
//! Where jobs wait, a second call is sent while the store works on the first, so that it never waits for the worker. They go
//! over one connection, which keeps their order, and the session's rising number would refuse the first if it came late
//! (rule c). Of a call that failed nothing is known; before anything else is asked for, all calls must have landed.

use std::future::poll_fn;
use std::task::Poll;

use super::pump::{Pump, settle_told};
use crate::error::Error;
use crate::layer::JobService;
use crate::limits::{CLAIM_BYTES_MAX, SETTLE_MAX};
use crate::store::ops::{Claim, Claimed, Settled, Verdict};
use crate::store::{Member, Refusal, SessionId};

/// How many calls of a lane may be on their way. With two the store is never without one; a third would only wait.
pub(super) const FLIGHTS_MAX: usize = 2;

/// A call on its way, and then what came of it.
pub(super) type Flight = std::pin::Pin<Box<dyn Future<Output = Landed> + Send>>;

/// A call that is over, and what it took along.
pub(super) struct Landed {
    session: SessionId,
    /// What it was to settle.
    owed: Vec<(Member, Verdict)>,
    /// What it claimed for, a place taken for each.
    ready: Vec<JobService>,
    /// The marker that the lane had taken.
    duty: Option<u64>,
    /// What it said of the lane's timer.
    timer_ms: u64,
    answer: Result<Result<Answer, Refusal>, Error>,
}

struct Answer {
    settled: Vec<Settled>,
    claimed: Option<Claimed>,
}

impl Pump {
    /// Sends a call if there is something to say, and not too many are on their way already.
    pub(super) async fn launch(&mut self, session: SessionId) -> Result<(), Error> {
        let ready = match self.flights.len() {
            0 if self.hungry && self.may_claim() => self.reserve().await?,
            0 => Vec::new(),
            FLIGHTS_MAX.. => return Ok(()),
            // A call behind another is worth its cost only if it carries enough.
            _ if !self.more || !self.may_claim() || !self.carries_enough() => return Ok(()),
            _ => self.reserve().await?,
        };
        if !ready.is_empty() || !self.verdicts.is_empty() {
            self.send(session, ready).await;
        }
        Ok(())
    }

    /// At least one verdict: as the session holds that run until then, the call before this one brings no job that wants to be
    /// alone (rule p).
    fn carries_enough(&self) -> bool {
        let enough = self.hub.batch.div_ceil(2);
        self.verdicts.len() >= enough && self.hub.slots.available() >= enough
    }

    /// Settles what is owed.
    pub(super) async fn settle(&mut self, session: SessionId) -> Result<(), Error> {
        self.send(session, Vec::new()).await;
        self.land_all().await
    }

    /// Sends a call with what is owed.
    async fn send(&mut self, session: SessionId, ready: Vec<JobService>) {
        if self.flights.is_empty() && self.backlog.is_none() {
            self.gather().await;
        }
        let rest = self.verdicts.split_off(self.verdicts.len().min(SETTLE_MAX));
        let owed = std::mem::replace(&mut self.verdicts, rest);
        let (count, claims) = (ready.len(), !ready.is_empty());
        let duty = if claims { self.duty.take() } else { None };
        let timer_ms = duty.unwrap_or_else(|| self.lane.timer_ms());
        let (store, lane, seq) = (self.store.clone(), self.lane.clone(), self.lane.next_seq());
        // What other lanes run or may be given in this moment.
        let in_company = self.hub.slots.taken() > count;
        let calling = lane.calling();
        let mut flight: Flight = Box::pin(async move {
            let call = async {
                if !claims {
                    let answer = store.settle(&lane.shard, &session, seq, &owed).await?;
                    return Ok::<_, Error>(answer.map(|settled| Answer { settled, claimed: None }));
                }
                let claim = Claim { count, bytes: CLAIM_BYTES_MAX, timer_ms, alone: None, in_company, verdicts: &owed };
                let answer = store.claim(&lane.shard, &session, seq, claim).await?;
                Ok(answer.map(|mut claimed| Answer {
                    settled: std::mem::take(&mut claimed.settled),
                    claimed: Some(claimed),
                }))
            };
            let answer = call.await;
            drop(calling);
            Landed { session, owed, ready, duty, timer_ms, answer }
        });
        if claims {
            // Whatever makes the lane hungry from here on may have come too late for this call.
            self.hungry = false;
        }
        // Polled once, it is with the connection, before any that comes after it; unless the cluster has to be asked for the node
        // first, and then a call that comes late is refused by its number (rule c).
        if let Poll::Ready(landed) = futures_util::poll!(flight.as_mut()) {
            flight = Box::pin(std::future::ready(landed));
        }
        self.flights.push_back(flight);
        if self.backlog.is_some() {
            // The connection's task is woken, and runs on this thread: it is let write before this one goes on.
            tokio::task::yield_now().await;
        }
    }

    /// Runs that are about to finish go into the same call: they are let run first.
    async fn gather(&mut self) {
        for _ in 0..3 {
            let before = self.verdicts.len();
            if before == 0 || before >= self.hub.batch || self.holding == 0 {
                return;
            }
            tokio::task::yield_now().await;
            self.collect();
            if self.verdicts.len() == before {
                return;
            }
        }
    }

    /// Waits for the first of the calls on their way.
    pub(super) async fn land(&mut self) -> Result<(), Error> {
        let landed = poll_fn(|cx| {
            let first = match self.flights.front_mut() {
                Some(flight) => flight.as_mut().poll(cx).map(Some),
                None => Poll::Ready(None),
            };
            if first.is_pending() {
                // Those behind are driven too: one may be asking where the other's node is.
                for flight in self.flights.iter_mut().skip(1) {
                    if let Poll::Ready(landed) = flight.as_mut().poll(cx) {
                        *flight = Box::pin(std::future::ready(landed));
                    }
                }
            }
            first
        })
        .await;
        self.flights.pop_front();
        landed.map_or(Ok(()), |landed| self.landed(landed))
    }

    /// Waits for all calls on their way; answers the first error of them.
    pub(super) async fn land_all(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while !self.flights.is_empty() {
            result = result.and(self.land().await);
        }
        result
    }

    fn landed(&mut self, landed: Landed) -> Result<(), Error> {
        let Landed { session, owed, mut ready, duty, timer_ms, answer } = landed;
        if answer.is_ok() {
            self.trouble.over(&self.queue);
        }
        if self.lane.session() != Some(session) {
            // The session was lost meanwhile: whatever it was given is others' by now.
            self.hub.slots.free(ready.len());
            return answer.map(drop);
        }
        let result = match answer {
            Ok(Ok(Answer { settled, claimed })) => {
                settle_told(owed, &settled);
                if let Some(claimed) = claimed {
                    self.claimed(claimed, timer_ms, &mut ready);
                }
                Ok(())
            }
            Ok(Err(refusal)) => {
                self.keep(owed, duty);
                self.refused(refusal);
                Ok(())
            }
            Err(error) => {
                self.keep(owed, duty);
                Err(error)
            }
        };
        self.hub.slots.free(ready.len());
        result
    }

    /// What a call took along and did not deliver.
    fn keep(&mut self, owed: Vec<(Member, Verdict)>, duty: Option<u64>) {
        self.owe_again(owed);
        self.duty = self.duty.or(duty);
        self.hungry = true;
    }
}
