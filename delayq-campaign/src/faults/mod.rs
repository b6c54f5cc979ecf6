//! The faults: each a value with its number, its name, what it wants to find, and what fires it.

mod clock;
mod data;
mod failover;
mod handler;
mod network;
mod pressure;
mod redis;
mod replication;
mod worker;

use std::future::Future;
use std::pin::Pin;

use delayq::BoxError;
use serde::Serialize;

use crate::world::{EngineKind, Setup, World};

/// What a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    Worker,
    Redis,
    Replication,
    Network,
    Clock,
    Data,
}

/// Whether a fault was seen to strike, and by what.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) fired: bool,
    pub(crate) by: String,
}

impl Seen {
    pub(crate) fn when(fired: bool, by: impl Into<String>) -> Seen {
        Seen { fired, by: by.into() }
    }
}

pub(crate) type Firing<'w> = Pin<Box<dyn Future<Output = Result<Seen, BoxError>> + 'w>>;

/// Fires a fault once; it is fired again as long as there is time.
pub(crate) type Fire = for<'w> fn(&'w mut World) -> Firing<'w>;

/// A fault.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) number: u8,
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) group: Group,
    /// Where it makes sense.
    pub(crate) engines: &'static [EngineKind],
    /// What differs from the usual world.
    pub(crate) adapt: fn(&mut Setup),
    pub(crate) fire: Fire,
}

impl Fault {
    pub(crate) fn setup(&self, engine: EngineKind) -> Setup {
        let mut setup = Setup::usual(engine);
        (self.adapt)(&mut setup);
        setup
    }
}

const BOTH: &[EngineKind] = &[EngineKind::Redis, EngineKind::Embedded];
const REDIS: &[EngineKind] = &[EngineKind::Redis];

/// A row of a group's table.
macro_rules! built {
    ($number:literal $name:literal $group:ident $engines:ident, $fire:path, $about:literal $(, $adapt:expr)?) => {{
        #[allow(unused_mut, unused_assignments)]
        let mut adapt: fn(&mut crate::world::Setup) = |_| {};
        $(adapt = $adapt;)?
        crate::faults::Fault {
            number: $number,
            name: $name,
            about: $about,
            group: crate::faults::Group::$group,
            engines: crate::faults::$engines,
            adapt,
            fire: |world| Box::pin($fire(world)),
        }
    }};
}
use built;

/// All of them, by number.
pub(crate) fn all() -> Vec<Fault> {
    let mut all = worker::faults();
    all.extend(handler::faults());
    all.extend(redis::faults());
    all.extend(pressure::faults());
    all.extend(replication::faults());
    all.extend(failover::faults());
    all.extend(network::faults());
    all.extend(clock::faults());
    all.extend(data::faults());
    all.sort_by_key(|fault| fault.number);
    all
}

/// The ten of the short run: of each group what finds the most in the least time.
pub(crate) const SMOKE: [u8; 10] = [1, 2, 5, 10, 19, 23, 30, 45, 49, 57];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixty_are_all_there_once() {
        let numbers: Vec<u8> = all().iter().map(|fault| fault.number).collect();
        assert_eq!(numbers, (1..=60).collect::<Vec<u8>>());
        let mut names: Vec<&str> = all().iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 60);
        assert!(SMOKE.iter().all(|number| numbers.contains(number)));
        assert!(crate::world::MUTANTS.iter().all(|mutant| names.contains(&mutant.under)));
    }
}
