//! Drains queues of due jobs in several ways, in turns, so that each way meets the same minutes of the machine.

use delayq::Client;

use crate::figures::Sizes;
use crate::fill::{self, Jobs};
use crate::meter::{Meter, Usage};
use crate::process::{self, Watched};
use crate::report::{Measure, Report};
use crate::server::{self, Info, Persistence, Server};
use crate::{Res, bare, worker};

/// How many jobs are kept at once, unless one turn needs more.
const JOBS_MAX: usize = 1_500_000;
/// Above that many jobs nothing is left to warm up.
const WARM_UP_MAX: usize = 200_000;

const REPEATED: Measure = Measure { key: "repeated", title: "repeated", digits: 0 };

/// Who drains.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// A worker in this process, as it comes.
    Worker,
    /// The scripts alone.
    Scripts { sessions: usize },
    /// A worker in a process of its own, watched or not.
    Process(Watched),
}

/// One way to drain.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) jobs: Jobs,
    pub(crate) by: By,
    pub(crate) persistence: Persistence,
}

impl Way {
    pub(crate) fn new(name: impl Into<String>, by: By) -> Way {
        Way { name: name.into(), jobs: Jobs::Plain, by, persistence: Persistence::Off }
    }
}

/// How many jobs, how often, and whether they may be as young as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    pub(crate) jobs: usize,
    pub(crate) runs: usize,
    pub(crate) young: bool,
    /// Whether the report shall say where Redis's time went.
    pub(crate) commandstats: bool,
}

impl Turns {
    pub(crate) fn of(jobs: usize, sizes: &Sizes) -> Turns {
        Turns { jobs, runs: sizes.runs(), young: false, commandstats: false }
    }
}

/// Servers with a queue for each way and turn, filled, and as old as it is wanted.
struct Filled {
    servers: Vec<(Persistence, Server)>,
}

impl Filled {
    async fn make(ways: &[Way], turns: std::ops::Range<usize>, jobs: usize, young: bool) -> Res<Filled> {
        let mut filled = Filled { servers: Vec::new() };
        for way in ways {
            if !filled.servers.iter().any(|(persistence, _)| *persistence == way.persistence) {
                filled.servers.push((way.persistence, Server::start(way.persistence)?));
            }
        }
        for turn in turns {
            for (nth, way) in ways.iter().enumerate() {
                let client = Client::connect(&filled.url(way)?).await?;
                fill::due_now(&client, &queue(nth, turn), jobs, way.jobs).await?;
            }
        }
        if !young {
            fill::age().await;
        }
        Ok(filled)
    }

    fn url(&self, way: &Way) -> Res<String> {
        let server = self.servers.iter().find(|(persistence, _)| *persistence == way.persistence);
        Ok(server.ok_or("no server for this way")?.1.url())
    }
}

fn queue(nth: usize, turn: usize) -> String {
    format!("bench-{nth}-{turn}")
}

/// Drains in all ways, turn by turn, and adds each run to the report.
pub(crate) async fn take(report: &mut Report, ways: &[Way], turns: Turns) -> Res<()> {
    let Turns { jobs, runs, young, commandstats } = turns;
    let first = usize::from(jobs > WARM_UP_MAX);
    let at_once = (JOBS_MAX / (ways.len() * jobs)).max(1);
    for way in ways {
        report.label(&way.name, "jobs", jobs as f64);
    }
    let mut next = first;
    while next <= runs {
        let batch = next..(next + at_once).min(runs + 1);
        next = batch.end;
        let filled = Filled::make(ways, batch.clone(), jobs, young).await?;
        for turn in batch {
            // Each goes first in its turn.
            for place in 0..ways.len() {
                let nth = (place + turn) % ways.len();
                let way = &ways[nth];
                let (usage, repeated) = drain(&filled.url(way)?, way, &queue(nth, turn), jobs, young).await?;
                if turn > 0 {
                    report.add(&way.name, &usage.per_job_with_longest(jobs).maybe(REPEATED, repeated));
                }
                if commandstats && turn == runs && matches!(way.by, By::Worker) {
                    for (command, calls, us) in Info::of(&filled.url(way)?)?.command_times() {
                        report.note(format!("{}: {command} {calls:.0} calls, {us:.0} us", way.name));
                    }
                }
            }
        }
    }
    Ok(())
}

async fn drain(url: &str, way: &Way, queue: &str, jobs: usize, young: bool) -> Res<(Usage, Option<f64>)> {
    server::reset_counts(url)?;
    match way.by {
        By::Worker => {
            let client = Client::connect(url).await?;
            let (usage, repeated) = worker::drain(&client, url, queue, jobs).await?;
            Ok((usage, Some(repeated as f64)))
        }
        By::Scripts { sessions } => {
            let meter = Meter::start(url)?;
            let drained = bare::drain(url, queue, sessions, young).await?;
            let usage = meter.read()?;
            if drained != jobs {
                return Err(format!("{drained} jobs of {jobs} came out").into());
            }
            Ok((usage, None))
        }
        By::Process(watched) => Ok((process::drain(url, queue, jobs, watched).await?, None)),
    }
}
