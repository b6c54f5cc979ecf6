//! Puts jobs into the store, each once.

use std::borrow::Borrow;

use super::super::script::ENQUEUE;
use super::super::{Shard, Store, decimal, mismatch, reply};
use crate::engine::Reply;
use crate::error::Error;
use crate::limits::{SCHEMA, SHARDS};

/// A job to be sent.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: [u8; 16],
    /// `+delay_ms` or `@due_ms`.
    pub when: String,
    /// What else was asked for.
    pub options: Options,
    /// The envelope.
    pub envelope: Vec<u8>,
}

/// How a job is to be treated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// 0 first, 9 last.
    pub priority: u8,
    /// How many attempts, as `attempts_limit` makes it.
    pub attempts_max: u32,
    /// How long after its due time it is still worth running, in ms.
    pub expires_ms: Option<u64>,
    /// How long its record is kept once it is done, in ms.
    pub retain_ms: Option<u64>,
    /// The key that no other waiting or running job of the queue may have.
    pub unique: Option<String>,
}

/// What became of a sent job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is in the store now.
    Created,
    /// Its id was there already, or ended moments ago.
    Already,
    /// Another job has its unique key.
    Duplicate {
        /// That job.
        owner: [u8; 16],
    },
}

impl Options {
    fn to_arg(&self) -> String {
        let mut text = format!("{} {}", self.priority, self.attempts_max);
        if let Some(ms) = self.expires_ms {
            text.push_str(&format!(" expires={ms}"));
        }
        if let Some(ms) = self.retain_ms {
            text.push_str(&format!(" retain={ms}"));
        }
        if let Some(key) = &self.unique {
            text.push_str(" unique=");
            text.push_str(key);
        }
        text
    }
}

impl NewJob {
    /// What it adds to a call, in bytes.
    pub fn bytes(&self) -> usize {
        self.envelope.len() + self.options.unique.as_ref().map_or(0, String::len) + 64
    }
}

impl Store {
    /// Sends jobs, at most [`SEND_BATCH_MAX`](crate::limits::SEND_BATCH_MAX). May be repeated: no job is created twice.
    ///
    /// # Errors
    /// The call failed, or the queue is of another layout.
    pub async fn enqueue(&self, shard: &Shard, jobs: &[impl Borrow<NewJob>]) -> Result<Vec<Sent>, Error> {
        let jobs: Vec<&NewJob> = jobs.iter().map(Borrow::borrow).collect();
        let mut priorities: Vec<u8> = jobs.iter().map(|job| job.options.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let digits: String = priorities.iter().map(ToString::to_string).collect();
        // Options repeat from job to job: each is written once.
        let mut texts: Vec<(&Options, String)> = Vec::new();
        let text_of: Vec<usize> = jobs
            .iter()
            .map(|job| {
                if texts.last().is_none_or(|(last, _)| **last != job.options) {
                    texts.push((&job.options, job.options.to_arg()));
                }
                texts.len() - 1
            })
            .collect();
        let (schema, shards) = (decimal(SCHEMA), decimal(SHARDS));
        let mut args: Vec<&[u8]> = Vec::with_capacity(3 + 4 * jobs.len());
        args.extend([&schema[..], &shards, digits.as_bytes()]);
        for (job, text) in jobs.iter().zip(text_of) {
            args.extend([&job.id[..], job.when.as_bytes(), texts[text].1.as_bytes(), &job.envelope]);
        }
        let (mut answer, confirmed) = self.call_durably(&ENQUEUE, shard.enqueue(&priorities), &args).await?;
        match answer.code() {
            "OK" => {}
            "SCHEMA" => return Err(mismatch("schema", &answer.text()?, SCHEMA)),
            "SHARDS" => return Err(mismatch("shard count", &answer.text()?, SHARDS)),
            _ => return Err(answer.unknown()),
        }
        let mut sent = Vec::with_capacity(jobs.len());
        while let Some(part) = answer.next() {
            sent.push(match part {
                Reply::Int(1) => Sent::Created,
                Reply::Int(0) => Sent::Already,
                Reply::Bytes(owner) => Sent::Duplicate { owner: owner.try_into().map_err(|_| answer.unknown())? },
                _ => return Err(answer.unknown()),
            });
        }
        if sent.len() != jobs.len() {
            return Err(reply::odd("enqueue", "a reply is missing"));
        }
        confirmed?;
        if sent.contains(&Sent::Already) {
            // An earlier try may have put it there and not been confirmed.
            self.confirm(shard).await?;
        }
        Ok(sent)
    }
}
