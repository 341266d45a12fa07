//! The calls about tags of templates.

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use warren_core::check_tag;
use warren_face::auth::Caller;
use warren_face::extract::Params;

use super::handlers::{find, own};
use super::show;
use crate::error::E2bError;
use crate::extract::Body;
use crate::rest::templates as rest;
use crate::state::E2b;

pub(super) async fn assign(
    State(state): State<E2b>,
    caller: Caller,
    Body(body): Body<rest::AssignTags>,
) -> Result<(StatusCode, Json<rest::AssignedTags>), E2bError> {
    let target = own(&caller, &body.target)?;
    if body.tags.is_empty() {
        return Err(E2bError::bad_request("tags: name at least one"));
    }
    body.tags.iter().try_for_each(|tag| check_tag(tag))?;
    let images = state.engine.as_(&caller).images();
    let build = images.tag(&target, body.tags.clone()).await?;
    Ok((StatusCode::CREATED, Json(rest::AssignedTags { tags: body.tags, build_id: build.to_string() })))
}

pub(super) async fn delete(
    State(state): State<E2b>,
    caller: Caller,
    Body(body): Body<rest::DeleteTags>,
) -> Result<StatusCode, E2bError> {
    let target = own(&caller, &body.name)?;
    state.engine.as_(&caller).images().untag(&target.name, body.tags).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Vec<rest::TemplateTag>>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    Ok(Json(show::tags(&image)))
}

pub(super) async fn count(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<rest::TagsCount>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    Ok(Json(rest::TagsCount { total: image.tags.len() }))
}

pub(super) async fn exists(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<rest::TagExists>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    let normalized_tag = params.text("tag").unwrap_or_default().trim().to_ascii_lowercase();
    check_tag(&normalized_tag)?;
    Ok(Json(rest::TagExists { exists: image.tags.contains_key(&normalized_tag), normalized_tag }))
}

pub(super) async fn groups(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<rest::TagGroups>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    let wanted = params.text("search").unwrap_or_default().to_ascii_lowercase();
    let tags = image.tags.keys().filter(|tag| tag.contains(&wanted));
    let group = |tag: &String| rest::TagGroup {
        tag: tag.clone(),
        assignments: show::assignments(&image, tag),
        has_more: false,
    };
    Ok(Json(rest::TagGroups { tags: tags.map(group).collect(), next_cursor: None }))
}

/// Only the last assignment of a tag is remembered.
pub(super) async fn assignments(
    State(state): State<E2b>,
    caller: Caller,
    Path((name, tag)): Path<(String, String)>,
) -> Result<Json<rest::TagAssignments>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    Ok(Json(rest::TagAssignments { data: show::assignments(&image, &tag), next_cursor: None }))
}
