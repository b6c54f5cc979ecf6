//! B11 to B17: what may happen once, happens once, however many want it at once and however much there is of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::limits::{CLAIM_MAX, RESCUE_CHUNK};
use delayq::store::ops::{Claim, NewJob, Rescue, Settled, Verdict};
use delayq::store::{Member, Prefix, Refusal, Store};
use delayq::{DeadReason, JobStatus};
use delayq_redis_fixture::RedisServer;
use delayq_tests::process::Process;
use delayq_tests::store_kit::{Dump, Hand, Run, With, World, ask, id, job};
use delayq_tests::{Lag, eventually, server_and_client, soon};
use futures_util::future::join_all;
use jiff::Timestamp;

use crate::kit::{
    Act, FIELD, LEASE, SLACK, Stage, child, conserved, field, key, numbers, send_all, sessions, settled, steady,
    text_id, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn b11_a_wait_longer_than_the_lease_holds_no_lease_and_ends_in_one_start() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let lease = 3 * LEASE;
    let mut stage = Stage::team(4, &client, |worker| worker.lease(lease));
    sessions(&client, FIELD, 4).await;
    let wait = 4 * lease;
    let ms = wait.as_millis() as u64;
    // The wait of a sender, of a failed run, and of one that asked for it.
    let mut waiting = Vec::new();
    for act in [Act::RetryIn { ms }, Act::Snooze { ms }] {
        waiting.push(client.enqueue().send(field(waiting.len() as u64, act)).await.unwrap());
    }
    assert_eq!(numbers(&stage.take(2).await), [0, 1]);
    waiting.push(client.schedule(wait).send(field(2, Act::Pass)).await.unwrap());
    let all_wait = || async {
        let stats = client.stats(FIELD).await.unwrap();
        (stats.waiting == 3).then_some(stats.next_due)
    };
    let first_due = eventually("all wait", all_wait).await.unwrap().as_millisecond() as u64;
    // All the while nobody takes any of them, though there is enough to be taken.
    let (mut others, lag) = (0, Lag::watch());
    while world.now_ms().await < first_due - 20 {
        client.enqueue().send(field(100, Act::Pass)).await.unwrap();
        others += 1;
        for handle in &waiting {
            let status = handle.status().await.unwrap();
            let early = world.now_ms().await < first_due;
            assert!(!early || matches!(status, JobStatus::Waiting { .. }), "{status:?}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut runs = stage.take(others + 3).await;
    runs.retain(|ran| ran.n < 100);
    runs.sort_by_key(|ran| ran.n);
    let seen: Vec<(u64, u32)> = runs.iter().map(|ran| (ran.n, ran.attempt)).collect();
    assert_eq!(seen, [(0, 2), (1, 1), (2, 1)]);
    let late = SLACK + lag.so_far();
    assert!(runs.iter().all(|ran| ran.lateness < late), "{runs:?}");
    settled(&client, FIELD, others as u64 + 3).await;
    assert!(stage.stop().await.is_empty(), "one start each");
    assert_eq!(client.stats(FIELD).await.unwrap().crashed_total, 0);
    conserved(&server, FIELD).await;
}

/// The store as another process has it.
async fn another_store(server: &RedisServer) -> Store {
    let target = Target::parse(&server.url(), Settings::default()).unwrap();
    Store::new(Arc::new(RedisEngine::connect(target).await.unwrap()), Prefix::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_eight_processes_start_each_of_ten_thousand_jobs_of_one_millisecond_once() {
    const JOBS: u64 = 10_000;
    let (server, client) = server_and_client().await;
    // A lease that a machine which is busy with all this doesn't outlast: what comes back would be right, and not what is meant.
    let start = |_| child(&server.url(), "crash", Duration::from_secs(15));
    let mut workers: Vec<Process> = (0..8).map(start).collect();
    for worker in &mut workers {
        worker.says("ready").await;
    }
    sessions(&client, "crash", 8).await;
    // Somebody looks for lost sessions every few milliseconds, and finds none.
    let store = another_store(&server).await;
    let recovering = tokio::spawn(async move {
        let shard = store.shard("crash", 0).unwrap();
        loop {
            for session in store.sessions(&shard).await.unwrap() {
                assert_eq!(store.rescue(&shard, &session.id, RESCUE_CHUNK).await.unwrap(), Rescue::Alive);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let at = world(&server, "crash").await.now_ms().await + 1500;
    let at = Timestamp::from_millisecond(at as i64).unwrap();
    send_all(client.schedule_at(at), (0..JOBS).map(|n| steady(n, 0))).await;
    // As long as it goes on it may take its time.
    let mut done = 0;
    while done < JOBS {
        let before = done;
        let more = || async { Some(client.stats("crash").await.unwrap().done_total).filter(|now| *now > before) };
        done = eventually("one more is done", more).await;
    }
    settled(&client, "crash", JOBS).await;
    assert!(!recovering.is_finished(), "a session that lives was taken for lost");
    recovering.abort();
    let mut starts: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut busy = 0;
    for mut worker in workers {
        worker.signal("TERM");
        let lines = worker.rest().await;
        let before = starts.len();
        for line in lines.iter().filter_map(|line| line.strip_prefix("start ")) {
            let (n, attempt) = line.split_once(' ').unwrap();
            starts.entry(n.parse().unwrap()).or_default().push(attempt.to_owned());
        }
        busy += usize::from(starts.len() > before);
    }
    assert!(busy > 1, "they raced");
    assert!(starts.keys().copied().eq(0..JOBS), "{} of them started", starts.len());
    let again: Vec<_> = starts.iter().filter(|(_, attempts)| **attempts != ["1"]).take(5).collect();
    assert!(again.is_empty(), "{again:?}");
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    conserved(&server, "crash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_racing_recoverers_give_each_lost_job_back_once() {
    const JOBS: u64 = 2000;
    let server = RedisServer::start().unwrap();
    let world = World::on(&server).await;
    let mut lost = world.open().await;
    for batch in 0..2 {
        world.create(&(batch * 1000..(batch + 1) * 1000).map(job).collect::<Vec<_>>()).await;
        assert_eq!(lost.take(CLAIM_MAX).await.len(), 1000);
    }
    world.expire(&lost.id).await;
    let recover = |_| async {
        let store = another_store(&server).await;
        let (mut given, mut helped) = (0, false);
        loop {
            match store.rescue(&world.shard, &lost.id, 10).await.unwrap() {
                Rescue::Took { given_back, buried: 0, cancelled: 0, quarantined: 0, .. } => {
                    given += given_back;
                    helped = true;
                }
                Rescue::Gone => return (given, helped),
                other => panic!("{other:?}"),
            }
        }
    };
    let given = join_all((0..8).map(recover)).await;
    assert_eq!(given.iter().map(|(given, _)| given).sum::<u64>(), JOBS);
    assert!(given.iter().filter(|(_, helped)| *helped).count() > 1, "they raced");
    let mut fresh = world.open().await;
    let mut seen = BTreeSet::new();
    for run in fresh.take(1000).await.into_iter().chain(fresh.take(1000).await) {
        assert!(seen.insert(run.id) && run.record.attempts == 1 && run.record.crashes == 1, "{run:?}");
    }
    assert_eq!(seen.len() as u64, JOBS);
    world.assert_conserved().await;
}

/// Each verdict that a run can come to.
fn verdicts() -> Vec<Verdict> {
    let text = || "too late".to_owned();
    vec![
        Verdict::Done,
        Verdict::DoneYoung,
        Verdict::DoneExtended,
        Verdict::Retry { delay_ms: 0, error: text() },
        Verdict::Snooze { delay_ms: 0 },
        Verdict::HandBack,
        Verdict::Discard,
        Verdict::Bury { reason: DeadReason::Buried, error: text() },
    ]
}

/// All keys but for what any call of a session leaves: its number, its lease.
async fn without_signs_of_life(world: &World) -> Dump {
    let mut dump = world.dump().await.without_stats(&["seq:", "last_beat", "mark_"]);
    dump.0.remove("sessions");
    dump
}

/// Says everything of a run that is over that a late worker might say, and finds that nothing comes of it.
async fn says_it_late(world: &World, hand: &mut Hand<'_>, run: &Run) {
    let before = without_signs_of_life(world).await;
    hand.beat().await;
    for verdict in verdicts() {
        assert_eq!(hand.settle(run, verdict.clone()).await, Settled::NotHeld, "{verdict:?}");
        // And with a claim.
        let verdicts = [(run.member, verdict)];
        let claimed = hand.try_claim(Claim { verdicts: &verdicts, ..ask(10) }).await.unwrap();
        assert_eq!((claimed.settled, claimed.jobs.len()), (vec![Settled::NotHeld], 0));
    }
    assert_eq!(hand.reconcile(&[run.member]).await.unwrap().missing, [run.member]);
    assert_eq!(without_signs_of_life(world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_what_ended_is_not_brought_back_by_what_is_said_of_it_late() {
    let server = RedisServer::start().unwrap();
    let world = World::on(&server).await;
    let mut hand = world.open().await;
    for (n, end) in (1..).zip(verdicts()) {
        // A run that says of its end that nothing needs looking up is one of a job without a key.
        let plain = matches!(end, Verdict::Done | Verdict::DoneYoung);
        world.create(&[if plain { job(n) } else { job(n).unique("key") }]).await;
        let mut run = hand.take_one().await;
        if matches!(end, Verdict::Retry { .. } | Verdict::Snooze { .. } | Verdict::HandBack) {
            // It comes again, in another run, and is cancelled meanwhile: then it ends too.
            world.store.cancel(&world.shard, &id(n)).await.unwrap();
            assert_eq!(hand.settle(&run, end.clone()).await, Settled::Cancelled);
        } else {
            assert_eq!(hand.settle(&run, end.clone()).await, Settled::Accepted);
        }
        if matches!(end, Verdict::Bury { .. }) {
            says_it_late(&world, &mut hand, &run).await;
            assert_eq!(world.store.dead_delete(&world.shard, &[id(n).to_vec()]).await.unwrap(), [true]);
        }
        says_it_late(&world, &mut hand, &run).await;
        // Nor by a number that somebody made up.
        run.member = Member::new(&id(n), run.record.run + 1);
        says_it_late(&world, &mut hand, &run).await;
        assert_eq!((world.read("jobs").await, world.read("unique").await), (None, None));
    }
    // A session that was lost meanwhile is not even listened to.
    world.create(&[job(50)]).await;
    let mut lost = world.open().await;
    let run = lost.take_one().await;
    world.expire(&lost.id).await;
    assert!(matches!(world.store.rescue(&world.shard, &lost.id, 9).await, Ok(Rescue::Took { given_back: 1, .. })));
    hand.run_one(Verdict::DoneExtended).await;
    let before = world.dump().await;
    for verdict in verdicts() {
        assert_eq!(lost.try_settle(&[(run.member, verdict)]).await, Err(Refusal::Lost));
    }
    assert_eq!(lost.try_beat(0).await, Err(Refusal::Lost));
    assert_eq!(lost.reconcile(&[run.member]).await.map(|_| ()), Err(Refusal::Lost));
    assert_eq!(world.store.rescue(&world.shard, &lost.id, 9).await.unwrap(), Rescue::Gone);
    assert_eq!(world.dump().await, before);
    world.assert_conserved().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_a_job_whose_body_is_gone_is_put_aside_and_its_handler_not_called() {
    let (server, client) = server_and_client().await;
    let remove = |text: &str| assert_eq!(server.command(&["HDEL", &key(FIELD, "jobs"), text]).unwrap(), ":1\r\n");
    let send = |n: u64, act: Act| {
        let (id, text) = text_id(n);
        let schedule = client.enqueue().id(id);
        async move { (schedule.send(field(n, act)).await.unwrap(), text) }
    };
    let mut stage = Stage::start(&client);
    // While it waits.
    client.pause(FIELD).await.unwrap();
    let (bodiless, text) = send(1, Act::Pass).await;
    send(2, Act::Pass).await;
    remove(&text);
    client.resume(FIELD).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    settled(&client, FIELD, 1).await;
    assert_eq!(bodiless.status().await.unwrap(), JobStatus::Gone);
    assert_eq!(client.stats(FIELD).await.unwrap().quarantined_total, 1);
    // While it runs: whatever the run comes to, there is nothing that it could be done to.
    for (n, act) in [(3, Act::Wait), (4, Act::WaitFail)] {
        let (running, text) = send(n, act).await;
        assert_eq!(stage.next().await.n, n);
        remove(&text);
        stage.open(1);
        eventually("nothing runs", || async { (client.stats(FIELD).await.unwrap().running == 0).then_some(()) }).await;
        assert!(matches!(running.status().await.unwrap(), JobStatus::Gone | JobStatus::Done));
    }
    assert!(stage.stop().await.is_empty());
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.waiting, stats.dead, stats.retained, stats.orphans), (0, 0, 0, 0));
    conserved(&server, FIELD).await;
    // While it runs, and its worker is lost.
    let world = World::on(&server).await;
    let mut lost = world.open().await;
    world.create(&[job(5), job(6)]).await;
    assert_eq!(lost.take(2).await.len(), 2);
    world.set_field("jobs", id(5), None).await;
    world.expire(&lost.id).await;
    let rescue = world.store.rescue(&world.shard, &lost.id, 9).await.unwrap();
    assert_eq!(rescue, Rescue::Took { more: false, given_back: 1, buried: 0, cancelled: 0, quarantined: 1 });
    world.assert_conserved().await;
}

/// What scripts cost the server, ms of its processor: what else the machine is busy with meanwhile doesn't count.
struct Costs<'s> {
    server: &'s RedisServer,
    last_ms: f64,
    scripts: BTreeMap<&'static str, Vec<f64>>,
}

impl<'s> Costs<'s> {
    fn new(server: &'s RedisServer) -> Costs<'s> {
        let mut costs = Costs { server, last_ms: 0.0, scripts: BTreeMap::new() };
        costs.since_last();
        costs
    }

    fn since_last(&mut self) -> f64 {
        let told = self.server.command(&["INFO", "cpu"]).unwrap();
        let spent = |field: &str| told.lines().find_map(|line| line.strip_prefix(field)?.trim().parse::<f64>().ok());
        let (user, system) = (spent("used_cpu_user_main_thread:"), spent("used_cpu_sys_main_thread:"));
        let now_ms = (user.unwrap() + system.unwrap()) * 1000.0;
        now_ms - std::mem::replace(&mut self.last_ms, now_ms)
    }

    /// What was done since the last look was one script.
    fn one_script(&mut self, what: &'static str) {
        let ms = self.since_last();
        self.scripts.entry(what).or_default().push(ms);
    }

    /// All calls of a kind had as much to do: the middle one says what that costs, on a machine whose speed comes and goes too.
    fn are_bounded(mut self) {
        for (what, costs) in &mut self.scripts {
            costs.sort_by(f64::total_cmp);
            let middle = costs[costs.len() / 2];
            assert!(middle < 50.0, "{what}: {middle} ms, of {costs:?}");
        }
    }
}

/// How many scripts the server has run.
fn scripts_run(server: &RedisServer) -> f64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    line.and_then(|line| line.split_once("calls=")?.1.split(',').next()?.parse().ok()).unwrap_or(0.0)
}

/// As many jobs as a claim may bring, with these verdicts said in the same call; the members that stand for them.
async fn claim_most(hand: &mut Hand<'_>, verdicts: &[(Member, Verdict)]) -> Vec<Member> {
    let claimed = hand.try_claim(Claim { verdicts, ..ask(CLAIM_MAX) }).await.unwrap();
    assert!(claimed.settled.iter().all(|settled| *settled == Settled::Accepted));
    claimed.jobs.iter().map(|taken| Member::new(&taken.id, taken.run)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn b17_twenty_thousand_are_sent_claimed_recovered_redriven_and_expired_in_bounded_steps() {
    const JOBS: usize = 20_000;
    const CLAIMS: usize = JOBS / CLAIM_MAX;
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let mut costs = Costs::new(&server);
    // In bulk, by the client: many calls, none of them long.
    send_all(client.enqueue(), (0..JOBS as u64).map(|n| field(n, Act::Pass))).await;
    let sending = scripts_run(&server);
    let ms = costs.since_last() / sending;
    assert!(sending >= 100.0 && ms < 50.0, "{sending} calls of {ms} ms");
    // Due, all at once, to one worker, which is then lost with all of them.
    let mut lost = world.open().await;
    for _ in 0..CLAIMS {
        costs.since_last();
        assert_eq!(claim_most(&mut lost, &[]).await.len(), CLAIM_MAX);
        costs.one_script("a claim of as many as may be");
    }
    world.expire(&lost.id).await;
    let mut back = 0;
    loop {
        costs.since_last();
        let rescue = world.store.rescue(&world.shard, &lost.id, RESCUE_CHUNK).await.unwrap();
        costs.one_script("a rescue of as many as may be");
        let Rescue::Took { more, given_back, .. } = rescue else { panic!("{rescue:?}") };
        back += given_back as usize;
        if !more {
            break;
        }
    }
    assert_eq!(back, JOBS);
    // To the dead letters.
    let mut hand = world.open().await;
    for _ in 0..CLAIMS {
        let bury = |member| (member, Verdict::Bury { reason: DeadReason::Buried, error: "x".repeat(200) });
        let verdicts: Vec<_> = claim_most(&mut hand, &[]).await.into_iter().map(bury).collect();
        costs.since_last();
        let settled = hand.try_settle(&verdicts).await.unwrap();
        costs.one_script("as many verdicts as may be");
        assert!(settled.len() == CLAIM_MAX && settled.iter().all(|settled| *settled == Settled::Accepted));
    }
    // Redriven, by the client.
    let before = scripts_run(&server);
    costs.since_last();
    let report = soon("all are redriven", client.dead_letters(FIELD).redrive_all()).await.unwrap();
    let redriving = scripts_run(&server) - before;
    let ms = costs.since_last() / redriving;
    assert_eq!(report.redriven, JOBS as u64);
    assert!(ms < 50.0, "{redriving} calls of {ms} ms");
    // Held without being known, as after a lost answer.
    claim_most(&mut hand, &[]).await;
    costs.since_last();
    assert!(hand.reconcile(&[]).await.unwrap().more);
    costs.one_script("a reconciliation of as many as may be");
    assert!(!hand.reconcile(&[]).await.unwrap().more);
    // Done, and the next claimed in the same call.
    let mut verdicts: Vec<(Member, Verdict)> = Vec::new();
    for _ in 0..3 {
        costs.since_last();
        let members = claim_most(&mut hand, &verdicts).await;
        costs.one_script("a claim with as many verdicts as may be");
        assert_eq!(members.len(), CLAIM_MAX);
        verdicts = members.into_iter().map(|member| (member, Verdict::DoneExtended)).collect();
    }
    hand.try_settle(&verdicts).await.unwrap();
    // Too late for any run: first among the due, each with a key of its own.
    for batch in 0..3 {
        let late = |n: u64| job(batch * 1000 + n).priority(0).expires(1).unique(&format!("{batch}.{n}"));
        let new: Vec<NewJob> = (0..1000).map(late).collect();
        costs.since_last();
        world.create(&new).await;
        costs.one_script("a send of as many as may be");
    }
    for _ in 0..3 {
        costs.since_last();
        let claimed = hand.claim(CLAIM_MAX, 0).await;
        costs.one_script("a claim of as many that expired as may be");
        assert!(claimed.jobs.is_empty() && claimed.more);
    }
    assert_eq!((world.stat("expired").await, world.read("unique").await), (3000, None));
    costs.are_bounded();
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.waiting, stats.done_total, stats.quarantined_total), (JOBS as u64 - 3000, 3000, 0));
    world.assert_conserved().await;
}
