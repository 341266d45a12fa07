use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use http::request::Parts;
use serde::de::DeserializeOwned;
use warren_core::SandboxId;
use warren_face::body::read_body;
use warren_face::extract::{no_json, says_json};

use crate::error::E2bError;
use crate::state::E2b;

/// How much of a reader's complaint is repeated.
const LONGEST_DETAIL: usize = 300;

/// `{id}` of the path. Early clients write their own name after a dash. What cannot be an id is
/// answered like one that nobody has.
#[derive(Debug, Clone)]
pub(crate) struct Id(pub(crate) SandboxId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = E2bError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, E2bError> {
        let Path(params) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| E2bError::bad_request("the path is not percent-encoded UTF-8"))?;
        let text = params.into_iter().find(|(name, _)| name == "id").map(|(_, value)| value);
        parse_id(&text.unwrap_or_default()).map(Self)
    }
}

pub(crate) fn parse_id(text: &str) -> Result<SandboxId, E2bError> {
    let id = text.split_once('-').map_or(text, |(id, _)| id);
    id.parse().map_err(|_| E2bError::no_sandbox(text.chars().take(80).collect::<String>()))
}

/// A JSON body that says so. Nothing at all is the same as an empty object.
#[derive(Debug, Clone)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<E2b> for Body<T> {
    type Rejection = E2bError;

    async fn from_request(request: Request, state: &E2b) -> Result<Self, E2bError> {
        let most = usize::try_from(state.config.http.max_body).unwrap_or(usize::MAX);
        let is_json = says_json(request.headers());
        let bytes = read_body(request.into_body(), most).await?;
        if !bytes.is_empty() && !is_json {
            return Err(no_json().into());
        }
        read(&bytes).map(Self)
    }
}

fn read<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, E2bError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let detail: String = error.into_inner().to_string().chars().take(LONGEST_DETAIL).collect();
        E2bError::bad_request(if path == "." { detail } else { format!("{path}: {detail}") })
    })?;
    reader.end().map_err(|_| E2bError::bad_request("there is more in the body than one JSON value"))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use crate::rest::{NewSandbox, Pause};

    use super::*;

    #[test]
    fn a_clients_own_name_after_the_id_is_left_out() {
        let id = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";
        assert_eq!(parse_id(id).unwrap().as_str(), id);
        assert_eq!(parse_id(&format!("{id}-6532622b")).unwrap().as_str(), id);
        for odd in ["", "-", "i0123", "sbxaaa-b", "../x"] {
            assert_eq!(parse_id(odd).unwrap_err().status().as_u16(), 404, "{odd}");
        }
    }

    #[test]
    fn a_body_may_be_left_out_and_the_field_to_blame_is_named() {
        assert_eq!(read::<Pause>(b"").unwrap(), Pause::default());
        assert_eq!(read::<Pause>(b"{}").unwrap(), Pause::default());
        let wrong = read::<NewSandbox>(br#"{"templateID": "base", "envVars": {"A": 1}}"#).unwrap_err();
        assert!(wrong.failure().message.starts_with("envVars.A: "), "{wrong:?}");
        for odd in [b"{".as_slice(), b"{}x", b"7", b"\xff"] {
            assert_eq!(read::<NewSandbox>(odd).unwrap_err().status().as_u16(), 400);
        }
    }
}
