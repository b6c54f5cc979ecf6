//! Due jobs through a worker: all peers' queues are filled, grow old enough, and are drained in turn.

use std::time::Instant;

use delayq_redis_fixture::RedisServer;

use super::runs::Runs;
use super::{Contender, Due, Phase, SETTLE, since_1970};
use crate::options::Options;
use crate::sample::Sample;
use crate::server::{self, Snapshot};

pub(super) const PHASE: Phase = Phase {
    title: "drain of due jobs",
    figures: &["jobs/s", "Redis us/job", "worker us/job", "commands/job", "reads/job"],
    of_backlog: &[],
    run,
};

const INDEX: usize = 1;

type Filled = Result<(RedisServer, Instant), String>;

fn run(contenders: &mut [Contender], order: &[usize], options: &Options) {
    let mut filled: Vec<Option<Filled>> = contenders.iter().map(|_| None).collect();
    for place in order {
        let contender = &contenders[*place];
        if !contender.shares[INDEX].hopeless {
            filled[*place] = Some(fill(contender, contender.shares[INDEX].jobs));
        }
    }
    for place in order {
        let mut full = filled[*place].take();
        contenders[*place].sample(INDEX, |contender, jobs| {
            // A second try has a queue of its own.
            let (server, at) = full.take().unwrap_or_else(|| fill(contender, jobs))?;
            std::thread::sleep(options.age.saturating_sub(at.elapsed()));
            drain(contender, &server, jobs, options)
        });
    }
}

fn fill(contender: &Contender, jobs: usize) -> Filled {
    let server = server::fresh()?;
    contender.send(&server.url(), jobs, "many", &Due::Now)?;
    Ok((server, Instant::now()))
}

fn drain(contender: &Contender, server: &RedisServer, jobs: usize, options: &Options) -> Result<Sample, String> {
    let before = Snapshot::take(server)?;
    let (mut worker, ready) = contender.worker(&server.url(), jobs)?;
    let cpu = worker.cpu();
    let mut runs = Runs::collect(&mut worker, jobs, Instant::now() + options.patience);
    std::thread::sleep(SETTLE); // The last settles count too.
    let (after, cpu) = (Snapshot::take(server)?, worker.cpu() - cpu);
    runs.aftermath(&mut worker);
    let faults = runs.faults(&[]);
    let ran = jobs - faults.not_run;
    let took = runs.last().unwrap_or_default().saturating_sub(since_1970(ready));
    let (spent, each) = (after.since(&before), |total: f64| total / ran as f64);
    let figures = vec![
        ("jobs/s", ran as f64 / took.as_secs_f64()),
        ("Redis us/job", each(spent.cpu_s * 1e6)),
        ("worker us/job", each(cpu.as_secs_f64() * 1e6)),
        ("commands/job", each(spent.commands)),
        ("reads/job", each(spent.reads)),
    ];
    Ok(Sample { jobs, figures: if faults.not_run == 0 { figures } else { Vec::new() }, faults })
}
