//! The network of a sandbox that no server looks after: made for one command, and gone with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warren_core::network::Protocol;
use warren_core::{
    CreateRequest, NetworkEntry, NetworkErrorKind, NetworkMode, NetworkObserver, NetworkPolicy,
    NetworkVerdict, Networks, Owner, SandboxId,
};
use warren_server::config::{Config, DefaultNetwork};

use crate::error::CliError;
use crate::local::Local;
use crate::network::destination;
use crate::ui;

/// The number of destinations that are remembered.
const MOST_REMEMBERED: usize = 1000;

/// The network reports in batches, this long after the fact at most.
const REPORTS: Duration = Duration::from_millis(300);

/// The network of one sandbox, or none.
#[derive(Debug)]
pub(crate) struct LocalNetwork {
    link: Option<Arc<dyn Networks>>,
    policy: NetworkPolicy,
    watcher: Arc<Watcher>,
    /// The reason why there is no network, unless that was asked for.
    pub(crate) missing: Option<String>,
}

/// A verbose network says on standard error what it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    Verbose,
    Quiet,
}

/// Hears of the sandbox's connections.
#[derive(Debug, Default)]
struct Watcher {
    verbose: bool,
    reached: Mutex<BTreeSet<String>>,
}

impl LocalNetwork {
    /// Opens the network that was asked for, or else the one of the settings if the machine can
    /// have it.
    pub(crate) fn open(
        local: &Local,
        choice: Option<NetworkPolicy>,
        verbosity: Verbosity,
    ) -> Result<Self, CliError> {
        if choice.as_ref().is_some_and(NetworkPolicy::is_none) {
            return Ok(Self::closed());
        }
        let config = local.assembly.config();
        let policy = match &choice {
            Some(policy) => policy.clone(),
            None => config.network.policy(true),
        };
        check(&policy, config)?;
        if policy.is_none() {
            return Ok(Self::closed());
        }
        let networks = local.assembly.networks();
        match networks.unavailable() {
            None => Ok(Self::over(networks, policy, verbosity)),
            // Nobody named a network, so a sandbox without one is as good.
            Some(reason) if choice.is_none() && config.network.default == DefaultNetwork::Auto => {
                if verbosity == Verbosity::Verbose {
                    ui::say(&format!("warren: the sandbox has no network: {reason}"));
                }
                Ok(Self { missing: Some(reason), ..Self::closed() })
            }
            Some(reason) => Err(CliError::new(format!("no sandbox can have a network here: {reason}"))
                .hint("`warren doctor` checks what networks need; --net none does without")),
        }
    }

    /// No network.
    pub(crate) fn closed() -> Self {
        Self { link: None, policy: NetworkPolicy::none(), watcher: Arc::default(), missing: None }
    }

    fn over(networks: Arc<dyn Networks>, policy: NetworkPolicy, verbosity: Verbosity) -> Self {
        let watcher = Arc::new(Watcher { verbose: verbosity == Verbosity::Verbose, ..Watcher::default() });
        networks.observe(Arc::clone(&watcher) as Arc<dyn NetworkObserver>);
        Self { link: Some(networks), policy, watcher, missing: None }
    }

    pub(crate) fn mode(&self) -> NetworkMode {
        self.policy.mode
    }

    pub(super) fn policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    /// Gives a sandbox that is about to start its link.
    pub(super) fn attach(&self, request: &mut CreateRequest) -> Result<(), CliError> {
        let Some(link) = &self.link else { return Ok(()) };
        let attachment = link.attach(&request.id, &Owner::first(), &self.policy).map_err(explain)?;
        request.network = attachment.namespace.map(Arc::new);
        request.env.extend(attachment.env);
        Ok(())
    }

    pub(super) fn detach(&self, id: &SandboxId) {
        if let Some(Err(error)) = self.link.as_ref().map(|link| link.detach(id)) {
            ui::complain(&format!(
                "the link of {id} could not be taken away: {}",
                CliError::new(error).chain()
            ));
        }
    }

    /// Waits for the last report on the sandbox's connections, if anybody listens.
    pub(crate) fn settle(&self) {
        if self.link.is_some() && (self.watcher.verbose || self.mode() == NetworkMode::Learn) {
            std::thread::sleep(REPORTS);
        }
    }

    /// The flags of the smallest policy for what was reached, in mode learn.
    pub(crate) fn learned(&self) -> Option<String> {
        let reached = self.watcher.reached.lock();
        if self.mode() != NetworkMode::Learn || reached.is_empty() {
            return None;
        }
        let rules: Vec<String> = reached.iter().map(|rule| format!(" --allow {rule}")).collect();
        Some(format!("--net allow{}", rules.concat()))
    }
}

/// Refuses a policy that needs a server, before anything is made.
fn check(policy: &NetworkPolicy, config: &Config) -> Result<(), CliError> {
    let with_server = "`warren serve` keeps secrets and asks people; `warren create` takes the same flags";
    if !policy.secrets.is_empty() {
        return Err(CliError::new("--secret: secrets are kept by a server").hint(with_server));
    }
    if policy.mode == NetworkMode::Ask {
        return Err(CliError::new("--net ask: there is nobody to answer without a server").hint(with_server));
    }
    policy.validate(&config.network.exceptions).map_err(|error| CliError::new(format!("--net: {error}")))
}

fn explain(error: warren_core::NetworkError) -> CliError {
    let hint = match error.kind {
        NetworkErrorKind::Unavailable | NetworkErrorKind::Host => {
            "`warren doctor` checks what networks need; --net none does without"
        }
        NetworkErrorKind::Exhausted => "too many sandboxes have a network on this machine",
        NetworkErrorKind::NoSecret => "secrets are kept by a server: use `warren serve` and `warren create`",
        NetworkErrorKind::NotFound => "--net none does without",
    };
    CliError::new(error).hint(hint)
}

impl NetworkObserver for Watcher {
    fn saw(&self, _: &SandboxId, entry: NetworkEntry) {
        match entry.verdict {
            NetworkVerdict::Allowed => self.remember(&entry),
            NetworkVerdict::Denied if self.verbose => ui::complain(&refusal(&entry)),
            NetworkVerdict::Denied | NetworkVerdict::Asked => {}
        }
    }
}

impl Watcher {
    /// Remembers a connection. A question about a name goes nowhere by itself.
    fn remember(&self, entry: &NetworkEntry) {
        let address = entry.address.map(|address| address.to_string());
        if entry.protocol == Protocol::Dns || (entry.host.is_none() && address.is_none()) {
            return;
        }
        let port = Some(entry.port).filter(|port| *port != 0);
        let address = address.as_deref().filter(|_| entry.host.is_none());
        let mut reached = self.reached.lock();
        if reached.len() < MOST_REMEMBERED {
            reached.insert(destination(entry.host.as_deref(), address, port));
        }
    }
}

fn refusal(entry: &NetworkEntry) -> String {
    let address = entry.address.map(|address| address.to_string());
    let port = Some(entry.port).filter(|port| *port != 0);
    let to = destination(entry.host.as_deref(), address.as_deref(), port);
    let by = entry.process.as_deref().map(|process| format!(" by {process}")).unwrap_or_default();
    format!("refused {} to {to}{by}: {}", entry.protocol, entry.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(verdict: NetworkVerdict, host: Option<&str>, protocol: Protocol) -> NetworkEntry {
        NetworkEntry {
            verdict,
            protocol,
            host: host.map(str::to_owned),
            address: Some("192.0.2.7".parse().unwrap()),
            port: if protocol == Protocol::Dns { 0 } else { 443 },
            rule: "not in the allow list".to_owned(),
            process: Some("curl".to_owned()),
            count: 1,
        }
    }

    #[test]
    fn what_was_reached_is_told_as_flags() {
        let network =
            LocalNetwork { policy: NetworkPolicy::of(NetworkMode::Learn), ..LocalNetwork::closed() };
        let id = SandboxId::from_random([0; 16]);
        for (host, protocol) in [
            (Some("b.example"), Protocol::Tcp),
            (Some("a.example"), Protocol::Tcp),
            (Some("a.example"), Protocol::Tcp),
            (Some("c.example"), Protocol::Dns),
            (None, Protocol::Udp),
        ] {
            network.watcher.saw(&id, entry(NetworkVerdict::Allowed, host, protocol));
        }
        network.watcher.saw(&id, entry(NetworkVerdict::Denied, Some("d.example"), Protocol::Tcp));
        let learned = network.learned().unwrap();
        assert_eq!(learned, "--net allow --allow 192.0.2.7:443 --allow a.example:443 --allow b.example:443");
        assert_eq!(LocalNetwork::closed().learned(), None);
    }

    #[test]
    fn a_refusal_says_what_and_why() {
        let text = refusal(&entry(NetworkVerdict::Denied, Some("a.example"), Protocol::Tcp));
        assert_eq!(text, "refused tcp to a.example:443 (192.0.2.7) by curl: not in the allow list");
    }
}
