use axum::extract::State;
use axum::response::Response;
use futures_util::{Stream, StreamExt as _, stream};
use warren_engine::{Listing, Watch};
use warren_wire::api;
use warren_wire::guest::{FileEntry, FileOperation, GrepQuery};

use super::{call, named};
use crate::auth::Caller;
use crate::convert;
use crate::error::ApiError;
use crate::extract::{Json, Params, SandboxPath};
use crate::sse::{self, Message};
use crate::state::AppState;

/// Entries of a list, and matches of a search.
pub(crate) const USUAL_LIMIT: u64 = 1000;
pub(crate) const MOST: u64 = 10_000;
pub(crate) const MOST_DEPTH: u64 = 64;

pub(crate) async fn stat(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    params: Params,
) -> Result<Json<api::FileInfo>, ApiError> {
    let operation =
        FileOperation::Stat { path: named(&params, "path")?, follow: params.flag("follow")?, detail: None };
    let entry = state.engine_of(&caller).stat(&caller.owner, &id, call(&params, operation)?).await?;
    Ok(Json(convert::file_info(entry)))
}

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    params: Params,
) -> Result<Json<api::FileList>, ApiError> {
    let depth = params.number("depth", 1, MOST_DEPTH)?.unwrap_or(1);
    let depth = u32::try_from(depth).unwrap_or(u32::MAX);
    let operation = FileOperation::List { path: named(&params, "path")?, depth, detail: None };
    let listing = state.engine_of(&caller).entries(&caller.owner, &id, call(&params, operation)?).await?;
    collect(listing, limit(&params)?).await.map(Json)
}

pub(crate) async fn glob(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    params: Params,
) -> Result<Json<api::FileList>, ApiError> {
    let most = limit(&params)?;
    let (root, pattern) = (named(&params, "root")?, named(&params, "pattern")?);
    let operation = FileOperation::Glob { root, pattern, limit: one_more(most) };
    let listing = state.engine_of(&caller).entries(&caller.owner, &id, call(&params, operation)?).await?;
    collect(listing, most).await.map(Json)
}

pub(crate) async fn grep(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    params: Params,
) -> Result<Json<api::GrepResult>, ApiError> {
    let most = limit(&params)?;
    let query = GrepQuery {
        root: named(&params, "root")?,
        pattern: named(&params, "pattern")?.to_text().into_owned(),
        ignore_case: params.flag("ignore_case")?,
        files: params.text("files").map(|glob| convert::path("files", glob)).transpose()?,
        limit: one_more(most),
    };
    let call = call(&params, FileOperation::Grep(query))?;
    let mut matches = state.engine_of(&caller).grep(&caller.owner, &id, call).await?;
    let truncated = matches.len() > most;
    matches.truncate(most);
    Ok(Json(api::GrepResult { items: matches.into_iter().map(convert::grep_line).collect(), truncated }))
}

pub(crate) async fn watch(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    params: Params,
) -> Result<Response, ApiError> {
    let (path, recursive) = (named(&params, "path")?, params.flag("recursive")?);
    let call = call(&params, FileOperation::Watch { path, recursive })?;
    let watch = state.engine_of(&caller).watch(&caller.owner, &id, call).await?;
    Ok(sse::answer(&caller, changes(watch)))
}

fn limit(params: &Params) -> Result<usize, ApiError> {
    let limit = params.number("limit", 1, MOST)?.unwrap_or(USUAL_LIMIT);
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// What is asked of the agent, so that it shows whether there is more.
fn one_more(most: usize) -> u32 {
    u32::try_from(most).unwrap_or(u32::MAX).saturating_add(1)
}

/// So many of the entries. The agent stops as soon as the listing is dropped.
async fn collect(mut listing: Listing, most: usize) -> Result<api::FileList, ApiError> {
    let mut entries: Vec<FileEntry> = Vec::new();
    while entries.len() <= most {
        let Some(part) = listing.next().await? else { break };
        entries.extend(part);
    }
    let truncated = entries.len() > most;
    entries.truncate(most);
    Ok(api::FileList { items: entries.into_iter().map(convert::file_info).collect(), truncated })
}

fn changes(watch: Watch) -> impl Stream<Item = Message> + Send + 'static {
    let parts = stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(events) => {
                let changes = events?.into_iter().map(convert::file_change);
                let messages: Vec<Message> = changes.map(|change| Message::new("changed", &change)).collect();
                Some((messages, Some(watch)))
            }
            Err(error) => Some((vec![Message::error(error.into())], None)),
        }
    });
    let begun = stream::iter([Message::new("watching", &serde_json::json!({}))]);
    begun.chain(parts.flat_map(stream::iter))
}
