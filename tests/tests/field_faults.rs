//! Faults that users of other queues reported, each by its number: what they did, against a real Redis, and what must come of it.
//!
//! So this suite alone answers which of them delayq has. Many are held elsewhere too, operation by operation; here is the whole.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.

#[path = "field_faults/atomic.rs"]
mod atomic;
#[path = "field_faults/bytes.rs"]
mod bytes;
#[path = "field_faults/connections.rs"]
mod connections;
#[path = "field_faults/crashes.rs"]
mod crashes;
#[path = "field_faults/dead.rs"]
mod dead;
#[path = "field_faults/failure_modes.rs"]
mod failure_modes;
#[path = "field_faults/foreign.rs"]
mod foreign;
#[path = "field_faults/kit.rs"]
mod kit;
#[path = "field_faults/kit_b.rs"]
mod kit_b;
#[path = "field_faults/leases.rs"]
mod leases;
#[path = "field_faults/macros.rs"]
mod macros;
#[path = "field_faults/memory.rs"]
mod memory;
#[path = "field_faults/mistakes.rs"]
mod mistakes;
#[path = "field_faults/observing.rs"]
mod observing;
#[path = "field_faults/poison.rs"]
mod poison;
#[path = "field_faults/scheduling.rs"]
mod scheduling;
#[path = "field_faults/security.rs"]
mod security;
#[path = "field_faults/slots.rs"]
mod slots;
#[path = "field_faults/stopping.rs"]
mod stopping;
#[path = "field_faults/time.rs"]
mod time;
