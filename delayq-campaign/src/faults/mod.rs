//! The faults: each a value with its number, its name, what it wants to find, and what fires it.

mod clock;
mod data;
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

/// Whether a fault can be fired.
#[derive(Clone, Copy)]
pub(crate) enum State {
    /// What fires it once; it is fired again as long as there is time.
    Built(for<'w> fn(&'w mut World) -> Firing<'w>),
    /// Not yet, and why.
    Open(&'static str),
}

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
    pub(crate) state: State,
}

impl Fault {
    pub(crate) fn setup(&self, engine: EngineKind) -> Setup {
        let mut setup = Setup::usual(engine);
        (self.adapt)(&mut setup);
        setup
    }

    pub(crate) fn is_built(&self) -> bool {
        matches!(self.state, State::Built(_))
    }
}

const BOTH: &[EngineKind] = &[EngineKind::Redis, EngineKind::Embedded];
const REDIS: &[EngineKind] = &[EngineKind::Redis];

/// A fault that can be fired.
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
            state: crate::faults::State::Built(|world| Box::pin($fire(world))),
        }
    }};
}
use built;

/// A fault that can't be fired yet.
fn open(number: u8, name: &'static str, group: Group, about: &'static str, why: &'static str) -> Fault {
    Fault { number, name, about, group, engines: REDIS, adapt: |_| {}, state: State::Open(why) }
}

/// All of them, by number.
pub(crate) fn all() -> Vec<Fault> {
    let mut all = worker::faults();
    all.extend(handler::faults());
    all.extend(redis::faults());
    all.extend(pressure::faults());
    all.extend(replication::faults());
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
        let built = |number: &u8| all().iter().any(|fault| fault.number == *number && fault.is_built());
        assert!(SMOKE.iter().all(built));
        let known = |name: &str| all().iter().any(|fault| fault.name == name && fault.is_built());
        assert!(crate::world::MUTANTS.iter().all(|mutant| known(mutant.under)));
    }
}
