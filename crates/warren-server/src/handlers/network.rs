use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::HeaderMap;
use warren_core::SandboxId;
use warren_engine::{NetworkView, Sandbox};
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::sse::{self, Message};
use warren_wire::api;

use crate::convert;
use crate::extract::{AskPath, Json, Params, SandboxPath};
use crate::state::AppState;

const USUAL_LIMIT: u64 = 100;
const MOST: u64 = 1000;

type Answer = Result<Json<api::NetworkStatus>, ApiError>;

pub(crate) async fn get(SandboxPath(sandbox): SandboxPath) -> Answer {
    let view = sandbox.network().view().await?;
    Ok(status(sandbox.id(), &view))
}

pub(crate) async fn set(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::NetworkRequest>,
) -> Answer {
    let policy = convert::network_policy(&body, "", &state.settings.network)?;
    let view = sandbox.network().set(policy).await;
    Ok(status(sandbox.id(), &view.map_err(convert::unnested)?))
}

pub(crate) async fn allow(
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::ChangeNetworkRules>,
) -> Answer {
    let (rules, for_ms) = (convert::new_rules(&body.rules)?, convert::granted_for(body.for_s)?);
    let view = sandbox.network().allow(rules, for_ms).await;
    Ok(status(sandbox.id(), &view.map_err(convert::of_rules)?))
}

pub(crate) async fn deny(
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::ChangeNetworkRules>,
) -> Answer {
    let (rules, for_ms) = (convert::new_rules(&body.rules)?, convert::granted_for(body.for_s)?);
    let view = sandbox.network().deny(rules, for_ms).await;
    Ok(status(sandbox.id(), &view.map_err(convert::of_rules)?))
}

pub(crate) async fn log(
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let after = params.number("after", 0, u64::MAX)?;
    let limit = params.number("limit", 1, MOST)?.unwrap_or(USUAL_LIMIT);
    if sse::is_wanted(&headers) {
        let after = sse::last_seen(&headers)?.or(after);
        return follow(&caller, &sandbox, after).await;
    }
    let (after, limit) = (after.unwrap_or(0), u32::try_from(limit).unwrap_or(u32::MAX));
    let seen = sandbox.network().log(after, limit).await?;
    let next_after = seen.last().map_or(after, |sighting| sighting.number);
    let items = seen.iter().map(convert::network_sighting).collect();
    Ok(Json(api::NetworkLog { items, next_after }).into_response())
}

/// Goes on until the reader goes, the sandbox is removed, the key is revoked, or the server ends.
async fn follow(caller: &Caller, sandbox: &Sandbox, after: Option<u64>) -> Result<Response, ApiError> {
    let seen = sandbox.network().follow_log(after).await?;
    let messages = seen.map(|sighting| {
        let body = convert::network_sighting(&sighting);
        Message::new("entry", &body).id(body.number)
    });
    Ok(sse::answer(caller, messages))
}

pub(crate) async fn requests(
    SandboxPath(sandbox): SandboxPath,
) -> Result<Json<api::NetworkAskList>, ApiError> {
    let asks = sandbox.network().asks().await?;
    Ok(Json(api::NetworkAskList { items: asks.iter().map(convert::network_ask).collect() }))
}

pub(crate) async fn answer(
    SandboxPath(sandbox): SandboxPath,
    AskPath(number): AskPath,
    Json(body): Json<api::AnswerNetworkAsk>,
) -> Answer {
    let (effect, for_ms) = (convert::effect(body.answer), convert::granted_for(body.for_s)?);
    let network = sandbox.network();
    let view = network.answer(number, effect, for_ms).await?;
    Ok(status(sandbox.id(), &view))
}

pub(crate) async fn learned(
    SandboxPath(sandbox): SandboxPath,
) -> Result<Json<api::NetworkRequest>, ApiError> {
    let policy = sandbox.network().learned().await?;
    Ok(Json(convert::learned_network(&policy)))
}

fn status(id: &SandboxId, view: &NetworkView) -> Json<api::NetworkStatus> {
    Json(convert::network_status(id, view))
}
