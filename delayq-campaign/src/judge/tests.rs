//! The judge judged: a good history passes, and each planted fault is found by exactly the invariant that it breaks.

use uuid::Uuid;

use super::{Invariant, Judgement, Verdict, judge};
use crate::history::{Ending, Event, Place, What, When};

const MS: u64 = 1000;
/// What the wall clock is ahead of the monotonic one, µs.
const WALL: u64 = 1_700_000_000_000_000;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A history in the making.
#[derive(Clone, Default)]
struct Story(Vec<Event>);

impl Story {
    fn tell(&mut self, at_ms: u64, by: &str, what: What) {
        self.0.push(Event { t: at_ms * MS, by: by.to_owned(), what });
    }

    fn sent(&mut self, at_ms: u64, n: u128, delay_ms: u64, ending: Ending) {
        let invoke = What::EnqueueInvoke { id: id(n), when: When::In(delay_ms), ending, attempts_max: 4, bytes: 77 };
        self.tell(at_ms, "p1", invoke);
        self.tell(at_ms + 1, "p1", What::EnqueueOk { id: id(n), new: true });
    }

    fn claimed(&mut self, at_ms: u64, by: &str, n: u128, token: u64, attempt: u32, due_at_ms: u64) {
        let due_ms = WALL / MS + due_at_ms;
        let now_us = WALL + at_ms * MS - 200;
        self.tell(at_ms, by, What::Claim { id: id(n), token, attempt, due_ms, now_us });
        self.tell(at_ms, by, What::Start { id: id(n), token });
    }

    fn ended(&mut self, at_ms: u64, by: &str, n: u128, token: u64, how: &str, delay_ms: u64) {
        if how == "done" {
            self.tell(at_ms, by, What::Effect { id: id(n), token, bytes: 77 });
        }
        self.tell(at_ms, by, What::Outcome { id: id(n), token, how: how.to_owned(), delay_ms });
    }

    fn stored(&mut self, n: u128, places: &[Place], reason: Option<&str>, attempts: u32) {
        let places = places.to_vec();
        let reason = reason.map(str::to_owned);
        let stored = What::Stored { id: id(n), places, attempts, crashes: 0, bytes: 77, reason, record: true };
        self.tell(30_000, "campaign", stored);
    }

    fn counted(&mut self, counts: &[(&str, i64)]) {
        let counters = counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        self.tell(30_001, "campaign", What::Counted { counters, foreign: 0 });
    }

    fn remove(&mut self, what: impl Fn(&What) -> bool) {
        let before = self.0.len();
        self.0.retain(|event| !what(&event.what));
        assert!(self.0.len() < before, "there was something to remove");
    }

    fn change(&mut self, mut change: impl FnMut(&mut What) -> bool) {
        let changed = self.0.iter_mut().map(|event| change(&mut event.what)).filter(|changed| *changed).count();
        assert!(changed > 0, "there was something to change");
    }

    fn judged(&self) -> Judgement {
        judge(&self.0, 0)
    }
}

/// One job that succeeds, one that is retried, one that is buried, and one whose first worker is killed.
fn good() -> Story {
    let mut story = Story::default();
    story.tell(0, "campaign", What::Anchor { wall_us: WALL });
    for name in ["w1", "w2", "p1"] {
        story.tell(1, name, What::Up { pid: 1, lease_ms: 2000, clock_off_ms: 0 });
    }
    story.sent(10, 1, 100, Ending::Done);
    story.claimed(115, "w1", 1, 500, 1, 113);
    story.ended(120, "w1", 1, 500, "done", 0);
    story.sent(20, 2, 0, Ending::Done);
    story.claimed(25, "w1", 2, 500, 1, 22);
    story.ended(30, "w1", 2, 500, "retry", 150);
    story.claimed(190, "w2", 2, 501, 2, 185);
    story.ended(200, "w2", 2, 501, "done", 0);
    story.sent(30, 3, 0, Ending::Buried);
    story.claimed(40, "w2", 3, 500, 1, 32);
    story.ended(50, "w2", 3, 500, "dead", 0);
    story.tell(4000, "campaign", What::FaultOn { number: 1, name: "kill".to_owned() });
    story.sent(4000, 4, 0, Ending::Done);
    story.claimed(4005, "w1", 4, 500, 1, 4002);
    story.tell(4100, "campaign", What::Signal { to: "w1".to_owned(), signal: "KILL".to_owned() });
    story.tell(4110, "campaign", What::Down { name: "w1".to_owned(), how: "signal 9".to_owned(), asked: true });
    story.claimed(6500, "w2", 4, 501, 2, 4002);
    story.ended(6510, "w2", 4, 501, "done", 0);
    story.tell(6600, "campaign", What::FaultOff { fired: true, seen: "killed".to_owned() });
    story.tell(7000, "campaign", What::Healed);
    story.tell(8000, "campaign", What::Drained { whole: true });
    story.stored(1, &[Place::Retained], None, 0);
    story.tell(30_000, "campaign", What::Tomb { id: id(2), how: "done".to_owned() });
    story.stored(3, &[Place::Dead], Some("buried"), 1);
    story.stored(4, &[Place::Retained], None, 1);
    story.counted(&[("enqueued", 4), ("done", 3), ("dead_now", 1)]);
    story
}

/// Exactly this invariant is broken.
#[track_caller]
fn breaks(invariant: Invariant, plant: impl Fn(&mut Story)) {
    let mut story = good();
    plant(&mut story);
    let judgement = story.judged();
    let failed: Vec<Invariant> =
        judgement.rulings.iter().filter(|r| r.verdict == Verdict::Fail).map(|r| r.invariant).collect();
    assert_eq!(failed, [invariant], "{:#?}", judgement.findings);
    assert_eq!(judgement.verdict, Verdict::Fail);
}

#[test]
fn a_good_history_passes() {
    let judgement = good().judged();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
    assert!(judgement.rulings.iter().all(|ruling| ruling.verdict == Verdict::Pass));
    assert_eq!((judgement.acknowledged, judgement.runs, judgement.further_runs, judgement.dead_letters), (4, 6, 2, 1));
}

#[test]
fn what_never_struck_proves_nothing() {
    let mut quiet = good();
    quiet.change(|what| {
        let off = matches!(what, What::FaultOff { .. });
        if off {
            *what = What::FaultOff { fired: false, seen: "nobody died".to_owned() };
        }
        off
    });
    assert_eq!(quiet.judged().verdict, Verdict::Unknown);
    let mut endless = good();
    endless.remove(|what| matches!(what, What::FaultOff { .. }));
    assert_eq!(endless.judged().verdict, Verdict::Unknown);
    let mut idle = Story::default();
    idle.tell(5, "campaign", What::FaultOff { fired: true, seen: "it did".to_owned() });
    assert_eq!(idle.judged().verdict, Verdict::Unknown);
    assert_eq!(judge(&good().0, 1).verdict, Verdict::Unknown);
}

#[test]
fn a_failure_stays_one_though_the_fault_never_struck() {
    let mut story = good();
    story.remove(|what| matches!(what, What::FaultOff { .. }));
    story.tell(9000, "campaign", What::Panic { name: "w2".to_owned(), text: "index out of bounds".to_owned() });
    assert_eq!(story.judged().verdict, Verdict::Fail);
}

#[test]
fn l_a_lost_job() {
    breaks(Invariant::L, |story| {
        story.remove(|what| matches!(what, What::Stored { id: is, .. } | What::Claim { id: is, .. } if *is == id(1)));
        story.remove(|what| matches!(what, What::Effect { id: is, .. } | What::Outcome { id: is, .. } if *is == id(1)));
    });
}

#[test]
fn l_a_job_that_nobody_sent() {
    breaks(Invariant::L, |story| story.stored(9, &[Place::Retained], None, 0));
}

#[test]
fn l_a_refused_send_that_is_there() {
    breaks(Invariant::L, |story| {
        let invoke =
            What::EnqueueInvoke { id: id(9), when: When::In(0), ending: Ending::Done, attempts_max: 4, bytes: 77 };
        story.tell(300, "p1", invoke);
        story.tell(301, "p1", What::EnqueueFail { id: id(9), kind: "Full".to_owned(), text: "full".to_owned() });
        story.claimed(310, "w2", 9, 1, 1, 301);
        story.ended(320, "w2", 9, 1, "done", 0);
    });
}

#[test]
fn a_loss_in_a_published_window_is_none() {
    let mut story = good();
    story.remove(|what| matches!(what, What::Stored { id: is, .. } | What::Claim { id: is, .. } if *is == id(1)));
    let window = What::MayLose { since: 0, until: 200 * MS, why: "power cut".to_owned() };
    story.tell(200, "campaign", window);
    let judged = story.judged();
    assert_eq!(judged.verdict, Verdict::Pass, "{:#?}", judged.findings);
    assert_eq!((judged.lost, judged.lost_back_ms), (1, 189), "it was acknowledged at 11 ms");
    assert_eq!(good().judged().lost, 0);
}

#[test]
fn what_was_sent_after_a_window_is_not_excused_by_it() {
    // The job was asked for at 10 ms and acknowledged at 11.
    for (until_us, excused) in [(10 * MS + 500, true), (10 * MS, true), (10 * MS - 1, false)] {
        let mut story = good();
        story.remove(|what| matches!(what, What::Stored { id: is, .. } | What::Claim { id: is, .. } if *is == id(1)));
        story.tell(200, "campaign", What::MayLose { since: 0, until: until_us, why: "power cut".to_owned() });
        let judged = story.judged();
        assert_eq!(judged.verdict == Verdict::Pass, excused, "until {until_us} us: {:#?}", judged.findings);
    }
}

#[test]
fn a_store_that_went_back_may_run_a_job_again_and_loses_none() {
    let window = || What::RolledBack { since: 0, until: 900 * MS, why: "promoted".to_owned() };
    let mut again = good();
    again.claimed(500, "w1", 1, 900, 1, 0);
    again.ended(510, "w1", 1, 900, "done", 0);
    assert_eq!(again.judged().verdict, Verdict::Fail, "without a cause");
    again.tell(600, "campaign", window());
    assert!(again.judged().findings.iter().all(|finding| finding.invariant != Invariant::D), "{:#?}", again.judged());
    let mut lost = good();
    lost.remove(|what| matches!(what, What::Stored { id: is, .. } | What::Claim { id: is, .. } if *is == id(1)));
    lost.tell(600, "campaign", window());
    assert!(lost.judged().findings.iter().any(|finding| finding.invariant == Invariant::L), "{:#?}", lost.judged());
}

#[test]
fn what_a_foreign_hand_wrote_is_nobodys_promise() {
    let mut story = good();
    story.tell(200, "campaign", What::Reported { ids: vec![id(9)], how: "of a foreign writer".to_owned() });
    // Early by its own record, as an attempt that nobody allowed, twice, and done without having been counted.
    for (at_ms, token) in [(300, 700), (310, 600)] {
        story.claimed(at_ms, "w1", 9, token, 40_000, 9000);
        story.ended(at_ms + 5, "w1", 9, token, "done", 0);
    }
    story.stored(9, &[Place::Retained], None, 0);
    story.change(|what| match what {
        What::Counted { counters, .. } => counters.insert("done".to_owned(), 4).is_some(),
        _ => false,
    });
    assert_eq!(story.judged().verdict, Verdict::Pass, "{:#?}", story.judged().findings);
    story.remove(|what| matches!(what, What::Reported { .. }));
    assert_eq!(story.judged().verdict, Verdict::Fail);
}

#[test]
fn e_early_by_the_store() {
    breaks(Invariant::E, |story| {
        story.change(|what| match what {
            What::Claim { id: is, now_us, due_ms, .. } if *is == id(1) => {
                *now_us = *due_ms * 1000 - 1;
                true
            }
            _ => false,
        });
    });
}

#[test]
fn e_early_by_the_monotonic_clock() {
    breaks(Invariant::E, |story| {
        story.change(|what| match what {
            What::EnqueueInvoke { id: is, when, .. } if *is == id(1) => {
                *when = When::In(5000);
                true
            }
            _ => false,
        });
    });
}

#[test]
fn e_by_a_clock_that_is_set_meanwhile_nothing_is_known() {
    let mut story = good();
    // It goes ahead of the monotonic clock: what is due by the store's clock is early by that one.
    story.tell(7001, "campaign", What::Anchor { wall_us: WALL + 7001 * MS + 20 * MS });
    story.change(|what| match what {
        What::EnqueueInvoke { id: is, when, .. } if *is == id(1) => {
            *when = When::In(110);
            true
        }
        _ => false,
    });
    let judgement = story.judged();
    assert_eq!(judgement.verdict, Verdict::Unknown, "{:#?}", judgement.findings);
    assert!(judgement.why.is_some_and(|why| why.contains("clock was moved by 20 ms")));
}

#[test]
fn e_early_by_the_machines_clock() {
    breaks(Invariant::E, |story| {
        story.change(|what| match what {
            What::Claim { id: is, token: 501, due_ms, now_us, .. } if *is == id(2) => {
                (*due_ms, *now_us) = (*due_ms + 400, *now_us + 400 * MS);
                true
            }
            _ => false,
        });
    });
}

#[test]
fn o_done_without_an_effect() {
    breaks(Invariant::O, |story| story.remove(|what| matches!(what, What::Effect { id: is, .. } if *is == id(1))));
}

#[test]
fn o_run_with_other_bytes() {
    breaks(Invariant::O, |story| {
        story.change(|what| match what {
            What::Effect { bytes, .. } => {
                *bytes = 78;
                true
            }
            _ => false,
        });
    });
}

#[test]
fn d_a_second_run_without_a_cause() {
    breaks(Invariant::D, |story| {
        story.claimed(1200, "w2", 1, 501, 1, 113);
        story.ended(1210, "w2", 1, 501, "done", 0);
    });
}

#[test]
fn d_a_settled_job_that_runs_again_after_a_later_crash() {
    breaks(Invariant::D, |story| {
        // w1 was killed at 4.1 s; it had ended this job 4 s before.
        story.claimed(6600, "w2", 1, 501, 1, 113);
        story.ended(6610, "w2", 1, 501, "done", 0);
    });
}

#[test]
fn a_machine_that_stood_still_is_a_cause_and_is_told() {
    let mut story = good();
    story.claimed(4900, "w2", 1, 501, 1, 113);
    story.ended(4910, "w2", 1, 501, "done", 0);
    assert_eq!(story.judged().verdict, Verdict::Fail);
    story.tell(3000, "w1", What::Stalled { since: 114 * MS, everyone: false });
    let judgement = story.judged();
    assert_eq!((judgement.verdict, judgement.stalled_ms), (Verdict::Pass, 2886), "{:#?}", judgement.findings);
}

#[test]
fn a_a_token_that_comes_twice() {
    breaks(Invariant::A, |story| {
        story.change(|what| match what {
            What::Claim { id: is, token, .. } | What::Start { id: is, token } if *is == id(4) => {
                *token = 500;
                true
            }
            _ => false,
        });
        story.change(|what| match what {
            What::Effect { id: is, token, .. } | What::Outcome { id: is, token, .. } if *is == id(4) => {
                *token = 500;
                true
            }
            _ => false,
        });
    });
}

#[test]
fn a_a_token_that_falls() {
    breaks(Invariant::A, |story| {
        story.change(|what| match what {
            What::Claim { id: is, token, .. } | What::Start { id: is, token } if *is == id(2) && *token == 500 => {
                *token = 700;
                true
            }
            _ => false,
        });
        story.change(|what| match what {
            What::Outcome { id: is, token, .. } if *is == id(2) && *token == 500 => {
                *token = 700;
                true
            }
            _ => false,
        });
        // By its tokens the second run was the first: it must have had a cause too.
        story.change(|what| match what {
            What::Outcome { id: is, token: 501, how, .. } if *is == id(2) => {
                *how = "retry".to_owned();
                true
            }
            _ => false,
        });
    });
}

#[test]
fn a_more_attempts_than_allowed() {
    breaks(Invariant::A, |story| {
        story.change(|what| match what {
            What::Claim { id: is, token: 501, attempt, .. } if *is == id(2) => {
                *attempt = 5;
                true
            }
            _ => false,
        });
    });
}

#[test]
fn a_stale_settle_that_was_accepted() {
    breaks(Invariant::A, |story| {
        let settle = What::Settle { id: id(4), token: 500, accepted: true, answer: "Accepted".to_owned() };
        story.tell(6505, "campaign", settle);
    });
}

#[test]
fn t_a_job_that_never_ends() {
    breaks(Invariant::T, |story| {
        story.sent(300, 5, 0, Ending::Done);
        story.stored(5, &[Place::Due(5)], None, 0);
        story.remove(|what| matches!(what, What::Counted { .. }));
        story.counted(&[("enqueued", 5), ("done", 3), ("dead_now", 1), ("waiting", 1)]);
    });
}

#[test]
fn t_a_job_that_comes_late() {
    breaks(Invariant::T, |story| {
        story.sent(300, 5, 0, Ending::Done);
        story.claimed(25_000, "w2", 5, 1, 1, 302);
        story.ended(25_010, "w2", 5, 1, "done", 0);
        story.stored(5, &[Place::Retained], None, 0);
        story.remove(|what| matches!(what, What::Counted { .. }));
        story.counted(&[("enqueued", 5), ("done", 4), ("dead_now", 1)]);
    });
}

#[test]
fn q_a_missing_dead_letter() {
    breaks(Invariant::Q, |story| story.remove(|what| matches!(what, What::Stored { id: is, .. } if *is == id(3))));
}

#[test]
fn q_a_dead_letter_with_a_wrong_reason_or_bytes_or_too_early() {
    let change = |wrong: &'static str| {
        move |story: &mut Story| {
            story.change(|what| match what {
                What::Stored { id: is, reason, bytes, .. } if *is == id(3) => {
                    if wrong == "bytes" {
                        *bytes = 5;
                    } else {
                        *reason = Some(wrong.to_owned());
                    }
                    true
                }
                _ => false,
            });
        }
    };
    breaks(Invariant::Q, change("undecodable"));
    breaks(Invariant::Q, change("crash_loop"));
    breaks(Invariant::Q, change("bytes"));
}

#[test]
fn q_a_good_job_among_the_dead() {
    breaks(Invariant::Q, |story| {
        story.change(|what| match what {
            What::Stored { id: is, places, reason, .. } if *is == id(1) => {
                (*places, *reason) = (vec![Place::Dead], Some("buried".to_owned()));
                true
            }
            _ => false,
        });
    });
}

#[test]
fn c_two_states_none_or_no_record() {
    let placed = |to: &'static [Place], with: bool| {
        move |story: &mut Story| {
            story.change(|what| match what {
                What::Stored { id: is, places, record, .. } if *is == id(1) => {
                    (*places, *record) = (to.to_vec(), with);
                    true
                }
                _ => false,
            });
        }
    };
    breaks(Invariant::C, placed(&[Place::Retained, Place::Dead], true).then_buried());
    breaks(Invariant::C, placed(&[], true));
    breaks(Invariant::C, placed(&[Place::Retained], false));
}

/// A job that is also among the dead is Q's too, unless it belongs there.
trait Buried: Fn(&mut Story) + Sized {
    fn then_buried(self) -> impl Fn(&mut Story) {
        move |story: &mut Story| {
            self(story);
            story.change(|what| match what {
                What::Stored { id: is, reason, .. } if *is == id(1) => {
                    *reason = Some("buried".to_owned());
                    true
                }
                What::EnqueueInvoke { id: is, ending, .. } if *is == id(1) => {
                    *ending = Ending::Buried;
                    true
                }
                _ => false,
            });
        }
    }
}

impl<F: Fn(&mut Story)> Buried for F {}

#[test]
fn c_counts_that_do_not_add_up() {
    let recount = |counts: &'static [(&'static str, i64)]| {
        move |story: &mut Story| {
            story.remove(|what| matches!(what, What::Counted { .. }));
            story.counted(counts);
        }
    };
    breaks(Invariant::C, recount(&[("enqueued", 4), ("done", 4), ("dead_now", 1)]));
    breaks(Invariant::C, recount(&[("enqueued", 5), ("done", 4), ("dead_now", 1)]));
    breaks(Invariant::C, recount(&[("enqueued", 4), ("done", 3), ("dead_now", 1), ("orphans", 2)]));
    breaks(Invariant::C, recount(&[("enqueued", 4), ("done", 3), ("dead_now", 1), ("quarantined", 2)]));
}

#[test]
fn s_a_panic_an_end_unasked_an_untyped_error_and_a_send_without_an_answer() {
    breaks(Invariant::S, |story| {
        story.tell(9000, "campaign", What::Panic { name: "w2".to_owned(), text: "unwrap on None".to_owned() });
    });
    breaks(Invariant::S, |story| {
        let down = What::Down { name: "w2".to_owned(), how: "exit 1".to_owned(), asked: false };
        story.tell(29_000, "campaign", down);
    });
    let invoke = What::EnqueueInvoke { id: id(9), when: When::In(0), ending: Ending::Done, attempts_max: 4, bytes: 7 };
    breaks(Invariant::S, |story| {
        story.tell(300, "p1", invoke.clone());
        story.tell(301, "p1", What::EnqueueFail { id: id(9), kind: "Corrupt".to_owned(), text: "odd".to_owned() });
    });
    breaks(Invariant::S, |story| story.tell(300, "p1", invoke.clone()));
    breaks(Invariant::S, |story| {
        story.tell(300, "campaign", What::Sample { name: "w1".to_owned(), rss_kib: 4 << 20, fds: 10 });
    });
}

#[test]
fn a_demand_of_a_fault_that_is_not_met_breaks_its_invariant() {
    breaks(Invariant::D, |story| {
        let demand = What::Demand { invariant: 'D', met: false, text: "exactly one further run".to_owned() };
        story.tell(6600, "campaign", demand);
    });
}
