//! The calls about templates.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::{BuildId, BuildRecord, ByteSize, Cpus, ImageRecord, ImageRef, StartCommands, check_tag};
use warren_engine::{NewBuild, Recipe};
use warren_face::auth::Caller;
use warren_face::extract::Params;

use super::error::missing;
use super::show::{self, Shown};
use super::{base, resolve, steps};
use crate::error::E2bError;
use crate::extract::Body;
use crate::rest::templates as rest;
use crate::state::E2b;

/// Templates of one page.
const PAGE: u64 = 100;

/// The user who builds, where nobody is named.
const USER: &str = "user";

pub(super) async fn request_build(
    State(state): State<E2b>,
    caller: Caller,
    Body(body): Body<rest::RequestBuild>,
) -> Result<(StatusCode, Json<rest::RequestedBuild>), E2bError> {
    let named = body.name.or(body.alias).filter(|name| !name.trim().is_empty());
    let named = named.ok_or_else(|| E2bError::bad_request("name: a template needs a name"))?;
    let named = ImageRef::new_name(&named, &caller.owner)?;
    let mut tags: Vec<String> = named.tag.into_iter().chain(body.tags.unwrap_or_default()).collect();
    tags.iter().try_for_each(|tag| check_tag(tag))?;
    tags.dedup();
    if tags.is_empty() {
        tags.push(warren_core::DEFAULT_TAG.to_owned());
    }
    let new = NewBuild {
        name: named.name.clone(),
        tags: tags.clone(),
        cpus: body.cpu_count.map(|count| Cpus::from_milli(count.saturating_mul(1000))),
        memory: body.memory_mb.map(ByteSize::mib),
    };
    let (template, build) = state.engine.as_(&caller).images().announce(new).await?;
    let requested = rest::RequestedBuild {
        template_id: template.to_string(),
        build_id: build.to_string(),
        public: false,
        names: vec![format!("{}/{}", caller.owner, named.name)],
        tags,
        aliases: vec![named.name],
    };
    Ok((StatusCode::ACCEPTED, Json(requested)))
}

pub(super) async fn start_build(
    State(state): State<E2b>,
    caller: Caller,
    Path((template, id)): Path<(String, String)>,
    Body(body): Body<rest::StartBuild>,
) -> Result<StatusCode, E2bError> {
    let base::Base { beginning, pull } = base::find(&state, &caller, &body).await?;
    let recipe = Recipe {
        base: beginning,
        pull,
        user: Some(USER.to_owned()),
        steps: steps::read(body.steps.as_deref().unwrap_or_default())?,
        start: StartCommands::new(body.start_cmd, body.ready_cmd),
        force: body.force.unwrap_or_default(),
    };
    let build = id.parse::<BuildId>().map_err(|_| no_build(&id))?;
    state.engine.as_(&caller).images().begin(&template, &build, recipe).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn build_status(
    State(state): State<E2b>,
    caller: Caller,
    Path((template, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<rest::BuildInfo>, E2bError> {
    let found = find(&state, &caller, &template).await?;
    let (id, build) = build_of(&found, &id)?;
    let log = state.engine.as_(&caller).images().log(&id);
    let wanted = show::wanted(&params, "logsOffset", 100)?;
    let lines = log.as_ref().map(|log| log.lines(wanted)).unwrap_or_default();
    Ok(Json(rest::BuildInfo {
        logs: Vec::new(),
        log_entries: lines.into_iter().map(show::line).collect(),
        template_id: found.id.to_string(),
        build_id: id.to_string(),
        status: show::status(build, log.as_deref()),
        reason: show::reason(build),
    }))
}

pub(super) async fn build_logs(
    State(state): State<E2b>,
    caller: Caller,
    Path((template, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<rest::BuildLogs>, E2bError> {
    let found = find(&state, &caller, &template).await?;
    let (id, _) = build_of(&found, &id)?;
    let log = state.engine.as_(&caller).images().log(&id);
    let logs = log.map(|log| show::page_of_log(&log, &params)).transpose()?.unwrap_or_default();
    Ok(Json(rest::BuildLogs { logs }))
}

fn build_of<'a>(image: &'a ImageRecord, id: &str) -> Result<(BuildId, &'a BuildRecord), E2bError> {
    let parsed = id.parse::<BuildId>().ok();
    let found = parsed.and_then(|id| image.builds.get(&id).map(|build| (id, build)));
    found.ok_or_else(|| no_build(id))
}

fn no_build(id: &str) -> E2bError {
    let id: String = id.chars().take(80).flat_map(char::escape_default).collect();
    E2bError::not_found(format!("there is no build `{id}`"))
}

/// A template of the owner's, by its name or id.
pub(super) async fn find(state: &E2b, caller: &Caller, text: &str) -> Result<ImageRecord, E2bError> {
    let reference = own(caller, text)?;
    Ok(state.engine.as_(caller).images().get(&reference.name).await?)
}

/// The image that a path names, if it may be the owner's.
pub(super) fn own(caller: &Caller, text: &str) -> Result<ImageRef, E2bError> {
    let reference: ImageRef = text.parse()?;
    if reference.may_be_of(&caller.owner) { Ok(reference) } else { Err(missing(&reference.name)) }
}

/// The name of one of the server's own templates exists, too.
pub(super) async fn alias(
    State(state): State<E2b>,
    caller: Caller,
    Path(alias): Path<String>,
) -> Result<Json<rest::AliasInfo>, E2bError> {
    if let Ok(image) = find(&state, &caller, &alias).await {
        return Ok(Json(rest::AliasInfo { template_id: image.id.to_string(), public: false }));
    }
    let choice = resolve(&state, &caller, &alias).await?;
    Ok(Json(rest::AliasInfo { template_id: choice.id, public: true }))
}

pub(super) async fn list(
    State(state): State<E2b>,
    caller: Caller,
) -> Result<Json<Vec<rest::Template>>, E2bError> {
    let images = state.engine.as_(&caller).images().list().await?;
    Ok(Json(Shown::new(&state, &caller).all(&images)))
}

/// The newest first. A page's token is the id of its last template.
pub(super) async fn list_pages(
    State(state): State<E2b>,
    caller: Caller,
    params: Params,
) -> Result<Response, E2bError> {
    let limit = usize::try_from(params.number("limit", 1, PAGE)?.unwrap_or(PAGE)).unwrap_or(usize::MAX);
    let images = state.engine.as_(&caller).images().list().await?;
    let mut all = Shown::new(&state, &caller).all(&images);
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

/// The server's own templates, which everybody may use.
pub(super) async fn defaults(State(state): State<E2b>) -> Result<Json<Vec<rest::Template>>, E2bError> {
    let templates = state.engine.templates().await?;
    Ok(Json(templates.iter().map(|info| show::default(&state, info)).collect()))
}

pub(super) async fn get(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<rest::TemplateWithBuilds>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    Ok(Json(Shown::new(&state, &caller).with_builds(&image)))
}

pub(super) async fn delete(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, E2bError> {
    let reference = own(&caller, &name)?;
    state.engine.as_(&caller).images().remove(&reference).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Owners are apart from one another, so none of their templates can be public.
pub(super) async fn update(
    State(state): State<E2b>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<rest::UpdateTemplate>,
) -> Result<Json<rest::UpdatedTemplate>, E2bError> {
    let image = find(&state, &caller, &name).await?;
    if body.public == Some(true) {
        let message =
            "public: templates are their owner's alone here; an administrator can import one for everybody";
        return Err(E2bError::bad_request(message));
    }
    let names = image.name.iter().map(|name| format!("{}/{name}", caller.owner)).collect();
    Ok(Json(rest::UpdatedTemplate { names }))
}
