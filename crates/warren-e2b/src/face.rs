//! The control plane as it is mounted: below `/e2b` on every listener, at the root of `api.DOMAIN`,
//! and at the root of a listener of its own. Its keys are the service's own keys. Both generations
//! of its endpoints are served, since clients of either are in use.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::{Method, Uri};
use warren_core::ErrorCode;
use warren_face::{gate, route};

use crate::error::{self, E2bError};
use crate::routes;
use crate::state::E2b;

/// Every route of the control plane, behind the layers that all of them share.
pub fn router(state: &E2b) -> Router {
    let routes = route::router(routes::control(), state);
    let routes = Router::new()
        .nest("/e2b", routes.clone())
        .merge(routes)
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method);
    let mut face = gate::guarded(routes, state).layer(middleware::from_fn(in_its_own_words));
    if !state.config.auth.enabled {
        face = face.layer(middleware::from_fn(without_key));
    }
    gate::logged(face, state).with_state(state.clone())
}

/// A layer for a server without keys: clients of this protocol always send one, which is ignored.
async fn without_key(mut request: Request, next: Next) -> Response {
    request.headers_mut().remove("x-api-key");
    next.run(request).await
}

/// A layer: whatever goes wrong is told as this protocol tells it.
async fn in_its_own_words(request: Request, next: Next) -> Response {
    error::reworded(next.run(request).await).await
}

async fn no_route(State(_): State<E2b>, method: Method, uri: Uri) -> E2bError {
    E2bError::new(ErrorCode::RouteNotFound, format!("there is no {method} {}", uri.path()))
}

async fn wrong_method(State(_): State<E2b>, method: Method, uri: Uri) -> E2bError {
    E2bError::new(ErrorCode::MethodNotAllowed, format!("{} does not have {method}", uri.path()))
}
