//! A TCP proxy between a client and a server, which can stall, swallow, refuse and cut what goes through it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They arrive.
    Pass,
    /// They arrive once this mode is over, as after an outage that TCP survives.
    Hold,
    /// They are gone, and so is the connection for good, though neither side is told: half-open.
    Swallow,
    /// Connections are closed as soon as they are made, and those that were there too.
    Refuse,
}

/// What gets lost when a request of interest comes by; its connection is cut then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lose {
    /// All of the request but these first bytes: it is not carried out.
    Request {
        /// Bytes that still arrive.
        keep: usize,
    },
    /// All of its reply but these first bytes: it is carried out.
    Reply {
        /// Bytes that still arrive.
        keep: usize,
    },
}

/// The proxy. It runs on the runtime that it was started on, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    mode: watch::Sender<Mode>,
    /// Rises with each cut.
    cuts: watch::Sender<u64>,
    loss: Mutex<Option<Loss>>,
    accepted: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug)]
struct Loss {
    needle: Vec<u8>,
    times: u64,
    what: Lose,
}

/// What the two directions of one connection know of each other.
#[derive(Debug, Default)]
struct Line {
    /// Bytes were swallowed: nothing passes any more, whatever the mode becomes.
    dead: AtomicBool,
    /// How many bytes of replies still pass before the cut.
    replies_left: Mutex<Option<usize>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Starts a proxy on a port of its own, in front of a port of this machine.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(upstream: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap_or_else(|error| panic!("{error}"));
        let port = listener.local_addr().unwrap_or_else(|error| panic!("{error}")).port();
        let shared = Arc::new(Shared {
            upstream: Mutex::new(SocketAddr::from((Ipv4Addr::LOCALHOST, upstream))),
            mode: watch::Sender::new(Mode::Pass),
            cuts: watch::Sender::new(0),
            loss: Mutex::new(None),
            accepted: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Proxy { port, shared, accepting }
    }

    /// The URL of a Redis behind the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Changes what becomes of bytes, on connections there are and on new ones.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    /// Cuts all connections there are.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Leads new connections to another port.
    pub fn redirect(&self, upstream: u16) {
        *lock(&self.shared.upstream) = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream));
    }

    /// The next `times` requests that have these bytes lose something. The bytes should come in one segment.
    pub fn lose(&self, what: Lose, needle: impl Into<Vec<u8>>, times: u64) {
        *lock(&self.shared.loss) = Some(Loss { needle: needle.into(), times, what });
    }

    /// How many requests or replies were lost.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }

    /// How many connections were made.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut lines = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        if *shared.mode.borrow() != Mode::Refuse {
            lines.spawn(carry(client, shared.clone()));
        }
        while lines.try_join_next().is_some() {}
    }
}

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let upstream = *lock(&shared.upstream);
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    // Small parts must not wait for each other: they are what is tested.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let line = Line::default();
    tokio::select! {
        () = requests(&shared, &line, from_client, to_server) => {}
        () = replies(&shared, &line, from_server, to_client) => {}
        () = shared.swallowed(&line) => {}
        _ = cuts.changed() => {}
    }
}

impl Shared {
    /// Waits until bytes may go on; false if they never will.
    async fn passes(&self, line: &Line) -> bool {
        let mut mode = self.mode.subscribe();
        let mode = mode.wait_for(|mode| *mode != Mode::Hold).await.map_or(Mode::Swallow, |mode| *mode);
        if mode == Mode::Swallow {
            line.dead.store(true, Ordering::SeqCst);
        }
        !line.dead.load(Ordering::SeqCst)
    }

    /// Marks a line that was there when bytes began to be swallowed, also if none are under way on it.
    async fn swallowed(&self, line: &Line) {
        let mut mode = self.mode.subscribe();
        let _ = mode.wait_for(|mode| *mode == Mode::Swallow).await;
        line.dead.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }

    /// What a request with these bytes loses.
    fn strikes(&self, request: &[u8]) -> Option<Lose> {
        let mut held = lock(&self.loss);
        let loss = held.as_mut()?;
        if loss.times == 0 || !request.windows(loss.needle.len()).any(|window| window == loss.needle) {
            return None;
        }
        loss.times -= 1;
        Some(loss.what)
    }
}

async fn requests(shared: &Shared, line: &Line, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Some(read) = next(&mut from, &mut buffer, line).await else { return };
        if !shared.passes(line).await {
            continue;
        }
        match shared.strikes(&buffer[..read]) {
            Some(Lose::Request { keep }) => {
                let _ = to.write_all(&buffer[..keep.min(read)]).await;
                shared.lost.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Some(Lose::Reply { keep }) => *lock(&line.replies_left) = Some(keep),
            None => {}
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn replies(shared: &Shared, line: &Line, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Some(read) = next(&mut from, &mut buffer, line).await else { return };
        if !shared.passes(line).await {
            continue;
        }
        let left = *lock(&line.replies_left);
        let kept = left.map_or(read, |left| left.min(read));
        if to.write_all(&buffer[..kept]).await.is_err() {
            return;
        }
        if let Some(left) = left {
            *lock(&line.replies_left) = Some(left - kept);
            if left == kept {
                shared.lost.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// The next bytes; nothing at the connection's end, of which the other side of a dead line never hears.
async fn next(from: &mut OwnedReadHalf, buffer: &mut [u8], line: &Line) -> Option<usize> {
    match from.read(buffer).await {
        Ok(read) if read > 0 => Some(read),
        _ if line.dead.load(Ordering::SeqCst) => std::future::pending().await,
        _ => None,
    }
}
