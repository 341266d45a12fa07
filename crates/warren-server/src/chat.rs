//! The chat service under `/api/v1`: one sandbox for each chat, in the words of a contract that
//! other services already speak.
//!
//! It is a face like any other: the engine decides, and this translates. Its errors are `{"detail":
//! …}`, also those that the layers around it answer ([`in_its_own_words`]). The endpoint that it
//! names is an address of this machine alone, forwarded to the port on which the service inside the
//! sandbox listens (`forward`).

mod body;
mod forward;
mod refusal;

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use warren_engine::HealthStatus;
use warren_face::auth::Caller;
use warren_face::body::read_body;
use warren_face::extract::{Json, no_json, says_json};
use warren_face::route::{self, Route};

use self::body::{Chat, Deleted};
use self::forward::Forwarders;
use self::refusal::Refusal;
use crate::state::AppState;

const PREFIX: &str = "/api/v1/";

/// A create names three short things.
const MOST_BODY_BYTES: usize = 64 << 10;

type Row = Route<MethodRouter<AppState>>;

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    vec![
        Route::post("/api/v1/create", "create_chat", create)
            .does("Make the sandbox of a chat, or find the one that it has")
            .any_query(),
        Route::delete("/api/v1/sandboxes/{chat_id}", "end_chat", end)
            .does("End the sandbox of a chat")
            .any_query(),
        Route::get("/api/v1/health", "chat_health", health)
            .does("See whether the service takes new work")
            .public()
            .of_server()
            .any_query(),
    ]
});

/// Every route of the chat service.
pub(crate) fn table() -> &'static [Row] {
    &TABLE
}

/// The routes of the chat service, each behind its key.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let forwarders = Arc::new(Forwarders::new(state.shutdown.clone()));
    route::router(table(), state).layer(Extension(forwarders))
}

/// A layer: whatever goes wrong under `/api/v1` is told as this contract tells it.
pub(crate) async fn in_its_own_words(request: Request, next: Next) -> Response {
    let ours = request.uri().path().starts_with(PREFIX);
    let response = next.run(request).await;
    if ours { refusal::reworded(response).await } else { response }
}

async fn health(State(state): State<AppState>) -> (StatusCode, Json<serde_json::Value>) {
    match state.engine.health().await.status {
        HealthStatus::Ok | HealthStatus::Warning => (StatusCode::OK, Json(json!({"status": "ok"}))),
        HealthStatus::Critical => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "critical"}))),
    }
}

async fn create(
    State(state): State<AppState>,
    Extension(forwarders): Extension<Arc<Forwarders>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Chat>, Refusal> {
    if !says_json(&headers) {
        return Err(no_json().into());
    }
    let request = body::create(&read_body(body, MOST_BODY_BYTES).await?)?;
    let engine = state.engine.as_(&caller);
    let chat = engine.chats().serve(request).await?;
    match forwarders.expose(&engine.sandbox(&chat.sandbox), chat.port).await {
        Ok(endpoint) => Ok(Json(Chat::new(chat, endpoint))),
        Err(error) => {
            // A sandbox that nobody can reach is of no use, and would be in the way of the next
            // try.
            state.engine.as_(&caller.named("chat service: no endpoint")).chats().end(&chat.chat).await?;
            Err(Refusal::start_failed_by(error))
        }
    }
}

async fn end(
    State(state): State<AppState>,
    Extension(forwarders): Extension<Arc<Forwarders>>,
    caller: Caller,
    Path(chat_id): Path<String>,
) -> Result<Json<Deleted>, Refusal> {
    let chat = body::chat_id(&chat_id)?;
    let ended = state.engine.as_(&caller).chats().end(&chat).await?;
    if let Some(ended) = &ended {
        forwarders.close(&ended.sandbox).await;
    }
    Ok(Json(Deleted::new(chat, ended)))
}
