//! Filters: which jobs of a queue are meant.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use delayq::{DeadReason, JobQuery, JobState};
use jiff::Timestamp;

use crate::time::{self, Moment};

/// The reasons as they are stored and shown.
const REASONS: [DeadReason; 6] = [
    DeadReason::RetriesExhausted,
    DeadReason::UnknownJob,
    DeadReason::UnknownVersion,
    DeadReason::Undecodable,
    DeadReason::Buried,
    DeadReason::CrashLoop,
];

/// What all jobs can be told apart by.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filter {
    /// Only jobs of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only jobs whose payload has this text in it
    #[arg(long, value_name = "TEXT")]
    payload: Option<String>,
    /// Only jobs due at this time or later: 2026-12-24T18:00:00Z, now, +10m, -1h
    #[arg(long, value_name = "TIME", value_parser = time::moment, allow_hyphen_values = true)]
    due_from: Option<Moment>,
    /// Only jobs due before this time
    #[arg(long, value_name = "TIME", value_parser = time::moment, allow_hyphen_values = true)]
    due_before: Option<Moment>,
}

/// What dead letters can be told apart by as well.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct DeadFilter {
    #[command(flatten)]
    jobs: Filter,
    /// Only letters of this reason
    #[arg(long, value_parser = reasons())]
    reason: Option<DeadReason>,
    /// Only letters whose error has this text in it
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

fn reasons() -> impl TypedValueParser<Value = DeadReason> {
    PossibleValuesParser::new(REASONS.map(|reason| reason.as_str())).try_map(|text| text.parse::<DeadReason>())
}

/// What a query is made from.
pub(crate) trait Narrow {
    /// Whether it leaves nothing out.
    fn is_empty(&self) -> bool;
    /// The jobs of a state that it means; `now` is the store's.
    fn query(&self, state: JobState, now: Timestamp) -> JobQuery;
    /// Where the due times that it means end, if it says so.
    fn due_before(&self, now: Timestamp) -> Option<Timestamp>;
    /// It in words, for the audit log: no part of a payload.
    fn told(&self) -> Vec<String>;
}

impl Narrow for Filter {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.payload.is_none() && self.due_from.is_none() && self.due_before.is_none()
    }

    fn query(&self, state: JobState, now: Timestamp) -> JobQuery {
        let mut query = JobQuery::new(state);
        if let Some(name) = &self.name {
            query = query.name(name);
        }
        if let Some(text) = &self.payload {
            query = query.payload_contains(text);
        }
        if let Some(from) = self.due_from {
            query = query.due_from(from.resolve(now));
        }
        if let Some(before) = self.due_before {
            query = query.due_before(before.resolve(now));
        }
        query
    }

    fn due_before(&self, now: Timestamp) -> Option<Timestamp> {
        self.due_before.map(|before| before.resolve(now))
    }

    fn told(&self) -> Vec<String> {
        let moment = |what: &str, moment: Moment| match moment {
            Moment::At(at) => format!("{what}={at}"),
            Moment::FromNow(by) => format!("{what}=now+{by}"),
        };
        let mut told = Vec::new();
        told.extend(self.name.as_ref().map(|name| format!("name={name}")));
        told.extend(self.payload.as_ref().map(|text| format!("payload: {} bytes", text.len())));
        told.extend(self.due_from.map(|from| moment("due_from", from)));
        told.extend(self.due_before.map(|before| moment("due_before", before)));
        told
    }
}

impl Narrow for DeadFilter {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.reason.is_none() && self.error.is_none()
    }

    fn query(&self, state: JobState, now: Timestamp) -> JobQuery {
        let mut query = self.jobs.query(state, now);
        if let Some(reason) = self.reason {
            query = query.reason(reason);
        }
        if let Some(text) = &self.error {
            query = query.error_contains(text);
        }
        query
    }

    fn due_before(&self, now: Timestamp) -> Option<Timestamp> {
        self.jobs.due_before(now)
    }

    fn told(&self) -> Vec<String> {
        let mut told = self.jobs.told();
        told.extend(self.reason.map(|reason| format!("reason={reason}")));
        told.extend(self.error.as_ref().map(|text| format!("error={text}")));
        told
    }
}
