use axum::body::Body;
use axum::extract::State;
use http::StatusCode;
use warren_core::TemplateName;
use warren_engine::WorkKind;
use warren_face::auth::Caller;
use warren_face::body::broken_body;
use warren_face::error::{ApiError, Code, chain};
use warren_face::transfer;
use warren_store::{ImportError, ImportLimits, ImportRequest, ImportSource, Replace, TemplateConfig};
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, Params, TemplatePath};
use crate::state::AppState;

pub(crate) async fn list(State(state): State<AppState>) -> Result<Json<api::TemplateList>, ApiError> {
    let templates = state.engine.templates().await?;
    Ok(Json(api::TemplateList { items: templates.iter().map(convert::template).collect() }))
}

pub(crate) async fn get(
    State(state): State<AppState>,
    TemplatePath(name): TemplatePath,
) -> Result<Json<api::Template>, ApiError> {
    let templates = state.engine.templates().await?;
    let found = templates.iter().find(|template| template.name == name);
    let missing = || ApiError::new(Code::TemplateNotFound, format!("there is no template `{name}`"));
    Ok(Json(convert::template(found.ok_or_else(missing)?)))
}

/// The store keeps the body in a nameless file first, so memory stays small and a broken upload
/// leaves nothing.
pub(crate) async fn import(
    State(state): State<AppState>,
    caller: Caller,
    TemplatePath(name): TemplatePath,
    params: Params,
    body: Body,
) -> Result<Json<api::Template>, ApiError> {
    let config = params.text("config").map(config).transpose()?;
    let place = state.engine.as_(&caller).place_for(WorkKind::Transfer).await?;
    let source = Box::new(transfer::reader(body));
    let (store, engine, imported) = (state.templates.clone(), state.engine.clone(), name.clone());
    let import = move || {
        let request = ImportRequest {
            name: imported,
            source: match config {
                Some(config) => ImportSource::Root(source, config),
                None => ImportSource::Stream(source),
            },
            replace: Replace::Unless(&|name: &TemplateName| {
                engine.templates_in_use().map_or(true, |in_use| in_use.contains(name))
            }),
            limits: ImportLimits::default(),
            progress: &mut |_| {},
        };
        store.import(request).map(drop).map_err(refused)
    };
    place.work(import).await.map_err(ApiError::internal)??;
    get(State(state), TemplatePath(name)).await
}

/// The process settings of an archive, as an image would have them.
fn config(text: &str) -> Result<TemplateConfig, ApiError> {
    serde_json::from_str(text).map_err(|error| ApiError::invalid("config", format!("this is none: {error}")))
}

pub(super) fn refused(error: ImportError) -> ApiError {
    match error {
        ImportError::Read(source) => broken_body(&source),
        error => match error.code() {
            Code::Internal => ApiError::internal(error),
            code => ApiError::new(code, chain(&error)),
        },
    }
}

pub(crate) async fn delete(
    State(state): State<AppState>,
    TemplatePath(name): TemplatePath,
) -> Result<StatusCode, ApiError> {
    state.engine.remove_template(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
