//! The commands on hashes.

use super::commands::{Answer, Args, flag, integer, removed, single, syntax};
use super::failure::Fault;
use super::keyspace::{Keyspace, Kind, Slot};
use super::small::field_weight;
use super::{sql, tables};

fn values(space: &Keyspace, slot: Slot, fields: Args<'_>) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    if space.count(slot) == 0 {
        return Ok(vec![None; fields.len()]);
    }
    match space.small(slot) {
        Some(small) => Ok(fields.iter().map(|field| small.value(field).map(<[u8]>::to_vec)).collect()),
        None => tables::values(&space.db, space.id(slot), fields),
    }
}

/// Puts fields and values, given in turns; answers how many fields are new.
pub(super) fn put(space: &mut Keyspace, slot: Slot, kind: Kind, pairs: Args<'_>) -> Result<i64, Fault> {
    let weight: usize = pairs.chunks_exact(2).map(|pair| field_weight(&pair[0], &pair[1])).sum();
    let mut added = 0;
    if space.stays_small(slot, kind, pairs.len() / 2, weight)? {
        if let Some(small) = space.small_mut(slot, kind) {
            for pair in pairs.chunks_exact(2) {
                added += i64::from(small.put(&pair[0], &pair[1]));
            }
        }
        space.touch(slot);
    } else {
        added = tables::put_fields(&space.db, space.id(slot), pairs)?;
    }
    space.grew(slot, kind, added);
    Ok(added)
}

pub(super) fn hget(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    Ok(single(hmget(space, key, &args[..1])?))
}

pub(super) fn hmget(space: &mut Keyspace, key: &[u8], fields: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    Ok(Answer::List(values(space, slot, fields)?))
}

pub(super) fn hexists(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    let field = &args[0];
    Ok(flag(match space.small(slot) {
        _ if space.count(slot) == 0 => false,
        Some(small) => small.value(field).is_some(),
        None => space.db.prepare_cached(sql::HASH_HAS)?.exists((space.id(slot), field))?,
    }))
}

pub(super) fn hset(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    if !args.len().is_multiple_of(2) {
        return Err(Fault::said("ERR wrong number of arguments for HSET"));
    }
    Ok(Answer::Int(put(space, slot, Kind::Hash, args)?))
}

pub(super) fn hincrby(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let slot = space.typed(key, Kind::Hash)?;
    let [field, by] = args else { return Err(syntax()) };
    let by = integer(by)?;
    let old = match values(space, slot, &args[..1])?.pop().flatten() {
        Some(text) => integer(&text).map_err(|_| Fault::said("ERR hash value is not an integer"))?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or_else(|| Fault::said("ERR increment or decrement would overflow"))?;
    put(space, slot, Kind::Hash, &[field.clone(), new.to_string().into_bytes()])?;
    Ok(Answer::Int(new))
}

pub(super) fn hdel(space: &mut Keyspace, key: &[u8], fields: Args<'_>) -> Result<Answer, Fault> {
    removed(space, key, Kind::Hash, fields, |space, slot| {
        tables::remove(&space.db, &tables::OF_HASH, space.id(slot), fields)
    })
}
