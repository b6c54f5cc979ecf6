//! The rules of delayq's store as a state machine: one pure step, laws that must hold, and a search of all that can be reached.
//!
//! [`step`] says what each script of `delayq/lua` does to a shard, and what it answers. [`search`] plays workers, senders and a
//! network that loses, delays and repeats calls against it, and looks at the [laws] after every event. What the
//! differential suite compares with Redis and the embedded engine is this same step.

mod caught;
pub mod drain;
pub mod laws;
mod op;
mod rules;
mod search;
mod state;
mod step;
pub mod world;

pub use caught::{CAUGHT, Caught, ELSEWHERE, Elsewhere, MUTANTS};
pub use op::{Chosen, Claimed, Counts, End, NewJob, Op, Place, Redriven, Reply, Sent, Settled, Verdict, When};
pub use rules::{PARTS, Part, Rules};
pub use search::{Counterexample, Search, search};
pub use state::{COUNTERS, Code, Counter, Id, Key, Lock, Member, Note, Now, Record, Session, State, Stats, Tomb};
pub use step::{apply, step};

/// How long the store remembers that an id ended, in ms; `lua/lib/ends.lua` has the same number.
pub const TOMB_MS: u64 = 15_000;
/// From this many crashes on a job runs alone; `lua/lib/record.lua` has the same number.
pub const SOLO_AT: u8 = 2;
/// An attempts limit that is none; `lua/lib/record.lua` has the same number.
pub const NO_LIMIT: u16 = u16::MAX;
/// The last ms of the year 9999; `lua/lib/record.lua` has the same number.
pub const DUE_MAX: u64 = 253_402_300_799_999;
/// The layout that this model reads and writes.
pub const SCHEMA: u32 = 1;
/// Shards a queue has.
pub const SHARDS: u32 = 1;
