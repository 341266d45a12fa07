//! The network of this machine's sandboxes.

use std::sync::Arc;

use warren_core::catalog::SecretCatalog;
use warren_core::{Check, Networks, NoNetworks, error_chain};
use warren_network::{DomainKind, HostNetwork, NetworkOptions};

use super::Purpose;
use crate::config::Config;

/// Opens it as the settings say. Where that cannot be, the answer says why: sandboxes without a
/// network need none of it.
pub(super) fn open(
    config: &Config,
    purpose: Purpose,
    secrets: Option<Arc<dyn SecretCatalog>>,
) -> Arc<dyn Networks> {
    if !config.network.enabled {
        return Arc::new(NoNetworks::because("it is switched off (network.enabled)"));
    }
    match HostNetwork::open(options(config, purpose, secrets)) {
        Ok(host) => Arc::new(host),
        Err(error) => Arc::new(NoNetworks { reason: error_chain(&error), checks: examine() }),
    }
}

/// Says what networks need of the machine, each with what was found.
pub fn examine() -> Vec<Check> {
    HostNetwork::examine()
}

fn options(config: &Config, purpose: Purpose, secrets: Option<Arc<dyn SecretCatalog>>) -> NetworkOptions {
    let network = &config.network;
    let (kind, prepared) = match purpose {
        Purpose::Server => (DomainKind::Serve, usize::try_from(network.prepared).unwrap_or(0)),
        Purpose::Command => (DomainKind::Run, 0),
    };
    NetworkOptions {
        data_dir: config.server.data_dir.clone(),
        kind,
        subnet: network.subnet.0,
        dns: network.dns.iter().map(|server| server.0).collect(),
        exceptions: network.exceptions.clone(),
        ask_patience: network.ask_patience,
        prepared,
        extra_ca: network.extra_ca.0.clone(),
        secrets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_switched_off_touches_nothing() {
        let mut config = Config::default();
        config.network.enabled = false;
        config.server.data_dir = "/nonexistent/warren".into();
        let networks = open(&config, Purpose::Command, None);
        assert_eq!(networks.unavailable().as_deref(), Some("it is switched off (network.enabled)"));
        assert!(!config.server.data_dir.exists());
    }
}
