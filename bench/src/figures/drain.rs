//! Due jobs through a real worker, from its start to the last settle, beside what the scripts alone do.

use clap::Args;

use super::{AS_IT_COMES, Sizes, short};
use crate::Res;
use crate::drains::{self, By, Turns, Way};
use crate::report::{JOBS_PER_S, Report};
use crate::server::{Persistence, Server};

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Jobs that were sent just now: each leaves a tombstone at its end.
    #[arg(long)]
    pub(crate) young: bool,
    /// Tells where Redis's time went in the last run of the worker.
    #[arg(long)]
    pub(crate) commandstats: bool,
}

pub(crate) async fn take(options: &Options) -> Res<Report> {
    let machine = Server::start(Persistence::Off)?.machine();
    let age = if options.young { "sent just now" } else { "sent 17 s before or earlier" };
    let mut report = Report::new("drain", format!("due jobs, {age}, through one worker to the last settle"), machine);
    report.setting(AS_IT_COMES);
    report.setting("beside it the scripts alone, 100 jobs a call, which run nothing: by one session, which waits for each answer, and by two");
    for jobs in options.sizes.jobs(&[100_000, 1_000_000], &[50_000]) {
        let size = short(jobs);
        let [worker, one, two] =
            [format!("worker, {size}"), format!("scripts alone, {size}"), format!("scripts, 2 sessions, {size}")];
        let ways = [
            Way::new(&worker, By::Worker),
            Way::new(&one, By::Scripts { sessions: 1 }),
            Way::new(&two, By::Scripts { sessions: 2 }),
        ];
        let turns =
            Turns { young: options.young, commandstats: options.commandstats, ..Turns::of(jobs, &options.sizes) };
        drains::take(&mut report, &ways, turns).await?;
        let speed = |series| (series, JOBS_PER_S);
        report.ratio(
            &format!("worker_to_scripts_{size}"),
            format!("{size}: the worker to the scripts alone"),
            speed(worker.as_str()),
            speed(one.as_str()),
        );
        report.ratio(
            &format!("worker_to_scripts_2_{size}"),
            format!("{size}: the worker to the scripts by two sessions"),
            speed(worker.as_str()),
            speed(two.as_str()),
        );
    }
    Ok(report)
}
