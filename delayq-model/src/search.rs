//! Looks at every world of a scene, breadth first, so that what breaks a law is found by a shortest way.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use foldhash::{HashSet, HashSetExt};

use crate::Rules;
use crate::drain::drain;
use crate::laws::{View, broken};
use crate::world::{Event, Scene, World, play};

/// What a search saw.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Worlds, each counted once.
    pub worlds: usize,
    /// Shards among them at an instant, each drained once.
    pub shards: usize,
    /// Events that were tried.
    pub events: usize,
    /// The most events that led to a world.
    pub depth: usize,
    /// Whether it stopped at the limit that it was given.
    pub stopped: bool,
    /// The first law that was broken.
    pub found: Option<Counterexample>,
}

/// How a law is broken.
#[derive(Debug, Clone)]
pub struct Counterexample {
    /// The rule's letter.
    pub letter: char,
    /// What should have been so.
    pub law: &'static str,
    /// What happened, in order.
    pub path: Vec<Event>,
}

/// A world that was reached: how, and from which.
struct Node {
    from: u32,
    event: Option<Event>,
}

/// Looks at the worlds of a scene, at most so many.
pub fn search(scene: &Scene, rules: Rules, most: usize) -> Search {
    let mut search = Searching { scene, rules, seen: HashSet::new(), drained: HashSet::new(), nodes: Vec::new() };
    let (mut sum, mut depth) = (Search::default(), 0);
    let start = scene.start();
    let mut level = vec![(search.add(&start, 0, None).unwrap_or_default(), start)];
    while !level.is_empty() && sum.found.is_none() {
        sum.depth = depth;
        depth += 1;
        let mut next = Vec::new();
        for (node, world) in level {
            if search.nodes.len() >= most {
                sum.stopped = true;
                break;
            }
            if let Err(found) = search.follow(node, &world, &mut next, &mut sum.events) {
                sum.found = Some(found);
                break;
            }
        }
        level = if sum.stopped { Vec::new() } else { next };
    }
    (sum.worlds, sum.shards) = (search.nodes.len(), search.drained.len());
    sum
}

struct Searching<'s> {
    scene: &'s Scene,
    rules: Rules,
    /// Worlds by their hashes: two that share one would be taken for the same.
    seen: HashSet<u64>,
    drained: HashSet<u64>,
    nodes: Vec<Node>,
}

impl Searching<'_> {
    /// The number of a world that was not seen before.
    fn add(&mut self, world: &World, from: u32, event: Option<Event>) -> Option<u32> {
        if !self.seen.insert(hash_of(world)) {
            return None;
        }
        self.nodes.push(Node { from, event });
        Some(self.nodes.len() as u32 - 1)
    }

    fn follow(
        &mut self,
        node: u32,
        world: &World,
        next: &mut Vec<(u32, World)>,
        events: &mut usize,
    ) -> Result<(), Counterexample> {
        for (event, cost) in world.events(self.scene) {
            *events += 1;
            let (mut after, moment) = play(world, event, cost, self.scene, self.rules);
            let view = View { before: world, moment: moment.as_ref(), after: &after, rules: self.rules };
            if let Some(law) = broken(&view) {
                return Err(self.path(node, event, law.letter, law.says));
            }
            after.forget();
            if let Some(number) = self.add(&after, node, Some(event)) {
                self.drain(node, event, &after)?;
                next.push((number, after));
            }
        }
        Ok(())
    }

    fn drain(&mut self, node: u32, event: Event, world: &World) -> Result<(), Counterexample> {
        let (store, damaged) = (&world.store, world.seen.damaged);
        if !self.drained.insert(hash_of(&(store, world.at, damaged))) {
            return Ok(());
        }
        drain(store, world.now(self.scene), self.rules, damaged).map_err(|stuck| self.path(node, event, 'm', stuck.0))
    }

    /// The way to a world and one event further.
    fn path(&self, mut node: u32, last: Event, letter: char, law: &'static str) -> Counterexample {
        let mut path = vec![last];
        while let Some(event) = self.nodes[node as usize].event {
            path.push(event);
            node = self.nodes[node as usize].from;
        }
        path.reverse();
        Counterexample { letter, law, path }
    }
}

fn hash_of(what: &impl Hash) -> u64 {
    FixedState::default().hash_one(what)
}

impl std::fmt::Display for Counterexample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}) {}: ", self.letter, self.law)?;
        for (at, event) in self.path.iter().enumerate() {
            write!(f, "{}{event}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
