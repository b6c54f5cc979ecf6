//! Which node of a cluster has which slot, and which slot a key lies in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::Value;

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// What a node said of a slot counts for so long against what most of the others say: news take a moment to get around.
const YOUNG: Duration = Duration::from_secs(2);

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Node {
    /// Reads `host:port` as a redirection has it; without a host it is that of the node that said so.
    pub(super) fn read(text: &str, said_by: &Node) -> Option<Node> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { said_by.host.as_str() } else { host };
        Some(Node { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// The slots of a cluster and their nodes, as one of its nodes knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Slots {
    /// First and last slot, and the node that takes their writes; in the order of the slots.
    ranges: Vec<(u16, u16, Node)>,
    /// What was heard of single slots since, and when.
    moved: HashMap<u16, (Node, Instant)>,
    replicas: Vec<Node>,
}

impl Slots {
    /// Reads what CLUSTER SLOTS answers.
    pub(super) fn read(answer: &Value, said_by: &Node) -> Option<Slots> {
        let Value::Array(rows) = answer else { return None };
        let mut slots = Slots::default();
        for row in rows {
            let Value::Array(row) = row else { return None };
            let [first, last, primary, replicas @ ..] = row.as_slice() else { return None };
            slots.ranges.push((slot(first)?, slot(last)?, node(primary, said_by)?));
            slots.replicas.extend(replicas.iter().filter_map(|replica| node(replica, said_by)));
        }
        slots.ranges.sort();
        slots.replicas.sort();
        slots.replicas.dedup();
        Some(slots)
    }

    /// The node that has a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Node> {
        self.moved.get(&slot).map(|(node, _)| node).or_else(|| {
            let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
            let (_, last, node) = self.ranges.get(after.checked_sub(1)?)?;
            (slot <= *last).then_some(node)
        })
    }

    /// A slot was said to be at another node. Whether that is news.
    pub(super) fn note(&mut self, slot: u16, node: &Node) -> bool {
        if self.owner(slot) == Some(node) {
            return false;
        }
        self.moved.insert(slot, (node.clone(), Instant::now()));
        true
    }

    /// Whether these are the same slots at the same nodes, whatever is known of replicas.
    pub(super) fn agrees(&self, other: &Slots) -> bool {
        self.ranges == other.ranges
    }

    /// Takes over what was heard just now, unless it is known here.
    pub(super) fn keep_young(&mut self, before: &Slots) {
        for (slot, (node, at)) in &before.moved {
            if at.elapsed() < YOUNG && self.owner(*slot) != Some(node) {
                self.moved.insert(*slot, (node.clone(), *at));
            }
        }
    }

    /// The nodes that take writes, each once.
    pub(super) fn primaries(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self
            .ranges
            .iter()
            .map(|(.., node)| node)
            .chain(self.moved.values().map(|(node, _)| node))
            .cloned()
            .collect();
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// All nodes, each once, those that take writes first.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let mut nodes = self.primaries();
        let replicas: Vec<Node> = self.replicas.iter().filter(|replica| !nodes.contains(replica)).cloned().collect();
        nodes.extend(replicas);
        nodes
    }
}

fn slot(value: &Value) -> Option<u16> {
    match value {
        Value::Int(slot) => u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    }
}

/// A node as CLUSTER SLOTS has it: its preferred host, its port, and what else there is to it.
fn node(value: &Value, said_by: &Node) -> Option<Node> {
    let Value::Array(fields) = value else { return None };
    let host = match fields.first()? {
        // It doesn't know its own: it is where it was asked.
        Value::Nil => said_by.host.clone(),
        // So says one that is to be known by a name and was given none.
        Value::BulkString(host) if host.is_empty() || host == b"?" => said_by.host.clone(),
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        _ => return None,
    };
    match fields.get(1)? {
        Value::Int(port) => Some(Node { host, port: u16::try_from(*port).ok()? }),
        _ => None,
    }
}

/// The slot of keys that lie in one: of what stands between the first braces of a key, if something does, or of all of it.
pub(super) fn of_keys(keys: &[Vec<u8>]) -> Option<u16> {
    let mut slots = keys.iter().map(|key| of_key(key));
    let first = slots.next()?;
    slots.all(|slot| slot == first).then_some(first)
}

fn of_key(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|at| {
        let rest = &key[at + 1..];
        rest.iter().position(|byte| *byte == b'}').filter(|end| *end > 0).map(|end| &rest[..end])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Node {
        Node { host: "h".to_owned(), port }
    }

    /// First and last slot, and the nodes.
    type Row<'a> = (i64, i64, &'a [(&'a str, i64)]);

    fn answered(rows: &[Row<'_>]) -> Value {
        let node = |(host, port): &(&str, i64)| {
            Value::Array(vec![
                Value::BulkString(host.as_bytes().to_vec()),
                Value::Int(*port),
                Value::BulkString(b"id".to_vec()),
                Value::Array(Vec::new()),
            ])
        };
        let row = |(first, last, nodes): &Row<'_>| {
            let mut row = vec![Value::Int(*first), Value::Int(*last)];
            row.extend(nodes.iter().map(node));
            Value::Array(row)
        };
        Value::Array(rows.iter().map(row).collect())
    }

    #[test]
    fn a_slot_is_found_in_its_range() {
        let answer = answered(&[(8192, 16383, &[("h", 2), ("h", 4)]), (0, 100, &[("", 1)]), (102, 8191, &[("h", 1)])]);
        let mut slots = Slots::read(&answer, &at(9)).expect("it is one");
        for (slot, port) in [(0, 1), (100, 1), (102, 1), (8191, 1), (8192, 2), (16383, 2)] {
            assert_eq!(slots.owner(slot), Some(&at(port)), "{slot}");
        }
        assert_eq!(slots.owner(101), None, "no node has it");
        assert_eq!(slots.primaries(), [at(1), at(2)]);
        assert_eq!(slots.nodes(), [at(1), at(2), at(4)]);
        assert!(!slots.note(5, &at(1)));
        assert!(slots.note(5, &at(3)) && slots.note(101, &at(3)));
        assert_eq!((slots.owner(5), slots.owner(6), slots.owner(101)), (Some(&at(3)), Some(&at(1)), Some(&at(3))));
        assert_eq!(slots.primaries(), [at(1), at(2), at(3)]);
    }

    #[test]
    fn what_was_heard_just_now_outlives_what_others_don_t_know_yet() {
        let said = |port| Slots::read(&answered(&[(0, 16383, &[("?", port)])]), &at(9)).expect("it is one");
        let (mut before, mut found) = (said(1), said(1));
        assert!(before.note(5, &at(2)) && found.agrees(&before));
        found.keep_young(&before);
        assert_eq!((found.owner(5), found.owner(6)), (Some(&at(2)), Some(&at(1))));
        let mut known = said(2);
        known.keep_young(&before);
        assert_eq!(known, said(2), "it is known by now");
        before.moved.values_mut().for_each(|(_, at)| *at -= YOUNG);
        let mut found = said(1);
        found.keep_young(&before);
        assert_eq!(found, said(1), "by now the others would know");
    }

    #[test]
    fn an_answer_of_another_form_is_none() {
        assert_eq!(Slots::read(&Value::Nil, &at(1)), None);
        assert_eq!(Slots::read(&answered(&[(0, 16384, &[("h", 1)])]), &at(1)), None);
        assert_eq!(Slots::read(&answered(&[(0, 1, &[])]), &at(1)), None);
        assert_eq!(Slots::read(&answered(&[(0, 1, &[("h", 70_000)])]), &at(1)), None);
    }

    #[test]
    fn redirections_name_a_node() {
        let read = |text: &str| Node::read(text, &at(9)).map(|node| (node.host, node.port));
        assert_eq!(read("10.0.0.7:6381"), Some(("10.0.0.7".to_owned(), 6381)));
        assert_eq!(read(":6381"), Some(("h".to_owned(), 6381)));
        assert_eq!(read("[::1]:6381"), Some(("::1".to_owned(), 6381)));
        assert_eq!(read("::1:6381"), Some(("::1".to_owned(), 6381)), "as Redis writes it");
        assert_eq!((read("h"), read("h:x")), (None, None));
    }

    #[test]
    fn keys_lie_where_redis_says_they_do() {
        // Asked of a server, CLUSTER KEYSLOT.
        for (key, slot) in
            [("foo", 12182), ("{user1000}.following", 3443), ("foo{}{bar}", 8363), ("foo{{bar}}zap", 4015)]
        {
            assert_eq!(of_key(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(of_key(b"a{user1000}"), of_key(b"{user1000}b"));
        let keys = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(of_keys(&keys(&["{q/0}:a", "b:{q/0}:c"])), Some(of_key(b"q/0")));
        assert_eq!((of_keys(&keys(&["a", "b"])), of_keys(&[])), (None, None));
    }
}
