//! How much memory a decoder takes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Decodes, and sees that it takes no more memory at once than this.
pub(crate) fn within<T>(bytes: usize, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    // Caught inside and thrown on outside: what counts the allocations must see the end of what it counts.
    let used = allocation_counter::measure(|| decoded = Some(catch_unwind(AssertUnwindSafe(decode))));
    let decoded = match decoded {
        Some(Ok(decoded)) => decoded,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("what is measured is run"),
    };
    assert!(used.bytes_max <= bytes as u64, "{} bytes of memory, and {bytes} are plenty", used.bytes_max);
    decoded
}
