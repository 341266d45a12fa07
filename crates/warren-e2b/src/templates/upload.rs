//! How files for a build come to the server: to an address that only it can have written, since
//! clients send no key there.

use axum::body::Body;
use axum::extract::{OriginalUri, Path, State};
use http::header::HOST;
use http::request::Parts;
use http::{StatusCode, Uri};
use warren_core::{ErrorCode, FilesHash, Owner};
use warren_engine::ImageError;
use warren_face::arrival::Arrival;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::extract::Params;
use warren_face::link_keys::LinkKeys;
use warren_face::transfer::{self, Incoming};

use super::error::missing;
use crate::error::E2bError;
use crate::rest::templates::FileUpload;
use crate::state::BY;
use crate::state::E2b;

/// Nothing that is signed for another purpose is good for this one.
const PURPOSE: &str = "e2b build context";

/// How long an address is good.
const LIFE_MS: u64 = 2 * 3_600_000;

/// The subject of a signed address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ticket<'a> {
    owner: &'a str,
    template: &'a str,
    hash: &'a str,
    until_unix_ms: u64,
}

impl Ticket<'_> {
    fn signature(&self, keys: &LinkKeys) -> String {
        keys.token(&[PURPOSE, self.owner, self.template, self.hash, &self.until_unix_ms.to_string()])
    }

    fn is_signed(&self, keys: &LinkKeys, signature: &str) -> bool {
        let until = self.until_unix_ms.to_string();
        keys.is_token(&[PURPOSE, self.owner, self.template, self.hash, &until], signature)
    }
}

/// Says whether files are there already, and where to send them.
pub(super) async fn ask(
    State(state): State<E2b>,
    caller: Caller,
    Path((template, hash)): Path<(String, String)>,
    OriginalUri(uri): OriginalUri,
    parts: Parts,
) -> Result<(StatusCode, axum::Json<FileUpload>), E2bError> {
    let files = read_hash(&hash)?;
    let images = state.engine.as_(&caller).images();
    let image = images.get(&template).await?;
    let id = image.id.as_str();
    let until_unix_ms = state.clock.unix_ms() + LIFE_MS;
    let ticket = Ticket { owner: caller.owner.as_str(), template: id, hash: &hash, until_unix_ms };
    let signature = ticket.signature(&state.link_keys);
    let (before, _) = uri.path().rsplit_once("/templates/").unwrap_or_default();
    let url = format!(
        "{}{before}/templates/{id}/files/{hash}?owner={}&until={until_unix_ms}&signature={signature}",
        origin(&state, &parts, &uri),
        caller.owner
    );
    let present = images.has_files(&files).await;
    Ok((StatusCode::CREATED, axum::Json(FileUpload { present, url: Some(url) })))
}

fn read_hash(hash: &str) -> Result<FilesHash, E2bError> {
    hash.parse().map_err(|error| E2bError::bad_request(format!("hash: {error}")))
}

/// The address by which the client reaches the server.
fn origin(state: &E2b, parts: &Parts, uri: &Uri) -> String {
    let secure = parts.extensions.get::<Arrival>().is_some_and(|arrival| arrival.secure);
    let scheme = if secure || state.config.ports.behind_tls { "https" } else { "http" };
    let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = uri.authority().map(|authority| authority.as_str()).or(header);
    format!("{scheme}://{}", authority.unwrap_or("localhost"))
}

/// Takes files from anybody with a signed address that is still valid.
pub(super) async fn receive(
    State(state): State<E2b>,
    Path((template, hash)): Path<(String, String)>,
    params: Params,
    body: Body,
) -> Result<StatusCode, E2bError> {
    let files = read_hash(&hash)?;
    let owner = admitted(&state, &template, &hash, &params)?;
    let images = state.engine_as(BY, &owner).images();
    if images.get(&template).await?.id.as_str() != template {
        return Err(missing(&template));
    }
    let engine = state.engine.clone();
    let most = state.config.http.max_upload;
    let (source, outcome) = Incoming::new(transfer::reader(body), most, move || engine.check_disk());
    match images.keep_files(&files, source).await {
        Ok(()) => Ok(StatusCode::OK),
        Err(ImageError::Files(error)) => Err(outcome.blame(ApiError::internal(error)).into()),
        Err(error) => Err(error.into()),
    }
}

/// The owner of a signed address, if it is valid.
fn admitted(state: &E2b, template: &str, hash: &str, params: &Params) -> Result<Owner, E2bError> {
    let text = |name: &str| params.text(name).unwrap_or_default();
    let until_unix_ms = text("until").parse().unwrap_or(0);
    let ticket = Ticket { owner: text("owner"), template, hash, until_unix_ms };
    let good = ticket.is_signed(&state.link_keys, text("signature"));
    let owner = ticket.owner.parse().ok().filter(|_| good && state.clock.unix_ms() < until_unix_ms);
    owner.ok_or_else(|| {
        E2bError::new(ErrorCode::Forbidden, "this address is not good, or not any more: ask for another one")
    })
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeRandom;

    use super::*;

    #[test]
    fn an_address_is_good_for_one_thing() {
        let keys = LinkKeys::random(&FakeRandom::new(1));
        let ticket = Ticket { owner: "me", template: "t", hash: "h", until_unix_ms: 5 };
        let signature = ticket.signature(&keys);
        assert!(ticket.is_signed(&keys, &signature));
        for other in [
            Ticket { owner: "you", ..ticket.clone() },
            Ticket { template: "u", ..ticket.clone() },
            Ticket { hash: "i", ..ticket.clone() },
            Ticket { until_unix_ms: 6, ..ticket.clone() },
        ] {
            assert!(!other.is_signed(&keys, &signature), "{other:?}");
        }
        assert!(!ticket.is_signed(&LinkKeys::random(&FakeRandom::new(2)), &signature));
    }
}
