use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::closed::unmapped;
use super::host::{Host, HostError, HostName};

/// One line of a policy, written as people write it: `example.com`, `*.example.com:443`,
/// `192.0.2.0/24`, `192.0.2.7:5432`, `[2001:db8::/32]:443`, `example.com:8000-8100`, `*`
/// (everything), `*:443`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkRule {
    pub target: Target,
    /// Absent: every port.
    pub ports: Option<Ports>,
}

/// The destinations of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Everything that is not closed to all.
    Any,
    /// This very name.
    Name(HostName),
    /// Every name below this one.
    Below(HostName),
    Network(Cidr),
}

/// A network: an address whose bits after the prefix are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// Ports from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ports {
    pub first: u16,
    pub last: u16,
}

/// Text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("`{text}`: {reason}")]
    Host { text: String, reason: HostError },
    #[error("`{text}`: a network is an address and a prefix whose other bits are zero, as in 192.0.2.0/24")]
    Network { text: String },
    #[error("`{text}`: ports are numbers from 1 to 65535, as in example.com:443 or example.com:8000-8100")]
    Ports { text: String },
    #[error("`{text}`: `*` stands alone or before a whole name, as in *.example.com")]
    Wildcard { text: String },
}

impl Cidr {
    /// A network of one.
    pub fn single(address: IpAddr) -> Self {
        let address = unmapped(address);
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// `None` unless the prefix fits and every bit after it is zero.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let whole = Self { address, prefix };
        (prefix <= whole.bits() && whole.first() == address).then_some(whole)
    }

    /// The network of this size that an address lies in; `None` unless the prefix fits.
    pub fn around(address: IpAddr, prefix: u8) -> Option<Self> {
        let whole = Self { address: unmapped(address), prefix };
        (prefix <= whole.bits()).then(|| Self { address: whole.first(), prefix })
    }

    /// The rest of the network without another: at most as many networks as the two prefixes are
    /// apart.
    pub fn without(self, hole: Self) -> Vec<Self> {
        if hole.prefix <= self.prefix && hole.contains(self.address) {
            return Vec::new();
        }
        if !self.contains(hole.address) {
            return vec![self];
        }
        let halves = self.prefix + 1..=hole.prefix;
        halves.filter_map(|prefix| Self::around(hole.address, prefix).map(Self::other_half)).collect()
    }

    /// The one that makes the next larger network together with this one.
    fn other_half(self) -> Self {
        let bit = u32::from(self.bits() - self.prefix);
        let address = match self.address {
            IpAddr::V4(address) => {
                Ipv4Addr::from_bits(address.to_bits() ^ 1_u32.checked_shl(bit).unwrap_or(0)).into()
            }
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() ^ 1_u128.checked_shl(bit).unwrap_or(0)).into()
            }
        };
        Self { address, ..self }
    }

    /// For constants of the program: panics at compile time where they are wrong.
    pub(super) const fn v4(address: [u8; 4], prefix: u8) -> Self {
        assert!(prefix <= 32);
        let [a, b, c, d] = address;
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// See [`Cidr::v4`].
    pub(super) const fn v6(address: u128, prefix: u8) -> Self {
        assert!(prefix <= 128);
        Self { address: IpAddr::V6(Ipv6Addr::from_bits(address)), prefix }
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// An IPv4 address written as IPv6 is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = unmapped(address);
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix);
                network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.prefix);
                network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }

    fn bits(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn first(&self) -> IpAddr {
        let host_bits = u32::from(self.bits().saturating_sub(self.prefix));
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }
}

impl Ports {
    /// A port alone; `None` for zero, which is no port.
    pub fn one(port: u16) -> Option<Self> {
        (port != 0).then_some(Self { first: port, last: port })
    }

    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl NetworkRule {
    /// True if the rule is about this name.
    pub fn names(&self, name: &HostName) -> bool {
        match &self.target {
            Target::Any => true,
            Target::Name(own) => own == name,
            Target::Below(parent) => name.is_below(parent),
            Target::Network(_) => false,
        }
    }

    /// True if the rule is about this address, whatever name it was reached by.
    pub fn holds(&self, address: IpAddr) -> bool {
        match &self.target {
            Target::Any => true,
            Target::Network(network) => network.contains(address),
            Target::Name(_) | Target::Below(_) => false,
        }
    }

    /// True if this rule covers everything that another one does.
    pub fn covers(&self, other: &Self) -> bool {
        let ports = match (self.ports, other.ports) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.first <= other.first && other.last <= own.last,
        };
        let target = match (&self.target, &other.target) {
            (Target::Any, _) => true,
            (_, Target::Name(name)) => self.names(name),
            (Target::Below(parent), Target::Below(other)) => other == parent || other.is_below(parent),
            (Target::Network(own), Target::Network(other)) => {
                own.prefix <= other.prefix && own.contains(other.address)
            }
            _ => false,
        };
        ports && target
    }

    pub fn has_port(&self, port: u16) -> bool {
        self.ports.is_none_or(|ports| ports.contains(port))
    }

    /// True if only a proxy that knows names can apply it.
    pub fn is_by_name(&self) -> bool {
        matches!(self.target, Target::Name(_) | Target::Below(_))
    }
}

impl FromStr for Cidr {
    type Err = RuleError;

    /// An address alone is a network of one.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let refuse = || RuleError::Network { text: shown(text) };
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| refuse())?
            }
            Some(_) => return Err(refuse()),
            None => most,
        };
        Self::new(address, prefix).ok_or_else(refuse)
    }
}

impl FromStr for Ports {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let refuse = || RuleError::Ports { text: shown(text) };
        let port = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u16>().ok().filter(|port| plain && *port != 0).ok_or_else(refuse)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = Self { first: port(first)?, last: port(last)? };
        if ports.first <= ports.last { Ok(ports) } else { Err(refuse()) }
    }
}

impl FromStr for NetworkRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (target, ports) = split_ports(text);
        let ports = ports.map(str::parse).transpose()?;
        Ok(Self { target: parse_target(target)?, ports })
    }
}

/// A colon parts host and ports, but not inside brackets, and not in a bare IPv6 address, which has
/// several.
fn split_ports(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((inside, after)) = rest.split_once(']')
    {
        return match after.strip_prefix(':') {
            Some(ports) => (inside, Some(ports)),
            None if after.is_empty() => (inside, None),
            None => (text, None),
        };
    }
    match text.split_once(':') {
        Some((host, ports)) if !ports.contains(':') => (host, Some(ports)),
        _ => (text, None),
    }
}

fn parse_target(text: &str) -> Result<Target, RuleError> {
    if text == "*" {
        return Ok(Target::Any);
    }
    if text.contains('/') {
        return text.parse().map(Target::Network);
    }
    let refuse = |reason| RuleError::Host { text: shown(text), reason };
    if let Some(parent) = text.strip_prefix("*.") {
        return parent.parse().map(Target::Below).map_err(refuse);
    }
    if text.contains('*') {
        return Err(RuleError::Wildcard { text: shown(text) });
    }
    match text.parse().map_err(refuse)? {
        Host::Name(name) => Ok(Target::Name(name)),
        Host::Address(address) => Ok(Target::Network(Cidr::single(address))),
    }
}

fn shown(text: &str) -> String {
    text.escape_default().take(120).collect()
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == self.bits() {
            self.address.fmt(f)
        } else {
            write!(f, "{}/{}", self.address, self.prefix)
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.ports) {
            (Target::Network(network), Some(ports)) if network.address.is_ipv6() => {
                write!(f, "[{network}]:{ports}")
            }
            (target, Some(ports)) => write!(f, "{target}:{ports}"),
            (target, None) => target.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

impl TryFrom<String> for NetworkRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<NetworkRule> for String {
    fn from(rule: NetworkRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
