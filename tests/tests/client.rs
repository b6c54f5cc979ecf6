//! The client and its connections against real Redis servers: sending, lost replies, bad connections, recovery, handles.
//!
//! `b` and a number at the start of a name is a fault from the field, a letter a rule of the protocol.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.

#[path = "client/cluster.rs"]
mod cluster;
#[path = "client/coalescing.rs"]
mod coalescing;
#[path = "client/connecting.rs"]
mod connecting;
#[path = "client/dead_letters.rs"]
mod dead_letters;
#[path = "client/deadlines.rs"]
mod deadlines;
#[path = "client/diagnose.rs"]
mod diagnose;
#[path = "client/due.rs"]
mod due;
#[path = "client/durability.rs"]
mod durability;
#[path = "client/golden.rs"]
mod golden;
#[path = "client/handles.rs"]
mod handles;
#[path = "client/identity.rs"]
mod identity;
#[path = "client/inspection.rs"]
mod inspection;
#[path = "client/kit.rs"]
mod kit;
#[path = "client/lost_replies.rs"]
mod lost_replies;
#[path = "client/outages.rs"]
mod outages;
#[path = "client/payloads.rs"]
mod payloads;
#[path = "client/refusals.rs"]
mod refusals;
#[path = "client/secrets.rs"]
mod secrets;
#[path = "client/sentinel.rs"]
mod sentinel;
#[path = "client/tls.rs"]
mod tls;
#[path = "client/trouble.rs"]
mod trouble;
