//! Two engines, one behaviour: random histories of every script, run on Redis and embedded, are compared call by call.
//!
//! In Redis the scripts get their clock as arguments, so that both see the same instant and time can jump. A history goes by its seed:
//! `DELAYQ_DIFFERENTIAL_SEED` runs that one alone and compares the keys after every call, `DELAYQ_DIFFERENTIAL_CALLS` says how
//! many calls are made at least.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.
#![allow(clippy::print_stdout)] // The table is what one looks at.
#![allow(missing_docs)]

#[path = "differential/calls.rs"]
mod calls;
#[path = "differential/damage.rs"]
mod damage;
#[path = "differential/decode.rs"]
mod decode;
#[path = "differential/dice.rs"]
mod dice;
#[path = "differential/model.rs"]
mod model;
#[path = "differential/moves.rs"]
mod moves;
#[path = "differential/pair.rs"]
mod pair;
#[path = "differential/player.rs"]
mod player;
#[path = "differential/tally.rs"]
mod tally;
#[path = "differential/wording.rs"]
mod wording;

use std::time::Instant;

use delayq::engine::Reply;
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::Value;

use damage::Broken;
use pair::{Call, Outcome, Pair, difference};
use player::Player;
use tally::Tally;

/// Calls of a run that wasn't asked for more.
const CALLS: u64 = 20_000;
/// Calls of one history.
const HISTORY: u64 = 500;
/// How many calls pass between two looks at all keys.
const LOOK_EVERY: u64 = 25;

/// A history on both engines.
struct History<'t> {
    seed: u64,
    pair: Pair,
    player: Player,
    tally: &'t mut Tally,
    /// How many calls were made.
    at: u64,
    look_every: u64,
    looked: u64,
    damages: bool,
    broken: Option<Broken>,
}

impl History<'_> {
    async fn play(&mut self) {
        while self.at < HISTORY {
            self.player.tick();
            self.pair.set_clock(self.player.now_us);
            damage::mend(&self.pair, &mut self.broken, self.at).await;
            if self.damages && !self.player.seats.is_empty() {
                self.damage().await;
            }
            match self.player.dice.roll(30) {
                0..3 => self.together().await,
                3 => self.marker().await,
                4 if !self.player.seats.is_empty() => self.rescue_some().await,
                5 => self.orphans().await,
                _ => self.one().await,
            }
            if self.at >= self.looked + self.look_every {
                self.looked = self.at;
                self.look("the keys").await;
            }
        }
        self.look("the keys at the end").await;
        self.pair.forget().await;
    }

    async fn damage(&mut self) {
        if self.broken.is_none() && self.player.dice.once_in(20) {
            self.broken = Some(damage::break_key(&self.pair, &mut self.player, self.at).await);
        }
        if self.broken.is_none() && self.player.dice.once_in(12) {
            damage::damage(&self.pair, &mut self.player).await;
        }
    }

    /// One call, after which a failure must have changed nothing.
    async fn one(&mut self) {
        let call = self.player.any();
        if self.is_by_choice(&call) {
            return self.run_by_choice(call).await;
        }
        let watched = self.broken.is_some() || self.player.dice.once_in(4);
        let before = if self.damages && watched { Some(self.pair.embedded_dump().await) } else { None };
        let (redis, embedded) = self.pair.run(&call).await;
        let failed = !matches!(embedded, Outcome::Answered(_));
        self.compare(&call, &redis, &embedded).await;
        if let Some(before) = before.filter(|_| failed) {
            let after = self.pair.embedded_dump().await;
            if let Some(left) = difference(("before", &before), ("after", &after)) {
                self.fail(&call, &redis, &embedded, &format!("the embedded engine did not take back{left}"));
            }
        }
        self.after_failure(&call, &redis, &embedded).await;
    }

    /// Several calls at one instant, in one transaction of the embedded engine.
    async fn together(&mut self) {
        let mut calls: Vec<Call> = (0..self.player.dice.roll(7) + 2).map(|_| self.player.any()).collect();
        calls.retain(|call| !self.is_by_choice(call));
        let outcomes = self.pair.run_together(&calls).await;
        for (call, (redis, embedded)) in calls.iter().zip(&outcomes) {
            self.compare(call, redis, embedded).await;
        }
        let failed = |(_, outcomes): &(&Call, &(Outcome, Outcome))| !matches!(outcomes.1, Outcome::Answered(_));
        if let Some((call, (redis, embedded))) = calls.iter().zip(&outcomes).rfind(failed) {
            self.after_failure(call, redis, embedded).await;
        }
    }

    /// A failed call changed nothing, or stumbled over damage: then Redis has what was written by then.
    async fn after_failure(&mut self, call: &Call, redis: &Outcome, embedded: &Outcome) {
        if matches!(embedded, Outcome::Answered(_)) {
            return;
        }
        let may_differ = self.damages && *embedded == Outcome::Stumbled;
        // Looking is what takes the time: what is overlooked here shows at the next regular look.
        let chosen = self.player.dice.once_in(if self.damages { 3 } else { 12 });
        if !may_differ && !chosen && self.look_every > 1 {
            return;
        }
        if let Some(difference) = self.pair.difference().await {
            if !may_differ {
                self.fail(call, redis, embedded, &difference);
            }
            self.tally.partial += 1;
            self.pair.level().await;
        }
    }

    /// Takes back a part of what a session holds. Redis chooses which jobs, so the counts' sum alone is the same.
    async fn rescue_some(&mut self) {
        let call = self.player.rescue_some();
        self.run_by_choice(call).await;
    }

    /// Looks for orphans, and mends what was found.
    async fn orphans(&mut self) {
        let sessions: Vec<[u8; 16]> = match self.pair.read("sessions").await {
            Some(Value::Sorted(members)) => members.into_keys().filter_map(|id| id.try_into().ok()).collect(),
            _ => Vec::new(),
        };
        let call = self.player.audit(&sessions);
        let (redis, embedded) = self.pair.audit(&call).await;
        self.compare(&call, &redis, &embedded).await;
        let mut found = Vec::new();
        if let Outcome::Answered(Reply::List(parts)) = &embedded {
            found.extend(
                parts[1..].iter().filter_map(|id| if let Reply::Bytes(id) = id { Some(id.clone()) } else { None }),
            );
        }
        let call = self.player.repair(&call.args[0], &found, &sessions);
        let (redis, embedded) = self.pair.run(&call).await;
        self.compare(&call, &redis, &embedded).await;
        self.after_failure(&call, &redis, &embedded).await;
    }

    /// Whether Redis may choose which jobs this call takes: in a crowd a session holds more than a call takes back.
    fn is_by_choice(&self, call: &Call) -> bool {
        self.player.crowd && matches!(call.script, "rescue" | "reconcile")
    }

    async fn run_by_choice(&mut self, call: Call) {
        let (redis, embedded) = self.pair.run(&call).await;
        let summed = |outcome: &Outcome| match outcome {
            Outcome::Answered(Reply::List(parts)) => {
                let count = |part: &Reply| if let Reply::Int(n) = part { *n } else { 0 };
                Outcome::Answered(Reply::List(vec![parts[0].clone(), Reply::Int(parts.iter().map(count).sum())]))
            }
            other => other.clone(),
        };
        self.at += 1;
        self.tally.count(&call, &embedded);
        // What one of them stumbles over, the other may not have chosen.
        let stumbled = self.damages && (redis == Outcome::Stumbled || embedded == Outcome::Stumbled);
        if !stumbled && summed(&redis) != summed(&embedded) {
            self.fail(&call, &redis, &embedded, "");
        }
        if stumbled || matches!(embedded, Outcome::Answered(_)) {
            self.pair.level().await;
        } else {
            self.after_failure(&call, &redis, &embedded).await;
        }
    }

    /// Takes the marker, as an idle worker does.
    async fn marker(&mut self) {
        let Some((redis, embedded)) = self.pair.take_marker().await else { return };
        assert_eq!(redis, embedded, "seed {}, after call {}: a wait for the marker", self.seed, self.at);
        self.tally.markers += 1;
        if let Ok(Some(marker)) = embedded {
            self.player.watch(marker.due_ms);
        }
    }

    async fn compare(&mut self, call: &Call, redis: &Outcome, embedded: &Outcome) {
        self.at += 1;
        self.tally.count(call, embedded);
        if redis != embedded {
            let difference = self.pair.difference().await.unwrap_or_default();
            self.fail(call, redis, embedded, &difference);
        }
        if let Outcome::Answered(reply) = embedded {
            self.player.learn(call, reply);
        }
    }

    async fn look(&self, what: &str) {
        if let Some(difference) = self.pair.difference().await {
            panic!(
                "DELAYQ_DIFFERENTIAL_SEED={}, by call {}: {what} differ (with that seed set, they are looked at after every call)\
                 {difference}",
                self.seed, self.at
            );
        }
    }

    fn fail(&self, call: &Call, redis: &Outcome, embedded: &Outcome, difference: &str) -> ! {
        panic!(
            "DELAYQ_DIFFERENTIAL_SEED={}, call {}, at {} us: {call:?}\n  redis:    {redis:?}\n  embedded: {embedded:?}{difference}",
            self.seed, self.at, self.player.now_us
        );
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number, not {text}")))
}

#[tokio::test]
async fn random_histories_of_all_scripts_are_the_same_on_both_engines() {
    let (only, started) = (number_from("DELAYQ_DIFFERENTIAL_SEED"), Instant::now());
    let calls = number_from("DELAYQ_DIFFERENTIAL_CALLS").unwrap_or(CALLS);
    let server = RedisServer::start().unwrap();
    let mut tally = Tally::default();
    let mut seed = only.unwrap_or(1);
    loop {
        let pair = Pair::new(&server.url(), &format!("q{seed}"), seed % 3 == 0).await;
        let player = Player::new(seed, pair.shard.clone(), seed % 10 == 3);
        let look_every = if only.is_some() { 1 } else { LOOK_EVERY };
        let (tally, damages) = (&mut tally, seed % 2 == 0);
        History { seed, pair, player, tally, at: 0, look_every, looked: 0, damages, broken: None }.play().await;
        if only.is_some() || tally.calls >= calls {
            break;
        }
        seed += 1;
    }
    println!("{}", tally.table());
    println!(
        "{} calls, {} markers, {} scripts that stumbled halfway in Redis, {:.1} s",
        tally.calls,
        tally.markers,
        tally.partial,
        started.elapsed().as_secs_f64()
    );
    if only.is_none() {
        let missing = tally.missing();
        assert!(missing.is_empty(), "never seen, so the histories are too poor: {missing:#?}");
    }
}
