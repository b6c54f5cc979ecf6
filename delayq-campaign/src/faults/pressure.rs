//! Faults of the server that it survives: no memory, no room, no connection, no scripts, a foreign hand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use delayq::engine::embedded::Stored;
use delayq::store::ops::{NewJob, Options};
use delayq::store::{SessionId, Shard, Store};
use delayq::{BoxError, ErrorKind, Level, Worker};
use rustix::process::Signal;
use uuid::Uuid;

use super::redis::{come_back, crash, info_is};
use super::{Fault, Seen, built};
use crate::history::{What, now_us};
use crate::sender::{Answer, Order};
use crate::work::{Plan, QUEUE, Task};
use crate::world::{Kind, World, patient, raw, steer};

/// The check of the server's policy, as a diagnosis names it.
const POLICY: &str = "maxmemory-policy";

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(23 "script-flush" Redis REDIS, script_flush, "SCRIPT FLUSH, again and again, with calls under way", |setup| setup.rate = 250),
        built!(24 "full-memory" Redis REDIS, full_memory, "maxmemory with noeviction: sends are refused whole, settles go on"),
        built!(25 "eviction" Redis REDIS, eviction, "maxmemory with allkeys-lru and its like: doctor refuses, and so does a strict worker"),
        built!(26 "maxclients" Redis REDIS, maxclients, "all connections are cut, and no new one is let in"),
        built!(27 "full-disk-everysec" Redis REDIS, full_disk, "the disk is full under everysec (MISCONF)", |setup| setup.shim = true),
        built!(28 "full-disk-always" Redis REDIS, full_disk_always, "the disk is full under always: the server ends itself", |setup| {
            setup.shim = true;
            setup.settings = vec![("--appendonly", "yes"), ("--appendfsync", "always")];
        }),
        built!(29 "foreign-slow-script" Redis REDIS, slow_script, "a foreign script holds the server (BUSY), and is killed"),
        built!(30 "client-kill" Redis REDIS, client_kill, "CLIENT KILL of all connections, again and again"),
        built!(31 "aof-rewrite" Redis REDIS, aof_rewrite, "the append-only file is rewritten at 1,000,000 jobs, and the server killed meanwhile"),
        built!(34 "deleted-key" Redis REDIS, deleted_key, "a key of the store is deleted: repaired, or reported as orphans"),
    ]
}

/// How often a command was called, by the server's own count.
fn calls(world: &mut World, command: &str) -> Result<u64, BoxError> {
    let stats = world.servers.command(&["INFO", "commandstats"])?;
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    Ok(line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0))
}

async fn script_flush(world: &mut World) -> Result<Seen, BoxError> {
    let before = calls(world, "eval")?;
    let (least, until) = (world.dice.between(15, 30), Instant::now() + Duration::from_secs(20));
    let (mut times, mut again) = (0, 0);
    // Where calls come seldom, on until some of them met a server that knew no script.
    while times < least || (again <= 5 && Instant::now() < until) {
        let how = *world.dice.pick(&["SYNC", "ASYNC"]);
        world.servers.command(&["SCRIPT", "FLUSH", how])?;
        let pause = world.dice.between(0, 60);
        world.rest_ms(pause).await?;
        times += 1;
        again = calls(world, "eval")? - before;
    }
    Ok(Seen::when(again > 5, format!("{times} flushes, after which {again} scripts were sent again")))
}

async fn full_memory(world: &mut World) -> Result<Seen, BoxError> {
    let (store, shard) = world.store().await?;
    let mut waiting = Vec::new();
    for _ in 0..30 {
        waiting.push(world.send(Task::new(0, Plan::Well), 900).await?);
    }
    let used = world.servers.main()?.info("used_memory")? as u64;
    let limit = (used / 2).to_string();
    world.servers.command(&["CONFIG", "SET", "maxmemory", &limit])?;
    let from = world.mark();
    let before = leases(&store, &shard).await?;
    let mut refused = 0;
    for _ in 0..10 {
        let answer = world.send_as(Task::new(0, Plan::Well), &Order::after(0, Plan::Well.ending())).await?;
        refused += usize::from(answer == Answer::Refused(ErrorKind::Full));
        world.rest_ms(30).await?;
    }
    let mut done = 0;
    for id in &waiting {
        done += usize::from(world.outcome(from, *id).await?.as_deref() == Some("done"));
    }
    world.demand(
        'O',
        done == waiting.len(),
        format!("{done} of {} waiting jobs were run while memory was full", waiting.len()),
    );
    world.rest_ms(700).await?;
    let left = world.client().await?.stats(QUEUE).await?.running;
    world.demand('T', left < 30, format!("what was run is settled while memory is full: {left} still run"));
    let until = Instant::now() + Duration::from_millis(2 * world.setup.lease_ms);
    let mut renewed = 0;
    while renewed < before.len() && Instant::now() < until {
        world.rest_ms(50).await?;
        let now = leases(&store, &shard).await?;
        renewed = before.iter().filter(|(id, end)| now.get(*id).is_some_and(|later| later > *end)).count();
    }
    world.demand(
        'D',
        renewed > 0 && renewed == before.len(),
        format!("leases are renewed while memory is full: {renewed} of {}", before.len()),
    );
    world.servers.command(&["CONFIG", "SET", "maxmemory", "0"])?;
    Ok(Seen::when(refused > 0, format!("{refused} sends were refused as Full")))
}

/// The sessions, and when their leases end.
async fn leases(store: &Store, shard: &Shard) -> Result<BTreeMap<SessionId, u64>, BoxError> {
    let sessions = store.sessions(shard).await?;
    Ok(sessions.iter().filter(|session| session.expires_ms > 0).map(|s| (s.id, s.expires_ms)).collect())
}

/// Nothing is evicted yet: what would be has to be noticed before.
async fn eviction(world: &mut World) -> Result<Seen, BoxError> {
    let policies = ["allkeys-lru", "allkeys-random", "volatile-lru"];
    let policy = policies[((world.spin + world.turn) % policies.len() as u64) as usize];
    for (setting, value) in [("maxmemory", "1gb"), ("maxmemory-policy", policy)] {
        world.servers.command(&["CONFIG", "SET", setting, value])?;
    }
    let set = world.servers.command(&["CONFIG", "GET", "maxmemory-policy"])?.contains(policy);
    let client = world.client().await?;
    let diagnosis = client.diagnose(&[QUEUE]).await?;
    let told = diagnosis.of(POLICY).next();
    let wrong = told.is_some_and(|told| told.level == Level::Wrong && told.to_string().contains("noeviction"));
    world.demand('S', wrong && !diagnosis.is_sound(), format!("doctor refuses {policy}: {told:?}"));
    let strict = Worker::new(client.clone()).queues([QUEUE]).strict(true).run_until(std::future::pending());
    let refused = match tokio::time::timeout(Duration::from_secs(10), strict).await {
        Ok(Err(error)) => Some((error.kind(), error.to_string())),
        _ => None,
    };
    let met = matches!(&refused, Some((ErrorKind::Unsupported, why)) if why.contains(policy));
    world.demand('S', met, format!("a strict worker does not start under {policy}: {refused:?}"));
    // One that isn't strict says so, and works.
    let from = world.mark();
    let name = world.add_worker().await?;
    let warned = world
        .wait(from, 10_000, |event| match &event.what {
            What::Alarm { text } if event.by == name && text.contains(policy) => Some(()),
            _ => None,
        })
        .await?;
    world.demand('S', warned.is_some(), format!("a worker warns of {policy} when it starts"));
    world.signal(&name, Signal::TERM)?;
    let grace_ms = world.setup.grace_ms;
    let gone = world.gone(&name, grace_ms + 12_000).await?;
    world.demand('S', gone, format!("{name} ends when it is asked to"));
    for (setting, value) in [("maxmemory-policy", "noeviction"), ("maxmemory", "0")] {
        world.servers.command(&["CONFIG", "SET", setting, value])?;
    }
    let well = client.diagnose(&[QUEUE]).await?.of(POLICY).all(|told| told.level == Level::Good);
    world.demand('S', well, "doctor has nothing to say against noeviction");
    Ok(Seen::when(set, format!("the server was told to evict by {policy}")))
}

async fn maxclients(world: &mut World) -> Result<Seen, BoxError> {
    let port = world.servers.main()?.port();
    let mut admin = patient(&format!("redis://127.0.0.1:{port}/")).await?;
    let mut hogs = Vec::new();
    for _ in 0..20 {
        hogs.push(TcpStream::connect(("127.0.0.1", port))?);
    }
    let own: BTreeSet<String> = hogs.iter().filter_map(|hog| hog.local_addr().ok().map(|at| at.to_string())).collect();
    // Those that it has not let in yet would be refused with the others, and leave a place free.
    let until = Instant::now() + Duration::from_secs(10);
    while let list = clients(&mut admin).await?
        && !own.iter().all(|hog| list.contains(&format!(" addr={hog} ")))
    {
        if Instant::now() > until {
            return Ok(Seen::when(false, "not all connections were let in"));
        }
        world.rest_ms(5).await?;
    }
    world.disturbed(None, "no connection is let in");
    let _: () = ::redis::cmd("CONFIG").arg(&["SET", "maxclients", "20"]).query_async(&mut admin).await?;
    let list = clients(&mut admin).await?;
    let me: i64 = ::redis::cmd("CLIENT").arg("ID").query_async(&mut admin).await?;
    let mut cut = 0;
    for line in list.lines() {
        let field = |name: &str| line.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or_default();
        if own.contains(field("addr=")) || field("id=") == me.to_string() {
            continue;
        }
        let killed: i64 = ::redis::cmd("CLIENT").arg(&["KILL", "ID", field("id=")]).query_async(&mut admin).await?;
        cut += killed;
    }
    let ms = world.dice.between(800, 2500);
    world.rest_ms(ms).await?;
    let refused = raw(port, &[b"PING"], Duration::from_millis(500)).unwrap_or_default();
    let _: () = ::redis::cmd("CONFIG").arg(&["SET", "maxclients", "10000"]).query_async(&mut admin).await?;
    drop(hogs);
    world.calm(None);
    world.rest_ms(500).await?;
    let fired = cut > 0 && refused.contains("max number of clients");
    Ok(Seen::when(fired, format!("{cut} connections were cut, and new ones refused for {ms} ms: {}", refused.trim())))
}

async fn clients(admin: &mut ::redis::aio::MultiplexedConnection) -> Result<String, BoxError> {
    Ok(::redis::cmd("CLIENT").arg("LIST").query_async(admin).await?)
}

async fn full_disk(world: &mut World) -> Result<Seen, BoxError> {
    let steering = world.folder().join("server.shim");
    world.disturbed(None, "the disk is full");
    steer(&steering, 0, true)?;
    let failed = info_is(world, "aof_last_write_status", "err", 5000).await?;
    let ms = world.dice.between(500, 2500);
    world.rest_ms(ms).await?;
    steer(&steering, 0, false)?;
    let well = info_is(world, "aof_last_write_status", "ok", 10_000).await?;
    world.calm(None);
    Ok(Seen::when(failed && well, format!("the server could not write for {ms} ms, and then it could")))
}

async fn full_disk_always(world: &mut World) -> Result<Seen, BoxError> {
    let steering = world.folder().join("server.shim");
    world.disturbed(None, "the disk is full");
    steer(&steering, 0, true)?;
    let mut ended = None;
    for _ in 0..400 {
        ended = world.servers.main()?.ended();
        if ended.is_some() {
            break;
        }
        world.rest_ms(10).await?;
    }
    steer(&steering, 0, false)?;
    come_back(world).await?;
    Ok(Seen::when(ended.is_some(), format!("the server ended itself: {ended:?}")))
}

async fn slow_script(world: &mut World) -> Result<Seen, BoxError> {
    world.servers.command(&["CONFIG", "SET", "busy-reply-threshold", "50"])?;
    let port = world.servers.main()?.port();
    world.disturbed(None, "a foreign script holds the server");
    // It reads nothing and writes nothing, so it can be killed.
    let script: [&[u8]; 3] = [b"EVAL", b"while true do end", b"0"];
    let _ = raw(port, &script, Duration::from_millis(120));
    let busy = raw(port, &[b"PING"], Duration::from_secs(2)).unwrap_or_default();
    let ms = world.dice.between(500, 2500);
    world.rest_ms(ms).await?;
    let killed = raw(port, &[b"SCRIPT", b"KILL"], Duration::from_secs(2)).unwrap_or_default();
    world.calm(None);
    world.rest_ms(300).await?;
    let fired = busy.starts_with("-BUSY") && killed.starts_with("+OK");
    Ok(Seen::when(fired, format!("the server was busy for {ms} ms: {}", busy.trim())))
}

async fn client_kill(world: &mut World) -> Result<Seen, BoxError> {
    world.disturbed(None, "connections are cut");
    let times = world.dice.between(6, 15);
    let mut cut = 0;
    for _ in 0..times {
        let answer = world.servers.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
        cut += answer.trim().trim_start_matches(':').parse::<u64>().unwrap_or(0);
        let pause = world.dice.between(5, 250);
        world.rest_ms(pause).await?;
    }
    world.calm(None);
    Ok(Seen::when(cut > 0, format!("{cut} connections were cut in {times} rounds")))
}

async fn aof_rewrite(world: &mut World) -> Result<Seen, BoxError> {
    let count: usize = if world.is_smoke { 50_000 } else { 1_000_000 };
    let (store, _) = world.store().await?;
    let ballast = store.shard("ballast", 0)?;
    let there = store.stats(&ballast).await?.waiting as usize;
    let options = Options { priority: 5, attempts_max: 4, ..Options::default() };
    let job = || NewJob {
        id: Uuid::now_v7().into_bytes(),
        when: "+86400000".to_owned(),
        options: options.clone(),
        envelope: b"ballast 1\n{}".to_vec(),
    };
    for _ in there / 200..count / 200 {
        let jobs: Vec<NewJob> = (0..200).map(|_| job()).collect();
        store.enqueue(&ballast, &jobs).await?;
        world.tick().await?;
    }
    // One that went on by itself, and is over by now, leaves nothing to be seen.
    let mut under_way = false;
    for _ in 0..5 {
        world.servers.command(&["BGREWRITEAOF"])?;
        under_way = info_is(world, "aof_rewrite_in_progress", "1", 2000).await?;
        if under_way {
            break;
        }
    }
    world.tell(What::Slack { ms: 10_000, why: "a large file is rewritten and loaded".to_owned() });
    if world.turn.is_multiple_of(2) {
        world.disturbed(None, "the server was killed in the middle of a rewrite");
        let pause = world.dice.between(0, 300);
        world.rest_ms(pause).await?;
        crash(world, "the server was killed in the middle of a rewrite")?;
        world.servers.main()?.launch()?;
        world.servers.main()?.ready(Duration::from_secs(120))?;
        world.calm(None);
    } else {
        info_is(world, "aof_rewrite_in_progress", "0", 60_000).await?;
    }
    Ok(Seen::when(under_way, format!("the file was rewritten with {count} jobs in the store")))
}

async fn deleted_key(world: &mut World) -> Result<Seen, BoxError> {
    let keys = ["stats", "wake", "sessions", "tombs", "due:5", "held", "error", "jobs", "done", "unique", "queues"];
    // Seeds that follow each other share them.
    let mut key = keys[((world.round + world.turn) % keys.len() as u64) as usize].to_owned();
    let (store, shard) = world.store().await?;
    // So that there is something to lose.
    for _ in 0..10 {
        world.send(Task::new(0, Plan::Well).before_effect(1200), 0).await?;
        world.send(Task::new(0, Plan::Well), 2500).await?;
    }
    match key.as_str() {
        "error" => _ = world.send(Task::new(0, Plan::Bury), 0).await?,
        "unique" => {
            let task = Task::new(0, Plan::Well);
            let order = Order { unique: Some("the only one".to_owned()), ..Order::after(2500, task.plan.ending()) };
            world.send_as(task, &order).await?;
        }
        _ => {}
    }
    world.rest_ms(200).await?;
    if key == "held" {
        let Some(session) = store.sessions(&shard).await?.first().map(|session| session.id) else {
            return Ok(Seen::when(false, "there is no session"));
        };
        key = format!("held:{}", Uuid::from_bytes(session).simple());
    }
    // The list of queues belongs to no queue, and has no braces.
    let name = if key == "queues" { b"delayq:queues".to_vec() } else { shard.key(&key) };
    let name = String::from_utf8_lossy(&name).into_owned();
    world.disturbed(None, "a key was deleted");
    let is_deleted = if key == "wake" { delete_marker(world, &name).await? } else { delete(world, &name).await? };
    match key.as_str() {
        "stats" => world.tell(What::Reported { ids: Vec::new(), how: "counters".to_owned() }),
        "jobs" => {
            world.tell(What::MayLose { since: 0, until: now_us(), why: "all records were deleted".to_owned() });
            world.tell(What::Reported { ids: Vec::new(), how: "counters".to_owned() });
        }
        // The reasons of dead letters are gone with it.
        "error" => {
            let ids = dead_ids(world).await?;
            world.tell(What::Reported { ids, how: "the notes were deleted".to_owned() });
        }
        _ => {}
    }
    world.rest_ms(4000).await?;
    world.calm(None);
    let stuck = stuck(world).await?;
    let told = store.stats(&shard).await?;
    let orphans = told.orphans();
    if !stuck.is_empty() {
        let quarantined = told.counters.get("quarantined").copied().unwrap_or(0);
        world.demand(
            'S',
            orphans != 0 || quarantined > 0,
            format!("{} jobs are stuck after the loss of {key}, and stats report {orphans} orphans", stuck.len()),
        );
        world.tell(What::Reported { ids: stuck.clone(), how: format!("orphans after the loss of {key}") });
    }
    Ok(Seen::when(is_deleted, format!("{key} was deleted: {} jobs are stuck, {orphans} orphans reported", stuck.len())))
}

/// A dead letter's note is there only when the letter is dead.
async fn delete(world: &mut World, name: &str) -> Result<bool, BoxError> {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if world.servers.command(&["DEL", name])?.starts_with(":1") {
            return Ok(true);
        }
        world.rest_ms(3).await?;
    }
    Ok(false)
}

/// The marker lies there only until an idle worker takes it: for a while none can.
async fn delete_marker(world: &mut World, name: &str) -> Result<bool, BoxError> {
    let workers = world.names(Kind::Worker);
    let until = Instant::now() + Duration::from_secs(5);
    let mut is_deleted = false;
    while !is_deleted && Instant::now() < until {
        for who in &workers {
            world.signal(who, Signal::STOP)?;
        }
        // What waits for it on behalf of a worker that stands still would still be given it.
        world.servers.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
        let standing = Instant::now() + Duration::from_millis(300);
        while !is_deleted && Instant::now() < standing {
            world.rest_ms(3).await?;
            is_deleted = world.servers.command(&["DEL", name])?.starts_with(":1");
        }
        for who in &workers {
            world.signal(who, Signal::CONT)?;
        }
        world.rest_ms(100).await?;
    }
    Ok(is_deleted)
}

async fn dead_ids(world: &mut World) -> Result<Vec<Uuid>, BoxError> {
    let all = world.read_store().await?;
    let ids = match all.get("dead") {
        Some(Stored::Sorted(dead)) => dead.keys().filter_map(|id| Uuid::from_slice(id).ok()).collect(),
        _ => Vec::new(),
    };
    Ok(ids)
}

/// Jobs that no worker will ever look at again. Keys are read one after the other, so a job that moves meanwhile may seem to be
/// nowhere: it must seem so twice.
async fn stuck(world: &mut World) -> Result<Vec<Uuid>, BoxError> {
    let first: BTreeSet<Uuid> = seems_stuck(world).await?.into_iter().collect();
    world.rest_ms(400).await?;
    Ok(seems_stuck(world).await?.into_iter().filter(|id| first.contains(id)).collect())
}

/// Records in no set, or in a set of a session that is not listed; and places without a record.
async fn seems_stuck(world: &mut World) -> Result<Vec<Uuid>, BoxError> {
    let all = world.read_store().await?;
    let sessions: BTreeSet<String> = match all.get("sessions") {
        Some(Stored::Sorted(sessions)) => {
            sessions.keys().filter_map(|id| Uuid::from_slice(id).ok()).map(|id| id.simple().to_string()).collect()
        }
        _ => BTreeSet::new(),
    };
    let (mut placed, mut waiting): (BTreeSet<&[u8]>, BTreeSet<&[u8]>) = (BTreeSet::new(), BTreeSet::new());
    for (name, value) in &all {
        match value {
            Stored::Sorted(members) if name.starts_with("due:") || name == "dead" || name == "done" => {
                placed.extend(members.keys().map(Vec::as_slice));
                // A worker that comes to a job without a record puts it aside.
                waiting.extend(members.keys().filter(|_| name.starts_with("due:")).map(Vec::as_slice));
            }
            Stored::Set(members) if name.strip_prefix("held:").is_some_and(|s| sessions.contains(s)) => {
                placed.extend(members.iter().filter_map(|member| member.get(..16)));
                waiting.extend(members.iter().filter_map(|member| member.get(..16)));
            }
            _ => {}
        }
    }
    let none = BTreeMap::new();
    let records = match all.get("jobs") {
        Some(Stored::Hash(records)) => records,
        _ => &none,
    };
    let unplaced = records.keys().map(Vec::as_slice).filter(|id| !placed.contains(id));
    let without = placed.iter().copied().filter(|id| !records.contains_key(*id) && !waiting.contains(id));
    Ok(unplaced.chain(without).filter_map(|id| Uuid::from_slice(id).ok()).collect())
}
