//! What must be true of a shard whenever no script runs: nothing is lost, doubled or forgotten.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use delayq::envelope::Record;

use super::{Value, World};

impl World {
    /// Every record is in exactly one place, every place has only records, and somebody watches the clock.
    ///
    /// # Panics
    /// It isn't so.
    pub async fn assert_conserved(&self) {
        let dump = self.dump().await;
        let hash = |name: &str| match dump.0.get(name) {
            Some(Value::Hash(fields)) => fields.clone(),
            None => BTreeMap::new(),
            Some(other) => panic!("{name} is {other:?}"),
        };
        let sorted = |name: &str| match dump.0.get(name) {
            Some(Value::Sorted(members)) => members.clone(),
            None => BTreeMap::new(),
            Some(other) => panic!("{name} is {other:?}"),
        };
        let (jobs, stats, sessions) = (hash("jobs"), hash("stats"), sorted("sessions"));
        let number = |field: &str| -> Option<u64> {
            stats.get(field.as_bytes()).map(|value| String::from_utf8_lossy(value).parse().expect("a number"))
        };

        let mut places: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
        let mut known = BTreeSet::from(
            ["jobs", "stats", "wake", "sessions", "dead", "error", "done", "unique", "tombs"].map(str::to_owned),
        );
        let mut head: Option<u64> = None;
        let priorities = stats.get(&b"priorities"[..]).cloned().unwrap_or_default();
        for priority in 0..10u8 {
            let name = format!("due:{priority}");
            for (id, due) in sorted(&name) {
                let record = Record::decode(&Bytes::from(jobs.get(&id).cloned().unwrap_or_default()))
                    .unwrap_or_else(|error| panic!("{name} has {}: {error}: {dump:?}", id.escape_ascii()));
                assert_eq!(record.priority, priority, "{}: {dump:?}", id.escape_ascii());
                assert!(!record.cancel_waits, "a cancelled job waits: {dump:?}");
                assert!(due as u64 >= record.due_ms, "{} comes early: {dump:?}", id.escape_ascii());
                head = Some(head.map_or(due as u64, |head| head.min(due as u64)));
                assert!(priorities.contains(&(b'0' + priority)), "no claim looks at {name}: {dump:?}");
                places.entry(id).or_default().push(name.clone());
            }
            known.insert(name);
        }
        let mut cancelling = 0;
        for session in sessions.keys() {
            let name = format!("held:{}", session.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            let members = match dump.0.get(&name) {
                Some(Value::Set(members)) => members.clone(),
                None => BTreeSet::new(),
                Some(other) => panic!("{name} is {other:?}"),
            };
            for member in members {
                let (id, run) = member.split_at(16);
                let bytes = jobs.get(id).cloned().unwrap_or_default();
                let record = Record::decode(&Bytes::from(bytes)).expect("a held job has a record");
                assert!(&record.run.to_be_bytes()[2..] <= run, "{name} has an old run: {dump:?}");
                cancelling += u64::from(record.cancel_waits);
                places.entry(id.to_vec()).or_default().push(name.clone());
            }
            known.insert(name);
        }
        for name in ["dead", "done"] {
            for id in sorted(name).into_keys() {
                places.entry(id).or_default().push(name.to_owned());
            }
        }

        for (id, at) in &places {
            assert_eq!(at.len(), 1, "{} is in {at:?}: {dump:?}", id.escape_ascii());
            assert!(jobs.contains_key(id), "{} in {at:?} has no record: {dump:?}", id.escape_ascii());
        }
        for id in jobs.keys() {
            assert!(places.contains_key(id), "{} is nowhere: {dump:?}", id.escape_ascii());
        }
        for id in hash("error").keys() {
            assert!(jobs.contains_key(id), "a note of {} is left: {dump:?}", id.escape_ascii());
        }
        for (key, entry) in hash("unique") {
            let owner = &entry[..16];
            let at = places.get(owner).map(|at| at[0].clone()).unwrap_or_default();
            assert!(
                at.starts_with("due") || at.starts_with("held"),
                "{} is kept by {} in {at:?}: {dump:?}",
                key.escape_ascii(),
                owner.escape_ascii()
            );
        }
        for name in dump.0.keys() {
            assert!(known.contains(name), "{name} belongs to nobody: {dump:?}");
        }
        for field in stats.keys().filter_map(|field| field.strip_prefix(b"seq:")) {
            assert!(sessions.contains_key(field), "the last call of a session that is gone: {dump:?}");
        }
        assert_eq!(number("cancelling").unwrap_or(0), cancelling, "{dump:?}");
        if let (Some(head), false) = (head, stats.contains_key(&b"paused"[..])) {
            let timer_at = number("timer_at");
            assert!(timer_at.is_some_and(|at| at <= head), "nobody watches for {head}: {dump:?}");
        }

        let counted = self.store.stats(&self.shard).await.expect("stats answers");
        assert_eq!(counted.orphans(), 0, "{counted:?}");
        assert_eq!(counted.records, jobs.len() as u64);
        assert_eq!(counted.waiting, places.values().filter(|at| at[0].starts_with("due")).count() as u64);
        assert_eq!(counted.running, places.values().filter(|at| at[0].starts_with("held")).count() as u64);
    }
}
