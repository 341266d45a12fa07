//! A sandbox's network in the words of E2B's clients: where it may go, and who may reach it:
//! `policy` makes our policies of their lists, `rules` keeps the headers that are set in what it
//! sends. What cannot be held to is refused, not ignored.

mod policy;
mod rules;

use axum::extract::State;
use http::StatusCode;
use serde_json::Value;
use warren_core::{NetworkPolicy, Owner, SandboxRecord, Traffic, TrafficError};
use warren_engine::Patch;
use warren_face::auth::Caller;

use self::policy::{PolicyFacts, Wish};
use crate::ENVD_PORT;
use crate::annotation::Annotation;
use crate::error::E2bError;
use crate::extract::{Body, Id};
use crate::rest::{EgressProxy, NetworkConfig, NetworkUpdate};
use crate::shown::find;
use crate::state::BY;
use crate::state::E2b;

/// The network of a new sandbox.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) policy: NetworkPolicy,
    /// As its client wrote it, but for what is secret.
    pub(crate) shown: Option<Value>,
    pub(crate) traffic: Traffic,
}

/// Plans the network of a new sandbox. Secrets of its policy are stored already: if the sandbox is
/// not made after all, they are discarded.
pub(crate) async fn plan(
    state: &E2b,
    caller: &Caller,
    network: Option<&NetworkConfig>,
    allow_internet_access: Option<bool>,
) -> Result<Plan, E2bError> {
    let nothing = NetworkConfig::default();
    let asked = network.unwrap_or(&nothing);
    refuse_unheld(asked.dns_servers.as_deref(), asked.egress_proxy.as_ref())?;
    let traffic = traffic(asked)?;
    let linked = state.networks.unavailable().is_none();
    let facts = PolicyFacts { settings: &state.settings.network, linked };
    let mut policy = Wish::of(asked, allow_internet_access).policy(facts)?;
    policy.secrets.extend(rules::keep(&state.engine.as_(caller).secrets(), asked.rules.as_ref()).await?);
    let plan = Plan { policy, shown: network.map(shown), traffic };
    if let Err(error) = check_secrets(&plan.policy) {
        plan.discard(state, caller).await;
        return Err(error);
    }
    Ok(plan)
}

impl Plan {
    /// The sandbox was not made.
    pub(crate) async fn discard(self, state: &E2b, caller: &Caller) {
        drop_secrets(state, &caller.owner, &self.policy).await;
    }
}

/// A sandbox is gone, and what was kept for it alone goes too.
pub(crate) async fn forget(state: &E2b, record: &SandboxRecord) {
    drop_secrets(state, &record.owner, &record.spec.network).await;
}

/// Nobody vouches for a sandbox's identity here.
pub(crate) fn refuse_iam(iam: Option<&Value>) -> Result<(), E2bError> {
    let tokens = iam.and_then(|iam| iam.get("tokens")).and_then(Value::as_object);
    if tokens.is_none_or(serde_json::Map::is_empty) {
        return Ok(());
    }
    Err(E2bError::bad_request("iam.tokens: this server issues no identity tokens; leave them out"))
}

/// Row 14: this holds from now on, and nothing else that was said before.
pub(crate) async fn set(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    Body(update): Body<NetworkUpdate>,
) -> Result<StatusCode, E2bError> {
    let record = find(&state, &caller, &id).await?;
    refuse_unheld(update.dns_servers.as_deref(), update.egress_proxy.as_ref())?;
    let old = &record.spec.network;
    let facts = PolicyFacts { settings: &state.settings.network, linked: !old.is_none() };
    let mut policy = Wish::of_update(&update).policy(facts)?;
    policy.secrets.extend(rules::keep(&state.engine.as_(&caller).secrets(), update.rules.as_ref()).await?);
    if let Err(error) = replace(&state, &caller, &record, &policy).await {
        drop_secrets(&state, &caller.owner, &policy).await;
        return Err(error);
    }
    drop_secrets(&state, &caller.owner, old).await;
    let annotations = remembered(&record, &update).written_to(record.annotations.clone());
    let patch = Patch { annotations: Some(annotations), ..Patch::default() };
    state.engine.as_(&caller).sandbox(&id).update(patch).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn replace(
    state: &E2b,
    caller: &Caller,
    record: &SandboxRecord,
    policy: &NetworkPolicy,
) -> Result<(), E2bError> {
    check_secrets(policy)?;
    if !policy.secrets.is_empty() && record.spec.network.secrets.is_empty() && record.is_live() {
        let message = "rules: headers can be set only in a sandbox that was made with rules: its programs have to trust the server that \
                       sets them, and are told so when it starts; make it with rules";
        return Err(E2bError::bad_request(message));
    }
    state.engine.as_(caller).sandbox(&record.id).network().set(policy.clone()).await?;
    Ok(())
}

/// The annotation after an update. Fields that an update does not have stay as they are.
fn remembered(record: &SandboxRecord, update: &NetworkUpdate) -> Annotation {
    let mut annotation = Annotation::of(record);
    let earlier = annotation.network.and_then(|shown| serde_json::from_value::<NetworkConfig>(shown).ok());
    let network = NetworkConfig {
        allow_out: update.allow_out.clone(),
        deny_out: update.deny_out.clone(),
        dns_servers: update.dns_servers.clone(),
        egress_proxy: None,
        rules: update.rules.clone(),
        ..earlier.unwrap_or_default()
    };
    annotation.network = Some(shown(&network)).filter(|_| network != NetworkConfig::default());
    annotation.allow_internet_access = update.allow_internet_access;
    annotation
}

fn shown(network: &NetworkConfig) -> Value {
    let rules = network.rules.as_ref().map(rules::without_values);
    serde_json::to_value(NetworkConfig { rules, ..network.clone() }).unwrap_or_default()
}

fn refuse_unheld(dns_servers: Option<&[String]>, proxy: Option<&EgressProxy>) -> Result<(), E2bError> {
    if dns_servers.is_some_and(|servers| !servers.is_empty()) {
        let message = "dnsServers: every question is answered by this server's own resolver; leave them out";
        return Err(E2bError::bad_request(message));
    }
    if proxy.is_some() {
        let message = "egressProxy: this server passes nothing on to other proxies; leave it out";
        return Err(E2bError::bad_request(message));
    }
    Ok(())
}

fn check_secrets(policy: &NetworkPolicy) -> Result<(), E2bError> {
    if policy.is_none() && !policy.secrets.is_empty() {
        return Err(E2bError::bad_request("rules: the sandbox has no network in which headers could be set"));
    }
    Ok(())
}

/// The rules for traffic from outside.
fn traffic(network: &NetworkConfig) -> Result<Traffic, E2bError> {
    let traffic = Traffic {
        public: network.allow_public_traffic.unwrap_or(true),
        mask_host: network.mask_request_host.clone().filter(|host| !host.is_empty()),
        https_ports: network.https_ports.clone().unwrap_or_default(),
        wake: None,
    };
    let own = traffic.https_ports.contains(&ENVD_PORT).then_some(TrafficError::HttpsPorts);
    match own.map_or_else(|| traffic.validate(), Err) {
        Ok(()) => Ok(traffic),
        Err(error @ TrafficError::MaskHost) => {
            Err(E2bError::bad_request(format!("maskRequestHost: {error}")))
        }
        Err(error @ TrafficError::HttpsPorts) => {
            let message = format!("httpsPorts: {error}, and {ENVD_PORT} is not one of them");
            Err(E2bError::bad_request(message))
        }
    }
}

async fn drop_secrets(state: &E2b, owner: &Owner, policy: &NetworkPolicy) {
    if let Err(error) = state.engine_as(BY, owner).secrets().drop_transforms(&policy.secrets).await {
        // The engine's sweep finds them.
        tracing::warn!(error = warren_face::error::chain(&error), "secrets of a sandbox are left for later");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: Value) -> NetworkConfig {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn ports_are_everybodys_unless_somebody_says_otherwise() {
        let public = |value| traffic(&config(value)).unwrap().public;
        assert!(public(json!({})) && public(json!({"allowPublicTraffic": true})));
        assert!(public(json!({"allowPublicTraffic": null})) && !public(json!({"allowPublicTraffic": false})));
        let whole =
            traffic(&config(json!({"maskRequestHost": "localhost:${PORT}", "httpsPorts": [8443]}))).unwrap();
        assert_eq!(
            (whole.host_of(80).as_deref(), whole.https_ports.as_slice()),
            (Some("localhost:80"), &[8443][..])
        );
    }

    #[test]
    fn traffic_that_cannot_be_is_refused_by_field() {
        for (value, field) in [
            (json!({"maskRequestHost": "a b"}), "maskRequestHost"),
            (json!({"maskRequestHost": "a\r\nb"}), "maskRequestHost"),
            (json!({"maskRequestHost": "a".repeat(256)}), "maskRequestHost"),
            (json!({"httpsPorts": [0]}), "httpsPorts"),
            (json!({"httpsPorts": [49983]}), "httpsPorts"),
            (json!({"httpsPorts": (1..=65).collect::<Vec<u16>>()}), "httpsPorts"),
        ] {
            let error = traffic(&config(value)).unwrap_err().failure();
            assert!(error.code == 400 && error.message.starts_with(field), "{error:?}");
        }
    }

    #[test]
    fn what_cannot_be_held_to_is_refused() {
        let servers = ["8.8.8.8".to_owned()];
        assert!(refuse_unheld(Some(&servers), None).is_err() && refuse_unheld(Some(&[]), None).is_ok());
        let proxy = EgressProxy { address: "a:1".to_owned(), username: None, password: None, tls: None };
        assert!(refuse_unheld(None, Some(&proxy)).is_err());
        assert!(refuse_iam(Some(&json!({"tokens": {"a": {"audience": "x"}}}))).is_err());
        for nothing in [None, Some(json!(null)), Some(json!({})), Some(json!({"tokens": {}}))] {
            assert!(refuse_iam(nothing.as_ref()).is_ok());
        }
    }
}
