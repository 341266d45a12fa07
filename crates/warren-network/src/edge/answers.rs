//! Answers to a client that do not come from the host.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use warren_core::HostName;

/// A refusal in words, as JSON for a client that asked for it.
pub(super) fn refusal(
    status: StatusCode,
    code: &str,
    message: &str,
    host: &HostName,
    as_json: bool,
) -> Response<Full<Bytes>> {
    let (kind, text) = if as_json {
        let body = serde_json::json!({
            "error": { "code": code, "message": message, "host": host.as_str() }
        });
        ("application/json", format!("{body}\n"))
    } else {
        ("text/plain; charset=utf-8", format!("warren: {message}\n"))
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // No cache may keep it: the next request may be answered.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to plain HTTP.
pub(super) fn plain(host: &HostName, as_json: bool) -> Response<Full<Bytes>> {
    let message = format!(
        "a secret of this sandbox is for {host}, and goes over TLS only: use https://{host} instead of plain HTTP"
    );
    refusal(StatusCode::FORBIDDEN, "secret_needs_tls", &message, host, as_json)
}

/// True if a client would rather have JSON.
pub(super) fn wants_json(headers: &http::HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("application/json"))
}
