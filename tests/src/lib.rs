//! What delayq's suites share: servers, waiting for signals, small jobs.

pub mod store_kit;
