use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _};
use http::HeaderMap;
use http::header::ACCEPT;
use warren_core::{EventRecord, SandboxId, SessionId};
use warren_wire::api;

use crate::auth::Caller;
use crate::convert;
use crate::error::ApiError;
use crate::extract::{Json, Params};
use crate::state::AppState;

const USUAL_LIMIT: u64 = 100;
const MOST: u64 = 1000;

/// Often enough that no proxy on the way takes the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let wanted = Wanted { sandbox: params.parsed("sandbox")?, session: params.parsed("session")? };
    let after = params.number("after", 0, u64::MAX)?;
    let limit = params.number("limit", 1, MOST)?.unwrap_or(USUAL_LIMIT);
    if wants_stream(&headers) {
        let after = last_seen(&headers)?.or(after).unwrap_or_else(|| state.engine.last_event());
        return follow(&state, &caller, after, wanted).await;
    }
    let after = after.unwrap_or(0);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let events = state.engine.events(&caller.owner, after, limit).await?;
    let next_after = events.last().map_or(after, |event| event.number);
    let items = events.iter().filter(|event| wanted.includes(event)).map(convert::event).collect();
    Ok(Json(api::EventPage { items, next_after }).into_response())
}

/// Goes on until the reader goes, the key is revoked, or the server ends.
async fn follow(state: &AppState, caller: &Caller, after: u64, wanted: Wanted) -> Result<Response, ApiError> {
    let events = state.engine.follow_events(&caller.owner, after).await?;
    let guard = caller.guard();
    let stream = lines(events, wanted).take_until(Box::pin(async move { guard.until_cut().await }));
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn lines(
    events: impl Stream<Item = EventRecord>,
    wanted: Wanted,
) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    events.filter_map(move |record| {
        let line = wanted.includes(&record).then(|| line(&record)).flatten();
        std::future::ready(line.map(Ok))
    })
}

fn line(record: &EventRecord) -> Option<sse::Event> {
    let body = convert::event(record);
    let data = serde_json::to_string(&body).ok()?;
    Some(sse::Event::default().id(body.number.to_string()).event(body.event).data(data))
}

/// Which of the owner's events are wanted.
#[derive(Debug)]
struct Wanted {
    sandbox: Option<SandboxId>,
    session: Option<SessionId>,
}

impl Wanted {
    fn includes(&self, record: &EventRecord) -> bool {
        self.sandbox.as_ref().is_none_or(|id| record.sandbox.as_ref() == Some(id))
            && self.session.as_ref().is_none_or(|id| record.session.as_ref() == Some(id))
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|part| {
        part.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| ApiError::invalid("Last-Event-ID", "the header is not the number of an event"))
}
