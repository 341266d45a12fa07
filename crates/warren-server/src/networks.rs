//! What links this machine's sandboxes to the world.

use std::sync::Arc;

use warren_core::catalog::SecretCatalog;
use warren_core::{Networks, NoNetworks};
use warren_network::{DomainKind, HostNetwork, NetworkOptions};

use crate::config::Config;
use crate::error::chain;

/// Whose links they are.
pub enum LinksOf {
    /// The server's: they are taken over by the next one.
    Server(Arc<dyn SecretCatalog>),
    /// A command's: they end with it.
    Command,
}

/// Opens it as the settings say. Where that cannot be, whoever is returned says why: sandboxes without a network need nobody.
pub fn open_networks(config: &Config, of: LinksOf) -> Arc<dyn Networks> {
    if !config.network.enabled {
        return Arc::new(NoNetworks::because("it is switched off (network.enabled)"));
    }
    match HostNetwork::open(options(config, of)) {
        Ok(host) => Arc::new(host),
        Err(error) => Arc::new(NoNetworks { reason: chain(&error), checks: HostNetwork::examine() }),
    }
}

fn options(config: &Config, of: LinksOf) -> NetworkOptions {
    let network = &config.network;
    let prepared = usize::try_from(network.prepared).unwrap_or(0);
    let (kind, prepared, secrets) = match of {
        LinksOf::Server(secrets) => (DomainKind::Serve, prepared, Some(secrets)),
        // One sandbox, at once: what is made ahead of time would only be thrown away.
        LinksOf::Command => (DomainKind::Run, 0, None),
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

impl std::fmt::Debug for LinksOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Command => "Command",
        })
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
        let networks = open_networks(&config, LinksOf::Command);
        assert_eq!(networks.unavailable().as_deref(), Some("it is switched off (network.enabled)"));
        assert!(!config.server.data_dir.exists());
    }
}
