//! Faults that users of other queues reported, and the failure modes that a user meets, against real Redis servers.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.

#[path = "field_faults/connections.rs"]
mod connections;
#[path = "field_faults/failure_modes.rs"]
mod failure_modes;
#[path = "field_faults/foreign.rs"]
mod foreign;
#[path = "field_faults/kit_b.rs"]
mod kit_b;
#[path = "field_faults/macros.rs"]
mod macros;
#[path = "field_faults/memory.rs"]
mod memory;
#[path = "field_faults/mistakes.rs"]
mod mistakes;
#[path = "field_faults/observing.rs"]
mod observing;
#[path = "field_faults/scheduling.rs"]
mod scheduling;
#[path = "field_faults/security.rs"]
mod security;
#[path = "field_faults/slots.rs"]
mod slots;
#[path = "field_faults/stopping.rs"]
mod stopping;
