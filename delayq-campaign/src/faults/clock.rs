//! Faults of clocks, by a library that is preloaded into a server or a worker.

use delayq::BoxError;

use super::replication::{pair, planned};
use super::{Fault, Seen, built};
use crate::history::What;
use crate::work::{Plan, Task};
use crate::world::{World, raw, steer};

const HOUR_MS: i64 = 3_600_000;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(51 "server-clock-ahead" Clock REDIS, ahead, "the server's clock is set an hour ahead: nothing runs twice", |setup| {
            setup.shim = true;
            setup.delays_only = true;
            setup.lease_ms = 2000;
        }),
        built!(52 "server-clock-behind" Clock REDIS, behind, "the server's clock is set an hour back, and right again", |setup| {
            setup.shim = true;
            setup.delays_only = true;
            setup.lease_ms = 2000;
        }),
        built!(53 "worker-clock-off" Clock REDIS, workers_off, "the workers' clocks are an hour ahead and an hour back: no effect at all", |setup| {
            setup.worker_clocks_ms = vec![HOUR_MS, -HOUR_MS];
        }),
        built!(54 "replica-clock-ahead" Clock REDIS, replica_ahead, "a replica whose clock is 5 s ahead is promoted", |setup| {
            pair(setup);
            setup.shim = true;
            setup.delays_only = true;
            setup.lease_ms = 2000;
        }),
    ]
}

/// Sets the server's clock, and sees that it shows it.
fn set_clock(world: &mut World, name: &str, offset_ms: i64) -> Result<bool, BoxError> {
    // Ahead counts from before it is so, back from after it.
    let port = world.servers.main()?.port();
    world.tell(What::Clock { offset_ms });
    steer(&world.folder().join(format!("{name}.shim")), offset_ms, false)?;
    Ok(shown_off_ms(port).is_some_and(|off| (off - offset_ms).abs() < 2000))
}

/// How far the clock of a server is off, ms.
fn shown_off_ms(port: u16) -> Option<i64> {
    let told = raw(port, &[b"TIME"], std::time::Duration::from_secs(2)).ok()?;
    let seconds: i64 = told.lines().nth(2)?.trim().parse().ok()?;
    Some(seconds * 1000 - (crate::history::wall_us() / 1000) as i64)
}

/// Jobs that run while the clock jumps.
async fn running(world: &mut World) -> Result<(), BoxError> {
    for _ in 0..10 {
        world.send(Task::new(0, Plan::Well).before_effect(1200), 0).await?;
        world.send(Task::new(0, Plan::Well), 800).await?;
    }
    world.rest_ms(200).await
}

async fn ahead(world: &mut World) -> Result<Seen, BoxError> {
    running(world).await?;
    let offset = (world.turn as i64 + 1) * HOUR_MS;
    let shown = set_clock(world, "server", offset)?;
    let ms = world.dice.between(3000, 5000);
    world.rest_ms(ms).await?;
    Ok(Seen::when(shown, format!("the server's clock is {offset} ms ahead")))
}

async fn behind(world: &mut World) -> Result<Seen, BoxError> {
    running(world).await?;
    let back = set_clock(world, "server", -HOUR_MS)?;
    let ms = world.dice.between(3000, 5000);
    world.rest_ms(ms).await?;
    let right = set_clock(world, "server", 0)?;
    world.rest_ms(2000).await?;
    Ok(Seen::when(back && right, format!("the server's clock was an hour back for {ms} ms")))
}

async fn workers_off(world: &mut World) -> Result<Seen, BoxError> {
    running(world).await?;
    let ms = world.dice.between(3000, 6000);
    world.rest_ms(ms).await?;
    let off: Vec<i64> = world
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::Up { clock_off_ms, .. } if event.by.starts_with('w') => Some(*clock_off_ms),
            _ => None,
        })
        .collect();
    let fired = !off.is_empty() && off.iter().all(|ms| ms.abs() > HOUR_MS - 5000);
    Ok(Seen::when(fired, format!("the workers' clocks are off by {off:?} ms")))
}

async fn replica_ahead(world: &mut World) -> Result<Seen, BoxError> {
    if world.turn > 0 {
        return Ok(Seen::when(false, "the clock goes ahead once"));
    }
    running(world).await?;
    let Some(replica) = &world.servers.replica else { return Ok(Seen::when(false, "there is no replica")) };
    let port = replica.port();
    world.tell(What::Clock { offset_ms: 5000 });
    steer(&world.folder().join("replica.shim"), 5000, false)?;
    let shown = shown_off_ms(port).is_some_and(|off| off > 3000);
    let seen = planned(world).await?;
    Ok(Seen::when(seen.fired && shown, format!("{}; its clock is 5 s ahead", seen.by)))
}
