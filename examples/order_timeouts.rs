//! "Cancel the order if it is unpaid in time", as a shop would run it: a producer process and two worker processes on one
//! Redis. One worker is killed with SIGKILL halfway. Then every order of `examples/data/orders.csv` is accounted for.
//!
//! Run it: `cargo run --release --example order_timeouts`. It starts a private redis-server; with `DELAYQ_URL` set it uses
//! that Redis. Exits with 0 only if no order was lost, cancelled early or left over, and the kill explains each double run.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delayq::{CancelOutcome, Client, ErrorKind, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;

const QUEUE: &str = "order_timeouts";
/// How long a customer has to pay: 30 minutes in a shop, less here.
const TIME_TO_PAY: Duration = Duration::from_millis(2500);
/// All orders come in within this time.
const RUSH: Duration = Duration::from_millis(2000);
const LEASE: Duration = Duration::from_secs(2);
const WORKERS: [&str; 2] = ["worker-1", "worker-2"];
const ORDERS: &str = include_str!("data/orders.csv");

#[delayed_job(name = "cancel_unpaid_order", version = 1, queue = "order_timeouts")]
struct CancelUnpaidOrder {
    order_id: u64,
}

impl Job for CancelUnpaidOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        let journal: &Journal = cx.data()?;
        journal.write(&format!("start {} {} {}", self.order_id, cx.attempt(), now_us()))?;
        // What a real handler does meanwhile: a transaction, an email.
        tokio::time::sleep(Duration::from_millis(150)).await;
        journal.write(&format!("cancelled {} {} {}", self.order_id, cx.attempt(), now_us()))?;
        Ok(())
    }
}

/// Lines appended to a file, each by one write, so that not even SIGKILL leaves half of one.
struct Journal(Mutex<File>);

impl Journal {
    fn open(path: &Path) -> std::io::Result<Journal> {
        Ok(Journal(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    fn write(&self, line: &str) -> std::io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes())
    }
}

struct Order {
    id: u64,
    paid_after: Option<Duration>,
}

fn orders() -> Result<Vec<Order>, Box<dyn Error>> {
    ORDERS
        .lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',');
            let id = fields.next().ok_or("an order without an id")?.parse()?;
            let paid = fields.nth(2).unwrap_or_default();
            let paid_after = if paid.is_empty() { None } else { Some(Duration::from_millis(paid.parse()?)) };
            Ok(Order { id, paid_after })
        })
        .collect()
}

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["producer", url, journal] => produce(url, Path::new(journal)).await,
        ["worker", url, journal] => work(url, Path::new(journal)).await,
        [] => direct().await,
        _ => Err("run it without arguments".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("order_timeouts: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The shop: orders come in, some are paid. A payment cancels the job that would cancel the order.
async fn produce(url: &str, journal: &Path) -> Result<(), Box<dyn Error>> {
    let journal = Journal::open(journal)?;
    let client = Client::connect(url).await?;
    let orders = orders()?;
    let pace = RUSH / orders.len() as u32;
    let started = tokio::time::Instant::now();
    let mut payments = tokio::task::JoinSet::new();
    for (nth, order) in orders.into_iter().enumerate() {
        tokio::time::sleep_until(started + pace * nth as u32).await;
        let asked = now_us();
        let job =
            client.schedule::<CancelUnpaidOrder>(TIME_TO_PAY).send(CancelUnpaidOrder { order_id: order.id }).await?;
        journal.write(&format!("scheduled {} {asked}", order.id))?;
        if let Some(after) = order.paid_after {
            payments.spawn(async move {
                tokio::time::sleep(after).await;
                (order.id, job.cancel().await)
            });
        }
    }
    while let Some(payment) = payments.join_next().await {
        let (id, cancelled) = payment?;
        let how = match cancelled {
            Ok(CancelOutcome::Cancelled) => "in_time",
            // The order is being cancelled at this moment; if that run doesn't succeed, the order stays.
            Ok(_) => "meanwhile",
            // The order was cancelled: the customer gets the money back.
            Err(error) if error.kind() == ErrorKind::NotFound => "too_late",
            Err(error) => return Err(error.into()),
        };
        journal.write(&format!("paid {id} {how}"))?;
    }
    Ok(())
}

/// A worker process; it stops when its standard input ends, and on SIGTERM and ctrl-c as always.
async fn work(url: &str, journal: &Path) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(url).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = stop.send(());
    });
    let worker = Worker::new(client).data(Journal::open(journal)?).lease(LEASE).concurrency(100);
    worker.run_until(async { drop(stopped.await) }).await?;
    Ok(())
}

/// A child process that doesn't outlive this one.
struct Process(Child);

impl Process {
    fn start(role: &str, url: &str, journal: &Path) -> Result<Process, Box<dyn Error>> {
        let child =
            Command::new(std::env::current_exe()?).args([role, url]).arg(journal).stdin(Stdio::piped()).spawn()?;
        Ok(Process(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of one run, gone with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn direct() -> Result<(), Box<dyn Error>> {
    let (_server, url) = match std::env::var("DELAYQ_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = RedisServer::start()?;
            let url = server.url();
            (Some(server), url)
        }
    };
    let client = Client::connect(&url).await?;
    let folder = Folder(std::env::temp_dir().join(format!("delayq-orders-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0)?;
    let journal = |name: &str| folder.0.join(name);
    let orders = orders()?;

    println!("{} orders, {:?} to pay, two workers", orders.len(), TIME_TO_PAY);
    let mut workers = Vec::new();
    for name in WORKERS {
        workers.push(Process::start("worker", &url, &journal(name))?);
    }
    let mut producer = Process::start("producer", &url, &journal("producer"))?;

    // Halfway: a quarter of all orders has been cancelled, about half of those that will be. And in the middle of something.
    let deadline = Instant::now() + Duration::from_secs(60);
    let wait =
        async |what: &str, ready: &mut dyn FnMut() -> Result<bool, Box<dyn Error>>| -> Result<(), Box<dyn Error>> {
            while !ready()? {
                if Instant::now() > deadline {
                    return Err(format!("{what} did not happen within a minute").into());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
    let quarter = orders.len() / 4;
    let mut victim = 0;
    wait("half of the cancellations", &mut || {
        let runs = [runs(&journal(WORKERS[0]), false)?, runs(&journal(WORKERS[1]), false)?];
        let busy = runs.iter().position(|runs| runs.iter().any(|run| !run.finished));
        victim = busy.unwrap_or(victim);
        Ok(busy.is_some() && runs.iter().map(Vec::len).sum::<usize>() >= quarter)
    })
    .await?;
    workers[victim].0.kill()?;
    workers[victim].0.wait()?;
    let killed = Killed { name: WORKERS[victim], at_us: now_us() };
    println!("{} was killed with SIGKILL in the middle of its work", killed.name);

    wait("the end of the producer", &mut || Ok(producer.0.try_wait()?.is_some())).await?;
    if !producer.0.wait()?.success() {
        return Err("the producer failed".into());
    }
    loop {
        let stats = client.stats(QUEUE).await?;
        if stats.waiting + stats.running == 0 {
            break;
        }
        if Instant::now() > deadline {
            return Err(format!("the queue did not become empty within a minute: {stats:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let survivor = &mut workers[1 - victim].0;
    drop(survivor.stdin.take());
    survivor.wait()?;
    account(&orders, &folder.0, &killed, &client).await
}

/// The worker that was killed, and when.
struct Killed {
    name: &'static str,
    at_us: u128,
}

/// One run of a handler, as its journal tells.
struct Run {
    order: u64,
    attempt: u32,
    started_us: u128,
    finished: bool,
    killed_worker: bool,
}

fn lines(path: &Path) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
    Ok(text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect())
}

fn runs(path: &Path, killed_worker: bool) -> Result<Vec<Run>, Box<dyn Error>> {
    let mut runs: Vec<Run> = Vec::new();
    for line in lines(path)? {
        let [what, order, attempt, at] = line.as_slice() else { return Err("half a line in a journal".into()) };
        let (order, attempt) = (order.parse()?, attempt.parse()?);
        if what == "start" {
            runs.push(Run { order, attempt, started_us: at.parse()?, finished: false, killed_worker });
        } else if let Some(run) = runs.iter_mut().rev().find(|run| run.order == order && run.attempt == attempt) {
            run.finished = true;
        }
    }
    Ok(runs)
}

async fn account(orders: &[Order], folder: &Path, killed: &Killed, client: &Client) -> Result<(), Box<dyn Error>> {
    let mut scheduled: HashMap<u64, u128> = HashMap::new();
    let mut paid: HashMap<u64, String> = HashMap::new();
    for line in lines(&folder.join("producer"))? {
        match line.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["scheduled", id, at] => drop(scheduled.insert(id.parse()?, at.parse()?)),
            ["paid", id, how] => drop(paid.insert(id.parse()?, (*how).to_owned())),
            _ => return Err("half a line in the producer's journal".into()),
        }
    }
    let mut by_order: HashMap<u64, Vec<Run>> = HashMap::new();
    for name in WORKERS {
        for run in runs(&folder.join(name), name == killed.name)? {
            by_order.entry(run.order).or_default().push(run);
        }
    }

    let (mut in_time, mut cancelled, mut refunded, mut kept, mut twice) = (0, 0, 0, 0, 0);
    let mut wrong: Vec<String> = Vec::new();
    let mut lateness_ms: Vec<f64> = Vec::new();
    for order in orders {
        let Some(asked_us) = scheduled.get(&order.id) else {
            wrong.push(format!("order {} was never scheduled", order.id));
            continue;
        };
        let due_us = asked_us + TIME_TO_PAY.as_micros();
        let runs = by_order.get(&order.id).map_or(&[][..], Vec::as_slice);
        if runs.iter().any(|run| run.started_us < due_us) {
            wrong.push(format!("order {} was cancelled early", order.id));
        }
        let interrupted = !runs.is_empty() && runs.iter().all(|run| run.killed_worker);
        match (paid.get(&order.id).map(String::as_str), runs.iter().any(|run| run.finished)) {
            (Some("in_time"), false) => in_time += 1,
            (Some("in_time"), true) => {
                wrong.push(format!("order {} was paid in time and cancelled all the same", order.id))
            }
            (Some(_), true) => refunded += 1,
            (Some("meanwhile"), false) if interrupted => kept += 1,
            (None, true) if order.paid_after.is_none() => cancelled += 1,
            _ => wrong.push(format!("order {} was lost: neither paid in time nor cancelled", order.id)),
        }
        if let Some(first) = runs.iter().filter(|run| run.attempt == 1).map(|run| run.started_us).min() {
            lateness_ms.push(first.saturating_sub(due_us) as f64 / 1000.0);
        }
        if runs.len() > 1 {
            twice += 1;
            // The killed worker had it, and it came back as the next attempt after that worker's lease.
            let explained = runs.len() == 2
                && runs.iter().any(|run| run.killed_worker && run.attempt == 1 && run.started_us <= killed.at_us)
                && runs.iter().any(|run| !run.killed_worker && run.attempt == 2 && run.started_us > killed.at_us);
            if !explained {
                wrong.push(format!("order {} ran {} times, which the kill does not explain", order.id, runs.len()));
            }
        }
    }
    let stats = client.stats(QUEUE).await?;
    if stats.waiting + stats.running + stats.dead != 0 || stats.orphans != 0 {
        wrong.push(format!("the queue is not empty: {stats:?}"));
    }
    lateness_ms.sort_by(f64::total_cmp);
    let percentile =
        |p: usize| lateness_ms.get((lateness_ms.len().saturating_sub(1)) * p / 100).copied().unwrap_or(0.0);

    println!("{:>6} orders", orders.len());
    println!("{in_time:>6} paid in time, not cancelled");
    println!("{cancelled:>6} unpaid, cancelled");
    println!("{refunded:>6} paid too late, cancelled and refunded");
    println!("{kept:>6} paid while the killed worker was cancelling it, not cancelled");
    println!("{twice:>6} ran twice, since the killed worker had them");
    println!(
        "first runs started {:.1} ms (median), {:.1} ms (99 %) after their time was up",
        percentile(50),
        percentile(99)
    );
    if wrong.is_empty() {
        println!("No order lost, none cancelled early, none left over.");
        return Ok(());
    }
    for line in wrong.iter().take(20) {
        println!("WRONG: {line}");
    }
    Err(format!("{} things are wrong", wrong.len()).into())
}
