//! Answers of registries: read within bounds, and what is the matter with the others.

use std::io::Read as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use ureq::Body;
use ureq::http::Response;
use warren_core::{RegistryError, RegistryErrorKind};

use crate::agent::ClosedAddress;

const MOST_REFUSAL: u64 = 16 << 10;

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    errors: Vec<RefusalReason>,
}

#[derive(Deserialize)]
struct RefusalReason {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Reads an answer whole, if it is not too long.
pub(crate) fn body(
    response: Response<Body>,
    most: u64,
    action: impl Fn() -> String,
) -> Result<Vec<u8>, RegistryError> {
    let mut text = Vec::new();
    let read = response.into_body().into_reader().take(most + 1).read_to_end(&mut text);
    read.map_err(|error| RegistryError::caused(RegistryErrorKind::Unreachable, action(), error))?;
    if text.len() as u64 > most {
        let action = format!("{}: the answer is longer than {most} bytes", action());
        return Err(RegistryError::new(RegistryErrorKind::Refused, action));
    }
    Ok(text)
}

/// The error of a request that had no answer.
pub(crate) fn failed(action: String, error: ureq::Error) -> RegistryError {
    let kind = match &error {
        ureq::Error::Other(inner) if inner.is::<ClosedAddress>() => RegistryErrorKind::Refused,
        ureq::Error::BadUri(_) | ureq::Error::Protocol(_) | ureq::Error::Http(_) => {
            RegistryErrorKind::Refused
        }
        _ => RegistryErrorKind::Unreachable,
    };
    RegistryError::caused(kind, action, error)
}

pub(crate) fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}")))
}

/// The error of an answer that is not what was asked for, with the registry's own words.
pub(crate) fn refused(status: u16, action: String, response: Response<Body>) -> RegistryError {
    let (kind, what) = match status {
        401 | 403 => (RegistryErrorKind::Denied, "there is no such image, or it needs other credentials"),
        404 => (RegistryErrorKind::NotFound, "there is no such image"),
        429 => (RegistryErrorKind::Unreachable, "it was asked too often"),
        500.. => (RegistryErrorKind::Unreachable, "it has a fault of its own"),
        _ => (RegistryErrorKind::Refused, "the answer makes no sense"),
    };
    let text = body(response, MOST_REFUSAL, String::new).unwrap_or_default();
    let said =
        serde_json::from_slice::<Refusal>(&text).ok().and_then(|refusal| refusal.errors.into_iter().next());
    let said = said.map_or_else(String::new, |reason| {
        let words: String = format!("{} {}", reason.code, reason.message).chars().take(200).collect();
        format!(", {}", words.trim().escape_debug())
    });
    RegistryError::new(kind, format!("{action}: {what} ({status}{said})"))
}
