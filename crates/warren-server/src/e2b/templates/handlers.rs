//! What clients ask of templates.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::Owner;
use warren_e2b::rest::templates as rest;

use super::book::{Book, NewBuild, Template, missing, tags_or_default};
use super::reference::{Reference, build_id, check_tag, new_name, template_id};
use super::show::{self, Shown};
use super::store::Books;
use super::{build, resolve};
use crate::auth::Caller;
use crate::e2b::control::{Body, E2bError};
use crate::extract::Params;
use crate::state::AppState;

/// Templates of one page.
const PAGE: u64 = 100;

pub(super) async fn request_build(
    State(state): State<AppState>,
    caller: Caller,
    Body(body): Body<rest::RequestBuild>,
) -> Result<(StatusCode, Json<rest::RequestedBuild>), E2bError> {
    let named = body.name.or(body.alias).filter(|name| !name.trim().is_empty());
    let named = named.ok_or_else(|| E2bError::bad_request("name: a template needs a name"))?;
    let named = new_name(&named, caller.owner.as_str())?;
    let mut tags: Vec<String> = named.tag.into_iter().chain(body.tags.unwrap_or_default()).collect();
    tags.iter().try_for_each(|tag| check_tag(tag))?;
    tags.dedup();
    let tags = tags_or_default(tags);
    let new = NewBuild {
        template: template_id(state.random.bits()),
        build: build_id(state.random.bits()),
        name: Some(named.name.clone()),
        tags: tags.clone(),
        cpus: body.cpu_count,
        memory_mb: body.memory_mb,
        now: state.clock.unix_ms(),
    };
    let build_id = new.build.clone();
    let template_id = Books::change(&state, &caller.owner, move |book| book.announce(new)).await?;
    let requested = rest::RequestedBuild {
        template_id,
        build_id,
        public: false,
        names: vec![format!("{}/{}", caller.owner, named.name)],
        tags,
        aliases: vec![named.name],
    };
    Ok((StatusCode::ACCEPTED, Json(requested)))
}

pub(super) async fn start_build(
    State(state): State<AppState>,
    caller: Caller,
    Path((template, id)): Path<(String, String)>,
    Body(body): Body<rest::StartBuild>,
) -> Result<StatusCode, E2bError> {
    build::begin(&state, &caller, (&template, &id), body).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn build_status(
    State(state): State<AppState>,
    caller: Caller,
    Path((template, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<rest::BuildInfo>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (template, found) = find(&book, &caller.owner, &template)?;
    let build = found.builds.get(&id).ok_or_else(|| no_build(&id))?;
    let job = state.books.jobs.find(&caller.owner, &id);
    let wanted = show::wanted(&params, "logsOffset", 100)?;
    Ok(Json(rest::BuildInfo {
        logs: Vec::new(),
        log_entries: job.as_ref().map(|job| job.lines(wanted)).unwrap_or_default(),
        template_id: template.clone(),
        build_id: id,
        status: show::status(build, job.as_deref()),
        reason: show::reason(build),
    }))
}

pub(super) async fn build_logs(
    State(state): State<AppState>,
    caller: Caller,
    Path((template, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<rest::BuildLogs>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (_, found) = find(&book, &caller.owner, &template)?;
    found.builds.get(&id).ok_or_else(|| no_build(&id))?;
    let job = state.books.jobs.find(&caller.owner, &id);
    let logs = job.map(|job| show::page_of_log(&job, &params)).transpose()?.unwrap_or_default();
    Ok(Json(rest::BuildLogs { logs }))
}

fn no_build(id: &str) -> E2bError {
    let id: String = id.chars().take(80).flat_map(char::escape_default).collect();
    E2bError::not_found(format!("there is no build `{id}`"))
}

/// A template of the owner's, by its name or id.
fn find<'a>(book: &'a Book, owner: &Owner, text: &str) -> Result<(&'a String, &'a Template), E2bError> {
    let reference = own(owner, text)?;
    book.find(&reference.name).ok_or_else(|| missing(&reference.name))
}

/// What a path names, if it may be the owner's.
fn own(owner: &Owner, text: &str) -> Result<Reference, E2bError> {
    let reference = Reference::parse(text)?;
    match &reference.owner {
        Some(named) if named != owner.as_str() => Err(missing(&reference.name)),
        _ => Ok(reference),
    }
}

/// A name that stands for a template of the server's is one that exists, too.
pub(super) async fn alias(
    State(state): State<AppState>,
    caller: Caller,
    Path(alias): Path<String>,
) -> Result<Json<rest::AliasInfo>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    if let Ok((id, _)) = find(&book, &caller.owner, &alias) {
        return Ok(Json(rest::AliasInfo { template_id: id.clone(), public: false }));
    }
    let choice = resolve::resolve(&state, &caller, &alias).await?;
    Ok(Json(rest::AliasInfo { template_id: choice.id, public: true }))
}

pub(super) async fn assign_tags(
    State(state): State<AppState>,
    caller: Caller,
    Body(body): Body<rest::AssignTags>,
) -> Result<(StatusCode, Json<rest::AssignedTags>), E2bError> {
    let target = own(&caller.owner, &body.target)?;
    if body.tags.is_empty() {
        return Err(E2bError::bad_request("tags: name at least one"));
    }
    body.tags.iter().try_for_each(|tag| check_tag(tag))?;
    let (tags, now) = (body.tags.clone(), state.clock.unix_ms());
    let build_id = Books::change(&state, &caller.owner, move |book| book.tag(&target, &tags, now)).await?;
    Ok((StatusCode::CREATED, Json(rest::AssignedTags { tags: body.tags, build_id })))
}

pub(super) async fn delete_tags(
    State(state): State<AppState>,
    caller: Caller,
    Body(body): Body<rest::DeleteTags>,
) -> Result<StatusCode, E2bError> {
    let target = own(&caller.owner, &body.name)?;
    let now = state.clock.unix_ms();
    Books::change(&state, &caller.owner, move |book| book.untag(&target.name, &body.tags, now)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<Vec<rest::Template>>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    Ok(Json(Shown::new(&state, &caller.owner).all(&book)))
}

/// The newest first. A page's token is the id of its last template.
pub(super) async fn list_pages(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Response, E2bError> {
    let limit = usize::try_from(params.number("limit", 1, PAGE)?.unwrap_or(PAGE)).unwrap_or(usize::MAX);
    let book = Books::of(&state, &caller.owner).await?;
    let mut all = Shown::new(&state, &caller.owner).all(&book);
    if let Some(token) = params.text("nextToken") {
        let wrong = || E2bError::bad_request("nextToken: it is not one of this list");
        let place = all.iter().position(|template| template.template_id == token).ok_or_else(wrong)?;
        all.drain(..=place);
    }
    let more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| more).map(|last| last.template_id.clone());
    let page = Json(all);
    Ok(match next {
        Some(token) => ([("x-next-token", token)], page).into_response(),
        None => page.into_response(),
    })
}

/// Those of the server, which everybody may use.
pub(super) async fn defaults(State(state): State<AppState>) -> Result<Json<Vec<rest::Template>>, E2bError> {
    let templates = state.engine.templates().await?;
    Ok(Json(templates.iter().map(|info| show::default(&state, info)).collect()))
}

pub(super) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<rest::TemplateWithBuilds>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (id, template) = find(&book, &caller.owner, &name)?;
    Ok(Json(Shown::new(&state, &caller.owner).with_builds(id, template)))
}

pub(super) async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, E2bError> {
    let reference = own(&caller.owner, &name)?;
    let now = state.clock.unix_ms();
    Books::change(&state, &caller.owner, move |book| book.delete(&reference, now)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Owners are apart from one another, so none of their templates can be public.
pub(super) async fn update(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<rest::UpdateTemplate>,
) -> Result<Json<rest::UpdatedTemplate>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (_, template) = find(&book, &caller.owner, &name)?;
    if body.public == Some(true) {
        let message =
            "public: templates are their owner's alone here; an administrator can import one for everybody";
        return Err(E2bError::bad_request(message));
    }
    let names = template.name.iter().map(|name| format!("{}/{name}", caller.owner)).collect();
    Ok(Json(rest::UpdatedTemplate { names }))
}

pub(super) async fn tags(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Vec<rest::TemplateTag>>, E2bError> {
    let book: Arc<Book> = Books::of(&state, &caller.owner).await?;
    let (_, template) = find(&book, &caller.owner, &name)?;
    Ok(Json(show::tags(template)))
}

pub(super) async fn count_tags(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<rest::TagsCount>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (_, template) = find(&book, &caller.owner, &name)?;
    Ok(Json(rest::TagsCount { total: template.tags.len() }))
}

pub(super) async fn tag_exists(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<rest::TagExists>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (_, template) = find(&book, &caller.owner, &name)?;
    let normalized_tag = params.text("tag").unwrap_or_default().trim().to_ascii_lowercase();
    check_tag(&normalized_tag)?;
    Ok(Json(rest::TagExists { exists: template.tags.contains_key(&normalized_tag), normalized_tag }))
}

pub(super) async fn tag_groups(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<rest::TagGroups>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (_, template) = find(&book, &caller.owner, &name)?;
    let wanted = params.text("search").unwrap_or_default().to_ascii_lowercase();
    let tags = template.tags.keys().filter(|tag| tag.contains(&wanted));
    let group = |tag: &String| rest::TagGroup {
        tag: tag.clone(),
        assignments: show::assignments(template, tag),
        has_more: false,
    };
    Ok(Json(rest::TagGroups { tags: tags.map(group).collect(), next_cursor: None }))
}

/// Only the last assignment of a tag is remembered.
pub(super) async fn tag_assignments(
    State(state): State<AppState>,
    caller: Caller,
    Path((name, tag)): Path<(String, String)>,
) -> Result<Json<rest::TagAssignments>, E2bError> {
    let book = Books::of(&state, &caller.owner).await?;
    let (_, template) = find(&book, &caller.owner, &name)?;
    Ok(Json(rest::TagAssignments { data: show::assignments(template, &tag), next_cursor: None }))
}
