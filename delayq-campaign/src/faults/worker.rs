//! Faults of workers: killed, frozen, stopped, starved, and killed by their own jobs.

use std::time::Duration;

use delayq::BoxError;
use delayq::store::{Member, Refusal, SessionId};
use rustix::process::Signal;
use uuid::Uuid;

use super::{Fault, Seen, built};
use crate::history::What;
use crate::work::{Plan, Task};
use crate::world::{Blow, End, World};

/// How long a run takes that must not have ended when its worker is struck, however slow the machine is.
const LONG_MS: u64 = 2500;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(1 "kill-after-claim" Worker BOTH, kill_after_claim, "kill -9 between a claim and the handler"),
        built!(2 "freeze-past-lease" Worker BOTH, freeze_past_lease, "SIGSTOP longer than the lease, then CONT: its settle is refused"),
        built!(3 "freeze-within-lease" Worker BOTH, freeze_within_lease, "SIGSTOP shorter than the lease: no second run", |setup| setup.lease_ms = 2500),
        built!(4 "kill-before-effect" Worker BOTH, kill_before_effect, "kill -9 in the handler, before its effect"),
        built!(5 "kill-before-settle" Worker BOTH, kill_before_settle, "kill -9 between effect and settle: exactly one further run"),
        built!(6 "kill-after-settle-sent" Worker BOTH, kill_after_settle_sent, "kill -9 a moment after the settle was sent"),
        built!(7 "kill-during-renewal" Worker REDIS, kill_during_renewal, "kill -9 while a renewal is under way", |setup| setup.worker_proxies = true),
        built!(8 "sigterm-drain" Worker BOTH, sigterm_drain, "SIGTERM: what runs ends, nothing runs again"),
        built!(9 "sigterm-then-kill" Worker BOTH, sigterm_then_kill, "SIGTERM, and kill -9 in the middle of the drain"),
    ]
}

/// Sends a job, waits for who claims it.
pub(super) async fn given_out(world: &mut World, task: Task) -> Result<Option<(Uuid, String, u64)>, BoxError> {
    let from = world.mark();
    let id = world.send(task, 0).await?;
    Ok(world.claimed(from, id).await?.map(|(who, token)| (id, who, token)))
}

async fn kill_after_claim(world: &mut World) -> Result<Seen, BoxError> {
    let Some((id, who, _)) = given_out(world, Task::new(0, Plan::Well).before_start(20_000)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let pause = world.dice.between(0, 300);
    world.rest_ms(pause).await?;
    let from = world.mark();
    world.kill(&who).await?;
    // The next run would pause as long: it is cut short by its end.
    let again = world.claimed(from, id).await?;
    world.replace_workers().await?;
    let Some((other, _)) = again else {
        world.demand('T', false, format!("{id} was not given out again within 15 s of the end of {who}"));
        return Ok(Seen::when(true, format!("{who} was killed with a claim")));
    };
    world.demand('D', other != who, "another worker has it");
    Ok(Seen::when(true, format!("{who} was killed with a claim, {other} got the job")))
}

async fn freeze_past_lease(world: &mut World) -> Result<Seen, BoxError> {
    let (store, shard) = world.store().await?;
    let sessions: Vec<SessionId> = store.sessions(&shard).await?.iter().map(|session| session.id).collect();
    let Some((id, who, token)) = given_out(world, Task::new(0, Plan::Well).before_effect(LONG_MS)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let lease_ms = world.setup.lease_ms;
    let from = world.mark();
    world.disturbed(Some(&who), "it was frozen for longer than its lease");
    world.signal(&who, Signal::STOP)?;
    let again = world.claimed(from, id).await?;
    if again.is_some() {
        probe_stale(world, id, token, &sessions).await?;
    }
    let extra = world.dice.between(0, lease_ms);
    world.rest_ms(extra).await?;
    let woken = world.mark();
    world.signal(&who, Signal::CONT)?;
    let alarmed = world
        .wait(woken, 5000, |event| match &event.what {
            What::Alarm { text } if event.by == who && text.contains("session was lost") => Some(()),
            _ => None,
        })
        .await?;
    world.calm(Some(&who));
    world.demand('A', alarmed.is_some(), format!("{who} notices that its session was lost"));
    let ended = world.outcome(from, id).await?;
    world.demand('T', again.is_some() && ended.is_some(), format!("{id} was run by another worker meanwhile"));
    Ok(Seen::when(alarmed.is_some(), format!("{who} slept past its lease and lost its session")))
}

/// Tries to settle a run that its session no longer holds: by each session that there was, and by a new one.
async fn probe_stale(world: &mut World, id: Uuid, token: u64, sessions: &[SessionId]) -> Result<(), BoxError> {
    use delayq::store::ops::{Settled, Verdict};
    let (store, shard) = world.store().await?;
    let stranger = Uuid::now_v7().into_bytes();
    store.open(&shard, &stranger, Duration::from_millis(world.setup.lease_ms)).await?;
    let stale = [(Member::new(id.as_bytes(), token), Verdict::DoneExtended)];
    let living: Vec<SessionId> =
        store.sessions(&shard).await?.iter().filter(|s| s.expires_ms > 0).map(|s| s.id).collect();
    let dead = sessions.iter().filter(|session| !living.contains(session));
    for session in std::iter::once(&stranger).chain(dead) {
        let answer = store.settle(&shard, session, 1 << 40, &stale).await?;
        let accepted = matches!(&answer, Ok(told) if told.first() != Some(&Settled::NotHeld));
        let answer = match answer {
            Ok(told) => format!("{told:?}"),
            Err(Refusal::Lost) => "the session is lost".to_owned(),
            Err(Refusal::Stale) => "the call is stale".to_owned(),
        };
        world.tell(What::Settle { id, token, accepted, answer });
    }
    let _ = store.close(&shard, &stranger).await?;
    Ok(())
}

async fn freeze_within_lease(world: &mut World) -> Result<Seen, BoxError> {
    let Some((id, who, _)) = given_out(world, Task::new(0, Plan::Well).before_effect(800)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let lease_ms = world.setup.lease_ms;
    let pause_ms = world.dice.between(lease_ms / 8, lease_ms / 3);
    let from = world.mark();
    // Not a disturbance: nothing may come of it.
    world.signal(&who, Signal::STOP)?;
    world.rest_ms(pause_ms).await?;
    world.signal(&who, Signal::CONT)?;
    let ended = world.outcome(from, id).await?;
    let runs = world.runs_of(id);
    world.demand('D', runs == 1, format!("{id} had {runs} runs, and one was due"));
    Ok(Seen::when(ended.is_some(), format!("{who} slept {pause_ms} of {lease_ms} ms")))
}

async fn kill_before_effect(world: &mut World) -> Result<Seen, BoxError> {
    let from = world.mark();
    let Some((id, who, _)) = given_out(world, Task::new(0, Plan::Well).before_effect(900)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let started =
        |event: &crate::history::Event| matches!(&event.what, What::Start { id: is, .. } if *is == id).then_some(());
    let started = world.wait(from, 5000, started).await?;
    let pause = world.dice.between(0, 500);
    world.rest_ms(pause).await?;
    let from = world.mark();
    world.kill(&who).await?;
    world.replace_workers().await?;
    world.outcome(from, id).await?;
    let effects = world.effects_of(id);
    world.demand('D', effects == 1, format!("{id} had {effects} effects, and was killed before the first"));
    Ok(Seen::when(started.is_some(), format!("{who} was killed before an effect")))
}

async fn kill_before_settle(world: &mut World) -> Result<Seen, BoxError> {
    let from = world.mark();
    let Some((id, who, _)) = given_out(world, Task::new(0, Plan::Well).after_effect(LONG_MS)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let effect =
        |event: &crate::history::Event| matches!(&event.what, What::Effect { id: is, .. } if *is == id).then_some(());
    let effect = world.wait(from, 5000, effect).await?;
    let pause = world.dice.between(0, 400);
    world.rest_ms(pause).await?;
    let from = world.mark();
    world.kill(&who).await?;
    world.replace_workers().await?;
    world.outcome(from, id).await?;
    let runs = world.runs_of(id);
    world.demand('D', runs == 2, format!("{id} had {runs} runs: one before the kill and one after it were due"));
    Ok(Seen::when(effect.is_some(), format!("{who} was killed between effect and settle")))
}

async fn kill_after_settle_sent(world: &mut World) -> Result<Seen, BoxError> {
    let from = world.mark();
    let Some((id, who, _)) = given_out(world, Task::new(0, Plan::Well)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let ended = world.outcome(from, id).await?;
    let pause = Duration::from_micros(world.dice.between(0, 3000));
    tokio::time::sleep(pause).await;
    world.kill(&who).await?;
    world.replace_workers().await?;
    let lease_ms = world.setup.lease_ms;
    world.rest_ms(2 * lease_ms).await?;
    let runs = world.runs_of(id);
    world.demand('D', runs <= 2, format!("{id} had {runs} runs: at most one further one was due"));
    Ok(Seen::when(ended.is_some(), format!("{who} was killed {pause:?} after its outcome; {runs} runs")))
}

/// The digests of scripts, as EVALSHA names them.
pub(super) fn digests(names: &[&str]) -> Vec<String> {
    let wanted = delayq::store::SCRIPTS.iter().filter(|file| names.contains(&file.script.name));
    wanted.map(|file| ::redis::Script::new(file.script.source).get_hash().to_owned()).collect()
}

async fn kill_during_renewal(world: &mut World) -> Result<Seen, BoxError> {
    let Some((id, who, _)) = given_out(world, Task::new(0, Plan::Well).before_effect(1200)).await? else {
        return Ok(Seen::when(false, "the job was not claimed"));
    };
    let digests = digests(&["beat"]);
    let needles: Vec<&str> = digests.iter().map(String::as_str).collect();
    let proxy = |world: &mut World| {
        world.proc(&who).ok().and_then(|proc| proc.proxy.as_ref().map(|proxy| proxy.struck())).unwrap_or_default()
    };
    if let Some(proxy) = &world.proc(&who)?.proxy {
        proxy.strike(Blow::Reply { keep: 0, end: End::Silence }, &needles, 1);
    }
    let before = proxy(world);
    for _ in 0..400 {
        if proxy(world) > before {
            break;
        }
        world.rest_ms(5).await?;
    }
    let fired = proxy(world) > before;
    let from = world.mark();
    world.kill(&who).await?;
    world.replace_workers().await?;
    world.outcome(from, id).await?;
    Ok(Seen::when(fired, format!("{who} was killed while its renewal waited for an answer")))
}

pub(super) async fn running_jobs(world: &mut World, count: u64, ms: u64) -> Result<Vec<(Uuid, String)>, BoxError> {
    let from = world.mark();
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(world.send(Task::new(0, Plan::Well).before_effect(ms), 0).await?);
    }
    let mut running = Vec::new();
    for id in ids {
        if let Some((who, _)) = world.claimed(from, id).await? {
            running.push((id, who));
        }
    }
    Ok(running)
}

async fn sigterm_drain(world: &mut World) -> Result<Seen, BoxError> {
    let running = running_jobs(world, 12, 700).await?;
    let Some((_, who)) = running.first().cloned() else { return Ok(Seen::when(false, "no job was claimed")) };
    world.signal(&who, Signal::TERM)?;
    let ended = world.gone(&who, 10_000).await?;
    world.demand('S', ended, format!("{who} ends within its grace period"));
    world.replace_workers().await?;
    world.rest_ms(300).await?;
    for (id, _) in running.iter().filter(|(_, by)| *by == who) {
        let runs = world.runs_of(*id);
        world.demand('D', runs == 1, format!("{id} had {runs} runs, and was let finish"));
    }
    Ok(Seen::when(ended, format!("{who} was asked to end with jobs that ran")))
}

async fn sigterm_then_kill(world: &mut World) -> Result<Seen, BoxError> {
    let running = running_jobs(world, 8, 1500).await?;
    let Some((_, who)) = running.first().cloned() else { return Ok(Seen::when(false, "no job was claimed")) };
    world.signal(&who, Signal::TERM)?;
    let pause = world.dice.between(0, 600);
    world.rest_ms(pause).await?;
    let from = world.mark();
    world.signal(&who, Signal::KILL)?;
    let ended = world.gone(&who, 5000).await?;
    world.replace_workers().await?;
    for (id, _) in running.iter().filter(|(_, by)| *by == who) {
        world.outcome(from, *id).await?;
    }
    Ok(Seen::when(ended, format!("{who} was killed {pause} ms into its drain")))
}
