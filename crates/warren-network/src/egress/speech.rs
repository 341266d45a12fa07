//! What is being spoken on a connection, by its first bytes.
//!
//! What might be read as HTTP or TLS by any server is never taken for something else: those carry a name, which has to be looked at.

use super::hello::{self, Greeting, Hello, MOST_HELLO, ServerName};

/// So many bytes are looked at before somebody has to have said what this is.
pub(crate) const MOST_HEARD: usize = MOST_HELLO;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH", b"CONNECT"];

/// What a client speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Speech {
    /// It could still be several things.
    Unclear,
    Tls(Hello),
    Http1,
    /// HTTP/2 without TLS, from the first byte.
    Http2,
    Other,
}

/// Tells what a client's first bytes are.
pub(crate) fn listen(bytes: &[u8]) -> Speech {
    match bytes {
        [] => Speech::Unclear,
        [20..=24] => Speech::Unclear,
        [20..=24, 3, ..] => tls(bytes),
        // A greeting in the form of SSL 2, which has no names.
        [128..=255, _, 1, 3, ..] => nameless(),
        [128..=255] | [128..=255, _] | [128..=255, _, 1] => Speech::Unclear,
        _ => text(bytes),
    }
}

/// Whether these are the first bytes of a server that speaks HTTP/2: it need not wait for its client.
pub(crate) fn begins_http2(bytes: &[u8]) -> bool {
    match bytes {
        [high, middle, low, 4, 0, 0, 0, 0, 0, ..] => {
            let length = u32::from_be_bytes([0, *high, *middle, *low]);
            length.is_multiple_of(6) && length <= 1 << 14
        }
        _ => false,
    }
}

fn tls(bytes: &[u8]) -> Speech {
    match hello::read(bytes) {
        Greeting::Unfinished => Speech::Unclear,
        Greeting::Whole(hello) => Speech::Tls(hello),
        Greeting::Malformed => nameless(),
    }
}

fn nameless() -> Speech {
    Speech::Tls(Hello { server: ServerName::Absent, is_encrypted: false })
}

/// Something that may begin with a line of text.
fn text(bytes: &[u8]) -> Speech {
    if bytes.len() <= PREFACE.len() && PREFACE.starts_with(bytes) {
        return if bytes.len() == PREFACE.len() { Speech::Http2 } else { Speech::Unclear };
    }
    if bytes.starts_with(PREFACE) {
        return Speech::Http2;
    }
    match first_line(bytes) {
        // Whoever hides the line behind so much is not helped: what reads HTTP will refuse it.
        Speech::Unclear if bytes.len() >= MOST_HEARD => Speech::Http1,
        speech => speech,
    }
}

fn first_line(bytes: &[u8]) -> Speech {
    // Servers forgive empty lines in front.
    let blank = bytes.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
    let line = &bytes[blank..];
    let word_length = line.iter().take_while(|byte| is_of_a_word(**byte)).count();
    let (word, rest) = line.split_at(word_length);
    let is_method = METHODS.contains(&word) || word == b"PRI";
    match rest {
        // There are servers that take a word of any length for a method.
        [] => Speech::Unclear,
        _ if is_method => Speech::Http1,
        [b' ' | b'\t', ..] if !word.is_empty() => after_a_word(rest),
        _ => Speech::Other,
    }
}

/// The rest of a line that begins with a word and a space.
fn after_a_word(rest: &[u8]) -> Speech {
    let end = rest.iter().position(|byte| *byte == b'\n' || is_control(*byte));
    let line = &rest[..end.unwrap_or(rest.len())];
    let is_http = line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    match end {
        _ if is_http => Speech::Http1,
        Some(_) => Speech::Other,
        None => Speech::Unclear,
    }
}

fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What stands in no line of text.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !b"\t\r\n".contains(&byte)
}

#[cfg(test)]
#[path = "speech_tests.rs"]
mod tests;
