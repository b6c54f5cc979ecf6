//! The checks of the decoders, as the fuzz targets call them.
#![forbid(unsafe_code)]

mod checks;
mod memory;

use memory::within;

/// Checks the record's decoder with these bytes.
pub fn record(data: &[u8]) {
    checks::record(data);
}

/// Checks the envelope's decoder with these bytes.
pub fn envelope(data: &[u8]) {
    checks::envelope(data);
}

/// Checks what every operation makes of these bytes as an answer of the store.
pub fn reply(data: &[u8]) {
    checks::reply(data);
}
