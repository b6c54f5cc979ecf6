//! What the Rust adapters share: the protocol spoken with the driver, the payload, the record of what ran.

mod order;
mod produce;
mod record;
mod task;

pub use order::Order;
pub use produce::{BATCH, Due, IN_FLIGHT, Send, produce, together};
pub use record::{expect, ran, ready};
pub use task::{How, Task};

/// What an adapter's `main` answers: any error ends it, and the driver shows its text.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + std::marker::Send + Sync>>;

/// The wall clock since 1970.
pub fn now() -> std::time::Duration {
    // A clock before 1970 would make every figure wrong: zero shows it.
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
