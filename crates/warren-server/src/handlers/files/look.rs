use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt as _, stream};
use warren_engine::{Listing, Matches, Place, Watch};
use warren_face::Held;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::sse::{self, Message};
use warren_wire::api;
use warren_wire::guest::{ByteString, FileEntry, FileOperation, GrepQuery};

use super::{call, named};
use crate::convert;
use crate::extract::{Json, Params, SandboxPath};

/// Entries of a list, and matches of a search.
pub(crate) const USUAL_LIMIT: u64 = 1000;
pub(crate) const MOST: u64 = 10_000;
/// Bytes of paths in a list; with more it is cut.
const MOST_BYTES: usize = 4 << 20;
pub(crate) const MOST_DEPTH: u64 = 64;

pub(crate) async fn stat(
    SandboxPath(sandbox): SandboxPath,
    params: Params,
) -> Result<Json<api::FileInfo>, ApiError> {
    let operation =
        FileOperation::Stat { path: named(&params, "path")?, follow: params.flag("follow")?, detail: None };
    let entry = sandbox.files().stat(call(&params, operation)?).await?;
    Ok(Json(convert::file_info(entry)))
}

pub(crate) async fn list(SandboxPath(sandbox): SandboxPath, params: Params) -> Result<Response, ApiError> {
    let depth = params.number("depth", 1, MOST_DEPTH)?.unwrap_or(1);
    let depth = u32::try_from(depth).unwrap_or(u32::MAX);
    let operation = FileOperation::List { path: named(&params, "path")?, depth, detail: None };
    let listing = sandbox.files().entries(call(&params, operation)?).await?;
    collect(listing, limit(&params)?).await
}

pub(crate) async fn glob(SandboxPath(sandbox): SandboxPath, params: Params) -> Result<Response, ApiError> {
    let most = limit(&params)?;
    let (root, pattern) = (searched(&params)?, named(&params, "pattern")?);
    let operation = FileOperation::Glob { root, pattern, limit: one_more(most) };
    let listing = sandbox.files().entries(call(&params, operation)?).await?;
    collect(listing, most).await
}

pub(crate) async fn grep(SandboxPath(sandbox): SandboxPath, params: Params) -> Result<Response, ApiError> {
    let most = limit(&params)?;
    let query = GrepQuery {
        root: searched(&params)?,
        pattern: named(&params, "pattern")?.to_text().into_owned(),
        ignore_case: params.flag("ignore_case")?,
        files: params.text("files").map(|glob| convert::path("files", glob)).transpose()?,
        limit: one_more(most),
    };
    let call = call(&params, FileOperation::Grep(query))?;
    let Matches { items, more, place } = sandbox.files().grep(call).await?;
    let truncated = more || items.len() > most;
    let items = items.into_iter().take(most).map(convert::grep_line).collect();
    Ok(held(Json(api::GrepResult { items, truncated }), place))
}

pub(crate) async fn watch(
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    params: Params,
) -> Result<Response, ApiError> {
    let (path, recursive) = (named(&params, "path")?, params.flag("recursive")?);
    let call = call(&params, FileOperation::Watch { path, recursive })?;
    let watch = sandbox.files().watch(call).await?;
    Ok(sse::answer(&caller, changes(watch)))
}

/// Where to look.
fn searched(params: &Params) -> Result<ByteString, ApiError> {
    named(params, params.given("path", "root"))
}

fn limit(params: &Params) -> Result<usize, ApiError> {
    let limit = params.number("limit", 1, MOST)?.unwrap_or(USUAL_LIMIT);
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// One more than is shown, so that the agent's answer tells if there is more.
fn one_more(most: usize) -> u32 {
    u32::try_from(most).unwrap_or(u32::MAX).saturating_add(1)
}

/// So many of the entries. The agent stops as soon as the listing is dropped.
async fn collect(mut listing: Listing, most: usize) -> Result<Response, ApiError> {
    let (mut entries, mut bytes): (Vec<FileEntry>, usize) = (Vec::new(), 0);
    while entries.len() <= most && bytes <= MOST_BYTES {
        let Some(part) = listing.next().await? else { break };
        bytes += part.iter().map(told_bytes).sum::<usize>();
        entries.extend(part);
    }
    let truncated = entries.len() > most || bytes > MOST_BYTES;
    entries.truncate(most);
    let items = entries.into_iter().map(convert::file_info).collect();
    Ok(held(Json(api::FileList { items, truncated }), listing.leave()))
}

/// Bytes of an entry that a sandbox can make as many as it likes.
fn told_bytes(entry: &FileEntry) -> usize {
    entry.path.as_bytes().len() + entry.target.as_ref().map_or(0, |target| target.as_bytes().len())
}

/// An answer that keeps its place until it has been sent: until then it takes memory.
fn held(answer: impl IntoResponse, place: Option<Place>) -> Response {
    answer.into_response().map(|body| Body::new(Held::new(body, place)))
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
