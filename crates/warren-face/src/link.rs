//! Links that let a stranger use a port of a sandbox for a while, and the tokens of ports.

use crate::link_keys::LinkKeys;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use warren_core::SandboxId;

/// The parameter of a query in which a link carries its signature.
pub const LINK_PARAMETER: &str = "warren-link";

const VERSION: &str = "1";
/// Nothing that is signed for one purpose is good for another.
const LINK: &str = "warren port link";
const TOKEN: &str = "warren port token";

/// Longer than any link of ours.
const MOST_TEXT: usize = 4096;

/// A permission for a stranger to use a port for a while: with these methods, below this path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub methods: Methods,
    /// The path itself, and all below it.
    pub path: String,
    pub expires_unix_s: u64,
}

/// Which requests a link is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// Methods that only read: `GET`, `HEAD` and `OPTIONS`, and no web socket.
    Read,
    All,
}

/// It is not a link to this port, or not any more. Nobody learns which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLink;

impl Link {
    /// `VERSION.KEY.EXPIRY.METHODS.PATH.SIGNATURE`, the last two in base64.
    pub fn sign(&self, keys: &LinkKeys, sandbox: &SandboxId, port: u16) -> String {
        let path = URL_SAFE_NO_PAD.encode(&self.path);
        let (key, expiry, methods) = (keys.first(), self.expires_unix_s.to_string(), self.methods.word());
        let tag = key.sign(&[
            LINK,
            VERSION,
            key.id(),
            sandbox.as_str(),
            &port.to_string(),
            methods,
            &path,
            &expiry,
        ]);
        format!("{VERSION}.{}.{expiry}.{methods}.{path}.{}", key.id(), URL_SAFE_NO_PAD.encode(tag))
    }

    /// The link, if it was signed for this port and its time is not over. What is signed is the
    /// text as it stands, so there is one way only to write a link.
    pub fn read(
        text: &str,
        keys: &LinkKeys,
        (sandbox, port): (&SandboxId, u16),
        now_unix_s: u64,
    ) -> Result<Self, BadLink> {
        let fields: Vec<&str> = text.split('.').collect();
        let &[VERSION, id, expiry, methods, path, tag] = fields.as_slice() else { return Err(BadLink) };
        if text.len() > MOST_TEXT {
            return Err(BadLink);
        }
        let key = keys.find(id).ok_or(BadLink)?;
        let tag = URL_SAFE_NO_PAD.decode(tag).map_err(|_| BadLink)?;
        let port = port.to_string();
        if !key.verify(&[LINK, VERSION, id, sandbox.as_str(), &port, methods, path, expiry], &tag) {
            return Err(BadLink);
        }
        let path = URL_SAFE_NO_PAD.decode(path).ok().and_then(|path| String::from_utf8(path).ok());
        let link = Self {
            methods: Methods::from_word(methods).ok_or(BadLink)?,
            path: path.ok_or(BadLink)?,
            expires_unix_s: expiry.parse().map_err(|_| BadLink)?,
        };
        if link.expires_unix_s > now_unix_s { Ok(link) } else { Err(BadLink) }
    }

    /// True if it is good for such a request.
    pub fn allows(&self, method: &Method, path: &str, upgrades: bool) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !upgrades;
        (reads || self.methods == Methods::All) && is_below(path, &self.path)
    }
}

impl Methods {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::All => "all",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Read, Self::All].into_iter().find(|methods| methods.word() == word)
    }
}

/// True if a path lies at or below another. A path that an application might read as another one
/// lies nowhere.
fn is_below(path: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    if top.is_empty() {
        return true;
    }
    let plain = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    let odd = plain.contains('\\') || plain.split('/').any(|part| part == "." || part == "..");
    !odd && path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The token of one port of one sandbox, valid for as long as the sandbox exists. It follows from
/// the key, so nobody has to store it.
pub fn token(keys: &LinkKeys, sandbox: &SandboxId, port: u16) -> String {
    URL_SAFE_NO_PAD.encode(keys.first().sign(&[TOKEN, VERSION, sandbox.as_str(), &port.to_string()]))
}

/// True if the text is the token of the port.
pub fn is_token(text: &str, keys: &LinkKeys, sandbox: &SandboxId, port: u16) -> bool {
    let Ok(tag) = URL_SAFE_NO_PAD.decode(text) else { return false };
    let port = port.to_string();
    let parts = [TOKEN, VERSION, sandbox.as_str(), &port];
    keys.all().fold(false, |found, key| key.verify(&parts, &tag) | found)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
