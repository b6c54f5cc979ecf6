//! The commands that the scripts use, as Redis answers them. What no script says is refused, not guessed.

mod scan;

use super::failure::Fault;
use super::keyspace::{Keyspace, Kind, Slot};
use super::{hashes, sets, sorted};

/// What a command answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Option<Vec<u8>>>),
    Flags(Vec<bool>),
    /// Where to go on, and what was found up to there.
    Page(Vec<u8>, Vec<Vec<u8>>),
}

pub(super) type Args<'a> = &'a [Vec<u8>];
type Command = fn(&mut Keyspace, &[u8], Args<'_>) -> Result<Answer, Fault>;

/// Every command: its name, how few arguments it takes after its key, and what does it. `TIME` alone has no key.
const COMMANDS: &[(&str, usize, Command)] = &[
    ("HDEL", 1, hashes::hdel),
    ("HEXISTS", 1, hashes::hexists),
    ("HGET", 1, hashes::hget),
    ("HINCRBY", 2, hashes::hincrby),
    ("HLEN", 0, |space, key, _| size(space, key, Kind::Hash)),
    ("HMGET", 1, hashes::hmget),
    ("HSCAN", 3, scan::hscan),
    ("HSET", 2, hashes::hset),
    ("SADD", 1, sets::sadd),
    ("SCARD", 0, |space, key, _| size(space, key, Kind::Set)),
    ("SMEMBERS", 0, sets::smembers),
    ("SMISMEMBER", 1, sets::smismember),
    ("SRANDMEMBER", 1, sets::srandmember),
    ("SREM", 1, sets::srem),
    ("ZADD", 2, sorted::zadd),
    ("ZCARD", 0, |space, key, _| size(space, key, Kind::Sorted)),
    ("ZCOUNT", 2, sorted::zcount),
    ("ZMSCORE", 1, sorted::zmscore),
    ("ZRANGE", 2, sorted::zrange),
    ("ZRANGEBYSCORE", 2, sorted::zrangebyscore),
    ("ZRANK", 1, sorted::zrank),
    ("ZREM", 1, sorted::zrem),
    ("ZREMRANGEBYRANK", 2, sorted::zremrangebyrank),
    ("ZREVRANGE", 2, sorted::zrevrange),
    ("ZREVRANK", 1, sorted::zrevrank),
    ("ZSCORE", 1, sorted::zscore),
];

/// The names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, ..)| *name).chain(["TIME"])
}

/// Runs one command: its name, then its arguments.
pub(super) fn run(space: &mut Keyspace, words: Args<'_>) -> Result<Answer, Fault> {
    let (verb, rest) = words.split_first().ok_or_else(|| Fault::said("ERR no command"))?;
    if verb == b"TIME" {
        let now = space.now_us();
        let text = |n: u64| Some(n.to_string().into_bytes());
        return Ok(Answer::List(vec![text(now / 1_000_000), text(now % 1_000_000)]));
    }
    let Ok(at) = COMMANDS.binary_search_by(|(name, ..)| name.as_bytes().cmp(verb)) else {
        return Err(Fault::said(format!("ERR the embedded keyspace has no command {}", verb.escape_ascii())));
    };
    let (name, least, command) = COMMANDS[at];
    match rest.split_first() {
        Some((key, args)) if args.len() >= least => command(space, key, args),
        _ => Err(Fault::said(format!("ERR wrong number of arguments for {name}"))),
    }
}

pub(super) fn syntax() -> Fault {
    Fault::said("ERR syntax error, or a form of the command that the embedded keyspace doesn't have")
}

pub(super) fn flag(is: bool) -> Answer {
    Answer::Int(i64::from(is))
}

fn size(space: &mut Keyspace, key: &[u8], kind: Kind) -> Result<Answer, Fault> {
    let slot = space.typed(key, kind)?;
    Ok(Answer::Int(space.count(slot)))
}

/// Only as Redis itself would write it: no plus sign, no zeros in front.
pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|n: &i64| n.to_string().as_bytes() == text)
        .ok_or_else(|| Fault::said("ERR value is not an integer or out of range"))
}

/// A score. There is one zero.
pub(super) fn score(text: &[u8]) -> Result<f64, Fault> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|score| !score.is_nan())
        .map(|score| score + 0.0)
        .ok_or_else(|| Fault::said("ERR value is not a valid float"))
}

/// A score as Redis writes it: whole numbers in full.
pub(super) fn score_text(score: f64) -> Vec<u8> {
    score.to_string().into_bytes()
}

/// The one part of a list.
pub(super) fn single(answer: Answer) -> Answer {
    match answer {
        Answer::List(mut parts) => parts.pop().flatten().map_or(Answer::Nil, Answer::Bytes),
        other => other,
    }
}

/// Removes elements by name; answers how many there were. `from_tables` does it where they are many.
pub(super) fn removed(
    space: &mut Keyspace,
    key: &[u8],
    kind: Kind,
    names: Args<'_>,
    from_tables: impl FnOnce(&Keyspace, Slot) -> Result<i64, Fault>,
) -> Result<Answer, Fault> {
    let slot = space.typed(key, kind)?;
    if space.count(slot) == 0 {
        return Ok(Answer::Int(0));
    }
    let gone = match space.small_mut(slot, kind) {
        Some(small) => names.iter().filter(|name| small.remove(name)).count() as i64,
        None => from_tables(space, slot)?,
    };
    space.grew(slot, kind, -gone);
    Ok(Answer::Int(gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].0 < pair[1].0), "it is searched by halves");
    }
}
