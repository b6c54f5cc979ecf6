//! Takes verdicts: `lua/lib/settle.lua`.

use super::Call;
use super::ends::attempts_plus_one;
use crate::{Code, Counter, End, Id, Member, Part, Record, Session, Settled, TOMB_MS, Verdict};

/// What verdicts leave to be done once all are taken.
#[derive(Default)]
struct After {
    /// Successes that leave nothing.
    over: Vec<(Id, Record)>,
    /// The earliest due time of what came back.
    due: Option<u64>,
}

impl Call<'_> {
    pub(super) fn settle(&mut self, session: Session, verdicts: &[(Member, Verdict)]) -> Vec<Settled> {
        let looks_up = self.s.stats.cancelling > 0;
        let (mut replies, mut wanted, mut seen) = (vec![Settled::NotHeld; verdicts.len()], Vec::new(), Vec::new());
        // A second verdict for one run is stale.
        for (at, (member, verdict)) in verdicts.iter().enumerate() {
            let held = self.s.held.contains(&(session, *member)) || !self.keeps(Part::DToken);
            if held && !seen.contains(member) {
                seen.push(*member);
                replies[at] = Settled::Accepted;
                if looks_up || !matches!(verdict, Verdict::Done | Verdict::DoneYoung) {
                    wanted.push(at);
                }
            }
        }
        if seen.is_empty() {
            return replies;
        }
        // What must be looked up is read before anything is written.
        let records: Vec<_> = wanted.iter().map(|at: &usize| self.s.jobs.get(&verdicts[*at].0.id).cloned()).collect();
        for member in &seen {
            if self.keeps(Part::SHeld) {
                self.s.held.remove(&(session, *member));
            }
        }
        for (at, (member, verdict)) in verdicts.iter().enumerate() {
            if replies[at] == Settled::Accepted && !wanted.contains(&at) {
                self.plain(member.id, *verdict);
            }
        }
        let mut after = After::default();
        for (at, record) in wanted.into_iter().zip(records) {
            let (member, verdict) = verdicts[at];
            replies[at] = match record {
                Some(record) => self.settle_one(member, &record, verdict, &mut after),
                None => {
                    self.count(Counter::Quarantined, 1);
                    Settled::Missing
                }
            };
        }
        for (id, record) in after.over {
            self.erase(id, &record, End::Done);
        }
        self.trim_tombs(2 * verdicts.len());
        self.trim_done();
        if let Some(due) = after.due {
            self.arm(Part::LSettle, due);
        }
        replies
    }

    /// A success that nothing need be looked up for.
    fn plain(&mut self, id: Id, verdict: Verdict) {
        if self.keeps(Part::SRecord) {
            self.s.jobs.remove(&id);
        }
        if verdict == Verdict::DoneYoung {
            self.bury_tomb(id, End::Done);
        }
        self.count(Counter::Done, 1);
    }

    fn settle_one(&mut self, member: Member, record: &Record, verdict: Verdict, after: &mut After) -> Settled {
        let id = member.id;
        let succeeds = matches!(verdict, Verdict::Done | Verdict::DoneYoung | Verdict::DoneExtended);
        if record.cancel_waits {
            // Rule o: the cancel could not touch the holder's set; here it takes effect.
            self.s.stats.cancelling -= 1;
            if !succeeds && self.keeps(Part::OSettle) {
                self.erase(id, record, End::Cancelled);
                self.count(Counter::Cancelled, 1);
                return Settled::Cancelled;
            }
        }
        let (mut again, counter) = (
            self.again(record, Some(member.run)),
            match verdict {
                Verdict::Done | Verdict::DoneYoung | Verdict::DoneExtended => Counter::Done,
                Verdict::Discard => Counter::Discarded,
                Verdict::Bury => Counter::Dead,
                Verdict::Retry(_) => Counter::Retried,
                Verdict::Snooze(_) => Counter::Snoozed,
                Verdict::HandBack => Counter::Returned,
            },
        );
        self.count(counter, 1);
        match verdict {
            _ if succeeds && record.retain > 0 => {
                self.release_key(id, record);
                self.s.notes.remove(&id);
                self.s.done.insert(id, self.now.ms() + record.retain);
                // Its record goes before its sender stops repeating (rule i).
                if record.retain < TOMB_MS && self.keeps(Part::IKept) {
                    self.bury_tomb(id, End::Done);
                }
                return Settled::Accepted;
            }
            Verdict::Done | Verdict::DoneYoung | Verdict::DoneExtended => {
                after.over.push((id, record.clone()));
                return Settled::Accepted;
            }
            Verdict::Discard => {
                self.erase(id, record, End::Discarded);
                return Settled::Accepted;
            }
            Verdict::Bury => {
                self.bury(member, record, Code::Buried, attempts_plus_one(record));
                return Settled::Accepted;
            }
            Verdict::Retry(delay) => {
                again.attempts = attempts_plus_one(record);
                again.due = self.due_in(delay);
                self.note(id, Code::Retry, again.attempts);
            }
            Verdict::Snooze(delay) => {
                if self.keeps(Part::QCount) {
                    again.free = record.free.saturating_add(1);
                }
                again.due = self.due_in(delay);
            }
            Verdict::HandBack => {}
        }
        after.due = Some(after.due.map_or(again.due, |due| due.min(again.due)));
        self.wait(id, again);
        Settled::Accepted
    }
}
