use axum::extract::{DefaultBodyLimit, State};
use axum::{Router, middleware};
use http::{Method, Uri};

use crate::error::{ApiError, Code};
use crate::state::AppState;
use crate::{auth, chat, limits, logging, request_id, routes};

/// The whole service: every route behind the layers that all of them share.
pub(crate) fn app(state: AppState) -> Router {
    let keyed = routes::keyed().layer(middleware::from_fn_with_state(state.clone(), auth::required));
    let public = routes::public().layer(middleware::from_fn_with_state(state.clone(), auth::optional));
    Router::new()
        .merge(keyed)
        .merge(public)
        .merge(chat::routes(&state))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(usize::try_from(state.config.http.max_body.0).unwrap_or(usize::MAX)))
        .layer(middleware::from_fn_with_state(state.clone(), limits::layer))
        .layer(middleware::from_fn(chat::in_its_own_words))
        .layer(middleware::from_fn_with_state(state.clone(), logging::layer))
        .layer(middleware::from_fn(request_id::layer))
        .with_state(state)
}

async fn no_route(State(_): State<AppState>, method: Method, uri: Uri) -> ApiError {
    ApiError::new(Code::RouteNotFound, format!("there is no {method} {}", uri.path()))
}

async fn wrong_method(State(_): State<AppState>, method: Method, uri: Uri) -> ApiError {
    ApiError::new(Code::MethodNotAllowed, format!("{} does not have {method}", uri.path()))
}
