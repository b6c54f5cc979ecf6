//! Faults of workers that come from within: handlers that panic, kill, hog, and jobs that nobody knows.

use std::time::Duration;

use delayq::BoxError;
use rustix::process::Signal;
use uuid::Uuid;

use super::worker::{digests, running_jobs};
use super::{Fault, Seen, built};
use crate::history::{Ending, What};
use crate::sender::{Order, send};
use crate::work::{Garbled, Plan, QUEUE, Stranger, Task, TaskOfTomorrow};
use crate::world::{Blow, End, Kind, World};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(10 "handler-panic" Worker BOTH, handler_panic, "handlers panic: the attempt is spent, the worker lives"),
        built!(11 "abort-or-overflow" Worker BOTH, abort_or_overflow, "a handler aborts its process, or overflows its stack"),
        built!(12 "poison-job" Worker BOTH, poison_job, "a job that always kills its worker becomes a dead letter; its neighbours live"),
        built!(13 "cpu-hog" Worker BOTH, cpu_hog, "handlers hold all threads of the runtime: renewal goes on, no second run"),
        built!(14 "memory-kill" Worker BOTH, memory_kill, "a handler takes memory until its process dies of it (RLIMIT_AS)"),
        built!(15 "five-percent-cpu" Worker BOTH, five_percent, "a worker gets 5 ms of each 100 (SIGSTOP and CONT)"),
        built!(16 "workers-come-and-go" Worker BOTH, come_and_go, "10,000 workers start and stop: no registration stays"),
        built!(17 "unknown-name-or-version" Worker BOTH, unknown, "jobs of a name, of a version, of a form that no worker knows"),
        built!(18 "rescuer-killed" Worker REDIS, rescuer_killed, "one of two rescuers is killed in the middle of its work", |setup| {
            setup.worker_proxies = true;
            setup.concurrency = 1000;
        }),
    ]
}

async fn handler_panic(world: &mut World) -> Result<Seen, BoxError> {
    let from = world.mark();
    let mut panicked = 0;
    let mut ids = Vec::new();
    for _ in 0..6 {
        let times = world.dice.between(1, 2) as u32;
        ids.push((world.send(Task::new(0, Plan::PanicFirst(times)), 0).await?, times as usize));
    }
    for (id, times) in ids {
        let done = |event: &crate::history::Event| {
            matches!(&event.what, What::Outcome { id: is, how, .. } if *is == id && how == "done").then_some(())
        };
        let done = world.wait(from, 10_000, done).await?;
        let runs = world.runs_of(id);
        panicked += usize::from(runs > 1);
        world.demand(
            'A',
            done.is_some() && runs == times + 1,
            format!("{id} panicked {times} times, and had {runs} runs"),
        );
    }
    Ok(Seen::when(panicked > 0, format!("{panicked} jobs panicked, and ran again")))
}

async fn abort_or_overflow(world: &mut World) -> Result<Seen, BoxError> {
    world.deaths_planned = true;
    world.respawn = true;
    let plan = *world.dice.pick(&[Plan::AbortFirst, Plan::OverflowFirst]);
    let from = world.mark();
    let id = world.send(Task::new(0, plan), 0).await?;
    died(world, from, id, &format!("{plan:?}")).await
}

/// A job has ended its process; waits until it is done all the same.
async fn died(world: &mut World, from: usize, id: Uuid, plan: &str) -> Result<Seen, BoxError> {
    let down = |event: &crate::history::Event| match &event.what {
        What::Down { name, how, .. } if how.starts_with("signal") => Some(format!("{name}: {how}")),
        _ => None,
    };
    let down = world.wait(from, 10_000, down).await?;
    let done = world.outcome(from, id).await?;
    world.demand('O', done.as_deref() == Some("done"), format!("{id} ({plan}) is done by its second run: {done:?}"));
    Ok(Seen::when(down.is_some(), format!("{plan} ended {}", down.unwrap_or_default())))
}

async fn poison_job(world: &mut World) -> Result<Seen, BoxError> {
    world.deaths_planned = true;
    world.respawn = true;
    let from = world.mark();
    let neighbours = running_jobs(world, 5, 300).await?;
    let id = world.send(Task::new(0, Plan::Poison), 0).await?;
    let letters = world.client().await?.dead_letters(QUEUE);
    let mut dead = None;
    for _ in 0..300 {
        dead = letters.get(id.into()).await?;
        if dead.is_some() {
            break;
        }
        world.rest_ms(100).await?;
    }
    let deaths = world.events[from..].iter().filter(|e| matches!(e.what, What::Down { .. })).count();
    let reason = dead.as_ref().and_then(|letter| letter.reason).map(|reason| reason.to_string());
    world.demand(
        'Q',
        reason.as_deref() == Some("crash_loop"),
        format!("{id} is a dead letter for crash_loop: {reason:?}"),
    );
    world.demand('A', deaths <= 4, format!("it took {deaths} workers with it"));
    for (neighbour, _) in neighbours {
        let ended = world.outcome(from, neighbour).await?;
        world.demand('O', ended.as_deref() == Some("done"), format!("its neighbour {neighbour} is done: {ended:?}"));
    }
    Ok(Seen::when(deaths > 0, format!("it ended {deaths} workers")))
}

async fn cpu_hog(world: &mut World) -> Result<Seen, BoxError> {
    let lease_ms = world.setup.lease_ms;
    let from = world.mark();
    let mut ids = Vec::new();
    // More than the runtime has threads.
    for _ in 0..4 {
        ids.push(world.send(Task::new(0, Plan::Spin(2 * lease_ms)), 0).await?);
    }
    // Nobody is disturbed but by having nothing left to run on: late, not twice.
    world.tell(What::Slack { ms: 20 * lease_ms, why: "the runtime's threads are taken".to_owned() });
    let mut held = 0;
    for id in ids {
        let ended = world.outcome(from, id).await?;
        held += usize::from(ended.is_some());
        let runs = world.runs_of(id);
        world.demand('D', runs == 1, format!("{id} held its thread for two leases, and had {runs} runs"));
    }
    Ok(Seen::when(held > 0, format!("{held} jobs held a thread for two leases each")))
}

async fn memory_kill(world: &mut World) -> Result<Seen, BoxError> {
    world.deaths_planned = true;
    world.respawn = true;
    for name in world.names(Kind::Worker) {
        let pid = rustix::process::Pid::from_raw(world.proc(&name)?.pid() as i32);
        // What it has reserved by now, and some more.
        let bytes = reserved(world.proc(&name)?.pid()).unwrap_or(1 << 30) + (300 << 20);
        let limit = rustix::process::Rlimit { current: Some(bytes), maximum: None };
        rustix::process::prlimit(pid, rustix::process::Resource::As, limit)?;
    }
    let from = world.mark();
    let id = world.send(Task::new(0, Plan::HogFirst), 0).await?;
    died(world, from, id, "HogFirst").await
}

/// Bytes of address space that a process has reserved.
fn reserved(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    size.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

async fn five_percent(world: &mut World) -> Result<Seen, BoxError> {
    let Some(who) = world.names(Kind::Worker).first().cloned() else { return Ok(Seen::when(false, "no worker")) };
    world.disturbed(Some(&who), "it gets 5 % of a processor");
    world.signal(&who, Signal::STOP)?;
    let rounds = world.dice.between(25, 40);
    let from = world.mark();
    for _ in 0..rounds {
        // Not told one by one: the whole time counts as disturbed.
        world.proc(&who)?.signal(Signal::CONT)?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        world.proc(&who)?.signal(Signal::STOP)?;
        world.rest_ms(95).await?;
    }
    world.signal(&who, Signal::CONT)?;
    world.calm(Some(&who));
    world.mark();
    let slow = world.events[from..].iter().filter(|event| event.by == who).count();
    Ok(Seen::when(true, format!("{who} ran 5 ms of each 100 for {rounds} rounds, and still wrote {slow} events")))
}

async fn come_and_go(world: &mut World) -> Result<Seen, BoxError> {
    let count = if world.is_smoke { 200 } else { 10_000 };
    let name = world.add_worker_with(&["--come-and-go".to_owned(), count.to_string()]).await?;
    world.proc(&name)?.asked = true;
    let ended = world.gone(&name, 600_000).await?;
    world.mark();
    let how = world.events.iter().rev().find_map(|event| match &event.what {
        What::Down { name: is, how, .. } if *is == name => Some(how.clone()),
        _ => None,
    });
    let well = how.as_deref() == Some("exit 0");
    world.demand('S', ended && well, format!("{count} workers come and go: {how:?}"));
    let (store, shard) = world.store().await?;
    let sessions = store.sessions(&shard).await?.len();
    let wanted = world.names(Kind::Worker).len();
    world.demand(
        'S',
        sessions <= wanted,
        format!("{sessions} sessions are left of {count}, and {wanted} workers are there"),
    );
    Ok(Seen::when(ended && well, format!("{count} workers came and went")))
}

async fn unknown(world: &mut World) -> Result<Seen, BoxError> {
    let (client, journal) = (world.client().await?, world.journal()?);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let orders =
            [Ending::UnknownJob, Ending::UnknownVersion, Ending::Undecodable].map(|ending| Order::after(0, ending));
        send(&journal, &client, Stranger { n: 1 }, &orders[0]).await;
        send(&journal, &client, TaskOfTomorrow { n: 1 }, &orders[1]).await;
        send(&journal, &client, Garbled { nonsense: "no task".to_owned() }, &orders[2]).await;
        ids.extend(orders.map(|order| order.id));
    }
    for _ in 0..5 {
        world.send(Task::new(0, Plan::Bury), 0).await?;
    }
    let letters = client.dead_letters(QUEUE);
    let mut dead = 0;
    for id in &ids {
        for _ in 0..100 {
            if letters.get((*id).into()).await?.is_some() {
                dead += 1;
                break;
            }
            world.rest_ms(20).await?;
        }
    }
    world.demand('Q', dead == ids.len(), format!("{dead} of {} unknown jobs are dead letters", ids.len()));
    Ok(Seen::when(dead > 0, format!("{dead} jobs that no worker knows were met")))
}

async fn rescuer_killed(world: &mut World) -> Result<Seen, BoxError> {
    // One worker alone takes more than one rescue's worth.
    let others = world.names(Kind::Worker);
    let victim = others[0].clone();
    for name in &others[1..] {
        world.signal(name, Signal::TERM)?;
        world.gone(name, 10_000).await?;
    }
    let from = world.mark();
    let count = 700;
    for _ in 0..count {
        world.send(Task::new(0, Plan::Well).before_start(60_000), 0).await?;
    }
    let claims = |world: &World| {
        let claimed = |event: &&crate::history::Event| event.by == victim && matches!(event.what, What::Claim { .. });
        world.events[from..].iter().filter(claimed).count()
    };
    for _ in 0..500 {
        if claims(world) >= count {
            break;
        }
        world.rest_ms(20).await?;
    }
    let digests = digests(&["rescue"]);
    let needles: Vec<&str> = digests.iter().map(String::as_str).collect();
    let mut rescuers = Vec::new();
    for _ in 0..2 {
        let name = world.add_worker().await?;
        if let Some(proxy) = &world.proc(&name)?.proxy {
            proxy.strike(Blow::Reply { keep: 0, end: End::Silence }, &needles, 1);
        }
        rescuers.push(name);
    }
    for name in &rescuers {
        let up =
            |event: &crate::history::Event| (event.by == *name && matches!(event.what, What::Up { .. })).then_some(());
        world.wait(from, 10_000, up).await?;
    }
    world.rest_ms(500).await?;
    world.kill(&victim).await?;
    let mut killed = None;
    for _ in 0..1000 {
        for name in &rescuers {
            let at_work = world.proc(name)?.proxy.as_ref().is_some_and(|proxy| proxy.struck() > 0);
            if at_work && killed.is_none() {
                killed = Some(name.clone());
            }
        }
        if killed.is_some() {
            break;
        }
        world.rest_ms(5).await?;
    }
    let Some(killed) = killed else { return Ok(Seen::when(false, "no rescue was seen")) };
    world.kill(&killed).await?;
    for name in rescuers.iter().filter(|name| **name != killed) {
        if let Some(proxy) = &world.proc(name)?.proxy {
            proxy.spare();
        }
    }
    world.replace_workers().await?;
    Ok(Seen::when(true, format!("{killed} was killed while it took back the {count} jobs of {victim}")))
}
