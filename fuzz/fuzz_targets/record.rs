//! A record as it may stand in the store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| delayq_fuzz::record(data));
