//! A TCP proxy between a client and a server, which delays, withholds, swallows, refuses, cuts and trickles what goes through it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::talk::{Cut, Talk};

/// What becomes of bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They arrive.
    Pass,
    /// They arrive later.
    Delay {
        /// By this at least.
        least_ms: u64,
        /// And up to so much more.
        jitter_ms: u64,
    },
    /// They arrive once this mode is over, as after an outage that TCP survives.
    Hold,
    /// They are gone, and so is their connection, though neither side is told: half-open.
    Swallow,
    /// Connections are closed as soon as they are made, and those that are there too.
    Refuse,
    /// Answers arrive one byte at a time, so many ms apart.
    Trickle(u64),
}

/// How a connection ends that was struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
    /// It stays open, and nothing comes any more.
    Silence,
}

/// What befalls the next requests that have certain bytes in them. The bytes should come in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// All of the request gets lost but these first bytes: it is not carried out.
    Request {
        /// Bytes that still arrive.
        keep: usize,
        /// What becomes of the connection.
        end: End,
    },
    /// All of its reply gets lost but these first bytes: it is carried out. A reply with fewer bytes goes by unharmed and does
    /// not count: then the reply to the next such request is struck.
    Reply {
        /// Bytes that still arrive.
        keep: usize,
        /// What becomes of the connection.
        end: End,
    },
    /// Its reply comes so many ms later, and what comes after it on that connection.
    Late(u64),
}

#[derive(Debug)]
struct Strike {
    needles: Vec<Vec<u8>>,
    blow: Blow,
    times: u64,
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
    strike: Mutex<Option<Strike>>,
    /// Strikes that hit.
    struck: AtomicU64,
    accepted: AtomicU64,
    /// Bytes that something other than passing befell.
    touched: AtomicU64,
    jitter: Mutex<fastrand::Rng>,
}

/// What the two directions of one connection know of each other.
#[derive(Debug, Default)]
struct Line {
    /// Nothing passes any more, whatever the mode becomes.
    dead: AtomicBool,
    /// Which bytes answer which request, and which reply is cut.
    talk: Mutex<Talk>,
    /// By how many ms the next reply comes later.
    next_late_ms: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Starts a proxy on a port of its own, in front of a port of this machine. The seed decides how far apart delays lie.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start(upstream: u16, seed: u64) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            upstream: Mutex::new(SocketAddr::from((Ipv4Addr::LOCALHOST, upstream))),
            mode: watch::Sender::new(Mode::Pass),
            cuts: watch::Sender::new(0),
            strike: Mutex::new(None),
            struck: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            jitter: Mutex::new(fastrand::Rng::with_seed(seed)),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Proxy { port, shared, accepting })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a Redis behind it.
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

    /// Strikes the next `times` requests that have one of these needles in them.
    pub fn strike(&self, blow: Blow, needles: &[impl AsRef<[u8]>], times: u64) {
        let needles = needles.iter().map(|needle| needle.as_ref().to_vec()).collect();
        *lock(&self.shared.strike) = Some(Strike { needles, blow, times });
    }

    /// Strikes no more.
    pub fn spare(&self) {
        *lock(&self.shared.strike) = None;
    }

    /// How many strikes have hit.
    pub fn struck(&self) -> u64 {
        self.shared.struck.load(Ordering::SeqCst)
    }

    /// How many connections were made.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many pieces were delayed, held or swallowed.
    pub fn touched(&self) -> u64 {
        self.shared.touched.load(Ordering::SeqCst)
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
        if *mode.borrow() == Mode::Hold {
            self.touched.fetch_add(1, Ordering::SeqCst);
        }
        let now = mode.wait_for(|mode| *mode != Mode::Hold).await.map_or(Mode::Swallow, |mode| *mode);
        match now {
            Mode::Swallow => {
                self.touched.fetch_add(1, Ordering::SeqCst);
                line.dead.store(true, Ordering::SeqCst);
            }
            Mode::Delay { least_ms, jitter_ms } => {
                self.touched.fetch_add(1, Ordering::SeqCst);
                let ms = lock(&self.jitter).u64(least_ms..=least_ms + jitter_ms);
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            _ => {}
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

    /// What befalls one of these requests, and a place in it.
    fn strikes(&self, requests: &[u8]) -> Option<(usize, Blow)> {
        let mut held = lock(&self.strike);
        let strike = held.as_mut().filter(|strike| strike.times > 0)?;
        let place = |needle: &Vec<u8>| requests.windows(needle.len()).position(|window| window == needle);
        let place = strike.needles.iter().filter_map(place).min()?;
        strike.times -= 1;
        Some((place, strike.blow))
    }

    /// A reply was too short to be cut there: another one is, unless something else is to be struck by now.
    fn spared(&self, Cut { keep, end }: Cut) {
        if let Some(strike) = lock(&self.strike).as_mut().filter(|strike| strike.blow == Blow::Reply { keep, end }) {
            strike.times = strike.times.saturating_add(1);
        }
    }
}

async fn requests(shared: &Shared, line: &Line, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Some(read) = next(&mut from, &mut buffer, line).await else { return };
        if !shared.passes(line).await {
            continue;
        }
        let mut cut = None;
        match shared.strikes(&buffer[..read]) {
            Some((_, Blow::Request { keep, end })) => {
                let _ = to.write_all(&buffer[..keep.min(read)]).await;
                shared.struck.fetch_add(1, Ordering::SeqCst);
                match end {
                    End::Close => return,
                    End::Reset => return reset(from.as_ref()),
                    End::Silence => {
                        line.dead.store(true, Ordering::SeqCst);
                        continue;
                    }
                }
            }
            Some((place, Blow::Reply { keep, end })) => cut = Some((place, Cut { keep, end })),
            Some((_, Blow::Late(ms))) => {
                line.next_late_ms.store(ms, Ordering::SeqCst);
                shared.struck.fetch_add(1, Ordering::SeqCst);
            }
            None => {}
        }
        // Before it goes on its way: its reply must not come first.
        lock(&line.talk).asks(&buffer[..read], cut);
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
        let late_ms = line.next_late_ms.swap(0, Ordering::SeqCst);
        if late_ms > 0 {
            tokio::time::sleep(Duration::from_millis(late_ms)).await;
        }
        let passing = lock(&line.talk).answers(&buffer[..read]);
        if let Some(cut) = passing.spared {
            shared.spared(cut);
        }
        if write(shared, &mut to, &buffer[..passing.kept]).await.is_err() {
            return;
        }
        if let Some(end) = passing.end {
            shared.struck.fetch_add(1, Ordering::SeqCst);
            match end {
                End::Close => return,
                End::Reset => {
                    // What was kept arrives before the reset, which overtakes what is still on its way.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    return reset(to.as_ref());
                }
                End::Silence => line.dead.store(true, Ordering::SeqCst),
            }
        }
    }
}

async fn write(shared: &Shared, to: &mut OwnedWriteHalf, bytes: &[u8]) -> std::io::Result<()> {
    let mut rest = bytes;
    let mode = || *shared.mode.borrow();
    while let (Mode::Trickle(ms), Some((first, others))) = (mode(), rest.split_first()) {
        to.write_all(&[*first]).await?;
        shared.touched.fetch_add(1, Ordering::SeqCst);
        rest = others;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    to.write_all(rest).await
}

/// When this socket is closed, its other side gets a reset.
fn reset(socket: &TcpStream) {
    let _ = socket.set_zero_linger();
}

/// The next bytes; nothing at the connection's end, of which the other side of a dead line never hears.
async fn next(from: &mut OwnedReadHalf, buffer: &mut [u8], line: &Line) -> Option<usize> {
    match from.read(buffer).await {
        Ok(read) if read > 0 => Some(read),
        _ if line.dead.load(Ordering::SeqCst) => std::future::pending().await,
        _ => None,
    }
}
