//! Cells that come over E2B's port, as the journal knows them.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use serde::Deserialize;

/// The tool's name in the journal.
pub const CELL: &str = "code";

/// A longer cell is passed on as it comes, and the journal does not tell its text.
const MOST_READ: usize = 256 << 10;

#[derive(Deserialize)]
struct Cell {
    code: String,
}

pub fn is_cell(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == "/execute"
}

/// The request as it was, and the code that it asks for.
pub async fn cell_of(request: Request) -> Result<(Request, String), axum::Error> {
    if length(request.headers()).is_none_or(|length| length > MOST_READ) {
        return Ok((request, String::new()));
    }
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, MOST_READ).await?;
    // What is no cell is the service's to refuse.
    let code = serde_json::from_slice::<Cell>(&bytes).map(|cell| cell.code).unwrap_or_default();
    Ok((Request::from_parts(parts, Body::from(bytes)), code))
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(length: Option<usize>, body: &str) -> Request {
        let mut request = Request::post("/execute").body(Body::from(body.to_owned())).unwrap();
        if let Some(length) = length {
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        request
    }

    #[tokio::test]
    async fn a_cell_is_read_and_passed_on_as_it_was() {
        let long = format!(r#"{{"code":"{}"}}"#, "x".repeat(MOST_READ));
        for (length, body, code) in [
            (Some(19), r#"{"code":"print(1)"}"#, "print(1)"),
            (None, r#"{"code":"print(1)"}"#, ""),
            (Some(long.len()), long.as_str(), ""),
            (Some(2), "{}", ""),
            (Some(3), "no\n", ""),
        ] {
            let asked = request(length, body);
            assert!(is_cell(&asked));
            let (passed, read) = cell_of(asked).await.unwrap();
            assert_eq!(
                (passed.headers().contains_key(CONTENT_LENGTH), read.as_str()),
                (length.is_some(), code)
            );
            assert_eq!(to_bytes(passed.into_body(), usize::MAX).await.unwrap(), body);
        }
    }
}
