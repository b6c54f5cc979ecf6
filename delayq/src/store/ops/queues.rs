//! Lists the names of queues that were ever in use.

use super::super::script::QUEUES;
use super::super::{Store, decimal};
use crate::error::Error;
use crate::limits::QUEUES_PAGE_MAX;

impl Store {
    /// A page of up to [`QUEUES_PAGE_MAX`] names, after the last one of the page before. What a foreign hand put there need be no name.
    ///
    /// # Errors
    /// The call failed.
    pub async fn queues(&self, after: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let args = [after.to_vec(), decimal(QUEUES_PAGE_MAX)];
        let mut answer = self.call(&QUEUES, self.prefix.queues(), &args).await?.require("OK")?;
        let mut names = Vec::with_capacity(answer.len());
        while answer.len() > 0 {
            names.push(answer.bytes()?);
        }
        Ok(names)
    }
}
