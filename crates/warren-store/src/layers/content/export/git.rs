//! The details of git's patch format.

use std::io::{self, Read, Write};

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest as _, Sha1};

const BASE85: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Bytes in a line of a binary patch.
const LINE: usize = 52;

/// The id of nothing.
pub(super) const ABSENT: &str = "0000000000000000000000000000000000000000";

/// The id that git gives to a file with this content.
pub(super) fn blob_id(content: &mut dyn Read, length: u64) -> io::Result<String> {
    let mut hash = Sha1::new();
    hash.update(format!("blob {length}\0"));
    let mut buffer = vec![0; 64 << 10];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(HEXLOWER.encode(&hash.finalize()))
}

/// A path as git writes it: as it is, or quoted like a string of C if it holds anything unusual.
pub(super) fn quoted(prefix: &str, path: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| !matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x7f..);
    if path.iter().all(plain) {
        return [prefix.as_bytes(), path].concat();
    }
    let mut text = format!("\"{prefix}").into_bytes();
    for byte in path {
        let short = match byte {
            0x07 => b'a',
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0b => b'v',
            0x0c => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => *byte,
            other if plain(other) => {
                text.push(*other);
                continue;
            }
            other => {
                text.extend(format!("\\{other:03o}").into_bytes());
                continue;
            }
        };
        text.extend([b'\\', short]);
    }
    text.push(b'"');
    text
}

/// Writes one side of a binary patch: the whole content, compressed.
pub(super) fn literal(to: &mut dyn Write, content: &mut dyn Read, length: u64) -> io::Result<()> {
    writeln!(to, "literal {length}")?;
    let lines = Lines { to, pending: Vec::with_capacity(LINE) };
    let mut encoder = ZlibEncoder::new(lines, Compression::default());
    io::copy(content, &mut encoder)?;
    let mut lines = encoder.finish()?;
    lines.line()?;
    writeln!(lines.to)
}

/// Cuts bytes into lines: their number as a letter, then five characters for each four bytes.
struct Lines<'w> {
    to: &'w mut dyn Write,
    pending: Vec<u8>,
}

impl Lines<'_> {
    fn line(&mut self) -> io::Result<()> {
        let Some(last) = self.pending.len().checked_sub(1) else { return Ok(()) };
        let mut line = vec![match u8::try_from(last).unwrap_or(0) {
            short @ 0..26 => b'A' + short,
            long => b'a' + long - 26,
        }];
        for chunk in self.pending.chunks(4) {
            let mut bytes = [0; 4];
            bytes.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            let mut value = u32::from_be_bytes(bytes);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = BASE85.get(usize::try_from(value % 85).unwrap_or(0)).copied().unwrap_or(b'0');
                value /= 85;
            }
            line.extend(digits);
        }
        line.push(b'\n');
        self.pending.clear();
        self.to.write_all(&line)
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(LINE - self.pending.len());
        self.pending.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.pending.len() == LINE {
            self.line()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(blob_id(&mut &b""[..], 0).unwrap(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(&mut &b"hi\n"[..], 3).unwrap(), "45b983be36b73c0788dc9cbcb76cbb80fc7bb057");
    }

    #[test]
    fn only_unusual_paths_are_quoted() {
        assert_eq!(quoted("a/", b"with space"), b"a/with space");
        assert_eq!(quoted("a/", b"q\"\\\t\n\x01\xc3\xa4"), br#""a/q\"\\\t\n\001\303\244""#);
    }
}
