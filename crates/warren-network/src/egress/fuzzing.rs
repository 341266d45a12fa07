use http::HeaderMap;
use http::request::Parts;
use warren_core::HostName;
use warren_core::network::Host;

use super::visit::Asked;
use super::{addressee as addressees, hello, http as plain, peek as peeks, sniff as sniffs};

/// How far a greeting could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    Unfinished,
    Malformed,
    Whole {
        /// The name that would be judged.
        name: Option<HostName>,
        /// The name that would be shown.
        shown: Option<String>,
        is_encrypted: bool,
    },
}

/// The protocol that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sniffed {
    Unclear,
    Tls(Option<HostName>),
    Http1,
    Http2,
    Other,
}

pub fn greeting(bytes: &[u8]) -> Greeting {
    match hello::read(bytes) {
        hello::Greeting::Unfinished => Greeting::Unfinished,
        hello::Greeting::Malformed => Greeting::Malformed,
        hello::Greeting::Whole(hello) => Greeting::Whole {
            name: hello.name().cloned(),
            shown: hello.asked().shown(),
            is_encrypted: hello.is_encrypted,
        },
    }
}

pub fn sniff(bytes: &[u8]) -> Sniffed {
    match sniffs::sniff(bytes) {
        sniffs::Sniffed::Unclear => Sniffed::Unclear,
        sniffs::Sniffed::Tls(hello) => Sniffed::Tls(hello.name().cloned()),
        sniffs::Sniffed::Http1 => Sniffed::Http1,
        sniffs::Sniffed::Http2 => Sniffed::Http2,
        sniffs::Sniffed::Other => Sniffed::Other,
    }
}

/// The host that is reported for a connection that is let through anyway.
pub fn peek(bytes: &[u8]) -> Option<Host> {
    host(peeks::asked(bytes))
}

/// Where a request is judged to go, and to which port if it says so; `None` if it is refused. One
/// of HTTP/1.0 may name nobody.
pub fn addressee(parts: &Parts) -> Option<(Option<Host>, Option<u16>)> {
    let addressee = addressees::of(parts).ok()?;
    Some((host(addressee.asked), addressee.port))
}

/// Takes out of a request what is not passed on.
pub fn pass_on(headers: &mut HeaderMap) {
    drop(plain::pass_on(headers));
}

fn host(asked: Asked) -> Option<Host> {
    match asked {
        Asked::Name(name) => Some(Host::Name(name)),
        Asked::Literal(address) => Some(Host::Address(address)),
        Asked::Unnamed(_) | Asked::Hidden(_) | Asked::Raw => None,
    }
}
