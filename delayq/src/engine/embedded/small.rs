//! The elements of a key that has few: in memory, and packed as they stand in the key's row.

use std::collections::{BTreeMap, BTreeSet};

use super::keyspace::Kind;

/// What the elements of a key may weigh to be kept in its row: the row is written whole whenever one of them changes.
pub(super) const WEIGHT_MAX: usize = 8 << 10;
/// How many members a sorted set may have there: each look-up passes all of them.
pub(super) const SORTED_MAX: usize = 128;

/// The bytes that say how long an element is. Longer ones than these can say are over `WEIGHT_MAX`.
const LENGTH: usize = 2;
const SCORE: usize = 8;
const _: () = assert!(WEIGHT_MAX < 1 << (8 * LENGTH));

/// What a field and its value add to a key's weight.
pub(super) fn field_weight(field: &[u8], value: &[u8]) -> usize {
    2 * LENGTH + field.len() + value.len()
}

/// What a member of a set adds.
pub(super) fn member_weight(member: &[u8]) -> usize {
    LENGTH + member.len()
}

/// What a member of a sorted set adds.
pub(super) fn scored_weight(member: &[u8]) -> usize {
    SCORE + LENGTH + member.len()
}

/// Few elements.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Small {
    pub(super) elements: Elements,
    weight: usize,
}

/// In the order in which the tables have them too.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Elements {
    /// Fields and values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    /// By score, then by member.
    Sorted(Vec<(f64, Vec<u8>)>),
}

impl Small {
    pub(super) fn new(kind: Kind) -> Small {
        let elements = match kind {
            Kind::Nothing | Kind::Hash | Kind::Text => Elements::Hash(BTreeMap::new()),
            Kind::Set => Elements::Set(BTreeSet::new()),
            Kind::Sorted => Elements::Sorted(Vec::new()),
        };
        Small { elements, weight: 0 }
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// A field's value.
    pub(super) fn value(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.elements {
            Elements::Hash(fields) => fields.get(field).map(Vec::as_slice),
            _ => None,
        }
    }

    /// Puts a field; answers whether it is new.
    pub(super) fn put(&mut self, field: &[u8], value: &[u8]) -> bool {
        let Elements::Hash(fields) = &mut self.elements else { return false };
        if let Some(old) = fields.get_mut(field) {
            self.weight = self.weight - old.len() + value.len();
            old.clear();
            old.extend_from_slice(value);
            return false;
        }
        self.weight += field_weight(field, value);
        fields.insert(field.to_vec(), value.to_vec());
        true
    }

    pub(super) fn has_member(&self, member: &[u8]) -> bool {
        matches!(&self.elements, Elements::Set(members) if members.contains(member))
    }

    /// Puts a member into a set; answers whether it is new.
    pub(super) fn add(&mut self, member: &[u8]) -> bool {
        let Elements::Set(members) = &mut self.elements else { return false };
        let is_new = !members.contains(member) && members.insert(member.to_vec());
        if is_new {
            self.weight += member_weight(member);
        }
        is_new
    }

    /// The members of a sorted set with their scores, in order.
    pub(super) fn scored(&self) -> &[(f64, Vec<u8>)] {
        match &self.elements {
            Elements::Sorted(members) => members,
            _ => &[],
        }
    }

    /// Where a member of a sorted set stands.
    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.scored().iter().position(|(_, known)| known == member)
    }

    /// Puts a member in at a score that it doesn't have. What it had before must be gone.
    pub(super) fn rate(&mut self, score: f64, member: Vec<u8>) {
        let Elements::Sorted(members) = &mut self.elements else { return };
        self.weight += scored_weight(&member);
        let at = members.partition_point(|(other, known)| (*other, known.as_slice()) < (score, member.as_slice()));
        members.insert(at, (score, member));
    }

    /// Removes the members of a sorted set that stand there.
    pub(super) fn drop_ranks(&mut self, ranks: std::ops::Range<usize>) {
        let Elements::Sorted(members) = &mut self.elements else { return };
        for (_, member) in members.drain(ranks) {
            self.weight -= scored_weight(&member);
        }
    }

    /// Removes an element by its name; answers whether there was one.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let gone = match &mut self.elements {
            Elements::Hash(fields) => fields.remove(name).map(|value| field_weight(name, &value)),
            Elements::Set(members) => members.remove(name).then(|| member_weight(name)),
            Elements::Sorted(members) => members.iter().position(|(_, known)| known == name).map(|at| {
                members.remove(at);
                scored_weight(name)
            }),
        };
        self.weight -= gone.unwrap_or(0);
        gone.is_some()
    }

    /// As it stands in the key's row: the parts one after the other, a length before each text.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.weight);
        let text = |packed: &mut Vec<u8>, text: &[u8]| {
            packed.extend_from_slice(&(text.len() as u16).to_be_bytes());
            packed.extend_from_slice(text);
        };
        match &self.elements {
            Elements::Hash(fields) => {
                for (field, value) in fields {
                    text(&mut packed, field);
                    text(&mut packed, value);
                }
            }
            Elements::Set(members) => members.iter().for_each(|member| text(&mut packed, member)),
            Elements::Sorted(members) => {
                for (score, member) in members {
                    packed.extend_from_slice(&score.to_be_bytes());
                    text(&mut packed, member);
                }
            }
        }
        packed
    }

    /// Reads what `pack` wrote of so many elements; `None` where that isn't it.
    pub(super) fn unpack(kind: Kind, count: i64, packed: &[u8]) -> Option<Small> {
        let mut rest = packed;
        let elements = match kind {
            Kind::Nothing => return None,
            Kind::Hash | Kind::Text => {
                let field = |_| Some((text(&mut rest)?.to_vec(), text(&mut rest)?.to_vec()));
                let fields = (0..count).map(field).collect::<Option<Vec<_>>>()?;
                fields.is_sorted_by(|a, b| a.0 < b.0).then(|| Elements::Hash(fields.into_iter().collect()))?
            }
            Kind::Set => {
                let member = |_| Some(text(&mut rest)?.to_vec());
                let members = (0..count).map(member).collect::<Option<Vec<_>>>()?;
                members.is_sorted_by(|a, b| a < b).then(|| Elements::Set(members.into_iter().collect()))?
            }
            Kind::Sorted => {
                let member = |_| {
                    let (score, after) = rest.split_first_chunk::<SCORE>()?;
                    rest = after;
                    let score = f64::from_be_bytes(*score);
                    (!score.is_nan()).then_some((score, text(&mut rest)?.to_vec()))
                };
                let members = (0..count).map(member).collect::<Option<Vec<_>>>()?;
                members.is_sorted_by(|a, b| a < b).then_some(Elements::Sorted(members))?
            }
        };
        rest.is_empty().then_some(Small { elements, weight: packed.len() })
    }
}

fn text<'p>(packed: &mut &'p [u8]) -> Option<&'p [u8]> {
    let (length, rest) = packed.split_first_chunk::<LENGTH>()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *packed = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> [(Kind, Small, i64); 3] {
        let mut hash = Small::new(Kind::Hash);
        assert!(hash.put(b"field", b"value") && hash.put(b"", b"") && !hash.put(b"field", b"other"));
        let mut set = Small::new(Kind::Set);
        assert!(set.add(&[0, 255]) && set.add(b"") && !set.add(b""));
        let mut sorted = Small::new(Kind::Sorted);
        for (score, member) in [(2.5, "b"), (2.5, "a"), (f64::NEG_INFINITY, "c")] {
            sorted.rate(score, member.as_bytes().to_vec());
        }
        [(Kind::Hash, hash, 2), (Kind::Set, set, 2), (Kind::Sorted, sorted, 3)]
    }

    #[test]
    fn what_was_packed_comes_out_again() {
        for (kind, small, count) in samples() {
            let packed = small.pack();
            assert_eq!(packed.len(), small.weight(), "its weight is what it takes");
            assert_eq!(Small::unpack(kind, count, &packed), Some(small));
        }
    }

    #[test]
    fn what_was_not_packed_is_told() {
        for (kind, small, count) in samples() {
            let packed = small.pack();
            for length in 0..packed.len() {
                assert_eq!(Small::unpack(kind, count, &packed[..length]), None);
            }
            for other in [count - 1, count + 1] {
                assert_eq!(Small::unpack(kind, other, &packed), None);
            }
            let twice = [packed.as_slice(), &packed].concat();
            assert_eq!(Small::unpack(kind, 2 * count, &twice), None, "no element comes twice");
        }
    }

    #[test]
    fn sorted_members_stand_by_score_then_name() {
        let [.., (_, mut sorted, _)] = samples();
        assert_eq!([b"c", b"a", b"b"].map(|member| sorted.rank(member)), [Some(0), Some(1), Some(2)]);
        assert!(sorted.remove(b"a") && !sorted.remove(b"a"));
        sorted.drop_ranks(0..1);
        assert_eq!(sorted.scored(), [(2.5, b"b".to_vec())]);
        assert_eq!(sorted.weight(), sorted.pack().len());
    }
}
