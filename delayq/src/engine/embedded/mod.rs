//! The embedded engine: the same scripts, run in process over a keyspace in SQLite.
//!
//! A script is one transaction. Scripts that wait while another commits go into one transaction together, so that many of
//! them cost one write to the disk; if one fails, they are done again, each behind a savepoint of its own.

mod commands;
mod failure;
mod hashes;
mod keyspace;
mod lua;
mod opening;
mod place;
mod raw;
mod sets;
mod small;
mod sorted;
mod sql;
mod tables;
mod wake;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{BoxFuture, Engine, Marker, Reply, Script};
use crate::error::{Error, ErrorKind};

use failure::Fault;
use keyspace::{Keyspace, Kind, LOCKED_MAX};
use lua::Interpreter;
pub(crate) use place::Place;
pub use raw::Stored;
use wake::Bell;

/// How many scripts go into one transaction at most.
const GROUP_MAX: usize = 256;

/// How long those who were just answered may take to stand in the line again before the next group goes without them, as
/// a part of what the last group took. Half of them in each of two groups would cost twice the writes to the disk.
const LINGER_PART: u32 = 4;

/// The commands that scripts may use here.
pub fn command_names() -> impl Iterator<Item = &'static str> {
    commands::names()
}

/// The store's clock: µs since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's.
    pub fn system() -> Clock {
        Clock::from(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64))
    }

    /// Another one.
    pub fn from(now_us: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now_us))
    }
}

/// Scripts on a database in this process.
#[derive(Clone)]
pub struct EmbeddedEngine(Arc<Shared>);

struct Shared {
    line: Mutex<Line>,
    /// As many as the server lingers for are in the line.
    enough: Condvar,
    machine: Mutex<Interpreter>,
    bell: Bell,
    shown: String,
}

/// What waits to be done.
#[derive(Default)]
struct Line {
    waiting: Vec<Task>,
    /// How many the server lingers for; 0 where it doesn't.
    wanted: usize,
    /// Somebody is working on it, and looks again before it stops.
    served: bool,
}

enum Work {
    Script {
        script: &'static Script,
        keys: Vec<Vec<u8>>,
        args: Vec<Vec<u8>>,
    },
    /// Takes a marker from the first of these keys that has one.
    Pop {
        keys: Vec<Vec<u8>>,
    },
    /// Looks at keys, or damages them.
    Raw(raw::Request),
}

enum Done {
    Reply(Reply),
    Marker(Option<Marker>),
    Raw(raw::Answer),
}

struct Task {
    work: Work,
    tell: oneshot::Sender<Result<Done, Error>>,
    /// Whose call it is.
    runtime: Handle,
}

impl Work {
    fn name(&self) -> &'static str {
        match self {
            Work::Script { script, .. } => script.name,
            Work::Pop { .. } => "wait",
            Work::Raw(_) => "raw",
        }
    }
}

impl EmbeddedEngine {
    /// Opens a database by its URL, and makes it if there is none.
    ///
    /// # Errors
    /// The URL can't be used; the file can't be opened, written or trusted.
    pub async fn connect(url: &str, clock: Clock) -> Result<EmbeddedEngine, Error> {
        let place = Place::parse(url)?;
        // Opening reads and writes: it is kept off the async threads.
        let opened = tokio::task::spawn_blocking(move || {
            let shown = place.to_string();
            EmbeddedEngine::open(&place, clock, shown.clone()).map_err(|fault| fault.into_error("opening", &shown))
        });
        match opened.await {
            Ok(opened) => opened,
            Err(_) => Err(Error::new(ErrorKind::Unavailable, "the runtime ended while the database was opened")),
        }
    }

    /// A database of its own in memory. Quick enough to be opened on an async thread.
    ///
    /// # Errors
    /// There is no memory left for it.
    pub fn in_memory(clock: Clock) -> Result<EmbeddedEngine, Error> {
        let shown = Place::Memory.to_string();
        EmbeddedEngine::open(&Place::Memory, clock, shown.clone()).map_err(|fault| fault.into_error("opening", &shown))
    }

    /// The database, as messages name it.
    pub fn shown(&self) -> &str {
        &self.0.shown
    }

    fn open(place: &Place, clock: Clock, shown: String) -> Result<EmbeddedEngine, Fault> {
        let since = Instant::now();
        let opened = loop {
            match Keyspace::open(place, clock.clone()) {
                // Those who make one file at once get in each other's way: SQLite doesn't wait when it begins a log.
                Err(fault) if fault.is_busy() && since.elapsed() < LOCKED_MAX => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                opened => break opened,
            }
        };
        let (space, bell) = match place {
            Place::Memory => (opened?, Bell::inside()),
            Place::File { path, .. } => (
                opened.map_err(|fault| fault.looked_into(path))?,
                Bell::beside(path).map_err(|error| Fault::File(Arc::new(error)))?,
            ),
        };
        let machine = Interpreter::new(space)?;
        Ok(EmbeddedEngine(Arc::new(Shared {
            line: Mutex::default(),
            enough: Condvar::new(),
            machine: Mutex::new(machine),
            bell,
            shown,
        })))
    }

    async fn ask(&self, work: Work) -> Result<Done, Error> {
        let name = work.name();
        let (tell, told) = oneshot::channel();
        let runtime = Handle::current();
        let serve = {
            let mut line = self.0.line();
            line.waiting.push(Task { work, tell, runtime: runtime.clone() });
            if line.waiting.len() == line.wanted {
                self.0.enough.notify_one();
            }
            !std::mem::replace(&mut line.served, true)
        };
        if serve {
            Server::start(self.0.clone(), runtime);
        }
        told.await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unknown,
                format!("{name} may have happened or not: the runtime that worked on {} ended", self.0.shown),
            ))
        })
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line, once as many as were `answered` last are in it or `patience` is over. One caller alone is not waited for.
    fn linger(&self, answered: usize, patience: Duration) -> MutexGuard<'_, Line> {
        let mut line = self.line();
        if answered < 2 || line.waiting.len() >= answered {
            return line;
        }
        line.wanted = answered;
        let waited = self.enough.wait_timeout_while(line, patience, |line| line.waiting.len() < line.wanted);
        let (mut line, _) = waited.unwrap_or_else(PoisonError::into_inner);
        line.wanted = 0;
        line
    }
}

/// Works off the line. One at a time: whoever finds nobody serving becomes the one.
struct Server {
    shared: Arc<Shared>,
    /// On whose thread it works, if on a runtime's.
    runtime: Option<Handle>,
    /// It left when there was nothing to do, or to another one: from then on the line may be another one's.
    done: bool,
}

impl Server {
    /// A blocking thread also holds tokio's paused clock still until the work is done.
    fn start(shared: Arc<Shared>, runtime: Handle) {
        let server = Server { shared, runtime: Some(runtime.clone()), done: false };
        runtime.spawn_blocking(move || server.serve());
    }

    fn serve(mut self) {
        let shared = self.shared.clone();
        let mut machine = shared.machine.lock().unwrap_or_else(|poisoned| {
            // Whoever panicked left a transaction behind.
            shared.machine.clear_poison();
            let machine = poisoned.into_inner();
            machine.space().roll_back();
            machine
        });
        let (mut answered, mut patience) = (0, Duration::ZERO);
        loop {
            let group: Vec<Task> = {
                let mut line = shared.linger(answered, patience);
                let Some(next) = line.waiting.first() else {
                    line.served = false;
                    self.done = true;
                    return;
                };
                // A runtime that ends waits for its blocking threads: this one must not stay for others' calls.
                if answered > 0 && self.runtime.as_ref().is_none_or(|own| own.id() != next.runtime.id()) {
                    let runtime = next.runtime.clone();
                    drop(line);
                    drop(machine);
                    self.done = true;
                    return Server::start(shared, runtime);
                }
                let most = line.waiting.len().min(GROUP_MAX);
                line.waiting.drain(..most).collect()
            };
            let (tasks, tells): (Vec<Work>, Vec<_>) = group.into_iter().map(|task| (task.work, task.tell)).unzip();
            let began = Instant::now();
            let (done, woke) = shared.group(&mut machine, &tasks);
            (answered, patience) = (tasks.len(), began.elapsed() / LINGER_PART);
            if woke {
                shared.bell.ring();
            }
            for (tell, done) in tells.into_iter().zip(done) {
                // Who asked may have stopped listening.
                let _ = tell.send(done);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // The runtime it was handed to ended before it began, or what it worked on panicked. Either way others stand in
        // the line, and nothing of theirs has begun.
        let shared = self.shared.clone();
        let begun = std::thread::Builder::new()
            .name("delayq-line".to_owned())
            .spawn(move || Server { shared, runtime: None, done: false }.serve());
        if begun.is_err() {
            let mut line = self.shared.line();
            line.served = false;
            line.waiting.clear();
        }
    }
}

impl Shared {
    /// Begins the transaction. Where another process has the file, all fail: each alone would only wait as long again.
    fn begun(&self, machine: &mut Interpreter, tasks: &[Work]) -> Result<(), Vec<Result<Done, Error>>> {
        let begun = machine.space().begin();
        begun.map_err(|fault| {
            machine.space().roll_back();
            tasks.iter().map(|task| Err(fault.clone().into_error(task.name(), &self.shown))).collect()
        })
    }

    /// One transaction for all; if it breaks, one for each.
    fn group(&self, machine: &mut Interpreter, tasks: &[Work]) -> (Vec<Result<Done, Error>>, bool) {
        let mut done = match self.begun(machine, tasks) {
            Ok(()) => together(machine, tasks, false),
            Err(failed) => return (failed, false),
        };
        if tasks.len() > 1 && done.as_ref().is_err_and(|fault| !fault.ends_transaction()) {
            // A script failed, which is rare, and savepoints are dear: only now does each get one.
            machine.space().roll_back();
            done = match self.begun(machine, tasks) {
                Ok(()) => together(machine, tasks, true),
                Err(failed) => return (failed, false),
            };
        }
        match done {
            Ok((done, woke)) => {
                let named = done.into_iter().zip(tasks);
                let done = named.map(|(done, task)| done.map_err(|fault| fault.into_error(task.name(), &self.shown)));
                (done.collect(), woke)
            }
            Err(fault) => {
                machine.space().roll_back();
                if let [task] = tasks {
                    return (vec![Err(fault.into_error(task.name(), &self.shown))], false);
                }
                let (mut all, mut any_woke) = (Vec::with_capacity(tasks.len()), false);
                for task in tasks {
                    let (done, woke) = self.group(machine, std::slice::from_ref(task));
                    all.extend(done);
                    any_woke |= woke;
                }
                (all, any_woke)
            }
        }
    }
}

/// The tasks in the transaction that was begun, and its end. `apart`, each has a savepoint: a task that fails by itself
/// takes back what it did, the others stay. An error means that the transaction must be rolled back.
#[allow(clippy::type_complexity)]
fn together(machine: &mut Interpreter, tasks: &[Work], apart: bool) -> Result<(Vec<Result<Done, Fault>>, bool), Fault> {
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        if apart {
            machine.space().save()?;
        }
        let done = match task {
            Work::Script { script, keys, args } => machine.run(script, keys, args).map(Done::Reply),
            Work::Pop { keys } => pop(&mut machine.space(), keys).map(Done::Marker),
            Work::Raw(request) => raw::answer(&mut machine.space(), request).map(Done::Raw),
        };
        match done {
            Err(fault) if fault.ends_transaction() || !apart => return Err(fault),
            Err(fault) => {
                machine.space().undo()?;
                all.push(Err(fault));
            }
            Ok(done) => {
                if apart {
                    machine.space().release()?;
                }
                all.push(Ok(done));
            }
        }
    }
    let woke = machine.space().commit()?;
    Ok((all, woke))
}

fn pop(space: &mut Keyspace, keys: &[Vec<u8>]) -> Result<Option<Marker>, Fault> {
    for key in keys {
        let slot = space.typed(key, Kind::Sorted)?;
        space.wait_for(slot);
        if let Some(due) = sorted::pop_first(space, slot)? {
            return Ok(Some(Marker { key: key.clone(), due_ms: due.max(0.0) as u64 }));
        }
    }
    Ok(None)
}

impl fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EmbeddedEngine").field(&self.0.shown).finish()
    }
}

impl Engine for EmbeddedEngine {
    fn run<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        Box::pin(async move {
            match self
                .ask(Work::Script { script, keys: keys.to_vec(), args: args.iter().map(|arg| arg.to_vec()).collect() })
                .await?
            {
                Done::Reply(reply) => Ok(reply),
                _ => Err(Error::corrupt("a script was answered by something else")),
            }
        })
    }

    fn wait<'a>(&'a self, keys: &'a [Vec<u8>], timeout: Duration) -> BoxFuture<'a, Result<Option<Marker>, Error>> {
        Box::pin(async move {
            let until = tokio::time::Instant::now() + timeout;
            // Listening begins before the look: what is put in between rings.
            let mut rings = self.0.bell.listen();
            loop {
                if let Done::Marker(Some(marker)) = self.ask(Work::Pop { keys: keys.to_vec() }).await? {
                    return Ok(Some(marker));
                }
                let now = tokio::time::Instant::now();
                if now >= until {
                    return Ok(None);
                }
                let look = self.0.bell.patience().map_or(until, |patience| until.min(now + patience));
                // The bell lives as long as this engine; a ring or the time, both mean: look.
                let _ = tokio::time::timeout_at(look, rings.changed()).await;
            }
        })
    }

    fn dedicated(&self) -> Arc<dyn Engine> {
        // There is one database, and nothing that could block it for long.
        Arc::new(self.clone())
    }

    fn in_order(&self) -> Arc<dyn Engine> {
        // Calls stand in one line anyway.
        Arc::new(self.clone())
    }
}
