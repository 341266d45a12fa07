use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use http::request::Parts;
use serde::de::DeserializeOwned;
use warren_core::{ErrorCode, SandboxId};
use warren_face::auth::Caller;
use warren_face::body::read_body;
use warren_face::extract::{no_json, says_json};

use crate::error::E2bError;
use crate::state::E2b;

/// How much of a reader's complaint is repeated.
const LONGEST_DETAIL: usize = 300;

/// `{id}` of the path: any word for a sandbox. What cannot be one is answered like an id that
/// nobody has.
#[derive(Debug, Clone)]
pub(crate) struct Id(pub(crate) SandboxId);

impl FromRequestParts<E2b> for Id {
    type Rejection = E2bError;

    async fn from_request_parts(parts: &mut Parts, state: &E2b) -> Result<Self, E2bError> {
        let Path(params) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| E2bError::bad_request("the path is not percent-encoded UTF-8"))?;
        let caller = <Caller as FromRequestParts<E2b>>::from_request_parts(parts, state).await?;
        let text = params.into_iter().find(|(name, _)| name == "id").map(|(_, value)| value);
        find_id(state, &caller, &text.unwrap_or_default()).await.map(Self)
    }
}

/// The sandbox that a word means to the caller.
pub(crate) async fn find_id(state: &E2b, caller: &Caller, text: &str) -> Result<SandboxId, E2bError> {
    match state.engine.as_(caller).find(without_client(text)).await {
        Err(error) if error.code() == ErrorCode::SandboxNotFound => {
            Err(E2bError::no_sandbox(text.chars().take(80).collect::<String>()))
        }
        found => Ok(found?.id().clone()),
    }
}

/// Early clients write their own name after an id and a dash.
fn without_client(text: &str) -> &str {
    match text.split_once('-') {
        Some((id, _)) if id.parse::<SandboxId>().is_ok() => id,
        _ => text,
    }
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
        assert_eq!(without_client(id), id);
        assert_eq!(without_client(&format!("{id}-6532622b")), id);
        for other in ["", "-", "i0123", "sbxaaa-b", "../x", "web-6532622b"] {
            assert_eq!(without_client(other), other);
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
