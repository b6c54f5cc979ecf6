//! The store's conformance suite: each operation, by every answer and by the state it leaves, on every engine.
//!
//! Single letters at the start of a name are the rules of the protocol that a case holds; `b` and a number is a fault from the field.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.
#![allow(missing_docs)]

#[path = "store/beat.rs"]
mod beat;
#[path = "store/cancel.rs"]
mod cancel;
#[path = "store/claim.rs"]
mod claim;
#[path = "store/dead.rs"]
mod dead;
#[path = "store/decoders.rs"]
mod decoders;
#[path = "store/due_list.rs"]
mod due_list;
#[path = "store/enqueue.rs"]
mod enqueue;
#[path = "store/history.rs"]
mod history;
#[path = "store/open_close.rs"]
mod open_close;
#[path = "store/orphans.rs"]
mod orphans;
#[path = "store/pause.rs"]
mod pause;
#[path = "store/reconcile.rs"]
mod reconcile;
#[path = "store/reschedule.rs"]
mod reschedule;
#[path = "store/rescue.rs"]
mod rescue;
#[path = "store/runs.rs"]
mod runs;
#[path = "store/server.rs"]
mod server;
#[path = "store/settle.rs"]
mod settle;
#[path = "store/shows.rs"]
mod shows;
#[path = "store/solo.rs"]
mod solo;
#[path = "store/source.rs"]
mod source;
#[path = "store/stats.rs"]
mod stats;
#[path = "store/tombs.rs"]
mod tombs;
#[path = "store/unique.rs"]
mod unique;
#[path = "store/wake.rs"]
mod wake;
#[path = "store/wrong_types.rs"]
mod wrong_types;
