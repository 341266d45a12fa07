//! The credentials of registries that a login with Docker's command line, podman's or skopeo's
//! left in Docker's file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use warren_core::DOCKER_HUB;
use warren_registry::Credentials;

use crate::hidden;

const MOST_BYTES: u64 = 1 << 20;

/// Docker Hub, as the file names it.
const HUB: &str = "index.docker.io";

/// The file's knowledge of a registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    Credentials(Credentials),
    /// They are kept by this program.
    Helper(String),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Logins {
    auths: BTreeMap<String, Login>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "lowercase")]
struct Login {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// Looks a registry up in the user's file. One that cannot be read knows nothing.
pub(super) fn find(registry: &str) -> Known {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")));
    directory.map_or(Known::Nothing, |directory| find_in(&directory.join("config.json"), registry))
}

fn find_in(path: &Path, registry: &str) -> Known {
    let text = File::open(path).and_then(|file| hidden::read_text(file, MOST_BYTES)).unwrap_or_default();
    let file: Logins = serde_json::from_str(&text).unwrap_or_default();
    let is_it = |name: &str| host_of(name) == if registry == DOCKER_HUB { HUB } else { registry };
    if let Some((_, helper)) = file.cred_helpers.iter().find(|(name, _)| is_it(name)) {
        return Known::Helper(helper.clone());
    }
    let Some((_, login)) = file.auths.iter().find(|(name, _)| is_it(name)) else { return Known::Nothing };
    match (login.credentials(), file.creds_store) {
        (Some(credentials), _) => Known::Credentials(credentials),
        (None, Some(helper)) => Known::Helper(helper),
        (None, None) => Known::Nothing,
    }
}

impl Login {
    fn credentials(&self) -> Option<Credentials> {
        if let Some(token) = self.identitytoken.clone().filter(|token| !token.is_empty()) {
            return Some(Credentials::Identity(token));
        }
        let pair = match (&self.username, &self.password, &self.auth) {
            (Some(username), Some(password), _) => (username.clone(), password.clone()),
            (_, _, Some(auth)) => {
                let text = String::from_utf8(BASE64_STANDARD.decode(auth).ok()?).ok()?;
                let (username, password) = text.split_once(':')?;
                (username.to_owned(), password.trim_end_matches('\0').to_owned())
            }
            _ => return None,
        };
        let (username, password) = pair;
        (!username.is_empty()).then_some(Credentials::Password { username, password })
    }
}

/// The file has hosts, and addresses from older times.
fn host_of(name: &str) -> &str {
    let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn logins_are_found_as_they_were_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        let text = r#"{
            "auths": {
                "https://index.docker.io/v1/": {"auth": "YWRhOnM6ZWNyZXQ="},
                "localhost:5000": {"username": "bob", "password": "x"},
                "ghcr.io": {"auth": "", "identitytoken": "long"},
                "kept.example": {},
                "broken.example": {"auth": "!!"}
            },
            "credHelpers": {"aws.example": "ecr-login"},
            "HttpHeaders": {"x": "y"}
        }"#;
        fs::write(&path, text).unwrap();
        let password = |username: &str, password: &str| {
            Known::Credentials(Credentials::Password {
                username: username.to_owned(),
                password: password.to_owned(),
            })
        };
        assert_eq!(find_in(&path, "docker.io"), password("ada", "s:ecret"));
        assert_eq!(find_in(&path, "localhost:5000"), password("bob", "x"));
        assert_eq!(find_in(&path, "ghcr.io"), Known::Credentials(Credentials::Identity("long".to_owned())));
        assert_eq!(find_in(&path, "aws.example"), Known::Helper("ecr-login".to_owned()));
        for unknown in ["kept.example", "broken.example", "other.example"] {
            assert_eq!(find_in(&path, unknown), Known::Nothing, "{unknown}");
        }
        fs::write(&path, r#"{"auths": {"kept.example": {}}, "credsStore": "pass"}"#).unwrap();
        assert_eq!(find_in(&path, "kept.example"), Known::Helper("pass".to_owned()));
        fs::write(&path, "nonsense").unwrap();
        assert_eq!(find_in(&path, "kept.example"), Known::Nothing);
    }
}
