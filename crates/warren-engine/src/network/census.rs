//! How many links there are, and how much waits.

use std::collections::BTreeMap;

use warren_core::NetworkMode;

use crate::Engine;

/// Links at this moment, all owners together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkCensus {
    pub links: BTreeMap<NetworkMode, u64>,
    /// Requests that wait for somebody's answer.
    pub pending: u64,
}

impl Engine {
    pub fn network_census(&self) -> NetworkCensus {
        let mut census = NetworkCensus::default();
        for cell in self.shared.registry.all() {
            let record = cell.record();
            if !record.addresses.is_empty() {
                *census.links.entry(record.spec.network.mode).or_default() += 1;
            }
        }
        self.shared.sightings.each(|_, known| census.pending += known.asks.len() as u64);
        census
    }
}
