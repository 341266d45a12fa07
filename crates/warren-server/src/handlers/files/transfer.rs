use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use warren_engine::Sandbox;
use warren_face::body::broken_body;
use warren_face::error::{ApiError, Code};
use warren_face::files::{Outgoing, Wanted};
use warren_wire::api;
use warren_wire::guest::{EntryKind, FileOperation, WriteMode};

use super::{call, named};
use crate::convert;
use crate::extract::{Json, Params, SandboxPath};
use crate::state::AppState;

/// Sends a file, or the part of it that is asked for, at the pace at which it is taken.
pub(crate) async fn read(
    SandboxPath(sandbox): SandboxPath,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let path = named(&params, "path")?;
    let wanted = match Wanted::of(&headers) {
        Wanted::Last(count) => last(&sandbox, &params, count).await?,
        wanted => wanted,
    };
    let (offset, length) = match wanted {
        Wanted::From(first, last) => (first, last.map(|last| last - first + 1)),
        Wanted::All | Wanted::Last(_) => (0, None),
    };
    let operation = FileOperation::Read { path, offset, length };
    let reader = sandbox.files().read(call(&params, operation)?).await?;
    let size = reader.entry.size;
    let Some((first, promised)) = wanted.within(size) else { return Ok(outside(size)) };
    let outgoing = Outgoing::open(reader).await?;
    let length = outgoing.length(promised);
    let head = [(CONTENT_LENGTH, length.to_string())];
    let body = outgoing.into_body(length);
    if wanted == Wanted::All {
        return Ok((head, file_headers(), body).into_response());
    }
    let range = format!("bytes {first}-{}/{size}", (first + length).saturating_sub(1));
    Ok((StatusCode::PARTIAL_CONTENT, [(CONTENT_RANGE, range)], head, file_headers(), body).into_response())
}

/// The end of a file is found by its size.
async fn last(sandbox: &Sandbox, params: &Params, count: u64) -> Result<Wanted, ApiError> {
    let operation = FileOperation::Stat { path: named(params, "path")?, follow: true, detail: None };
    let entry = sandbox.files().stat(call(params, operation)?).await?;
    let range = Wanted::Last(count).within(entry.size);
    Ok(range.map_or(Wanted::Last(count), |(first, length)| Wanted::From(first, Some(first + length - 1))))
}

/// There are no such bytes.
fn outside(size: u64) -> Response {
    let error = ApiError::new(Code::RangeNotSatisfiable, format!("the file has {size} bytes"));
    ([(CONTENT_RANGE, format!("bytes */{size}"))], error).into_response()
}

fn file_headers() -> [(http::HeaderName, &'static str); 3] {
    [
        (CONTENT_TYPE, "application/octet-stream"),
        (ACCEPT_RANGES, "bytes"),
        // What a sandbox wrote is never a page of ours.
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]
}

/// As a read would begin.
pub(crate) async fn head(SandboxPath(sandbox): SandboxPath, params: Params) -> Result<Response, ApiError> {
    let operation = FileOperation::Stat { path: named(&params, "path")?, follow: true, detail: None };
    let entry = sandbox.files().stat(call(&params, operation)?).await?;
    if entry.kind != EntryKind::File {
        return Err(ApiError::new(Code::WrongKind, "it is not a regular file"));
    }
    Ok(([(CONTENT_LENGTH, entry.size.to_string())], file_headers()).into_response())
}

/// Writes a file as it arrives. One that is replaced keeps its content until all has arrived,
/// whatever happens on the way.
pub(crate) async fn write(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    params: Params,
    body: Body,
) -> Result<Json<api::Written>, ApiError> {
    let most = state.config.http.max_upload.0;
    if body.size_hint().lower() > most {
        return Err(too_large(most));
    }
    let operation = FileOperation::Write {
        path: named(&params, "path")?,
        mode: if params.flag("append")? { WriteMode::Append } else { WriteMode::Replace },
        permissions: params.text("mode").map(convert::mode).transpose()?,
        parents: params.flag("parents")?,
    };
    let mut file = sandbox.files().write(call(&params, operation)?).await?;
    let (mut pieces, mut left) = (body.into_data_stream(), most);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| broken_body(&error))?;
        left = left.checked_sub(piece.len() as u64).ok_or_else(|| too_large(most))?;
        file.write(piece).await?;
    }
    Ok(Json(api::Written { bytes: file.finish().await? }))
}

fn too_large(most: u64) -> ApiError {
    ApiError::new(Code::PayloadTooLarge, format!("a file may have up to {most} bytes"))
}
