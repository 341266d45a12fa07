//! Applies the entries of one archive, a whole root filesystem or one layer of it, to the tree.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;

use super::archive::{Archive, EndMark, Entry, Input, Kind, Segment, Streamed};
use super::error::ImportError;
use super::limits::Meter;
use super::stream::{self, Tallied};
use super::{Skipped, is_provided};
use crate::digest::Digest;
use crate::tree::{EntryError, TreePath, TreeWriter};

const BUFFER: usize = 128 << 10;
/// Archives are padded to records of 10 KiB by default, and by a tape's worth at most.
const TRAILER: u64 = 1 << 20;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const WHITEOUT_META: &[u8] = b".wh..wh.";

/// The meaning of names that start with `.wh.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whiteouts {
    /// Nothing: a root filesystem may have such files.
    Plain,
    /// In a layer they remove what lower layers hold.
    Applied,
}

/// Writes archives into one tree.
#[derive(Debug)]
pub(crate) struct Extractor<'a, 'm> {
    pub(crate) writer: &'a mut TreeWriter,
    pub(crate) meter: &'a Meter<'m>,
    pub(crate) skipped: &'a mut Skipped,
}

impl Extractor<'_, '_> {
    /// Decompresses and applies one archive. Answers the digest of its bytes as they are.
    pub(crate) fn archive(
        &mut self,
        input: impl Read,
        whiteouts: Whiteouts,
        end_mark: EndMark,
    ) -> Result<Digest, ImportError> {
        self.writer.begin_layer();
        let mut tallied = Tallied::new(input, self.meter);
        let decoded = stream::decode(&mut tallied)?;
        let mut archive = Archive::new(Streamed(decoded), self.meter.limits.header_bytes, end_mark);
        let mut buffer = vec![0; BUFFER];
        while let Some(entry) = archive.next()? {
            self.meter.entry()?;
            self.entry(&entry, &mut archive, whiteouts, &mut buffer)?;
            self.meter.count(self.writer.take_implied())?;
        }
        archive.settle(TRAILER).map_err(ImportError::reading)?;
        drop(archive);
        tallied.finish().map_err(ImportError::reading)
    }

    fn entry<R: Input>(
        &mut self,
        entry: &Entry,
        archive: &mut Archive<R>,
        whiteouts: Whiteouts,
        buffer: &mut [u8],
    ) -> Result<(), ImportError> {
        let refuse = ImportError::entry(&entry.name);
        // Counted whether kept or not: reading it is work as well.
        self.meter.content(entry.content.1)?;
        let path = TreePath::parse(&entry.name, self.meter.limits.depth).map_err(&refuse)?;
        if is_provided(&path) {
            return Ok(());
        }
        if whiteouts == Whiteouts::Applied && self.whiteout(&path).map_err(&refuse)? {
            return Ok(());
        }
        let attributes = entry.attributes().map_err(&refuse)?;
        match entry.kind {
            Kind::File => {
                if let Some((_, real_size)) = &entry.sparse {
                    self.meter.check_size(*real_size)?;
                }
                let file = self.writer.create_file(&path).map_err(&refuse)?;
                fill(&file, entry, archive, buffer)?;
                self.writer.finish_file(&file, &attributes).map_err(refuse)
            }
            Kind::Directory => self.writer.directory(&path, attributes).map_err(refuse),
            Kind::Symlink => self.writer.symlink(&path, &entry.link, &attributes).map_err(refuse),
            Kind::HardLink => self.hard_link(&path, entry).map_err(refuse),
            Kind::Fifo => self.writer.fifo(&path, &attributes).map_err(refuse),
            Kind::Device | Kind::Whiteout => {
                self.skipped.devices += 1;
                Ok(())
            }
            Kind::Other(kind) => Err(refuse(EntryError::Kind { kind })),
        }
    }

    fn hard_link(&mut self, path: &TreePath, entry: &Entry) -> Result<(), EntryError> {
        let refused =
            |_| EntryError::HardLinkTarget { target: String::from_utf8_lossy(&entry.link).into_owned() };
        let target = TreePath::parse(&entry.link, self.meter.limits.depth).map_err(refused)?;
        self.writer.hard_link(path, &target)
    }

    /// Applies a whiteout. Answers whether the entry was one.
    fn whiteout(&mut self, path: &TreePath) -> Result<bool, EntryError> {
        let Some((directory, name)) = path.split() else { return Ok(false) };
        let name = name.as_bytes();
        if name == OPAQUE {
            self.writer.opaque(directory)?;
            return Ok(true);
        }
        let Some(removed) = name.strip_prefix(WHITEOUT) else { return Ok(false) };
        if name.starts_with(WHITEOUT_META) {
            // Bookkeeping of the filesystem that the convention comes from.
            return Ok(true);
        }
        if matches!(removed, b"" | b"." | b"..") {
            return Err(EntryError::Whiteout);
        }
        let target = path.with_name(removed);
        if !is_provided(&target) {
            self.writer.whiteout(&target)?;
        }
        Ok(true)
    }
}

/// Writes the content of the current entry into a file.
pub(crate) fn fill<R: Input>(
    file: &File,
    entry: &Entry,
    archive: &mut Archive<R>,
    buffer: &mut [u8],
) -> Result<(), ImportError> {
    let failed = |source| ImportError::entry(&entry.name)(EntryError::Io { action: "write", source });
    let Some((segments, real_size)) = &entry.sparse else {
        let mut file = file;
        loop {
            match archive.read(buffer)? {
                0 => return Ok(()),
                read => file.write_all(&buffer[..read]).map_err(failed)?,
            }
        }
    };
    file.set_len(*real_size).map_err(failed)?;
    for Segment { at, length } in segments {
        let mut written = 0;
        while written < *length {
            let wanted = usize::try_from(length - written).unwrap_or(usize::MAX).min(buffer.len());
            let read = archive.read(&mut buffer[..wanted])?;
            file.write_all_at(&buffer[..read], at + written).map_err(failed)?;
            written += read as u64;
        }
    }
    Ok(())
}

/// The name of the first entry that is not the root itself, which tells images from root
/// filesystems.
pub(crate) fn first_name(input: impl Read, meter: &Meter<'_>) -> Result<Option<Vec<u8>>, ImportError> {
    let mut tallied = Tallied::new(input, meter);
    let decoded = stream::decode(&mut tallied)?;
    let mut archive = Archive::new(Streamed(decoded), meter.limits.header_bytes, EndMark::Optional);
    for _ in 0..meter.limits.entries {
        let Some(entry) = archive.next()? else { break };
        if let Ok(path) = TreePath::parse(&entry.name, meter.limits.depth)
            && !path.is_root()
        {
            let name: &OsStr = path.as_path().as_os_str();
            return Ok(Some(name.as_bytes().to_owned()));
        }
    }
    Ok(None)
}
