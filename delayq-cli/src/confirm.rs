//! Bulk changes: the count first, then a clear yes.

use crate::failure::{Failure, Outcome};
use crate::output::remark;

/// Whether bulk changes were agreed to.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Yes {
    /// Do it: without this the jobs are only counted
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Says how many there are. Answers whether there is something to do.
pub(crate) fn confirm(count: usize, what: &str, queue: &str, verb: &str, yes: Yes) -> Outcome<bool> {
    let plural = if count == 1 { "" } else { "s" };
    remark(format!("{count} {what}{plural} of the queue {queue} match{}", if count == 1 { "es" } else { "" }));
    if count == 0 {
        return Ok(false);
    }
    if !yes.yes {
        return Err(Failure::Refused(format!(
            "nothing was done: add --yes to {verb} {}",
            if count == 1 { "it" } else { "them" }
        )));
    }
    Ok(true)
}
