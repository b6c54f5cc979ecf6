//! Ends runs.

use super::super::script::SETTLE;
use super::super::{Member, Refusal, SessionId, Shard, Store, decimal, reply};
use crate::error::Error;
use crate::job::DeadReason;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done; nothing of the job needs looking up.
    Done,
    /// Done moments after it was sent: its id is remembered for a while.
    DoneYoung,
    /// Done, and its record says what else is to be done: a unique key, a retention, a kept error.
    DoneExtended,
    /// Failed: again after `delay_ms`, an attempt spent.
    Retry {
        /// The wait.
        delay_ms: u64,
        /// What is kept of the error.
        error: String,
    },
    /// Again after `delay_ms`, no attempt spent.
    Snooze {
        /// The wait.
        delay_ms: u64,
    },
    /// As if it had not been claimed.
    HandBack,
    /// Ended without success or dead letter.
    Discard,
    /// To the dead letters.
    Bury {
        /// The reason's code.
        reason: DeadReason,
        /// The reason's text.
        error: String,
    },
}

/// What became of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// As asked.
    Accepted,
    /// The session doesn't hold this run (any more).
    NotHeld,
    /// A cancel had come while it ran: it ended as cancelled.
    Cancelled,
    /// Its record is missing or unreadable.
    Missing,
}

impl Verdict {
    pub(super) fn to_arg(&self, member: &Member) -> Vec<u8> {
        let letter = match self {
            Verdict::Done => b'd',
            Verdict::DoneYoung => b't',
            Verdict::DoneExtended => b'x',
            Verdict::Retry { .. } => b'r',
            Verdict::Snooze { .. } => b's',
            Verdict::HandBack => b'h',
            Verdict::Discard => b'c',
            Verdict::Bury { .. } => b'b',
        };
        let mut arg = Vec::with_capacity(23);
        arg.push(letter);
        arg.extend_from_slice(member.as_bytes());
        match self {
            Verdict::Retry { delay_ms, error } => arg.extend_from_slice(format!("{delay_ms} {error}").as_bytes()),
            Verdict::Snooze { delay_ms } => arg.extend_from_slice(delay_ms.to_string().as_bytes()),
            Verdict::Bury { reason, error } => arg.extend_from_slice(format!("{reason} {error}").as_bytes()),
            _ => {}
        }
        arg
    }
}

/// Verdicts as arguments: plain successes share two of them, since they are nearly all that there is.
pub(super) struct Packed {
    pub(super) args: Vec<Vec<u8>>,
    /// Which verdict each letter of the answer belongs to.
    order: Vec<usize>,
}

impl Packed {
    pub(super) fn new(verdicts: &[(Member, Verdict)]) -> Packed {
        let (mut done, mut young) = (vec![b'D'], vec![b'T']);
        let (mut order, mut order_young, mut order_rest) = (Vec::with_capacity(verdicts.len()), Vec::new(), Vec::new());
        let mut rest = Vec::new();
        for (at, (member, verdict)) in verdicts.iter().enumerate() {
            match verdict {
                Verdict::Done => {
                    done.extend_from_slice(member.as_bytes());
                    order.push(at);
                }
                Verdict::DoneYoung => {
                    young.extend_from_slice(member.as_bytes());
                    order_young.push(at);
                }
                other => {
                    rest.push(other.to_arg(member));
                    order_rest.push(at);
                }
            }
        }
        let mut args: Vec<Vec<u8>> = [done, young].into_iter().filter(|list| list.len() > 1).collect();
        args.append(&mut rest);
        order.append(&mut order_young);
        order.append(&mut order_rest);
        Packed { args, order }
    }

    /// The letters in the order of the verdicts.
    pub(super) fn read(&self, operation: &str, letters: &[u8]) -> Result<Vec<Settled>, Error> {
        let answered = settled_letters(operation, letters)?;
        if answered.len() != self.order.len() {
            return Err(reply::odd(operation, "as many letters as verdicts are wanted"));
        }
        let mut settled = vec![Settled::NotHeld; answered.len()];
        for (at, letter) in self.order.iter().zip(answered) {
            settled[*at] = letter;
        }
        Ok(settled)
    }
}

/// Reads the letters that a script answers verdicts with.
pub fn settled_letters(operation: &str, letters: &[u8]) -> Result<Vec<Settled>, Error> {
    letters
        .iter()
        .map(|letter| match letter {
            b'o' => Ok(Settled::Accepted),
            b'n' => Ok(Settled::NotHeld),
            b'c' => Ok(Settled::Cancelled),
            b'm' => Ok(Settled::Missing),
            _ => Err(reply::odd(operation, "a letter")),
        })
        .collect()
}

impl Store {
    /// Settles runs, at most [`SETTLE_MAX`](crate::limits::SETTLE_MAX).
    ///
    /// # Errors
    /// The call failed; if it may have happened, [`reconcile`](Store::reconcile) before the next.
    pub async fn settle(
        &self,
        shard: &Shard,
        session: &SessionId,
        seq: u64,
        verdicts: &[(Member, Verdict)],
    ) -> Result<Result<Vec<Settled>, Refusal>, Error> {
        let mut packed = Packed::new(verdicts);
        let mut args = vec![session.to_vec(), decimal(seq)];
        args.append(&mut packed.args);
        let mut answer = self.call(&SETTLE, shard.all(Some(session)), &args).await?;
        match answer.code() {
            "OK" => packed.read("settle", &answer.bytes()?).map(Ok),
            "LOST" => Ok(Err(Refusal::Lost)),
            "STALE" => Ok(Err(Refusal::Stale)),
            _ => Err(answer.unknown()),
        }
    }
}
