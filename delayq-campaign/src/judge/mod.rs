//! The judge: nine invariants over the history of a run, each in a file of its own.

mod attempts;
mod dead;
mod doubled;
mod early;
mod facts;
mod late;
mod lost;
mod outcome;
mod sound;
mod states;
#[cfg(test)]
mod tests;

use serde::Serialize;
use uuid::Uuid;

use crate::history::Event;
use facts::Facts;
pub(crate) use facts::id_of;

/// What must hold, whatever strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Invariant {
    /// Nothing acknowledged is lost, nothing unexpected is there.
    L,
    /// Nothing starts before it is due.
    E,
    /// Every acknowledged job has its effect, or the record of another end.
    O,
    /// Each further run has a cause.
    D,
    /// Attempts are bounded, tokens rise, a stale settle is refused.
    A,
    /// Every job ends, and in time.
    T,
    /// Dead letters are those that belong there, with their reason and their bytes.
    Q,
    /// Each job is in one state, and the counts agree.
    C,
    /// Errors are typed, nothing is dropped silently, no panic, bounded memory and descriptors.
    S,
}

impl Invariant {
    pub(crate) const ALL: [Invariant; 9] = [
        Invariant::L,
        Invariant::E,
        Invariant::O,
        Invariant::D,
        Invariant::A,
        Invariant::T,
        Invariant::Q,
        Invariant::C,
        Invariant::S,
    ];

    fn of(letter: char) -> Invariant {
        Invariant::ALL.into_iter().find(|is| format!("{is:?}").starts_with(letter)).unwrap_or(Invariant::S)
    }
}

/// Where an invariant was broken.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) invariant: Invariant,
    pub(crate) text: String,
    /// The job that it is about.
    pub(crate) id: Option<Uuid>,
}

/// Three things, not two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    Unknown,
}

/// What was judged of one invariant.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Ruling {
    pub(crate) invariant: Invariant,
    pub(crate) verdict: Verdict,
    /// How many cases there were to look at.
    pub(crate) looked_at: usize,
}

/// What was judged of one run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// Why it is unknown.
    pub(crate) why: Option<String>,
    pub(crate) rulings: Vec<Ruling>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) acknowledged: usize,
    pub(crate) runs: usize,
    pub(crate) further_runs: usize,
    pub(crate) dead_letters: usize,
    /// Acknowledged jobs that are gone where the setting says that they may be.
    pub(crate) lost: usize,
    /// How long before the loss the first of them was acknowledged, ms.
    pub(crate) lost_back_ms: u64,
    /// How long processes were not run and the store did not answer for no fault's sake, ms: what may excuse a further run.
    pub(crate) stalled_ms: u64,
}

/// Findings of one invariant, and how many cases it looked at.
pub(crate) struct Look {
    invariant: Invariant,
    looked_at: usize,
    findings: Vec<Finding>,
}

impl Look {
    fn new(invariant: Invariant) -> Look {
        Look { invariant, looked_at: 0, findings: Vec::new() }
    }

    fn saw(&mut self) {
        self.looked_at += 1;
    }

    fn found(&mut self, id: Option<Uuid>, text: String) {
        self.findings.push(Finding { invariant: self.invariant, text, id });
    }
}

/// Judges a history.
pub(crate) fn judge(events: &[Event], malformed: usize) -> Judgement {
    let facts = Facts::gather(events);
    let mut looks = [
        lost::look(&facts),
        early::look(&facts),
        outcome::look(&facts),
        doubled::look(&facts),
        attempts::look(&facts),
        late::look(&facts),
        dead::look(&facts),
        states::look(&facts),
        sound::look(&facts),
    ];
    for (letter, met, text) in &facts.demands {
        let invariant = Invariant::of(*letter);
        if let Some(look) = looks.iter_mut().find(|look| look.invariant == invariant) {
            look.saw();
            if !met {
                look.found(None, text.clone());
            }
        }
    }
    let fired = facts.fired.as_ref();
    let mut why = match fired {
        None => Some("the fault never came to its end".to_owned()),
        Some((false, seen)) => Some(format!("the fault was not seen to strike: {seen}")),
        // By a clock that somebody sets meanwhile nobody can tell what was early.
        Some((true, _)) if facts.wall_moved_us > facts::WALL_DRIFT => Some(format!(
            "this machine's own clock was moved by {} ms while the run went on",
            facts.wall_moved_us / 1000
        )),
        Some((true, _)) if malformed > 0 => Some(format!("{malformed} lines of the history can't be read")),
        Some((true, _)) => None,
    };
    let rulings: Vec<Ruling> = looks
        .iter()
        .map(|look| {
            let verdict = if !look.findings.is_empty() {
                Verdict::Fail
            } else if look.looked_at == 0 || why.is_some() {
                Verdict::Unknown
            } else {
                Verdict::Pass
            };
            Ruling { invariant: look.invariant, verdict, looked_at: look.looked_at }
        })
        .collect();
    // Not every fault makes dead letters; everything else must have been put to the test.
    let idle = rulings.iter().find(|ruling| ruling.looked_at == 0 && ruling.invariant != Invariant::Q);
    if let (None, Some(idle)) = (&why, idle) {
        why = Some(format!("nothing was there that could have broken {:?}", idle.invariant));
    }
    let verdict = if rulings.iter().any(|ruling| ruling.verdict == Verdict::Fail) {
        Verdict::Fail
    } else if why.is_some() {
        Verdict::Unknown
    } else {
        Verdict::Pass
    };
    let claims = |job: &facts::Job| job.claims.len();
    let (lost, lost_back_us) = lost::in_windows(&facts);
    Judgement {
        verdict,
        why,
        rulings,
        findings: looks.into_iter().flat_map(|look| look.findings).collect(),
        acknowledged: facts.jobs.values().filter(|job| job.is_acked()).count(),
        runs: facts.jobs.values().map(claims).sum(),
        further_runs: facts.jobs.values().map(|job| claims(job).saturating_sub(1)).sum(),
        dead_letters: facts.jobs.values().filter(|job| job.is_dead()).count(),
        lost,
        lost_back_ms: lost_back_us / 1000,
        stalled_ms: facts.stalled_us / 1000,
    }
}
