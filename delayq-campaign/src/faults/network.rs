//! Faults of the network, by a proxy before each process.

use std::time::{Duration, Instant};

use delayq::{BoxError, Client};

use super::worker::digests;
use super::{Fault, Seen, built};
use crate::history::What;
use crate::sender::{Answer, Order, send};
use crate::work::{Plan, Task};
use crate::world::{Blow, End, Kind, Mode, Proxy, Setup, World};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(44 "slow-network" Network REDIS, slow, "200 ms with jitter, there and back: nothing runs twice", |setup| {
            proxied(setup);
            setup.lease_ms = 4000;
        }),
        built!(45 "reset-at-each-byte" Network REDIS, reset_at_each_byte, "a reset at each byte of the replies to enqueue, claim and settle: nothing runs twice", |setup| {
            proxied(setup);
            setup.lease_ms = 3000;
        }),
        built!(46 "half-open" Network REDIS, half_open, "connections that are dead, though nobody was told", proxied),
        built!(47 "truncated-reply" Network REDIS, truncated, "replies that end in the middle, on connections that stay: nothing runs twice", |setup| {
            proxied(setup);
            setup.lease_ms = 3000;
        }),
        built!(48 "a-byte-a-second" Network REDIS, byte_a_second, "replies come at one byte a second", proxied),
        built!(49 "lost-enqueue-reply" Network REDIS, lost_enqueue_reply, "the reply to a send is lost, the same id is sent again: one job", proxied),
        built!(50 "refused-at-start" Network REDIS, refused_at_start, "nothing listens when processes start", proxied),
    ]
}

fn proxied(setup: &mut Setup) {
    setup.worker_proxies = true;
    setup.producer_proxies = true;
}

/// Does something with the proxy of each process of a kind.
fn each<T>(world: &World, kind: Kind, mut act: impl FnMut(&Proxy) -> T) -> Vec<T> {
    let of_kind = world.procs.iter().filter(|proc| proc.kind == kind);
    of_kind.filter_map(|proc| proc.proxy.as_ref().map(&mut act)).collect()
}

fn touched(world: &World) -> u64 {
    [Kind::Worker, Kind::Producer].iter().flat_map(|kind| each(world, *kind, Proxy::touched)).sum()
}

fn struck(world: &World, kind: Kind) -> u64 {
    each(world, kind, Proxy::struck).iter().sum()
}

fn set_all(world: &World, mode: Mode) {
    for kind in [Kind::Worker, Kind::Producer] {
        each(world, kind, |proxy| proxy.set(mode));
    }
}

/// For some time, this mode before all processes.
async fn for_a_while(world: &mut World, mode: Mode, ms: u64) -> Result<u64, BoxError> {
    let before = touched(world);
    set_all(world, mode);
    world.rest_ms(ms).await?;
    set_all(world, Mode::Pass);
    Ok(touched(world) - before)
}

async fn slow(world: &mut World) -> Result<Seen, BoxError> {
    world.tell(What::Slack { ms: 10_000, why: "each call takes 200 ms and more".to_owned() });
    let ms = world.dice.between(3000, 6000);
    let pieces = for_a_while(world, Mode::Delay { least_ms: 70, jitter_ms: 60 }, ms).await?;
    Ok(Seen::when(pieces > 0, format!("{pieces} pieces were delayed by 70 to 130 ms, in {ms} ms")))
}

/// Who sends a script, and how many bytes at most pass of an answer to it. To one send and one settle that is the whole answer;
/// a claim's has the records in it, and nearly all are shorter: then a job comes along that makes it long enough.
const ANSWERS: [(&str, Kind, u64); 3] =
    [("enqueue", Kind::Producer, 16), ("claim", Kind::Worker, 599), ("settle", Kind::Worker, 19)];
/// How many places in the answers to one script are cut in a turn. Where there are more, seeds that follow each other share them.
const CUTS: u64 = 75;
/// How much longer than what pads a job the answer to its claim is at least, bytes.
const UNPADDED: u64 = 200;
/// How often such a job is sent until its claim was struck.
const FEED: Duration = Duration::from_millis(60);

async fn reset_at_each_byte(world: &mut World) -> Result<Seen, BoxError> {
    // Nobody is disturbed, nothing may run twice; but while claim after claim is struck, jobs may wait.
    world.disturbed(Some("claims"), "their replies are cut");
    let (mut told, mut each_was_hit) = (Vec::new(), true);
    for (script, kind, bytes) in ANSWERS {
        let share = (bytes + 1).div_ceil(CUTS);
        let nth = (world.round + world.turn) % share;
        let places: Vec<u64> = match world.is_smoke {
            true => (0..5).map(|_| world.dice.between(0, bytes)).collect(),
            false => (0..=bytes).filter(|place| place % share == nth).collect(),
        };
        let (mut hits, mut furthest) = (0, 0);
        for keep in &places {
            let hit = cut_once(world, (script, kind), *keep, End::Reset, 900).await?;
            hits += hit;
            furthest = furthest.max(hit * keep);
        }
        // And one that never arrives.
        strike_once(world, script, kind, Blow::Request { keep: 0, end: End::Reset }, None, 900).await?;
        told.push(format!("{hits} of {} to {script}, up to byte {furthest}", places.len()));
        each_was_hit &= hits > 0;
    }
    world.calm(Some("claims"));
    Ok(Seen::when(each_was_hit, format!("replies were cut by a reset: {}", told.join("; "))))
}

/// Cuts an answer to a script that is long enough for it; 1 if one came within the patience.
async fn cut_once(
    world: &mut World,
    (script, kind): (&str, Kind),
    keep: u64,
    end: End,
    patience_ms: u64,
) -> Result<u64, BoxError> {
    let mut job = Task::new(0, Plan::Well);
    job.pad = "x".repeat(keep.saturating_sub(UNPADDED) as usize);
    let job = (script == "claim").then_some(&job);
    strike_once(world, script, kind, Blow::Reply { keep: keep as usize, end }, job, patience_ms).await
}

/// Strikes the next call of a script by one process of a kind, each in its turn, so that the others can go on with the work;
/// 1 if one came within the patience. Until then this job is sent again and again.
async fn strike_once(
    world: &mut World,
    script: &str,
    kind: Kind,
    blow: Blow,
    job: Option<&Task>,
    patience_ms: u64,
) -> Result<u64, BoxError> {
    let digests = digests(&[script]);
    let needles: Vec<&str> = digests.iter().map(String::as_str).collect();
    let names = world.names(kind);
    let Some(who) = names.get(world.strikes as usize % names.len().max(1)).cloned() else { return Ok(0) };
    world.strikes += 1;
    let before = struck(world, kind);
    if let Some(proxy) = &world.proc(&who)?.proxy {
        proxy.strike(blow, &needles, 1);
    }
    let until = Instant::now() + Duration::from_millis(patience_ms);
    let mut next = Instant::now();
    while struck(world, kind) == before && Instant::now() < until {
        if let Some(job) = job.filter(|_| next <= Instant::now()) {
            next = Instant::now() + FEED;
            world.send(job.clone(), 0).await?;
        }
        world.rest_ms(5).await?;
    }
    each(world, kind, Proxy::spare);
    Ok(struck(world, kind) - before)
}

async fn half_open(world: &mut World) -> Result<Seen, BoxError> {
    let ms = world.dice.between(1200, 4000);
    let before = touched(world);
    match (world.spin + world.turn) % 3 {
        0 => {
            let Some(who) = world.names(Kind::Worker).first().cloned() else {
                return Ok(Seen::when(false, "no worker"));
            };
            world.disturbed(Some(&who), "its connections are half-open");
            if let Some(proxy) = &world.proc(&who)?.proxy {
                proxy.set(Mode::Swallow);
            }
            world.rest_ms(ms).await?;
            if let Some(proxy) = &world.proc(&who)?.proxy {
                proxy.set(Mode::Pass);
            }
            // Dead lines stay dead: it finds out by its own timeouts.
            world.rest_ms(2500).await?;
            world.calm(Some(&who));
        }
        turn => {
            world.disturbed(None, "connections are half-open");
            let kinds: &[Kind] = if turn == 1 { &[Kind::Worker, Kind::Producer] } else { &[Kind::Producer] };
            kinds.iter().for_each(|kind| drop(each(world, *kind, |proxy| proxy.set(Mode::Swallow))));
            world.rest_ms(ms).await?;
            set_all(world, Mode::Pass);
            world.rest_ms(2500).await?;
            world.calm(None);
        }
    }
    let pieces = touched(world) - before;
    Ok(Seen::when(pieces > 0, format!("{pieces} pieces were swallowed in {ms} ms")))
}

async fn truncated(world: &mut World) -> Result<Seen, BoxError> {
    let mut hits = 0;
    for (script, kind, bytes) in ANSWERS {
        let keep = world.dice.between(1, bytes - 1);
        hits += cut_once(world, (script, kind), keep, End::Silence, 1500).await?;
    }
    world.rest_ms(2500).await?;
    Ok(Seen::when(hits > 0, format!("{hits} replies ended in the middle")))
}

async fn byte_a_second(world: &mut World) -> Result<Seen, BoxError> {
    world.disturbed(None, "replies come at a byte a second");
    let ms = world.dice.between(2500, 5000);
    let pieces = for_a_while(world, Mode::Trickle(1000), ms).await?;
    world.rest_ms(2500).await?;
    world.calm(None);
    Ok(Seen::when(pieces > 0, format!("{pieces} bytes came one by one in {ms} ms")))
}

async fn lost_enqueue_reply(world: &mut World) -> Result<Seen, BoxError> {
    // The producers' clients repeat what got no answer by themselves.
    let digests = digests(&["enqueue"]);
    let needles: Vec<&str> = digests.iter().map(String::as_str).collect();
    let before = struck(world, Kind::Producer);
    each(world, Kind::Producer, |proxy| proxy.strike(Blow::Reply { keep: 0, end: End::Reset }, &needles, 20));
    // A client of the campaign's own gives up early, and sends again as the documents say.
    let seed = world.dice.roll();
    let proxy = Proxy::start(world.servers.port(), seed).await?;
    let client = Client::builder()
        .response_timeout(Duration::from_millis(150))
        .send_deadline(Duration::from_millis(150))
        .connect(&format!("redis://127.0.0.1:{}/", proxy.port()))
        .await?;
    let journal = world.journal()?;
    let mut hits = 0;
    for nth in 0..6_u64 {
        let order = Order::after(if nth % 2 == 0 { 0 } else { 600 }, Plan::Well.ending());
        let order = Order { retain: None, ..order };
        let from = world.mark();
        let before = proxy.struck();
        // Where the script is changed on its way, the server never knows its digest: the answer to its text is what must be lost.
        let text = "unique_ttl=(%d+)";
        let needle = if world.setup.mutant.is_some() { text } else { needles[0] };
        proxy.strike(Blow::Reply { keep: 0, end: End::Reset }, &[needle], 30);
        let first = send(&journal, &client, Task::new(nth, Plan::Well), &order).await;
        proxy.spare();
        hits += u64::from(first == Answer::Unknown && proxy.struck() > before);
        if nth % 2 == 0 {
            // Its job has run and is gone when the same id comes again.
            world.outcome(from, order.id).await?;
            world.rest_ms(100).await?;
        }
        let mut again = send(&journal, &client, Task::new(nth, Plan::Well), &order).await;
        for _ in 0..5 {
            if again == Answer::Unknown {
                again = send(&journal, &client, Task::new(nth, Plan::Well), &order).await;
            }
        }
        world.outcome(from, order.id).await?;
        world.rest_ms(700).await?;
        let runs = world.runs_of(order.id);
        world.demand('D', runs == 1, format!("{} was sent twice, and had {runs} runs", order.id));
    }
    each(world, Kind::Producer, Proxy::spare);
    let lost = struck(world, Kind::Producer) - before;
    Ok(Seen::when(
        hits > 0,
        format!("{lost} replies to producers were lost, and {hits} sends of unknown outcome were repeated"),
    ))
}

async fn refused_at_start(world: &mut World) -> Result<Seen, BoxError> {
    let from = world.mark();
    world.first_mode = Mode::Refuse;
    let worker = world.add_worker().await?;
    let producer = world.add_producer().await?;
    world.first_mode = Mode::Pass;
    let ms = world.dice.between(700, 2000);
    world.rest_ms(ms).await?;
    let mut refused = 0;
    for name in [&worker, &producer] {
        if let Some(proxy) = &world.proc(name)?.proxy {
            refused += proxy.accepted();
            proxy.set(Mode::Pass);
        }
    }
    let works =
        |event: &crate::history::Event| (event.by == worker && matches!(event.what, What::Claim { .. })).then_some(());
    let works = world.wait(from, 15_000, works).await?;
    let sends = |event: &crate::history::Event| {
        (event.by == producer && matches!(event.what, What::EnqueueOk { .. })).then_some(())
    };
    let sends = world.wait(from, 15_000, sends).await?;
    world.demand(
        'T',
        works.is_some() && sends.is_some(),
        "processes that were refused at their start work once they are let in",
    );
    // As many as before.
    world.signal(&worker, rustix::process::Signal::TERM)?;
    world.gone(&worker, 15_000).await?;
    world.signal(&producer, rustix::process::Signal::TERM)?;
    world.gone(&producer, 15_000).await?;
    Ok(Seen::when(refused > 0, format!("{refused} connections were refused in {ms} ms")))
}
