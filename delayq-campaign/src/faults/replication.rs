//! Faults of replication: a primary and a replica behind an address that leads to whichever is primary.

use std::time::{Duration, Instant};

use delayq::BoxError;
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Mode, Proxy};
use rustix::process::{Pid, Signal, kill_process};

use super::redis::noticed;
use super::{Fault, Seen, built};
use crate::history::{Event, What, now_us};
use crate::world::{Setup, Shape, World, raw};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(35 "demotion" Replication REDIS, demotion, "a planned failover: the primary is demoted under its clients (READONLY)", pair),
        built!(37 "frozen-master-wakes" Replication REDIS, frozen_master, "a frozen primary wakes beside the new one; min-replicas-to-write bounds what it still takes", |setup| {
            pair(setup);
            setup.settings.extend([("--min-replicas-to-write", "1"), ("--min-replicas-max-lag", "2"), ("--repl-ping-replica-period", "1")]);
        }),
        built!(38 "unacknowledged-wait" Replication REDIS, unconfirmed, "replication is cut, then the replica promoted: what waits for a replica says unknown, and loses nothing", |setup| {
            pair(setup);
            setup.confirmed_by = 1;
        }),
        built!(39 "max-lag" Replication REDIS, max_lag, "the replica lags beyond min-replicas-max-lag: writes are refused (NOREPLICAS)", |setup| {
            pair(setup);
            setup.settings.extend([("--min-replicas-to-write", "1"), ("--min-replicas-max-lag", "1"), ("--repl-ping-replica-period", "1")]);
        }),
        built!(40 "empty-master-restarts" Replication REDIS, empty_master, "a primary without persistence restarts empty, and its replica follows", |setup| {
            pair(setup);
            setup.settings = vec![("--repl-diskless-sync-delay", "0")];
        }),
        built!(43 "loss-before-first-sync" Replication REDIS, before_first_sync, "the primary is lost before a new replica had its first sync", pair),
    ]
}

pub(super) fn pair(setup: &mut Setup) {
    setup.shape = Shape::Pair;
    setup.settings.push(("--repl-diskless-sync-delay", "0"));
}

pub(super) fn replica(world: &mut World) -> Result<&mut RedisServer, BoxError> {
    world.servers.replica.as_mut().ok_or_else(|| "there is no replica".into())
}

pub(super) fn role_of(server: &RedisServer) -> String {
    let told = server.command(&["ROLE"]).unwrap_or_default();
    told.lines().nth(2).unwrap_or_default().to_owned()
}

/// From here on the address leads to the replica, and the replica is the primary.
pub(super) fn change_places(world: &mut World) {
    let servers = &mut world.servers;
    std::mem::swap(&mut servers.main, &mut servers.replica);
    if let (Some(front), Some(main)) = (&servers.front, &servers.main) {
        front.redirect(main.port());
    }
}

/// The other server follows the primary again.
async fn follow(world: &mut World) -> Result<(), BoxError> {
    let port = world.servers.main()?.port().to_string();
    replica(world)?.command(&["REPLICAOF", "127.0.0.1", &port])?;
    world.servers.in_sync(Duration::from_secs(15)).await
}

async fn demotion(world: &mut World) -> Result<Seen, BoxError> {
    planned(world).await
}

/// A planned failover, and a moment for all to come back.
pub(super) async fn planned(world: &mut World) -> Result<Seen, BoxError> {
    world.disturbed(None, "a planned failover");
    let seen = handed_over(world).await?;
    world.rest_ms(1500).await?;
    world.calm(None);
    world.servers.in_sync(Duration::from_secs(15)).await?;
    Ok(seen)
}

/// FAILOVER waits until the replica has everything: nothing may be lost. Nobody is told that it disturbs.
pub(super) async fn handed_over(world: &mut World) -> Result<Seen, BoxError> {
    let to = replica(world)?.port().to_string();
    let told = world.servers.command(&["FAILOVER", "TO", "127.0.0.1", &to])?;
    if !told.starts_with("+OK") {
        return Ok(Seen::when(false, format!("FAILOVER was refused: {}", told.trim())));
    }
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until && role_of(replica(world)?) != "master" {
        world.rest_ms(5).await?;
    }
    let old = world.servers.main()?.port();
    // The address leads there still, for as long as such a change takes to be seen: clients are told READONLY.
    let refused = raw(old, &[b"SET", b"probe", b"1"], Duration::from_secs(2)).unwrap_or_default();
    let lag = world.dice.between(0, 500);
    world.rest_ms(lag).await?;
    let promoted = role_of(replica(world)?) == "master";
    change_places(world);
    let fired = promoted && refused.starts_with("-READONLY");
    Ok(Seen::when(fired, format!("the primary was demoted: {}; clients were led on {lag} ms later", refused.trim())))
}

async fn frozen_master(world: &mut World) -> Result<Seen, BoxError> {
    world.disturbed(None, "the primary is frozen, and the replica promoted");
    let since = now_us().saturating_sub(3_000_000);
    let old = world.servers.main()?.pid().and_then(|pid| Pid::from_raw(pid as i32)).ok_or("no server")?;
    kill_process(old, Signal::STOP)?;
    let frozen_ms = world.dice.between(500, 2500);
    world.rest_ms(frozen_ms).await?;
    replica(world)?.command(&["REPLICAOF", "NO", "ONE"])?;
    change_places(world);
    let apart_ms = world.dice.between(200, 1500);
    world.rest_ms(apart_ms).await?;
    // It wakes and knows nothing: connections that were there lead to it still, and it has clients.
    kill_process(old, Signal::CONT)?;
    let woke_us = now_us();
    let woke = role_of(replica(world)?) == "master";
    let both_ms = world.dice.between(1000, 4000);
    world.rest_ms(both_ms).await?;
    // What it took without its replica is lost when it is made to follow: that is the lag of 2 s that it allows, and the second
    // until it looks at its replicas again.
    let until = now_us().min(woke_us + 3_500_000);
    world.tell(What::MayLose { since, until, why: "acknowledged by the old primary alone".to_owned() });
    follow(world).await?;
    if let Some(front) = &world.servers.front {
        front.cut();
    }
    world.rest_ms(1500).await?;
    world.calm(None);
    Ok(Seen::when(
        woke,
        format!("the old primary slept {} ms, and was one of two for {both_ms} ms", frozen_ms + apart_ms),
    ))
}

async fn max_lag(world: &mut World) -> Result<Seen, BoxError> {
    let pid = replica(world)?.pid().and_then(|pid| Pid::from_raw(pid as i32)).ok_or("no replica")?;
    world.disturbed(None, "the replica lags");
    kill_process(pid, Signal::STOP)?;
    let port = world.servers.main()?.port();
    let mut refused = 0;
    let rounds = world.dice.between(30, 45);
    for _ in 0..rounds {
        let told = raw(port, &[b"SET", b"probe", b"1"], Duration::from_secs(2)).unwrap_or_default();
        refused += u64::from(told.starts_with("-NOREPLICAS"));
        world.rest_ms(100).await?;
    }
    kill_process(pid, Signal::CONT)?;
    world.servers.in_sync(Duration::from_secs(15)).await?;
    world.rest_ms(1500).await?;
    world.calm(None);
    Ok(Seen::when(refused > 0, format!("{refused} of {rounds} writes were refused with NOREPLICAS")))
}

/// With a durability of one replica: what it didn't confirm was not acknowledged, so that nothing may be lost with the primary.
async fn unconfirmed(world: &mut World) -> Result<Seen, BoxError> {
    // The replica follows over a line that can be cut.
    let line = Proxy::start(world.servers.main()?.port(), world.dice.roll()).await?;
    replica(world)?.command(&["REPLICAOF", "127.0.0.1", &line.port().to_string()])?;
    world.servers.in_sync(Duration::from_secs(15)).await?;
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    world.disturbed(None, "replication is cut off");
    let cut = now_us();
    line.set(Mode::Swallow);
    let apart_ms = world.dice.between(1000, 2500);
    world.rest_ms(apart_ms).await?;
    world.servers.main()?.kill();
    let lost = now_us();
    // What ended while the two were apart, or moments before, runs again.
    world.tell(What::RolledBack {
        since: cut.saturating_sub(1_000_000),
        until: now_us(),
        why: "the replica had not heard of it".to_owned(),
    });
    replica(world)?.command(&["REPLICAOF", "NO", "ONE"])?;
    change_places(world);
    if let Some(front) = &world.servers.front {
        front.cut();
    }
    // Alone, the new primary can't confirm either.
    world.rest_ms(1000).await?;
    replica(world)?.restart()?;
    follow(world).await?;
    world.rest_ms(1500).await?;
    world.calm(None);
    // What the replica confirmed moments before the cut may be told moments after it.
    let alone = cut + 500_000..lost;
    let within = |is: fn(&What) -> bool| {
        world.events.iter().filter(|event: &&Event| alone.contains(&event.t) && is(&event.what)).count()
    };
    let asked = within(|what| matches!(what, What::EnqueueInvoke { .. }));
    let told = within(|what| matches!(what, What::EnqueueOk { .. }));
    world.demand('L', told == 0, format!("{told} sends were acknowledged while no replica could confirm them"));
    let promoted = role_of(world.servers.main()?) == "master";
    Ok(Seen::when(promoted && asked > 0, format!("{asked} sends waited for a replica that was {apart_ms} ms apart")))
}

async fn empty_master(world: &mut World) -> Result<Seen, BoxError> {
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    world.disturbed(None, "the primary restarts empty");
    world.servers.main()?.kill();
    let until = now_us();
    world.tell(What::MayLose { since: 0, until, why: "a primary without persistence restarted".to_owned() });
    let from = world.mark();
    world.servers.main()?.restart()?;
    world.calm(None);
    noticed(world, from).await?;
    world.servers.in_sync(Duration::from_secs(15)).await?;
    let keys = replica(world)?.command(&["DBSIZE"])?;
    Ok(Seen::when(true, format!("the primary came back empty, and its replica with it ({} keys since)", keys.trim())))
}

async fn before_first_sync(world: &mut World) -> Result<Seen, BoxError> {
    // The replica begins anew, and is held before it gets anything.
    let replica_pid = replica(world)?.pid().and_then(|pid| Pid::from_raw(pid as i32)).ok_or("no replica")?;
    replica(world)?.command(&["REPLICAOF", "NO", "ONE"])?;
    replica(world)?.command(&["FLUSHALL"])?;
    let port = world.servers.main()?.port().to_string();
    kill_process(replica_pid, Signal::STOP)?;
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    world.disturbed(None, "the primary was lost before the first sync");
    world.servers.main()?.kill();
    let until = now_us();
    kill_process(replica_pid, Signal::CONT)?;
    replica(world)?.command(&["REPLICAOF", "127.0.0.1", &port])?;
    replica(world)?.command(&["REPLICAOF", "NO", "ONE"])?;
    world.tell(What::MayLose { since: 0, until, why: "the replica never had anything".to_owned() });
    let from = world.mark();
    change_places(world);
    if let Some(front) = &world.servers.front {
        front.cut();
    }
    noticed(world, from).await?;
    world.calm(None);
    // A new replica for the next time.
    replica(world)?.restart()?;
    follow(world).await?;
    Ok(Seen::when(true, "the primary was lost before the replica had anything"))
}
