//! The servers of a run: one; a primary with its replica, behind a proxy or watched by Sentinels; a cluster; or a database file.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use delayq::BoxError;
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::sentinel::Sentinels;
use rustix::process::{Pid, Signal, kill_process};

use super::home::Home;
use super::rewrite::Rewriter;
use super::{EngineKind, Setup, Shape};
use super::{Mode, Proxy};

/// What Sentinels call the primary, and when they take it for down.
const WATCHED_AS: &str = "campaign";
const SENTINELS: usize = 3;
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// What delayq's processes talk to.
pub(crate) struct Servers {
    /// The primary, or the one server. A cluster's are in `home`.
    pub(crate) main: Option<RedisServer>,
    pub(crate) replica: Option<RedisServer>,
    /// What leads to whichever is primary.
    pub(crate) front: Option<Proxy>,
    pub(crate) sentinels: Option<Sentinels>,
    pub(crate) home: Option<Home>,
    rewriter: Option<Rewriter>,
    file: Option<String>,
    frozen: bool,
}

impl Servers {
    pub(super) async fn start(setup: &Setup, folder: &Path, seed: u64) -> Result<Servers, BoxError> {
        let mut servers = Servers {
            main: None,
            replica: None,
            front: None,
            sentinels: None,
            home: None,
            rewriter: None,
            file: None,
            frozen: false,
        };
        if setup.engine == EngineKind::Embedded {
            servers.file = Some(format!("sqlite://{}", folder.join("jobs.db").display()));
            return Ok(servers);
        }
        let settings: Vec<&str> = setup.settings.iter().flat_map(|(name, value)| [*name, *value]).collect();
        if setup.shape == Shape::Cluster {
            if setup.mutant.is_some() {
                return Err("no script is changed on its way to a cluster: it has an address for each node".into());
            }
            servers.home = Some(Home::start(&settings)?);
            return Ok(servers);
        }
        let environment = |name: &str| if setup.shim { shim_environment(folder, name, 0) } else { Ok(Vec::new()) };
        let start = |settings: &[&str], environment: &[(String, String)]| {
            let environment: Vec<(&str, &str)> =
                environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            RedisServer::start_in(settings, &environment)
        };
        let main = start(&settings, &environment("server")?)?;
        if setup.shape != Shape::One {
            let mut with_master = settings.clone();
            let of = format!("127.0.0.1 {}", main.port());
            with_master.extend(["--replicaof", &of]);
            servers.replica = Some(start(&with_master, &environment("replica")?)?);
        }
        if setup.shape == Shape::Pair {
            servers.front = Some(Proxy::start(main.port(), seed).await?);
        }
        if let Some(mutant) = setup.mutant {
            servers.rewriter = Some(Rewriter::start(main.port(), mutant).await?);
        }
        servers.main = Some(main);
        servers.in_sync(Duration::from_secs(10)).await?;
        if let (Shape::Watched, Some(main)) = (setup.shape, &servers.main) {
            servers.sentinels = Some(Sentinels::start(main, WATCHED_AS, SENTINELS, DOWN_AFTER)?);
        }
        Ok(servers)
    }

    /// Where processes connect to.
    pub(crate) fn url(&self) -> String {
        self.group_url().unwrap_or_else(|| format!("redis://127.0.0.1:{}/", self.port()))
    }

    /// The same, past all that stands between.
    pub(super) fn direct_url(&self) -> String {
        self.group_url().unwrap_or_else(|| self.main_url())
    }

    /// The one server that has the queue now, or the file.
    pub(crate) fn main_url(&self) -> String {
        self.file.clone().unwrap_or_else(|| format!("redis://127.0.0.1:{}/", self.main_port()))
    }

    /// Where nothing stands between: of a file, of a cluster, or of what Sentinels watch.
    fn group_url(&self) -> Option<String> {
        let of_group = self.sentinels.as_ref().map(Sentinels::url);
        self.file.clone().or(of_group).or_else(|| self.home.as_ref().map(|home| home.cluster.url()))
    }

    pub(crate) fn port(&self) -> u16 {
        let front = self.front.as_ref().map(Proxy::port).or(self.rewriter.as_ref().map(Rewriter::port));
        front.unwrap_or_else(|| self.main_port())
    }

    fn main_port(&self) -> u16 {
        let main = self.main.as_ref().map(RedisServer::port);
        main.or(self.home.as_ref().map(Home::port)).unwrap_or_default()
    }

    /// Which shard of its queue the probe writes to: one that lies where the campaign's queue does.
    pub(super) fn probed(&self) -> u32 {
        self.home.as_ref().map_or(0, |home| home.probed)
    }

    /// Looks for the node that has the queue, where it can be another one than it was.
    pub(super) fn look(&mut self) -> Result<(), BoxError> {
        match &mut self.home {
            Some(home) => Ok(home.look().map(drop)?),
            None => Ok(()),
        }
    }

    /// How many scripts were changed on their way.
    pub(crate) fn rewritten(&self) -> Option<u64> {
        self.rewriter.as_ref().map(Rewriter::rewritten)
    }

    /// The server that has the queue.
    pub(crate) fn main(&mut self) -> Result<&mut RedisServer, BoxError> {
        let main = self.main.as_mut().or(self.home.as_mut().map(Home::node));
        main.ok_or_else(|| "this run has no server".into())
    }

    /// One command to the server that has the queue.
    pub(crate) fn command(&mut self, parts: &[&str]) -> Result<String, BoxError> {
        Ok(self.main()?.command(parts)?)
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), BoxError> {
        let pid = self.main()?.pid().and_then(|pid| Pid::from_raw(pid as i32));
        kill_process(pid.ok_or("the server does not run")?, signal)?;
        self.frozen = signal == Signal::STOP;
        Ok(())
    }

    /// Waits until the replica has what the primary has.
    pub(crate) async fn in_sync(&mut self, patience: Duration) -> Result<(), BoxError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        let until = Instant::now() + patience;
        while Instant::now() < until {
            let up = replica.command(&["INFO", "replication"])?.contains("master_link_status:up");
            if up {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err("the replica did not come into sync".into())
    }

    pub(super) async fn heal(&mut self) -> Result<(), BoxError> {
        if self.frozen {
            self.signal(Signal::CONT)?;
        }
        if let Some(front) = &self.front {
            front.set(Mode::Pass);
        }
        if let Some(main) = &mut self.main
            && (main.pid().is_none() || main.ended().is_some())
        {
            main.restart()?;
        }
        match &mut self.home {
            Some(home) => home.heal(),
            None => Ok(()),
        }
    }
}

/// Sends one raw command to a port and gives the beginning of what comes back within the patience.
pub(crate) fn raw(port: u16, parts: &[&[u8]], patience: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut request = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        request.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        request.extend_from_slice(part);
        request.extend_from_slice(b"\r\n");
    }
    stream.write_all(&request)?;
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

/// The C source of what is preloaded into a process to hold its clock, its disk and its syncs.
const SHIM: &str = include_str!("shim.c");

/// The variables that put the shim into a process, and the file that steers it: see `shim.c`.
pub(crate) fn shim_environment(folder: &Path, name: &str, offset_ms: i64) -> Result<Vec<(String, String)>, BoxError> {
    let library = build_shim(folder)?;
    let steering = folder.join(format!("{name}.shim"));
    steer(&steering, offset_ms, false)?;
    let text = |path: &Path| path.display().to_string();
    Ok(vec![
        ("LD_PRELOAD".to_owned(), library),
        ("DELAYQ_SHIM".to_owned(), text(&steering)),
        ("DELAYQ_SHIM_LOG".to_owned(), text(&folder.join(format!("{name}.synced")))),
    ])
}

/// Tells the shims that read this file by how much their clock is off, and whether the disk is full.
pub(crate) fn steer(file: &Path, offset_ms: i64, is_full: bool) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(offset_ms * 1_000_000).to_ne_bytes());
    bytes[8..].copy_from_slice(&i64::from(is_full).to_ne_bytes());
    // In place: the processes have it mapped.
    let file = std::fs::OpenOptions::new().create(true).write(true).truncate(false).open(file)?;
    file.write_all_at(&bytes, 0)
}

fn build_shim(folder: &Path) -> Result<String, BoxError> {
    static BUILT: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
        std::fs::write(&source, SHIM).map_err(|error| error.to_string())?;
        let made = Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
        let made = made.map_err(|error| format!("cc can't be run: {error}"))?;
        if !made.status.success() {
            return Err(format!("the shim can't be compiled: {}", String::from_utf8_lossy(&made.stderr)));
        }
        std::fs::read(&library).map_err(|error| error.to_string())
    });
    let library = folder.join("preload.so");
    let built = built.as_ref().map_err(Clone::clone)?;
    // Once a folder: processes have it mapped.
    if !library.exists() {
        std::fs::write(&library, built)?;
    }
    Ok(library.display().to_string())
}
