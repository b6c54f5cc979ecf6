//! The operations, one script a file.

mod beat;
mod cancel;
mod claim;
mod close;
mod dead_delete;
mod dead_list;
mod dead_redrive;
mod due_list;
mod enqueue;
mod inspect;
mod open;
mod pass;
mod pause;
mod reconcile;
mod reschedule;
mod rescue;
mod sessions;
mod settle;
mod stats;

pub use beat::Beat;
pub use cancel::Cancelled;
pub use claim::{Claim, Claimed, Taken};
pub use close::Closed;
pub use dead_list::{DeadPage, DeadRow, Order};
pub use dead_redrive::Redriven;
pub use due_list::{DuePage, DueRow};
pub use enqueue::{NewJob, Options, Sent};
pub use inspect::{End, Found, Place};
pub use reconcile::Reconciled;
pub use reschedule::Rescheduled;
pub use rescue::Rescue;
pub use sessions::Session;
pub use settle::{Settled, Verdict, settled_letters};
pub use stats::Stats;
