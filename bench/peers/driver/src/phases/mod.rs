//! The phases: each is run by all peers in turn before the next begins.

mod drain;
mod enqueue;
mod idle;
mod instant;
mod runs;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::install::Adapter;
use crate::options::Options;
use crate::peer::Peer;
use crate::program::{Message, Running};
use crate::sample::{Name, Sample};

/// How long an adapter may take to start.
const START: Duration = Duration::from_secs(60);

/// How long a producer may take.
const SEND: Duration = Duration::from_secs(300);

/// What a server still does after the last job is left to settle this long, before counters are read.
const SETTLE: Duration = Duration::from_millis(500);

/// A phase.
pub(crate) struct Phase {
    pub(crate) title: &'static str,
    /// Its figures, in the order in which they are shown.
    pub(crate) figures: &'static [Name],
    /// Those of them that more jobs make worse: they aren't compared with those of another number of jobs.
    pub(crate) of_backlog: &'static [Name],
    pub(crate) run: fn(&mut [Contender], &[usize], &Options),
}

/// All, in order.
pub(crate) const PHASES: &[Phase] = &[enqueue::PHASE, drain::PHASE, instant::PHASE, idle::PHASE];

/// A peer that is installed, and what it has shown.
pub(crate) struct Contender {
    pub(crate) peer: &'static Peer,
    adapter: Adapter,
    /// The run that is under way, from 1.
    pub(crate) run: usize,
    /// How many jobs a second it was sent last.
    send_rate: f64,
    /// Each phase's samples in order, with the run's number: what failed gives the reason.
    pub(crate) samples: Vec<Vec<(usize, Result<Sample, String>)>>,
    /// How many jobs it gets in each phase, and whether that many stalled for good.
    shares: Vec<Share>,
}

#[derive(Clone, Copy)]
struct Share {
    jobs: usize,
    hopeless: bool,
}

/// Few sends a second, for a peer whose rate isn't known.
const SLOW_SENDER: f64 = 1_000.0;

impl Contender {
    pub(crate) fn new(peer: &'static Peer, adapter: Adapter, options: &Options) -> Contender {
        let share = |percent: usize| Share { jobs: (options.jobs * percent / 100).max(1), hopeless: false };
        let mut shares = vec![share(peer.ran_percent); PHASES.len()];
        shares[enqueue::INDEX] = share(peer.sent_percent);
        shares[idle::INDEX].jobs = options.fired;
        Contender {
            peer,
            adapter,
            run: 1,
            send_rate: SLOW_SENDER,
            samples: PHASES.iter().map(|_| Vec::new()).collect(),
            shares,
        }
    }

    /// Takes a sample, and another with fewer jobs if the phase stalls. What stalled for good isn't tried again.
    fn sample(&mut self, phase: usize, mut take: impl FnMut(&mut Contender, usize) -> Result<Sample, String>) {
        loop {
            let Share { jobs, hopeless } = self.shares[phase];
            if hopeless {
                return;
            }
            let sample = take(self, jobs);
            let stalled = matches!(&sample, Ok(sample) if sample.faults.not_run > 0);
            let text = match &sample {
                Ok(sample) => sample.faults.text(sample.jobs).unwrap_or_else(|| "done".to_owned()),
                Err(why) => why.clone(),
            };
            eprintln!("  {}: {jobs} jobs: {text}", self.peer.name);
            self.samples[phase].push((self.run, sample));
            match self.peer.fewer.filter(|fewer| *fewer < jobs) {
                Some(fewer) if stalled => self.shares[phase].jobs = fewer,
                _ => {
                    self.shares[phase].hopeless = stalled;
                    return;
                }
            }
        }
    }

    /// Sends jobs by a producer of its own; answers how long it took.
    fn send(&self, url: &str, jobs: usize, how: &str, due: &Due) -> Result<Duration, String> {
        let mut producer = Running::start(&self.adapter, &["enqueue", url, &jobs.to_string(), how, &due.text()])?;
        let deadline = Instant::now() + START + SEND;
        let mut begun = None;
        while let Some(line) = producer.next(deadline).map_err(|how| format!("the producer {how}"))? {
            match (line.message, begun) {
                (Message::Begin, _) => begun = Some(line.at),
                (Message::End, Some(begun)) => return Ok(line.at - begun),
                _ => {}
            }
        }
        Err(format!("the producer did not send {jobs} jobs in {SEND:?}"))
    }

    /// Starts a worker; answers it and when it was about to ask for its first job.
    fn worker(&self, url: &str, jobs: usize) -> Result<(Running, SystemTime), String> {
        let mut worker = Running::start(&self.adapter, &["work", url, &jobs.to_string()])?;
        let deadline = Instant::now() + START;
        while let Some(line) = worker.next(deadline).map_err(|how| format!("the worker {how}"))? {
            if matches!(line.message, Message::Ready) {
                return Ok((worker, line.wall));
            }
        }
        Err(format!("the worker was not ready in {START:?}"))
    }
}

/// When jobs are due.
pub(crate) enum Due {
    /// At once.
    Now,
    /// Job n at `from` + n * `step`; `from` is since 1970, in whole milliseconds.
    At { from: Duration, step: Duration },
}

impl Due {
    fn text(&self) -> String {
        match self {
            Due::Now => "now".to_owned(),
            Due::At { from, step } => format!("{}:{}", from.as_millis(), step.as_micros()),
        }
    }
}

/// The wall clock since 1970.
fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}
