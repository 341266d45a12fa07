use std::time::Duration;

use warren_core::network::Grant;
use warren_core::{
    Field, NetworkLimits, NetworkPolicy, NetworkRule, NetworkUsage, PolicyField, SandboxId, SecretName,
};
use warren_engine::{EngineError, NetworkAsk, NetworkSettings, NetworkSighting, NetworkView, Wording};
use warren_face::error::{ApiError, name_of, parsed};
use warren_wire::api;

use super::rfc3339;
use super::words::{effect_told, network_mode, network_mode_told, protocol, verdict};

/// Rules that one request may add.
const MOST_NEW_RULES: usize = 64;

/// Longer is for good.
const LONGEST_GRANT: Duration = Duration::from_secs(366 * 86_400);

/// A policy as a body asks for it. `at` is where it stands in the request: empty, or such as
/// `network`.
pub(crate) fn network_policy(
    body: &api::NetworkRequest,
    at: &str,
    settings: &NetworkSettings,
) -> Result<NetworkPolicy, ApiError> {
    let policy = NetworkPolicy {
        mode: network_mode(body.mode),
        allow: rules(&body.allow, &field(at, "allow"))?,
        deny: rules(&body.deny, &field(at, "deny"))?,
        grants: Vec::new(),
        secrets: secrets(&body.secrets, &field(at, "secrets"))?,
        limits: limits(&body.limits, at, settings)?,
    };
    policy
        .validate(&settings.exceptions)
        .map_err(|error| ApiError::invalid(field(at, &error.field.to_string()), error.to_string()))?;
    Ok(policy)
}

/// Rules, each of which is named by its place in the list.
pub(super) fn rules(texts: &[String], at: &str) -> Result<Vec<NetworkRule>, ApiError> {
    texts.iter().enumerate().map(|(index, text)| parsed(format!("{at}[{index}]"), text)).collect()
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
    if let Some(limit) = limits.exceeds(&most) {
        let detail = format!("`{limit}` is more than this server allows");
        return Err(ApiError::invalid(field(at, &PolicyField::Limit(limit).to_string()), detail));
    }
    Ok(limits)
}

fn field(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

pub(super) fn network(policy: &NetworkPolicy) -> api::Network {
    api::Network {
        mode: network_mode_told(policy.mode),
        allow: texts(&policy.allow),
        deny: texts(&policy.deny),
        grants: policy.grants.iter().map(grant).collect(),
        secrets: policy.secrets.iter().map(ToString::to_string).collect(),
        limits: limits_of(policy.limits),
    }
}

/// As it is, for the sandbox of this id.
pub(crate) fn network_status(id: &SandboxId, view: &NetworkView) -> api::NetworkStatus {
    api::NetworkStatus {
        sandbox_id: id.to_string(),
        policy: network(&view.policy),
        addresses: view.addresses.iter().map(ToString::to_string).collect(),
        usage: view.usage.map(network_usage),
        pending: view.pending as u64,
    }
}

pub(crate) fn network_sighting(sighting: &NetworkSighting) -> api::NetworkLogEntry {
    let entry = &sighting.entry;
    api::NetworkLogEntry {
        number: sighting.number,
        at: rfc3339(sighting.at_unix_ms),
        verdict: verdict(entry.verdict),
        protocol: protocol(entry.protocol),
        host: entry.host.clone(),
        address: entry.address.map(|address| address.to_string()),
        port: port(entry.port),
        rule: entry.rule.clone(),
        process: entry.process.clone(),
        count: entry.count,
    }
}

pub(crate) fn network_ask(ask: &NetworkAsk) -> api::NetworkAsk {
    let entry = &ask.entry;
    api::NetworkAsk {
        number: ask.number,
        asked_at: rfc3339(ask.asked_unix_ms),
        expires_at: rfc3339(ask.expires_unix_ms),
        rule: ask.rule.to_string(),
        protocol: protocol(entry.protocol),
        host: entry.host.clone(),
        address: entry.address.map(|address| address.to_string()),
        port: port(entry.port),
        process: entry.process.clone(),
        count: entry.count,
    }
}

/// A policy that somebody may give back as it is.
pub(crate) fn learned_network(policy: &NetworkPolicy) -> api::NetworkRequest {
    api::NetworkRequest {
        mode: network_mode_told(policy.mode),
        allow: texts(&policy.allow),
        deny: texts(&policy.deny),
        secrets: policy.secrets.iter().map(ToString::to_string).collect(),
        limits: api::NetworkLimitsRequest::default(),
    }
}

/// Rules that are to be added: some, and not too many at a time.
pub(crate) fn new_rules(texts: &[String]) -> Result<Vec<NetworkRule>, ApiError> {
    if !(1..=MOST_NEW_RULES).contains(&texts.len()) {
        return Err(ApiError::invalid("rules", format!("`rules` takes 1 to {MOST_NEW_RULES} rules")));
    }
    rules(texts, "rules")
}

/// How long something is granted for, in milliseconds.
pub(crate) fn granted_for(for_s: Option<u64>) -> Result<Option<u64>, ApiError> {
    match for_s {
        Some(0) => Err(ApiError::invalid("for_s", "`for_s` must be at least 1")),
        Some(seconds) if seconds > LONGEST_GRANT.as_secs() => {
            Err(ApiError::invalid("for_s", format!("`for_s` is {} at most", LONGEST_GRANT.as_secs())))
        }
        seconds => Ok(seconds.map(|seconds| seconds * 1000)),
    }
}

/// A refusal of the engine, where a sandbox's network is the whole body.
pub(crate) fn unnested(error: EngineError) -> ApiError {
    match error {
        EngineError::Invalid { field: Field::Network(part), wording } => {
            let name = part.to_string();
            ApiError::invalid(name.as_str(), wording.of(&name))
        }
        error => error.into(),
    }
}

/// A refusal of the engine of the policy that the rules of the body would have made.
pub(crate) fn of_rules(error: EngineError) -> ApiError {
    match error {
        EngineError::Invalid { field: Field::Network(_), wording: Wording::Reason(reason) } => {
            ApiError::invalid("rules", reason)
        }
        EngineError::Invalid { field: field @ Field::Network(_), wording } => {
            ApiError::invalid("rules", wording.of(&name_of(&field)))
        }
        error => error.into(),
    }
}

fn port(port: u16) -> Option<u16> {
    Some(port).filter(|port| *port != 0)
}

fn texts(rules: &[NetworkRule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

fn grant(grant: &Grant) -> api::NetworkGrant {
    api::NetworkGrant {
        rule: grant.rule.to_string(),
        effect: effect_told(grant.effect),
        until: grant.until_unix_ms.map(rfc3339),
        by: grant.by.clone(),
    }
}

fn limits_of(limits: NetworkLimits) -> api::NetworkLimits {
    let NetworkLimits { connections, new_connections_per_s, down_bytes_per_s, up_bytes_per_s } = limits;
    api::NetworkLimits { connections, new_connections_per_s, down_bytes_per_s, up_bytes_per_s }
}

pub(super) fn network_usage(usage: NetworkUsage) -> api::NetworkUsage {
    api::NetworkUsage {
        received_bytes: usage.received_bytes,
        sent_bytes: usage.sent_bytes,
        received_packets: usage.received_packets,
        sent_packets: usage.sent_packets,
        proxied: usage.proxied,
        denied: usage.denied,
    }
}
