//! What workers that have nothing to do ask of Redis.

use std::time::Duration;

use delayq::Client;

use super::{AS_IT_COMES, Sizes};
use crate::Res;
use crate::job::QUEUE;
use crate::machine;
use crate::meter::Meter;
use crate::process::Process;
use crate::report::{Measure, Report, Sample};
use crate::server::{Persistence, Server};

/// How many workers idle.
const WORKERS: [usize; 2] = [1, 10];
/// Until the calls of their start are over.
const CALM: Duration = Duration::from_secs(6);

const COMMANDS_PER_S: Measure = Measure { key: "commands_per_s", title: "commands/s", digits: 2 };
const EACH_PER_S: Measure = Measure { key: "commands_per_s_each", title: "a worker", digits: 2 };
const REDIS_US_PER_S: Measure = Measure { key: "redis_us_per_s", title: "Redis us/s", digits: 0 };
const OWN_US_PER_S: Measure = Measure { key: "own_us_per_s", title: "all workers us/s", digits: 0 };

pub(crate) async fn take(sizes: &Sizes) -> Res<Report> {
    let window = Duration::from_secs(if sizes.quick { 5 } else { 20 });
    let mut idlers = Vec::with_capacity(WORKERS.len());
    for n in WORKERS {
        idlers.push(Idlers::start(n).await?);
    }
    let mut report = Report::new("idle", "workers without a job, each a process", idlers[0].server.machine());
    report.setting(AS_IT_COMES);
    report.setting(format!("each run is {} s, one after the other, both numbers of workers at once", window.as_secs()));
    report.setting("commands: what goes over the wire, without what runs inside scripts");
    tokio::time::sleep(CALM).await;
    for _ in 0..sizes.runs() {
        let before = idlers.iter().map(Idlers::look).collect::<Res<Vec<_>>>()?;
        tokio::time::sleep(window).await;
        for (idlers, (meter, own)) in idlers.iter().zip(before) {
            let usage = meter.read()?;
            let per_s = |n: f64| n / usage.took_s;
            let own =
                idlers.own().zip(own).map(|(after, before)| per_s(after.saturating_sub(before).as_secs_f64() * 1e6));
            let sample = Sample::default()
                .with(COMMANDS_PER_S, per_s(usage.commands))
                .with(EACH_PER_S, per_s(usage.commands) / idlers.workers.len() as f64)
                .with(REDIS_US_PER_S, per_s(usage.redis_s * 1e6))
                .maybe(OWN_US_PER_S, own);
            let name = format!("{} idle", idlers.workers.len());
            report.add(&name, &sample);
            report.label(&name, "workers", idlers.workers.len() as f64);
        }
    }
    for idlers in idlers {
        Process::stop_all(idlers.workers).await?;
    }
    Ok(report)
}

/// Workers that idle on a server of their own.
struct Idlers {
    workers: Vec<Process>,
    server: Server,
}

impl Idlers {
    async fn start(n: usize) -> Res<Idlers> {
        let server = Server::start(Persistence::Off)?;
        let url = server.url();
        let client = Client::connect(&url).await?;
        let workers = Process::start_all(&client, &url, QUEUE, n, 0).await?;
        Ok(Idlers { workers, server })
    }

    fn look(&self) -> Res<(Meter, Option<Duration>)> {
        Ok((Meter::start(&self.server.url())?, self.own()))
    }

    /// CPU time of all workers.
    fn own(&self) -> Option<Duration> {
        self.workers.iter().map(|worker| machine::cpu_of(worker.pid()?)).sum()
    }
}
