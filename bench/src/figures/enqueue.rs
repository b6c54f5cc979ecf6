//! Sending: one at a time beside a bare round trip of the same script, many at once, and in bulk.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use delayq::engine::{BoxFuture, Engine, Marker, Reply, Script};
use delayq::store::ops::{NewJob, Options};
use delayq::store::{Prefix, Store};
use delayq::{Client, Error};
use redis::Cmd;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{AS_IT_COMES, Sizes};
use crate::Res;
use crate::fill;
use crate::job::{BenchOrder, QUEUE};
use crate::meter::{Meter, Usage};
use crate::report::{JOBS_PER_S, Report};
use crate::server::{self, Persistence, Server};

/// How many tasks send at once on one client.
const SENDERS: usize = 64;
/// What is compared is sent in so many slices, in turns.
const SLICES: usize = 20;
/// When the jobs are due.
const DELAY: Duration = Duration::from_secs(3600);

const ONE: &str = "one at a time";
const BARE: &str = "bare EVALSHA";

pub(crate) async fn take(sizes: &Sizes) -> Res<Report> {
    let machine = Server::start(Persistence::Off)?.machine();
    let mut report = Report::new("enqueue", "sending jobs that are due in an hour", machine);
    let (singles, many) = match sizes.jobs {
        Some(jobs) => (jobs as usize, jobs as usize),
        None if sizes.quick => (4000, 20_000),
        None => (20_000, 100_000),
    };
    let singles = singles.next_multiple_of(SLICES);
    report.setting(AS_IT_COMES);
    report.setting(format!(
        "{singles} jobs one at a time, and as many bare calls of the enqueue script with the same arguments over one \
         connection, in turns of {}; {many} jobs by {SENDERS} tasks on one client, and in bulk by send_all",
        singles / SLICES
    ));
    let tasks = format!("{SENDERS} tasks");
    for turn in 0..=sizes.runs() {
        let (one, bare) = one_at_a_time(singles).await?;
        let (at_once, bulk) = (many_at_once(many).await?, {
            let server = Server::start(Persistence::Off)?;
            self::bulk(&server.url(), many).await?
        });
        if turn > 0 {
            report.add(ONE, &one.per_job_with_longest(singles));
            report.add(BARE, &bare.per_job_with_longest(singles));
            report.add(&tasks, &at_once.per_job_with_longest(many));
            report.add("bulk", &bulk.per_job_with_longest(many));
        }
    }
    report.ratio("one_to_bare", "one at a time to the bare round trip", (ONE, JOBS_PER_S), (BARE, JOBS_PER_S));
    report.ratio("tasks_to_one", format!("{SENDERS} tasks to one at a time"), (&tasks, JOBS_PER_S), (ONE, JOBS_PER_S));
    report.ratio("bulk_to_bare", "bulk to the bare round trip", ("bulk", JOBS_PER_S), (BARE, JOBS_PER_S));
    Ok(report)
}

/// The client and the bare calls, in turns.
async fn one_at_a_time(jobs: usize) -> Res<(Usage, Usage)> {
    let servers = (Server::start(Persistence::Off)?, Server::start(Persistence::Off)?);
    let (url, bare_url) = (servers.0.url(), servers.1.url());
    let client = Client::connect(&url).await?;
    let mut connection = redis::Client::open(bare_url.as_str())?.get_multiplexed_async_connection().await?;
    let calls = recorded(jobs + 1).await?;
    let (mut one, mut bare) = (Usage::default(), Usage::default());
    // Both servers know the script, and both clients have their connections.
    client.schedule(DELAY).send(BenchOrder::numbered(0)).await?;
    warm_up(&bare_url, &calls[0], &mut connection).await?;
    server::reset_counts(&url)?;
    server::reset_counts(&bare_url)?;
    for slice in calls[1..].chunks(jobs / SLICES) {
        let meter = Meter::start(&url)?;
        for n in 0..slice.len() as u64 {
            client.schedule(DELAY).send(BenchOrder::numbered(n)).await?;
        }
        one += meter.read()?;
        let meter = Meter::start(&bare_url)?;
        for call in slice {
            connection.send_packed_command(&call.command).await?.extract_error()?;
        }
        bare += meter.read()?;
    }
    for (url, wanted) in [(&url, jobs + 1), (&bare_url, jobs + 1)] {
        let sent = Client::connect(url).await?.stats(QUEUE).await?.waiting;
        if sent != wanted as u64 {
            return Err(format!("{sent} jobs are there, not {wanted}").into());
        }
    }
    Ok((one, bare))
}

async fn warm_up(url: &str, call: &Call, connection: &mut MultiplexedConnection) -> Res<()> {
    redis::cmd("SCRIPT").arg("LOAD").arg(call.source).exec(&mut server::connection(url)?)?;
    connection.send_packed_command(&call.command).await?.extract_error()?;
    Ok(())
}

async fn many_at_once(jobs: usize) -> Res<Usage> {
    let server = Server::start(Persistence::Off)?;
    let client = Client::connect(&server.url()).await?;
    client.schedule(DELAY).send(BenchOrder::numbered(0)).await?;
    let meter = Meter::start(&server.url())?;
    let mut senders = tokio::task::JoinSet::new();
    for nth in 0..SENDERS {
        let client = client.clone();
        senders.spawn(async move {
            for n in (nth..jobs).step_by(SENDERS) {
                client.schedule(DELAY).send(BenchOrder::numbered(n as u64)).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    meter.read()
}

/// Sends jobs in big batches.
pub(crate) async fn bulk(url: &str, jobs: usize) -> Res<Usage> {
    let client = Client::connect(url).await?;
    let meter = Meter::start(url)?;
    fill::due_at(&client, QUEUE, jobs, SystemTime::now() + DELAY).await?;
    meter.read()
}

/// A call of the enqueue script, packed up.
struct Call {
    source: &'static str,
    command: Cmd,
}

/// What the store sends for jobs like those of the client, each in a call.
async fn recorded(jobs: usize) -> Res<Vec<Call>> {
    let recorder = Arc::new(Recorder::default());
    let store = Store::new(recorder.clone(), Prefix::default());
    let shard = store.shard(QUEUE, 0)?;
    for n in 0..jobs as u64 {
        let mut envelope = b"bench_order 1\n".to_vec();
        envelope.extend_from_slice(&serde_json::to_vec(&BenchOrder::numbered(n))?);
        let options = Options { priority: 5, attempts_max: 4, ..Options::default() };
        let when = format!("+{}", DELAY.as_millis());
        let job = NewJob { id: Uuid::now_v7().into_bytes(), when, options, envelope };
        // It answers nothing that the store would know.
        let _ = store.enqueue(&shard, &[job]).await;
    }
    Ok(std::mem::take(&mut *recorder.calls.lock().await))
}

/// An engine that sends nothing and keeps what it should have sent.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<Call>>,
}

impl Engine for Recorder {
    fn run<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        Box::pin(async move {
            let mut command = redis::cmd("EVALSHA");
            command.arg(redis::Script::new(script.source).get_hash()).arg(keys.len());
            for part in keys.iter().map(Vec::as_slice).chain(args.iter().copied()) {
                command.arg(part);
            }
            self.calls.lock().await.push(Call { source: script.source, command });
            Ok(Reply::Nil)
        })
    }

    fn wait<'a>(&'a self, _: &'a [Vec<u8>], _: Duration) -> BoxFuture<'a, Result<Option<Marker>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn dedicated(&self) -> Arc<dyn Engine> {
        Arc::new(Recorder::default())
    }

    fn in_order(&self) -> Arc<dyn Engine> {
        Arc::new(Recorder::default())
    }
}
