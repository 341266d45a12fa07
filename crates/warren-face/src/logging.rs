use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use warren_core::{KeyId, Owner, SandboxId};

use crate::desk::Desk;
use crate::error::Code;
use crate::request_id::RequestId;

/// The caller, for the log line of the request.
#[derive(Debug, Clone)]
pub(crate) struct AskedBy {
    pub(crate) owner: Owner,
    pub(crate) key: Option<KeyId>,
}

/// A layer: writes a line for the request, and counts it.
pub(crate) async fn layer(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    // Not the path itself, and never the query: both are the client's to fill.
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let sandbox = request.uri().path().split('/').find_map(|part| part.parse::<SandboxId>().ok());
    let request_id = request.extensions().get::<RequestId>().map(RequestId::to_string).unwrap_or_default();
    let response = next.run(request).await;
    let took = began.elapsed();
    let status = response.status().as_u16();
    desk.counters.answered(&method, &route, status, took);
    let asked_by = response.extensions().get::<AskedBy>();
    tracing::info!(
        request_id,
        %method,
        route,
        status,
        ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        owner = asked_by.map(|by| by.owner.as_str()),
        key = asked_by.and_then(|by| by.key.as_ref()).map(KeyId::as_str),
        sandbox = sandbox.as_ref().map(SandboxId::as_str),
        code = response.extensions().get::<Code>().map(|code| code.as_str()),
        "request"
    );
    response
}
