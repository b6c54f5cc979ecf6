//! A private redis-server: started on a free loopback port in a folder of its own, stopped when it is dropped.

pub mod cluster;
pub mod proxy;
mod reply;
pub mod sentinel;
mod talk;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to answer after its start.
const START: Duration = Duration::from_secs(10);

/// A private redis-server.
pub struct RedisServer {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
    settings: Vec<String>,
    environment: Vec<(String, String)>,
    /// What must be sent before other commands.
    password: Option<String>,
}

/// The server could not be started.
pub struct StartError {
    text: String,
}

// `main` prints an error by Debug: it should read like one.
impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StartError {}

impl RedisServer {
    /// Starts a server without persistence.
    ///
    /// # Errors
    /// redis-server is not installed, or doesn't come up.
    pub fn start() -> Result<RedisServer, StartError> {
        RedisServer::start_with(&[])
    }

    /// Starts a server with further settings, as on its command line: `["--appendonly", "yes"]`.
    ///
    /// # Errors
    /// redis-server is not installed, or doesn't come up with these.
    pub fn start_with(settings: &[&str]) -> Result<RedisServer, StartError> {
        RedisServer::start_in(settings, &[])
    }

    /// Starts a server with further settings, and with variables in its environment: `[("LD_PRELOAD", "/tmp/shim.so")]`.
    ///
    /// # Errors
    /// redis-server is not installed, or doesn't come up with these.
    pub fn start_in(settings: &[&str], environment: &[(&str, &str)]) -> Result<RedisServer, StartError> {
        let folder = own_folder()?;
        let password = settings.iter().position(|s| *s == "--requirepass").and_then(|at| settings.get(at + 1));
        let mut server = RedisServer {
            child: None,
            port: 0,
            folder,
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            password: password.map(|p| (*p).to_owned()),
        };
        // Between choosing a free port and the server's taking it, somebody else may have.
        let mut last = StartError { text: String::new() };
        for _ in 0..5 {
            server.port = free_port().map_err(|error| StartError { text: format!("no free port: {error}") })?;
            match server.spawn() {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn spawn(&mut self) -> Result<(), StartError> {
        self.launch()?;
        self.ready(START)
    }

    /// Starts the server's process on its port and in its folder, and doesn't wait until it answers: see
    /// [`ready`](RedisServer::ready). One that runs is killed before.
    ///
    /// # Errors
    /// redis-server is not installed.
    pub fn launch(&mut self) -> Result<(), StartError> {
        self.kill();
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--unixsocket"])
            .arg(self.socket())
            .arg("--dir")
            .arg(&self.folder)
            .args(&self.settings)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().map_err(|error| not_spawned(&error))?);
        Ok(())
    }

    /// Waits until the server answers a PING, and is the one that was launched, so long at most.
    ///
    /// # Errors
    /// Its process ended, or it doesn't answer within that time; then it is killed.
    pub fn ready(&mut self, patience: Duration) -> Result<(), StartError> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if self.answers() {
                return Ok(());
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                self.child = None;
                return Err(StartError {
                    text: format!(
                        "redis-server ended at once ({status}): does it know its settings {:?}?",
                        self.settings
                    ),
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        Err(StartError { text: format!("redis-server did not answer within {patience:?}") })
    }

    fn answers(&self) -> bool {
        let Some(pid) = self.pid() else { return false };
        let own = format!("process_id:{pid}\r\n");
        let told = |parts: &[&str]| self.command(parts).unwrap_or_default();
        // Somebody else who took the port meanwhile would answer too. And while it loads, it tells of itself already.
        told(&["PING"]).starts_with('+') && told(&["INFO", "server"]).contains(&own)
    }

    /// The server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    /// The server's folder, with what it persists.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives a setting another value, as on the command line: `set("--appendfsync", "always")`. It counts from the next start on.
    pub fn set(&mut self, setting: &str, value: &str) {
        match self.settings.iter().position(|known| known == setting) {
            Some(at) if at + 1 < self.settings.len() => value.clone_into(&mut self.settings[at + 1]),
            _ => self.settings.extend([setting.to_owned(), value.to_owned()]),
        }
    }

    /// How its process ended by itself, if it did.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Its URL, with its password if it has one.
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port),
            None => format!("redis://127.0.0.1:{}/", self.port),
        }
    }

    /// Sends one command over a connection of its own, and gives the raw answer.
    ///
    /// # Errors
    /// The server can't be reached or doesn't answer within 20 s.
    pub fn command(&self, parts: &[&str]) -> io::Result<String> {
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut request = Vec::new();
        if let Some(password) = &self.password {
            write_command(&mut request, &["AUTH", password])?;
        }
        write_command(&mut request, parts)?;
        write_command(&mut request, &["QUIT"])?;
        stream.write_all(&request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let answer = if self.password.is_some() { answer.strip_prefix("+OK\r\n").unwrap_or(&answer) } else { &answer };
        Ok(answer.strip_suffix("+OK\r\n").unwrap_or(answer).to_owned())
    }

    /// Its password, if it has one.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// A number out of INFO.
    ///
    /// # Errors
    /// The server can't be reached, or INFO has no such number.
    pub fn info(&self, field: &str) -> io::Result<f64> {
        let info = self.command(&["INFO", "everything"])?;
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("INFO has no number {field}")))
    }

    /// Ends the server's process at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server again after [`kill`](RedisServer::kill), on its port and with what it persisted.
    ///
    /// # Errors
    /// It doesn't come up.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill();
        self.spawn()
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A port that nobody listens on, below those that the system gives to outgoing connections: while a server is down, one of these
/// could take its port away.
fn free_port() -> io::Result<u16> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..100)
        .map(|_| fastrand::u16(10_000..32_000))
        .find(is_free)
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "100 ports between 10000 and 32000 were in use"))
}

/// A folder of its own for one process.
fn own_folder() -> Result<PathBuf, StartError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nth = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("delayq-redis-{}-{nth}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|error| StartError { text: format!("no folder for the server: {error}") })?;
    Ok(folder)
}

fn not_spawned(error: &io::Error) -> StartError {
    StartError {
        text: if error.kind() == io::ErrorKind::NotFound {
            "redis-server is not installed: install it (on Debian: apt-get install redis-server), or set DELAYQ_URL to a Redis \
             that runs, for example DELAYQ_URL=redis://127.0.0.1/"
                .to_owned()
        } else {
            format!("redis-server can't be started: {error}")
        },
    }
}

fn write_command(out: &mut Vec<u8>, parts: &[&str]) -> io::Result<()> {
    write!(out, "*{}\r\n", parts.len())?;
    for part in parts {
        write!(out, "${}\r\n{part}\r\n", part.len())?;
    }
    Ok(())
}
