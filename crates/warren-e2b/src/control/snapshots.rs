use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use warren_face::auth::Caller;
use warren_face::extract::Params;

use super::list::{MOST, NEXT_TOKEN};
use crate::error::E2bError;
use crate::extract::{Body, Id, find_id};
use crate::page::{Order, Token};
use crate::rest;
use crate::shown::{Shown, find, shown_as};
use crate::state::E2b;
use crate::templates::{self, Kept};

/// Captures the files of a sandbox, which goes on. The state is there before it is known by any
/// name.
pub(crate) async fn take(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    Body(body): Body<rest::TakeSnapshot>,
) -> Result<(StatusCode, Json<rest::SnapshotInfo>), E2bError> {
    let name = templates::snapshot_name(&caller.owner, body.name.as_deref())?;
    let record = find(&state, &caller, &id).await?;
    if shown_as(&record) != Some(Shown::Running) {
        return Err(E2bError::conflict(format!("{id} is paused: connect to it first")));
    }
    let (info, taken) = templates::keep_snapshot(&state, &caller, &id, name).await?;
    state.counters.took(&taken);
    Ok((StatusCode::CREATED, Json(info)))
}

pub(crate) async fn list(
    State(state): State<E2b>,
    caller: Caller,
    params: Params,
) -> Result<(HeaderMap, Json<Vec<rest::SnapshotInfo>>), E2bError> {
    let order = Order::NewestFirst;
    let token = params.text("nextToken").map(|text| Token::read(text, order)).transpose()?;
    let limit = params.number("limit", 1, MOST)?.unwrap_or(MOST);
    let sandbox = match params.text("sandboxID") {
        Some(word) => match find_id(&state, &caller, word).await {
            Ok(id) => Some(id),
            // Of what is no sandbox there are none.
            Err(_) => return Ok((HeaderMap::new(), Json(Vec::new()))),
        },
        None => None,
    };
    let name = params.text("name");
    let mut kept = templates::kept_snapshots(&state, &caller).await?;
    kept.retain(|kept| {
        sandbox.as_ref().is_none_or(|sandbox| kept.sandbox == *sandbox) && is_named(kept, name)
    });
    order.sort(&mut kept, place);
    let mut page: Vec<_> = kept.iter().filter(|kept| order.follows(&place(kept), token.as_ref())).collect();
    let more = page.len() as u64 > limit;
    page.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut headers = HeaderMap::new();
    if let (true, Some(last)) = (more, page.last()) {
        headers.insert(NEXT_TOKEN, place(last).written(order)?);
    }
    Ok((headers, Json(page.into_iter().map(|kept| kept.info.clone()).collect())))
}

fn place(kept: &Kept) -> Token {
    Token::new(kept.created_unix_ms, &*kept.info.snapshot_id)
}

/// A name may be asked for with or without what stands around it.
fn is_named(kept: &Kept, name: Option<&str>) -> bool {
    let Some(name) = name else { return true };
    kept.name.as_deref() == Some(name) || kept.info.names.iter().any(|known| known == name)
}
