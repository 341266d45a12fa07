use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::checked_text;

/// A host as a client, a rule or a question names it. The one place where names are read: whatever
/// is checked and whatever is dialled went through here, so both are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(HostName),
    Address(IpAddr),
}

/// A host name in its one form: lower case, no dot at the end, at least one letter in the last
/// label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// Text that is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("a host name must not be empty")]
    Empty,
    #[error("a host name has at most 253 bytes, and 63 between dots")]
    Long,
    #[error(
        "a host name has letters, digits, `-` and `_` between dots; write others in their ASCII form (xn--…)"
    )]
    Character,
    #[error("a label of a host name must not be empty or begin or end with `-`")]
    Label,
    #[error("this is neither a host name nor an address in its usual form")]
    OddAddress,
}

const MOST_BYTES: usize = 253;
const MOST_LABEL: usize = 63;

impl HostName {
    /// True if this name is below another: `a.b.example` is below `b.example` and `example`, and
    /// nothing is below itself.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }
}

impl FromStr for HostName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if name.len() > MOST_BYTES {
            return Err(HostError::Long);
        }
        let mut last = "";
        for label in name.split('.') {
            check_label(label)?;
            last = label;
        }
        // What other parsers take for an address, in decimal, octal or hexadecimal, is no name to
        // anybody.
        if is_number(last) {
            return Err(HostError::OddAddress);
        }
        Ok(Self(name.to_ascii_lowercase()))
    }
}

checked_text!(HostName);

fn check_label(label: &str) -> Result<(), HostError> {
    if label.len() > MOST_LABEL {
        return Err(HostError::Long);
    }
    if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return Err(HostError::Character);
    }
    if label.is_empty() || label.starts_with('-') || label.ends_with('-') {
        return Err(HostError::Label);
    }
    Ok(())
}

/// `7`, `017`, `0x7f`: what ends in such a label is read as an IPv4 address by `inet_aton` and by
/// browsers.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl FromStr for Host {
    type Err = HostError;

    /// A name, `192.0.2.1`, `2001:db8::1` or `[2001:db8::1]`. No port, no zone, no user.
    fn from_str(text: &str) -> Result<Self, HostError> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return inner
                .parse::<Ipv6Addr>()
                .map(|address| Self::Address(address.into()))
                .map_err(|_| HostError::OddAddress);
        }
        if text.contains(':') {
            return text
                .parse::<Ipv6Addr>()
                .map(|address| Self::Address(address.into()))
                .map_err(|_| HostError::OddAddress);
        }
        if let Ok(address) = text.strip_suffix('.').unwrap_or(text).parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        text.parse().map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
