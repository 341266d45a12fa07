use std::ops::Range;

use super::sparse::GnuMap;
use super::{ArchiveError, BLOCK_SIZE, Entry, Kind};

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MODIFIED: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const KIND: usize = 156;
const LINK: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..263;
const DEVICE: Range<usize> = 329..345;
const PREFIX: Range<usize> = 345..500;
/// As long as any file can be.
const MAX_SIZE: u64 = i64::MAX.unsigned_abs() - 1024;
const USTAR: &[u8] = b"ustar\0";

/// One header block, its numbers read.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) size: u64,
    pub(super) offset: u64,
    name: Vec<u8>,
    link: Vec<u8>,
    mode: u64,
    uid: u64,
    gid: u64,
    modified: u64,
    /// Set if it has a device number other than 0:0.
    numbered: bool,
    pub(super) sparse: Option<GnuMap>,
}

impl Header {
    pub(super) fn parse(block: &[u8; BLOCK_SIZE], offset: u64) -> Result<Self, ArchiveError> {
        if !is_header(block) {
            return Err(ArchiveError::Checksum { offset });
        }
        let field =
            |range: Range<usize>, field| number(&block[range]).ok_or(ArchiveError::Field { offset, field });
        let kind = block[KIND];
        Ok(Self {
            kind,
            size: field(SIZE, "size")?,
            offset,
            name: name(block),
            link: text(&block[LINK]).to_owned(),
            mode: field(MODE, "mode")?,
            uid: field(UID, "owner")?,
            gid: field(GID, "group")?,
            // Times before 1970 and other oddities are not worth a refusal.
            modified: number(&block[MODIFIED]).unwrap_or(0),
            numbered: block[DEVICE].iter().any(|byte| !matches!(byte, 0 | b' ' | b'0')),
            sparse: if kind == b'S' { Some(GnuMap::parse(block, offset)?) } else { None },
        })
    }

    pub(super) fn into_entry(
        self,
        name: Option<Vec<u8>>,
        link: Option<Vec<u8>>,
        size: Option<u64>,
    ) -> Result<Entry, ArchiveError> {
        let name = name.unwrap_or(self.name);
        let size = size.unwrap_or(self.size);
        if size > MAX_SIZE {
            return Err(ArchiveError::Field { offset: self.offset, field: "size" });
        }
        let malformed = |field| move |_| ArchiveError::Field { offset: self.offset, field };
        let kind = match self.kind {
            // Before there was a type for directories they were files with a slash.
            0 | b'0' if name.ends_with(b"/") => Kind::Directory,
            0 | b'0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' if !self.numbered => Kind::Whiteout,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => Kind::Other(other),
        };
        Ok(Entry {
            name,
            link: link.unwrap_or(self.link),
            kind,
            mode: u32::try_from(self.mode).map_err(malformed("mode"))?,
            uid: self.uid,
            gid: self.gid,
            modified: (i64::try_from(self.modified).unwrap_or(0), 0),
            xattrs: Vec::new(),
            sparse: None,
            content: (0, size),
        })
    }
}

/// True if a block is a header: its checksum counts its own field as spaces.
pub(crate) fn is_header(block: &[u8; BLOCK_SIZE]) -> bool {
    let sum = |range: Range<usize>| block[range].iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let expected = sum(0..CHECKSUM.start) + 8 * u64::from(b' ') + sum(CHECKSUM.end..BLOCK_SIZE);
    number(&block[CHECKSUM]) == Some(expected)
}

/// Octal digits amid spaces and NULs, or a binary number whose first bit is set. Blank is 0.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let value = field.iter().enumerate().try_fold(0_u64, |value, (index, byte)| {
            let byte = if index == 0 { byte & 0x7f } else { *byte };
            value.checked_mul(256)?.checked_add(byte.into())
        });
        return value;
    }
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

fn text(field: &[u8]) -> &[u8] {
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..length]
}

fn name(block: &[u8; BLOCK_SIZE]) -> Vec<u8> {
    let mut name = Vec::new();
    // GNU archives have other things in place of the prefix, and another magic.
    if &block[MAGIC] == USTAR && block[PREFIX.start] != 0 {
        name.extend_from_slice(text(&block[PREFIX]));
        name.push(b'/');
    }
    name.extend_from_slice(text(&block[NAME]));
    name
}
