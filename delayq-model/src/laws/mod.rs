//! What must always be so: laws, each by the letter of the rule that it holds.

mod calls;
mod states;

use crate::Rules;
use crate::world::{Moment, World};

/// A world, the event that led to it, and the world before.
#[derive(Debug, Clone, Copy)]
pub struct View<'w> {
    /// Before the event.
    pub before: &'w World,
    /// The call that was executed, if one was.
    pub moment: Option<&'w Moment>,
    /// After it. Its counters are of this event alone.
    pub after: &'w World,
    /// The rules that the store keeps.
    pub rules: Rules,
}

/// Something that must always be so.
pub struct Law {
    /// The rule's letter.
    pub letter: char,
    /// What must be so.
    pub says: &'static str,
    holds: fn(&View<'_>) -> bool,
}

/// The laws.
pub const LAWS: &[&[Law]] = &[calls::LAWS, states::LAWS];

/// The first law that is broken.
pub fn broken(view: &View<'_>) -> Option<&'static Law> {
    LAWS.iter().flat_map(|laws| laws.iter()).find(|law| !(law.holds)(view))
}

const fn law(letter: char, says: &'static str, holds: fn(&View<'_>) -> bool) -> Law {
    Law { letter, says, holds }
}
