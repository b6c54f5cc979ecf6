//! `pause` and `resume`: stop a queue's claims, and let it go on.

use clap::Args;
use serde::Serialize;

use super::Session;
use crate::failure::Outcome;
use crate::find;
use crate::output::colour;

/// Which queues.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The queues
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
    /// Also queues that nothing was ever sent to
    #[arg(long)]
    new: bool,
}

#[derive(Debug, Serialize)]
struct View<'a> {
    queue: &'a str,
    paused: bool,
    changed: bool,
}

pub(crate) async fn run(session: &mut Session, options: Options, pause: bool) -> Outcome {
    let queues = if options.new { options.queues } else { find::queues(&session.client, &options.queues).await? };
    for queue in &queues {
        session.audit.begins(Some(queue), "")?;
        let changed = if pause { session.client.pause(queue).await } else { session.client.resume(queue).await };
        let changed = session.audit.ended(Some(queue), "", changed, |changed| told(pause, *changed).to_owned())?;
        let what = told(pause, changed);
        if session.out.json {
            session.out.json_line(&View { queue, paused: pause, changed })?;
        } else {
            let style = if pause { colour::WARN } else { colour::GOOD };
            let what = session.out.styled(style, what);
            session.out.line(format!("{queue}: {what}"))?;
        }
    }
    Ok(())
}

/// What came of it.
pub(crate) fn told(pause: bool, changed: bool) -> &'static str {
    match (pause, changed) {
        (true, true) => "paused",
        (true, false) => "was paused already",
        (false, true) => "goes on",
        (false, false) => "was not paused",
    }
}
