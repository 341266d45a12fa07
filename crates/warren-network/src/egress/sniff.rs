//! Finds the protocol of a connection by its first bytes.
//!
//! Bytes that any server could read as HTTP or TLS are never taken for something else: those carry
//! a name, which has to be looked at.

use super::hello::{self, Greeting, Hello, MOST_HELLO, ServerName};

/// So many bytes are looked at before somebody has to have said what this is.
pub(crate) const MOST_HEARD: usize = MOST_HELLO;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH", b"CONNECT"];

/// The protocol of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sniffed {
    /// It could still be several things.
    Unclear,
    Tls(Hello),
    Http1,
    /// HTTP/2 without TLS, from the first byte.
    Http2,
    Other,
}

/// Tells what a client's first bytes are.
pub(crate) fn sniff(bytes: &[u8]) -> Sniffed {
    match bytes {
        [] => Sniffed::Unclear,
        [20..=24] => Sniffed::Unclear,
        [20..=24, 3, ..] => tls(bytes),
        // A greeting in the form of SSL 2, which has no names.
        [128..=255, _, 1, 3, ..] => nameless(),
        [128..=255] | [128..=255, _] | [128..=255, _, 1] => Sniffed::Unclear,
        _ => text(bytes),
    }
}

/// True for the first bytes of a server that speaks HTTP/2: it need not wait for its client.
pub(crate) fn begins_http2(bytes: &[u8]) -> bool {
    match bytes {
        [high, middle, low, 4, 0, 0, 0, 0, 0, ..] => {
            let length = u32::from_be_bytes([0, *high, *middle, *low]);
            length.is_multiple_of(6) && length <= 1 << 14
        }
        _ => false,
    }
}

fn tls(bytes: &[u8]) -> Sniffed {
    match hello::read(bytes) {
        Greeting::Unfinished => Sniffed::Unclear,
        Greeting::Whole(hello) => Sniffed::Tls(hello),
        Greeting::Malformed => nameless(),
    }
}

fn nameless() -> Sniffed {
    Sniffed::Tls(Hello { server: ServerName::Absent, is_encrypted: false })
}

/// Something that may begin with a line of text.
fn text(bytes: &[u8]) -> Sniffed {
    if bytes.len() <= PREFACE.len() && PREFACE.starts_with(bytes) {
        return if bytes.len() == PREFACE.len() { Sniffed::Http2 } else { Sniffed::Unclear };
    }
    if bytes.starts_with(PREFACE) {
        return Sniffed::Http2;
    }
    match first_line(bytes) {
        // A client that hides the line behind so much is refused by the reader of HTTP.
        Sniffed::Unclear if bytes.len() >= MOST_HEARD => Sniffed::Http1,
        sniffed => sniffed,
    }
}

fn first_line(bytes: &[u8]) -> Sniffed {
    // Servers forgive empty lines in front.
    let blank = bytes.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
    let line = &bytes[blank..];
    let word_length = line.iter().take_while(|byte| is_of_a_word(**byte)).count();
    let (word, rest) = line.split_at(word_length);
    let is_method = METHODS.contains(&word) || word == b"PRI";
    match rest {
        // There are servers that take a word of any length for a method.
        [] => Sniffed::Unclear,
        _ if is_method => Sniffed::Http1,
        [b' ' | b'\t', ..] if !word.is_empty() => after_a_word(rest),
        _ => Sniffed::Other,
    }
}

/// The rest of a line that begins with a word and a space.
fn after_a_word(rest: &[u8]) -> Sniffed {
    let end = rest.iter().position(|byte| *byte == b'\n' || is_control(*byte));
    let line = &rest[..end.unwrap_or(rest.len())];
    let is_http = line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    match end {
        _ if is_http => Sniffed::Http1,
        Some(_) => Sniffed::Other,
        None => Sniffed::Unclear,
    }
}

fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// True for characters that no line of text has.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !b"\t\r\n".contains(&byte)
}

#[cfg(test)]
#[path = "sniff_tests.rs"]
mod tests;
