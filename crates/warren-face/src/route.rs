//! The form of a table of routes. The router of a face, the check of every query, its documents and
//! the tests that try each route as a stranger are all made from its rows, so that none of them can
//! forget one.

mod events;
mod parameter;
mod row;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;

pub use events::Events;
pub use parameter::{Parameter, Place, schema};
pub use row::{Access, Answer, Audience, Content, Docs, Patience, Queries, Route};

use crate::auth::Caller;
use crate::desk::Desk;
use crate::error::ApiError;
use crate::extract::{Known, Params};
use crate::gate;

/// The router of a table: each row behind its own gate.
pub fn router<S>(table: &'static [Route<MethodRouter<S>>], desk: &Desk) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let paths = |route: &'static Route<_>| [Some(route.path), route.also_at].into_iter().flatten();
    let served = table.iter().flat_map(|route| paths(route).map(move |path| (path, route)));
    served.fold(Router::new(), |router, (path, route)| router.route(path, gated(route, desk)))
}

fn gated<S>(route: &'static Route<MethodRouter<S>>, desk: &Desk) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let admitted = move |request: Request, next: Next| admit(route, request, next);
    let handler = route.handler.clone().route_layer(middleware::from_fn(admitted));
    let handler = match route.access {
        Access::Key(_) => handler.route_layer(middleware::from_fn_with_state(desk.clone(), gate::required)),
        Access::Public => handler.route_layer(middleware::from_fn_with_state(desk.clone(), gate::optional)),
        Access::Open | Access::Token => handler,
    };
    match route.patience {
        Patience::Usual => handler.route_layer(middleware::from_fn_with_state(desk.clone(), gate::in_time)),
        Patience::Own => {
            handler.route_layer(middleware::from_fn_with_state(desk.clone(), gate::in_its_own_time))
        }
    }
}

/// Lets pass what the row allows: a scope that suffices, and a query of known parameters.
async fn admit<H>(route: &'static Route<H>, request: Request, next: Next) -> Response {
    match check(route, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check<H>(route: &Route<H>, request: &Request) -> Result<(), ApiError> {
    if let (Access::Key(scope), Some(caller)) = (route.access, request.extensions().get::<Caller>()) {
        caller.require(scope)?;
    }
    if route.queries == Queries::Any {
        return Ok(());
    }
    let query = Params::parse(request.uri().query().unwrap_or_default())?;
    let known: Vec<Known> = route.docs.queries().collect();
    query.check(&known)
}
