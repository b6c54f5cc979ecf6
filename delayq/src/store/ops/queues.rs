//! Lists the names of queues that were ever in use.

use super::super::script::QUEUES;
use super::super::{Store, decimal};
use crate::error::Error;
use crate::limits::QUEUES_PAGE_MAX;

impl Store {
    /// A page of up to [`QUEUES_PAGE_MAX`] names, after the last one of the page before.
    ///
    /// # Errors
    /// The call failed.
    pub async fn queues(&self, after: &str) -> Result<Vec<String>, Error> {
        let args = [after.as_bytes().to_vec(), decimal(QUEUES_PAGE_MAX)];
        let mut answer = self.call(&QUEUES, self.prefix.queues(), &args).await?.require("OK")?;
        let mut names = Vec::with_capacity(answer.len());
        while answer.len() > 0 {
            names.push(answer.text()?);
        }
        Ok(names)
    }
}
