use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderValue, Method, StatusCode};

/// How long a browser may remember it, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// The headers of an answer that pages may read beside the usual ones.
const READABLE: HeaderValue = HeaderValue::from_static(
    "Accept-Ranges, Cache-Control, Content-Disposition, Content-Encoding, Content-Length, Content-Range, \
     Connect-Content-Encoding, Connect-Accept-Encoding, Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, \
     Last-Modified, Location, X-Content-Type-Options",
);

/// True for a browser's question whether a page may make a request.
pub(super) fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Every page may: nothing that a browser sends unasked opens a sandbox.
pub(super) fn preflight(request: &Request) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let wanted = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    headers.insert(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    // A star would leave out `Authorization`.
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(HeaderValue::from_static("*")));
    response
}

/// An answer that pages may read.
pub(super) fn readable(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READABLE);
    response
}
