//! The payload: 120 bytes of JSON with the job's number in it.

use serde::{Deserialize, Serialize};

const FIRST: u64 = 1_000_000_000;

/// 120 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The job's number, after a first that keeps the length the same.
    pub order_id: u64,
    /// Ballast.
    pub customer: String,
    /// Ballast.
    pub note: String,
}

impl Order {
    /// The payload of a job.
    pub fn numbered(n: usize) -> Order {
        Order { order_id: FIRST + n as u64, customer: "customer-0000042".to_owned(), note: "x".repeat(57) }
    }

    /// The number of a payload that was received.
    pub fn number(&self) -> usize {
        (self.order_id - FIRST) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_120_bytes_and_gives_its_number_back() {
        let text = serde_json::to_string(&Order::numbered(99_999)).expect("an order is JSON");
        assert_eq!(text.len(), 120);
        let order: Order = serde_json::from_str(&text).expect("and comes back");
        assert_eq!(order.number(), 99_999);
    }
}
