//! A directory as a tar file that is made while it is sent.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use tar::{Builder, EntryType, Header};

use crate::error::CliError;
use crate::ui;

/// The bytes that are taken of a file that claims to be empty, as files of the kernel do.
const MOST_UNSIZED: u64 = 64 << 20;

/// Packs a directory while `send` reads the archive. If packing fails, the archive has no end:
/// `send` reads an error instead.
pub(crate) fn sending(
    source: &Path,
    deepest: u32,
    send: impl FnOnce(&mut dyn Read) -> Result<(), CliError>,
) -> Result<(), CliError> {
    streaming(|archive| Packer { archive, deepest }.directory(source, Path::new(""), 0), send)
}

/// As [`sending`], of all that `pack` puts into the archive.
pub(crate) fn streaming<T>(
    pack: impl FnOnce(&mut Archive) -> Result<(), Failure> + Send,
    send: impl FnOnce(&mut dyn Read) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let (reader, writer) = pipe().map_err(|error| CliError::new(format!("a pipe: {error}")))?;
    let (told, ended) = channel();
    thread::scope(|scope| {
        let packing = scope.spawn(move || {
            let mut archive = Builder::new(ArchivePipe(Some(writer)));
            let packed = pack(&mut archive)
                .and_then(|()| archive.finish().map_err(|error| failure(Path::new("the archive"), error)));
            if packed.is_err() {
                archive.get_mut().0 = None;
            }
            drop(archive);
            // The reader may have left.
            told.send(packed.is_ok()).ok();
            packed
        });
        let mut archive = Packed { reader, ended };
        let sent = send(&mut archive);
        drop(archive);
        let packed = packing.join().unwrap_or_else(|_| Err(Failure::Other(CliError::new("packing failed"))));
        match (packed, sent) {
            (Err(Failure::Other(error)), _) => Err(error),
            // The reader left first, and says why.
            (_, Err(error)) => Err(error),
            (Err(Failure::Unread), Ok(_)) => Err(CliError::new("the archive was not read to its end")),
            (Ok(()), Ok(answer)) => Ok(answer),
        }
    })
}

/// An archive that is being made.
pub(crate) type Archive = Builder<ArchivePipe>;
/// The bytes of all files below a directory, as far as they can be seen.
pub(crate) fn size_of(directory: &Path, deepest: u32) -> u64 {
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() && deepest > 0 => size_of(&entry.path(), deepest - 1),
        Ok(about) if about.is_file() => about.len(),
        _ => 0,
    };
    fs::read_dir(directory).into_iter().flatten().flatten().map(size).sum()
}

/// The archive as it is read.
struct Packed {
    reader: PipeReader,
    /// Gives true if the directory was packed to its end.
    ended: Receiver<bool>,
}

impl Read for Packed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        // The other end is closed before its thread says how it went.
        if count == 0 && !buffer.is_empty() && self.ended.recv() == Ok(false) {
            return Err(io::Error::other("the directory could not be packed"));
        }
        Ok(count)
    }
}

/// Takes the archive. Once shut it takes no more, so that an archive that failed gets no end.
pub(crate) struct ArchivePipe(Option<PipeWriter>);

impl Write for ArchivePipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(writer) => writer.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reason why a directory is not packed.
pub(crate) enum Failure {
    /// Nobody reads the archive any more.
    Unread,
    Other(CliError),
}

struct Packer<'a> {
    archive: &'a mut Archive,
    deepest: u32,
}

impl Packer<'_> {
    fn directory(&mut self, source: &Path, name: &Path, depth: u32) -> Result<(), Failure> {
        if depth > self.deepest {
            let message = format!("{} is deeper than {} directories", source.display(), self.deepest);
            return Err(Failure::Other(CliError::new(message)));
        }
        for entry in fs::read_dir(source).map_err(|error| failure(source, error))? {
            let entry = entry.map_err(|error| failure(source, error))?;
            let (path, name) = (entry.path(), name.join(entry.file_name()));
            let kind = entry.file_type().map_err(|error| failure(&path, error))?;
            if kind.is_dir() {
                self.append(&path, EntryType::Directory, (0o755, 0), &name, &mut io::empty())?;
                self.directory(&path, &name, depth + 1)?;
            } else if kind.is_file() {
                self.file(&path, &name)?;
            } else {
                ui::say(&format!("warren: left out, neither file nor directory: {}", path.display()));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: &Path) -> Result<(), Failure> {
        let opened = File::open(path).and_then(|file| file.metadata().map(|about| (file, about)));
        let (file, about) = opened.map_err(|error| failure(path, error))?;
        let mode = about.permissions().mode() & 0o777;
        if about.len() > 0 {
            let mut content = Exactly::new(file, about.len());
            return self.append(path, EntryType::Regular, (mode, about.len()), name, &mut content);
        }
        let mut content = Vec::new();
        file.take(MOST_UNSIZED).read_to_end(&mut content).map_err(|error| failure(path, error))?;
        let size = content.len() as u64;
        self.append(path, EntryType::Regular, (mode, size), name, &mut content.as_slice())
    }

    fn append(
        &mut self,
        path: &Path,
        kind: EntryType,
        (mode, size): (u32, u64),
        name: &Path,
        content: &mut dyn Read,
    ) -> Result<(), Failure> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        self.archive.append_data(&mut header, name, content).map_err(|error| failure(path, error))
    }
}

/// A file of the size that the archive names: one that grows is cut, one that shrinks is an error.
pub(crate) struct Exactly {
    file: File,
    left: u64,
}

impl Exactly {
    pub(crate) fn new(file: File, size: u64) -> Self {
        Self { file, left: size }
    }
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::Error::other("it became shorter while it was copied"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

pub(crate) fn failure(path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Other(CliError::at(path, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    fn unpacked(archive: &mut dyn Read) -> io::Result<BTreeMap<String, (u32, Vec<u8>)>> {
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries()? {
            let mut entry = entry?;
            let (name, mode) = (entry.path()?.to_string_lossy().into_owned(), entry.header().mode()?);
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            found.insert(name, (mode, content));
        }
        Ok(found)
    }

    #[test]
    fn a_directory_is_packed_as_it_is() {
        let source = tempfile::tempdir().unwrap();
        let long = "n".repeat(200);
        fs::create_dir_all(source.path().join("a").join(&long)).unwrap();
        fs::write(source.path().join("a").join(&long).join("deep"), vec![7; 100_000]).unwrap();
        fs::write(source.path().join("empty"), "").unwrap();
        fs::set_permissions(source.path().join("empty"), Permissions::from_mode(0o750)).unwrap();
        symlink("/etc/passwd", source.path().join("link")).unwrap();
        let mut found = BTreeMap::new();
        let sent = sending(source.path(), 64, |archive| {
            found = unpacked(archive).unwrap();
            Ok(())
        });
        assert!(sent.is_ok());
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", &format!("a/{long}"), &format!("a/{long}/deep"), "empty"]);
        assert_eq!(found["empty"], (0o750, Vec::new()));
        assert_eq!(found[&format!("a/{long}/deep")].1, vec![7; 100_000]);
    }

    #[test]
    fn what_cannot_be_packed_has_no_end() {
        let source = tempfile::tempdir().unwrap();
        fs::create_dir_all(source.path().join("a/b/c")).unwrap();
        let mut read = None;
        let sent = sending(source.path(), 1, |archive| {
            read = Some(unpacked(archive));
            Ok(())
        });
        assert!(read.unwrap().is_err(), "also for one who stops at the archive's own end");
        assert!(sent.unwrap_err().chain().contains("deeper than 1"));
    }

    #[test]
    fn whoever_stops_reading_says_why() {
        let source = tempfile::tempdir().unwrap();
        fs::write(source.path().join("large"), vec![0; 1 << 20]).unwrap();
        let sent = sending(source.path(), 1, |_| Err(CliError::new("there is no such sandbox")));
        assert_eq!(sent.unwrap_err().chain(), "there is no such sandbox");
    }
}
