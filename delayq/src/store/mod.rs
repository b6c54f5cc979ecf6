//! The store: one typed operation a file, each a script of the same name and the code that calls it.

mod keys;
pub mod ops;
mod rehearsal;
mod reply;
mod script;
mod server;

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, Marker, Replicas, Script};
use crate::error::{Error, ErrorKind};
use crate::job::check_name;

pub use keys::{Prefix, Shard};
pub use rehearsal::Rehearsal;
pub use script::{SCRIPTS, ScriptFile};
pub use server::{Info, Told};

use keys::KeySet;

/// A session: one incarnation of a worker on one shard.
pub type SessionId = [u8; 16];

/// What a session holds: the job's id and the number of its run, the fencing token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Member([u8; 22]);

impl Member {
    /// A job and a run of it.
    pub fn new(id: &[u8; 16], run: u64) -> Member {
        let mut bytes = [0; 22];
        bytes[..16].copy_from_slice(id);
        bytes[16..].copy_from_slice(&run.to_be_bytes()[2..]);
        Member(bytes)
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8; 22] {
        &self.0
    }

    /// The job's id.
    pub fn id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[..16]);
        id
    }

    /// The number of the run.
    pub fn run(&self) -> u64 {
        self.0[16..].iter().fold(0, |run, byte| run << 8 | u64::from(*byte))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Member> {
        bytes.try_into().ok().map(Member)
    }
}

/// The operations on one engine.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    prefix: Prefix,
    durable: Option<Durable>,
}

/// What sends and the like must have reached before they count as done. Over connections of its own: a wait holds up what
/// comes after it.
#[derive(Clone)]
struct Durable {
    engine: Arc<dyn Engine>,
    replicas: Replicas,
}

/// Whether what was written is where it must be before it counts as done.
type Confirmed = Result<(), Error>;

impl Store {
    /// The store behind an engine, its keys beginning with `prefix`.
    pub fn new(engine: Arc<dyn Engine>, prefix: Prefix) -> Store {
        Store { engine, prefix, durable: None }
    }

    /// The same store, whose sends, cancels and reschedules fail as [`Unknown`](ErrorKind::Unknown) unless replicas confirm them.
    #[must_use]
    pub fn confirmed_by(self, replicas: Replicas) -> Store {
        let durable = Some(Durable { engine: self.engine.dedicated(), replicas });
        Store { durable, ..self }
    }

    /// The same store over connections of its own.
    pub fn dedicated(&self) -> Store {
        Store { engine: self.engine.dedicated(), ..self.clone() }
    }

    /// The same store over one connection of its own, which keeps the order of the calls.
    pub fn in_order(&self) -> Store {
        Store { engine: self.engine.in_order(), ..self.clone() }
    }

    /// The servers behind the store, where there are several each by how it may be shown. What is asked of one by itself are
    /// the questions past the scripts.
    ///
    /// # Errors
    /// None of them answers.
    pub async fn servers(&self) -> Result<Vec<(Option<String>, Store)>, Error> {
        let several = self.engine.servers().await?;
        if several.is_empty() {
            return Ok(vec![(None, self.clone())]);
        }
        let alone = |engine| Store { engine, prefix: self.prefix.clone(), durable: None };
        Ok(several.into_iter().map(|(name, engine)| (Some(name), alone(engine))).collect())
    }

    /// The shard of a queue.
    ///
    /// # Errors
    /// The queue's name is none.
    pub fn shard(&self, queue: &str, index: u32) -> Result<Shard, Error> {
        check_name("queue", queue)?;
        Ok(Shard::new(&self.prefix, queue, index))
    }

    /// Waits for a marker of one of these shards. Answers which one, and the due time to watch.
    pub async fn wait(&self, shards: &[&Shard], timeout: Duration) -> Result<Option<(usize, u64)>, Error> {
        let keys: Vec<Vec<u8>> = shards.iter().map(|shard| shard.wake()).collect();
        let Some(Marker { key, due_ms }) = self.engine.wait(&keys, timeout).await? else { return Ok(None) };
        let which = keys.iter().position(|known| *known == key);
        which.map(|at| Some((at, due_ms))).ok_or_else(|| Error::corrupt("a marker of a baton that was not asked for"))
    }

    async fn call(
        &self,
        script: &'static Script,
        keys: KeySet,
        args: &[impl AsRef<[u8]>],
    ) -> Result<reply::Answer, Error> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        reply::Answer::read(script.name, self.engine.run(script, &keys.0, &args).await?)
    }

    /// A call whose effect the caller will be told of as lasting. Where it had one, what comes beside the answer must be looked at.
    async fn call_durably(
        &self,
        script: &'static Script,
        keys: KeySet,
        args: &[impl AsRef<[u8]>],
    ) -> Result<(reply::Answer, Confirmed), Error> {
        let Some(Durable { engine, replicas }) = &self.durable else {
            return Ok((self.call(script, keys, args).await?, Ok(())));
        };
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let (answer, confirmed) = engine.run_and_wait(script, &keys.0, &args, *replicas).await?;
        let Replicas { count, within } = *replicas;
        let confirmed = if confirmed >= count { Ok(()) } else { Err(unconfirmed(confirmed, count, within)) };
        Ok((reply::Answer::read(script.name, answer)?, confirmed))
    }

    /// Waits for the replicas to have all that was there before. What found its work done already has written nothing, and
    /// WAIT looks only as far back as its own connection has written: so this writes, each time, and on the shard's own node.
    async fn confirm(&self, shard: &Shard) -> Confirmed {
        if self.durable.is_none() {
            return Ok(());
        }
        let asked = self.call_durably(&script::PROBE, shard.probe(), NO_ARGS).await;
        // Whatever becomes of this, what it is asked about has happened.
        let unasked = |error: Error| {
            Error::new(
                ErrorKind::Unknown,
                "the server has it, but replicas could not be asked: ask again, with the same id",
            )
            .caused(error)
        };
        let (answer, confirmed) = asked.map_err(unasked)?;
        answer.require("OK").map_err(unasked)?;
        confirmed
    }
}

/// What a script may answer instead of doing what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session is no more: its jobs were given away.
    Lost,
    /// A newer call of the session came first.
    Stale,
}

/// The arguments of a script that takes none.
const NO_ARGS: &[&[u8]] = &[];

fn mismatch(what: &str, stored: &str, ours: u32) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "the queue was made with {what} {}, this program has {what} {ours}: use a release that goes with the queue",
            reply::quoted(stored)
        ),
    )
}

fn unconfirmed(confirmed: u32, wanted: u32, within: Duration) -> Error {
    Error::new(
        ErrorKind::Unknown,
        format!(
            "the server has it, but only {confirmed} of {wanted} replicas confirmed it within {within:?}: it may be lost with \
             the server; ask again, with the same id"
        ),
    )
}

fn decimal(n: impl ToString) -> Vec<u8> {
    n.to_string().into_bytes()
}
