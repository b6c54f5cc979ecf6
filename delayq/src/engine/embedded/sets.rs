//! The commands on sets.

use super::commands::{Answer, Args, integer, removed, syntax};
use super::failure::Fault;
use super::keyspace::{Keyspace, Kind, Slot};
use super::small::{Elements, member_weight};
use super::{sql, tables};

/// Puts members; answers how many are new.
pub(super) fn put(space: &mut Keyspace, slot: Slot, members: Args<'_>) -> Result<i64, Fault> {
    let weight: usize = members.iter().map(|member| member_weight(member)).sum();
    let mut added = 0;
    if space.stays_small(slot, Kind::Set, members.len(), weight)? {
        if let Some(small) = space.small_mut(slot, Kind::Set) {
            for member in members {
                added += i64::from(small.add(member));
            }
        }
    } else {
        added = tables::add_members(&space.db, space.id(slot), members)?;
    }
    space.grew(slot, Kind::Set, added);
    Ok(added)
}

pub(super) fn sadd(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    Ok(Answer::Int(put(space, slot, members)?))
}

pub(super) fn srem(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    removed(space, key, Kind::Set, members, |space, slot| {
        tables::remove(&space.db, &tables::OF_SET, space.id(slot), members)
    })
}

pub(super) fn smismember(space: &mut Keyspace, key: &[u8], members: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    Ok(Answer::Flags(match space.small(slot) {
        _ if space.count(slot) == 0 => vec![false; members.len()],
        Some(small) => members.iter().map(|member| small.has_member(member)).collect(),
        None => tables::are_members(&space.db, space.id(slot), members)?,
    }))
}

pub(super) fn smembers(space: &mut Keyspace, key: &[u8], _: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    let most = space.count(slot);
    Ok(Answer::List(first(space, slot, most)?.into_iter().map(Some).collect()))
}

/// Distinct members, as Redis gives for a positive count: which ones is nobody's business.
pub(super) fn srandmember(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Set)?;
    let count = integer(&args[0])?;
    if count < 0 || args.len() > 1 {
        return Err(syntax());
    }
    Ok(Answer::List(first(space, slot, count)?.into_iter().map(Some).collect()))
}

/// The first members, so many at most.
pub(super) fn first(space: &Keyspace, slot: Slot, most: i64) -> Result<Vec<Vec<u8>>, Fault> {
    let most = usize::try_from(most.min(space.count(slot))).unwrap_or(0);
    if let Some(small) = space.small(slot) {
        let Elements::Set(members) = &small.elements else { return Ok(Vec::new()) };
        return Ok(members.iter().take(most).cloned().collect());
    }
    let mut all = space.db.prepare_cached(sql::SET_ALL)?;
    let mut rows = all.query([space.id(slot)])?;
    let mut members = Vec::new();
    while members.len() < most {
        let Some(row) = rows.next()? else { break };
        members.push(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?.to_vec());
    }
    Ok(members)
}
