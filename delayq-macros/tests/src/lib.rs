//! Tests of the macros. A package apart: what tests a procedural macro from its own package is compiled for the host, and with it
//! all that it depends on once more.

#[cfg(doctest)]
#[doc = include_str!("../../src/delayed_job.md")]
mod delayed_job {}

#[cfg(doctest)]
#[doc = include_str!("../../src/payload.md")]
mod payload {}
