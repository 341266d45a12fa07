//! The addresses that a sandbox has reached.

use std::collections::BTreeSet;

use warren_core::NetworkEntry;
use warren_core::network::Destination;

/// No policy has more rules, so more would be of no use.
pub(crate) const MOST: u32 = 512;

/// The addresses that one sandbox has reached since the engine started.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    pub(crate) destinations: BTreeSet<Destination>,
    /// Not all of them are in the catalog.
    pub(crate) unwritten: bool,
    /// The sandbox is about to go for good: nothing more is written of it.
    pub(crate) given_up: bool,
}

impl Reached {
    pub(crate) fn note(&mut self, entry: &NetworkEntry) {
        let Some(destination) = Destination::of(entry) else { return };
        if self.destinations.len() < MOST as usize && self.destinations.insert(destination) {
            self.unwritten = !self.given_up;
        }
    }
}
