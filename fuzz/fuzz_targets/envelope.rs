//! An envelope as any program may have written it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| delayq_fuzz::envelope(data));
