//! The elements of keys that have many, in SQLite's tables: as few statements as there can be for many of them.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Statement, params};

use super::failure::Fault;
use super::sql::{self, Rows};

/// With fewer names than these, neighbours are not looked for.
const WALK_MIN: usize = 4;
/// How many rows that nobody asked for are passed until the next name is looked up instead.
const STRAYS_MAX: u32 = 2;
/// A look-up of this many names by one statement was worth it.
const WORTH: usize = 3;
/// After so many in a row that were not, the rest are looked up one by one.
const PATIENCE: u32 = 2;

/// What removes elements by name: one, all between two, and what finds neighbours.
pub(super) struct Removal {
    one: &'static str,
    between: &'static str,
    from: &'static str,
}

pub(super) const OF_HASH: Removal =
    Removal { one: sql::HASH_DROP, between: sql::HASH_DROP_RANGE, from: sql::HASH_NAMES_FROM };
pub(super) const OF_SET: Removal = Removal { one: sql::SET_DROP, between: sql::SET_DROP_RANGE, from: sql::SET_FROM };

/// Puts so many rows in, each unless it is there; answers how many were not. `bind` gives a row its values: the statement,
/// the first parameter, which row.
fn add(
    db: &Connection,
    rows: &Rows,
    id: i64,
    count: usize,
    bind: impl Fn(&mut Statement<'_>, usize, usize) -> rusqlite::Result<()>,
) -> Result<i64, Fault> {
    let (mut added, mut from) = (0, 0);
    for (size, text) in &rows.texts {
        if count - from < *size {
            continue;
        }
        let mut statement = db.prepare_cached(text)?;
        statement.raw_bind_parameter(1, id)?;
        while count - from >= *size {
            for nth in 0..*size {
                bind(&mut statement, 2 + nth * rows.columns, from + nth)?;
            }
            added += statement.raw_execute()? as i64;
            from += size;
        }
    }
    Ok(added)
}

/// Puts fields and values, given in turns; answers how many fields are new.
pub(super) fn put_fields(db: &Connection, id: i64, pairs: &[Vec<u8>]) -> Result<i64, Fault> {
    let count = pairs.len() / 2;
    let added = add(db, &sql::HASH_ADD, id, count, |statement, at, nth| {
        statement.raw_bind_parameter(at, pairs[2 * nth].as_slice())?;
        statement.raw_bind_parameter(at + 1, pairs[2 * nth + 1].as_slice())
    })?;
    if added < count as i64 {
        // Some were there, or came twice: the last one stays.
        let mut set = db.prepare_cached(sql::HASH_SET)?;
        for pair in pairs.chunks_exact(2) {
            set.execute(params![id, pair[0], pair[1]])?;
        }
    }
    Ok(added)
}

/// Puts members into a set; answers how many are new.
pub(super) fn add_members(db: &Connection, id: i64, members: &[Vec<u8>]) -> Result<i64, Fault> {
    add(db, &sql::SET_ADD, id, members.len(), |statement, at, nth| {
        statement.raw_bind_parameter(at, members[nth].as_slice())
    })
}

/// Puts members into a sorted set, unless they are there; answers how many were not.
pub(super) fn add_scored(db: &Connection, id: i64, members: &[(f64, Vec<u8>)]) -> Result<i64, Fault> {
    add(db, &sql::SORTED_ADD, id, members.len(), |statement, at, nth| {
        statement.raw_bind_parameter(at, members[nth].0)?;
        statement.raw_bind_parameter(at + 1, members[nth].1.as_slice())
    })
}

/// Their places, in the order in which the tables have them.
fn in_order(names: &[Vec<u8>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_unstable_by(|a, b| names[*a].cmp(&names[*b]));
    order
}

/// Goes through the rows of a key beside its sorted names, so that neighbours cost a step instead of a statement each. `from`
/// begins at a name; a row's first column is its own. `met` is told each name that has a row, and whether no other
/// row is between it and the one before. Answers how many names in `order` are done: neighbours may be rare.
fn walk(
    db: &Connection,
    from: &'static str,
    id: i64,
    names: &[Vec<u8>],
    order: &[usize],
    mut met: impl FnMut(usize, bool, &Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<usize> {
    if order.len() < WALK_MIN {
        return Ok(0);
    }
    let mut from = db.prepare_cached(from)?;
    let (mut at, mut patience) = (0, PATIENCE);
    while at < order.len() && patience > 0 {
        let begun = at;
        let mut rows = from.query(params![id, names[order[at]]])?;
        let (mut strays, mut adjacent) = (0, false);
        while at < order.len() && strays <= STRAYS_MAX {
            // Behind the last row there is none of the other names either.
            let Some(row) = rows.next()? else { return Ok(order.len()) };
            let name = row.get_ref(0)?.as_blob()?;
            while at < order.len() && names[order[at]].as_slice() < name {
                at += 1;
            }
            let is_wanted = at < order.len() && names[order[at]] == name;
            while at < order.len() && names[order[at]] == name {
                met(order[at], adjacent, row)?;
                adjacent = true;
                at += 1;
            }
            if is_wanted {
                strays = 0;
            } else {
                strays += 1;
                adjacent = false;
            }
        }
        patience = if at - begun >= WORTH { PATIENCE } else { patience - 1 };
    }
    Ok(at)
}

/// What each name has: by `walk` as far as that goes, then one by one.
fn look_up<T: Clone>(
    db: &Connection,
    from: &'static str,
    one: &'static str,
    id: i64,
    names: &[Vec<u8>],
    take: impl Fn(&Row<'_>, usize) -> rusqlite::Result<T>,
) -> Result<Vec<Option<T>>, Fault> {
    let (mut found, order) = (vec![None; names.len()], in_order(names));
    let done = walk(db, from, id, names, &order, |nth, _, row| {
        found[nth] = Some(take(row, 1)?);
        Ok(())
    })?;
    if done < order.len() {
        let mut one = db.prepare_cached(one)?;
        for nth in &order[done..] {
            found[*nth] = one.query_row(params![id, names[*nth]], |row| take(row, 0)).optional()?;
        }
    }
    Ok(found)
}

/// The values of fields.
pub(super) fn values(db: &Connection, id: i64, fields: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    look_up(db, sql::HASH_FROM, sql::HASH_GET, id, fields, |row, column| Ok(row.get_ref(column)?.as_blob()?.to_vec()))
}

/// Which members a set has.
pub(super) fn are_members(db: &Connection, id: i64, members: &[Vec<u8>]) -> Result<Vec<bool>, Fault> {
    let found = look_up(db, sql::SET_FROM, sql::SET_HAS, id, members, |_, _| Ok(()))?;
    Ok(found.iter().map(Option::is_some).collect())
}

/// The scores of members.
pub(super) fn scores(db: &Connection, id: i64, members: &[Vec<u8>]) -> Result<Vec<Option<f64>>, Fault> {
    look_up(db, sql::SORTED_SCORES_FROM, sql::SORTED_SCORE, id, members, |row, column| row.get(column))
}

/// The score of one member.
pub(super) fn score_of(get: &mut CachedStatement<'_>, id: i64, member: &[u8]) -> Result<Option<f64>, Fault> {
    Ok(get.query_row(params![id, member], |row| row.get(0)).optional()?)
}

/// Removes elements by their names; answers how many there were. Those that stand beside each other go by one statement.
pub(super) fn remove(db: &Connection, with: &Removal, id: i64, names: &[Vec<u8>]) -> Result<i64, Fault> {
    let (order, mut runs) = (in_order(names), Vec::<(usize, usize)>::new());
    let done = walk(db, with.from, id, names, &order, |nth, adjacent, _| {
        match runs.last_mut() {
            Some(run) if adjacent => run.1 = nth,
            _ => runs.push((nth, nth)),
        }
        Ok(())
    })?;
    let mut gone = 0;
    for (first, last) in &runs {
        let (first, last) = (&names[*first], &names[*last]);
        gone += if first == last {
            db.prepare_cached(with.one)?.execute(params![id, first])?
        } else {
            db.prepare_cached(with.between)?.execute(params![id, first, last])?
        };
    }
    if done < order.len() {
        let mut one = db.prepare_cached(with.one)?;
        for nth in &order[done..] {
            gone += one.execute(params![id, names[*nth]])?;
        }
    }
    Ok(gone as i64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const KEY: i64 = 7;

    fn database() -> Connection {
        let db = Connection::open_in_memory().expect("SQLite opens");
        db.execute_batch(sql::SCHEMA).expect("the schema is valid");
        // Neighbours of other keys must stay out of it.
        for other in [KEY - 1, KEY + 1] {
            let fields: Vec<Vec<u8>> = (0..40u8).flat_map(|n| [vec![n], b"another's".to_vec()]).collect();
            assert_eq!(put_fields(&db, other, &fields).expect("they are put"), 40);
        }
        db
    }

    fn pairs(numbers: &[u8], value: u8) -> Vec<Vec<u8>> {
        numbers.iter().flat_map(|n| [vec![*n], vec![value, *n]]).collect()
    }

    fn names(numbers: &[u8]) -> Vec<Vec<u8>> {
        numbers.iter().map(|n| vec![*n]).collect()
    }

    /// Random calls, each beside the same on a map: runs, gaps, names that come twice or aren't there.
    #[test]
    fn many_at_once_are_as_good_as_one_by_one() {
        let db = database();
        let mut model = BTreeMap::<Vec<u8>, Vec<u8>>::new();
        let mut dice = fastrand::Rng::with_seed(5);
        for turn in 0..3000u32 {
            let length = dice.usize(1..if turn % 7 == 0 { 150 } else { 12 });
            let begin = dice.u8(0..200);
            let numbers: Vec<u8> = match dice.u8(0..3) {
                // Neighbours in order, some left out, and all over the place.
                0 => (0..length).map(|n| begin.wrapping_add(n as u8)).collect(),
                1 => (0..length).map(|n| begin.wrapping_add(n as u8)).filter(|_| dice.u8(0..4) > 0).collect(),
                _ => (0..length).map(|_| dice.u8(0..255)).collect(),
            };
            match dice.u8(0..3) {
                0 => {
                    let pairs = pairs(&numbers, turn as u8);
                    let before = model.len();
                    model.extend(pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())));
                    let added = put_fields(&db, KEY, &pairs).expect("they are put");
                    assert_eq!(added, (model.len() - before) as i64, "{numbers:?}");
                }
                1 => {
                    let names = names(&numbers);
                    let before = model.len();
                    names.iter().for_each(|name| drop(model.remove(name)));
                    let gone = remove(&db, &OF_HASH, KEY, &names).expect("they are removed");
                    assert_eq!(gone, (before - model.len()) as i64, "{numbers:?}");
                }
                _ => {
                    let names = names(&numbers);
                    let expected: Vec<_> = names.iter().map(|name| model.get(name).cloned()).collect();
                    assert_eq!(values(&db, KEY, &names).expect("they are read"), expected, "{numbers:?}");
                }
            }
        }
        let mut all = db.prepare(sql::HASH_ALL).expect("the statement is valid");
        for (key, expected) in [(KEY, model.len()), (KEY - 1, 40), (KEY + 1, 40)] {
            let rows = all.query_map([key], |row| row.get::<_, Vec<u8>>(0)).expect("rows").count();
            assert_eq!(rows, expected, "of key {key}");
        }
    }
}
