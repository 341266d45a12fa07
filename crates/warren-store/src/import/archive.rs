//! Reads tar archives: ustar, GNU and PAX.
//!
//! Not left to a library, because the archives are hostile and these properties are the point: what
//! is held in memory is bounded, a PAX size overrides the header's in the one place where data is
//! measured, and what two programs could read differently (data behind a link, say) is refused.

mod header;
mod pax;
mod sparse;

use std::io::{self, BufReader, Read, Seek};

use rustix::fs::Timespec;

use crate::tree::{Attributes, EntryError, Xattr, canonical_id};
use header::Header;
pub(crate) use header::is_header;
use pax::Pax;
pub(crate) use sparse::Segment;

const BLOCK: u64 = 512;
const BLOCK_SIZE: usize = 512;
/// Headers that only describe the next entry; a real entry has up to three.
const MAX_EXTENSIONS: usize = 16;

/// An archive cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("read the archive")]
    Read(#[source] io::Error),
    #[error("it ends in the middle: fetch it again")]
    Truncated,
    #[error("the header at byte {offset} has a wrong checksum")]
    Checksum { offset: u64 },
    #[error("the header at byte {offset} has a malformed {field}")]
    Field { offset: u64, field: &'static str },
    #[error("the extended header at byte {offset} is larger than {limit} bytes")]
    HeaderTooLarge { offset: u64, limit: u64 },
    #[error("the extended header at byte {offset} is malformed")]
    Pax { offset: u64 },
    #[error("the entry at byte {offset} has too many extended headers")]
    Extensions { offset: u64 },
    #[error("the entry at byte {offset} is no file and yet has content")]
    UnexpectedContent { offset: u64 },
    #[error("the sparse file at byte {offset} has a malformed map")]
    Sparse { offset: u64 },
}

/// The need for an end mark in an archive. Where a digest covers the whole, its absence means
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndMark {
    Required,
    Optional,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    Fifo,
    Device,
    /// The character device 0:0, which hides a name in a layer of an overlay.
    Whiteout,
    /// Of a type no root filesystem needs.
    Other(u8),
}

/// One entry, its extended headers applied. Its content follows in the reader.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where content goes in a file with holes, and how long the file is.
    pub(crate) sparse: Option<(Vec<Segment>, u64)>,
    /// Where its content starts in the archive, and how long it is there.
    pub(crate) content: (u64, u64),
}

/// A stream that can be moved forward.
pub(crate) trait Input: Read {
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// A stream that moves forward by being read.
#[derive(Debug)]
pub(crate) struct Streamed<R>(pub(crate) R);

impl<R: Read> Read for Streamed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Input for Streamed<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.0).take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl<R: Read + Seek> Input for BufReader<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.seek_relative(i64::try_from(bytes).map_err(io::Error::other)?)
    }
}

/// Reads entries one after another.
#[derive(Debug)]
pub(crate) struct Archive<R> {
    input: R,
    offset: u64,
    /// Content of the current entry that was not read yet, and the padding after it.
    left: u64,
    padding: u64,
    max_header: u64,
    end_mark: EndMark,
}

impl<R: Input> Archive<R> {
    pub(crate) fn new(input: R, max_header: u64, end_mark: EndMark) -> Self {
        Self { input, offset: 0, left: 0, padding: 0, max_header, end_mark }
    }

    /// The next entry, or none at the end. What was not read of the last one is passed over.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, ArchiveError> {
        self.pass_over()?;
        let start = self.offset;
        let (mut name, mut link, mut pax) = (None, None, Pax::default());
        for extensions in 0..=MAX_EXTENSIONS {
            let offset = self.offset;
            let Some(block) = self.block()? else {
                return if extensions == 0 { Ok(None) } else { Err(ArchiveError::Truncated) };
            };
            let header = Header::parse(&block, offset)?;
            match header.kind {
                b'L' => name = Some(until_nul(self.extension(&header)?)),
                b'K' => link = Some(until_nul(self.extension(&header)?)),
                b'x' => pax = Pax::parse(&self.extension(&header)?, offset)?,
                b'g' => Pax::parse(&self.extension(&header)?, offset)?.check_global(offset)?,
                _ => return self.entry(header, name, link, pax).map(Some),
            }
        }
        Err(ArchiveError::Extensions { offset: start })
    }

    /// Reads content of the current entry; 0 at its end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        match self.input.read(&mut buffer[..wanted]) {
            Ok(0) => Err(ArchiveError::Truncated),
            Ok(read) => {
                self.left -= read as u64;
                self.offset += read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read(buffer),
            Err(error) => Err(ArchiveError::Read(error)),
        }
    }

    /// Reads a little past the end: a decoder checks its own checksum only when it is asked for
    /// more.
    pub(crate) fn settle(&mut self, at_most: u64) -> io::Result<()> {
        io::copy(&mut (&mut self.input).take(at_most), &mut io::sink()).map(drop)
    }

    fn entry(
        &mut self,
        mut header: Header,
        name: Option<Vec<u8>>,
        link: Option<Vec<u8>>,
        mut pax: Pax,
    ) -> Result<Entry, ArchiveError> {
        let start = header.offset;
        let name = pax.take_name().or(name);
        let map = header.sparse.take();
        let mut entry = header.into_entry(name, link, pax.size)?;
        if !matches!(entry.kind, Kind::File | Kind::Other(_)) && entry.content.1 != 0 {
            return Err(ArchiveError::UnexpectedContent { offset: start });
        }
        let size = entry.content.1;
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK) - size;
        if let Some(map) = map {
            entry.sparse = Some(sparse::read_gnu(self, map, start)?);
        }
        if let Some(real_size) = pax.apply(&mut entry) {
            entry.sparse = Some((sparse::read_pax(self, start)?, real_size));
        }
        sparse::check(&entry, self.left, start)?;
        entry.content = (self.offset, self.left);
        Ok(entry)
    }

    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, ArchiveError> {
        if header.size > self.max_header {
            return Err(ArchiveError::HeaderTooLarge { offset: header.offset, limit: self.max_header });
        }
        self.left = header.size;
        self.padding = header.size.next_multiple_of(BLOCK) - header.size;
        let mut data = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.read(&mut buffer)? {
                0 => break,
                read => data.extend_from_slice(&buffer[..read]),
            }
        }
        self.pass_over()?;
        Ok(data)
    }

    fn pass_over(&mut self) -> Result<(), ArchiveError> {
        let bytes = std::mem::take(&mut self.left) + std::mem::take(&mut self.padding);
        self.offset = self.offset.saturating_add(bytes);
        match self.input.skip(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ArchiveError::Truncated),
            result => result.map_err(ArchiveError::Read),
        }
    }

    /// The next block; none at the end mark, which is a block of zeros.
    fn block(&mut self) -> Result<Option<[u8; BLOCK_SIZE]>, ArchiveError> {
        let mut block = [0; BLOCK_SIZE];
        let mut filled = 0;
        while filled < BLOCK_SIZE {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 && self.end_mark == EndMark::Optional => return Ok(None),
                Ok(0) => return Err(ArchiveError::Truncated),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ArchiveError::Read(error)),
            }
        }
        self.offset += BLOCK;
        Ok(block.iter().any(|byte| *byte != 0).then_some(block))
    }
}

impl Entry {
    pub(crate) fn attributes(&self) -> Result<Attributes, EntryError> {
        let mut xattrs = Vec::new();
        for (name, value) in &self.xattrs {
            xattrs.extend(Xattr::keep(name, value)?);
        }
        Ok(Attributes {
            mode: self.mode & 0o7777,
            uid: canonical_id(self.uid)?,
            gid: canonical_id(self.gid)?,
            modified: Some(Timespec { tv_sec: self.modified.0, tv_nsec: self.modified.1 }),
            xattrs,
        })
    }
}

fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(length);
    text
}
