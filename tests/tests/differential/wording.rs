//! The model's calls and answers in the words of the scripts.

use delayq::engine::Reply as Told;
use delayq::store::Shard;
use delayq_model::{
    Claimed, Counts, End, Id, Member, Now, Op, Place, Redriven, Reply, Sent, Session, Settled, State, Verdict, When,
};
use delayq_tests::store_kit;

use super::pair::Call;
use super::player::text;

/// The bytes of a session's id.
pub(crate) fn session_id(session: Session) -> [u8; 16] {
    [session; 16]
}

/// A unique key in bytes.
fn key(key: u8) -> String {
    format!("key {key}")
}

fn job_id(id: Id) -> Vec<u8> {
    store_kit::id(u64::from(id)).to_vec()
}

pub(crate) fn job_of(bytes: &[u8]) -> Id {
    assert_eq!(bytes.len(), 16, "an id of a job: {}", bytes.escape_ascii());
    bytes[7]
}

pub(crate) fn member(member: Member) -> Vec<u8> {
    [job_id(member.id), member.run.to_be_bytes()[2..].to_vec()].concat()
}

pub(crate) fn member_of(bytes: &[u8]) -> Member {
    let run = bytes[16..].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    Member { id: job_of(&bytes[..16]), run }
}

fn when(when: When) -> Vec<u8> {
    match when {
        When::In(ms) => format!("+{ms}").into_bytes(),
        When::At(ms) => format!("@{ms}").into_bytes(),
    }
}

fn verdict((of, verdict): &(Member, Verdict)) -> Vec<u8> {
    let (letter, rest) = match verdict {
        Verdict::Done => (b'd', String::new()),
        Verdict::DoneYoung => (b't', String::new()),
        Verdict::DoneExtended => (b'x', String::new()),
        Verdict::Retry(delay) => (b'r', format!("{delay} why it failed")),
        Verdict::Snooze(delay) => (b's', delay.to_string()),
        Verdict::HandBack => (b'h', String::new()),
        Verdict::Discard => (b'c', "why it is dropped".to_owned()),
        Verdict::Bury => (b'b', "buried why it is given up".to_owned()),
    };
    [vec![letter], member(*of), rest.into_bytes()].concat()
}

/// Verdicts as arguments; plain successes of one kind share one, as the library sends them.
fn verdicts(args: &mut Vec<Vec<u8>>, all: &[(Member, Verdict)]) {
    for (kind, letter) in [(Verdict::Done, b'D'), (Verdict::DoneYoung, b'T')] {
        if !all.is_empty() && all.iter().all(|(_, verdict)| *verdict == kind) {
            let mut list = vec![letter];
            all.iter().for_each(|(of, _)| list.extend(member(*of)));
            return args.push(list);
        }
    }
    args.extend(all.iter().map(verdict));
}

fn enqueue(shard: &Shard, jobs: &[delayq_model::NewJob], schema: u32, shards: u32) -> Call {
    let mut priorities: Vec<u8> = jobs.iter().map(|job| job.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let mut keys: Vec<Vec<u8>> =
        ["jobs", "stats", "wake", "tombs", "unique"].iter().map(|name| shard.key(name)).collect();
    keys.extend(priorities.iter().map(|p| shard.key(&format!("due:{p}"))));
    let digits: String = priorities.iter().map(ToString::to_string).collect();
    let mut args = vec![text(schema), text(shards), digits.into_bytes()];
    for job in jobs {
        let mut options = format!("{} {}", job.priority, job.limit);
        let mut say = |name: &str, ms: Option<u64>| {
            if let Some(ms) = ms {
                options.push_str(&format!(" {name}={ms}"));
            }
        };
        say("expires", job.expires);
        say("retain", Some(job.retain).filter(|ms| *ms > 0));
        say("unique_ttl", Some(job.key_ttl).filter(|ms| *ms > 0));
        if let Some(unique) = job.key {
            options.push_str(&format!(" unique={}", key(unique)));
        }
        args.extend([job_id(job.id), when(job.when), options.into_bytes(), b"model 1\n".to_vec()]);
    }
    Call { script: "enqueue", keys, args }
}

/// A call of the model as a call of a script.
pub(crate) fn call(shard: &Shard, op: &Op, state: &State) -> Call {
    let keys = |session: Option<Session>| {
        let names = ["jobs", "stats", "wake", "sessions", "held:", "dead", "error", "done", "unique", "tombs"];
        let mut keys: Vec<Vec<u8>> = names.iter().map(|name| shard.key(name)).collect();
        if let Some(session) = session {
            keys[4] = shard.held(&session_id(session));
        }
        keys.extend((0..10).map(|p| shard.key(&format!("due:{p}"))));
        keys
    };
    let of = |script, session: &Session, mut rest: Vec<Vec<u8>>| {
        rest.insert(0, session_id(*session).to_vec());
        Call { script, keys: keys(Some(*session)), args: rest }
    };
    let plain = |script, args| Call { script, keys: keys(None), args };
    let ids = |ids: &[Id]| ids.iter().map(|id| job_id(*id)).collect();
    match op {
        Op::Open { session, lease, schema, shards } => {
            of("open", session, vec![text(lease), text(schema), text(shards)])
        }
        Op::Beat { session, lease, timer } => of("beat", session, vec![text(lease), text(timer)]),
        Op::Claim { session, seq, count, timer, alone, verdicts: all } => {
            let alone = alone.map_or_else(Vec::new, job_id);
            let mut args = vec![text(seq), text(count), text(4 << 20), text(timer), alone];
            verdicts(&mut args, all);
            of("claim", session, args)
        }
        Op::Settle { session, seq, verdicts: all } => {
            let mut args = vec![text(seq)];
            verdicts(&mut args, all);
            of("settle", session, args)
        }
        Op::Reconcile { session, seq, known } => {
            let known = known.iter().map(|known| member(*known));
            of("reconcile", session, std::iter::once(text(seq)).chain(known).collect())
        }
        Op::Rescue { session, .. } => of("rescue", session, vec![text(500)]),
        Op::Close { session } => of("close", session, Vec::new()),
        Op::Enqueue { jobs, schema, shards } => enqueue(shard, jobs, *schema, *shards),
        Op::Cancel { id } => plain("cancel", vec![job_id(*id)]),
        Op::Reschedule { id, when: to } => plain("reschedule", vec![job_id(*id), when(*to)]),
        Op::Redrive { ids: of } => plain("dead_redrive", ids(of)),
        Op::Delete { ids: of } => plain("dead_delete", ids(of)),
        Op::Pause { on } => plain("pause", vec![text(u8::from(*on))]),
        Op::Pass => plain("pass", Vec::new()),
        Op::Inspect { id } => plain("inspect", vec![job_id(*id)]),
        Op::Stats => {
            let mut call = plain("stats", Vec::new());
            call.keys.extend(state.sessions.keys().map(|session| shard.held(&session_id(*session))));
            call
        }
        Op::TakeMarker => unreachable!("no script takes the marker"),
    }
}

/// The parts of an answer, read one after the other.
struct Parts<'t>(std::slice::Iter<'t, Told>);

impl<'t> Parts<'t> {
    fn int(&mut self) -> i64 {
        match self.0.next() {
            Some(Told::Int(n)) => *n,
            // What was stored as a text is told as one.
            Some(Told::Bytes(text)) => String::from_utf8_lossy(text).parse().expect("a number"),
            other => panic!("a number is wanted: {other:?}"),
        }
    }

    fn count(&mut self) -> usize {
        self.int() as usize
    }

    fn bytes(&mut self) -> &'t [u8] {
        match self.0.next() {
            Some(Told::Bytes(bytes)) => bytes,
            other => panic!("bytes are wanted: {other:?}"),
        }
    }

    fn rest(self) -> impl Iterator<Item = &'t [u8]> {
        self.0.map(|part| match part {
            Told::Bytes(bytes) => bytes.as_slice(),
            other => panic!("bytes are wanted: {other:?}"),
        })
    }
}

fn settled(letters: &[u8]) -> Vec<Settled> {
    let one = |letter: &u8| match letter {
        b'o' => Settled::Accepted,
        b'n' => Settled::NotHeld,
        b'c' => Settled::Cancelled,
        b'm' => Settled::Missing,
        other => panic!("no verdict is answered by {other}"),
    };
    letters.iter().map(one).collect()
}

fn claimed(parts: &mut Parts<'_>, paused: bool, now: Now) -> Reply {
    assert_eq!(parts.count() as u64, now.us, "the clock");
    let (wait, timer, more) = (parts.int(), parts.count() as u64, parts.int() == 1);
    let solo = Some(parts.bytes()).filter(|id| !id.is_empty()).map(job_of);
    let (settled, ids) = (settled(parts.bytes()), parts.bytes());
    let Some(Told::List(records)) = parts.0.next() else { panic!("records are wanted") };
    let (ids, _) = ids.as_chunks::<16>();
    assert_eq!(ids.len(), records.len(), "ids and records go together");
    let taken = ids.iter().zip(records).map(|(id, record)| {
        let Told::Bytes(record) = record else { panic!("a record is wanted: {record:?}") };
        let stored = record[10..16].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Member { id: job_of(id), run: now.ms().max(stored) }
    });
    Reply::Claimed(Claimed {
        paused,
        wait_us: u64::try_from(wait).ok(),
        timer,
        more,
        solo,
        settled,
        taken: taken.collect(),
    })
}

pub(crate) fn end(code: i64) -> End {
    let ends = [End::Done, End::Cancelled, End::Expired, End::Deleted, End::Discarded];
    ends.into_iter().find(|end| *end as i64 == code).unwrap_or_else(|| panic!("no end is {code}"))
}

/// What a script answered, in the model's words.
pub(crate) fn reply(op: &Op, told: &Told, now: Now) -> Reply {
    let Told::List(parts) = told else { panic!("{op:?} answers {told:?}") };
    let mut parts = Parts(parts.iter());
    if let Op::Enqueue { .. } = op
        && parts.0.as_slice()[0] == Told::Bytes(b"OK".to_vec())
    {
        return Reply::Sent(parts.0.skip(1).map(sent).collect());
    }
    let code = String::from_utf8_lossy(parts.bytes()).into_owned();
    match (code.as_str(), op) {
        ("SCHEMA", _) => Reply::OtherSchema(parts.count() as u32),
        ("SHARDS", _) => Reply::OtherShards(parts.count() as u32),
        ("LOST", _) => Reply::Lost,
        ("STALE", _) => Reply::Stale,
        ("OK", Op::Open { .. }) => Reply::Opened,
        ("EXISTS", _) => Reply::Exists,
        ("OK", Op::Beat { .. }) => {
            let (held, paused, wait) = (parts.count(), parts.int() == 1, parts.int());
            Reply::Beat {
                held,
                paused,
                wait_us: u64::try_from(wait).ok(),
                lost: parts.rest().map(|id| id[0]).collect(),
            }
        }
        ("OK" | "PAUSED", Op::Claim { .. }) => claimed(&mut parts, code == "PAUSED", now),
        ("OK", Op::Settle { .. }) => Reply::Settled(settled(parts.bytes())),
        ("OK", Op::Reconcile { .. }) => {
            assert_eq!(parts.int(), 0, "all strangers are handed back at once");
            Reply::Reconciled(parts.rest().map(member_of).collect())
        }
        ("DONE" | "MORE", Op::Rescue { .. }) => {
            let mut count = || parts.count() as u32;
            let (given, buried, cancelled, quarantined) = (count(), count(), count(), count());
            Reply::Rescued { done: code == "DONE", given, buried, cancelled, quarantined }
        }
        ("ALIVE", _) => Reply::Alive,
        ("HELD", _) => Reply::OnHold,
        ("GONE", _) => Reply::Gone,
        ("OK", Op::Close { .. }) => Reply::Closed,
        ("HOLDS", _) => Reply::Holds(parts.count()),
        ("CANCELLED", _) => Reply::Cancelled,
        ("RUNNING", Op::Inspect { .. }) => Reply::Found(Place::Running, parts.count() as u64),
        ("DEAD", Op::Inspect { .. }) => Reply::Found(Place::Dead, parts.count() as u64),
        ("DONE", Op::Inspect { .. }) => Reply::Found(Place::Done, parts.count() as u64),
        ("DUE", _) => Reply::Found(Place::Due, parts.count() as u64),
        ("RUNNING", _) => Reply::Running,
        ("DEAD", _) => Reply::IsDead,
        ("DONE", _) => Reply::IsDone,
        ("ENDED", _) => Reply::Ended(end(parts.int())),
        ("NONE", _) => Reply::NoJob,
        ("OK", Op::Reschedule { .. }) => Reply::Rescheduled(parts.count() as u64),
        ("OK", Op::Redrive { .. }) => Reply::Redriven(parts.bytes().iter().map(redriven).collect()),
        ("OK", Op::Delete { .. }) => Reply::Deleted(parts.bytes().iter().map(|letter| *letter == b'o').collect()),
        ("OK", Op::Pause { .. }) => Reply::Paused(parts.int() == 1),
        ("OK", Op::Pass) => Reply::Passed,
        ("OK", Op::Stats) => counted(&mut parts, now),
        _ => panic!("{op:?} answers {told:?}"),
    }
}

fn sent(part: &Told) -> Sent {
    match part {
        Told::Int(1) => Sent::Created,
        Told::Int(0) => Sent::Already,
        Told::Bytes(owner) => Sent::Duplicate(job_of(owner)),
        other => panic!("no sent job is answered by {other:?}"),
    }
}

fn redriven(letter: &u8) -> Redriven {
    match letter {
        b'o' => Redriven::Ok,
        b'n' => Redriven::NoLetter,
        b'u' => Redriven::KeyTaken,
        b'm' => Redriven::Missing,
        other => panic!("no letter is answered by {other}"),
    }
}

fn counted(parts: &mut Parts<'_>, now: Now) -> Reply {
    assert_eq!(parts.count() as u64, now.ms(), "the clock");
    let mut count = || parts.count();
    let (records, waiting, due, running) = (count(), count(), count(), count());
    let (dead, done, sessions, expired, paused) = (count(), count(), count(), count(), count() == 1);
    let head = u64::try_from(parts.int()).ok();
    Reply::Counted(Counts { records, waiting, due, running, dead, done, sessions, expired, paused, head })
}
