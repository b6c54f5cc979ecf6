//! Counts how many jobs fall due by given instants.

use std::time::Duration;

use super::super::script::FORECAST;
use super::super::{Shard, Store, decimal};
use crate::error::Error;

/// How many jobs fall due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueBy {
    /// The store's clock, ms since 1970.
    pub now_ms: u64,
    /// How many jobs wait in all.
    pub waiting: u64,
    /// How many of them are due by each of the instants asked for.
    pub due_by: Vec<u64>,
}

impl Store {
    /// Counts the jobs that are due by now and each of these times.
    ///
    /// # Errors
    /// The call failed.
    pub async fn forecast(&self, shard: &Shard, ahead: &[Duration]) -> Result<DueBy, Error> {
        let args: Vec<Vec<u8>> = ahead.iter().map(|ahead| decimal(ahead.as_millis())).collect();
        let mut answer = self.call(&FORECAST, shard.all(None), &args).await?.require("OK")?;
        let mut due = DueBy { now_ms: answer.count()?, waiting: answer.count()?, due_by: Vec::new() };
        while answer.len() > 0 {
            due.due_by.push(answer.count()?);
        }
        Ok(due)
    }
}
