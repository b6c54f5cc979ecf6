//! Faults of servers that see to it themselves who is primary: a primary that Sentinels watch, and a cluster.

use std::time::{Duration, Instant};

use delayq::BoxError;
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::cluster::Cluster;

use super::redis::crash;
use super::replication::{change_places, replica, role_of};
use super::{Fault, Seen, built};
use crate::history::{What, now_us};
use crate::world::{Home, Setup, Shape, World};

/// How far a replica may be behind on a machine that is busy, µs.
const BEHIND: u64 = 1_000_000;
/// A vote without a winner is repeated after some seconds.
const PATIENCE: Duration = Duration::from_secs(40);
pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(36 "sentinel-failover" Replication REDIS, sentinel_failover, "Sentinels promote the replica: by command, also with min-replicas-to-write, and of a primary that was killed", |setup| {
            setup.shape = Shape::Watched;
            setup.settings.push(("--repl-diskless-sync-delay", "0"));
        }),
        built!(41 "slot-migration" Replication REDIS, slot_migration, "the queue's slot moves on to two other nodes of a cluster (TRYAGAIN, ASK, MOVED): nothing is lost, nothing runs twice", |setup| {
            cluster(setup);
            // Long enough for a slow move: then whatever runs twice was doubled by it.
            setup.lease_ms = 4000;
        }),
        built!(42 "node-loss" Replication REDIS, node_loss, "the node that has the queue is killed, and its replica takes over without scripts (NOSCRIPT); or takes over by command", cluster),
    ]
}

fn cluster(setup: &mut Setup) {
    setup.shape = Shape::Cluster;
}

/// How long nobody can reach the queue before it may cost a worker its lease, µs. Up to then nothing excuses a further run.
pub(super) fn bearable(world: &World) -> u64 {
    world.setup.lease_ms * 1000 / 2
}

/// Of so many kinds, the one whose turn it is.
fn kind(world: &World, of: u64) -> u64 {
    (world.spin + world.turn) % of
}

/// Looks again and again until something is there, while everything goes on.
async fn until<T>(world: &mut World, look: impl Fn(&World) -> Option<T>) -> Result<Option<T>, BoxError> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = look(world) {
            return Ok(Some(found));
        }
        world.rest_ms(10).await?;
    }
    Ok(None)
}

/// Whether a server follows a primary, and has what that one has.
fn follows(server: &RedisServer) -> bool {
    role_of(server) == "slave"
        && server.command(&["INFO", "replication"]).is_ok_and(|info| info.contains("master_link_status:up"))
}

async fn sentinel_failover(world: &mut World) -> Result<Seen, BoxError> {
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    match kind(world, 3) {
        0 => promoted_by_command(world, false).await,
        1 => promoted_by_death(world).await,
        _ => {
            needs_replicas(world, "1")?;
            let seen = promoted_by_command(world, true).await;
            needs_replicas(world, "0")?;
            seen
        }
    }
}

/// The replica, once most Sentinels call it the primary.
async fn named(world: &mut World, before: u16) -> Result<bool, BoxError> {
    let other = replica(world)?.port();
    let named = until(world, |world| {
        let sentinels = world.servers.sentinels.as_ref()?;
        sentinels.await_primary_other_than(before, Duration::ZERO).ok()
    });
    Ok(named.await? == Some(other))
}

/// How many replicas must be linked to whoever is primary for it to take a write.
fn needs_replicas(world: &mut World, count: &str) -> Result<(), BoxError> {
    for server in [&world.servers.main, &world.servers.replica].into_iter().flatten() {
        server.command(&["CONFIG", "SET", "min-replicas-to-write", count])?;
    }
    Ok(())
}

/// Sentinels do not wait until the replica has everything, and the old primary takes writes until they come to tell it; unless it
/// needs a replica for them, which it hasn't any more from the promotion on.
async fn promoted_by_command(world: &mut World, needs_replica: bool) -> Result<Seen, BoxError> {
    let old = world.servers.main()?.port();
    world.disturbed(None, "Sentinels promote the replica of a primary that is well");
    let asked = now_us();
    // They refuse while the replica or the failover before is too fresh for them.
    let begun = until(world, |world| world.servers.sentinels.as_ref()?.failover().ok()).await?.is_some();
    let promoted = |world: &World| world.servers.replica.as_ref().filter(|heir| role_of(heir) == "master").map(drop);
    let promoted = begun && until(world, promoted).await?.is_some();
    let since_promoted = now_us();
    let named = promoted && named(world, old).await?;
    let demoted = |world: &World| world.servers.main.as_ref().filter(|old| role_of(old) == "slave").map(drop);
    let told = named && until(world, demoted).await?.is_some();
    let both_ms = (now_us() - since_promoted) / 1000;
    let (why, lost_until) = if needs_replica {
        ("acknowledged by the old primary moments before the replica was promoted", since_promoted)
    } else {
        ("acknowledged by the old primary when there was a new one", now_us())
    };
    world.tell(What::MayLose { since: asked.saturating_sub(BEHIND), until: lost_until, why: why.to_owned() });
    if !told {
        world.calm(None);
        return Ok(Seen::when(false, format!("begun: {begun}; promoted: {promoted}; named: {named}")));
    }
    change_places(world);
    settled(world).await?;
    let is_primary = role_of(world.servers.main()?) == "master";
    let with = if needs_replica { ", under min-replicas-to-write 1" } else { "" };
    Ok(Seen::when(
        is_primary,
        format!("the Sentinels promoted the replica by command{with}; for {both_ms} ms there were two primaries"),
    ))
}

async fn promoted_by_death(world: &mut World) -> Result<Seen, BoxError> {
    let old = world.servers.main()?.port();
    let killed = crash(world, "the primary was killed, and Sentinels promote its replica")?;
    lost_with(world, killed);
    let named = named(world, old).await?;
    let away_ms = (now_us() - killed) / 1000;
    if named {
        change_places(world);
        let down_ms = world.dice.between(0, 1500);
        world.rest_ms(down_ms).await?;
        // It takes itself for the primary still, until the Sentinels tell it otherwise.
        replica(world)?.restart()?;
    } else {
        world.servers.main()?.restart()?;
    }
    settled(world).await?;
    let promoted = named && role_of(world.servers.main()?) == "master";
    Ok(Seen::when(
        promoted,
        format!("the Sentinels named the replica the primary {away_ms} ms after the old one was killed"),
    ))
}

/// What a primary that was killed had not passed on.
fn lost_with(world: &World, killed: u64) {
    world.tell(What::MayLose {
        since: killed.saturating_sub(BEHIND),
        until: killed,
        why: "what the primary that was killed had not passed on to its replica".to_owned(),
    });
}

/// The other server follows, and all go on.
async fn settled(world: &mut World) -> Result<(), BoxError> {
    let followed = until(world, |world| world.servers.replica.as_ref().filter(|other| follows(other)).map(drop));
    if followed.await?.is_none() {
        return Err("the other server was not made a replica".into());
    }
    world.rest_ms(500).await?;
    world.calm(None);
    Ok(())
}

fn home(world: &mut World) -> Result<&mut Home, BoxError> {
    world.servers.home.as_mut().ok_or_else(|| "there is no cluster".into())
}

/// Waits until the whole cluster agrees on who has what, and all of these live.
async fn agreed(world: &mut World) -> Result<bool, BoxError> {
    let ok = |world: &World| world.servers.home.as_ref()?.cluster.await_ok(Duration::ZERO).ok();
    Ok(until(world, ok).await?.is_some())
}

/// How often a server has answered with this error.
fn answered(server: &RedisServer, code: &str) -> u64 {
    let told = server.command(&["INFO", "errorstats"]).unwrap_or_default();
    let count = |line: &str| line.strip_prefix(&format!("errorstat_{code}:count="))?.trim().parse().ok();
    told.lines().find_map(count).unwrap_or(0)
}

/// How often any node has.
fn answered_by_all(cluster: &Cluster, code: &str) -> u64 {
    (0..cluster.len()).map(|index| answered(cluster.node(index), code)).sum()
}

/// On to the other two nodes, one after the other.
async fn slot_migration(world: &mut World) -> Result<Seen, BoxError> {
    let at = home(world)?.look()?;
    let primaries: Vec<usize> = (0..3).cycle().skip(at + 1).take(2).collect();
    let mut seen = Vec::new();
    for to in primaries {
        let calm_ms = world.dice.between(300, 900);
        world.rest_ms(calm_ms).await?;
        seen.push(moved(world, to).await?);
    }
    let by: Vec<&str> = seen.iter().map(|seen| seen.by.as_str()).collect();
    Ok(Seen::when(seen.iter().all(|seen| seen.fired), by.join("; ")))
}

/// Moves the queue's slot to another node, with moments between the steps in which its clients meet them.
async fn moved(world: &mut World, to: usize) -> Result<Seen, BoxError> {
    let (_, shard) = world.store().await?;
    let key = |name: &str| String::from_utf8_lossy(&shard.key(name)).into_owned();
    let pauses: Vec<u64> = (0..3).map(|_| world.dice.between(150, 500)).collect();
    let Home { cluster, slot, at: from, .. } = home(world)?;
    let (slot, from) = (*slot, *from);
    let began = now_us();
    cluster.begin_move(slot, from, to)?;
    // From here on no script has all of its keys in one place, and nothing changes until the end of the move.
    let waiting: u64 = (0..=9)
        .filter_map(|priority| {
            let told = cluster.node(from).command(&["ZCARD", &key(&format!("due:{priority}"))]).ok()?;
            told.strip_prefix(':')?.trim().parse::<u64>().ok()
        })
        .sum();
    let codes = ["TRYAGAIN", "ASK", "MOVED"];
    let before = codes.map(|code| answered_by_all(cluster, code));
    world.rest_ms(pauses[0]).await?;
    // The records are there, and all else is here.
    let cluster = &home(world)?.cluster;
    let port = cluster.node(to).port().to_string();
    let half = cluster.node(from).command(&["MIGRATE", "127.0.0.1", &port, &key("jobs"), "0", "5000"])?;
    world.rest_ms(pauses[1]).await?;
    home(world)?.cluster.move_keys(slot, from, to)?;
    world.rest_ms(pauses[2]).await?;
    // All is there now, and the slot still here: somebody is sent over. They try rarely by now.
    let asked = |world: &World| {
        let count = answered_by_all(&world.servers.home.as_ref()?.cluster, "ASK");
        (count > before[1] || now_us() - began > bearable(world) * 3 / 4).then_some(())
    };
    until(world, asked).await?;
    home(world)?.cluster.end_move(slot, from, to)?;
    let took = now_us() - began;
    if took > bearable(world) {
        world.was_disturbed(began, "the slot was on its way for longer than a worker can do without it");
    }
    let owner = home(world)?.look()?;
    let agreed = agreed(world).await?;
    world.rest_ms(500).await?;
    let cluster = &home(world)?.cluster;
    let after = codes.map(|code| answered_by_all(cluster, code));
    let met: Vec<u64> = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
    let [again, ask, moved] = met[..] else { return Err("there are three codes".into()) };
    let fired = owner == to && agreed && waiting > 0 && half.starts_with("+OK") && again > 0 && ask > 0 && moved > 0;
    Ok(Seen::when(
        fired,
        format!(
            "slot {slot} moved from node {from} to {to} with {waiting} jobs waiting, {} ms: {again} TRYAGAIN, {ask} ASK, {moved} \
             MOVED",
            took / 1000
        ),
    ))
}

async fn node_loss(world: &mut World) -> Result<Seen, BoxError> {
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    let home = home(world)?;
    let old = home.look()?;
    let Some(heir) = home.cluster.replicas_of(old)?.first().copied() else {
        return Ok(Seen::when(false, format!("node {old} has no replica")));
    };
    if kind(world, 2) == 0 { promoted_in_cluster(world, heir).await } else { node_killed(world, old, heir).await }
}

/// The primary waits until its replica has everything: nothing may be lost.
async fn promoted_in_cluster(world: &mut World, heir: usize) -> Result<Seen, BoxError> {
    let began = now_us();
    let home = home(world)?;
    let done = home.cluster.failover(heir);
    let took = now_us() - began;
    let owner = home.look()?;
    if took > bearable(world) {
        world.was_disturbed(began, "the promotion took longer than a worker can do without the store");
    }
    let agreed = agreed(world).await?;
    world.rest_ms(1000).await?;
    if let Err(error) = done {
        return Ok(Seen::when(false, format!("CLUSTER FAILOVER: {error}")));
    }
    Ok(Seen::when(
        agreed && owner == heir,
        format!("CLUSTER FAILOVER: the replica took over within {} ms", took / 1000),
    ))
}

async fn node_killed(world: &mut World, old: usize, heir: usize) -> Result<Seen, BoxError> {
    let unknown = |world: &World| world.servers.home.as_ref().map(|home| answered(home.cluster.node(heir), "NOSCRIPT"));
    let before = unknown(world).unwrap_or(0);
    let killed = crash(world, "the node was killed, and its replica takes over")?;
    lost_with(world, killed);
    let owner = until(world, |world| {
        let home = world.servers.home.as_ref()?;
        home.cluster.owner(home.slot).ok()
    });
    let owner = owner.await?.ok_or("nobody took over from the node that was killed")?;
    let away_ms = (now_us() - killed) / 1000;
    let taken = home(world)?.look()? == heir && owner == heir && agreed(world).await?;
    let down_ms = world.dice.between(0, 1500);
    world.rest_ms(down_ms).await?;
    home(world)?.cluster.node_mut(old).restart()?;
    let back = until(world, |world| {
        let cluster = &world.servers.home.as_ref()?.cluster;
        let is_known = cluster.replicas_of(heir).ok()?.contains(&old);
        (is_known && follows(cluster.node(old))).then_some(())
    });
    let back = back.await?.is_some() && agreed(world).await?;
    world.rest_ms(500).await?;
    world.calm(None);
    let strange = unknown(world).unwrap_or(0).saturating_sub(before);
    Ok(Seen::when(
        taken && back && strange > 0,
        format!(
            "the replica took over {away_ms} ms after the node was killed, and answered NOSCRIPT {strange} times; the node that was \
             killed came back as its replica: {back}"
        ),
    ))
}
