//! The commands that the scripts use, as Redis answers them. What no script says is refused, not guessed.

mod scan;

use rusqlite::{CachedStatement, OptionalExtension, params};

use super::failure::Fault;
use super::keyspace::{Keyspace, Kind, Slot};
use super::lua::Word;
use super::sql;

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

type Args<'a> = &'a [Word];
type Command = fn(&mut Keyspace, &[u8], Args<'_>) -> Result<Answer, Fault>;

/// Every command: its name, how few arguments it takes after its key, and what does it. `TIME` alone has no key.
const COMMANDS: &[(&str, usize, Command)] = &[
    ("HDEL", 1, hdel),
    ("HEXISTS", 1, hexists),
    ("HGET", 1, hget),
    ("HINCRBY", 2, hincrby),
    ("HLEN", 0, |space, key, _| size(space, key, Kind::Hash)),
    ("HMGET", 1, hmget),
    ("HSCAN", 3, scan::hscan),
    ("HSET", 2, hset),
    ("SADD", 1, sadd),
    ("SCARD", 0, |space, key, _| size(space, key, Kind::Set)),
    ("SMEMBERS", 0, smembers),
    ("SMISMEMBER", 1, smismember),
    ("SRANDMEMBER", 1, srandmember),
    ("SREM", 1, srem),
    ("ZADD", 2, zadd),
    ("ZCARD", 0, |space, key, _| size(space, key, Kind::Sorted)),
    ("ZCOUNT", 2, zcount),
    ("ZMSCORE", 1, zmscore),
    ("ZRANGE", 2, |space, key, args| zrange(space, key, args, sql::SORTED_UP)),
    ("ZRANGEBYSCORE", 2, zrangebyscore),
    ("ZRANK", 1, zrank),
    ("ZREM", 1, zrem),
    ("ZREMRANGEBYRANK", 2, zremrangebyrank),
    ("ZREVRANGE", 2, |space, key, args| zrange(space, key, args, sql::SORTED_DOWN)),
    ("ZREVRANK", 1, zrevrank),
    ("ZSCORE", 1, zscore),
];

/// The names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, ..)| *name).chain(["TIME"])
}

/// Runs one command: its name, then its arguments.
pub(super) fn run(space: &mut Keyspace, words: &[Word]) -> Result<Answer, Fault> {
    let (verb, rest) = words.split_first().ok_or_else(|| Fault::said("ERR no command"))?;
    let verb: &[u8] = verb;
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

fn syntax() -> Fault {
    Fault::said("ERR syntax error, or a form of the command that the embedded keyspace doesn't have")
}

fn flag(is: bool) -> Answer {
    Answer::Int(i64::from(is))
}

fn size(space: &mut Keyspace, key: &[u8], kind: Kind) -> Result<Answer, Fault> {
    let slot = space.typed(key, kind)?;
    Ok(Answer::Int(space.count(slot)))
}

/// Only as Redis itself would write it: no plus sign, no zeros in front.
fn integer(text: &[u8]) -> Result<i64, Fault> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|n: &i64| n.to_string().as_bytes() == text)
        .ok_or_else(|| Fault::said("ERR value is not an integer or out of range"))
}

fn score(text: &[u8]) -> Result<f64, Fault> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|score| !score.is_nan())
        .ok_or_else(|| Fault::said("ERR value is not a valid float"))
}

/// A score as Redis writes it: whole numbers in full.
fn score_text(score: f64) -> Vec<u8> {
    score.to_string().into_bytes()
}

/// The one part of a list.
fn single(answer: Answer) -> Answer {
    match answer {
        Answer::List(mut parts) => parts.pop().flatten().map_or(Answer::Nil, Answer::Bytes),
        other => other,
    }
}

// Hashes.

fn hget(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    Ok(single(hmget(space, key, &args[..1])?))
}

fn hmget(space: &mut Keyspace, key: &[u8], fields: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    if space.count(slot) == 0 {
        return Ok(Answer::List(vec![None; fields.len()]));
    }
    let id = space.id(slot);
    let mut get = space.db.prepare_cached(sql::HASH_GET)?;
    let values = fields.iter().map(|field| {
        Ok(get.query_row(params![id, &**field], |row| Ok(row.get_ref(0)?.as_blob()?.to_vec())).optional()?)
    });
    Ok(Answer::List(values.collect::<Result<_, Fault>>()?))
}

fn hexists(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    Ok(flag(hget(space, key, args)? != Answer::Nil))
}

/// Puts one field; answers whether it is new.
fn put(space: &mut Keyspace, slot: Slot, field: &[u8], value: &[u8]) -> Result<bool, Fault> {
    let id = space.id(slot);
    if space.count(slot) > 0 && space.db.prepare_cached(sql::HASH_SET)?.execute(params![id, field, value])? > 0 {
        return Ok(false);
    }
    space.db.prepare_cached(sql::HASH_ADD)?.execute(params![id, field, value])?;
    space.grew(slot, Kind::Hash, 1);
    Ok(true)
}

fn hset(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    if !args.len().is_multiple_of(2) {
        return Err(Fault::said("ERR wrong number of arguments for HSET"));
    }
    let mut added = 0;
    for pair in args.chunks_exact(2) {
        added += i64::from(put(space, slot, &pair[0], &pair[1])?);
    }
    Ok(Answer::Int(added))
}

fn hincrby(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    let [field, by] = args else { return Err(syntax()) };
    let by = integer(by)?;
    let old = match hget(space, key, &args[..1])? {
        Answer::Bytes(text) => integer(&text).map_err(|_| Fault::said("ERR hash value is not an integer"))?,
        _ => 0,
    };
    let new = old.checked_add(by).ok_or_else(|| Fault::said("ERR increment or decrement would overflow"))?;
    put(space, slot, field, new.to_string().as_bytes())?;
    Ok(Answer::Int(new))
}

fn hdel(space: &mut Keyspace, key: &[u8], fields: Args<'_>) -> Result<Answer, Fault> {
    drop_each(space, key, fields, Kind::Hash, sql::HASH_DROP)
}

/// Removes elements by name; answers how many there were.
fn drop_each(
    space: &mut Keyspace,
    key: &[u8],
    names: Args<'_>,
    kind: Kind,
    statement: &'static str,
) -> Result<Answer, Fault> {
    let slot = space.typed(key, kind)?;
    if space.count(slot) == 0 {
        return Ok(Answer::Int(0));
    }
    let id = space.id(slot);
    let mut gone = 0;
    {
        let mut drop = space.db.prepare_cached(statement)?;
        for name in names {
            gone += drop.execute(params![id, &**name])? as i64;
        }
    }
    space.grew(slot, kind, -gone);
    Ok(Answer::Int(gone))
}

// Sets.

fn sadd(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    let id = space.id(slot);
    let mut added = 0;
    {
        let mut add = space.db.prepare_cached(sql::SET_ADD)?;
        for member in members {
            added += add.execute(params![id, &**member])? as i64;
        }
    }
    space.grew(slot, Kind::Set, added);
    Ok(Answer::Int(added))
}

fn srem(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    drop_each(space, key, members, Kind::Set, sql::SET_DROP)
}

fn smismember(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    let id = space.id(slot);
    let mut has = space.db.prepare_cached(sql::SET_HAS)?;
    let found = members.iter().map(|member| Ok(has.exists(params![id, &**member])?));
    Ok(Answer::Flags(found.collect::<Result<_, Fault>>()?))
}

fn smembers(space: &mut Keyspace, key: &[u8], _: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    let most = space.count(slot);
    first_members(space, slot, most)
}

/// Distinct members, as Redis gives for a positive count: which ones is nobody's business.
fn srandmember(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    let count = integer(&args[0])?;
    if count < 0 || args.len() > 1 {
        return Err(syntax());
    }
    first_members(space, slot, count)
}

fn first_members(space: &mut Keyspace, slot: Slot, most: i64) -> Result<Answer, Fault> {
    let mut all = space.db.prepare_cached(sql::SET_ALL)?;
    let mut rows = all.query([space.id(slot)])?;
    let mut members = Vec::new();
    while (members.len() as i64) < most {
        let Some(row) = rows.next()? else { break };
        members.push(Some(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?.to_vec()));
    }
    Ok(Answer::List(members))
}

// Sorted sets.

fn score_of(get: &mut CachedStatement<'_>, id: i64, member: &[u8]) -> Result<Option<f64>, Fault> {
    Ok(get.query_row(params![id, member], |row| row.get(0)).optional()?)
}

fn zscore(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    Ok(single(zmscore(space, key, &args[..1])?))
}

fn zmscore(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    if space.count(slot) == 0 {
        return Ok(Answer::List(vec![None; members.len()]));
    }
    let id = space.id(slot);
    let mut get = space.db.prepare_cached(sql::SORTED_SCORE)?;
    let scores = members.iter().map(|member| Ok(score_of(&mut get, id, member)?.map(score_text)));
    Ok(Answer::List(scores.collect::<Result<_, Fault>>()?))
}

fn zadd(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let only_known = *args[0] == *b"XX";
    let pairs = if only_known { &args[1..] } else { args };
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(syntax());
    }
    let slot = space.typed(key, Kind::Sorted)?;
    let id = space.id(slot);
    let mut added = 0;
    {
        let mut get = space.db.prepare_cached(sql::SORTED_SCORE)?;
        let mut add = space.db.prepare_cached(sql::SORTED_ADD)?;
        let mut shift = space.db.prepare_cached(sql::SORTED_MOVE)?;
        // All are read before any is written, as Redis does.
        let scores = pairs.chunks_exact(2).map(|pair| score(&pair[0])).collect::<Result<Vec<_>, _>>()?;
        for (score, pair) in scores.into_iter().zip(pairs.chunks_exact(2)) {
            let member: &[u8] = &pair[1];
            if !only_known && add.execute(params![id, score, member])? > 0 {
                added += 1;
            } else if score_of(&mut get, id, member)?.is_some_and(|old| old != score) {
                shift.execute(params![id, score, member])?;
            }
        }
    }
    space.grew(slot, Kind::Sorted, added);
    Ok(Answer::Int(added))
}

fn zrem(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    drop_each(space, key, members, Kind::Sorted, sql::SORTED_DROP)
}

/// Bounds as closed ones: "(1" and "1" differ by the least that a score can.
fn between(from: &[u8], to: &[u8]) -> Result<(f64, f64), Fault> {
    let bound = |text: &[u8], beyond: fn(f64) -> f64| match text.strip_prefix(b"(") {
        Some(open) => score(open).map(beyond),
        None => score(text),
    };
    bound(from, f64::next_up).and_then(|low| Ok((low, bound(to, f64::next_down)?)))
}

fn zcount(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [from, to] = args else { return Err(syntax()) };
    let (low, high) = between(from, to)?;
    if space.count(slot) == 0 {
        return Ok(Answer::Int(0));
    }
    let id = space.id(slot);
    let count = space.db.prepare_cached(sql::SORTED_COUNT)?.query_row(params![id, low, high], |row| row.get(0))?;
    Ok(Answer::Int(count))
}

fn zrangebyscore(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let (from, to, skip, most) = match args {
        [from, to] => (from, to, 0, i64::MAX),
        [from, to, limit, skip, most] if **limit == *b"LIMIT" => (from, to, integer(skip)?, integer(most)?),
        _ => return Err(syntax()),
    };
    let (low, high) = between(from, to)?;
    let most = if most < 0 { i64::MAX } else { most };
    if space.count(slot) == 0 || skip < 0 {
        return Ok(Answer::List(Vec::new()));
    }
    let mut find = space.db.prepare_cached(sql::SORTED_BETWEEN)?;
    let rows = find.query(params![space.id(slot), low, high])?;
    Ok(Answer::List(page(rows, skip, most, false)?))
}

/// Rows of score and member, some of them.
fn page(mut rows: rusqlite::Rows<'_>, skip: i64, most: i64, scores: bool) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    let mut page = Vec::new();
    let (mut passed, mut taken) = (0, 0);
    while taken < most {
        let Some(row) = rows.next()? else { break };
        passed += 1;
        if passed <= skip {
            continue;
        }
        taken += 1;
        page.push(Some(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?.to_vec()));
        if scores {
            page.push(Some(score_text(row.get(0)?)));
        }
    }
    Ok(page)
}

/// Ranks as a start and how many from there.
fn ranks(from: &[u8], to: &[u8], size: i64) -> Result<(i64, i64), Fault> {
    let place = |text: &[u8]| integer(text).map(|n| if n < 0 { size.saturating_add(n) } else { n });
    let (first, last) = (place(from)?.max(0), place(to)?.min(size - 1));
    Ok((first, (last - first + 1).max(0)))
}

fn zrange(space: &mut Keyspace, key: &[u8], args: Args<'_>, order: &'static str) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let (from, to, scores) = match args {
        [from, to] => (from, to, false),
        [from, to, with] if **with == *b"WITHSCORES" => (from, to, true),
        _ => return Err(syntax()),
    };
    let (skip, most) = ranks(from, to, space.count(slot))?;
    let mut walk = space.db.prepare_cached(order)?;
    let rows = walk.query([space.id(slot)])?;
    Ok(Answer::List(page(rows, skip, most, scores)?))
}

/// How many come before a member; `None` where it isn't one.
fn rank_of(space: &mut Keyspace, slot: Slot, member: &[u8]) -> Result<Option<i64>, Fault> {
    let id = space.id(slot);
    let Some(score) = score_of(&mut space.db.prepare_cached(sql::SORTED_SCORE)?, id, member)? else { return Ok(None) };
    let before = space.db.prepare_cached(sql::SORTED_RANK)?.query_row(params![id, score, member], |row| row.get(0))?;
    Ok(Some(before))
}

fn zrank(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [member] = args else { return Err(syntax()) };
    Ok(rank_of(space, slot, member)?.map_or(Answer::Nil, Answer::Int))
}

fn zrevrank(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [member] = args else { return Err(syntax()) };
    let size = space.count(slot);
    Ok(rank_of(space, slot, member)?.map_or(Answer::Nil, |rank| Answer::Int(size - 1 - rank)))
}

fn zremrangebyrank(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [from, to] = args else { return Err(syntax()) };
    let (id, size) = (space.id(slot), space.count(slot));
    let (skip, most) = ranks(from, to, size)?;
    if skip > 0 {
        return Err(syntax());
    }
    if most == 0 {
        return Ok(Answer::Int(0));
    }
    // One statement for all up to the last one, which its rank finds.
    let last = if most < size { at_rank(space, id, most - 1)? } else { None };
    let gone = match last {
        Some((score, member)) => space.db.prepare_cached(sql::SORTED_DROP_TO)?.execute(params![id, score, member])?,
        None => space.db.prepare_cached(sql::SORTED_CLEAR)?.execute([id])?,
    };
    space.grew(slot, Kind::Sorted, -(gone as i64));
    Ok(Answer::Int(gone as i64))
}

fn at_rank(space: &Keyspace, id: i64, rank: i64) -> Result<Option<(f64, Vec<u8>)>, Fault> {
    let mut walk = space.db.prepare_cached(sql::SORTED_UP)?;
    let mut rows = walk.query([id])?;
    for _ in 0..rank {
        rows.next()?;
    }
    Ok(rows.next()?.map(|row| Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?))).transpose()?)
}

/// Takes the member with the lowest score: what a wait on the baton takes.
pub(super) fn pop_first(space: &mut Keyspace, slot: Slot) -> Result<Option<f64>, Fault> {
    if space.count(slot) == 0 {
        return Ok(None);
    }
    let id = space.id(slot);
    let first: Option<(f64, Vec<u8>)> =
        space.db.prepare_cached(sql::SORTED_UP)?.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((score, member)) = first else { return Ok(None) };
    space.db.prepare_cached(sql::SORTED_DROP_AT)?.execute(params![id, score, member])?;
    space.grew(slot, Kind::Sorted, -1);
    Ok(Some(score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].0 < pair[1].0), "it is searched by halves");
    }
}
