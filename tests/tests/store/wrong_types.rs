//! Rule u, and Redis's not rolling back: a key of the wrong type shows before a script has written anything.

use delayq::engine::BoxFuture;
use delayq::store::Member;
use delayq::store::ops::{Claim, Look, Verdict};
use delayq::{DeadReason, Error, ErrorKind};
use delayq_tests::store_kit::{HOUR_MS, Hand, LONG, Run, Value, With, World, ask, id, job};

delayq_tests::store_cases!(
    u_a_key_of_the_wrong_type_shows_before_anything_was_written,
    u_the_table_of_calls_works_where_nothing_is_wrong
);

/// A shard with something for every script to do, and who holds what in it.
struct Scene<'w> {
    world: &'w World,
    hand: Hand<'w>,
    runs: Vec<Run>,
    lost: Hand<'w>,
    drained: Hand<'w>,
}

type Call = for<'a> fn(&'a mut Scene<'_>) -> BoxFuture<'a, Result<(), Error>>;

impl<'w> Scene<'w> {
    async fn new(world: &'w World) -> Scene<'w> {
        let mut hand = world.open().await;
        for n in [1, 2, 3] {
            world.create(&[job(n).unique(&n.to_string())]).await;
            hand.run_one(Verdict::Bury { reason: DeadReason::Buried, error: String::new() }).await;
        }
        world.create(&[job(4).retain(1)]).await;
        hand.run_one(Verdict::DoneExtended).await;
        let mut others = Vec::new();
        for batch in [10..12, 20..23] {
            world.create(&batch.map(job).collect::<Vec<_>>()).await;
            let mut other = world.open().await;
            assert!(other.take(10).await.len() >= 2);
            world.expire(&other.id).await;
            others.push(other);
        }
        let (drained, lost) = (others.remove(1), others.remove(0));
        world.store.rescue(&world.shard, &drained.id, 1).await.unwrap();
        world.store.cancel(&world.shard, &id(20)).await.unwrap();
        let held: Vec<_> = (30..38).map(|n| job(n).due("@5").unique(&n.to_string()).retain(1)).collect();
        world.create(&held).await;
        let runs = hand.take(8).await;
        assert_eq!(runs.len(), 8);
        world
            .create(&[job(40), job(41).priority(2), job(42).due("@5").expires(1).unique("e"), job(43).due("+90000")])
            .await;
        world.set_score("due:5", id(50), Some(6)).await;
        world.set_field("jobs", id(51), Some(b"damaged".to_vec())).await;
        world.set_score("due:5", id(51), Some(6)).await;
        // In no place.
        let record = world.field("jobs", id(43)).await;
        world.set_field("jobs", id(52), record).await;
        // Both have something old to trim.
        world.set_score("tombs", id(60), Some(1)).await;
        world.set_score("done", id(4), Some(1)).await;
        Scene { world, hand, runs, lost, drained }
    }

    fn verdicts(&self, letters: &str) -> Vec<(Member, Verdict)> {
        let verdict = |letter| match letter {
            'd' => Verdict::Done,
            't' => Verdict::DoneYoung,
            'x' => Verdict::DoneExtended,
            'r' => Verdict::Retry { delay_ms: HOUR_MS, error: "e".to_owned() },
            's' => Verdict::Snooze { delay_ms: 0 },
            'h' => Verdict::HandBack,
            'c' => Verdict::Discard,
            _ => Verdict::Bury { reason: DeadReason::Buried, error: "e".to_owned() },
        };
        self.runs.iter().zip(letters.chars()).map(|(run, letter)| (run.member, verdict(letter))).collect()
    }

    async fn repair(&self, look: Look, n: u64) -> Result<(), Error> {
        let (store, shard) = (&self.world.store, &self.world.shard);
        let sessions: Vec<_> = store.sessions(shard).await?.iter().map(|session| session.id).collect();
        store.repair(shard, look, &[id(n).to_vec()], &sessions).await.map(drop)
    }

    async fn settle(&mut self, letters: &str) -> Result<(), Error> {
        let (verdicts, seq) = (self.verdicts(letters), self.hand.next_seq());
        self.world.store.settle(&self.world.shard, &self.hand.id, seq, &verdicts).await.map(drop)
    }

    async fn claim(&mut self, letters: &str, count: usize) -> Result<(), Error> {
        let (verdicts, seq) = (self.verdicts(letters), self.hand.next_seq());
        let claim = Claim { verdicts: &verdicts, ..ask(count) };
        self.world.store.claim(&self.world.shard, &self.hand.id, seq, claim).await.map(drop)
    }
}

/// Every script that writes, in each of its ways.
const CALLS: &[(&str, Call)] = &[
    ("beat", |s| Box::pin(async { s.world.store.beat(&s.world.shard, &s.hand.id, LONG, 0, None).await.map(drop) })),
    ("cancel a waiting job", |s| Box::pin(async { s.world.store.cancel(&s.world.shard, &id(40)).await.map(drop) })),
    ("cancel a running job", |s| Box::pin(async { s.world.store.cancel(&s.world.shard, &id(30)).await.map(drop) })),
    ("claim", |s| Box::pin(async { s.claim("", 10).await })),
    ("claim one", |s| Box::pin(async { s.claim("", 1).await })),
    ("claim and settle plainly", |s| Box::pin(async { s.claim("dtd", 10).await })),
    ("claim and settle all ways", |s| Box::pin(async { s.claim("dtxrshcb", 10).await })),
    ("claim while paused", |s| {
        Box::pin(async {
            s.world.store.pause(&s.world.shard, true).await?;
            s.claim("d", 10).await
        })
    }),
    ("close", |s| {
        Box::pin(async {
            s.settle("hhhhhhhh").await?;
            s.world.store.close(&s.world.shard, &s.hand.id).await.map(drop)
        })
    }),
    ("dead_delete", |s| {
        Box::pin(async { s.world.store.dead_delete(&s.world.shard, &[id(1).to_vec(), id(2).to_vec()]).await.map(drop) })
    }),
    ("dead_redrive", |s| {
        Box::pin(async {
            s.world.store.dead_redrive(&s.world.shard, &[id(1).to_vec(), id(2).to_vec()]).await.map(drop)
        })
    }),
    ("enqueue", |s| {
        Box::pin(async {
            let jobs = [job(70), job(71).priority(0).unique("u"), job(72).unique("30")];
            s.world.store.enqueue(&s.world.shard, &jobs).await.map(drop)
        })
    }),
    ("open", |s| Box::pin(async { s.world.store.open(&s.world.shard, &[9; 16], LONG * 2).await })),
    ("pass", |s| Box::pin(async { s.world.store.pass(&s.world.shard).await })),
    ("pause", |s| Box::pin(async { s.world.store.pause(&s.world.shard, true).await.map(drop) })),
    ("resume", |s| Box::pin(async { s.world.store.pause(&s.world.shard, false).await.map(drop) })),
    ("reconcile", |s| {
        Box::pin(async {
            let (known, seq) = (s.runs[0].member, s.hand.next_seq());
            s.world.store.reconcile(&s.world.shard, &s.hand.id, seq, &[known]).await.map(drop)
        })
    }),
    ("repair a record", |s| Box::pin(s.repair(Look::Records, 52))),
    ("repair an entry", |s| Box::pin(s.repair(Look::Due(5), 50))),
    ("reschedule", |s| Box::pin(async { s.world.store.reschedule(&s.world.shard, &id(43), "+5").await.map(drop) })),
    ("rescue", |s| Box::pin(async { s.world.store.rescue(&s.world.shard, &s.lost.id, 500).await.map(drop) })),
    ("rescue on", |s| Box::pin(async { s.world.store.rescue(&s.world.shard, &s.drained.id, 500).await.map(drop) })),
    ("settle plainly", |s| Box::pin(async { s.settle("dt").await })),
    ("settle all ways", |s| Box::pin(async { s.settle("dtxrshcb").await })),
    ("settle extended", |s| Box::pin(async { s.settle("xx").await })),
];

pub(crate) async fn u_the_table_of_calls_works_where_nothing_is_wrong(world: &World) {
    for (name, call) in CALLS {
        let world = world.sibling();
        let mut scene = Scene::new(&world).await;
        let before = world.dump().await;
        call(&mut scene).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        // Where a call changes nothing in the first place, the other case would say nothing.
        assert!(["pass", "resume"].contains(name) || world.dump().await != before, "{name} changed nothing");
    }
}

async fn u_a_key_of_the_wrong_type_shows_before_anything_was_written(world: &World) {
    let mut partial = Vec::new();
    for (name, call) in CALLS {
        let mut noticed = 0;
        for at in 0..20 {
            let world = world.sibling();
            let mut scene = Scene::new(&world).await;
            let session = match *name {
                "rescue" => &scene.lost,
                "rescue on" => &scene.drained,
                _ => &scene.hand,
            };
            let key = world.all_keys(&session.id)[at].clone();
            let key = String::from_utf8(key[world.shard.key("").len()..].to_vec()).unwrap();
            world.write(&key, Some(Value::Text(b"of another application".to_vec()))).await;
            let before = world.dump().await;
            match call(&mut scene).await {
                // This script doesn't look at that key.
                Ok(()) => assert!(matches!(world.read(&key).await, Some(Value::Text(_)))),
                Err(error) => {
                    noticed += 1;
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}, {key}: {error:?}");
                    let step = *name == "close" || *name == "claim while paused";
                    // Those two consist of two calls, the first of which may have been done.
                    if !step && world.dump().await != before {
                        partial.push(format!("{name}, {key}"));
                    }
                }
            }
            world.forget().await;
        }
        assert!(noticed > 0, "{name} looks at nothing");
    }
    assert!(partial.is_empty(), "wrote before it noticed: {partial:#?}");
}
