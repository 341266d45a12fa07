//! The server's log: one line for each request, and whatever else is worth a line. Never a key, a variable's value or a body.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};
use warren_core::{KeyId, Owner, SandboxId};

use crate::config::{Log, LogFormat};
use crate::error::Code;
use crate::request_id::RequestId;
use crate::state::AppState;

/// Who asked, for the log line of the request.
#[derive(Debug, Clone)]
pub(crate) struct AskedBy {
    pub(crate) owner: Owner,
    pub(crate) key: Option<KeyId>,
}

/// What writes the log, as the settings say.
pub fn subscriber<W>(log: &Log, writer: W) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Text => Box::new(lines.with_ansi(false)),
        LogFormat::Json => Box::new(lines.json().flatten_event(true)),
    };
    // All our crates begin with this word, so a new one is not forgotten.
    let ours = tracing_subscriber::filter::Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("warren", log.level.0);
    Registry::default().with(lines.with_filter(ours))
}

/// A layer: writes a line for the request, and counts it.
pub(crate) async fn layer(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    // Not the path itself, and never the query: both are the client's to fill.
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let sandbox = request.uri().path().split('/').find_map(|part| part.parse::<SandboxId>().ok());
    let request_id = request.extensions().get::<RequestId>().map(RequestId::to_string).unwrap_or_default();
    let response = next.run(request).await;
    let took = began.elapsed();
    let status = response.status().as_u16();
    state.metrics.answered(&method, &route, status, took);
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
