use std::io::{self, Read, Write};
use std::time::Instant;

use crate::layers::content::view::Xattr;

const BLOCK: usize = 512;
const BUFFER: usize = 128 << 10;
const MOST_NAME: usize = 100;
const MOST_OCTAL_ID: u32 = 0o777_7777;
const MOST_OCTAL_SIZE: u64 = 0o777_7777_7777;

/// The kind of an entry, as tar writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File = b'0' as isize,
    HardLink = b'1' as isize,
    Symlink = b'2' as isize,
    /// A character device, and always number 0:0.
    Whiteout = b'3' as isize,
    Directory = b'5' as isize,
    Fifo = b'6' as isize,
    Extended = b'x' as isize,
}

/// One entry without its content.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) modified: (i64, i64),
    pub(super) size: u64,
    pub(super) link: Vec<u8>,
    pub(super) xattrs: Vec<Xattr>,
}

impl Entry {
    pub(super) fn new(kind: Kind, name: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            modified: (0, 0),
            size: 0,
            link: Vec::new(),
            xattrs: Vec::new(),
        }
    }
}

/// Writes a POSIX tar archive, or only counts how long it would be.
pub(super) struct TarWriter<'w> {
    out: Option<&'w mut dyn Write>,
    written: u64,
    buffer: Vec<u8>,
    /// When counting is given up.
    until: Option<Instant>,
}

impl<'w> TarWriter<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out: Some(out), written: 0, buffer: vec![0; BUFFER], until: None }
    }

    pub(super) fn counting() -> Self {
        Self { out: None, written: 0, buffer: Vec::new(), until: None }
    }

    /// Counts until then. After that every entry is an error.
    pub(super) fn counting_until(until: Instant) -> Self {
        Self { until: Some(until), ..Self::counting() }
    }

    /// Tells whether time is up.
    pub(super) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn counts_only(&self) -> bool {
        self.out.is_none()
    }

    pub(super) fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        if self.is_late() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let records = records(entry);
        if !records.is_empty() {
            let extended =
                Entry { size: records.len() as u64, ..Entry::new(Kind::Extended, b"././@PaxHeader") };
            self.put(&header(&extended))?;
            self.put(&records)?;
            self.pad(records.len() as u64)?;
        }
        self.put(&header(entry))
    }

    /// Writes what an entry announced. A source that ends early is an error: the archive could not
    /// be read.
    pub(super) fn content(&mut self, source: &mut dyn Read, size: u64) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return self.skip(size);
        };
        let mut left = size;
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
            let buffer = self.buffer.get_mut(..wanted).unwrap_or_default();
            source.read_exact(buffer)?;
            out.write_all(buffer)?;
            left -= wanted as u64;
        }
        self.written += size;
        self.pad(size)
    }

    /// Counts content that is not read.
    pub(super) fn skip(&mut self, size: u64) -> io::Result<()> {
        self.written += size;
        self.pad(size)
    }

    /// Completes content that was written by others.
    pub(super) fn pad(&mut self, size: u64) -> io::Result<()> {
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        self.put([0; BLOCK].get(..usize::try_from(padding).unwrap_or(0)).unwrap_or_default())
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.put(&[0; 2 * BLOCK])
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.as_mut().map_or(Ok(()), |out| out.write_all(bytes))
    }
}

fn header(entry: &Entry) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    let octal = |value: u64, width: usize| format!("{value:0width$o}\0", width = width - 1).into_bytes();
    let fixed = |text: &[u8], width: usize| {
        let mut field = text.get(..text.len().min(width)).unwrap_or_default().to_vec();
        field.resize(width, 0);
        field
    };
    block.extend(fixed(&entry.name, MOST_NAME));
    block.extend(octal(entry.mode.into(), 8));
    block.extend(octal(if entry.uid > MOST_OCTAL_ID { 0 } else { entry.uid.into() }, 8));
    block.extend(octal(if entry.gid > MOST_OCTAL_ID { 0 } else { entry.gid.into() }, 8));
    block.extend(octal(if entry.size > MOST_OCTAL_SIZE { 0 } else { entry.size }, 12));
    let modified = u64::try_from(entry.modified.0).unwrap_or(0);
    block.extend(octal(if modified > MOST_OCTAL_SIZE { 0 } else { modified }, 12));
    let checksum_at = block.len();
    block.extend(b"        ");
    block.push(entry.kind as u8);
    block.extend(fixed(&entry.link, MOST_NAME));
    block.extend(b"ustar\x0000");
    // Names of owners, which mean nothing elsewhere, and device numbers, which are always zero.
    block.resize(329, 0);
    block.extend(octal(0, 8));
    block.extend(octal(0, 8));
    block.resize(BLOCK, 0);
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block.splice(checksum_at..checksum_at + 8, format!("{sum:06o}\0 ").into_bytes());
    block
}

/// Records for values that do not fit into the header.
fn records(entry: &Entry) -> Vec<u8> {
    let mut records = Vec::new();
    let long = |text: &[u8]| text.len() > MOST_NAME;
    let odd = |text: &[u8]| long(text) && str::from_utf8(text).is_err();
    if odd(&entry.name) || odd(&entry.link) {
        record(&mut records, b"hdrcharset", b"BINARY");
    }
    if long(&entry.name) {
        record(&mut records, b"path", &entry.name);
    }
    if long(&entry.link) {
        record(&mut records, b"linkpath", &entry.link);
    }
    for (key, id) in [(b"uid", entry.uid), (b"gid", entry.gid)] {
        if id > MOST_OCTAL_ID {
            record(&mut records, key, id.to_string().as_bytes());
        }
    }
    if entry.size > MOST_OCTAL_SIZE {
        record(&mut records, b"size", entry.size.to_string().as_bytes());
    }
    let (seconds, nanoseconds) = entry.modified;
    if nanoseconds != 0 || !(0..=MOST_OCTAL_SIZE.cast_signed()).contains(&seconds) {
        record(&mut records, b"mtime", time(seconds, nanoseconds).as_bytes());
    }
    for (name, value) in &entry.xattrs {
        record(&mut records, &[b"SCHILY.xattr.", name.as_slice()].concat(), value);
    }
    records
}

fn time(seconds: i64, nanoseconds: i64) -> String {
    // Before 1970 the fraction counts backwards.
    if seconds < 0 && nanoseconds > 0 {
        format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanoseconds)
    } else {
        format!("{seconds}.{nanoseconds:09}")
    }
}

/// `length key=value\n`, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length += 1;
    }
    records.extend_from_slice(format!("{length} ").as_bytes());
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        for length in [1, 90, 91, 92, 93, 94, 990, 995, 9985] {
            let mut records = Vec::new();
            record(&mut records, b"path", &vec![b'x'; length]);
            let text = String::from_utf8(records).unwrap();
            assert_eq!(text.split(' ').next().unwrap().parse::<usize>().unwrap(), text.len());
        }
    }

    #[test]
    fn times_before_1970_count_backwards() {
        assert_eq!(time(-2, 750_000_000), "-1.250000000");
        assert_eq!(time(-1, 500_000_000), "-0.500000000");
        assert_eq!(time(3, 5), "3.000000005");
    }
}
