//! How one node sees its cluster: CLUSTER NODES taken apart, and several of these compared.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;

use super::SLOTS;

/// The members of a cluster as one of them sees them.
#[derive(Debug)]
pub(super) struct View {
    own: Member,
    others: Vec<Member>,
}

/// A member in the eyes of another, or in its own.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: String,
    /// Which of two that claim a slot claims it later.
    pub(super) epoch: u64,
    /// Whom it replicates, if it does.
    pub(super) primary: Option<String>,
    port: u16,
    flags: Vec<String>,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    pub(super) fn read(text: &str) -> io::Result<View> {
        let garbled = |line: &str| io::Error::other(format!("not a line of CLUSTER NODES: {line:?}"));
        let members = text.lines().map(|line| Member::read(line).ok_or_else(|| garbled(line)));
        let members = members.collect::<io::Result<Vec<_>>>()?;
        let (mut own, others): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.is("myself"));
        let own = own.pop().ok_or_else(|| io::Error::other("the node doesn't see itself: is it one of a cluster?"))?;
        Ok(View { own, others })
    }

    /// What the node says about itself.
    pub(super) fn own(&self) -> &Member {
        &self.own
    }

    /// The member at a port.
    pub(super) fn at(&self, port: u16) -> Option<&Member> {
        self.members().find(|member| member.port == port)
    }

    /// Whether the member at a port was met already.
    pub(super) fn knows(&self, port: u16) -> bool {
        self.at(port).is_some_and(|member| !member.is("handshake"))
    }

    /// The port of a member.
    pub(super) fn port_of(&self, id: &str) -> Option<u16> {
        self.members().find(|member| member.id == id).map(|member| member.port)
    }

    /// Whether the node knows this member as a replica of its own.
    pub(super) fn replicates_own(&self, id: &str) -> bool {
        self.others.iter().any(|member| member.id == id && member.primary.as_ref() == Some(&self.own.id))
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.own).chain(&self.others)
    }

    /// Who serves which slots, in the order of the slots.
    fn owners(&self) -> Vec<(u16, u16, &str)> {
        let ranges = self.members().flat_map(|m| m.slots.iter().map(|s| (*s.start(), *s.end(), m.id.as_str())));
        let mut owners: Vec<_> = ranges.collect();
        owners.sort_unstable();
        owners
    }
}

impl Member {
    /// `id ip:port@bus[,hostname] flags primary ping pong epoch link slots`: slots are `5`, `5-9` or, while one is moved,
    /// `[5->-id]`.
    fn read(line: &str) -> Option<Member> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (&[id, address, flags, primary, _ping, _pong, epoch, _link], slots) = fields.split_first_chunk::<8>()?;
        let (_, port) = address.split('@').next()?.rsplit_once(':')?;
        let slots = slots.iter().filter(|slots| !slots.starts_with('[')).map(|slots| {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        Some(Member {
            id: id.to_owned(),
            epoch: epoch.parse().ok()?,
            primary: (primary != "-").then(|| primary.to_owned()),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_owned).collect(),
            slots: slots.collect::<Option<_>>()?,
        })
    }

    pub(super) fn is_primary(&self) -> bool {
        self.is("master")
    }

    pub(super) fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|is| is == flag)
    }
}

/// What the living nodes of a cluster disagree on, or miss: none if every slot is served by one that lives, and all know by which.
pub(super) fn disagreement(views: &[View]) -> Option<String> {
    let Some(first) = views.first() else { return Some("no node lives: start one again".to_owned()) };
    let owners = first.owners();
    let served: usize = owners.iter().map(|(from, to, _)| usize::from(to - from) + 1).sum();
    if served != usize::from(SLOTS) {
        return Some(format!("{served} of {SLOTS} slots are served"));
    }
    if let Some(other) = views.iter().find(|view| view.owners() != owners) {
        return Some(format!("the nodes at ports {} and {} name other owners", first.own.port, other.own.port));
    }
    let living: BTreeSet<&str> = views.iter().map(|view| view.own.id.as_str()).collect();
    let dead = owners.iter().find(|(_, _, id)| !living.contains(id));
    dead.map(|(from, to, _)| format!("the node that served the slots {from} to {to} is dead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What node `own` says of a cluster of two.
    fn view(own: usize, slots: [&str; 2]) -> io::Result<View> {
        let line = |at: usize| {
            let myself = if at == own { "myself," } else { "" };
            format!("id{at} 127.0.0.1:1000{at}@2000{at} {myself}master - 0 0 {at} connected {}\n", slots[at])
        };
        View::read(&format!("{}{}", line(0), line(1)))
    }

    #[test]
    fn lines_are_taken_apart() -> io::Result<()> {
        let text = "a 127.0.0.1:10001@20001,host myself,slave b 0 1 7 connected\n\
                    b 127.0.0.1:10002@20002 master - 0 1 3 connected 0-4 9 [5->-a]\n\
                    c 127.0.0.1:10003@20003 handshake - 0 1 0 disconnected\n";
        let view = View::read(text)?;
        assert_eq!((view.own.epoch, view.own.primary.as_deref(), view.own.is_primary()), (7, Some("b"), false));
        let primary = view.at(10002).ok_or_else(|| io::Error::other("no b"))?;
        assert!(primary.is_primary() && primary.primary.is_none());
        let served: Vec<u16> = (0..20).filter(|slot| primary.serves(*slot)).collect();
        assert_eq!(served, [0, 1, 2, 3, 4, 9]);
        assert!(view.knows(10001) && view.knows(10002) && !view.knows(10003) && !view.knows(10004));
        for wrong in ["a 127.0.0.1:10001@20001 master - 0 1 7 connected\n", "a b c\n", ""] {
            assert!(View::read(wrong).is_err(), "{wrong:?}");
        }
        Ok(())
    }

    #[test]
    fn all_is_well_if_living_owners_of_all_slots_are_agreed_on() -> io::Result<()> {
        let both = ["0-99 200", "100-199 201-16383"];
        assert_eq!(disagreement(&[view(0, both)?, view(1, both)?]), None);
        for (views, wrong) in [
            (vec![], "no node lives"),
            (vec![view(0, ["0-99", "100"])?], "101 of 16384"),
            (vec![view(0, both)?, view(1, ["0-99", "100-16383"])?], "10000 and 10001 name other owners"),
            (vec![view(0, both)?], "slots 100 to 199 is dead"),
        ] {
            let text = disagreement(&views);
            assert!(text.as_ref().is_some_and(|text| text.contains(wrong)), "{text:?}");
        }
        Ok(())
    }
}
