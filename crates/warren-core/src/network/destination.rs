use super::host::Host;
use super::policy::Protocol;
use super::port::NetworkEntry;
use super::rule::{Cidr, NetworkRule, Ports, Target};

/// Somewhere a sandbox has been.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// An address where no name is known.
    pub host: Host,
    /// Zero where the protocol has none.
    pub port: u16,
}

impl Destination {
    /// Where an entry went; `None` for a question, which goes nowhere by itself.
    pub fn of(entry: &NetworkEntry) -> Option<Self> {
        if entry.protocol == Protocol::Dns {
            return None;
        }
        let name = entry.host.as_deref().and_then(|host| host.parse().ok());
        let host = name.map(Host::Name).or_else(|| entry.address.map(Host::Address))?;
        Some(Self { host, port: entry.port })
    }

    /// The rule that speaks of this alone.
    pub fn rule(&self) -> NetworkRule {
        let target = match &self.host {
            Host::Name(name) => Target::Name(name.clone()),
            Host::Address(address) => Target::Network(Cidr::single(*address)),
        };
        NetworkRule { target, ports: Ports::one(self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NetworkVerdict;

    #[test]
    fn a_question_is_no_destination() {
        let entry = NetworkEntry {
            verdict: NetworkVerdict::Allowed,
            protocol: Protocol::Dns,
            host: Some("a.example".to_owned()),
            address: None,
            port: 0,
            rule: String::new(),
            process: None,
            count: 1,
        };
        assert_eq!(Destination::of(&entry), None);
        let tcp = NetworkEntry { protocol: Protocol::Tcp, port: 443, ..entry };
        assert_eq!(Destination::of(&tcp).unwrap().rule().to_string(), "a.example:443");
    }
}
