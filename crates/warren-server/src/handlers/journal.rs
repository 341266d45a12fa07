use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, Params, SandboxPath};

const USUAL_LIMIT: u64 = 100;
pub(crate) const MOST: u64 = 1000;

pub(crate) async fn list(
    SandboxPath(sandbox): SandboxPath,
    params: Params,
) -> Result<Json<api::Journal>, ApiError> {
    let before = params.number("before", 0, u64::MAX)?;
    let limit = params.number("limit", 1, MOST)?.unwrap_or(USUAL_LIMIT);
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let entries = sandbox.history().log(before, most, params.flag("count")?).await?;
    let full = entries.len() as u64 >= limit;
    let last = entries.last().map(|log| log.entry.number).filter(|number| full && *number > 1);
    Ok(Json(api::Journal { items: entries.iter().map(convert::log_entry).collect(), next_before: last }))
}

pub(crate) async fn blame(
    SandboxPath(sandbox): SandboxPath,
    params: Params,
) -> Result<Json<api::Blame>, ApiError> {
    let given = params.text("path").ok_or_else(|| ApiError::invalid("path", "`path` is missing"))?;
    let path = convert::inside("path", given)?;
    let blame = sandbox.history().blame(&path).await?;
    let items = blame.entries.iter().map(convert::journal_entry).collect();
    let state = Some(convert::path_state(blame.state));
    Ok(Json(api::Blame { path: given.to_owned(), items, state }))
}
