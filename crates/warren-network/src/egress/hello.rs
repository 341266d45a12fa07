//! The first message of a TLS connection, read as far as it says for whom it is. Bytes are a
//! sandbox's: nothing here trusts a length.

use warren_core::HostName;

use super::visit::Asked;

/// A greeting may be this long, record headers included.
pub(crate) const MOST_HELLO: usize = 32 << 10;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const MOST_RECORD: usize = 1 << 14;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// A client's greeting (ClientHello).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) server: ServerName,
    /// It carries another, encrypted greeting, whose name may be any.
    pub(crate) is_encrypted: bool,
}

/// Which server a greeting asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerName {
    Absent,
    Name(HostName),
    /// Text that is no name, made fit to be shown.
    Odd(String),
}

/// How far a greeting could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// So far so good.
    Unfinished,
    Whole(Hello),
    /// No server would take it.
    Malformed,
}

impl Hello {
    /// The name that may be believed: one that is said, and nothing behind it is hidden.
    pub(crate) fn name(&self) -> Option<&HostName> {
        match &self.server {
            ServerName::Name(name) if !self.is_encrypted => Some(name),
            ServerName::Name(_) | ServerName::Odd(_) | ServerName::Absent => None,
        }
    }

    /// The target that it asks for.
    pub(crate) fn asked(&self) -> Asked {
        match self.name() {
            Some(name) => Asked::Name(name.clone()),
            None if self.is_encrypted => Asked::Hidden(self.shown()),
            None => Asked::Unnamed(self.shown()),
        }
    }

    /// The name in it, for people.
    fn shown(&self) -> Option<String> {
        match &self.server {
            ServerName::Absent => None,
            ServerName::Name(name) => Some(name.to_string()),
            ServerName::Odd(text) => Some(text.clone()),
        }
    }
}

/// Reads a greeting from a connection's first bytes.
pub(crate) fn read(bytes: &[u8]) -> Greeting {
    let message = match handshake(bytes) {
        Ok(Some(message)) => message,
        Ok(None) if bytes.len() < MOST_HELLO => return Greeting::Unfinished,
        Ok(None) | Err(Malformed) => return Greeting::Malformed,
    };
    client_hello(&message).map_or(Greeting::Malformed, Greeting::Whole)
}

struct Malformed;

/// The first handshake message, put together from the records it was cut into; `None` while some of
/// it is missing.
fn handshake(bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let mut rest = bytes;
    let mut message = Vec::new();
    loop {
        if let Some(&kind) = message.first()
            && kind != CLIENT_HELLO
        {
            return Err(Malformed);
        }
        if let Some(length) = announced(&message) {
            if length > MOST_HELLO {
                return Err(Malformed);
            }
            if message.len() >= 4 + length {
                return Ok(message.get(4..4 + length).map(<[u8]>::to_vec));
            }
        }
        let Some((header, after)) = rest.split_first_chunk::<5>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != HANDSHAKE || header[1] != 3 || length == 0 || length > MOST_RECORD {
            return Err(Malformed);
        }
        let Some((fragment, after)) = after.split_at_checked(length) else {
            return Ok(None);
        };
        message.extend_from_slice(fragment);
        rest = after;
    }
}

/// How long a handshake message says it is, without its own header.
fn announced(message: &[u8]) -> Option<usize> {
    let header = message.first_chunk::<4>()?;
    Some(usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]))
}

fn client_hello(body: &[u8]) -> Option<Hello> {
    let mut body = Reader(body);
    body.take(2 + 32)?;
    let session = body.byte()?;
    body.take(session.into())?;
    body.vector()?;
    let compressions = body.byte()?;
    body.take(compressions.into())?;
    let mut hello = Hello { server: ServerName::Absent, is_encrypted: false };
    if body.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Reader(body.vector()?);
    if !body.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.vector()?;
        match kind {
            // Who names two servers may be read in two ways.
            SERVER_NAME if hello.server != ServerName::Absent => return None,
            SERVER_NAME => hello.server = server_name(content)?,
            ENCRYPTED_CLIENT_HELLO => hello.is_encrypted = true,
            _ => {}
        }
    }
    Some(hello)
}

/// The one name of the one kind there is.
fn server_name(content: &[u8]) -> Option<ServerName> {
    let mut content = Reader(content);
    let mut list = Reader(content.vector()?);
    if list.byte()? != 0 {
        return None;
    }
    let name = list.vector()?;
    if !list.0.is_empty() || !content.0.is_empty() {
        return None;
    }
    let text = std::str::from_utf8(name).ok().and_then(|text| text.parse().ok());
    Some(text.map_or_else(|| ServerName::Odd(odd(name)), ServerName::Name))
}

/// Text of a stranger, short and without surprises.
pub(crate) fn odd(bytes: &[u8]) -> String {
    bytes.escape_ascii().map(char::from).take(120).collect()
}

/// Takes bytes off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|taken| u16::from_be_bytes([taken[0], taken[1]]))
    }

    /// Reads a field that follows its own length in two bytes.
    fn vector(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}

#[cfg(test)]
#[path = "hello_tests.rs"]
pub(crate) mod tests;
