use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri};
use http_body_util::Full;
use rmcp::ServerHandler;
use serde::de::IgnoredAny;
use warren_face::body::read_body;
use warren_face::error::{ApiError, Code};
use warren_face::extract::{no_json, says_json};
use warren_face::{foreign, gate, route};

use crate::request::Place;
use crate::routes;
use crate::state::{Mcp, Protocol};

/// The routes of the face, behind the layers that all of them share.
pub fn router(state: &Mcp) -> Router {
    let routes = route::router(routes::table(), state).method_not_allowed_fallback(wrong_method);
    let face = gate::guarded(routes, state).layer(middleware::from_fn(from_own_pages));
    gate::logged(face, state).with_state(state.clone())
}

/// A layer: no page of elsewhere may ask anything, whatever key it has come by.
async fn from_own_pages(request: Request, next: Next) -> Response {
    if foreign::is_of_own_page(&request) {
        return next.run(request).await;
    }
    let detail = "a page of another origin may not speak to agents' tools";
    ApiError::new(Code::ForeignRequest, detail).field("Origin").into_response()
}

/// Each request is one message of the protocol, with its answer.
pub(crate) async fn post(
    State(mcp): State<Mcp>,
    place: Place,
    request: Request,
) -> Result<Response, ApiError> {
    let extension = |head: &mut Parts| drop(head.extensions.insert(place));
    answer(&mcp, mcp.protocol(), request, extension).await
}

/// Has a message answered, with what its request says of it in the head.
pub(crate) async fn answer<H: ServerHandler>(
    mcp: &Mcp,
    protocol: &Protocol<H>,
    request: Request,
    extend: impl FnOnce(&mut Parts),
) -> Result<Response, ApiError> {
    if !says_json(request.headers()) {
        return Err(no_json());
    }
    let (mut head, body) = request.into_parts();
    let most = usize::try_from(mcp.config.http.max_body).unwrap_or(usize::MAX);
    let bytes = read_body(body, most).await?;
    if serde_json::from_slice::<IgnoredAny>(&bytes).is_err() {
        return Err(ApiError::new(Code::InvalidRequest, "the body is not JSON"));
    }
    extend(&mut head);
    let message = http::Request::from_parts(head, Full::<Bytes>::new(bytes));
    let answer = protocol.handle(message).await;
    Ok(answer.map(Body::new))
}

/// There is nothing to get and no session to end.
async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(Code::MethodNotAllowed, format!("{} does not have {method}", uri.path()))
}
