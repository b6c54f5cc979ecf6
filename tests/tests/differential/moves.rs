//! What may happen next, drawn before it is known what is there: proptest shrinks these, and each says something in any state.

use delayq_model::{Id, NewJob, Verdict, When};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Where the clock begins, ms.
pub(crate) const START_MS: u64 = 1_700_000_000_000;
/// How many workers there are.
pub(crate) const SEATS: usize = 3;
/// How many jobs.
const JOBS: Id = 4;

/// A move. Numbers that choose among what is there wrap around.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    Wait {
        us: u64,
        back: bool,
    },
    Open {
        seat: usize,
        lease: u64,
        layout: (u32, u32),
    },
    Beat {
        seat: usize,
        timer: u8,
    },
    Claim {
        seat: usize,
        late: bool,
        count: usize,
        timer: u8,
        alone: Option<Id>,
        verdicts: Vec<Ending>,
    },
    Settle {
        seat: usize,
        late: bool,
        verdicts: Vec<Ending>,
    },
    Reconcile {
        seat: usize,
        late: bool,
        knows: u8,
        foreign: bool,
    },
    Rescue {
        which: u8,
    },
    Close {
        seat: usize,
    },
    Enqueue {
        jobs: Vec<NewJob>,
        layout: (u32, u32),
    },
    Cancel {
        id: Id,
    },
    Reschedule {
        id: Id,
        when: When,
    },
    Redrive {
        ids: Vec<Id>,
    },
    Delete {
        ids: Vec<Id>,
    },
    Pause {
        on: bool,
    },
    Pass,
    TakeMarker,
    Inspect {
        id: Id,
    },
    Stats,
    /// A foreign hand removes a record.
    Vanish {
        id: Id,
    },
}

impl Move {
    /// Whose call it is, if it is a worker's.
    pub(crate) fn seat(&self) -> Option<usize> {
        match self {
            Move::Open { seat, .. } | Move::Beat { seat, .. } | Move::Claim { seat, .. } => Some(*seat),
            Move::Settle { seat, .. } | Move::Reconcile { seat, .. } | Move::Close { seat } => Some(*seat),
            _ => None,
        }
    }
}

/// A verdict for one of the runs that a session holds, or that were ever given out.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) of_any: bool,
    pub(crate) which: u8,
    pub(crate) verdict: Verdict,
}

fn seat() -> impl Strategy<Value = usize> {
    0..SEATS
}

fn job() -> impl Strategy<Value = Id> {
    1..=JOBS
}

fn layout() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![20 => Just((1, 1)), 1 => Just((2, 1)), 1 => Just((1, 2))]
}

fn late() -> impl Strategy<Value = bool> {
    prop_oneof![12 => Just(false), 1 => Just(true)]
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        3 => Just(When::In(0)),
        3 => (0..2000u64).prop_map(When::In),
        1 => (0..4000u64).prop_map(|ms| When::At(START_MS + ms)),
        6 => Just(When::At(1000)),
    ]
}

fn new_job() -> impl Strategy<Value = NewJob> {
    let often = prop_oneof![3 => Just(5u8), 1 => 0..10u8];
    let limit = select(vec![1u16, 2, 3, 3, 65_534, u16::MAX]);
    let keys = option::weighted(0.4, 0..2u8);
    (job(), when(), often, limit, option::weighted(0.2, 0..3000u64), select(vec![0, 0, 0, 700, 20_000u64]), keys)
        .prop_flat_map(|(id, when, priority, limit, expires, retain, key)| {
            select(vec![0, 0, 500u64]).prop_map(move |ttl| {
                let key_ttl = if key.is_some() { ttl } else { 0 };
                NewJob { id, when, priority, limit, expires, retain, key, key_ttl }
            })
        })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        2 => Just(Verdict::Done),
        2 => Just(Verdict::DoneYoung),
        4 => Just(Verdict::DoneExtended),
        3 => (0..1500u64).prop_map(Verdict::Retry),
        2 => (0..1500u64).prop_map(Verdict::Snooze),
        2 => Just(Verdict::HandBack),
        1 => Just(Verdict::Discard),
        2 => Just(Verdict::Bury),
    ]
}

fn endings() -> impl Strategy<Value = Vec<Ending>> {
    let ending = (prop_oneof![7 => Just(false), 1 => Just(true)], any::<u8>(), verdict());
    vec(ending.prop_map(|(of_any, which, verdict)| Ending { of_any, which, verdict }), 0..4)
}

fn ids() -> impl Strategy<Value = Vec<Id>> {
    vec(job(), 0..4)
}

fn one_move() -> impl Strategy<Value = Move> {
    let us = prop_oneof![
        4 => 0..3000u64,
        4 => (0..900u64).prop_map(|ms| ms * 1000),
        3 => (990..2100u64).prop_map(|ms| ms * 1000 + 300),
        1 => (14_000..16_000u64).prop_map(|ms| ms * 1000),
    ];
    let back = prop_oneof![30 => Just(false), 1 => Just(true)];
    let claim = (seat(), late(), 1..4usize, any::<u8>(), option::weighted(0.1, job()), endings());
    prop_oneof![
        14 => (us, back).prop_map(|(us, back)| Move::Wait { us, back }),
        18 => (vec(new_job(), 0..4), layout()).prop_map(|(jobs, layout)| Move::Enqueue { jobs, layout }),
        20 => claim.prop_map(|(seat, late, count, timer, alone, verdicts)| Move::Claim {
            seat, late, count, timer, alone, verdicts
        }),
        14 => (seat(), late(), endings()).prop_map(|(seat, late, verdicts)| Move::Settle { seat, late, verdicts }),
        9 => (seat(), any::<u8>()).prop_map(|(seat, timer)| Move::Beat { seat, timer }),
        9 => any::<u8>().prop_map(|which| Move::Rescue { which }),
        6 => (seat(), select(vec![500, 1000, 5000u64]), layout())
            .prop_map(|(seat, lease, layout)| Move::Open { seat, lease, layout }),
        2 => seat().prop_map(|seat| Move::Close { seat }),
        4 => (seat(), late(), any::<u8>(), any::<bool>())
            .prop_map(|(seat, late, knows, foreign)| Move::Reconcile { seat, late, knows, foreign }),
        7 => job().prop_map(|id| Move::Cancel { id }),
        6 => (job(), when()).prop_map(|(id, when)| Move::Reschedule { id, when }),
        4 => ids().prop_map(|ids| Move::Redrive { ids }),
        2 => ids().prop_map(|ids| Move::Delete { ids }),
        2 => any::<bool>().prop_map(|on| Move::Pause { on }),
        2 => Just(Move::Pass),
        3 => Just(Move::TakeMarker),
        2 => job().prop_map(|id| Move::Inspect { id }),
        2 => Just(Move::Stats),
        1 => job().prop_map(|id| Move::Vanish { id }),
    ]
}

/// A history.
pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Move>> {
    vec(one_move(), 1..longest)
}
