//! An answer of the store, as it stands on the wire, to every operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| delayq_fuzz::reply(data));
