use warren_core::network::{Grant, GrantEffect, PolicyError, RuleError};
use warren_core::{NetworkLimits, NetworkMode, NetworkPolicy, NetworkRule, NetworkUsage, SecretName};
use warren_engine::NetworkSettings;
use warren_wire::api;

use super::time::rfc3339;
use crate::error::ApiError;

/// A policy as a body asks for it. `at` is where it stands in the request: empty, or such as `network`.
pub(crate) fn network_policy(
    body: &api::NetworkRequest,
    at: &str,
    settings: &NetworkSettings,
) -> Result<NetworkPolicy, ApiError> {
    let policy = NetworkPolicy {
        mode: mode(body.mode),
        allow: rules(&body.allow, &field(at, "allow"))?,
        deny: rules(&body.deny, &field(at, "deny"))?,
        grants: Vec::new(),
        secrets: secrets(&body.secrets, &field(at, "secrets"))?,
        limits: limits(&body.limits, at, settings)?,
    };
    policy
        .validate(&settings.exceptions)
        .map_err(|error| ApiError::invalid(field(at, &policy_field(&error)), error.to_string()))?;
    Ok(policy)
}

/// Rules, each of which is named by its place in the list.
pub(crate) fn rules(texts: &[String], at: &str) -> Result<Vec<NetworkRule>, ApiError> {
    let one = |(index, text): (usize, &String)| {
        text.parse()
            .map_err(|error: RuleError| ApiError::invalid(format!("{at}[{index}]"), error.to_string()))
    };
    texts.iter().enumerate().map(one).collect()
}

fn secrets(names: &[String], at: &str) -> Result<Vec<SecretName>, ApiError> {
    let one = |(index, name): (usize, &String)| {
        name.parse().map_err(|_| {
            let detail = "a secret's name has 1 to 64 letters, digits, `-` and `_`, and begins with a letter";
            ApiError::invalid(format!("{at}[{index}]"), detail)
        })
    };
    names.iter().enumerate().map(one).collect()
}

fn limits(
    body: &api::NetworkLimitsRequest,
    at: &str,
    settings: &NetworkSettings,
) -> Result<NetworkLimits, ApiError> {
    let (own, most) = (settings.default.limits, settings.most);
    let limits = NetworkLimits {
        connections: body.connections.unwrap_or(own.connections),
        new_connections_per_s: body.new_connections_per_s.unwrap_or(own.new_connections_per_s),
        down_bytes_per_s: body.down_bytes_per_s.or(own.down_bytes_per_s),
        up_bytes_per_s: body.up_bytes_per_s.or(own.up_bytes_per_s),
    };
    let counts = [
        ("connections", Some(u64::from(limits.connections)), Some(u64::from(most.connections))),
        (
            "new_connections_per_s",
            Some(u64::from(limits.new_connections_per_s)),
            Some(u64::from(most.new_connections_per_s)),
        ),
        ("down_bytes_per_s", limits.down_bytes_per_s, most.down_bytes_per_s),
        ("up_bytes_per_s", limits.up_bytes_per_s, most.up_bytes_per_s),
    ];
    for (name, asked, most) in counts {
        if let (Some(asked), Some(most)) = (asked, most)
            && asked > most
        {
            let detail = format!("`{name}` is {most} at most on this server");
            return Err(ApiError::invalid(field(at, &format!("limits.{name}")), detail));
        }
    }
    Ok(limits)
}

fn field(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

fn policy_field(error: &PolicyError) -> String {
    match error {
        PolicyError::TooMany { field, .. } | PolicyError::NoNetwork { field } => (*field).to_owned(),
        PolicyError::NoList { .. } | PolicyError::Closed { .. } => "allow".to_owned(),
        PolicyError::Limit { field, .. } => format!("limits.{field}"),
        PolicyError::SecretTwice { .. } => "secrets".to_owned(),
    }
}

pub(crate) fn network(policy: &NetworkPolicy) -> api::Network {
    api::Network {
        mode: mode_word(policy.mode),
        allow: texts(&policy.allow),
        deny: texts(&policy.deny),
        grants: policy.grants.iter().map(grant).collect(),
        secrets: policy.secrets.iter().map(ToString::to_string).collect(),
        limits: limits_of(policy.limits),
    }
}

fn texts(rules: &[NetworkRule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

fn grant(grant: &Grant) -> api::NetworkGrant {
    api::NetworkGrant {
        rule: grant.rule.to_string(),
        effect: match grant.effect {
            GrantEffect::Allow => api::NetworkEffect::Allow,
            GrantEffect::Deny => api::NetworkEffect::Deny,
        },
        until: grant.until_unix_ms.map(rfc3339),
        by: grant.by.clone(),
    }
}

fn limits_of(limits: NetworkLimits) -> api::NetworkLimits {
    let NetworkLimits { connections, new_connections_per_s, down_bytes_per_s, up_bytes_per_s } = limits;
    api::NetworkLimits { connections, new_connections_per_s, down_bytes_per_s, up_bytes_per_s }
}

pub(crate) fn network_usage(usage: NetworkUsage) -> api::NetworkUsage {
    api::NetworkUsage {
        received_bytes: usage.received_bytes,
        sent_bytes: usage.sent_bytes,
        received_packets: usage.received_packets,
        sent_packets: usage.sent_packets,
        proxied: usage.proxied,
        denied: usage.denied,
    }
}

fn mode(mode: api::NetworkMode) -> NetworkMode {
    match mode {
        api::NetworkMode::None => NetworkMode::None,
        api::NetworkMode::Public => NetworkMode::Public,
        api::NetworkMode::Allow => NetworkMode::Allow,
        api::NetworkMode::Ask => NetworkMode::Ask,
        api::NetworkMode::Learn => NetworkMode::Learn,
    }
}

fn mode_word(mode: NetworkMode) -> api::NetworkMode {
    match mode {
        NetworkMode::None => api::NetworkMode::None,
        NetworkMode::Public => api::NetworkMode::Public,
        NetworkMode::Allow => api::NetworkMode::Allow,
        NetworkMode::Ask => api::NetworkMode::Ask,
        NetworkMode::Learn => api::NetworkMode::Learn,
    }
}
