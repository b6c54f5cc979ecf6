//! Foreign hands: keys of the wrong type for a while, and records, members and fields that no script writes.

use std::collections::{BTreeMap, BTreeSet};

use delayq_tests::store_kit::Value;

use super::pair::Pair;
use super::player::Player;

/// A key that has the wrong type, what it held, and when it gets that back.
pub(crate) struct Broken {
    name: String,
    held: Option<Value>,
    until: u64,
}

/// Keys by their names within the shard.
fn any_key(player: &mut Player) -> String {
    match player.dice.roll(30) {
        0..3 => "jobs".to_owned(),
        3..7 => "stats".to_owned(),
        7..10 => "sessions".to_owned(),
        10..13 => held_key(player),
        13..18 => format!("due:{}", player.dice.pick(&[5, 5, 0, 9])),
        24..27 => "queues".to_owned(),
        27.. => player.dice.pick(&["probe:hash", "probe:set", "probe:sorted"]).to_owned(),
        _ => player.dice.pick(&["wake", "dead", "error", "done", "unique", "tombs"]).to_owned(),
    }
}

fn held_key(player: &mut Player) -> String {
    let at = player.seats.len() - 1 - player.dice.roll(player.seats.len().min(4) as u64) as usize;
    let hex: String = player.seats[at].id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("held:{hex}")
}

/// Gives a key a value of another type for the next few calls.
pub(crate) async fn break_key(pair: &Pair, player: &mut Player, call: u64) -> Broken {
    let name = any_key(player);
    let held = pair.read(&name).await;
    let bytes = player.dice.bytes(4);
    let (set, hash, sorted) = (
        Value::Set(BTreeSet::from([bytes.clone()])),
        Value::Hash(BTreeMap::from([(bytes.clone(), b"1".to_vec())])),
        Value::Sorted(BTreeMap::from([(bytes.clone(), 5.0)])),
    );
    let wrong = match name.as_str() {
        "jobs" | "stats" | "error" | "unique" | "probe:hash" => [Value::Text(bytes), set, sorted],
        name if name.starts_with("held:") || name == "probe:set" => [Value::Text(bytes), hash, sorted],
        _ => [Value::Text(bytes), set, hash],
    };
    pair.write(&name, Some(&player.dice.pick(&wrong))).await;
    player.curious = 6;
    Broken { name, held, until: call + 1 + player.dice.roll(12) }
}

/// Gives back what was taken, where its time has come.
pub(crate) async fn mend(pair: &Pair, broken: &mut Option<Broken>, call: u64) {
    if let Some(old) = broken.take_if(|broken| broken.until <= call) {
        pair.write(&old.name, old.held.as_ref()).await;
    }
}

/// Changes a hash on both sides.
async fn change_hash(pair: &Pair, name: &str, change: impl FnOnce(&mut BTreeMap<Vec<u8>, Vec<u8>>)) {
    let mut fields = match pair.read(name).await {
        Some(Value::Hash(fields)) => fields,
        None => BTreeMap::new(),
        Some(_) => return,
    };
    change(&mut fields);
    pair.write(name, Some(&Value::Hash(fields)).filter(|value| **value != Value::Hash(BTreeMap::new()))).await;
}

async fn change_sorted(pair: &Pair, name: &str, member: Vec<u8>, score: f64) {
    let mut members = match pair.read(name).await {
        Some(Value::Sorted(members)) => members,
        None => BTreeMap::new(),
        Some(_) => return,
    };
    members.insert(member, score);
    pair.write(name, Some(&Value::Sorted(members))).await;
}

/// Does some damage that stays.
pub(crate) async fn damage(pair: &Pair, player: &mut Player) {
    let job = if player.dice.once_in(2) { player.job() } else { player.held_job() };
    match player.dice.roll(14) {
        0..2 => change_hash(pair, "jobs", |jobs| drop(jobs.remove(&job))).await,
        2..6 => {
            let whole = match pair.read("jobs").await {
                Some(Value::Hash(mut jobs)) => jobs.remove(&job),
                _ => None,
            };
            let length = player.dice.roll(45);
            let mut record = whole.unwrap_or_else(|| player.dice.bytes(length));
            match player.dice.roll(6) {
                0 => record = player.dice.bytes(length),
                1 => record.truncate(length as usize),
                _ => {
                    // Another byte of its header: a format, priority, run or length that was never written.
                    let at = player.dice.pick(&[0, 1, 1, 2, 3, 4, 8, 15, 28]);
                    if let Some(byte) = record.get_mut(at) {
                        *byte = player.dice.pick(&[0, 1, 2, 5, 12, 48, 57, 255]);
                    }
                }
            }
            // Now and then a field whose name is no id.
            let field = if player.dice.once_in(6) { player.dice.bytes(5) } else { job };
            change_hash(pair, "jobs", |jobs| drop(jobs.insert(field, record))).await;
        }
        6..8 => {
            let name = held_key(player);
            let length = player.dice.pick(&[1, 5, 22, 22, 22, 23]);
            let mut member = [job, player.dice.bytes(6)].concat();
            member.resize(length, 7);
            let mut members = match pair.read(&name).await {
                Some(Value::Set(members)) => members,
                None => BTreeSet::new(),
                Some(_) => return,
            };
            members.insert(member);
            pair.write(&name, Some(&Value::Set(members))).await;
        }
        8..11 => {
            let name = player.dice.pick(&["due:5", "due:0", "dead", "done", "tombs", "sessions"]);
            let now = (player.now_us / 1000) as f64;
            let score = player.dice.pick(&[0.0, 1.0, -2.5, 1.5, now, now + 0.25, now + 1000.0, now * 8.0 + 3.0, 9e15]);
            let member = if player.dice.once_in(3) { player.dice.bytes(5) } else { job };
            change_sorted(pair, name, member, score).await;
        }
        11..13 => {
            let owner = player.dice.bytes(16);
            let fields = [
                "priorities",
                "timer_at",
                "lease_max",
                "last_beat",
                "hold_until",
                "paused",
                "schema",
                "cancelling",
                "large",
                "mark_new",
                "mark_old",
            ];
            let field = player.dice.pick(&fields);
            match player.dice.roll(4) {
                0 => pair.write(player.dice.pick(&["stats", "unique", "due:5", "due:5", "error", "tombs"]), None).await,
                1 => change_hash(pair, "stats", |stats| drop(stats.remove(field.as_bytes()))).await,
                2 => {
                    // A short entry makes a script stumble, one of an unknown job is void.
                    let entry = if player.dice.once_in(3) { b"short".to_vec() } else { [owner, vec![0; 6]].concat() };
                    let key = format!("key {}", player.dice.roll(6)).into_bytes();
                    change_hash(pair, "unique", |unique| drop(unique.insert(key, entry))).await;
                }
                _ => {
                    let value = player.dice.pick(&["x", "", "0", "1.5", "-7", "5x5", "0x10", "1700000000000"]);
                    change_hash(pair, "stats", |stats| {
                        // The next one finds it gone, else nothing would get through in the end.
                        if stats.insert(field.into(), value.into()).is_some_and(|old| old == b"x") {
                            stats.remove(field.as_bytes());
                        }
                    })
                    .await;
                }
            }
        }
        _ => {
            // A counter that can't be counted up: Redis keeps what a script had done before that.
            let name = player.dice.pick(&["enqueued", "done", "cancelled", "retried", "redriven", "crashed"]);
            let value = player.dice.pick(&["many", "9223372036854774000", "1.5", "", " 1", "+1", "007"]);
            change_hash(pair, "stats", |stats| {
                let old = stats.insert(name.into(), value.into());
                // What was damaged before is whole again, else nothing would get through in the end.
                if old.is_some_and(|old| !old.iter().all(u8::is_ascii_digit)) {
                    stats.remove(name.as_bytes());
                }
            })
            .await;
        }
    }
}
