//! How late jobs are when workers idle, and under a steady load.

use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use delayq::Client;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::task::JoinSet;

use super::{AS_IT_COMES, Sizes};
use crate::Res;
use crate::job::{BenchOrder, QUEUE};
use crate::lates::{self, EARLY, MEANING};
use crate::meter::Meter;
use crate::process::Process;
use crate::report::{COMMANDS, Measure, OWN_US, Report, Sample};
use crate::server::{Persistence, Server};

/// How many worker processes.
const WORKERS: [usize; 2] = [1, 10];
/// Jobs a second, of the loads.
const RATES: [u32; 2] = [1000, 10_000];
/// How long before its due time a job is sent.
const LEAD: Duration = Duration::from_secs(5);
/// The share of jobs that may be sent too late, on a machine that is busy with other things.
const SENT_LATE_MAX: f64 = 0.01;
/// How often what is to be sent is sent.
const TICK: Duration = Duration::from_millis(5);
/// Until all workers wait, and until the first of the jobs is due.
const CALM: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(30);

const SENT_LATE: Measure = Measure { key: "sent_late", title: "sent too late", digits: 0 };
const FIRED_PER_S: Measure = Measure { key: "fired_per_s", title: "fired/s", digits: 0 };

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// How long each load lasts, in seconds, instead of 30.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) seconds: Option<u16>,
}

/// What the workers have to do.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// So many jobs, due at random instants over so long, all sent before.
    Idle { jobs: u32, over: Duration },
    /// Jobs that are due at random instants, so many a second, each sent a while before.
    Steady { per_s: u32, over: Duration },
}

impl Load {
    fn name(self, workers: usize) -> String {
        let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        match self {
            Load::Idle { .. } => format!("idle, {workers}"),
            Load::Steady { per_s, .. } => format!("{per_s}/s, {workers}"),
        }
    }

    fn per_s(self) -> f64 {
        match self {
            Load::Idle { jobs, over } => f64::from(jobs) / over.as_secs_f64(),
            Load::Steady { per_s, .. } => f64::from(per_s),
        }
    }

    /// The due times, counted from the first instant, in order.
    fn dues(self) -> Vec<Duration> {
        let (jobs, over) = match self {
            Load::Idle { jobs, over } => (jobs as usize, over),
            Load::Steady { per_s, over } => ((f64::from(per_s) * over.as_secs_f64()) as usize, over),
        };
        let mut dues: Vec<Duration> = (0..jobs).map(|_| over.mul_f64(fastrand::f64())).collect();
        dues.sort_unstable();
        dues
    }

    /// How long before its due time a job is sent.
    fn lead(self) -> Duration {
        match self {
            Load::Idle { over, .. } => over + CALM,
            Load::Steady { .. } => LEAD,
        }
    }
}

pub(crate) async fn take(options: &Options) -> Res<Report> {
    let sizes = &options.sizes;
    let machine = Server::start(Persistence::Off)?.machine();
    let mut report = Report::new("lateness", "how late jobs start", machine);
    let over = Duration::from_secs(options.seconds.map_or(if sizes.quick { 10 } else { 30 }, u64::from));
    let idle_over = Duration::from_secs(if sizes.quick { 5 } else { 20 });
    let jobs = sizes.jobs.unwrap_or(if sizes.quick { 250 } else { 1000 });
    report.setting(AS_IT_COMES);
    report.setting(format!(
        "idle: {jobs} jobs due at random instants over {} s, all sent before; loads: due at random instants for {} s, each \
         sent {} s before by this machine too; each worker a process",
        idle_over.as_secs(),
        over.as_secs(),
        LEAD.as_secs()
    ));
    report.setting(MEANING);
    report.setting("commands: of the workers, without those of the sender");
    let sender_calls = SenderCalls::count()?;
    let loads = [
        Load::Idle { jobs, over: idle_over },
        Load::Steady { per_s: RATES[0], over },
        Load::Steady { per_s: RATES[1], over },
    ];
    for _ in 0..sizes.runs() {
        for load in loads {
            for workers in WORKERS {
                run(&mut report, load, workers, &sender_calls).await?;
            }
        }
    }
    let early: f64 = report.series.iter().filter_map(|s| s.measure(EARLY.key)).flat_map(|m| &m.spread.runs).sum();
    if early > 0.0 {
        return Err(format!("{early} jobs started before their due time").into());
    }
    Ok(report)
}

async fn run(report: &mut Report, load: Load, workers: usize, sender: &SenderCalls) -> Res<()> {
    let server = Server::start(Persistence::Off)?;
    let url = server.url();
    let client = Client::connect(&url).await?;
    let dues = load.dues();
    let jobs = dues.len();
    let processes = Process::start_all(&client, &url, QUEUE, workers, jobs).await?;
    tokio::time::sleep(CALM).await;
    let (meter, calls) = (Meter::start(&url)?, sender.so_far()?);
    let first = SystemTime::now() + load.lead() + CALM;
    let sent_late = send(&client, first, &dues, load.lead()).await?;
    if sent_late as f64 > SENT_LATE_MAX * jobs as f64 {
        let name = load.name(workers);
        return Err(
            format!("{name}: {sent_late} of {jobs} jobs were due before they were sent: is the machine busy?").into()
        );
    }
    let waited = Instant::now();
    while client.stats(QUEUE).await?.done_total < jobs as u64 {
        if waited.elapsed() > PATIENCE + load.lead() {
            return Err(format!("{}: not all jobs were run in time", load.name(workers)).into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut usage = meter.read()?;
    usage.commands -= sender.so_far()? - calls;
    usage.took_s = dues.last().copied().unwrap_or_default().as_secs_f64();
    let (own_s, lates) = Process::stop_all(processes).await?;
    usage.own_s = own_s;
    let name = load.name(workers);
    if lates.len() != jobs {
        report.note(format!("{name}: {} runs of {jobs} jobs", lates.len()));
    }
    let each = |total: f64| total / jobs as f64;
    let sample = lates::sum_up(Sample::default(), &lates)
        .with(FIRED_PER_S, jobs as f64 / usage.took_s)
        .with(SENT_LATE, sent_late as f64)
        .with(COMMANDS, each(usage.commands))
        .with(OWN_US, each(usage.own_s * 1e6));
    report.add(&name, &sample);
    report.label(&name, "per_s", load.per_s());
    report.label(&name, "workers", workers as f64);
    report.label(&name, "idle", f64::from(u8::from(matches!(load, Load::Idle { .. }))));
    Ok(())
}

/// Sends each job `lead` before it is due. Answers how many got into the store only after that: that they ran late is no
/// worker's doing.
async fn send(client: &Client, first: SystemTime, dues: &[Duration], lead: Duration) -> Res<usize> {
    let mut sends: JoinSet<Res<bool>> = JoinSet::new();
    let (mut dues, mut late) = (dues.iter().enumerate().peekable(), 0);
    while dues.peek().is_some() {
        while let Some((n, due)) = dues.next_if(|(_, due)| first + **due <= SystemTime::now() + lead) {
            let due = first + *due;
            let send = client.schedule_at(due).send(BenchOrder::numbered(n as u64));
            sends.spawn(async move {
                send.await?;
                Ok(SystemTime::now() > due)
            });
        }
        while let Some(sent) = sends.try_join_next() {
            late += usize::from(sent??);
        }
        tokio::time::sleep(TICK).await;
    }
    while let Some(sent) = sends.join_next().await {
        late += usize::from(sent??);
    }
    Ok(late)
}

/// Counts the calls of this process to the store, by the library's own metric.
struct SenderCalls(PrometheusHandle);

impl SenderCalls {
    fn count() -> Res<SenderCalls> {
        Ok(SenderCalls(PrometheusBuilder::new().install_recorder()?))
    }

    fn so_far(&self) -> Res<f64> {
        self.0.run_upkeep();
        let text = self.0.render();
        let counts = text.lines().filter_map(|line| line.strip_prefix("delayq_redis_command_seconds_count"));
        counts.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?)).sum()
    }
}
