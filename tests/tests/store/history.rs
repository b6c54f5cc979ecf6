//! Random histories: whatever several sessions do in whatever order, a small model of the rules knows the answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delayq::DeadReason;
use delayq::store::ops::{Cancelled, End, Found, Place, Redriven, Rescheduled, Rescue, Sent, Settled, Verdict};
use delayq_tests::store_kit::{HOUR_MS, Hand, Id, Run, With, World, id, job};

delayq_tests::store_cases!(s_random_histories_1, s_random_histories_2, s_random_histories_3, s_random_histories_4,);

const STEPS: usize = 700;
const JOBS: u64 = 12;
const KEYS: u64 = 3;
const TIME: Duration = Duration::from_secs(10);

/// A generator of its own, so that a seed says the whole history.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 0
    }
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq)]
enum Is {
    /// Due now, or in an hour.
    Waiting {
        later: bool,
    },
    /// In the session of this number.
    Running {
        by: usize,
        cancelled: bool,
    },
    Dead,
    Retained,
    Ended(End),
}

/// A job as the model sees it.
#[derive(Debug, Clone)]
struct Model {
    is: Is,
    key: Option<u64>,
    retained: bool,
    attempts: u16,
    crashes: u8,
    run: u64,
}

struct History<'w> {
    world: &'w World,
    dice: Dice,
    hands: Vec<Option<Hand<'w>>>,
    runs: Vec<Run>,
    jobs: BTreeMap<u64, Model>,
    paused: bool,
    log: Vec<String>,
}

async fn history(world: &World, seed: u64) {
    let mut history = History {
        world,
        dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        hands: vec![None, None, None],
        runs: Vec::new(),
        jobs: BTreeMap::new(),
        paused: false,
        log: Vec::new(),
    };
    let started = Instant::now();
    for step in 0..STEPS {
        history.step().await;
        if step % 10 == 0 {
            history.check().await;
        }
        if started.elapsed() > TIME {
            break;
        }
    }
    history.check().await;
}

impl History<'_> {
    async fn step(&mut self) {
        let n = self.dice.roll(JOBS);
        match self.dice.roll(16) {
            0..4 => self.send(n).await,
            4..7 => self.claim().await,
            7..10 => self.settle().await,
            10 => self.cancel(n).await,
            11 => self.reschedule(n).await,
            12 => self.letters(n).await,
            13 => self.lose().await,
            14 => self.reconcile().await,
            _ => self.pause_or_forget().await,
        }
    }

    fn owner(&self, key: u64) -> Option<u64> {
        let keeps = |job: &Model| matches!(job.is, Is::Waiting { .. } | Is::Running { .. }) && job.key == Some(key);
        self.jobs.iter().find(|(_, job)| keeps(job)).map(|(n, _)| *n)
    }

    async fn send(&mut self, n: u64) {
        let (key, later) = (self.dice.coin().then(|| self.dice.roll(KEYS)), self.dice.roll(3) == 0);
        let retained = self.dice.roll(4) == 0;
        let mut new = job(n).priority((n % 3) as u8).due(if later { "+3600000" } else { "@1000" }).attempts(65_535);
        if let Some(key) = key {
            new = new.unique(&key.to_string());
        }
        if retained {
            new = new.retain(HOUR_MS);
        }
        let owner = key.and_then(|key| self.owner(key)).filter(|owner| *owner != n);
        let wanted = match (self.jobs.get(&n), owner) {
            (Some(Model { is: Is::Ended(_), .. }), _) => Sent::Already,
            (_, Some(owner)) => Sent::Duplicate { owner: id(owner) },
            (Some(_), None) => Sent::Already,
            (None, None) => Sent::Created,
        };
        self.log.push(format!("send {n} {key:?}: {wanted:?}"));
        assert_eq!(self.world.send(&[new]).await, [wanted], "{:#?}", self.log);
        if wanted == Sent::Created {
            let is = Is::Waiting { later };
            self.jobs.insert(n, Model { is, key, retained, attempts: 0, crashes: 0, run: 0 });
        }
    }

    async fn hand(&mut self) -> usize {
        let at = self.dice.roll(3) as usize;
        if self.hands[at].is_none() {
            self.hands[at] = Some(self.world.open().await);
        }
        at
    }

    async fn claim(&mut self) {
        let (by, count) = (self.hand().await, self.dice.roll(4) as usize + 1);
        let claimed = self.hands[by].as_mut().unwrap().claim(count, 0).await;
        let runs = delayq_tests::store_kit::Runs::runs(&claimed);
        self.log.push(format!("claim by {by}: {:?}", runs.iter().map(|run| number(&run.id)).collect::<Vec<_>>()));
        assert!(!self.paused || runs.is_empty(), "{:#?}", self.log);
        let solo = |job: &Model| job.crashes >= 2;
        let due = self.jobs.values().filter(|job| job.is == Is::Waiting { later: false } && !solo(job)).count();
        let waits_alone = self.jobs.values().any(|job| solo(job) && matches!(job.is, Is::Waiting { .. }));
        if !self.paused && !waits_alone {
            assert_eq!(runs.len(), count.min(due), "{:#?}", self.log);
        }
        for run in runs {
            let job = self.jobs.get_mut(&number(&run.id)).unwrap();
            assert!(matches!(job.is, Is::Waiting { later: false }), "{job:?} {:#?}", self.log);
            assert_eq!((run.record.attempts, run.record.crashes), (job.attempts, job.crashes), "{:#?}", self.log);
            assert!(run.record.run > job.run, "rule d: {:#?}", self.log);
            job.run = run.record.run;
            job.is = Is::Running { by, cancelled: false };
            self.runs.push(run);
        }
    }

    /// Settles some run that was ever given out, by some session: most of those are refused.
    async fn settle(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let by = self.hand().await;
        let at = self.runs.len() - 1 - self.dice.roll(self.runs.len().min(6) as u64) as usize;
        let run = self.runs[at].clone();
        let n = number(&run.id);
        let verdict = match self.dice.roll(8) {
            0 | 1 => Verdict::DoneExtended,
            2 => Verdict::Retry { delay_ms: HOUR_MS, error: "e".to_owned() },
            3 => Verdict::Snooze { delay_ms: HOUR_MS },
            4 | 5 => Verdict::HandBack,
            6 => Verdict::Discard,
            _ => Verdict::Bury { reason: DeadReason::Buried, error: "e".to_owned() },
        };
        let held = self.jobs.get(&n).and_then(|job| match job.is {
            Is::Running { by: holder, cancelled } if holder == by && job.run == run.record.run => Some(cancelled),
            _ => None,
        });
        let ends = matches!(verdict, Verdict::DoneExtended);
        let wanted = match held {
            None => Settled::NotHeld,
            Some(true) if !ends => Settled::Cancelled,
            Some(_) => Settled::Accepted,
        };
        self.log.push(format!("settle {n} by {by} {verdict:?}: {wanted:?}"));
        assert_eq!(self.hands[by].as_mut().unwrap().settle(&run, verdict.clone()).await, wanted, "{:#?}", self.log);
        if held.is_none() {
            return;
        }
        let job = self.jobs.get_mut(&n).unwrap();
        job.is = match (wanted, verdict) {
            (Settled::Cancelled, _) => Is::Ended(End::Cancelled),
            (_, Verdict::DoneExtended) if job.retained => Is::Retained,
            (_, Verdict::DoneExtended) => Is::Ended(End::Done),
            (_, Verdict::Discard) => Is::Ended(End::Discarded),
            (_, Verdict::Bury { .. }) => Is::Dead,
            (_, Verdict::HandBack) => Is::Waiting { later: false },
            (_, verdict) => {
                job.attempts += u16::from(matches!(verdict, Verdict::Retry { .. }));
                Is::Waiting { later: true }
            }
        };
    }

    async fn cancel(&mut self, n: u64) {
        let wanted = match self.jobs.get(&n).map(|job| &job.is) {
            None => Cancelled::None,
            Some(Is::Waiting { .. }) | Some(Is::Ended(End::Cancelled)) => Cancelled::Cancelled,
            Some(Is::Running { .. }) => Cancelled::Running,
            Some(Is::Dead) => Cancelled::Dead,
            Some(Is::Retained) => Cancelled::Done,
            Some(Is::Ended(end)) => Cancelled::Ended(*end),
        };
        self.log.push(format!("cancel {n}: {wanted:?}"));
        assert_eq!(self.world.store.cancel(&self.world.shard, &id(n)).await.unwrap(), wanted, "{:#?}", self.log);
        if let Some(job) = self.jobs.get_mut(&n) {
            match &mut job.is {
                Is::Waiting { .. } => job.is = Is::Ended(End::Cancelled),
                Is::Running { cancelled, .. } => *cancelled = true,
                _ => {}
            }
        }
    }

    async fn reschedule(&mut self, n: u64) {
        let later = self.dice.coin();
        let when = if later { "@5000000000000" } else { "@1000" };
        let wanted = match self.jobs.get(&n).map(|job| &job.is) {
            None => Rescheduled::None,
            Some(Is::Waiting { .. }) => Rescheduled::Due(when[1..].parse().unwrap()),
            Some(Is::Running { .. }) => Rescheduled::Running,
            Some(Is::Dead) => Rescheduled::Dead,
            Some(Is::Retained) => Rescheduled::Done,
            Some(Is::Ended(end)) => Rescheduled::Ended(*end),
        };
        self.log.push(format!("reschedule {n} {when}: {wanted:?}"));
        let answer = self.world.store.reschedule(&self.world.shard, &id(n), when).await.unwrap();
        assert_eq!(answer, wanted, "{:#?}", self.log);
        if let Some(Model { is: Is::Waiting { later: was }, .. }) = self.jobs.get_mut(&n) {
            *was = later;
        }
    }

    async fn letters(&mut self, n: u64) {
        let is = self.jobs.get(&n).map(|job| job.is.clone());
        if self.dice.coin() {
            let owner = self.jobs.get(&n).and_then(|job| job.key).and_then(|key| self.owner(key));
            let wanted = match (&is, owner) {
                (Some(Is::Dead), Some(_)) => Redriven::Conflict,
                (Some(Is::Dead), None) => Redriven::Waits,
                _ => Redriven::NotDead,
            };
            self.log.push(format!("redrive {n}: {wanted:?}"));
            let answer = self.world.store.dead_redrive(&self.world.shard, &[id(n).to_vec()]).await.unwrap();
            assert_eq!(answer, [wanted], "{:#?}", self.log);
            if wanted == Redriven::Waits {
                // It is due at the next whole millisecond, which must not be a matter of luck here.
                self.world.store.reschedule(&self.world.shard, &id(n), "@1000").await.unwrap();
                let job = self.jobs.get_mut(&n).unwrap();
                (job.is, job.attempts) = (Is::Waiting { later: false }, 0);
            }
        } else {
            let wanted = matches!(is, Some(Is::Dead) | Some(Is::Ended(End::Deleted)));
            self.log.push(format!("delete {n}: {wanted}"));
            let answer = self.world.store.dead_delete(&self.world.shard, &[id(n).to_vec()]).await.unwrap();
            assert_eq!(answer, [wanted], "{:#?}", self.log);
            if is == Some(Is::Dead) {
                self.jobs.get_mut(&n).unwrap().is = Is::Ended(End::Deleted);
            }
        }
    }

    /// A session's worker dies; another one takes its jobs back, a few a call.
    async fn lose(&mut self) {
        let by = self.hand().await;
        let hand = self.hands[by].take().unwrap();
        self.log.push(format!("lose {by}"));
        self.world.expire(&hand.id).await;
        loop {
            match self.world.store.rescue(&self.world.shard, &hand.id, 2).await.unwrap() {
                Rescue::Took { more: true, .. } => self.world.assert_conserved().await,
                Rescue::Took { more: false, .. } => break,
                other => panic!("{other:?} {:#?}", self.log),
            }
        }
        for (n, job) in &mut self.jobs {
            match job.is {
                Is::Running { by: holder, cancelled: true } if holder == by => job.is = Is::Ended(End::Cancelled),
                Is::Running { by: holder, .. } if holder == by => {
                    job.attempts += u16::from(job.crashes == 0 || job.crashes >= 2);
                    job.is = if job.crashes >= 2 { Is::Dead } else { Is::Waiting { later: job.crashes > 0 } };
                    if job.crashes == 1 {
                        // Its wait of some seconds becomes an hour, so that the model needs no clock.
                        self.world.store.reschedule(&self.world.shard, &id(*n), "+3600000").await.unwrap();
                    }
                    job.crashes = (job.crashes + 1).min(2);
                }
                _ => {}
            }
        }
    }

    async fn reconcile(&mut self) {
        let by = self.hand().await;
        let keep = self.dice.coin();
        let known: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, job)| keep && matches!(job.is, Is::Running { by: holder, .. } if holder == by))
            .map(|(n, job)| delayq::store::Member::new(&id(*n), job.run))
            .collect();
        self.log.push(format!("reconcile {by}, knowing {}", known.len()));
        let reconciled = self.hands[by].as_mut().unwrap().reconcile(&known).await.unwrap();
        assert!(!reconciled.more && reconciled.missing.is_empty(), "{:#?}", self.log);
        for job in self.jobs.values_mut().filter(|_| !keep) {
            match job.is {
                Is::Running { by: holder, cancelled: true } if holder == by => job.is = Is::Ended(End::Cancelled),
                Is::Running { by: holder, .. } if holder == by => job.is = Is::Waiting { later: false },
                _ => {}
            }
        }
    }

    async fn pause_or_forget(&mut self) {
        match self.dice.roll(4) {
            0 | 1 => {
                // Unpaused more often than paused.
                let paused = self.dice.roll(3) == 0;
                self.log.push(format!("pause {paused}"));
                let changed = self.world.store.pause(&self.world.shard, paused).await.unwrap();
                assert_eq!(changed, paused != self.paused, "{:#?}", self.log);
                self.paused = paused;
            }
            2 => {
                let by = self.hand().await;
                let held =
                    self.jobs.values().filter(|job| matches!(job.is, Is::Running { by: h, .. } if h == by)).count();
                self.log.push(format!("beat {by}"));
                assert_eq!(self.hands[by].as_ref().unwrap().beat().await.held, held as u64, "{:#?}", self.log);
            }
            _ => {
                // Long enough passes for tombstones to be of no account.
                self.log.push("forget".to_owned());
                self.world.write("tombs", None).await;
                self.jobs.retain(|_, job| !matches!(job.is, Is::Ended(_)));
            }
        }
    }

    async fn check(&mut self) {
        self.world.assert_conserved().await;
        for n in 0..JOBS {
            let wanted = match self.jobs.get(&n).map(|job| &job.is) {
                Some(Is::Waiting { .. }) => Ok(Place::Due),
                Some(Is::Running { .. }) => Ok(Place::Running),
                Some(Is::Dead) => Ok(Place::Dead),
                Some(Is::Retained) => Ok(Place::Done),
                Some(Is::Ended(end)) => Err(Found::Ended(*end)),
                None => Err(Found::None),
            };
            let found = match self.world.find(&id(n)).await {
                Found::Job { place, .. } => Ok(place),
                other => Err(other),
            };
            assert_eq!(found, wanted, "{n}: {:#?}", self.log);
        }
    }
}

fn number(id: &Id) -> u64 {
    u64::from_be_bytes(id[..8].try_into().unwrap())
}

async fn s_random_histories_1(world: &World) {
    history(world, 1).await;
}

async fn s_random_histories_2(world: &World) {
    history(world, 2).await;
}

async fn s_random_histories_3(world: &World) {
    history(world, 3).await;
}

async fn s_random_histories_4(world: &World) {
    history(world, u64::from(std::process::id())).await;
}
