//! The history put in order: by job, by process, and when who was disturbed.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use crate::history::{Ending, Event, Place, What, When};

/// A send that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Invoke {
    pub(crate) t: u64,
    pub(crate) by: String,
    pub(crate) when: When,
    pub(crate) ending: Ending,
    pub(crate) attempts_max: u32,
    pub(crate) bytes: u32,
}

/// An acknowledgement: when it was written down, and when its send had been asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) t: u64,
    pub(crate) asked: u64,
}

/// How long after it was given an acknowledgement may be written down, µs.
const TOLD: u64 = 100_000;

/// A run as its process saw it.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) t: u64,
    pub(crate) by: String,
    pub(crate) token: u64,
    pub(crate) attempt: u32,
    pub(crate) due_ms: u64,
    pub(crate) now_us: u64,
    pub(crate) started: bool,
    pub(crate) effects: Vec<u32>,
    /// When, what, and with which wait.
    pub(crate) outcome: Option<(u64, String, u64)>,
}

impl Claim {
    pub(crate) fn came_to(&self, how: &str) -> bool {
        self.outcome.as_ref().is_some_and(|(_, is, _)| is == how)
    }

    /// The run ended the job, as far as its process knows.
    pub(crate) fn ended_it(&self) -> bool {
        ["done", "discard", "dead"].iter().any(|how| self.came_to(how))
    }
}

/// What the store had of a job in the end.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) places: Vec<Place>,
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) bytes: u32,
    pub(crate) reason: Option<String>,
    pub(crate) record: bool,
}

/// All that is known of one job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Job {
    pub(crate) invokes: Vec<Invoke>,
    pub(crate) acks: Vec<Ack>,
    pub(crate) new_acks: usize,
    /// Refusals for good, by the error's kind.
    pub(crate) refusals: Vec<String>,
    pub(crate) unknowns: usize,
    pub(crate) claims: Vec<Claim>,
    pub(crate) settles: Vec<(u64, u64, bool)>,
    pub(crate) cancels: Vec<String>,
    pub(crate) cancel_asked: usize,
    pub(crate) redriven: Vec<u64>,
    pub(crate) stored: Option<Stored>,
    pub(crate) tomb: Option<String>,
    pub(crate) reported: bool,
}

impl Job {
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.invokes.first().map(|invoke| invoke.ending)
    }

    /// A foreign hand wrote it: what it says of its due time and attempts is not what anybody asked for.
    pub(crate) fn is_foreign(&self) -> bool {
        self.invokes.is_empty() && self.reported
    }

    pub(crate) fn is_acked(&self) -> bool {
        !self.acks.is_empty()
    }

    pub(crate) fn has_effect(&self) -> bool {
        self.claims.iter().any(|claim| !claim.effects.is_empty())
    }

    /// It waits or runs.
    pub(crate) fn is_live(&self) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|stored| stored.places.iter().any(|p| matches!(p, Place::Due(_) | Place::Held(_))))
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.places.contains(&Place::Dead))
    }

    pub(crate) fn is_retained(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.places.contains(&Place::Retained))
    }

    /// A cancel took effect, or may have at the end of a run.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        // A cancel without an answer may have happened too.
        self.cancels.iter().any(|answer| answer == "cancelled" || answer == "running" || answer == "Unknown")
            || self.cancel_asked > self.cancels.len()
            || self.tomb.as_deref() == Some("cancelled")
    }
}

/// A time in which a process, or everyone, could not do what it should.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub(crate) who: Option<String>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) what: String,
}

/// The end of a process.
#[derive(Debug, Clone)]
pub(crate) struct Down {
    pub(crate) name: String,
    pub(crate) how: String,
    pub(crate) asked: bool,
}

/// The history, put in order.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) jobs: BTreeMap<Uuid, Job>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) may_lose: Vec<(u64, u64)>,
    pub(crate) went_back: Vec<(u64, u64)>,
    pub(crate) downs: Vec<Down>,
    pub(crate) panics: Vec<(String, String)>,
    /// Name, KiB, file descriptors.
    pub(crate) samples: Vec<(String, u64, u64)>,
    pub(crate) demands: Vec<(char, bool, String)>,
    pub(crate) counters: Option<BTreeMap<String, i64>>,
    /// The store's counters were destroyed on purpose.
    pub(crate) counters_gone: bool,
    /// Something in the store was made unreadable on purpose.
    pub(crate) corrupt: bool,
    pub(crate) fired: Option<(bool, String)>,
    /// How long the machine itself stood still, of all processes together.
    pub(crate) stalled_us: u64,
    pub(crate) slack_us: u64,
    pub(crate) lease_us: u64,
    /// Wall clock minus monotonic clock, µs, if it stood still.
    pub(crate) wall_offset: Option<i64>,
    /// How far the machine's own wall clock was moved against its monotonic one, µs.
    pub(crate) wall_moved_us: i64,
    /// When the store's clock was how far off, ms.
    pub(crate) clocks: Vec<(u64, i64)>,
    pub(crate) end: u64,
}

/// How much the wall clock may move against the monotonic one before it proves nothing any more, µs.
pub(super) const WALL_DRIFT: i64 = 3000;
/// How late a job may be at any time on a slow machine, µs.
const SLACK: u64 = 5_000_000;

impl Facts {
    pub(crate) fn gather(events: &[Event]) -> Facts {
        let mut facts = Facts { slack_us: SLACK, ..Facts::default() };
        let mut open: HashMap<Option<String>, (u64, String)> = HashMap::new();
        let mut asked: HashMap<String, (u64, String)> = HashMap::new();
        let mut anchors = Vec::new();
        facts.end = events.iter().map(|event| event.t).max().unwrap_or_default();
        for event in events {
            let (t, by) = (event.t, &event.by);
            match &event.what {
                What::Anchor { wall_us } => anchors.push(*wall_us as i64 - t as i64),
                What::Up { lease_ms, .. } => facts.lease_us = facts.lease_us.max(lease_ms * 1000),
                What::Disturbed { who, what } => drop(open.insert(who.clone(), (t, what.clone()))),
                What::Calm { who } => {
                    if let Some((from, what)) = open.remove(who) {
                        facts.intervals.push(Interval { who: who.clone(), from, to: t, what });
                    }
                }
                What::Signal { to, signal } if signal == "KILL" || signal == "TERM" => {
                    asked.entry(to.clone()).or_insert((t, signal.clone()));
                }
                What::Down { name, how, asked: wanted } => {
                    let (from, signal) = asked.remove(name).unwrap_or((t.saturating_sub(200_000), how.clone()));
                    let what = format!("{name} ended: {signal}");
                    facts.intervals.push(Interval { who: Some(name.clone()), from, to: t, what });
                    facts.downs.push(Down { name: name.clone(), how: how.clone(), asked: *wanted });
                }
                What::Stalled { since, everyone } => {
                    facts.stalled_us += t.saturating_sub(*since);
                    let who = (!everyone).then(|| by.clone());
                    facts.intervals.push(Interval {
                        who,
                        from: *since,
                        to: t,
                        what: "the machine was slow".to_owned(),
                    });
                }
                What::MayLose { since, until, .. } => facts.may_lose.push((*since, *until)),
                What::RolledBack { since, until, .. } => facts.went_back.push((*since, *until)),
                What::Clock { offset_ms } => facts.clocks.push((t, *offset_ms)),
                What::FaultOff { fired, seen } => facts.fired = Some((*fired, seen.clone())),
                What::Slack { ms, .. } => facts.slack_us = facts.slack_us.max(ms * 1000),
                What::Reported { ids, how } => {
                    facts.counters_gone |= how == "counters";
                    facts.corrupt |= how == "corrupt";
                    for id in ids {
                        facts.jobs.entry(*id).or_default().reported = true;
                    }
                }
                What::ManyInvoke { ids, when, attempts_max, bytes } => {
                    for id in ids {
                        facts.jobs.entry(*id).or_default().invokes.push(Invoke {
                            t,
                            by: by.clone(),
                            when: *when,
                            ending: Ending::Done,
                            attempts_max: *attempts_max,
                            bytes: *bytes,
                        });
                    }
                }
                What::ManyOk { ids } => {
                    for id in ids {
                        let job = facts.jobs.entry(*id).or_default();
                        job.acks.push(Ack { t, asked: t });
                        job.new_acks += 1;
                    }
                }
                What::Demand { invariant, met, text } => facts.demands.push((*invariant, *met, text.clone())),
                What::Panic { name, text } => facts.panics.push((name.clone(), text.clone())),
                What::Sample { name, rss_kib, fds } => facts.samples.push((name.clone(), *rss_kib, *fds)),
                What::Counted { counters, .. } => facts.counters = Some(counters.clone()),
                other => facts.of_a_job(t, by, other),
            }
        }
        let end = facts.end;
        facts.intervals.extend(open.into_iter().map(|(who, (from, what))| Interval { who, from, to: end, what }));
        let spread = anchors.iter().max().zip(anchors.iter().min()).map(|(most, least)| most - least);
        facts.wall_moved_us = spread.unwrap_or(0);
        facts.wall_offset = anchors.iter().min().copied().filter(|_| spread.is_some_and(|s| s <= WALL_DRIFT));
        facts
    }

    /// Takes in what concerns one job.
    fn of_a_job(&mut self, t: u64, by: &str, what: &What) {
        let Some(id) = id_of(what) else { return };
        let job = self.jobs.entry(id).or_default();
        let run = |job: &mut Job, token: u64, change: &dyn Fn(&mut Claim)| {
            let found = job.claims.iter_mut().rev().find(|claim| claim.token == token && claim.by == by);
            if let Some(claim) = found {
                change(claim);
            }
        };
        match what {
            What::EnqueueInvoke { when, ending, attempts_max, bytes, .. } => job.invokes.push(Invoke {
                t,
                by: by.to_owned(),
                when: *when,
                ending: *ending,
                attempts_max: *attempts_max,
                bytes: *bytes,
            }),
            What::EnqueueOk { new, .. } => {
                job.acks.push(Ack { t, asked: job.invokes.last().map_or(t, |invoke| invoke.t) });
                job.new_acks += usize::from(*new);
            }
            What::EnqueueFail { kind, .. } => job.refusals.push(kind.clone()),
            What::EnqueueUnknown { .. } => job.unknowns += 1,
            What::Claim { token, attempt, due_ms, now_us, .. } => job.claims.push(Claim {
                t,
                by: by.to_owned(),
                token: *token,
                attempt: *attempt,
                due_ms: *due_ms,
                now_us: *now_us,
                started: false,
                effects: Vec::new(),
                outcome: None,
            }),
            What::Ran { token, attempt, due_ms, now_us, bytes, .. } => job.claims.push(Claim {
                t,
                by: by.to_owned(),
                token: *token,
                attempt: *attempt,
                due_ms: *due_ms,
                now_us: *now_us,
                started: true,
                effects: vec![*bytes],
                outcome: Some((t, "done".to_owned(), 0)),
            }),
            What::Start { token, .. } => run(job, *token, &|claim| claim.started = true),
            What::Effect { token, bytes, .. } => run(job, *token, &|claim| claim.effects.push(*bytes)),
            What::Outcome { token, how, delay_ms, .. } => {
                run(job, *token, &|claim| claim.outcome = Some((t, how.clone(), *delay_ms)));
            }
            What::Settle { token, accepted, .. } => job.settles.push((t, *token, *accepted)),
            What::CancelInvoke { .. } => job.cancel_asked += 1,
            What::CancelTold { answer, .. } => job.cancels.push(answer.clone()),
            What::Redriven { .. } => job.redriven.push(t),
            What::Stored { places, attempts, crashes, bytes, reason, record, .. } => {
                job.stored = Some(Stored {
                    places: places.clone(),
                    attempts: *attempts,
                    crashes: *crashes,
                    bytes: *bytes,
                    reason: reason.clone(),
                    record: *record,
                });
            }
            What::Tomb { how, .. } => job.tomb = Some(how.clone()),
            _ => {}
        }
    }

    /// Whether what was acknowledged so may be gone.
    pub(crate) fn may_be_lost(&self, ack: Ack) -> bool {
        self.left_of_window(ack).is_some()
    }

    /// How long before the end of a window in which it may be gone an acknowledgement was, µs. Its send must have been asked for by then.
    pub(crate) fn left_of_window(&self, ack: Ack) -> Option<u64> {
        let around = self
            .may_lose
            .iter()
            .filter(|(since, until)| (*since..=*until + TOLD).contains(&ack.t) && ack.asked <= *until);
        around.map(|(_, until)| until.saturating_sub(ack.t)).min()
    }

    /// The store may have gone back to an earlier state between these moments.
    pub(crate) fn rolled_back(&self, from: u64, to: u64) -> bool {
        self.may_lose.iter().chain(&self.went_back).any(|(since, until)| *since <= to && *until >= from)
    }

    /// What disturbed a process, or everyone, in a time.
    pub(crate) fn disturbed(&self, who: &str, from: u64, to: u64) -> Option<&Interval> {
        self.intervals.iter().find(|i| i.who.as_deref().is_none_or(|is| is == who) && i.from <= to && i.to >= from)
    }

    /// When the last disturbance of anyone that began before this moment was over.
    pub(crate) fn calm_since(&self, t: u64) -> u64 {
        self.intervals.iter().filter(|i| i.from <= t).map(|i| i.to.min(t)).max().unwrap_or_default()
    }

    /// The largest offset of the store's clock in a time, µs.
    pub(crate) fn clock_offset(&self, from: u64, to: u64) -> i64 {
        let before = self.clocks.iter().rev().find(|(t, _)| *t <= from).map_or(0, |(_, ms)| *ms);
        let within = self.clocks.iter().filter(|(t, _)| (from..=to).contains(t)).map(|(_, ms)| *ms);
        within.fold(before, i64::max) * 1000
    }
}

/// The job that an event is about.
pub(crate) fn id_of(what: &What) -> Option<Uuid> {
    match what {
        What::EnqueueInvoke { id, .. }
        | What::EnqueueOk { id, .. }
        | What::EnqueueFail { id, .. }
        | What::EnqueueUnknown { id, .. }
        | What::Claim { id, .. }
        | What::Start { id, .. }
        | What::Effect { id, .. }
        | What::Outcome { id, .. }
        | What::Ran { id, .. }
        | What::Settle { id, .. }
        | What::CancelInvoke { id }
        | What::CancelTold { id, .. }
        | What::Redriven { id }
        | What::Stored { id, .. }
        | What::Tomb { id, .. } => Some(*id),
        _ => None,
    }
}
