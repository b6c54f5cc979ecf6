//! Faults of data and load: collisions, masses, garbage, impossible values, races.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use delayq::store::ops::{Found, NewJob, Options, Place};
use delayq::{BoxError, Client, ErrorKind};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::failover::bearable;
use super::replication::{handed_over, pair};
use super::{Fault, Seen, built};
use crate::dice::Dice;
use crate::history::{Ending, What, When, checksum, now_us, wall_us};
use crate::sender::{Answer, Order, cancel, send};
use crate::work::{Plan, QUEUE, Task};
use crate::world::{EngineKind, World, patient};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(55 "one-unique-key" Data BOTH, one_unique_key, "one unique key, 64 producers at once: one job"),
        built!(56 "a-million-at-once" Data BOTH, at_once, "1,000,000 jobs due in one millisecond (100,000 in the short run)", |setup| {
            setup.concurrency = 1000;
            setup.lease_ms = 5000;
        }),
        built!(57 "foreign-garbage" Data REDIS, garbage, "a foreign writer's garbage in the keys, and real records changed by chance: put aside, neighbours run"),
        built!(58 "large-integers" Data BOTH, large_integers, "integers above 2^53 come as they were sent"),
        built!(59 "impossible-due" Data BOTH, impossible_due, "negative and overflowing due times"),
        built!(60 "races" Data BOTH, races, "cancel, redrive and pause race with claims, and on servers with a planned failover: nothing is lost, nothing runs twice", |setup| {
            if setup.engine == EngineKind::Redis {
                pair(setup);
                // Long enough for a failover: then whatever runs twice was doubled by it.
                setup.lease_ms = 4000;
            }
        }),
    ]
}

async fn one_unique_key(world: &mut World) -> Result<Seen, BoxError> {
    let (url, journal) = (world.servers.url(), Arc::new(world.journal()?));
    let clients = if world.setup.engine == EngineKind::Redis { 64 } else { 8 };
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(Client::builder().pool_size(1).connect(&url).await?);
    }
    let key = format!("key-{}-{}", world.spin, world.turn);
    let start = Arc::new(tokio::sync::Barrier::new(64));
    let mut sends = JoinSet::new();
    for nth in 0..64_usize {
        let (client, journal, start) = (connected[nth % clients].clone(), journal.clone(), start.clone());
        let order = Order { unique: Some(key.clone()), ..Order::after(400, Ending::Done) };
        sends.spawn(async move {
            start.wait().await;
            (order.id, send(&journal, &client, Task::new(nth as u64, Plan::Well), &order).await)
        });
    }
    let (mut sent, mut duplicates) = (Vec::new(), 0);
    while let Some(ended) = sends.join_next().await {
        match ended? {
            (id, Answer::Sent { .. }) => sent.push(id),
            (_, Answer::Refused(ErrorKind::Duplicate)) => duplicates += 1,
            (_, other) => world.demand('S', false, format!("a send with a unique key was answered with {other:?}")),
        }
    }
    world.demand(
        'C',
        sent.len() == 1 && duplicates == 63,
        format!("64 sends of one key: {} taken, {duplicates} duplicates", sent.len()),
    );
    let from = 0;
    if let Some(id) = sent.first() {
        world.outcome(from, *id).await?;
    }
    Ok(Seen::when(duplicates > 0, format!("{duplicates} of 64 sends met the key of another")))
}

async fn at_once(world: &mut World) -> Result<Seen, BoxError> {
    if world.turn > 0 {
        return Ok(Seen::when(false, "once is enough"));
    }
    let count: u64 = if world.is_smoke { 100_000 } else { 1_000_000 };
    let (store, shard) = world.store().await?;
    let payload = serde_json::to_vec(&Task::new(7, Plan::Quick))?;
    let envelope = [b"task 1\n".as_slice(), &payload].concat();
    let bytes = checksum(&payload);
    // All due in one millisecond, once all are there.
    let due_ms = wall_us() / 1000 + count / 12 + 3000;
    let options = Options { priority: 5, attempts_max: 6, ..Options::default() };
    for _ in 0..count / 200 {
        let ids: Vec<Uuid> = (0..200).map(|_| Uuid::now_v7()).collect();
        let jobs: Vec<NewJob> = ids
            .iter()
            .map(|id| NewJob {
                id: id.into_bytes(),
                when: format!("@{due_ms}"),
                options: options.clone(),
                envelope: envelope.clone(),
            })
            .collect();
        world.tell(What::ManyInvoke { ids: ids.clone(), when: When::At(due_ms), attempts_max: 6, bytes });
        store.enqueue(&shard, &jobs).await?;
        world.tell(What::ManyOk { ids });
    }
    let waiting = store.stats(&shard).await?.waiting;
    let early = (wall_us() / 1000) < due_ms;
    world.tell(What::Slack { ms: 60_000 + count / 3, why: format!("{count} jobs are due at once") });
    world.patience = Duration::from_millis(120_000 + count);
    let from = wall_us() / 1000;
    world.rest_ms(due_ms.saturating_sub(from) + 500).await?;
    loop {
        let stats = store.stats(&shard).await?;
        if stats.due < 1000 || wall_us() / 1000 > due_ms + 60_000 + count {
            let ms = wall_us() / 1000 - due_ms;
            return Ok(Seen::when(
                early && waiting >= count,
                format!("{waiting} jobs waited for one millisecond, and were given out in {ms} ms"),
            ));
        }
        world.rest_ms(200).await?;
    }
}

async fn garbage(world: &mut World) -> Result<Seen, BoxError> {
    let (store, shard) = world.store().await?;
    let key = |name: &str| shard.key(name);
    let ids: Vec<Uuid> = (0..6).map(|_| Uuid::now_v7()).collect();
    world.tell(What::Reported { ids: ids.clone(), how: "they are of a foreign writer".to_owned() });
    let before = store.stats(&shard).await?.counters.get("quarantined").copied().unwrap_or(0);
    let mut redis = patient(&world.servers.main_url()).await?;
    let due = key("due:5");
    let big = vec![b'x'; 10 << 20];
    let headless = [&[1_u8, b'5'][..], &[0; 10]].concat();
    let zadd = |key: &[u8], score: &str, member: &[u8]| ::redis::cmd("ZADD").arg(key).arg(score).arg(member).to_owned();
    let hset = |key: &[u8], field: &[u8], value: &[u8]| ::redis::cmd("HSET").arg(key).arg(field).arg(value).to_owned();
    let (jobs, stats) = (key("jobs"), key("stats"));
    let id = |nth: usize| ids[nth].as_bytes().as_slice();
    let mut writes = vec![
        // No id at all; an id without a record; without a score that is a time.
        vec![zadd(&due, "0", b"abc")],
        vec![zadd(&due, "1", id(0))],
        vec![zadd(&due, "-inf", id(1))],
        vec![zadd(&key("due:0"), "3", b"")],
        // Records without a readable header, one of them of 10 MiB.
        vec![hset(&jobs, id(2), &headless), zadd(&due, "0.5", id(2))],
        vec![hset(&jobs, id(3), &big), zadd(&due, "2", id(3))],
        vec![zadd(&key("wake"), "inf", b"x")],
        vec![hset(&stats, b"timer_at", b"soon")],
        vec![hset(&stats, b"last_beat", b"never")],
    ];
    // In an order of chance.
    while !writes.is_empty() {
        let at = world.dice.between(0, writes.len() as u64 - 1) as usize;
        for write in writes.swap_remove(at) {
            let _: ::redis::Value = write.query_async(&mut redis).await?;
        }
        let pause = world.dice.between(0, 40);
        world.rest_ms(pause).await?;
    }
    // A due time without end: nobody will ever take it, and nobody else may wait for it.
    let _: i64 = ::redis::cmd("ZADD").arg(&due).arg("inf").arg(ids[4].as_bytes()).query_async(&mut redis).await?;
    neighbours(world, 12, "beside a job that is due never").await?;
    let _: i64 = ::redis::cmd("ZREM").arg(&due).arg(ids[4].as_bytes()).query_async(&mut redis).await?;
    let changed = changed_records(world, &mut redis).await?;
    wrong_type(world, &mut redis).await?;
    neighbours(world, 8, "after a key of the wrong type").await?;
    let after = store.stats(&shard).await?.counters.get("quarantined").copied().unwrap_or(0);
    let dead = world.client().await?.dead_letters(QUEUE);
    for id in &ids[2..4] {
        let letter = dead.get((*id).into()).await?;
        let reason = letter.and_then(|letter| letter.reason).map(|reason| reason.to_string());
        world.demand(
            'Q',
            reason.as_deref() == Some("undecodable"),
            format!("a record without a header is a dead letter: {reason:?}"),
        );
    }
    let by = format!("{} entries were put aside, {changed} changed records among the jobs ended", after - before);
    Ok(Seen::when(after > before && changed > 0, by))
}

/// Copies of real records, changed by chance, as jobs of their own: each of them ends somehow, and jobs beside them are done.
/// Answers how many ended.
async fn changed_records(
    world: &mut World,
    redis: &mut ::redis::aio::MultiplexedConnection,
) -> Result<usize, BoxError> {
    let (store, shard) = world.store().await?;
    let mut real = Vec::new();
    for unique in [None, Some(format!("changed-{}-{}", world.spin, world.turn))] {
        // They are run in their time, like all others.
        let order = Order { unique, ..Order::after(1500, Ending::Done) };
        world.send_as(Task::new(0, Plan::Well), &order).await?;
        if let Found::Job { record, .. } = store.inspect(&shard, order.id.as_bytes()).await? {
            real.push(record);
        }
    }
    let ids: Vec<Uuid> = (0..if world.is_smoke { 40 } else { 150 }).map(|_| Uuid::now_v7()).collect();
    world.tell(What::Reported { ids: ids.clone(), how: "they are of a foreign writer".to_owned() });
    for id in &ids {
        let mut record = world.dice.pick(&real).to_vec();
        for _ in 0..world.dice.between(1, 3) {
            change(&mut world.dice, &mut record);
        }
        let _: i64 =
            ::redis::cmd("HSET").arg(shard.key("jobs")).arg(id.as_bytes()).arg(record).query_async(redis).await?;
        let _: i64 = ::redis::cmd("ZADD").arg(shard.key("due:5")).arg(1).arg(id.as_bytes()).query_async(redis).await?;
        if world.dice.percent(20) {
            let pause = world.dice.between(0, 20);
            world.rest_ms(pause).await?;
        }
    }
    neighbours(world, 12, "beside changed records").await?;
    let mut left = ids.clone();
    // One that says that it killed its workers waits for a worker that has nothing else to do.
    for _ in 0..150 {
        let mut live = Vec::new();
        for id in left {
            match store.inspect(&shard, id.as_bytes()).await {
                Ok(Found::Job { place: Place::Due | Place::Running, .. }) => live.push(id),
                Ok(_) => {}
                // No script can say where an unreadable one is that nobody has met yet.
                Err(_) => live.push(id),
            }
        }
        left = live;
        if left.is_empty() {
            break;
        }
        world.rest_ms(200).await?;
    }
    world.demand('T', left.is_empty(), format!("{} changed records have not ended: {left:?}", left.len()));
    Ok(ids.len() - left.len())
}

/// Changes some bytes, more often those of the header than others.
fn change(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let reach = if dice.percent(60) { bytes.len().min(48) } else { bytes.len() } as u64;
    let at = dice.between(0, reach) as usize;
    match dice.roll() % 6 {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, dice.roll() as u8),
        2 => drop(bytes.drain(at..bytes.len().min(at + 5))),
        3 => {
            let part = bytes[at..bytes.len().min(at + 7)].to_vec();
            bytes.splice(at..at, part);
        }
        kind => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = if kind == 4 { *byte ^ (1 << (dice.roll() % 8)) } else { *dice.pick(&[0, 1, 0x7f, 0xff]) };
            }
        }
    }
}

/// Jobs of the campaign's own are done all the same.
async fn neighbours(world: &mut World, count: u64, beside: &str) -> Result<(), BoxError> {
    let from = world.mark();
    let mut ids = Vec::new();
    for nth in 0..count {
        ids.push(world.send(Task::new(0, Plan::Well), nth * 20).await?);
    }
    for id in ids {
        let ended = world.outcome(from, id).await?;
        world.demand('T', ended.as_deref() == Some("done"), format!("{id} is done {beside}: {ended:?}"));
    }
    Ok(())
}

/// A key of another type in the place of one of the store's, for some time.
async fn wrong_type(world: &mut World, redis: &mut ::redis::aio::MultiplexedConnection) -> Result<(), BoxError> {
    let (_, shard) = world.store().await?;
    let name = *world.dice.pick(&["tombs", "done", "error", "wake", "due:5"]);
    let (key, aside) = (shard.key(name), shard.key("aside"));
    world.tell(What::Reported { ids: Vec::new(), how: "corrupt".to_owned() });
    world.disturbed(None, "a key is of the wrong type");
    // Each in one step: a job that came in between would be lost by the campaign's own hand.
    let replace = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end \
                   redis.call('SET', KEYS[1], 'of no use')";
    let restore = "redis.call('DEL', KEYS[1]) \
                   if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[1]) end";
    let run = |script: &str| {
        let mut run = ::redis::cmd("EVAL");
        run.arg(script).arg(2).arg(&key).arg(&aside);
        run
    };
    let _: () = run(replace).query_async(redis).await?;
    let ms = world.dice.between(200, 900);
    world.rest_ms(ms).await?;
    let _: () = run(restore).query_async(redis).await?;
    world.calm(None);
    Ok(())
}

async fn large_integers(world: &mut World) -> Result<Seen, BoxError> {
    let (client, journal) = (world.client().await?, world.journal()?);
    let from = world.mark();
    let fixed = [(1 << 53) - 1, 1 << 53, (1 << 53) + 1, i64::MAX as u64, u64::MAX];
    let drawn: Vec<u64> = (0..8).map(|_| (1 << 53) + world.dice.roll() % (1 << 62)).collect();
    let mut ids = Vec::new();
    for n in fixed.into_iter().chain(drawn) {
        // A retry carries them through the scripts once more.
        let order = Order::after(0, Ending::Done);
        send(&journal, &client, Task::new(n, Plan::FailFirst(1)), &order).await;
        let payload = serde_json::to_vec(&Task::new(n, Plan::FailFirst(1)))?;
        ids.push((order.id, n, checksum(&payload)));
    }
    let mut whole = 0;
    for (id, n, sum) in &ids {
        let effect = |event: &crate::history::Event| match &event.what {
            What::Effect { id: is, bytes, .. } if is == id => Some(*bytes),
            _ => None,
        };
        let got = world.wait(from, 10_000, effect).await?;
        whole += usize::from(got == Some(*sum));
        world.demand('O', got == Some(*sum), format!("{n} came as it was sent"));
    }
    Ok(Seen::when(whole > 0, format!("{whole} numbers above 2^53 were sent")))
}

async fn impossible_due(world: &mut World) -> Result<Seen, BoxError> {
    let (client, journal) = (world.client().await?, world.journal()?);
    let (store, shard) = world.store().await?;
    let from = world.mark();
    // What lies in the past is due now, also before 1970.
    for at in [jiff::Timestamp::MIN, jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::from_second(-1)?] {
        let (id, task) = (Uuid::now_v7(), Task::new(1, Plan::Well));
        let bytes = checksum(&serde_json::to_vec(&task)?);
        journal.tell(What::EnqueueInvoke { id, when: When::At(0), ending: Ending::Done, attempts_max: 6, bytes });
        match client.schedule_at::<Task>(at).id(id.into()).retain_for(Duration::from_secs(60)).send(task).await {
            Ok(handle) => journal.tell(What::EnqueueOk { id, new: handle.is_new() }),
            Err(error) => drop(crate::sender::refused(&journal, id, &error)),
        }
        let ended = world.outcome(from, id).await?;
        world.demand('T', ended.as_deref() == Some("done"), format!("a job due at {at} is run: {ended:?}"));
    }
    // What no clock will show is refused, and nothing is written.
    let mut refused = 0;
    let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    let answers = [
        (
            first,
            client.schedule::<Task>(Duration::MAX).id(first.into()).send(Task::new(1, Plan::Well)).await.map(|_| ()),
        ),
        (second, client.schedule_at::<Task>(beyond).id(second.into()).send(Task::new(1, Plan::Well)).await.map(|_| ())),
    ];
    let mut told: Vec<(Uuid, String, Result<(), delayq::Error>)> =
        answers.into_iter().map(|(id, answer)| (id, "beyond the year 9999".to_owned(), answer)).collect();
    for when in ["@-5", "+-1", "@1e3", "+99999999999999999999", "@253402300800000", "-7", ""] {
        let id = Uuid::now_v7();
        let job = NewJob {
            id: id.into_bytes(),
            when: when.to_owned(),
            options: Options { priority: 5, attempts_max: 4, ..Options::default() },
            envelope: b"task 1\n{}".to_vec(),
        };
        told.push((id, format!("{when:?}"), store.enqueue(&shard, &[job]).await.map(|_| ())));
    }
    for (id, when, answer) in told {
        let kind = answer.err().map(|error| error.kind());
        let found = store.inspect(&shard, id.as_bytes()).await?;
        let well = kind == Some(ErrorKind::InvalidArgument) && found == Found::None;
        refused += usize::from(well);
        world.demand(
            'S',
            well,
            format!("a due time of {when} is refused, and nothing is written: {kind:?}, {found:?}"),
        );
    }
    Ok(Seen::when(refused > 0, format!("{refused} impossible due times were refused")))
}

async fn races(world: &mut World) -> Result<Seen, BoxError> {
    let (client, journal) = (world.client().await?, Arc::new(world.journal()?));
    let mut hands = JoinSet::new();
    // Cancels that come before, during and after the run.
    for nth in 0..30_u64 {
        let (client, journal) = (client.clone(), journal.clone());
        let (due, wait, takes) = (world.dice.between(0, 400), world.dice.between(0, 600), world.dice.between(0, 200));
        hands.spawn(async move {
            let order = Order::after(due, Ending::Any);
            send(&journal, &client, Task::new(nth, Plan::Well).before_effect(takes), &order).await;
            tokio::time::sleep(Duration::from_millis(wait)).await;
            cancel(&journal, &client, order.id).await;
            cancel(&journal, &client, order.id).await;
        });
    }
    // Dead letters that are sent to work again, and die again.
    let mut letters = Vec::new();
    for _ in 0..4 {
        letters.push(world.send(Task::new(0, Plan::Bury), 0).await?);
    }
    for id in letters {
        let (client, journal) = (client.clone(), journal.clone());
        hands.spawn(async move {
            let dead = client.dead_letters(QUEUE);
            for _ in 0..40 {
                // A worker may have it before its answer is here.
                let asked = now_us();
                match dead.redrive(id.into()).await {
                    Err(error) if !error.is_unknown() => {}
                    // Without an answer it may have been done too.
                    _ => journal.tell_at(asked, What::Redriven { id }),
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        });
    }
    // The queue stops and goes on meanwhile. Nobody is disturbed by that; it only makes jobs late.
    world.disturbed(Some("queue"), "it is paused now and then");
    let pauses = tokio::spawn(pauses(client.clone(), Dice::new(world.dice.roll())));
    let failover = match world.setup.engine {
        EngineKind::Redis => Some(failover_amid(world).await?),
        EngineKind::Embedded => None,
    };
    while !pauses.is_finished() {
        world.rest_ms(10).await?;
    }
    let paused = pauses.await??;
    while let Some(ended) = hands.join_next().await {
        ended?;
    }
    world.calm(Some("queue"));
    world.mark();
    let count = |wanted: &str| {
        let told =
            |event: &&crate::history::Event| matches!(&event.what, What::CancelTold { answer, .. } if answer == wanted);
        world.events.iter().filter(told).count()
    };
    let redriven = world.events.iter().filter(|event| matches!(event.what, What::Redriven { .. })).count();
    let (cancelled, running) = (count("cancelled"), count("running"));
    let raced = format!("{paused} pauses, {cancelled} cancels in time, {running} of running jobs, {redriven} redrives");
    let by = failover.iter().fold(raced, |raced, failover| format!("{raced}; {}", failover.by));
    let promoted = failover.is_none_or(|failover| failover.fired);
    Ok(Seen::when(paused > 0 && cancelled + running > 0 && redriven > 0 && promoted, by))
}

/// Stops the queue and lets it go on, again and again; how often it was stopped. A client asks again by itself while the servers
/// change places.
async fn pauses(client: Client, mut dice: Dice) -> Result<u64, delayq::Error> {
    let mut paused = 0;
    for _ in 0..8 {
        paused += u64::from(client.pause(QUEUE).await?);
        tokio::time::sleep(Duration::from_millis(dice.between(0, 120))).await;
        client.resume(QUEUE).await?;
        tokio::time::sleep(Duration::from_millis(dice.between(0, 200))).await;
    }
    Ok(paused)
}

/// A planned failover in the middle of all that. It excuses no further run, unless it takes so long that it may cost a lease.
async fn failover_amid(world: &mut World) -> Result<Seen, BoxError> {
    let pause = world.dice.between(50, 500);
    world.rest_ms(pause).await?;
    world.probe.hush(true);
    let began = now_us();
    let seen = handed_over(world).await?;
    let took = now_us() - began;
    // What the probe asked meanwhile is answered by now, or soon.
    world.rest_ms(400).await?;
    world.probe.hush(false);
    if took > bearable(world) {
        world.was_disturbed(began, "the failover took longer than a worker can do without the store");
    }
    world.servers.in_sync(Duration::from_secs(15)).await?;
    Ok(Seen::when(seen.fired, format!("{}, {} ms in all", seen.by, took / 1000)))
}
