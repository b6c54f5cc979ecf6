//! `doctor`: looks at the server and the queues, says what to do, and mends what lies in the queues.

use anstyle::Style;
use clap::Args;
use delayq::{Client, Damage, Diagnosis, ErrorKind, Finding, Level, RepairReport};
use serde::Serialize;

use super::Session;
use crate::failure::{Failure, OneByOne, Outcome};
use crate::find;
use crate::output::colour::{BAD, FAINT, GOOD, PLAIN, WARN};
use crate::output::table::{Column, Table, cell, styled};
use crate::output::{Out, remark};

const EXAMPLES: &str = "\
Examples:
  delayq doctor                          the server, and all queues that are in use
  delayq doctor orders --repair          counts what could be mended
  delayq doctor orders --repair --yes    mends it, then looks again
  delayq doctor --json | jq '.findings[] | select(.level == \"wrong\")'

Exit codes: 0 nothing is wrong, 1 something is, or --yes is missing, 3 the store can't be reached.
docs/operations.md says of each check what it means.";

/// Which queues, and whether to mend them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Only these; the server is looked at in any case
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// Mend the queues first: jobs in no place go back to work, entries without a record are removed, the jobs of lost workers
    /// are taken back
    #[arg(long)]
    repair: bool,
    /// Do it: without this, what could be mended is only counted
    #[arg(long, requires = "repair")]
    yes: bool,
}

/// All of it as JSON.
#[derive(Debug, Serialize)]
struct View<'a> {
    sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<&'a [Repair<'a>]>,
    findings: Vec<FindingView<'a>>,
}

#[derive(Debug, Serialize)]
struct FindingView<'a> {
    check: &'a str,
    queue: Option<&'a str>,
    server: Option<&'a str>,
    level: &'a str,
    what: &'a str,
    advice: Option<&'a str>,
}

/// What was to be mended in a queue, and what came of it.
#[derive(Debug, Serialize)]
struct Repair<'a> {
    queue: &'a str,
    looked: u64,
    orphans: u64,
    entries: u64,
    lost_sessions: u64,
    incomplete: bool,
    done: Option<Done>,
}

#[derive(Debug, Serialize)]
struct Done {
    given_back: u64,
    cancelled: u64,
    buried: u64,
    removed: u64,
    foreign: u64,
    sessions: u64,
    rescued: u64,
    incomplete: bool,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let queues = in_use(&session.client, &options.queues).await?;
    let (mut each, mut repairs) = (OneByOne::default(), Vec::new());
    if options.repair {
        for queue in &queues {
            let mended = match session.client.damage(queue).await {
                Ok(damage) => {
                    let mut repair = Repair::of(queue, damage);
                    let mended = mend(session, &mut repair, options.yes).await;
                    repairs.push(repair);
                    mended
                }
                Err(error) => Err(error.into()),
            };
            each.take(mended)?;
        }
    }
    // What was mended is looked at again, and what is left counts.
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let diagnosis = session.client.diagnose(&names).await?;
    if session.out.json {
        session.out.json_line(&View::of(&diagnosis, options.repair.then_some(&repairs)))?;
    } else {
        table(&mut session.out, &diagnosis.findings)?;
        // What is said of it on standard error comes after it.
        session.out.flush()?;
        if queues.is_empty() {
            remark("no queue was used yet under this prefix");
        }
        remark(summed_up(&diagnosis));
    }
    match diagnosis.at(Level::Wrong).count() {
        0 => each.end(),
        1 => Err(Failure::Refused("1 check is wrong: jobs are lost, stuck or refused, or will be".to_owned())),
        wrong => {
            Err(Failure::Refused(format!("{wrong} checks are wrong: jobs are lost, stuck or refused, or will be")))
        }
    }
}

/// The queues named, or all that are in use. Where the server doesn't say, its diagnosis says why.
async fn in_use(client: &Client, named: &[String]) -> Outcome<Vec<String>> {
    match find::queues(client, named).await {
        Err(Failure::Store(error)) if !matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Unknown) => {
            Ok(named.to_vec())
        }
        found => found,
    }
}

async fn mend(session: &mut Session, repair: &mut Repair<'_>, yes: bool) -> Outcome {
    let (queue, counted) = (repair.queue, repair.counted());
    remark(format!("{queue}: {counted}"));
    if repair.is_none() {
        return Ok(());
    }
    if !yes {
        return Err(Failure::Refused(format!("{queue}: nothing was done: add --yes to mend it")));
    }
    session.audit.begins(Some(queue), &counted)?;
    let done = session.client.repair(queue).await.map(|report| Done::of(&report));
    let text = done.as_ref().map(Done::told).unwrap_or_default();
    let done = session.audit.ended(Some(queue), "part of it may be mended", done, |_| text.clone())?;
    repair.done = Some(done);
    if !session.out.json {
        session.out.line(format!("{queue}: {text}"))?;
    }
    Ok(())
}

/// What is wrong, and what to do about it, a finding in one line or more.
fn table(out: &mut Out, findings: &[Finding]) -> Outcome {
    let mut table = Table::new(&[
        Column::Left("LEVEL"),
        Column::Left("CHECK"),
        Column::Left("WHERE"),
        Column::Folded("FOUND, AND WHAT TO DO"),
    ]);
    for finding in findings {
        let style = style(finding.level);
        table.row([
            styled(finding.level.as_str(), style),
            cell(finding.check),
            // A queue's name has no ':', a server's always.
            finding.queue.as_deref().or(finding.server.as_deref()).map_or_else(|| styled("-", FAINT), cell),
            cell(&finding.what),
        ]);
        if let Some(advice) = &finding.advice {
            table.row([cell(""), cell(""), cell(""), styled(format!("-> {advice}"), style)]);
        }
    }
    Ok(table.write(out)?)
}

fn style(level: Level) -> Style {
    match level {
        Level::Good => GOOD,
        Level::Warning | Level::Unknown => WARN,
        Level::Wrong => BAD,
        _ => PLAIN,
    }
}

/// How many findings there are of each level.
fn summed_up(diagnosis: &Diagnosis) -> String {
    let levels = [Level::Wrong, Level::Warning, Level::Unknown, Level::Note, Level::Good];
    let counts = levels.map(|level| format!("{level}: {}", diagnosis.at(level).count()));
    counts.join(", ")
}

impl<'a> View<'a> {
    fn of(diagnosis: &'a Diagnosis, repairs: Option<&'a Vec<Repair<'a>>>) -> View<'a> {
        let findings = diagnosis.findings.iter().map(|finding| FindingView {
            check: finding.check,
            queue: finding.queue.as_deref(),
            server: finding.server.as_deref(),
            level: finding.level.as_str(),
            what: &finding.what,
            advice: finding.advice.as_deref(),
        });
        View { sound: diagnosis.is_sound(), repairs: repairs.map(Vec::as_slice), findings: findings.collect() }
    }
}

impl<'a> Repair<'a> {
    fn of(queue: &'a str, damage: Damage) -> Repair<'a> {
        Repair {
            queue,
            looked: damage.looked,
            orphans: damage.orphans,
            entries: damage.entries,
            lost_sessions: damage.lost_sessions,
            incomplete: damage.incomplete,
            done: None,
        }
    }

    fn is_none(&self) -> bool {
        self.orphans == 0 && self.entries == 0 && self.lost_sessions == 0
    }

    /// In words.
    fn counted(&self) -> String {
        let part = if self.incomplete { "; not all could be looked at, try again in a quieter moment" } else { "" };
        if self.is_none() {
            return format!("nothing to mend{part}");
        }
        format!(
            "to mend: {} in no place, {} without a record, {} of lost workers{part}",
            so_many(self.orphans, "job"),
            if self.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", self.entries) },
            so_many(self.lost_sessions, "session"),
        )
    }
}

impl Done {
    fn of(report: &RepairReport) -> Done {
        Done {
            given_back: report.given_back,
            cancelled: report.cancelled,
            buried: report.buried,
            removed: report.removed,
            foreign: report.foreign,
            sessions: report.sessions,
            rescued: report.rescued,
            incomplete: report.incomplete,
        }
    }

    /// In words, which leave out what there was none of.
    fn told(&self) -> String {
        let parts = [
            (self.given_back, "given back to work"),
            (self.cancelled, "ended as cancelled"),
            (self.buried, "buried among the dead letters"),
            (self.removed, "entries removed"),
            (self.rescued, "taken back from lost workers"),
            (self.foreign, "left, being no jobs"),
        ];
        let mut told: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if told.is_empty() {
            told.push(
                if self.sessions > 0 { "lost sessions closed, which held nothing" } else { "nothing was left to mend" }
                    .to_owned(),
            );
        }
        if self.incomplete {
            told.push("the rest in a quieter moment".to_owned());
        }
        told.join(", ")
    }
}

fn so_many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
