//! Finding the image of a root, before anything is made.

use serde::Deserialize;
use warren_core::{FoundImage, IsolationError, IsolationErrorKind, MountAccess, RootImage, RootTree};

use super::client::{Client, LxdError};

#[derive(Debug, Deserialize)]
struct Alias {
    target: String,
}

#[derive(Debug, Deserialize)]
struct Found {
    fingerprint: String,
    architecture: String,
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Server {
    environment: Environment,
}

#[derive(Debug, Deserialize)]
struct Environment {
    architectures: Vec<String>,
}

/// Looks an image up: by its digest, which is its fingerprint, or else by its alias, or by a
/// fingerprint or the beginning of one.
pub(super) fn find(client: &Client, asked: &RootImage) -> Result<FoundImage, IsolationError> {
    let found = look(client, asked).map_err(|error| {
        if error.is_not_found() {
            let action = format!(
                "LXD has no image `{asked}`: `lxc image list` and `incus image list` tell those there are"
            );
            return IsolationError::caused(IsolationErrorKind::Invalid, action, error);
        }
        let kind = error.kind(IsolationErrorKind::Host);
        IsolationError::caused(kind, format!("look up the image `{asked}`"), error)
    })?;
    let refused = |why: String| Err(IsolationError::new(IsolationErrorKind::Invalid, why));
    if found.kind == "virtual-machine" {
        return refused(format!("the image `{asked}` is a virtual machine's, and sandboxes are containers"));
    }
    let server: Server = client.get("/1.0").map_err(|error| {
        let kind = error.kind(IsolationErrorKind::Host);
        IsolationError::caused(kind, "ask LXD for its architectures", error)
    })?;
    if !server.environment.architectures.contains(&found.architecture) {
        let own = server.environment.architectures.join(", ");
        return refused(format!(
            "the image `{asked}` is for {}, and this machine is {own}",
            found.architecture
        ));
    }
    // Where its files are is the daemon's to know.
    let trees = vec![RootTree { at: "/".into(), lowers: Vec::new(), access: MountAccess::ReadWrite }];
    let image = RootImage { digest: Some(found.fingerprint), ..asked.clone() };
    Ok(FoundImage { image, trees })
}

fn look(client: &Client, asked: &RootImage) -> Result<Found, LxdError> {
    let at = |fingerprint: &str| client.get(&format!("/1.0/images/{}", quoted(fingerprint)));
    if let Some(digest) = &asked.digest {
        return at(digest);
    }
    let name = asked.name.as_str();
    match client.get::<Alias>(&format!("/1.0/images/aliases/{}", quoted(name))) {
        Ok(alias) => at(&alias.target),
        Err(error) if error.is_not_found() => at(name),
        Err(error) => Err(error),
    }
}

/// A name as one part of a path.
fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let quote = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(quote).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_part_of_a_path() {
        assert_eq!(quoted("debian/12"), "debian%2F12");
        assert_eq!(quoted("../instances?x=1#y"), "..%2Finstances%3Fx%3D1%23y");
        assert_eq!(quoted("small"), "small");
    }
}
