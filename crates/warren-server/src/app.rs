use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Router, middleware};
use http::{Method, Uri};
use serde::Serialize;
use tower::ServiceExt as _;
use warren_e2b::{E2b, Place};
use warren_face::error::{ApiError, Code};
use warren_face::gate;
use warren_mcp::Mcp;
use warren_wire::api::Problem;

use crate::listener::Answers;
use crate::proxy::Proxy;
use crate::state::AppState;
use crate::{chat, routes};

/// The entry of every request: those for ports of sandboxes are passed on, all others are the
/// API's.
#[derive(Clone)]
pub(crate) struct Front {
    api: Router,
    e2b: Router,
    e2b_place: Place,
    proxy: Proxy,
}

impl Front {
    /// Must be called inside the runtime that serves requests.
    pub(crate) fn new(state: AppState, e2b: E2b) -> Self {
        Self {
            api: app(state.clone()),
            e2b: warren_e2b::router(&e2b),
            e2b_place: Place::of(&state.config.ports.domain),
            proxy: Proxy::new(state, e2b),
        }
    }

    /// The face that answers a request which is for no port of a sandbox.
    fn face(self, request: &Request) -> Router {
        if self.e2b_place.has(request) { self.e2b } else { self.api }
    }
}

impl Answers for Front {
    async fn answer(self, request: Request) -> Response {
        match self.proxy.answer(request).await {
            Ok(response) => response,
            Err(request) => match self.face(&request).oneshot(*request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        }
    }
}

/// The API: every route behind the layers that all of them share.
fn app(state: AppState) -> Router {
    let routes = Router::new()
        .merge(routes::router(&state))
        .merge(chat::router(&state))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method);
    let face = gate::guarded(routes, &state).layer(middleware::from_fn(chat::in_its_own_words));
    let mcp = warren_mcp::router(&Mcp::new(state.desk.clone(), state.browsers.clone()));
    gate::logged(face, &state).with_state(state).merge(mcp)
}

/// Clients of E2B that were given a host of their own making come here too, and read a `message`.
async fn no_route(State(_): State<AppState>, method: Method, uri: Uri) -> Response {
    let error = ApiError::new(Code::RouteNotFound, format!("there is no {method} {}", uri.path()));
    let problem = error.problem();
    let told = serde_json::to_vec(&Told { message: &problem.detail, problem: &problem });
    let mut response = error.into_response();
    *response.body_mut() = told.unwrap_or_default().into();
    response
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    problem: &'a Problem,
    message: &'a str,
}

async fn wrong_method(State(_): State<AppState>, method: Method, uri: Uri) -> ApiError {
    ApiError::new(Code::MethodNotAllowed, format!("{} does not have {method}", uri.path()))
}
