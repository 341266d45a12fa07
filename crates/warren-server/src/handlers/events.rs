use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::HeaderMap;
use warren_core::catalog::EventFilter;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::sse::{self, Message};
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, Params, sandbox_param};
use crate::state::AppState;

const USUAL_LIMIT: u64 = 100;
const MOST: u64 = 1000;

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let name = params.given("sandbox_id", "sandbox");
    let sandbox = sandbox_param(name, &params, &state, &caller).await?;
    let wanted = EventFilter { sandbox, session: params.parsed_as("session_id", "session")? };
    let after = params.number("after", 0, u64::MAX)?;
    let limit = params.number("limit", 1, MOST)?.unwrap_or(USUAL_LIMIT);
    if sse::is_wanted(&headers) {
        let after = match sse::last_seen(&headers)?.or(after) {
            Some(after) => after,
            None => state.engine.last_event().await,
        };
        return follow(&state, &caller, after, wanted).await;
    }
    let after = after.unwrap_or(0);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let (events, next_after) = state.engine.as_(&caller).events().find(wanted, after, limit).await?;
    let items = events.iter().map(convert::event).collect();
    Ok(Json(api::EventPage { items, next_after }).into_response())
}

/// Goes on until the reader goes, the key is revoked, or the server ends.
async fn follow(
    state: &AppState,
    caller: &Caller,
    after: u64,
    wanted: EventFilter,
) -> Result<Response, ApiError> {
    let events = state.engine.as_(caller).events().follow(after).await?;
    let messages = events.filter_map(move |record| {
        let message = wanted.includes(&record).then(|| {
            let body = convert::event(&record);
            Message::new(body.event.clone(), &body).id(body.number)
        });
        std::future::ready(message)
    });
    Ok(sse::answer(caller, messages))
}
