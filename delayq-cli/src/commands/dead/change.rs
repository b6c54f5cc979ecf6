//! What `dead retry` and `dead delete` have in common: letters by id, or exactly those that a filter means.

use anstyle::Style;
use delayq::{DeadLetters, Error, JobId};
use jiff::Timestamp;
use serde::Serialize;

use super::{AT_ONCE, Choice, letter};
use crate::commands::Session;
use crate::confirm::confirm;
use crate::failure::{OneByOne, Outcome};
use crate::filter::Narrow;
use crate::find;
use crate::progress::Progress;

/// A change of dead letters, and the count of what came of it.
pub(super) trait Change: Default + Serialize {
    /// What the command is called.
    const VERB: &'static str;
    /// What is being done.
    const DOING: &'static str;
    /// What was done to one letter.
    const OUTCOME: &'static str;
    /// The same where it is shown, and how.
    const SHOWN: (&'static str, Style);

    /// Changes one letter.
    async fn one(letters: &DeadLetters, id: JobId) -> Result<(), Error>;

    /// Changes letters as they were listed.
    async fn listed(&mut self, letters: &DeadLetters, some: &[(JobId, Timestamp)]) -> Result<(), Error>;

    /// What came of it, of so many that were asked for.
    fn told(&self, asked_for: usize) -> String;
}

/// What became of one letter.
#[derive(Debug, Serialize)]
struct One<'a> {
    id: String,
    queue: &'a str,
    outcome: &'a str,
}

/// What became of those of a queue.
#[derive(Debug, Serialize)]
struct Many<'a, C> {
    queue: &'a str,
    matched: usize,
    #[serde(flatten)]
    changed: &'a C,
}

pub(super) async fn run<C: Change>(session: &mut Session, choice: Choice) -> Outcome {
    let queues = choice.queues(&session.client).await?;
    let mut each = OneByOne::default();
    for id in &choice.ids {
        let changed = one::<C>(session, &queues, *id, &mut each).await;
        each.take(changed)?;
    }
    if choice.ids.is_empty() {
        for queue in &queues {
            let changed = by_filter::<C>(session, &choice, queue).await;
            each.take(changed.map_err(|failure| find::of_queue(queue, failure)))?;
        }
    }
    each.end()
}

async fn one<C: Change>(session: &mut Session, queues: &[String], id: JobId, each: &mut OneByOne) -> Outcome {
    let queue = letter(&session.client, queues, id, each).await?.queue;
    session.audit.begins(Some(&queue), &id.to_string())?;
    let changed = C::one(&session.client.dead_letters(&queue), id).await;
    session.audit.ended(Some(&queue), &id.to_string(), changed, |()| format!("{id} {}", C::OUTCOME))?;
    if session.out.json {
        session.out.json_line(&One { id: id.to_string(), queue: &queue, outcome: C::OUTCOME })?;
    } else {
        let (text, style) = C::SHOWN;
        let what = session.out.styled(style, text);
        session.out.line(format!("{id} {what}"))?;
    }
    Ok(())
}

async fn by_filter<C: Change>(session: &mut Session, choice: &Choice, queue: &str) -> Outcome {
    let letters = choice.letters(&session.client, queue).await?;
    let matched = letters.len();
    let mut changed = C::default();
    let asked = confirm(matched, "dead letter", queue, C::VERB, choice.yes);
    if session.out.json && !matches!(asked, Ok(true)) {
        session.out.json_line(&Many { queue, matched, changed: &changed })?;
    }
    if !asked? {
        return Ok(());
    }
    let mut told = choice.filter.told();
    told.extend(choice.all.then(|| "all".to_owned()));
    session.audit.begins(Some(queue), &format!("{matched} dead letters: {}", told.join(", ")))?;
    let dead = session.client.dead_letters(queue);
    let progress = Progress::of(matched, format!("{queue}: {}", C::DOING));
    let (mut answered, mut unsure, mut result) = (0, 0, Ok(()));
    for some in letters.chunks(AT_ONCE) {
        if let Err(error) = changed.listed(&dead, some).await {
            (unsure, result) = (some.len(), Err(error));
            break;
        }
        answered += some.len();
        progress.more(some.len());
    }
    drop(progress);
    let mut text = changed.told(answered);
    if result.is_err() {
        let left = matched - answered - unsure;
        text.push_str(&format!("; of {unsure} it is not known, {left} were not tried: the same command goes on"));
    }
    let ended = session.audit.ended(Some(queue), &text, result, |()| text.clone());
    if session.out.json {
        session.out.json_line(&Many { queue, matched, changed: &changed })?;
    } else {
        session.out.line(format!("{queue}: {text}"))?;
    }
    ended
}
