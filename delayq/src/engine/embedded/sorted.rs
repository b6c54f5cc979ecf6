//! The commands on sorted sets.

use rusqlite::{OptionalExtension, params};

use super::commands::{Answer, Args, integer, removed, score, score_text, single, syntax};
use super::failure::Fault;
use super::keyspace::{Keyspace, Kind, Mark, Slot};
use super::small::scored_weight;
use super::{sql, tables};

fn scores(space: &Keyspace, slot: Slot, members: Args<'_>) -> Result<Vec<Option<f64>>, Fault> {
    if space.count(slot) == 0 {
        return Ok(vec![None; members.len()]);
    }
    match space.small(slot) {
        Some(small) => {
            let score = |member: &Vec<u8>| small.rank(member).map(|rank| small.scored()[rank].0);
            Ok(members.iter().map(score).collect())
        }
        None => tables::scores(&space.db, space.id(slot), members),
    }
}

pub(super) fn zscore(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    Ok(single(zmscore(space, key, &args[..1])?))
}

pub(super) fn zmscore(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let scores = scores(space, slot, members)?;
    Ok(Answer::List(scores.into_iter().map(|score| score.map(score_text)).collect()))
}

pub(super) fn zadd(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let only_known = args[0] == b"XX";
    let pairs = if only_known { &args[1..] } else { args };
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(syntax());
    }
    let slot = space.typed(key, Kind::Sorted)?;
    // All are read before any is written, as Redis does.
    let scored = pairs.chunks_exact(2).map(|pair| score(&pair[0]).map(|score| (score, pair[1].clone())));
    let scored = scored.collect::<Result<Vec<_>, Fault>>()?;
    let added = if only_known { 0 } else { put(space, slot, &scored)? };
    if added < scored.len() as i64 {
        shift(space, slot, scored)?;
    }
    Ok(Answer::Int(added))
}

/// Puts members unless they are there; answers how many were not.
pub(super) fn put(space: &mut Keyspace, slot: Slot, scored: &[(f64, Vec<u8>)]) -> Result<i64, Fault> {
    let weight: usize = scored.iter().map(|(_, member)| scored_weight(member)).sum();
    let mut added = 0;
    if space.stays_small(slot, Kind::Sorted, scored.len(), weight)? {
        if let Some(small) = space.small_mut(slot, Kind::Sorted) {
            for (score, member) in scored {
                if small.rank(member).is_none() {
                    small.rate(*score, member.clone());
                    added += 1;
                }
            }
        }
    } else {
        added = tables::add_scored(&space.db, space.id(slot), scored)?;
    }
    space.grew(slot, Kind::Sorted, added);
    Ok(added)
}

/// Gives those that are there the scores that they don't have yet.
fn shift(space: &mut Keyspace, slot: Slot, scored: Vec<(f64, Vec<u8>)>) -> Result<(), Fault> {
    if space.count(slot) == 0 {
        return Ok(());
    }
    space.unmark(slot);
    if space.small(slot).is_none() {
        let id = space.id(slot);
        let mut get = space.db.prepare_cached(sql::SORTED_SCORE)?;
        let mut shift = space.db.prepare_cached(sql::SORTED_MOVE)?;
        for (score, member) in scored {
            if tables::score_of(&mut get, id, &member)?.is_some_and(|old| old != score) {
                shift.execute(params![id, score, member])?;
            }
        }
        return Ok(());
    }
    let mut shifted = false;
    if let Some(small) = space.small_mut(slot, Kind::Sorted) {
        for (score, member) in scored {
            if small.rank(&member).is_some_and(|rank| small.scored()[rank].0 != score) {
                small.remove(&member);
                small.rate(score, member);
                shifted = true;
            }
        }
    }
    if shifted {
        space.touch(slot);
    }
    Ok(())
}

pub(super) fn zrem(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    removed(space, key, Kind::Sorted, members, |space, slot| {
        let (id, mut gone) = (space.id(slot), 0);
        let mut drop = space.db.prepare_cached(sql::SORTED_DROP)?;
        for member in members {
            gone += drop.execute(params![id, member])?;
        }
        Ok(gone as i64)
    })
}

/// Bounds as closed ones: "(1" and "1" differ by the least that a score can. Beyond the infinite there is nothing.
fn between(from: &[u8], to: &[u8]) -> Result<(f64, f64), Fault> {
    let nothing = (f64::INFINITY, f64::NEG_INFINITY);
    let bound = |text: &[u8], beyond: fn(f64) -> f64| match text.strip_prefix(b"(") {
        Some(open) => score(open).map(beyond),
        None => score(text),
    };
    let (low, high) = (bound(from, f64::next_up)?, bound(to, f64::next_down)?);
    let is_beyond = |text: &[u8], end: f64| text.strip_prefix(b"(").is_some_and(|open| score(open).ok() == Some(end));
    Ok(if is_beyond(from, f64::INFINITY) || is_beyond(to, f64::NEG_INFINITY) { nothing } else { (low, high) })
}

/// The ranks in a small set of what has these scores.
fn ranks_between(scored: &[(f64, Vec<u8>)], low: f64, high: f64) -> std::ops::Range<usize> {
    let first = scored.partition_point(|(score, _)| *score < low);
    first..scored.partition_point(|(score, _)| *score <= high).max(first)
}

pub(super) fn zcount(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [from, to] = args else { return Err(syntax()) };
    let (low, high) = between(from, to)?;
    if space.count(slot) == 0 {
        return Ok(Answer::Int(0));
    }
    if let Some(small) = space.small(slot) {
        return Ok(Answer::Int(ranks_between(small.scored(), low, high).len() as i64));
    }
    let id = space.id(slot);
    let count = space.db.prepare_cached(sql::SORTED_COUNT)?.query_row(params![id, low, high], |row| row.get(0))?;
    Ok(Answer::Int(count))
}

pub(super) fn zrangebyscore(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let (from, to, skip, most) = match args {
        [from, to] => (from, to, 0, i64::MAX),
        [from, to, limit, skip, most] if limit == b"LIMIT" => (from, to, integer(skip)?, integer(most)?),
        _ => return Err(syntax()),
    };
    let (low, high) = between(from, to)?;
    let most = if most < 0 { i64::MAX } else { most };
    if space.count(slot) == 0 || skip < 0 {
        return Ok(Answer::List(Vec::new()));
    }
    if let Some(small) = space.small(slot) {
        let scored = &small.scored()[ranks_between(small.scored(), low, high)];
        return Ok(Answer::List(page(scored.iter(), skip, most, false)));
    }
    let found = {
        let mut find = space.db.prepare_cached(sql::SORTED_BETWEEN)?;
        take(find.query(params![space.id(slot), low, high])?, skip, most)?
    };
    if let (Some((score, member)), true) = (found.last(), low == f64::NEG_INFINITY && skip == 0) {
        let (rank, score, member) = (found.len() as i64 - 1, *score, member.clone());
        space.set_mark(Mark { slot, rank, score, member });
    }
    Ok(Answer::List(found.into_iter().map(|(_, member)| Some(member)).collect()))
}

/// Rows of score and member, some of them.
fn take(mut rows: rusqlite::Rows<'_>, skip: i64, most: i64) -> Result<Vec<(f64, Vec<u8>)>, Fault> {
    let mut taken = Vec::new();
    let mut passed = 0;
    while (taken.len() as i64) < most {
        let Some(row) = rows.next()? else { break };
        passed += 1;
        if passed > skip {
            taken.push((row.get(0)?, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?.to_vec()));
        }
    }
    Ok(taken)
}

/// Some of them, as a list of members, and their scores if these are wanted.
fn page<'m>(
    scored: impl Iterator<Item = &'m (f64, Vec<u8>)>,
    skip: i64,
    most: i64,
    scores: bool,
) -> Vec<Option<Vec<u8>>> {
    let count = |n: i64| usize::try_from(n).unwrap_or(if n < 0 { 0 } else { usize::MAX });
    let mut page = Vec::new();
    for (score, member) in scored.skip(count(skip)).take(count(most)) {
        page.push(Some(member.clone()));
        if scores {
            page.push(Some(score_text(*score)));
        }
    }
    page
}

/// Ranks as a start and how many from there.
fn ranks(from: &[u8], to: &[u8], size: i64) -> Result<(i64, i64), Fault> {
    let place = |text: &[u8]| integer(text).map(|n| if n < 0 { size.saturating_add(n) } else { n });
    let (first, last) = (place(from)?.max(0), place(to)?.min(size - 1));
    Ok((first, (last - first + 1).max(0)))
}

pub(super) fn zrange(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    range(space, key, args, false)
}

pub(super) fn zrevrange(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    range(space, key, args, true)
}

fn range(space: &mut Keyspace, key: &[u8], args: Args<'_>, down: bool) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let (from, to, scores) = match args {
        [from, to] => (from, to, false),
        [from, to, with] if with == b"WITHSCORES" => (from, to, true),
        _ => return Err(syntax()),
    };
    let (skip, most) = ranks(from, to, space.count(slot))?;
    if most == 0 {
        return Ok(Answer::List(Vec::new()));
    }
    Ok(Answer::List(match space.small(slot) {
        Some(small) if down => page(small.scored().iter().rev(), skip, most, scores),
        Some(small) => page(small.scored().iter(), skip, most, scores),
        None => {
            let mut walk = space.db.prepare_cached(if down { sql::SORTED_DOWN } else { sql::SORTED_UP })?;
            let found = take(walk.query([space.id(slot)])?, skip, most)?;
            page(found.iter(), 0, most, scores)
        }
    }))
}

/// How many come before a member; `None` where it isn't one.
fn rank_of(space: &Keyspace, slot: Slot, member: &[u8]) -> Result<Option<i64>, Fault> {
    if let Some(small) = space.small(slot) {
        return Ok(small.rank(member).map(|rank| rank as i64));
    }
    let id = space.id(slot);
    let score = tables::score_of(&mut space.db.prepare_cached(sql::SORTED_SCORE)?, id, member)?;
    let Some(score) = score else { return Ok(None) };
    let before = space.db.prepare_cached(sql::SORTED_RANK)?.query_row(params![id, score, member], |row| row.get(0))?;
    Ok(Some(before))
}

pub(super) fn zrank(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [member] = args else { return Err(syntax()) };
    Ok(rank_of(space, slot, member)?.map_or(Answer::Nil, Answer::Int))
}

pub(super) fn zrevrank(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Sorted)?;
    let [member] = args else { return Err(syntax()) };
    let size = space.count(slot);
    Ok(rank_of(space, slot, member)?.map_or(Answer::Nil, |rank| Answer::Int(size - 1 - rank)))
}

pub(super) fn zremrangebyrank(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
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
    let gone = if let Some(small) = space.small_mut(slot, Kind::Sorted) {
        small.drop_ranks(0..most as usize);
        most
    } else {
        // One statement for all up to the last one, which its rank finds.
        let last = if most < size { at_rank(space, slot, most - 1)? } else { None };
        let gone = match last {
            Some((score, member)) => {
                space.db.prepare_cached(sql::SORTED_DROP_TO)?.execute(params![id, score, member])?
            }
            None => space.db.prepare_cached(sql::SORTED_CLEAR)?.execute([id])?,
        };
        gone as i64
    };
    space.grew(slot, Kind::Sorted, -gone);
    Ok(Answer::Int(gone))
}

fn at_rank(space: &Keyspace, slot: Slot, rank: i64) -> Result<Option<(f64, Vec<u8>)>, Fault> {
    if let Some(mark) = space.mark().filter(|mark| mark.slot == slot && mark.rank == rank) {
        return Ok(Some((mark.score, mark.member.clone())));
    }
    let mut walk = space.db.prepare_cached(sql::SORTED_UP)?;
    Ok(take(walk.query([space.id(slot)])?, rank, 1)?.pop())
}

/// Takes the member with the lowest score: what a wait on the baton takes.
pub(super) fn pop_first(space: &mut Keyspace, slot: Slot) -> Result<Option<f64>, Fault> {
    if space.count(slot) == 0 {
        return Ok(None);
    }
    let score = if let Some(small) = space.small_mut(slot, Kind::Sorted) {
        let first = small.scored().first().map(|(score, _)| *score);
        small.drop_ranks(0..usize::from(first.is_some()));
        first
    } else {
        let id = space.id(slot);
        let first: Option<(f64, Vec<u8>)> = space
            .db
            .prepare_cached(sql::SORTED_UP)?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((score, member)) = &first {
            space.db.prepare_cached(sql::SORTED_DROP_AT)?.execute(params![id, score, member])?;
        }
        first.map(|(score, _)| score)
    };
    if score.is_some() {
        space.grew(slot, Kind::Sorted, -1);
    }
    Ok(score)
}
