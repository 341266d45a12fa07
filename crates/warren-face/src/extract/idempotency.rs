use axum::extract::FromRequestParts;
use data_encoding::HEXLOWER;
use http::Method;
use http::request::Parts;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use warren_engine::Expected;

use crate::error::ApiError;

const HEADER: &str = "idempotency-key";
const LONGEST: usize = 255;

/// The caller's own word for a request that may be repeated, with what it was asked of.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    key: Option<String>,
    method: Method,
    path: String,
}

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let wrong = |detail: &str| ApiError::invalid("Idempotency-Key", detail);
        let mut given = parts.headers.get_all(HEADER).iter();
        let key = match (given.next(), given.next()) {
            (None, _) => None,
            (Some(_), Some(_)) => return Err(wrong("the header was sent twice")),
            (Some(value), None) => {
                let text = value.to_str().ok().filter(|text| {
                    (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
                });
                Some(
                    text.ok_or_else(|| wrong("the header takes 1 to 255 visible ASCII characters"))?
                        .to_owned(),
                )
            }
        };
        Ok(Self { key, method: parts.method.clone(), path: parts.uri.path().to_owned() })
    }
}

impl IdempotencyKey {
    /// The values that the engine compares. Two bodies that mean the same are the same, however
    /// they were written.
    pub fn expected<T: Serialize>(self, body: &T) -> Result<Option<Expected>, ApiError> {
        let Some(key) = self.key else { return Ok(None) };
        let body = serde_json::to_vec(body).map_err(ApiError::internal)?;
        let head = format!("{} {}\n", self.method, self.path);
        let hash = Sha256::new_with_prefix(head.as_bytes()).chain_update(&body).finalize();
        let fingerprint = HEXLOWER.encode(&hash);
        Ok(Some(Expected { key, fingerprint }))
    }
}

#[cfg(test)]
mod tests {
    use warren_wire::api::CreateSandbox;

    use super::*;

    fn fingerprint(path: &str, body: &str) -> String {
        let key = IdempotencyKey { key: Some("k".into()), method: Method::POST, path: path.into() };
        let body: CreateSandbox = serde_json::from_str(body).unwrap();
        key.expected(&body).unwrap().unwrap().fingerprint
    }

    #[test]
    fn the_same_request_written_differently_is_the_same() {
        let one = fingerprint("/v1/sandboxes", r#"{"pids": 9, "labels": {"a": "1", "b": "2"}}"#);
        let two = fingerprint("/v1/sandboxes", r#"{ "labels":{"b":"2","a":"1"},"pids":9,"ttl_s":null }"#);
        assert_eq!(one, two);
        assert_ne!(one, fingerprint("/v1/sandboxes", r#"{"pids": 8, "labels": {"a": "1", "b": "2"}}"#));
        assert_ne!(one, fingerprint("/v1/sessions", r#"{"pids": 9, "labels": {"a": "1", "b": "2"}}"#));
    }
}
