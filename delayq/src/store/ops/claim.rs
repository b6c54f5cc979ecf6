//! Gives a session due jobs, and settles what it has finished in the same step.

use std::time::Duration;

use bytes::Bytes;

use super::super::script::CLAIM;
use super::super::{Member, Refusal, SessionId, Shard, Store, decimal, reply};
use super::settle::{Packed, Settled, Verdict};
use crate::engine::Reply;
use crate::error::Error;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// How many jobs at most.
    pub count: usize,
    /// How many bytes of records at most.
    pub bytes: usize,
    /// The due time that the session has a timer for, or took a marker of; 0 for none.
    pub timer_ms: u64,
    /// A job to take alone.
    pub alone: Option<[u8; 16]>,
    /// Whether the worker runs something for another session: then no job comes that must run alone.
    pub in_company: bool,
    /// What is settled first.
    pub verdicts: &'a [(Member, Verdict)],
}

/// What was given.
#[derive(Debug)]
pub struct Claimed {
    /// The store's clock, µs since 1970.
    pub now_us: u64,
    /// Whether the queue is paused: then no job was given.
    pub paused: bool,
    /// A timer to set: how long, and for which due time in ms.
    pub timer: Option<(Duration, u64)>,
    /// Whether more jobs may be due.
    pub more: bool,
    /// A job that wants a session of its own.
    pub solo: Option<[u8; 16]>,
    /// What became of the verdicts.
    pub settled: Vec<Settled>,
    /// The jobs.
    pub jobs: Vec<Taken>,
}

/// A job that was claimed.
#[derive(Debug)]
pub struct Taken {
    /// Its id.
    pub id: [u8; 16],
    /// The number of the run that it was given out for.
    pub run: u64,
    /// Its record.
    pub record: Bytes,
}

/// Puts the ids of an answer, one after the other, and its records together. A run has its record's number, or the store's
/// clock where that is higher: after a rollback a number given out before must not come again.
fn taken(ids: &[u8], records: Vec<Reply>, now_ms: u64) -> Option<Vec<Taken>> {
    let (ids, rest) = ids.as_chunks::<16>();
    if !rest.is_empty() || ids.len() != records.len() {
        return None;
    }
    let job = |(id, record): (&[u8; 16], Reply)| match record {
        Reply::Bytes(record) => {
            // Where it is in every form of the header, those of other releases too.
            let stored = record.get(10..16).map_or(0, |run| run.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)));
            Some(Taken { id: *id, run: stored.max(now_ms), record: Bytes::from(record) })
        }
        _ => None,
    };
    ids.iter().zip(records).map(job).collect()
}

impl Store {
    /// Settles and claims.
    ///
    /// # Errors
    /// The call failed; if it may have happened, [`reconcile`](Store::reconcile) before the next.
    pub async fn claim(
        &self,
        shard: &Shard,
        session: &SessionId,
        seq: u64,
        claim: Claim<'_>,
    ) -> Result<Result<Claimed, Refusal>, Error> {
        let mut packed = Packed::new(claim.verdicts);
        let mut args = Vec::with_capacity(6 + packed.args.len());
        args.push(session.to_vec());
        args.push(decimal(seq));
        args.push(decimal(claim.count));
        args.push(decimal(claim.bytes));
        args.push(decimal(claim.timer_ms));
        let company = if claim.in_company { b"-".to_vec() } else { Vec::new() };
        args.push(claim.alone.map_or(company, |id| id.to_vec()));
        args.append(&mut packed.args);
        let mut answer = self.call(&CLAIM, shard.all(Some(session)), &args).await?;
        let paused = match answer.code() {
            "OK" => false,
            "PAUSED" => true,
            "LOST" => return Ok(Err(Refusal::Lost)),
            "STALE" => return Ok(Err(Refusal::Stale)),
            _ => return Err(answer.unknown()),
        };
        let (now_us, wait_us, timer_ms, more) = (answer.count()?, answer.int()?, answer.instant()?, answer.int()? == 1);
        let solo = answer.bytes()?.try_into().ok();
        let settled = packed.read("claim", &answer.bytes()?)?;
        let (ids, records) = (answer.bytes()?, answer.list()?);
        let jobs = taken(&ids, records, now_us / 1000)
            .ok_or_else(|| reply::odd("claim", "ids and records that don't go together"))?;
        let timer = u64::try_from(wait_us).ok().map(|us| (Duration::from_micros(us), timer_ms));
        Ok(Ok(Claimed { now_us, paused, timer, more, solo, settled, jobs }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_records_go_together_or_are_refused() {
        let numbered = [&[1; 10][..], &[0, 0, 0, 0, 1, 2], b"rest"].concat();
        let records = || vec![Reply::Bytes(numbered.clone()), Reply::Bytes(Vec::new())];
        let ids = [[1; 16], [2; 16]].concat();
        let jobs = taken(&ids, records(), 77).expect("two of each");
        let seen: Vec<(u8, u64, usize)> = jobs.iter().map(|job| (job.id[0], job.run, job.record.len())).collect();
        assert_eq!(seen, [(1, 258, 20), (2, 77, 0)]);
        assert_eq!(taken(&ids, records(), 259).expect("two of each")[0].run, 259);
        assert!(taken(&[], Vec::new(), 0).expect("none").is_empty());
        for ids in [&ids[..16], &ids[..31], &[], &[3; 48][..]] {
            assert!(taken(ids, records(), 0).is_none(), "{} bytes of ids", ids.len());
        }
        assert!(taken(&ids[..16], vec![Reply::Nil], 0).is_none(), "a record that is none");
    }
}
