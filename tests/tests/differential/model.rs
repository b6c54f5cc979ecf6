//! The scripts against the model: each move is made by the model, by Redis and by the embedded engine, and what they answer and
//! hold is compared. What fails is shrunk. The histories are the same ones each time; `DELAYQ_MODEL_CASES` asks for so many others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Instant;

use delayq::engine::Reply as Told;
use delayq_model::{Member, Now, Op, Reply, Rules, SCHEMA, SHARDS, Session, State, Verdict, step};
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::Value;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::moves::{Ending, Move, SEATS, START_MS, history};
use super::pair::{Outcome, Pair};
use super::{decode, number_from, wording};

/// Histories of a run that wasn't asked for more.
const CASES: u64 = 28;
/// The longest history.
const MOVES: usize = 90;
/// How long a history that fails is shrunk, ms.
const SHRINKING: u32 = 10_000;
/// How many of the runs that were given out are remembered.
const REMEMBERED: usize = 12;

/// A worker, as far as it chooses what to say.
#[derive(Default, Clone, Copy)]
struct Seat {
    session: Session,
    seq: u64,
    timer: u64,
    /// It was told that its session is no more.
    over: bool,
}

/// A history, on all three.
struct Trio<'p> {
    pair: &'p Pair,
    state: State,
    now: Now,
    seats: [Seat; SEATS],
    /// Runs that were given out.
    given: Vec<Member>,
    told: Vec<String>,
    /// How often each kind of answer was given.
    seen: &'p RefCell<BTreeMap<String, u64>>,
}

/// Kinds of answers that histories must give now and then, lest they be too poor.
const KINDS: &[&str] = &[
    "Opened",
    "Exists",
    "OtherSchema",
    "OtherShards",
    "Beat",
    "Lost",
    "Stale",
    "Claimed",
    "Settled",
    "Reconciled",
    "Rescued",
    "Alive",
    "Gone",
    "Closed",
    "Holds",
    "Sent",
    "Cancelled",
    "Running",
    "Ended",
    "NoJob",
    "Rescheduled",
    "Redriven",
    "Deleted",
    "Paused",
    "Passed",
    "Marker",
    "Found",
    "Counted",
];

type Played = Result<(), TestCaseError>;

impl<'p> Trio<'p> {
    fn new(pair: &'p Pair, seen: &'p RefCell<BTreeMap<String, u64>>) -> Trio<'p> {
        let mut seats = [Seat { over: true, ..Seat::default() }; SEATS];
        for (at, seat) in seats.iter_mut().enumerate() {
            seat.session = at as u8;
        }
        let now = Now { us: START_MS * 1000 + 700 };
        Trio { pair, state: State::default(), now, seats, given: Vec::new(), told: Vec::new(), seen }
    }

    async fn play(&mut self, moves: &[Move]) -> Played {
        for one in moves {
            match one {
                Move::Wait { us, back } => {
                    let us = if *back { self.now.us - us } else { self.now.us + us };
                    self.now = Now { us: us.max(START_MS * 1000) };
                    self.told.push(format!("it is {us} us"));
                }
                Move::Vanish { id } => self.vanish(*id).await,
                Move::TakeMarker => self.take_marker().await?,
                other => {
                    let opens = matches!(other, Move::Open { .. });
                    if let Some(seat) = other.seat().filter(|seat| self.seats[*seat].over && !opens) {
                        // A worker whose session is lost opens another first.
                        let open = Move::Open { seat, lease: 1000, layout: (SCHEMA, SHARDS) };
                        self.call(&open).await?;
                    }
                    self.call(other).await?;
                }
            }
        }
        Ok(())
    }

    /// What a move says in this state.
    fn op(&mut self, one: &Move) -> Op {
        match one {
            Move::Open { seat: at, lease, layout: (schema, shards) } => {
                let seat = &mut self.seats[*at];
                if seat.over {
                    *seat = Seat { session: seat.session + SEATS as u8, ..Seat::default() };
                }
                let (schema, shards) = self.layout(*schema, *shards);
                Op::Open { session: self.seats[*at].session, lease: *lease, schema, shards }
            }
            Move::Beat { seat, timer } => {
                let Seat { session, .. } = self.seats[*seat];
                Op::Beat { session, lease: 1000, timer: self.timer(*seat, *timer) }
            }
            Move::Claim { seat, late, count, timer, alone, verdicts } => Op::Claim {
                session: self.seats[*seat].session,
                seq: self.seq(*seat, *late),
                count: *count,
                timer: self.timer(*seat, *timer),
                alone: *alone,
                verdicts: self.verdicts(*seat, verdicts),
            },
            Move::Settle { seat, late, verdicts } => Op::Settle {
                session: self.seats[*seat].session,
                seq: self.seq(*seat, *late),
                verdicts: self.verdicts(*seat, verdicts),
            },
            Move::Reconcile { seat, late, knows, foreign } => {
                let session = self.seats[*seat].session;
                let held = self.state.held_by(session).enumerate();
                let mut known: Vec<Member> =
                    held.filter(|(at, _)| knows >> (at % 8) & 1 == 1).map(|(_, m)| m).collect();
                known.extend(self.given.last().filter(|member| *foreign && !known.contains(member)));
                Op::Reconcile { session, seq: self.seq(*seat, *late), known }
            }
            Move::Rescue { which } => {
                let listed: Vec<Session> = self.state.sessions.keys().copied().collect();
                let session = listed.get(usize::from(*which) % (listed.len() + 1));
                Op::Rescue { session: session.copied().unwrap_or(250), chosen: delayq_model::Chosen::All }
            }
            Move::Close { seat } => Op::Close { session: self.seats[*seat].session },
            Move::Enqueue { jobs, layout: (schema, shards) } => {
                let (schema, shards) = self.layout(*schema, *shards);
                Op::Enqueue { jobs: jobs.clone(), schema, shards }
            }
            Move::Cancel { id } => Op::Cancel { id: *id },
            Move::Reschedule { id, when } => Op::Reschedule { id: *id, when: *when },
            Move::Redrive { ids } => Op::Redrive { ids: ids.clone() },
            Move::Delete { ids } => Op::Delete { ids: ids.clone() },
            Move::Pause { on } => Op::Pause { on: *on },
            Move::Pass => Op::Pass,
            Move::Inspect { id } => Op::Inspect { id: *id },
            Move::Stats => Op::Stats,
            Move::Wait { .. } | Move::Vanish { .. } | Move::TakeMarker => unreachable!("no call of a script"),
        }
    }

    /// The layout that a caller knows: the first one's is the queue's.
    fn layout(&self, schema: u32, shards: u32) -> (u32, u32) {
        if self.state.stats.schema.is_some() { (schema, shards) } else { (SCHEMA, SHARDS) }
    }

    fn seq(&mut self, seat: usize, late: bool) -> u64 {
        self.seats[seat].seq += u64::from(!late);
        self.seats[seat].seq
    }

    fn timer(&self, seat: usize, which: u8) -> u64 {
        match which % 4 {
            0 => 0,
            1 => self.state.stats.timer_at.unwrap_or(0),
            _ => self.seats[seat].timer,
        }
    }

    fn verdicts(&self, seat: usize, endings: &[Ending]) -> Vec<(Member, Verdict)> {
        let held: Vec<Member> = self.state.held_by(self.seats[seat].session).collect();
        let chosen = |ending: &Ending| {
            let from = if ending.of_any || held.is_empty() { &self.given } else { &held };
            let member = from.get(usize::from(ending.which) % from.len().max(1))?;
            Some((*member, ending.verdict))
        };
        endings.iter().filter_map(chosen).collect()
    }

    /// One call on all three.
    async fn call(&mut self, one: &Move) -> Played {
        let op = self.op(one);
        self.pair.set_clock(self.now.us);
        let (after, wanted) = step(&self.state, &op, self.now, Rules::ALL);
        let call = wording::call(&self.pair.shard, &op, &self.state);
        self.told.push(format!("{op:?}: {wanted:?}"));
        let (redis, embedded) = self.pair.run(&call).await;
        for (engine, outcome) in [("redis", &redis), ("embedded", &embedded)] {
            match outcome {
                Outcome::Answered(told) if self.reads(&op, told) == wanted => {}
                other => return Err(self.failed(&format!("{engine} answers {other:?}"))),
            }
        }
        self.state = after;
        self.see(&wanted);
        self.learn(one, &op, &wanted);
        self.compare().await
    }

    fn reads(&self, op: &Op, told: &Told) -> Reply {
        wording::reply(op, told, self.now)
    }

    fn learn(&mut self, one: &Move, op: &Op, reply: &Reply) {
        let Some(seat) = one.seat() else { return };
        match (op, reply) {
            (_, Reply::Lost | Reply::Closed) => self.seats[seat].over = true,
            (Op::Claim { .. }, Reply::Claimed(claimed)) => {
                self.seats[seat].timer = claimed.timer;
                self.given.extend(&claimed.taken);
                let more = self.given.len().saturating_sub(REMEMBERED);
                self.given.drain(..more);
            }
            _ => {}
        }
    }

    async fn compare(&mut self) -> Played {
        let (redis, embedded) = self.pair.dumps().await;
        for (engine, dump) in [("redis", &redis), ("embedded", &embedded)] {
            let held = decode::state(dump);
            if held != self.state {
                return Err(self.failed(&format!("{engine} holds {held:#?}\nthe model {:#?}", self.state)));
            }
        }
        Ok(())
    }

    async fn take_marker(&mut self) -> Played {
        let (after, wanted) = step(&self.state, &Op::TakeMarker, self.now, Rules::ALL);
        let Some((redis, embedded)) = self.pair.take_marker().await else {
            return if wanted == Reply::Marker(None) { Ok(()) } else { Err(self.failed("there is no marker")) };
        };
        self.told.push(format!("the marker is taken: {wanted:?}"));
        for taken in [redis, embedded] {
            if Reply::Marker(taken.ok().flatten().map(|marker| marker.due_ms)) != wanted {
                return Err(self.failed("the markers differ"));
            }
        }
        self.state = after;
        self.see(&wanted);
        self.compare().await
    }

    /// A foreign hand removes a record on all three.
    async fn vanish(&mut self, id: u8) {
        if self.state.jobs.remove(&id).is_some()
            && let Some(Value::Hash(mut jobs)) = self.pair.read("jobs").await
        {
            self.told.push(format!("the record of job {id} vanishes"));
            jobs.remove(&delayq_tests::store_kit::id(u64::from(id))[..]);
            let jobs = Some(Value::Hash(jobs)).filter(|_| !self.state.jobs.is_empty());
            self.pair.write("jobs", jobs.as_ref()).await;
        }
    }

    fn see(&self, reply: &Reply) {
        let kind: String = format!("{reply:?}").chars().take_while(|c| c.is_alphanumeric()).collect();
        *self.seen.borrow_mut().entry(kind).or_default() += 1;
    }

    fn failed(&self, what: &str) -> TestCaseError {
        TestCaseError::fail(format!("{what}\nafter\n  {}", self.told.join("\n  ")))
    }
}

#[test]
fn random_histories_are_those_of_the_model_on_both_engines() {
    let (started, asked) = (Instant::now(), number_from("DELAYQ_MODEL_CASES"));
    let config = Config {
        cases: u32::try_from(asked.unwrap_or(CASES)).unwrap(),
        failure_persistence: None,
        max_shrink_time: SHRINKING,
        ..Config::default()
    };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = RedisServer::start().unwrap();
    let pair = RefCell::new(runtime.block_on(Pair::new(&server.url(), "model", false)));
    let (count, seen) = (Cell::new((0, 0)), RefCell::new(BTreeMap::new()));
    let outcome = runner.run(&history(MOVES), |moves| {
        let (histories, made) = count.get();
        count.set((histories + 1, made + moves.len()));
        let mut pair = pair.borrow_mut();
        runtime.block_on(async {
            pair.forget().await;
            pair.turn_to(&format!("model{histories}"));
            Trio::new(&pair, &seen).play(&moves).await
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let ((played, made), seen) = (count.get(), seen.into_inner());
    println!("{played} histories, {made} moves, {:.1} s\n{seen:?}", started.elapsed().as_secs_f64());
    let missing: Vec<&&str> = KINDS.iter().filter(|kind| !seen.contains_key(**kind)).collect();
    assert!(missing.is_empty(), "never answered, so the histories are too poor: {missing:?}");
}
