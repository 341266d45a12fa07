//! For which host a request over HTTP is, if that can be read in one way only.

use http::request::Parts;
use http::uri::Authority;
use http::{Method, Version, header};
use warren_core::network::Host;

use super::hello::odd;
use super::visit::Asked;

/// The target of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Addressee {
    pub(crate) asked: Asked,
    /// As far as it is said.
    pub(crate) port: Option<u16>,
}

/// Why nobody can tell for which host a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unclear {
    pub(crate) what: &'static str,
    /// The target as the client wrote it, safe to show.
    pub(crate) shown: Option<String>,
}

/// Reads the host of a request. All places that name one must name the same.
pub(crate) fn of(request: &Parts) -> Result<Addressee, Unclear> {
    let mut headers = request.headers.get_all(header::HOST).iter();
    let (first, second) = (headers.next(), headers.next());
    if second.is_some() {
        return Err(Unclear { what: "the request has more than one `Host`", shown: None });
    }
    let said = first.map(|value| read(value.as_bytes())).transpose()?;
    let target = request.uri.authority().map(|authority| read_target(request, authority)).transpose()?;
    match (target, said) {
        (Some(target), Some(said)) if target != said => Err(Unclear {
            what: "the request's target and its `Host` are not the same",
            shown: shown(&target),
        }),
        (Some(addressee), _) | (None, Some(addressee)) => Ok(addressee),
        (None, None) if request.version == Version::HTTP_10 => {
            Ok(Addressee { asked: Asked::Unnamed(None), port: None })
        }
        (None, None) => Err(Unclear { what: "the request has no `Host`", shown: None }),
    }
}

fn shown(addressee: &Addressee) -> Option<String> {
    addressee.asked.shown()
}

/// The authority of a target. `CONNECT` is about another port than the connection's.
fn read_target(request: &Parts, authority: &Authority) -> Result<Addressee, Unclear> {
    let addressee = read(authority.as_str().as_bytes())?;
    if request.method == Method::CONNECT && addressee.port.is_none() {
        return Err(Unclear { what: "`CONNECT` names no port", shown: shown(&addressee) });
    }
    Ok(addressee)
}

/// `host` or `host:port`, and nothing else: no user, no spaces, no escapes.
pub(super) fn read(bytes: &[u8]) -> Result<Addressee, Unclear> {
    let refuse = || Unclear { what: "the request's host is no host", shown: Some(odd(bytes)) };
    let text = std::str::from_utf8(bytes).map_err(|_| refuse())?;
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    // Without brackets an IPv6 address and a port could not be told apart.
    if host.contains(':') && !host.starts_with('[') {
        return Err(refuse());
    }
    let port = port.map(|digits| number(digits).ok_or_else(refuse)).transpose()?;
    let asked = match host.parse().map_err(|_| refuse())? {
        Host::Name(name) => Asked::Name(name),
        Host::Address(address) => Asked::Literal(address.to_canonical()),
    };
    Ok(Addressee { asked, port })
}

fn number(digits: &str) -> Option<u16> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_plain && *port != 0)
}

#[cfg(test)]
#[path = "addressee_tests.rs"]
mod tests;
