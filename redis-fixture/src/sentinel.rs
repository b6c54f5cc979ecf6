//! A group of private Sentinels that watch a private primary, and promote a replica of it within seconds.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::reply::{Reply, ask, exchange};
use crate::{RedisServer, StartError, free_port, not_spawned, own_folder};

/// How long a group may take until it could fail over.
const START: Duration = Duration::from_secs(20);
/// How long a Sentinel may take to answer: it does nothing that takes time.
const ANSWER: Duration = Duration::from_secs(2);
/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// How long a Sentinel waits for each step of a failover. An attempt that comes to nothing is repeated after twice that, so it is
/// short; and a Sentinel asks a replica once a second whether it was promoted, so it isn't shorter.
const FAILOVER_TIMEOUT_MS: u32 = 3000;
/// What makes the group find together sooner than within the 2 s and 10 s that Sentinels leave between two looks; and what ends the
/// 30 s for which they hold still after a loaded machine stopped them for 2 s. A replica whose INFO is older than three periods
/// can't be promoted by command: the period isn't shorter than a second for that. And a Sentinel that sees a replica's promotion before
/// it has heard of it undoes it after four publish periods: that must be longer than the one that promotes may take to see it, and to
/// say so.
const PACE_MS: [&str; 6] = ["info-period", "1000", "publish-period", "500", "tilt-period", "1000"];

/// Private Sentinels that watch one primary.
pub struct Sentinels {
    name: String,
    password: Option<String>,
    sentinels: Vec<Sentinel>,
}

/// One of them.
struct Sentinel {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
}

impl Sentinels {
    /// Starts so many Sentinels that know the primary by this name, and take it for down once it didn't answer for `down_after`.
    /// More than half of them must agree to promote a replica. They know each other then, and the replicas that are linked to the
    /// primary: one that is linked later is found within about a second. Start the primary with
    /// `--repl-diskless-sync-delay 0`, or its replicas are linked after 5 s only; and replicas of one with a password with
    /// `--requirepass` and `--masterauth`, both of them with the same.
    ///
    /// # Errors
    /// redis-server is not installed, or the Sentinels don't find each other and the replicas within 20 s.
    pub fn start(
        primary: &RedisServer,
        name: &str,
        count: usize,
        down_after: Duration,
    ) -> Result<Sentinels, StartError> {
        if count == 0 {
            return Err(StartError { text: "no Sentinels at all can't watch anything: start one or three".to_owned() });
        }
        let quorum = count / 2 + 1;
        let mut watch = format!(
            "sentinel monitor {name} 127.0.0.1 {} {quorum}\nsentinel down-after-milliseconds {name} {}\n\
             sentinel failover-timeout {name} {FAILOVER_TIMEOUT_MS}\n",
            primary.port(),
            down_after.as_millis().max(1),
        );
        if let Some(password) = primary.password() {
            watch.push_str(&format!("sentinel auth-pass {name} {password:?}\n"));
        }
        let sentinels = (0..count).map(|_| Sentinel::start(&watch)).collect::<Result<_, _>>()?;
        let password = primary.password().map(str::to_owned);
        let group = Sentinels { name: name.to_owned(), password, sentinels };
        group.await_ready(primary)?;
        Ok(group)
    }

    fn await_ready(&self, primary: &RedisServer) -> Result<(), StartError> {
        let deadline = Instant::now() + START;
        loop {
            // Replicas that find their primary meanwhile count too.
            let replicas = primary.info("connected_slaves").map_or(0, |replicas| replicas as usize);
            let missing: Vec<String> =
                self.sentinels.iter().filter_map(|sentinel| self.missing(sentinel, replicas).err()).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let text = format!("the Sentinels weren't ready within {START:?}: {}", missing.join("; "));
                return Err(StartError { text });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Says what a Sentinel lacks for a failover.
    fn missing(&self, sentinel: &Sentinel, replicas: usize) -> Result<(), String> {
        let ask = |parts: &[&str]| sentinel.ask(parts).map_err(|error| error.to_string());
        let primary = ask(&["SENTINEL", "MASTER", &self.name])?;
        let primary = primary.map();
        let others = (self.sentinels.len() - 1).to_string();
        for (field, wanted) in [("flags", "master"), ("num-other-sentinels", others.as_str())] {
            let is = primary.get(field).copied().unwrap_or_default();
            if is != wanted {
                return Err(format!("at port {} the primary's {field} is {is} and not {wanted}", sentinel.port));
            }
        }
        let known = ask(&["SENTINEL", "REPLICAS", &self.name])?;
        let fit = known.list().iter().map(Reply::map).filter(|replica| {
            replica.get("flags") == Some(&"slave") && replica.get("master-link-status") == Some(&"ok")
        });
        let fit = fit.count();
        if fit < replicas {
            return Err(format!("at port {} {fit} of {replicas} replicas are fit for promotion", sentinel.port));
        }
        // That the others are known doesn't mean that they were reached already.
        ask(&["SENTINEL", "CKQUORUM", &self.name]).map(drop)
    }

    /// How many they are, with those that were killed.
    pub fn len(&self) -> usize {
        self.sentinels.len()
    }

    /// Never: a group has one Sentinel at least.
    pub fn is_empty(&self) -> bool {
        self.sentinels.is_empty()
    }

    /// Their ports on 127.0.0.1, those of killed ones too.
    pub fn ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|sentinel| sentinel.port).collect()
    }

    /// The URL of what they watch: `redis-sentinel://127.0.0.1:10001,127.0.0.1:10002/name`, with the primary's password if it has
    /// one. Killed Sentinels are named too.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let password = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis-sentinel://{password}{}/{}", addresses.join(","), self.name)
    }

    /// The port of the primary, as the first Sentinel says that answers.
    ///
    /// # Errors
    /// None answers.
    pub fn primary(&self) -> io::Result<u16> {
        let mut last = io::Error::new(io::ErrorKind::NotConnected, "all Sentinels were killed");
        for sentinel in self.living() {
            match sentinel.primary(&self.name) {
                Ok(port) => return Ok(port),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Waits until more than half of the living Sentinels name the same other primary than this one, and gives its port. A few
    /// seconds longer than `down_after` is enough, and about ten if their first vote has no winner.
    ///
    /// # Errors
    /// They don't within that time.
    pub fn await_primary_other_than(&self, port: u16, patience: Duration) -> io::Result<u16> {
        let deadline = Instant::now() + patience;
        loop {
            let named: Vec<io::Result<u16>> = self.living().map(|sentinel| sentinel.primary(&self.name)).collect();
            let votes = |candidate: u16| named.iter().flatten().filter(|port| **port == candidate).count();
            let other = named.iter().flatten().find(|other| **other != port && votes(**other) * 2 > named.len());
            if let Some(other) = other {
                return Ok(*other);
            }
            if Instant::now() > deadline {
                let text = format!(
                    "the Sentinels named no other primary than port {port} within {patience:?}, but {named:?}: does a linked \
                     replica live, and more than half of the {} Sentinels?",
                    self.sentinels.len()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Has the first Sentinel that lives promote a replica, though the primary is well. See
    /// [`await_primary_other_than`](Sentinels::await_primary_other_than) for when that is done, in about a second; the old primary
    /// takes writes until it is made a replica, about a second after that, and loses them.
    ///
    /// # Errors
    /// It doesn't answer, a failover goes on already, or there is no replica that is fit for it.
    pub fn failover(&self) -> io::Result<()> {
        let no_one = || io::Error::new(io::ErrorKind::NotConnected, "all Sentinels were killed");
        self.living().next().ok_or_else(no_one)?.ask(&["SENTINEL", "FAILOVER", &self.name]).map(drop)
    }

    /// Ends a Sentinel's process at once, as a crash would.
    ///
    /// # Panics
    /// There are not that many.
    pub fn kill(&mut self, index: usize) {
        self.sentinels[index].kill();
    }

    /// Sends one command to a Sentinel over a connection of its own, and gives the raw answer.
    ///
    /// # Errors
    /// It can't be reached or doesn't answer within 2 s.
    ///
    /// # Panics
    /// There are not that many.
    pub fn command(&self, index: usize, parts: &[&str]) -> io::Result<String> {
        let answer = exchange(self.sentinels[index].port, None, ANSWER, parts)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn living(&self) -> impl Iterator<Item = &Sentinel> {
        self.sentinels.iter().filter(|sentinel| sentinel.child.is_some())
    }
}

impl Sentinel {
    fn start(watch: &str) -> Result<Sentinel, StartError> {
        let mut sentinel = Sentinel { child: None, port: 0, folder: own_folder()? };
        // Between choosing a free port and the Sentinel's taking it, somebody else may have.
        let mut last = StartError { text: String::new() };
        for _ in 0..5 {
            sentinel.port = free_port().map_err(|error| StartError { text: format!("no free port: {error}") })?;
            match sentinel.spawn(watch) {
                Ok(()) => return Ok(sentinel),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn spawn(&mut self, watch: &str) -> Result<(), StartError> {
        self.kill();
        // Sentinel keeps what it learns in this file: each has one of its own.
        let file = self.folder.join("sentinel.conf");
        let settings = format!("port {}\nbind 127.0.0.1\ndir {:?}\n{watch}", self.port, self.folder);
        std::fs::write(&file, settings)
            .map_err(|error| StartError { text: format!("{} can't be written: {error}", file.display()) })?;
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| not_spawned(&error))?;
        let pid = child.id();
        self.child = Some(child);
        self.ready(pid)
    }

    fn ready(&mut self, pid: u32) -> Result<(), StartError> {
        // Somebody else who took the port meanwhile would answer too.
        let own = format!("process_id:{pid}\r\n");
        let deadline = Instant::now() + crate::START;
        while Instant::now() < deadline {
            let info = self.ask(&["INFO", "server"]);
            if info.is_ok_and(|info| info.text().is_some_and(|text| text.contains(&own))) {
                // Servers before Redis 7 don't know this, and find together all the same: later.
                let _ = self.ask(&[&["SENTINEL", "DEBUG"], &PACE_MS[..]].concat());
                return Ok(());
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                self.child = None;
                let text = format!("a Sentinel ended at once ({status}): is the name of the primary one word?");
                return Err(StartError { text });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        Err(StartError { text: format!("a Sentinel did not answer within {:?}: is the machine loaded?", crate::START) })
    }

    fn ask(&self, parts: &[&str]) -> io::Result<Reply> {
        ask(self.port, None, ANSWER, parts)
    }

    fn primary(&self, name: &str) -> io::Result<u16> {
        let reply = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name])?;
        let port = reply.texts().get(1).and_then(|port| port.parse().ok());
        port.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("the Sentinel knows no primary {name}")))
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("name", &self.name).field("ports", &self.ports()).finish_non_exhaustive()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    const DOWN_AFTER: Duration = Duration::from_secs(3);
    /// A vote without a winner is repeated after 6 s.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A primary with so many replicas that are linked to it.
    fn replicated(replicas: usize, settings: &[&str]) -> Result<(RedisServer, Vec<RedisServer>), StartError> {
        let primary = RedisServer::start_with(&[&["--repl-diskless-sync-delay", "0"], settings].concat())?;
        let of = format!("127.0.0.1 {}", primary.port());
        let settings = [&["--repl-diskless-sync-delay", "0", "--replicaof", &of], settings].concat();
        let replicas = (0..replicas).map(|_| RedisServer::start_with(&settings)).collect::<Result<Vec<_>, _>>()?;
        replicas.iter().for_each(await_linked);
        Ok((primary, replicas))
    }

    #[track_caller]
    fn await_linked(replica: &RedisServer) {
        let deadline = Instant::now() + PATIENCE;
        let is_linked = |info: String| info.contains("master_link_status:up");
        while !replica.command(&["INFO", "replication"]).is_ok_and(is_linked) {
            assert!(Instant::now() < deadline, "the replica wasn't linked within {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
    }

    #[track_caller]
    fn assert_takes_writes(replicas: &[RedisServer], port: u16) {
        let promoted = replicas.iter().find(|replica| replica.port() == port);
        let answer = promoted.map(|promoted| promoted.command(&["SET", "written", "after"]));
        assert!(matches!(&answer, Some(Ok(ok)) if ok.starts_with("+OK")), "{answer:?}");
    }

    #[test]
    fn a_replica_takes_over_from_a_primary_that_died() -> Outcome {
        let (mut primary, replicas) = replicated(2, &[])?;
        let group = Sentinels::start(&primary, "orders", 3, DOWN_AFTER)?;
        assert_eq!(group.primary()?, primary.port());
        primary.kill();
        let other = group.await_primary_other_than(primary.port(), PATIENCE)?;
        assert_takes_writes(&replicas, other);
        Ok(())
    }

    #[test]
    fn a_replica_takes_over_by_command_and_the_old_primary_when_it_dies() -> Outcome {
        let (primary, mut replicas) = replicated(1, &[])?;
        let group = Sentinels::start(&primary, "orders", 3, DOWN_AFTER)?;
        let deadline = Instant::now() + PATIENCE;
        // A replica that was last heard of long ago is not fit for it until it is heard of again.
        while let Err(error) = group.failover()
            && group.primary().is_ok_and(|port| port == primary.port())
        {
            assert!(Instant::now() < deadline, "{error}");
            std::thread::sleep(LOOK);
        }
        let other = group.await_primary_other_than(primary.port(), PATIENCE)?;
        assert_takes_writes(&replicas, other);

        await_linked(&primary);
        replicas[0].kill();
        assert_eq!(group.await_primary_other_than(other, PATIENCE)?, primary.port());
        Ok(())
    }

    #[test]
    fn two_of_three_are_enough_with_a_password_too() -> Outcome {
        let (mut primary, replicas) = replicated(1, &["--requirepass", "secret", "--masterauth", "secret"])?;
        let mut group = Sentinels::start(&primary, "orders", 3, DOWN_AFTER)?;
        group.kill(0);
        assert!(group.command(0, &["PING"]).is_err());
        assert!(group.command(1, &["PING"])?.starts_with("+PONG"));
        assert_eq!(group.primary()?, primary.port());
        primary.kill();
        let other = group.await_primary_other_than(primary.port(), PATIENCE)?;
        assert_takes_writes(&replicas, other);
        Ok(())
    }

    #[test]
    fn a_group_says_where_it_is() -> Outcome {
        let primary = RedisServer::start()?;
        let group = Sentinels::start(&primary, "orders", 3, DOWN_AFTER)?;
        let [a, b, c] = group.ports()[..] else { panic!("{group:?}") };
        assert_eq!(group.url(), format!("redis-sentinel://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}/orders"));
        assert_eq!(group.len(), 3);
        let text = group.failover().err().map(|error| error.to_string());
        assert!(text.as_ref().is_some_and(|text| text.contains("NOGOODSLAVE")), "{text:?}");
        let text = group.await_primary_other_than(primary.port(), Duration::ZERO).err().map(|error| error.to_string());
        assert!(text.as_ref().is_some_and(|text| text.contains("named no other primary")), "{text:?}");
        Ok(())
    }

    #[test]
    fn a_group_needs_a_member_and_a_name() -> Outcome {
        let primary = RedisServer::start()?;
        for (name, count) in [("orders", 0), ("two words", 1)] {
            assert!(Sentinels::start(&primary, name, count, DOWN_AFTER).is_err(), "{name} {count}");
        }
        Ok(())
    }
}
