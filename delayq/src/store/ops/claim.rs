//! Gives a session due jobs, and settles what it has finished in the same step.

use std::time::Duration;

use bytes::Bytes;

use super::super::script::CLAIM;
use super::super::{Member, Refusal, SessionId, Shard, Store, decimal};
use super::settle::{Packed, Settled, Verdict};
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
    /// Its record.
    pub record: Bytes,
}

/// Takes the jobs of an answer apart: for each an id, the length of its record in four bytes, and the record.
fn taken(mut bytes: &[u8]) -> Option<Vec<Taken>> {
    let mut jobs = Vec::new();
    while !bytes.is_empty() {
        let (id, rest) = bytes.split_first_chunk::<16>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (record, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
        // A copy of its own: one job that runs for hours must not keep the bytes of all others.
        jobs.push(Taken { id: *id, record: Bytes::copy_from_slice(record) });
        bytes = rest;
    }
    Some(jobs)
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
        args.push(claim.alone.map_or_else(Vec::new, |id| id.to_vec()));
        args.append(&mut packed.args);
        let mut answer = self.call(&CLAIM, shard.all(Some(session)), &args).await?;
        let paused = match answer.code() {
            "OK" => false,
            "PAUSED" => true,
            "LOST" => return Ok(Err(Refusal::Lost)),
            "STALE" => return Ok(Err(Refusal::Stale)),
            _ => return Err(answer.unknown()),
        };
        let (now_us, wait_us, timer_ms, more) = (answer.count()?, answer.int()?, answer.count()?, answer.int()? == 1);
        let solo = answer.bytes()?.try_into().ok();
        let settled = packed.read("claim", &answer.bytes()?)?;
        let jobs = taken(&answer.bytes()?).ok_or_else(|| answer.unknown())?;
        let timer = u64::try_from(wait_us).ok().map(|us| (Duration::from_micros(us), timer_ms));
        Ok(Ok(Claimed { now_us, paused, timer, more, solo, settled, jobs }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_taken_apart_and_cut_off_ones_refused() {
        let mut bytes = Vec::new();
        for (id, record) in [([1; 16], &b"first"[..]), ([2; 16], b""), ([3; 16], &[0xff; 70_000])] {
            bytes.extend_from_slice(&id);
            bytes.extend_from_slice(&(record.len() as u32).to_be_bytes());
            bytes.extend_from_slice(record);
        }
        let jobs = taken(&bytes).expect("whole");
        let seen: Vec<(u8, usize)> = jobs.iter().map(|job| (job.id[0], job.record.len())).collect();
        assert_eq!(seen, [(1, 5), (2, 0), (3, 70_000)]);
        for end in [1, 15, 16, 19, 20, 24, bytes.len() - 1] {
            assert!(taken(&bytes[..end]).is_none(), "{end} bytes");
        }
        assert!(taken(&[]).expect("none").is_empty());
    }
}
