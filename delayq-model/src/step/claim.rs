//! Moves due jobs to a session, and says who watches the clock after it: `lua/lib/take.lua`.

use super::Call;
use crate::{Claimed, Counter, End, Id, Member, Part, Record, Reply, SOLO_AT, Session, Settled};

/// For how long a job that wants to be alone is put out of the others' way, ms.
const ASIDE: u64 = 1000;

/// What a claim found: the runs it took, whether more may be due, and who wants to be alone.
struct Taken {
    runs: Vec<Member>,
    more: bool,
    solo: Option<Id>,
}

impl Call<'_> {
    pub(super) fn claim(
        &mut self,
        session: Session,
        count: usize,
        timer: u64,
        alone: Option<Id>,
        settled: Vec<Settled>,
    ) -> Reply {
        if self.s.stats.paused.is_some() {
            self.s.stats.timer_at = None;
            return Reply::Claimed(Claimed { paused: true, settled, ..Claimed::default() });
        }
        let timer_at = self.s.stats.timer_at.unwrap_or(0);
        let taken = match alone {
            Some(id) => Taken { runs: self.take_alone(session, id).into_iter().collect(), more: true, solo: None },
            None => match self.take(session, count) {
                Some(taken) => taken,
                None => return Reply::Corrupt,
            },
        };
        let Taken { runs, more, solo } = taken;
        let mut claimed = Claimed { settled, taken: runs, solo, ..Claimed::default() };
        let head = self.s.head();
        match head {
            Some(head) if !more => {
                let watches = timer_at == timer || timer_at <= self.now.ms() || head < timer_at;
                if watches && self.keeps(Part::MWatch) {
                    self.s.stats.timer_at = Some(head);
                    claimed.wait_us = Some((head * 1000).saturating_sub(self.now.us));
                    claimed.timer = head;
                }
            }
            // Full: the next idle worker takes it from here.
            head if self.keeps(Part::MFull) => self.pass_on(head),
            _ => {}
        }
        claimed.more = more && head.is_some();
        Reply::Claimed(claimed)
    }

    /// `None` where it gives up.
    fn take(&mut self, session: Session, count: usize) -> Option<Taken> {
        let (now, free) = (self.now.ms(), self.s.held_count(session) == 0);
        let mut taken: Vec<Id> = Vec::new();
        let (mut deferred, mut expired, mut scanned, mut more, mut unfit) = (Vec::new(), Vec::new(), 0, false, 0);
        for priority in 0..10u8 {
            if more {
                break;
            }
            let mut due: Vec<(u64, Id)> =
                self.s.due.range((priority, 0)..=(priority, Id::MAX)).map(|((_, id), at)| (*at, *id)).collect();
            if due.is_empty() {
                continue;
            }
            due.sort_unstable();
            due.retain(|(at, _)| *at <= now || !self.keeps(Part::HDue));
            due.truncate(count - scanned);
            let mut full = false;
            for (_, id) in due {
                self.s.due.remove(&(priority, id));
                scanned += 1;
                match self.s.jobs.get(&id) {
                    None if !self.keeps(Part::UMissing) => return None,
                    None => unfit += 1,
                    Some(record) if record.expires > 0 && record.expires <= now => expired.push((id, record.clone())),
                    Some(record) if record.crashes < SOLO_AT || !self.keeps(Part::PEmpty) => taken.push(id),
                    Some(_) if free && taken.is_empty() => {
                        taken.push(id);
                        full = true;
                        break;
                    }
                    Some(_) => deferred.push((priority, id)),
                }
            }
            let counted = if self.keeps(Part::NScanned) { scanned } else { taken.len() };
            more = full || counted >= count;
        }
        let runs: Vec<Member> = taken.into_iter().filter_map(|id| self.hold(session, id)).collect();
        let mut solo = None;
        for (priority, id) in deferred {
            self.s.due.insert((priority, id), now + ASIDE);
            solo = Some(id);
        }
        self.count(Counter::Quarantined, unfit);
        self.expire(&expired);
        Some(Taken { runs, more, solo })
    }

    fn expire(&mut self, expired: &[(Id, Record)]) {
        for (id, record) in expired {
            self.erase(*id, record, End::Expired);
        }
        if !expired.is_empty() {
            self.count(Counter::Expired, expired.len() as u32);
            self.trim_tombs(2 * expired.len());
        }
    }

    /// Takes one job by its id for a session that holds nothing, if it is due still.
    fn take_alone(&mut self, session: Session, id: Id) -> Option<Member> {
        let (now, record) = (self.now.ms(), self.s.jobs.get(&id)?);
        let place = (record.priority, id);
        let too_soon = record.due > now && self.keeps(Part::HAlone);
        let too_late = record.expires > 0 && record.expires <= now;
        let waits = self.s.due.contains_key(&place) && record.crashes >= SOLO_AT;
        if self.s.held_count(session) > 0 || !waits || too_soon || too_late {
            return None;
        }
        self.s.due.remove(&place);
        self.hold(session, id)
    }

    /// A run number never comes back for an id: the clock is its floor (rule d).
    fn hold(&mut self, session: Session, id: Id) -> Option<Member> {
        let record = self.s.jobs.get(&id)?;
        let run = if self.keeps(Part::DClock) { record.run.max(self.now.ms()) } else { record.run };
        let member = Member { id, run };
        self.s.held.insert((session, member));
        Some(member)
    }
}
