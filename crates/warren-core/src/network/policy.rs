use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::closed::{ClosedRange, Exceptions, closed};
use super::host::HostName;
use super::rule::{NetworkRule, Target};
use super::secret::SecretName;
use crate::field::{NetworkLimit, PolicyField};

/// Where a sandbox's packets may go. Read from an object, or from the name of a mode alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct NetworkPolicy {
    pub mode: NetworkMode,
    /// Open in the modes `allow` and `ask`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<NetworkRule>,
    /// Closed in every mode, even if another rule opens it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<NetworkRule>,
    /// Rules that were added while the sandbox ran, perhaps for a while.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Secrets that are put into what it sends to the hosts they are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretName>,
    #[serde(skip_serializing_if = "NetworkLimits::is_default")]
    pub limits: NetworkLimits,
}

/// The default for destinations that no rule names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// Nothing: loopback only.
    #[default]
    None,
    /// The Internet, and never what is closed to everybody.
    Public,
    /// Only what the list says.
    Allow,
    /// The list is open; somebody is asked about everything else.
    Ask,
    /// As `public`, and what was reached is remembered.
    Learn,
}

/// One answer to one wish of a sandbox, added while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    pub rule: NetworkRule,
    pub effect: GrantEffect,
    /// Absent: for as long as the sandbox exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_unix_ms: Option<u64>,
    /// The caller who gave it.
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantEffect {
    Allow,
    Deny,
}

/// How much of the network one sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkLimits {
    /// Connections and flows at a time.
    pub connections: u32,
    pub new_connections_per_s: u32,
    /// Bytes per second to the sandbox and from it. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_bytes_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_bytes_per_s: Option<u64>,
}

/// A destination that a sandbox wants to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish<'a> {
    pub protocol: Protocol,
    /// The name it has been shown to go by: answered for this name, and the client says so too.
    pub name: Option<&'a HostName>,
    /// Absent for a question about a name.
    pub address: Option<IpAddr>,
    /// Zero where the protocol has none.
    pub port: u16,
}

/// How it wants to talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Tcp,
    Udp,
    Icmp,
    /// A question about a name.
    Dns,
}

/// The decision about a wish, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allowed(Why),
    Denied(Why),
    /// Nobody has said; somebody is to be asked.
    Ask,
}

/// The reason of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Mode(NetworkMode),
    Closed(ClosedRange),
    /// One of the host's own addresses, or another sandbox's.
    Host,
    Allow(NetworkRule),
    Deny(NetworkRule),
    NotListed,
    /// The name that the client gives is not one that this address was answered for.
    NotPinned,
    /// The client names no host, or names two.
    NoName,
    /// More connections than it may have.
    Limit,
}

/// A policy that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct PolicyError {
    /// The part of the policy that is wrong.
    pub field: PolicyField,
    pub fault: PolicyFault,
}

/// The reason why a part of a policy cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    #[error("{count} rules are more than the {most} allowed")]
    TooMany { count: usize, most: usize },
    #[error("mode `{mode}` has no list; use mode `allow` or `ask`")]
    NoList { mode: NetworkMode },
    #[error("mode `none` is closed altogether; use another mode")]
    NoNetwork,
    #[error("`{rule}` is closed to every sandbox ({what}); only the operator can except it")]
    Closed { rule: NetworkRule, what: &'static str },
    #[error("must be between {least} and {most}")]
    Range { least: u64, most: u64 },
    #[error("`{name}` is named twice")]
    SecretTwice { name: SecretName },
}

const MOST_RULES: usize = 512;
const MOST_SECRETS: usize = 32;
const MOST_CONNECTIONS: u32 = 65_536;
const LEAST_RATE: u64 = 16 << 10;
const MOST_RATE: u64 = 100 << 30;

impl NetworkPolicy {
    /// A policy of a mode alone.
    pub fn of(mode: NetworkMode) -> Self {
        Self { mode, ..Self::default() }
    }

    pub fn none() -> Self {
        Self::of(NetworkMode::None)
    }

    pub fn public() -> Self {
        Self::of(NetworkMode::Public)
    }

    pub fn is_none(&self) -> bool {
        self.mode == NetworkMode::None
    }

    /// True if a proxy has to look at each connection: the kernel alone cannot tell names apart.
    pub fn needs_names(&self) -> bool {
        match self.mode {
            NetworkMode::None => false,
            NetworkMode::Public => !self.secrets.is_empty() || self.denials().any(NetworkRule::is_by_name),
            NetworkMode::Allow | NetworkMode::Ask | NetworkMode::Learn => true,
        }
    }

    /// True if everything that no rule names is open.
    pub fn is_open(&self) -> bool {
        matches!(self.mode, NetworkMode::Public | NetworkMode::Learn)
    }

    /// Every rule that closes something, those that are over included.
    pub fn denials(&self) -> impl Iterator<Item = &NetworkRule> {
        self.deny.iter().chain(self.granted(GrantEffect::Deny, 0))
    }

    /// Every rule that opens something now.
    pub fn openings(&self, now_unix_ms: u64) -> impl Iterator<Item = &NetworkRule> {
        self.allow.iter().chain(self.granted(GrantEffect::Allow, now_unix_ms))
    }

    fn granted(&self, effect: GrantEffect, now_unix_ms: u64) -> impl Iterator<Item = &NetworkRule> {
        let grants =
            self.grants.iter().filter(move |grant| grant.effect == effect && grant.holds(now_unix_ms));
        grants.map(|grant| &grant.rule)
    }

    /// Decides a wish. The machine's own addresses are the caller's to check: only the machine
    /// knows them.
    pub fn decide(&self, wish: &Wish<'_>, exceptions: &Exceptions, now_unix_ms: u64) -> Decision {
        if self.is_none() {
            return Decision::Denied(Why::Mode(self.mode));
        }
        if let Some(range) = wish.address.and_then(|address| closed(address, wish.port, exceptions)) {
            return Decision::Denied(Why::Closed(range));
        }
        let denials = self.deny.iter().chain(self.granted(GrantEffect::Deny, now_unix_ms));
        if let Some(rule) = denials.into_iter().find(|rule| wish.is_denied_by(rule)) {
            return Decision::Denied(Why::Deny(rule.clone()));
        }
        if self.is_open() {
            return Decision::Allowed(Why::Mode(self.mode));
        }
        match self.openings(now_unix_ms).find(|rule| wish.is_allowed_by(rule)) {
            Some(rule) => Decision::Allowed(Why::Allow(rule.clone())),
            None if self.mode == NetworkMode::Ask => Decision::Ask,
            None => Decision::Denied(Why::NotListed),
        }
    }

    /// Checks the policy; the error names the part that is wrong.
    pub fn validate(&self, exceptions: &Exceptions) -> Result<(), PolicyError> {
        let lists = [
            (PolicyField::Allow, self.allow.len(), MOST_RULES),
            (PolicyField::Deny, self.deny.len(), MOST_RULES),
            (PolicyField::Grants, self.grants.len(), MOST_RULES),
            (PolicyField::Secrets, self.secrets.len(), MOST_SECRETS),
        ];
        for (field, count, most) in lists {
            if count > most {
                return PolicyFault::TooMany { count, most }.of(field);
            }
            if count > 0 && self.is_none() {
                return PolicyFault::NoNetwork.of(field);
            }
        }
        if !self.allow.is_empty() && self.is_open() {
            return PolicyFault::NoList { mode: self.mode }.of(PolicyField::Allow);
        }
        for rule in self.openings(0) {
            if let Some(range) = wholly_closed(rule, exceptions) {
                return PolicyFault::Closed { rule: rule.clone(), what: range.what }.of(PolicyField::Allow);
            }
        }
        for (index, name) in self.secrets.iter().enumerate() {
            if self.secrets[..index].contains(name) {
                return PolicyFault::SecretTwice { name: name.clone() }.of(PolicyField::Secrets);
            }
        }
        self.limits.validate()
    }
}

/// Changes of grants over time.
impl NetworkPolicy {
    /// The policy with these rules granted: what was granted for the same rule before, and what is
    /// over, is forgotten.
    #[must_use]
    pub fn granting(&self, grants: Vec<Grant>, now_unix_ms: u64) -> Self {
        let mut next = self.current(now_unix_ms);
        next.grants.retain(|old| grants.iter().all(|new| new.rule != old.rule));
        for (index, grant) in grants.iter().enumerate() {
            if grants[index + 1..].iter().all(|later| later.rule != grant.rule) {
                next.grants.push(grant.clone());
            }
        }
        next
    }

    /// The policy without the grants that are over.
    #[must_use]
    pub fn current(&self, now_unix_ms: u64) -> Self {
        let mut next = self.clone();
        next.grants.retain(|grant| grant.holds(now_unix_ms));
        next
    }

    /// The policy without any grant, as another sandbox inherits it.
    #[must_use]
    pub fn inherited(&self) -> Self {
        Self { grants: Vec::new(), ..self.clone() }
    }

    /// When the next of its grants is over.
    pub fn next_expiry(&self) -> Option<u64> {
        self.grants.iter().filter_map(|grant| grant.until_unix_ms).min()
    }
}

/// A rule that opens nothing because all of its network is closed and nothing of it is excepted.
fn wholly_closed(rule: &NetworkRule, exceptions: &Exceptions) -> Option<ClosedRange> {
    let Target::Network(network) = &rule.target else { return None };
    let excepted = |exception: &NetworkRule| match &exception.target {
        Target::Network(other) => other.contains(network.address()) || network.contains(other.address()),
        Target::Any => true,
        Target::Name(_) | Target::Below(_) => false,
    };
    if exceptions.iter().any(excepted) {
        return None;
    }
    let around = |range: &ClosedRange| range.network.prefix() <= network.prefix();
    ClosedRange::ALL.into_iter().filter(around).find(|range| range.network.contains(network.address()))
}

impl Wish<'_> {
    /// A question is denied by a rule that closes the name whatever the port.
    fn is_denied_by(&self, rule: &NetworkRule) -> bool {
        let here = match self.protocol {
            Protocol::Dns => rule.ports.is_none(),
            Protocol::Icmp => true,
            Protocol::Tcp | Protocol::Udp => rule.has_port(self.port),
        };
        here && self.is_meant_by(rule)
    }

    /// A question is allowed by a rule that opens the name at any port; what has no ports by one
    /// that names none.
    fn is_allowed_by(&self, rule: &NetworkRule) -> bool {
        let here = match self.protocol {
            Protocol::Dns => true,
            Protocol::Icmp => rule.ports.is_none(),
            Protocol::Tcp | Protocol::Udp => rule.has_port(self.port),
        };
        here && self.is_meant_by(rule)
    }

    fn is_meant_by(&self, rule: &NetworkRule) -> bool {
        self.name.is_some_and(|name| rule.names(name))
            || self.address.is_some_and(|address| rule.holds(address))
    }
}

impl Grant {
    pub fn holds(&self, now_unix_ms: u64) -> bool {
        self.until_unix_ms.is_none_or(|until| now_unix_ms < until)
    }
}

impl PolicyFault {
    fn of<T>(self, field: PolicyField) -> Result<T, PolicyError> {
        Err(PolicyError { field, fault: self })
    }
}

impl NetworkLimits {
    /// Which of them is more than another has, if one is.
    pub fn exceeds(&self, most: &Self) -> Option<NetworkLimit> {
        let faster = |asked: Option<u64>, most: Option<u64>| {
            most.is_some_and(|most| asked.is_none_or(|asked| asked > most))
        };
        let checks = [
            (NetworkLimit::Connections, self.connections > most.connections),
            (NetworkLimit::NewConnections, self.new_connections_per_s > most.new_connections_per_s),
            (NetworkLimit::Download, faster(self.down_bytes_per_s, most.down_bytes_per_s)),
            (NetworkLimit::Upload, faster(self.up_bytes_per_s, most.up_bytes_per_s)),
        ];
        checks.into_iter().find_map(|(limit, exceeded)| exceeded.then_some(limit))
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn validate(&self) -> Result<(), PolicyError> {
        let counts = [
            (NetworkLimit::Connections, self.connections),
            (NetworkLimit::NewConnections, self.new_connections_per_s),
        ];
        for (limit, count) in counts {
            if !(1..=MOST_CONNECTIONS).contains(&count) {
                return PolicyFault::Range { least: 1, most: MOST_CONNECTIONS.into() }
                    .of(PolicyField::Limit(limit));
            }
        }
        let rates =
            [(NetworkLimit::Download, self.down_bytes_per_s), (NetworkLimit::Upload, self.up_bytes_per_s)];
        for (limit, rate) in rates {
            if rate.is_some_and(|rate| !(LEAST_RATE..=MOST_RATE).contains(&rate)) {
                return PolicyFault::Range { least: LEAST_RATE, most: MOST_RATE }
                    .of(PolicyField::Limit(limit));
            }
        }
        Ok(())
    }
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self { connections: 2500, new_connections_per_s: 500, down_bytes_per_s: None, up_bytes_per_s: None }
    }
}

/// The two ways to write a policy.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Mode(NetworkMode),
    Whole(Whole),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    mode: NetworkMode,
    #[serde(default)]
    allow: Vec<NetworkRule>,
    #[serde(default)]
    deny: Vec<NetworkRule>,
    #[serde(default)]
    grants: Vec<Grant>,
    #[serde(default)]
    secrets: Vec<SecretName>,
    #[serde(default)]
    limits: NetworkLimits,
}

impl From<Written> for NetworkPolicy {
    fn from(written: Written) -> Self {
        match written {
            Written::Mode(mode) => Self::of(mode),
            Written::Whole(Whole { mode, allow, deny, grants, secrets, limits }) => {
                Self { mode, allow, deny, grants, secrets, limits }
            }
        }
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Public => "public",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Learn => "learn",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Dns => "dns",
        })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => write!(f, "mode {mode}"),
            Self::Closed(range) => write!(f, "{} is closed to every sandbox ({})", range.network, range.what),
            Self::Host => {
                f.write_str("the machine's own addresses and other sandboxes are closed to every sandbox")
            }
            Self::Allow(rule) => write!(f, "allow {rule}"),
            Self::Deny(rule) => write!(f, "deny {rule}"),
            Self::NotListed => f.write_str("not in the allow list"),
            Self::NotPinned => f.write_str("the address is not one that this name was answered with"),
            Self::NoName => f.write_str("the connection does not say which host it is for"),
            Self::Limit => f.write_str("too many connections"),
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
