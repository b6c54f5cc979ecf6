//! The command line against real stores: each command on prepared queues, its JSON, its exit codes, and what it must not do.
//!
//! `s` and a number at the start of a name is a security check.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.

#[path = "cli/changing.rs"]
mod changing;
#[path = "cli/damaged.rs"]
mod damaged;
#[path = "cli/dead.rs"]
mod dead;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/kit.rs"]
mod kit;
#[path = "cli/looking.rs"]
mod looking;
#[path = "cli/lost.rs"]
mod lost;
#[cfg(target_os = "linux")]
#[path = "cli/progress.rs"]
mod progress;
#[path = "cli/security.rs"]
mod security;
#[path = "cli/sending.rs"]
mod sending;
#[path = "serve/mod.rs"]
mod serve;
#[path = "cli/stores.rs"]
mod stores;
#[cfg(target_os = "linux")]
#[path = "cli/top.rs"]
mod top;
