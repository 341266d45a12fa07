//! Which secrets are for which hosts, also those that are gone: a policy that still names one means
//! the hosts that it was for.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use warren_core::network::{NetworkRule, SecretName, SecretRecord};
use warren_core::{HostName, Owner};

use super::EdgeError;

/// Secrets that are remembered. An owner has 256 at most.
const MOST: usize = 16 << 10;

/// The hosts that each secret was last known to be for.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    hosts: Mutex<HashMap<(Owner, SecretName), Vec<NetworkRule>>>,
}

impl Bindings {
    /// Of the secrets that are named, those that are for this host and port, or were before they
    /// were removed. One that was never seen may be for any host.
    pub(super) fn of(
        &self,
        owner: &Owner,
        records: &[SecretRecord],
        named: &BTreeSet<SecretName>,
        place: (&HostName, u16),
    ) -> Result<Vec<SecretName>, EdgeError> {
        let mut known = self.hosts.lock();
        if known.len() > MOST {
            known.clear();
        }
        for record in records.iter().filter(|record| named.contains(&record.name)) {
            known.insert((owner.clone(), record.name.clone()), record.hosts.clone());
        }
        let (host, port) = place;
        let is_for = |rule: &NetworkRule| rule.names(host) && rule.has_port(port);
        let mut bound = Vec::new();
        for name in named {
            let hosts = known.get(&(owner.clone(), name.clone()));
            if hosts.ok_or_else(|| EdgeError::Gone(name.clone()))?.iter().any(is_for) {
                bound.push(name.clone());
            }
        }
        Ok(bound)
    }
}
