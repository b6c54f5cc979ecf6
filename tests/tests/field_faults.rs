//! Faults that users of other queues reported, each by its number: what they did, against a real Redis, and what must come of it.
//!
//! So this suite alone answers which of them delayq has. Many are held elsewhere too, operation by operation; here is the whole.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.

#[path = "field_faults/atomic.rs"]
mod atomic;
#[path = "field_faults/bytes.rs"]
mod bytes;
#[path = "field_faults/crashes.rs"]
mod crashes;
#[path = "field_faults/dead.rs"]
mod dead;
#[path = "field_faults/kit.rs"]
mod kit;
#[path = "field_faults/leases.rs"]
mod leases;
#[path = "field_faults/poison.rs"]
mod poison;
#[path = "field_faults/time.rs"]
mod time;
