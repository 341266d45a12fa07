//! Files with holes. Two ways of writing their map are read: GNU's own (in the header and blocks
//! after it) and PAX 1.0 (in front of the content).

use super::header::number;
use super::pax::decimal;
use super::{Archive, ArchiveError, BLOCK_SIZE, Entry, Input, Kind};

const MAP: usize = 386;
const MAP_ENTRIES: usize = 4;
const EXTENDED: usize = 482;
const REAL_SIZE: std::ops::Range<usize> = 483..495;
const MORE_ENTRIES: usize = 21;
const MORE_EXTENDED: usize = 504;
const ENTRY_SIZE: usize = 24;
const MAX_SEGMENTS: usize = 65_536;
const MAX_DIGITS: usize = 20;

/// A stretch of content and where it goes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// The part of GNU's map that is in the header.
#[derive(Debug)]
pub(super) struct GnuMap {
    segments: Vec<Segment>,
    real_size: u64,
    /// Set if a block with more of it follows.
    continued: bool,
}

impl GnuMap {
    pub(super) fn parse(block: &[u8; BLOCK_SIZE], offset: u64) -> Result<Self, ArchiveError> {
        let malformed = || ArchiveError::Sparse { offset };
        let mut segments = Vec::new();
        add(&mut segments, &block[MAP..MAP + MAP_ENTRIES * ENTRY_SIZE]).ok_or_else(malformed)?;
        let real_size = number(&block[REAL_SIZE]).ok_or_else(malformed)?;
        Ok(Self { segments, real_size, continued: block[EXTENDED] != 0 })
    }
}

/// Completes GNU's map from the blocks after the header. They are not part of the content.
pub(super) fn read_gnu<R: Input>(
    archive: &mut Archive<R>,
    mut map: GnuMap,
    offset: u64,
) -> Result<(Vec<Segment>, u64), ArchiveError> {
    while map.continued {
        let block = archive.block()?.ok_or(ArchiveError::Sparse { offset })?;
        add(&mut map.segments, &block[..MORE_ENTRIES * ENTRY_SIZE]).ok_or(ArchiveError::Sparse { offset })?;
        map.continued = block[MORE_EXTENDED] != 0;
    }
    Ok((map.segments, map.real_size))
}

/// Reads the map at the start of the content: decimal lines, filled up to whole blocks.
pub(super) fn read_pax<R: Input>(
    archive: &mut Archive<R>,
    offset: u64,
) -> Result<Vec<Segment>, ArchiveError> {
    let malformed = || ArchiveError::Sparse { offset };
    let mut lines = Lines { archive, block: [0; BLOCK_SIZE], position: BLOCK_SIZE };
    let count = lines.next().ok_or_else(malformed)??;
    if count > MAX_SEGMENTS as u64 {
        return Err(malformed());
    }
    let mut segments = Vec::new();
    for _ in 0..count {
        let at = lines.next().ok_or_else(malformed)??;
        let length = lines.next().ok_or_else(malformed)??;
        segments.push(Segment { at, length });
    }
    Ok(segments)
}

/// The segments must follow one another within the file and use up the content, no more and no
/// less.
pub(super) fn check(entry: &Entry, content: u64, offset: u64) -> Result<(), ArchiveError> {
    let Some((segments, real_size)) = &entry.sparse else { return Ok(()) };
    let mut end = 0_u64;
    let mut sum = 0_u64;
    for segment in segments {
        let next =
            segment.at.checked_add(segment.length).filter(|next| segment.at >= end && next <= real_size);
        end = next.ok_or(ArchiveError::Sparse { offset })?;
        sum += segment.length;
    }
    if sum == content && entry.kind == Kind::File { Ok(()) } else { Err(ArchiveError::Sparse { offset }) }
}

struct Lines<'a, R> {
    archive: &'a mut Archive<R>,
    block: [u8; BLOCK_SIZE],
    position: usize,
}

impl<R: Input> Lines<'_, R> {
    fn next(&mut self) -> Option<Result<u64, ArchiveError>> {
        let mut digits = Vec::new();
        while digits.len() <= MAX_DIGITS {
            if self.position == BLOCK_SIZE
                && let Err(error) = self.fill()
            {
                return Some(Err(error));
            }
            let byte = self.block[self.position];
            self.position += 1;
            if byte == b'\n' {
                return decimal(&digits).map(Ok);
            }
            digits.push(byte);
        }
        None
    }

    fn fill(&mut self) -> Result<(), ArchiveError> {
        let mut filled = 0;
        while filled < BLOCK_SIZE {
            match self.archive.read(&mut self.block[filled..])? {
                0 => return Err(ArchiveError::Truncated),
                read => filled += read,
            }
        }
        self.position = 0;
        Ok(())
    }
}

/// Adds the entries of one table. Unused ones are blank.
fn add(segments: &mut Vec<Segment>, table: &[u8]) -> Option<()> {
    for entry in table.chunks_exact(ENTRY_SIZE) {
        if entry[0] == 0 || entry[12] == 0 {
            continue;
        }
        if segments.len() >= MAX_SEGMENTS {
            return None;
        }
        segments.push(Segment { at: number(&entry[..12])?, length: number(&entry[12..])? });
    }
    Some(())
}
