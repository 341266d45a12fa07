//! Types of settings that speak of the network.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde_norway::Value;
use warren_core::network::Cidr;
use warren_core::{NetworkLimits, NetworkMode, NetworkPolicy, NetworkRule};
use warren_engine::NetworkSettings;

use super::sections::NetworkSection;
use super::value::{Setting, flow, word};

/// The policy of a sandbox that asks for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultNetwork {
    /// The Internet where this machine can, else nothing.
    Auto,
    Policy(NetworkPolicy),
}

/// A range of 65536 IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet(pub Cidr);

/// A name server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolver(pub SocketAddr);

/// A file, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalFile(pub Option<PathBuf>);

/// The port on which name servers answer.
const DNS: u16 = 53;

impl NetworkSection {
    /// The engine's settings of the network, on a machine that can give sandboxes one or cannot.
    pub(crate) fn settings(&self, available: bool) -> NetworkSettings {
        let (default, exceptions) = (self.policy(available), self.exceptions.clone());
        NetworkSettings { default, exceptions, most: self.most_limits() }
    }

    /// The policy of a sandbox that does not say.
    pub fn policy(&self, available: bool) -> NetworkPolicy {
        let mut default = match &self.default {
            DefaultNetwork::Auto if available => NetworkPolicy::public(),
            DefaultNetwork::Auto => NetworkPolicy::none(),
            DefaultNetwork::Policy(policy) => policy.clone(),
        };
        if default.limits == NetworkLimits::default() {
            default.limits = self.default_limits();
        }
        default
    }

    pub(super) fn default_limits(&self) -> NetworkLimits {
        NetworkLimits {
            connections: self.connections,
            new_connections_per_s: self.new_connections_per_s,
            down_bytes_per_s: rate(self.download.0),
            up_bytes_per_s: rate(self.upload.0),
        }
    }

    pub(super) fn most_limits(&self) -> NetworkLimits {
        NetworkLimits {
            connections: self.max_connections,
            new_connections_per_s: self.max_new_connections_per_s,
            ..self.default_limits()
        }
    }
}

fn rate(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|bytes| *bytes > 0)
}

impl Setting for DefaultNetwork {
    const TYPE: &'static str = "mode or policy";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            Value::String(text) if text == "auto" => Ok(Self::Auto),
            Value::String(text) => {
                let mode: Option<NetworkMode> = serde_json::from_value(text.as_str().into()).ok();
                let wrong = || format!("`{text}` is not auto, none, public, allow, ask or learn");
                mode.map(|mode| Self::Policy(NetworkPolicy::of(mode))).ok_or_else(wrong)
            }
            Value::Mapping(_) => read_policy(value).map(Self::Policy),
            _ => Err("expected a mode or a policy".to_owned()),
        }
    }

    fn show(&self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::Policy(policy) if *policy == NetworkPolicy::of(policy.mode) => {
                policy.mode.to_string().into()
            }
            Self::Policy(policy) => serde_norway::to_value(policy).unwrap_or(Value::Null),
        }
    }
}

/// Part by part, so that the complaint names the one that is wrong.
fn read_policy(value: &Value) -> Result<NetworkPolicy, String> {
    let Value::Mapping(pairs) = value else { return Err("expected a table".to_owned()) };
    let mut policy = NetworkPolicy::none();
    let mut has_mode = false;
    for (name, value) in pairs {
        let name = word(name)?;
        let wrong = |error: serde_norway::Error| format!("{name}: {error}");
        match name.as_str() {
            "mode" => {
                policy.mode = serde_norway::from_value(value.clone()).map_err(wrong)?;
                has_mode = true;
            }
            "allow" => policy.allow = Vec::read(value).map_err(|error| format!("allow: {error}"))?,
            "deny" => policy.deny = Vec::read(value).map_err(|error| format!("deny: {error}"))?,
            "secrets" => policy.secrets = serde_norway::from_value(value.clone()).map_err(wrong)?,
            other => return Err(format!("there is no `{other}` in a policy: mode, allow, deny, secrets")),
        }
    }
    if has_mode { Ok(policy) } else { Err("a policy needs a `mode`".to_owned()) }
}

impl Setting for Vec<NetworkRule> {
    const TYPE: &'static str = "list of rules";

    fn read(value: &Value) -> Result<Self, String> {
        list(value, |text| text.parse::<NetworkRule>().map_err(|error| error.to_string()))
    }

    fn show(&self) -> Value {
        Value::Sequence(self.iter().map(|rule| rule.to_string().into()).collect())
    }
}

impl Setting for Vec<Resolver> {
    const TYPE: &'static str = "list of addresses";

    fn read(value: &Value) -> Result<Self, String> {
        list(value, |text| {
            let alone = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS));
            let address = alone.or_else(|_| text.parse::<SocketAddr>());
            let address = address.ok().filter(|address| address.port() != 0);
            address.map(Resolver).ok_or_else(|| format!("`{text}` is not an address, with or without a port"))
        })
    }

    fn show(&self) -> Value {
        let text = |resolver: &Resolver| match resolver.0.port() {
            DNS => resolver.0.ip().to_string(),
            _ => resolver.0.to_string(),
        };
        Value::Sequence(self.iter().map(|resolver| text(resolver).into()).collect())
    }
}

impl Setting for Subnet {
    const TYPE: &'static str = "network";

    fn read(value: &Value) -> Result<Self, String> {
        let text = word(value)?;
        let network: Option<Cidr> = text.parse().ok();
        let fits = |network: &Cidr| network.address().is_ipv4() && network.prefix() == 16;
        let wrong =
            || format!("`{text}` is not a network of IPv4 with a prefix of 16, such as 10.213.0.0/16");
        network.filter(fits).map(Self).ok_or_else(wrong)
    }

    fn show(&self) -> Value {
        self.0.to_string().into()
    }
}

impl Setting for OptionalFile {
    const TYPE: &'static str = "file";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self(None)),
            Value::String(text) if text.is_empty() => Ok(Self(None)),
            value => PathBuf::read(value).map(|path| Self(Some(path))),
        }
    }

    fn show(&self) -> Value {
        self.0.as_ref().map_or_else(|| "".into(), Setting::show)
    }
}

/// A list, or what is written on one line with commas.
fn list<T>(value: &Value, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    match value {
        Value::Sequence(items) => items.iter().map(|item| read(&word(item)?)).collect(),
        Value::String(text) if text == "[]" => Ok(Vec::new()),
        // A rule may begin with a bracket too: `[2001:db8::1]:443`.
        Value::String(text) if text.starts_with('[') && text.ends_with(']') && !text.contains("]:") => {
            list(&flow(text)?, read)
        }
        Value::String(text) => {
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(read).collect()
        }
        _ => Err("expected a list".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(text: &str) -> Result<DefaultNetwork, String> {
        DefaultNetwork::read(&text.into())
    }

    #[test]
    fn a_default_is_a_word_or_a_policy() {
        assert_eq!(default("auto"), Ok(DefaultNetwork::Auto));
        assert_eq!(default("public"), Ok(DefaultNetwork::Policy(NetworkPolicy::public())));
        let whole = default("{mode: allow, allow: [example.com, '*.example.org:443']}").unwrap();
        let DefaultNetwork::Policy(policy) = &whole else { panic!("{whole:?}") };
        assert_eq!((policy.mode, policy.allow.len()), (NetworkMode::Allow, 2));
        assert_eq!(DefaultNetwork::read(&whole.show()), Ok(whole.clone()));
        for (text, expected) in [
            ("open", "`open` is not auto"),
            ("{allow: [example.com]}", "needs a `mode`"),
            ("{mode: open}", "mode: "),
            ("{mode: allow, allow: ['a b']}", "allow: "),
            ("{mode: allow, limit: 7}", "no `limit`"),
        ] {
            let error = default(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn lists_are_read_from_one_line_too() {
        let rules = Vec::<NetworkRule>::read(&"10.1.2.3:5432, [2001:db8::/32]:443".into()).unwrap();
        assert_eq!(rules.show(), Vec::<NetworkRule>::read(&rules.show()).unwrap().show());
        assert_eq!(Vec::<NetworkRule>::read(&"[10.1.2.3, 192.0.2.0/24]".into()).unwrap().len(), 2);
        assert!(Vec::<NetworkRule>::read(&"10.1.2.3/8".into()).unwrap_err().contains("10.1.2.3/8"));
        let servers = Vec::<Resolver>::read(&"192.0.2.53,[2001:db8::1]:5353".into()).unwrap();
        assert_eq!(servers[0].0.port(), 53);
        assert_eq!(Vec::<Resolver>::read(&servers.show()).unwrap(), servers);
        assert!(Vec::<Resolver>::read(&"dns.example".into()).is_err());
    }

    #[test]
    fn a_subnet_has_a_prefix_of_sixteen() {
        assert!(Subnet::read(&"10.99.0.0/16".into()).is_ok());
        for text in ["10.99.0.0/15", "10.99.1.0/16", "fd00::/16", "all"] {
            assert!(Subnet::read(&text.into()).is_err(), "{text}");
        }
    }

    #[test]
    fn auto_is_what_the_machine_can() {
        let section = super::super::Config::default().network;
        assert_eq!(section.settings(true).default.mode, NetworkMode::Public);
        assert_eq!(section.settings(false).default.mode, NetworkMode::None);
        let limited = NetworkSection { download: warren_core::ByteSize(1 << 20), ..section };
        assert_eq!(limited.settings(true).most.down_bytes_per_s, Some(1 << 20));
    }
}
