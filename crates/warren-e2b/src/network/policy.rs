//! From what E2B's clients write to our policies. What is allowed wins over what is denied there,
//! and never here: so what is denied is told without what is allowed.

use std::net::IpAddr;

use warren_core::network::{Cidr, NetworkRule, Target};
use warren_core::{Host, HostName, NetworkMode, NetworkPolicy, PolicyField};
use warren_engine::NetworkSettings;

use crate::error::E2bError;
use crate::rest::{NetworkConfig, NetworkUpdate};

/// The client's wishes for where its sandbox may go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) allow: &'a [String],
    pub(super) deny: &'a [String],
    pub(super) internet: Option<bool>,
}

/// Facts about the machine and the sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyFacts<'a> {
    pub(super) settings: &'a NetworkSettings,
    /// The sandbox has a link to the world, or can have one.
    pub(super) linked: bool,
}

/// Entries of both lists together. Each is taken out of each of the other.
const MOST_ENTRIES: usize = 256;

/// One that is allowed.
enum Allowed {
    Everything,
    Network(Cidr),
    Name(NetworkRule),
}

impl<'a> Wish<'a> {
    pub(super) fn of(network: &'a NetworkConfig, internet: Option<bool>) -> Self {
        let list = |list: &'a Option<Vec<String>>| list.as_deref().unwrap_or_default();
        Self { allow: list(&network.allow_out), deny: list(&network.deny_out), internet }
    }

    pub(super) fn of_update(update: &'a NetworkUpdate) -> Self {
        let list = |list: &'a Option<Vec<String>>| list.as_deref().unwrap_or_default();
        let internet = update.allow_internet_access;
        Self { allow: list(&update.allow_out), deny: list(&update.deny_out), internet }
    }

    /// The policy that does what was asked for, without secrets.
    pub(super) fn policy(&self, facts: PolicyFacts<'_>) -> Result<NetworkPolicy, E2bError> {
        if self.allow.len() + self.deny.len() > MOST_ENTRIES {
            let message = format!("allowOut and denyOut: {MOST_ENTRIES} entries together, and no more");
            return Err(E2bError::bad_request(message));
        }
        let mut policy = match (self.internet, self.allow, self.deny) {
            (None, [], []) => facts.settings.default.inherited(),
            _ => self.lists(facts.linked)?,
        };
        policy.limits = facts.settings.default.limits;
        policy.validate(&facts.settings.exceptions).map_err(|error| {
            let field = match error.field {
                PolicyField::Allow => "allowOut".to_owned(),
                PolicyField::Deny => "denyOut".to_owned(),
                other => other.to_string(),
            };
            E2bError::bad_request(format!("{field}: {}", error.fault))
        })?;
        Ok(policy)
    }

    fn lists(&self, linked: bool) -> Result<NetworkPolicy, E2bError> {
        let allowed = self.allow.iter().map(|text| allowed(text)).collect::<Result<Vec<_>, _>>()?;
        let denied = self.deny.iter().map(|text| denied(text)).collect::<Result<Vec<_>, _>>()?;
        let closed = self.internet == Some(false) || denied.iter().any(is_everything);
        if allowed.iter().any(|one| matches!(one, Allowed::Everything)) {
            return Ok(NetworkPolicy::public());
        }
        if !closed {
            return partly_open(&allowed, denied);
        }
        // Nothing at all is what a sandbox without a link has.
        if allowed.is_empty() && !linked {
            return Ok(NetworkPolicy::none());
        }
        let allow = allowed.into_iter().filter_map(Allowed::rule).collect();
        Ok(NetworkPolicy { allow, ..NetworkPolicy::of(NetworkMode::Allow) })
    }
}

/// Everything is open but what is denied and not allowed.
fn partly_open(allowed: &[Allowed], mut denied: Vec<Cidr>) -> Result<NetworkPolicy, E2bError> {
    for one in allowed {
        match one {
            Allowed::Network(network) => {
                denied = denied.into_iter().flat_map(|denied| denied.without(*network)).collect();
            }
            Allowed::Everything => denied.clear(),
            Allowed::Name(rule) => {
                let message = format!(
                    "allowOut: `{rule}` is a domain: domains can be allowed only where all else is denied; add 0.0.0.0/0 to denyOut"
                );
                return Err(E2bError::bad_request(message));
            }
        }
    }
    let deny =
        denied.into_iter().map(|network| NetworkRule { target: Target::Network(network), ports: None });
    Ok(NetworkPolicy { deny: deny.collect(), ..NetworkPolicy::public() })
}

impl Allowed {
    fn rule(self) -> Option<NetworkRule> {
        match self {
            Self::Everything => None,
            Self::Network(network) => Some(NetworkRule { target: Target::Network(network), ports: None }),
            Self::Name(rule) => Some(rule),
        }
    }
}

fn allowed(text: &str) -> Result<Allowed, E2bError> {
    if text == "*" {
        return Ok(Allowed::Everything);
    }
    if let Some(network) = network(text) {
        return Ok(if is_everything(&network) { Allowed::Everything } else { Allowed::Network(network) });
    }
    let target = domain(text).ok_or_else(|| {
        let message = format!(
            "allowOut: `{}` is no address, no network such as 192.0.2.0/24 and no domain such as example.com or *.example.com",
            shown(text)
        );
        E2bError::bad_request(message)
    })?;
    Ok(Allowed::Name(NetworkRule { target, ports: None }))
}

fn denied(text: &str) -> Result<Cidr, E2bError> {
    network(text).ok_or_else(|| {
        let message = format!(
            "denyOut: `{}` is no address and no network such as 192.0.2.0/24; domains cannot be denied",
            shown(text)
        );
        E2bError::bad_request(message)
    })
}

/// An address, or a network by any address of it.
fn network(text: &str) -> Option<Cidr> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let Some(prefix) = prefix else { return Some(Cidr::single(address)) };
    let plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    Cidr::around(address, prefix.parse().ok().filter(|_| plain)?)
}

/// A domain, or all below one.
pub(super) fn domain(text: &str) -> Option<Target> {
    if let Some(parent) = text.strip_prefix("*.") {
        return parent.parse::<HostName>().ok().map(Target::Below);
    }
    match text.parse().ok()? {
        Host::Name(name) => Some(Target::Name(name)),
        Host::Address(_) => None,
    }
}

fn is_everything(network: &Cidr) -> bool {
    network.prefix() == 0 && network.address().is_ipv4()
}

pub(super) fn shown(text: &str) -> String {
    text.escape_default().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    fn policy(allow: &[&str], deny: &[&str], internet: Option<bool>) -> Result<NetworkPolicy, E2bError> {
        let (allow, deny) = (words(allow), words(deny));
        let settings = NetworkSettings { default: NetworkPolicy::public(), ..NetworkSettings::default() };
        Wish { allow: &allow, deny: &deny, internet }
            .policy(PolicyFacts { settings: &settings, linked: true })
    }

    fn told(policy: &NetworkPolicy) -> (NetworkMode, Vec<String>, Vec<String>) {
        let texts = |rules: &[NetworkRule]| rules.iter().map(ToString::to_string).collect();
        (policy.mode, texts(&policy.allow), texts(&policy.deny))
    }

    #[test]
    fn what_nobody_speaks_of_is_as_the_operator_has_it() {
        assert_eq!(policy(&[], &[], None).unwrap(), NetworkPolicy::public());
        let settings = NetworkSettings::default();
        let wish = Wish { allow: &[], deny: &[], internet: None };
        let facts = PolicyFacts { settings: &settings, linked: false };
        assert_eq!(wish.policy(facts).unwrap(), NetworkPolicy::none());
        // Closed altogether is what a machine without networks can do as well.
        assert_eq!(Wish { internet: Some(false), ..wish }.policy(facts).unwrap(), NetworkPolicy::none());
        assert_eq!(Wish { internet: Some(true), ..wish }.policy(facts).unwrap(), NetworkPolicy::public());
    }

    #[test]
    fn no_internet_is_a_list_with_nothing_on_it_which_may_grow_later() {
        for (deny, internet) in [(&[][..], Some(false)), (&["0.0.0.0/0"], None), (&["0.0.0.0/0"], Some(true))]
        {
            assert_eq!(told(&policy(&[], deny, internet).unwrap()), (NetworkMode::Allow, vec![], vec![]));
        }
    }

    #[test]
    fn what_is_allowed_wins_over_what_is_denied() {
        let all =
            policy(&["1.1.1.1", "*.example.com", "8.8.0.0/16"], &["0.0.0.0/0", "1.1.1.1"], None).unwrap();
        assert_eq!(
            told(&all),
            (NetworkMode::Allow, words(&["1.1.1.1", "*.example.com", "8.8.0.0/16"]), vec![])
        );
        let some = policy(&["8.8.8.8/31"], &["8.8.8.0/28", "1.1.1.1"], None).unwrap();
        let left = words(&["8.8.8.0/29", "8.8.8.12/30", "8.8.8.10/31", "1.1.1.1"]);
        assert_eq!(told(&some), (NetworkMode::Public, vec![], left));
        assert_eq!(policy(&["0.0.0.0/0"], &["0.0.0.0/0"], None).unwrap(), NetworkPolicy::public());
        assert_eq!(policy(&["8.8.8.8"], &["8.8.8.8"], None).unwrap(), NetworkPolicy::public());
    }

    #[test]
    fn a_network_may_be_written_by_any_address_of_it() {
        let denied = policy(&[], &["93.184.216.34/8"], None).unwrap();
        assert_eq!(told(&denied).2, words(&["93.0.0.0/8"]));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (allow, deny, field) in [
            (&["example.com"][..], &[][..], "allowOut"),
            (&["example.com"], &["1.1.1.1"], "allowOut"),
            (&["a b"], &["0.0.0.0/0"], "allowOut"),
            (&["example.com:443"], &["0.0.0.0/0"], "allowOut"),
            (&["1.1.1.1/33"], &["0.0.0.0/0"], "allowOut"),
            (&["10.0.0.0/8"], &["0.0.0.0/0"], "allowOut"),
            (&[], &["example.com"], "denyOut"),
            (&[], &["1.1.1.1/"], "denyOut"),
            (&[], &[""], "denyOut"),
        ] {
            let error = policy(allow, deny, None).unwrap_err().failure();
            assert!(error.code == 400 && error.message.starts_with(field), "{allow:?} {deny:?}: {error:?}");
        }
        let many: Vec<String> =
            (0..257).map(|number| format!("1.1.{}.{}", number / 256, number % 256)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(policy(&[], &many, None).is_err());
    }
}
