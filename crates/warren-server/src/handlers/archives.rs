//! Snapshots on their way out of and into the server.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use warren_core::{ImportFormat, TemplateName};
use warren_engine::{ExportOrder, Point, ToldSize};
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::transfer::{self, Incoming, Pace, export};
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, Params, SnapshotPath, point_in};
use crate::state::AppState;

pub(crate) async fn take_out(
    State(state): State<AppState>,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
    params: Params,
) -> Result<Response, ApiError> {
    let since = match params.text("since") {
        Some(since) => Some(point_in("since", since, &state, &caller).await?),
        None => None,
    };
    let (order, kind, ending) = export_order(&params, since)?;
    let size = Arc::new(OnceLock::new());
    let sized = params.flag("size")?.then(|| told(&size));
    let name = format!("attachment; filename=\"{id}.{ending}\"");
    let snapshots = state.engine.as_(&caller).snapshots();
    let body = export(Pace::OfClient, move |to| async move {
        snapshots.export_sized(&Point::Snapshot(id), order, sized, to).await.map_err(ApiError::from)
    });
    let headers = [
        (CONTENT_TYPE, kind.to_owned()),
        (CONTENT_DISPOSITION, name),
        // What a sandbox wrote is never a page of ours.
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    let mut answer = (headers, body.await?).into_response();
    if let Some(size) = size.get() {
        answer.headers_mut().insert(api::EXPORT_SIZE_HEADER, HeaderValue::from(*size));
    }
    Ok(answer)
}

/// Keeps a size for the answer's head, which leaves with the first byte of the body.
fn told(size: &Arc<OnceLock<u64>>) -> ToldSize {
    let size = Arc::clone(size);
    Box::new(move |bytes| {
        size.set(bytes).ok();
    })
}

/// The export that the query asks for, its media type, and its file's ending.
fn export_order(
    params: &Params,
    since: Option<Point>,
) -> Result<(ExportOrder, &'static str, &'static str), ApiError> {
    let below = convert::inside_or_root(params, "path")?;
    let format = params.text("format").unwrap_or("tar");
    let exclude: Vec<String> = params.all("exclude").map(str::to_owned).collect();
    let leave_out = convert::leave_out(params.flag("leave_ignored")?, exclude)?;
    if format != "patch" && !leave_out.is_empty() {
        let field = if leave_out.ignored { "leave_ignored" } else { "exclude" };
        return Err(ApiError::invalid(field, format!("`{field}` is not for the format `{format}`")));
    }
    let alone = |field: &'static str| match params.text(field) {
        Some(_) => Err(ApiError::invalid(field, format!("`{field}` is not for the format `{format}`"))),
        None => Ok(()),
    };
    match format {
        "tar" => alone("since").map(|()| (ExportOrder::Tar { below }, "application/x-tar", "tar")),
        "patch" => {
            let since = since.ok_or_else(|| ApiError::invalid("since", "a patch needs `since`"))?;
            Ok((ExportOrder::Patch { since, below, leave_out }, "text/x-patch", "patch"))
        }
        "history" => {
            alone("since").and_then(|()| alone("path"))?;
            Ok((ExportOrder::History, "application/octet-stream", "warren"))
        }
        _ => Err(ApiError::invalid("format", "`format` is `tar`, `patch` or `history`")),
    }
}

pub(crate) async fn bring_in(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<(StatusCode, Json<api::SnapshotList>), ApiError> {
    let (format, template) = import_order(&params)?;
    let name = params.text("name").map(|name| convert::snapshot_name("name", name.to_owned())).transpose()?;
    let checked = state.engine.clone();
    let most = state.config.http.max_upload.0;
    let (source, outcome) = Incoming::new(transfer::reader(body), most, move || checked.check_disk());
    let imported =
        state.engine.as_(&caller).snapshots().import(format, template, name, Box::new(source)).await;
    let records = imported.map_err(|error| outcome.blame(error))?;
    let items = records.iter().map(convert::snapshot).collect();
    Ok((StatusCode::CREATED, Json(api::SnapshotList { items })))
}

fn import_order(params: &Params) -> Result<(ImportFormat, Option<TemplateName>), ApiError> {
    let template = params.parsed("template")?;
    match (params.text("format").unwrap_or("history"), template) {
        ("tar", None) => Err(ApiError::invalid("template", "a tar file needs a `template` to stand on")),
        ("tar", template) => Ok((ImportFormat::Tar, template)),
        ("history", None) => Ok((ImportFormat::History, None)),
        ("history", Some(_)) => Err(ApiError::invalid("template", "a history says itself what it stands on")),
        _ => Err(ApiError::invalid("format", "`format` is `tar` or `history`")),
    }
}
