use serde_json::Value;
use warren_core::NetworkPolicy;
use warren_e2b::rest;

use super::E2bError;
use crate::auth::Caller;
use crate::e2b::Traffic;
use crate::state::AppState;

/// What a new sandbox may reach, and who may reach it.
pub(super) struct Plan {
    pub(super) policy: NetworkPolicy,
    pub(super) shown: Option<Value>,
    pub(super) traffic: Traffic,
}

impl Plan {
    pub(super) async fn discard(self, _: &AppState, _: &Caller) {}
}

pub(super) async fn plan(
    state: &AppState,
    _: &Caller,
    network: Option<&rest::NetworkConfig>,
    _: Option<bool>,
) -> Result<Plan, E2bError> {
    let public = network.and_then(|network| network.allow_public_traffic).unwrap_or(true);
    Ok(Plan {
        policy: state.settings.network.default.clone(),
        shown: None,
        traffic: Traffic { public, ..Traffic::default() },
    })
}
