//! The local administrator's key: made at the first start, kept beside the data for commands on
//! this machine.

use std::path::Path;

use serde::{Deserialize, Serialize};
use warren_core::{Owner, Scope};
use warren_face::auth::{NewKey, Secret};

use super::{AnnouncedKey, E2bAddress, ServeError, ServeOptions};
use crate::private_file;
use crate::server::Server;

/// In the data directory, which only root can enter.
const FILE: &str = "server.json";

/// The content of `server.json`.
#[derive(Serialize, Deserialize)]
struct Written {
    url: String,
    /// Empty if the server asks for none, or if it is lost.
    key: String,
}

/// Makes sure that there is a key, that local commands find the server, and that the environment
/// file is written if one was asked for.
pub(super) fn settle(
    server: &Server,
    url: &str,
    e2b: &E2bAddress,
    options: &ServeOptions,
) -> Result<AnnouncedKey, ServeError> {
    let config = &server.state().config;
    let path = config.server.data_dir.join(FILE);
    let (announced, key) =
        if config.auth.enabled { find_or_make(server, &path, options)? } else { (AnnouncedKey::None, None) };
    let written = Written { url: url.to_owned(), key: key.clone().unwrap_or_default() };
    let text = serde_json::to_string_pretty(&written).unwrap_or_default();
    private_file::write(&path, &format!("{text}\n")).map_err(|source| ServeError::Write { path, source })?;
    if let Some(path) = &options.env_file {
        if announced == AnnouncedKey::Lost {
            return Err(ServeError::KeyLost);
        }
        let own = key.as_ref().map(|key| format!("WARREN_API_KEY={key}\n")).unwrap_or_default();
        let e2b = e2b.variables(key.as_deref());
        private_file::write(path, &format!("WARREN_URL={url}\n{own}{e2b}"))
            .map_err(|source| ServeError::Write { path: path.clone(), source })?;
    }
    Ok(announced)
}

fn find_or_make(
    server: &Server,
    path: &Path,
    options: &ServeOptions,
) -> Result<(AnnouncedKey, Option<String>), ServeError> {
    let keyring = &server.state().keyring;
    if options.reset_key || keyring.is_empty() {
        let key = replace(server)?;
        return Ok((AnnouncedKey::New(key.clone()), Some(key)));
    }
    let kept = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<Written>(&text).ok());
    let valid = |key: &String| key.parse::<Secret>().is_ok_and(|secret| keyring.find(&secret).is_some());
    Ok(match kept.map(|written| written.key).filter(valid) {
        Some(key) => (AnnouncedKey::Kept, Some(key)),
        None => (AnnouncedKey::Lost, None),
    })
}

/// Makes a local key, and ends the one before it.
fn replace(server: &Server) -> Result<String, ServeError> {
    let state = server.state();
    if let Some(id) = state.catalog.node_record()?.local_key {
        state.keyring.revoke(state.catalog.as_ref(), state.clock.as_ref(), &id)?;
    }
    let new = NewKey { owner: Owner::first(), name: "local".to_owned(), scope: Scope::Admin };
    let (secret, record) = server.make_key(new).map_err(ServeError::Keys)?;
    state.catalog.update_node(&mut |node| node.local_key = Some(record.id.clone()))?;
    Ok(secret.shown())
}
