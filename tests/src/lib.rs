//! What delayq's suites share: servers, waiting for signals, workers that stop with their test.

mod lag;
pub mod process;
pub mod store_kit;

use std::future::Future;
use std::time::{Duration, Instant};

use delayq::{Client, Error, Worker};
use delayq_redis_fixture::RedisServer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use lag::Lag;

/// How long anything that a test waits for may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `reached` answers with something, and looks again every few ms.
///
/// # Panics
/// It doesn't within [`PATIENCE`].
pub async fn eventually<T, F, Fut>(what: &str, mut reached: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = reached().await {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Waits for a future that must be ready within [`PATIENCE`].
///
/// # Panics
/// It isn't.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// A folder of a test's own, gone with it.
#[derive(Debug)]
pub struct Folder(std::path::PathBuf);

impl Folder {
    /// A new one under the system's folder for temporary files.
    ///
    /// # Panics
    /// It can't be made.
    pub fn new(what: &str) -> Folder {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("delayq-{what}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A private server and a client on it.
///
/// # Panics
/// redis-server can't be started or connected to.
pub async fn server_and_client() -> (RedisServer, Client) {
    let server = RedisServer::start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(&server.url()).await.unwrap_or_else(|error| panic!("{error}"));
    (server, client)
}

/// Waits until a worker has taken the marker of a queue: from then on it watches for the next due time.
///
/// # Panics
/// None does within [`PATIENCE`].
pub async fn watched(server: &RedisServer, queue: &str) {
    let key = format!("delayq:{{{queue}/0}}:wake");
    eventually("the clock is watched", || async {
        let there = server.command(&["EXISTS", &key]).unwrap_or_else(|error| panic!("{error}"));
        (there.trim().trim_start_matches(':') == "0").then_some(())
    })
    .await;
}

/// A worker that runs beside its test.
#[derive(Debug)]
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    /// Starts a worker.
    pub fn start(worker: Worker) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(worker.run_until(async {
            // Dropped without a word means stop as well.
            let _ = stopped.await;
        }));
        Running { stop: Some(stop), task }
    }

    /// Stops it gracefully, and gives what `run` gave.
    ///
    /// # Panics
    /// It panicked, or doesn't stop.
    pub async fn stop(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        soon("the worker's end", &mut self.task).await.unwrap_or_else(|error| panic!("the worker panicked: {error}"))
    }

    /// Waits for its end without asking for it.
    ///
    /// # Panics
    /// It panicked, or goes on.
    pub async fn ends_by_itself(mut self) -> Result<(), Error> {
        soon("the worker's own end", &mut self.task)
            .await
            .unwrap_or_else(|error| panic!("the worker panicked: {error}"))
    }
}
