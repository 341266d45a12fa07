//! Heads of messages between an application and its clients: everything that concerns the two of
//! them is passed on, and nothing that is about one connection only or about us.

use axum::extract::Request;
use http::header::{
    ALT_SVC, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version, response};
use warren_face::arrival::Arrival;

use super::Target;
use super::access::{COOKIE_NAME, TOKEN_HEADERS};
use super::route::ROUTING_HEADERS;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// About one connection, and of no meaning on the next.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers about where a request came from or went to. Applications believe them, so only we set
/// them.
const SAID_BY_US: [HeaderName; 10] = [
    FORWARDED,
    FORWARDED_FOR,
    FORWARDED_HOST,
    FORWARDED_PROTO,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
];

/// Facts about a request that an application is told beside what the client said.
pub(super) struct RequestFacts<'a> {
    pub(super) target: &'a Target,
    pub(super) arrival: Arrival,
    pub(super) secure: bool,
    /// The host that the application is to see, if not the client's.
    pub(super) host: Option<HeaderValue>,
    /// The client's wish for another protocol is passed on.
    pub(super) upgrades: bool,
}

/// A request's head as the application sees it.
pub(super) fn outgoing(mut parts: Parts, facts: &RequestFacts<'_>) -> Parts {
    let upgrade = parts.headers.get(UPGRADE).filter(|_| facts.upgrades).cloned();
    let headers = &mut parts.headers;
    strip_hop_by_hop(headers);
    for name in SAID_BY_US.iter().chain([&EXPECT, &CONTENT_LENGTH]) {
        headers.remove(name);
    }
    for (sandbox, port) in ROUTING_HEADERS {
        headers.remove(sandbox);
        headers.remove(port);
    }
    for name in TOKEN_HEADERS {
        headers.remove(name);
    }
    join_cookies(headers);
    let RequestFacts { target, arrival, secure, host, .. } = facts;
    let authority = HeaderValue::from_str(&target.authority).ok();
    if let Some(host) = host.as_ref().or(authority.as_ref()) {
        headers.insert(HOST, host.clone());
    }
    authority.into_iter().for_each(|authority| drop(headers.insert(FORWARDED_HOST, authority)));
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(if *secure { "https" } else { "http" }));
    if let Some(address) = arrival.address.and_then(|address| HeaderValue::try_from(address.to_string()).ok())
    {
        headers.insert(FORWARDED_FOR, address);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.map(Uri::from).unwrap_or_default();
    // How an HTTP/1 client wrote the names of its headers is in there; of HTTP/2 nothing is to be
    // kept.
    if parts.version == Version::HTTP_2 {
        parts.extensions.clear();
    }
    parts.version = Version::HTTP_11;
    parts
}

/// An answer's head as the client sees it.
pub(super) fn returning(parts: &mut response::Parts) {
    strip_hop_by_hop(&mut parts.headers);
    // Where else the application could be reached is not for it to say.
    parts.headers.remove(ALT_SVC);
    let cookies: Vec<HeaderValue> = drain(&mut parts.headers, &SET_COOKIE).collect();
    for cookie in cookies.iter().filter_map(own_cookie) {
        parts.headers.append(SET_COOKIE, cookie);
    }
    parts.version = Version::HTTP_11;
}

/// True if the end of an answer can be read in two ways.
pub(super) fn has_two_lengths(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH)
}

/// The same cookie for the host that set it and no other; `None` for one that is ours.
fn own_cookie(cookie: &HeaderValue) -> Option<HeaderValue> {
    let bytes = cookie.as_bytes();
    let name = bytes.split(|byte| matches!(byte, b'=' | b';')).next().unwrap_or_default();
    if name.trim_ascii().eq_ignore_ascii_case(COOKIE_NAME.as_bytes()) {
        return None;
    }
    let names_domain = |part: &[u8]| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"domain")
    };
    if !bytes.split(|byte| *byte == b';').skip(1).any(names_domain) {
        return Some(cookie.clone());
    }
    let mut parts = bytes.split(|byte| *byte == b';');
    let value = parts.next().unwrap_or_default();
    let kept = std::iter::once(value).chain(parts.filter(|part| !names_domain(part)));
    HeaderValue::from_bytes(&kept.collect::<Vec<_>>().join(&b';')).ok()
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// HTTP/2 may send a cookie in pieces, which HTTP/1 has no way to.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let pieces: Vec<HeaderValue> = drain(headers, &COOKIE).collect();
    let joined = pieces.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    if let Ok(cookie) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, cookie);
    }
}

/// Takes all values of a name.
pub(super) fn drain(headers: &mut HeaderMap, name: &HeaderName) -> impl Iterator<Item = HeaderValue> + use<> {
    let values: Vec<HeaderValue> = match headers.entry(name) {
        http::header::Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
        http::header::Entry::Vacant(_) => Vec::new(),
    };
    values.into_iter()
}

/// True if the client wants another protocol on this connection.
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    let is_upgrade = |word: &str| word.trim().eq_ignore_ascii_case("upgrade");
    let connection = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    headers.contains_key(UPGRADE) && connection.flat_map(|value| value.split(',')).any(is_upgrade)
}

/// True if the request can change protocols where it is: HTTP/2 has other ways.
pub(super) fn can_upgrade(request: &Request) -> bool {
    request.version() == Version::HTTP_11 && wants_upgrade(request.headers())
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
