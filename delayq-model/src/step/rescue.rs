//! Brings back what a session no longer runs: `lua/rescue.lua` and `lua/reconcile.lua`.

use super::Call;
use super::ends::attempts_plus_one;
use crate::{Chosen, Code, Counter, End, Member, NO_LIMIT, Part, Record, Reply, SOLO_AT, Session};

/// How long a job that was there in two crashes stays away from those it crashed with, ms, before jitter. The model's ids
/// have no random bits.
const APART: u64 = 2000;

/// What became of a job that was taken back.
enum Back {
    Given(u64),
    Buried,
    Cancelled,
    Quarantined,
}

impl Call<'_> {
    pub(super) fn rescue(&mut self, session: Session, chosen: Chosen) -> Reply {
        let now = self.now.ms();
        let Some(ends) = self.s.sessions.get(&session).copied() else { return Reply::Gone };
        if ends > now && self.keeps(Part::BRecheck) {
            return Reply::Alive;
        }
        if ends > 0 && self.s.stats.hold_until.unwrap_or(0) > now {
            return Reply::OnHold;
        }
        // Fenced first: from here on the session can take and settle nothing, however long this goes on (rule b).
        if self.keeps(Part::BFence) {
            self.s.sessions.insert(session, 0);
        }
        let held = self.s.held_by(session);
        let members: Vec<Member> =
            held.filter(|m| matches!(chosen, Chosen::All) || chosen == Chosen::One(*m)).collect();
        let (mut given, mut buried, mut cancelled, mut quarantined, mut head) = (0, 0, 0, 0, None::<u64>);
        for (member, record) in self.runs_held(&members) {
            self.s.held.remove(&(session, member));
            match self.take_back(member, record) {
                Back::Given(due) => {
                    given += 1;
                    head = Some(head.map_or(due, |head| head.min(due)));
                }
                Back::Buried => buried += 1,
                Back::Cancelled => cancelled += 1,
                Back::Quarantined => quarantined += 1,
            }
        }
        let done = self.s.held_count(session) == 0;
        if (done && self.keeps(Part::BEmpty)) || !self.keeps(Part::BListed) {
            self.s.sessions.remove(&session);
            self.s.stats.seqs.remove(&session);
            self.count(Counter::SessionsLost, 1);
        }
        self.count(Counter::Crashed, given);
        self.count(Counter::Dead, buried);
        self.count(Counter::Cancelled, cancelled);
        self.count(Counter::Quarantined, quarantined);
        if cancelled > 0 {
            self.trim_tombs(2 * cancelled as usize);
        }
        if let Some(head) = head {
            self.arm(Part::LRescue, head);
        }
        Reply::Rescued { done, given, buried, cancelled, quarantined }
    }

    /// What is held with the records of what runs: of the highest run of each job that is not older than its record.
    fn runs_held(&self, members: &[Member]) -> Vec<(Member, Option<Record>)> {
        let record = |member: &Member| self.s.jobs.get(&member.id).filter(|record| member.run >= record.run);
        let highest = |member: &Member| members.iter().all(|other| other.id != member.id || other.run <= member.run);
        members.iter().map(|member| (*member, record(member).filter(|_| highest(member)).cloned())).collect()
    }

    fn take_back(&mut self, member: Member, record: Option<Record>) -> Back {
        let Some(record) = record else { return Back::Quarantined };
        if record.cancel_waits && self.keeps(Part::ORescue) {
            self.s.stats.cancelling -= 1;
            self.erase(member.id, &record, End::Cancelled);
            return Back::Cancelled;
        }
        // In company nobody knows whose fault it was: one crash is charged, a second only remembered (rule p).
        let alone = record.crashes >= SOLO_AT || (record.crashes > 0 && !self.keeps(Part::PBuried));
        let charged = record.crashes == 0 || alone || !self.keeps(Part::PCharge);
        let attempts = if charged { attempts_plus_one(&record) } else { record.attempts };
        if alone && self.keeps(Part::PLast) {
            self.bury(member, &record, Code::CrashLoop, attempts);
            return Back::Buried;
        }
        if record.limit < NO_LIMIT && attempts >= record.limit && self.keeps(Part::PLimit) {
            self.bury(member, &record, Code::Exhausted, attempts);
            return Back::Buried;
        }
        let mut again = self.again(&record, Some(member.run));
        if record.crashes > 0 && self.keeps(Part::PApart) {
            again.due = self.now.ms() + APART;
        }
        again.crashes += 1;
        again.attempts = attempts;
        let due = again.due;
        self.note(member.id, Code::Crash, attempts);
        self.wait(member.id, again);
        Back::Given(due)
    }

    /// Hands back what the session holds beyond what it knows, and answers what it knows beyond what it holds.
    pub(super) fn reconcile(&mut self, session: Session, known: &[Member]) -> Vec<Member> {
        let held: Vec<Member> = self.s.held_by(session).collect();
        let mut head: Option<u64> = None;
        let mut strangers: Vec<Member> = held.iter().filter(|member| !known.contains(member)).copied().collect();
        strangers.retain(|_| self.keeps(Part::CHandBack));
        for (member, record) in self.runs_held(&strangers) {
            self.s.held.remove(&(session, member));
            let Some(record) = record else {
                self.count(Counter::Quarantined, 1);
                continue;
            };
            if record.cancel_waits && self.keeps(Part::OReconcile) {
                self.s.stats.cancelling -= 1;
                self.count(Counter::Cancelled, 1);
                self.erase(member.id, &record, End::Cancelled);
                self.trim_tombs(2);
                continue;
            }
            let again = self.again(&record, Some(member.run));
            head = Some(head.map_or(again.due, |head| head.min(again.due)));
            self.wait(member.id, again);
        }
        if let Some(head) = head {
            self.arm(Part::LReconcile, head);
        }
        known.iter().filter(|member| !held.contains(member) && self.keeps(Part::CReport)).copied().collect()
    }
}
