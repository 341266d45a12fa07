//! Leave to reach the network, asked for in the middle of a call: the call is answered with the
//! question, and made again with the answer. The process that waits goes on meanwhile.

use std::time::Duration;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, JsonObject, ProtocolVersion,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use warren_core::network::GrantEffect;
use warren_core::{ErrorCode, NetworkMode};
use warren_engine::{NetworkAsk, Sandbox};
use warren_face::error::ApiError;

use super::Call;

/// How often somebody looks for what waits.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Questions in one answer.
const MOST_ASKED: usize = 8;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;
/// The beginning of a question's name; its number follows.
const NAME: &str = "network-";

/// A process that was begun by an earlier call, and is waited for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) process: u64,
    pub(super) entry: Option<u64>,
}

impl Begun {
    /// The text that the client gives back. Nothing in it is trusted: the process is looked up in
    /// the caller's own sandbox.
    fn state(self) -> String {
        format!("{}.{}", self.process, self.entry.unwrap_or(0))
    }

    /// The process that a repeated call is about, if it is one.
    pub(super) fn of(call: &Call<'_>) -> Result<Option<Self>, ApiError> {
        let Some(state) = &call.state else { return Ok(None) };
        let numbers = state.split_once('.').and_then(|(process, entry)| {
            let entry: u64 = entry.parse().ok()?;
            Some(Self { process: process.parse().ok()?, entry: Some(entry).filter(|entry| *entry > 0) })
        });
        let wrong = || ApiError::invalid("requestState", "this is not what an earlier answer said");
        numbers.map(Some).ok_or_else(wrong)
    }
}

/// Returns what a sandbox waits for, once it does. Never, where nobody could be asked.
pub(super) async fn asked(call: &Call<'_>, sandbox: &Sandbox) -> Vec<NetworkAsk> {
    if !takes_questions(call) {
        return std::future::pending().await;
    }
    loop {
        let waiting = pending(sandbox).await;
        if !waiting.is_empty() {
            return waiting;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The connections that wait for an answer, if the sandbox asks at all.
pub(super) async fn pending(sandbox: &Sandbox) -> Vec<NetworkAsk> {
    match sandbox.record().await {
        Ok(record) if record.spec.network.mode == NetworkMode::Ask => {
            let mut asks = sandbox.network().asks().await.unwrap_or_default();
            asks.truncate(MOST_ASKED);
            asks
        }
        _ => Vec::new(),
    }
}

fn takes_questions(call: &Call<'_>) -> bool {
    let version = call.context.protocol_version();
    let is_stateless =
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    let elicitation = call.context.client_capabilities().and_then(|able| able.elicitation);
    // Who names neither form nor address can show forms.
    is_stateless && elicitation.is_some_and(|able| able.form.is_some() || able.url.is_none())
}

/// The question for whoever uses the client.
pub(super) fn question(
    sandbox: &Sandbox,
    asks: &[NetworkAsk],
    begun: Begun,
) -> Result<InputRequiredResult, ApiError> {
    let mut requests = InputRequests::new();
    for ask in asks {
        let whom = ask.entry.process.as_ref().map(|process| format!("`{process}` in ")).unwrap_or_default();
        let message = format!("{whom}the sandbox {} wants to reach {}. May it?", sandbox.id(), ask.rule);
        let requested_schema = ElicitationSchema::from_json_schema(form()).map_err(ApiError::internal)?;
        let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
        requests
            .insert(format!("{NAME}{}", ask.number), InputRequest::Elicitation(ElicitRequest::new(params)));
    }
    Ok(InputRequiredResult::new(Some(requests), Some(begun.state())))
}

fn form() -> JsonObject {
    let form = json!({
        "type": "object",
        "properties": { "allow": {
            "type": "string",
            "title": "Allow it?",
            "enum": ["once", "hour", "no"],
            "description": "once: for a minute. hour: for an hour. no: not for an hour.",
        } },
        "required": ["allow"],
    });
    form.as_object().cloned().unwrap_or_default()
}

/// Passes the answers on. One that comes too late changes nothing.
pub(super) async fn answer(sandbox: &Sandbox, answers: &InputResponses) -> Result<(), ApiError> {
    for (name, told) in answers.iter().take(MOST_ASKED) {
        let Some(number) = name.strip_prefix(NAME).and_then(|number| number.parse().ok()) else { continue };
        let (effect, for_ms) = understood(told);
        match sandbox.network().answer(number, effect, Some(for_ms)).await {
            Err(error) if error.code() != ErrorCode::NetworkRequestNotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Only a clear yes is one.
fn understood(told: &Value) -> (GrantEffect, u64) {
    let accepted = told["action"] == "accept";
    match told["content"]["allow"].as_str().filter(|_| accepted) {
        Some("once") => (GrantEffect::Allow, MINUTE_MS),
        Some("hour") => (GrantEffect::Allow, HOUR_MS),
        _ if told["action"] == "cancel" => (GrantEffect::Deny, MINUTE_MS),
        _ => (GrantEffect::Deny, HOUR_MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_opens_anything() {
        let accept = |allow: &str| json!({"action": "accept", "content": {"allow": allow}});
        assert_eq!(understood(&accept("once")), (GrantEffect::Allow, MINUTE_MS));
        assert_eq!(understood(&accept("hour")), (GrantEffect::Allow, HOUR_MS));
        let declined = json!({"action": "decline", "content": {"allow": "hour"}});
        for told in [accept("no"), accept("ever"), declined, json!({}), json!(null), json!("accept")] {
            assert_eq!(understood(&told), (GrantEffect::Deny, HOUR_MS), "{told}");
        }
        assert_eq!(understood(&json!({"action": "cancel"})), (GrantEffect::Deny, MINUTE_MS));
    }
}
