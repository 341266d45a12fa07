//! The one table of routes. The router, the check of every query, the OpenAPI document and the tests that try each route as a stranger
//! are all made from its rows, so that none of them can forget one.

mod code;
mod files;
mod history;
mod network;
mod parameter;
mod ports;
mod processes;
mod row;
mod sandboxes;
mod secrets;
mod server;
mod sessions;

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};

pub use row::{Access, Audience, Patience, Route};

pub(crate) use parameter::{Parameter, Place, schema};
pub(crate) use row::Answer;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::Params;
use crate::state::AppState;

static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let parts = [
        sandboxes::rows(),
        processes::rows(),
        code::rows(),
        files::rows(),
        sessions::rows(),
        history::rows(),
        network::rows(),
        ports::rows(),
        secrets::rows(),
        server::rows(),
    ];
    parts.into_iter().flatten().collect()
});

/// Every route of the service under `/v1`, in the order of the documents.
pub fn route_table() -> &'static [Route] {
    &TABLE
}

/// Routes that need a key.
pub(crate) fn keyed() -> Router<AppState> {
    router(|route| matches!(route.access, Access::Key(_)))
}

/// Routes that anybody may ask. A key that is shown must still be right.
pub(crate) fn public() -> Router<AppState> {
    router(|route| matches!(route.access, Access::Public))
}

fn router(wanted: impl Fn(&Route) -> bool) -> Router<AppState> {
    route_table().iter().filter(|route| wanted(route)).fold(Router::new(), |router, route| {
        let admitted = move |request: Request, next: Next| admit(route, request, next);
        router.route(route.path, route.handler.clone().route_layer(middleware::from_fn(admitted)))
    })
}

/// Lets pass what the row allows: a scope that suffices, and a query of known parameters.
async fn admit(route: &'static Route, mut request: Request, next: Next) -> Response {
    if let Err(error) = check(route, &request) {
        return error.into_response();
    }
    request.extensions_mut().insert(route);
    next.run(request).await
}

fn check(route: &Route, request: &Request) -> Result<(), ApiError> {
    if let (Access::Key(scope), Some(caller)) = (route.access, request.extensions().get::<Caller>()) {
        caller.require(scope)?;
    }
    let query = Params::parse(request.uri().query().unwrap_or_default())?;
    query.check(|name| route.docs.query(name).map(|parameter| parameter.repeatable))
}
