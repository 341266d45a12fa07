//! `/v1/keys`: API keys. Administrators only.

use axum::extract::{Path, State};
use http::StatusCode;
use warren_core::catalog::{CatalogError, CatalogErrorKind};
use warren_core::{Event, KeyId, KeyRecord, Owner, Scope};
use warren_face::auth::{Caller, NewKey, Secret};
use warren_face::error::{ApiError, Code, parsed};
use warren_wire::api::{CreateKey, Key, KeyList};

use crate::convert::{self, rfc3339};
use crate::extract::Json;
use crate::state::AppState;

const LONGEST_NAME: usize = 128;

/// `POST /v1/keys`
pub(crate) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Json(request): Json<CreateKey>,
) -> Result<(StatusCode, Json<Key>), ApiError> {
    caller.require(Scope::Admin)?;
    let new = checked(request, &caller.owner)?;
    let shared = state.clone();
    let made = blocking(move || {
        let world = (shared.clock.as_ref(), shared.random.as_ref());
        shared.keyring.create(shared.catalog.as_ref(), world, new)
    });
    let (secret, record) = made.await?;
    state.count_owners();
    let event = Event::KeyCreated { key: record.id.to_string(), scope: record.scope };
    state.engine_as(&caller.name, &record.owner).events().add(event);
    Ok((StatusCode::CREATED, Json(body(record, Some(&secret)))))
}

/// `GET /v1/keys`
pub(crate) async fn list(State(state): State<AppState>, caller: Caller) -> Result<Json<KeyList>, ApiError> {
    caller.require(Scope::Admin)?;
    let records = blocking(move || state.catalog.keys(None)).await?;
    Ok(Json(KeyList { items: records.into_iter().map(|record| body(record, None)).collect() }))
}

/// `DELETE /v1/keys/{key_id}`
pub(crate) async fn revoke(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Key>, ApiError> {
    caller.require(Scope::Admin)?;
    let missing = || ApiError::new(Code::KeyNotFound, "there is no such key");
    let id: KeyId = id.parse().map_err(|_| missing())?;
    let shared = state.clone();
    let revoked =
        blocking(move || shared.keyring.revoke(shared.catalog.as_ref(), shared.clock.as_ref(), &id)).await;
    let record = revoked.map_err(|error: CatalogError| match error.kind {
        CatalogErrorKind::NotFound => missing(),
        _ => error.into(),
    })?;
    state.count_owners();
    let event = Event::KeyRevoked { key: record.id.to_string() };
    state.engine_as(&caller.name, &record.owner).events().add(event);
    Ok(Json(body(record, None)))
}

fn checked(request: CreateKey, own: &Owner) -> Result<NewKey, ApiError> {
    let name = request.name;
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(ApiError::invalid(
            "name",
            format!("a name has 1 to {LONGEST_NAME} printable characters"),
        ));
    }
    let owner = match request.owner {
        Some(owner) => parsed("owner", &owner)?,
        None => own.clone(),
    };
    Ok(NewKey { owner, name, scope: convert::scope(request.scope) })
}

fn body(record: KeyRecord, secret: Option<&Secret>) -> Key {
    Key {
        key_id: record.id.to_string(),
        key: secret.map(Secret::shown),
        name: record.name,
        scope: convert::scope_told(record.scope),
        owner: record.owner.to_string(),
        hint: record.hint,
        created_at: rfc3339(record.created_unix_ms),
        revoked_at: record.revoked_unix_ms.map(rfc3339),
    }
}

/// The catalog blocks; the thread that answers requests must not.
async fn blocking<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => std::future::pending().await,
    }
}
