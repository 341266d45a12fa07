use http::HeaderMap;
use http::request::Parts;
use warren_core::HostName;
use warren_core::network::Host;

use super::visit::Asked;
use super::{addressee as addressees, glance as glances, hello, http as plain, speech as speeches};

/// How far a greeting could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    Unfinished,
    Malformed,
    Whole {
        /// What would be judged.
        name: Option<HostName>,
        /// What would be shown.
        shown: Option<String>,
        is_encrypted: bool,
    },
}

/// What a connection was taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speech {
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

pub fn speech(bytes: &[u8]) -> Speech {
    match speeches::listen(bytes) {
        speeches::Speech::Unclear => Speech::Unclear,
        speeches::Speech::Tls(hello) => Speech::Tls(hello.name().cloned()),
        speeches::Speech::Http1 => Speech::Http1,
        speeches::Speech::Http2 => Speech::Http2,
        speeches::Speech::Other => Speech::Other,
    }
}

/// What is told of a connection that is let through anyway.
pub fn glance(bytes: &[u8]) -> Option<Host> {
    host(glances::asked(bytes))
}

/// Where a request is judged to go, and to which port if it says so; `None` if it is refused. One of HTTP/1.0 may name nobody.
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
