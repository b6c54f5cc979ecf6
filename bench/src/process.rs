//! Workers in processes of their own: this program, started again under a hidden name.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use delayq::{Client, Worker};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::job::{Late, Tally};
use crate::machine;
use crate::meter::Usage;
use crate::{Res, lates, worker};

/// The hidden name.
pub(crate) const NAME: &str = "worker-process";
/// How long a worker may take to start, or to stop and tell.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a worker is watched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Watched {
    /// No subscriber, no recorder.
    No,
    /// A tracing subscriber that formats what is INFO or above, and throws it away.
    Info,
    /// The same from DEBUG up.
    Debug,
    /// A recorder of metrics: that of metrics-exporter-prometheus.
    Metrics,
}

/// What a worker process is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct Order {
    #[arg(long)]
    url: String,
    #[arg(long)]
    queue: String,
    /// Drains so many jobs, tells what it took, and ends. Otherwise it works until its standard input ends.
    #[arg(long)]
    drain: Option<usize>,
    /// For how many runs it keeps how late they were.
    #[arg(long, default_value_t = 0)]
    lates: usize,
    #[arg(long, value_enum, default_value_t = Watched::No)]
    watched: Watched,
}

/// What a worker tells at its end, before how late its runs were.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) own_s: f64,
    pub(crate) runs: usize,
}

/// The worker's side.
pub(crate) async fn work(order: Order) -> Res<()> {
    watch(order.watched)?;
    let client = Client::connect(&order.url).await?;
    let mut out = tokio::io::stdout();
    if let Some(jobs) = order.drain {
        let (usage, _) = worker::drain(&client, &order.url, &order.queue, jobs).await?;
        out.write_all(&serde_json::to_vec(&usage)?).await?;
        out.flush().await?;
        return Ok(());
    }
    let before = machine::own_cpu();
    let tally = Tally::new(usize::MAX, order.lates);
    let worker = Worker::new(client).queues([order.queue]).data(Arc::clone(&tally));
    worker.run_until(parent_gone()).await?;
    let own_s = (machine::own_cpu() - before).as_secs_f64();
    let mut text = serde_json::to_vec(&Told { own_s, runs: tally.runs() })?;
    lates::write(&mut text, tally.lates());
    out.write_all(&text).await?;
    out.flush().await?;
    Ok(())
}

/// Until whoever started this process ends, or wants it to end.
pub(crate) async fn parent_gone() {
    let mut nothing = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut nothing).await;
}

fn watch(watched: Watched) -> Res<()> {
    let subscriber = |level| tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::sink);
    match watched {
        Watched::No => {}
        Watched::Info => subscriber(tracing_subscriber::filter::LevelFilter::INFO).init(),
        Watched::Debug => subscriber(tracing_subscriber::filter::LevelFilter::DEBUG).init(),
        Watched::Metrics => {
            metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
        }
    }
    Ok(())
}

/// A worker in a process of its own, seen from this one.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a worker that keeps how late so many runs are.
    pub(crate) fn start(url: &str, queue: &str, lates: usize) -> Res<Process> {
        let mut command = this_program(url, queue)?;
        let child = command.arg("--lates").arg(lates.to_string()).spawn()?;
        Ok(Process { child })
    }

    /// Starts several, and waits until all of them are there.
    pub(crate) async fn start_all(
        client: &Client,
        url: &str,
        queue: &str,
        n: usize,
        lates: usize,
    ) -> Res<Vec<Process>> {
        let workers = (0..n).map(|_| Process::start(url, queue, lates)).collect::<Res<Vec<_>>>()?;
        let all = async {
            while client.stats(queue).await?.sessions < n as u64 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<(), delayq::Error>(())
        };
        tokio::time::timeout(PATIENCE, all).await.map_err(|_| format!("{n} workers did not start in time"))??;
        Ok(workers)
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Stops it; what it used, and how late its runs were.
    pub(crate) async fn stop(mut self) -> Res<(Told, Vec<Late>)> {
        drop(self.child.stdin.take());
        let output = tokio::time::timeout(PATIENCE, self.child.wait_with_output()).await;
        let output = output.map_err(|_| "a worker did not stop in time")??;
        if !output.status.success() {
            return Err(format!("a worker failed: {}", output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let (told, lates) = text.split_once('\n').ok_or("a worker did not tell what it used")?;
        Ok((serde_json::from_str(told)?, lates::read(lates)?))
    }

    /// Stops several at once; CPU seconds of all, and how late all runs were.
    pub(crate) async fn stop_all(workers: Vec<Process>) -> Res<(f64, Vec<Late>)> {
        let told = futures_util::future::try_join_all(workers.into_iter().map(Process::stop)).await?;
        let own_s = told.iter().map(|(told, _)| told.own_s).sum();
        let runs: usize = told.iter().map(|(told, _)| told.runs).sum();
        let lates: Vec<Late> = told.into_iter().flat_map(|(_, lates)| lates).collect();
        if lates.len() == runs {
            Ok((own_s, lates))
        } else {
            Err(format!("{} of {runs} runs are told of", lates.len()).into())
        }
    }
}

/// Drains a queue by a worker in a process of its own; what the worker says that it took.
pub(crate) async fn drain(url: &str, queue: &str, jobs: usize, watched: Watched) -> Res<Usage> {
    let mut command = this_program(url, queue)?;
    let watched = watched.to_possible_value().ok_or("a way to watch without a name")?;
    command.args(["--drain", &jobs.to_string(), "--watched", watched.get_name()]);
    let output = command.spawn()?.wait_with_output().await?;
    if !output.status.success() {
        return Err(format!("a worker failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn this_program(url: &str, queue: &str) -> Res<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([NAME, "--url", url, "--queue", queue]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}
