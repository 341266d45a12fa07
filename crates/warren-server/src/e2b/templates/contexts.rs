//! Files that clients send for their builds, as archives under the name that the client gave them. Nothing on this machine looks into
//! them: they are unpacked in the sandbox of a build.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use warren_core::{Owner, Random};
use warren_engine::EngineError;
use warren_wire::guest::{FileCall, FileOperation, WriteMode};

use super::reference::build_id;
use super::start::Place;
use crate::config::Config;
use crate::private_file;

/// What one owner's may take together. The oldest make room.
const MOST_BYTES: u64 = 20 << 30;
const MOST_FILES: usize = 1000;

/// What is read at a time.
const PIECE: usize = 256 << 10;

/// How the names of those begin that have not arrived whole.
const PART: &str = "part-";

/// One owner's.
#[derive(Debug, Clone)]
pub(super) struct Contexts {
    directory: PathBuf,
}

impl Contexts {
    pub(super) fn of(config: &Config, owner: &Owner) -> Self {
        Self { directory: config.server.data_dir.join("e2b").join("contexts").join(owner.as_str()) }
    }

    /// Where one is, whether or not it is there. `hash` has been checked.
    pub(super) fn path(&self, hash: &str) -> PathBuf {
        self.directory.join(hash)
    }

    /// Blocks.
    pub(super) fn has(&self, hash: &str) -> bool {
        self.path(hash).is_file()
    }

    /// Keeps what arrives, once all of it has. Blocks.
    pub(super) fn keep(&self, hash: &str, random: &dyn Random, mut source: impl Read) -> io::Result<()> {
        private_file::make_directory(&self.directory)?;
        let part = self.directory.join(format!("{PART}{}", build_id(random.bits())));
        let kept = File::create_new(&part).and_then(|mut file| {
            io::copy(&mut source, &mut file)?;
            file.sync_all()?;
            fs::rename(&part, self.path(hash))
        });
        match kept {
            Ok(()) => self.make_room(hash, MOST_BYTES, MOST_FILES),
            Err(error) => {
                fs::remove_file(&part).ok();
                Err(error)
            }
        }
    }

    /// Removes what an earlier server did not receive to its end. Blocks.
    pub(super) fn clear(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let parts = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PART));
        parts.for_each(|entry| drop(fs::remove_file(entry.path())));
    }

    /// Gives up the oldest while there is too much, and never the one that has just come.
    fn make_room(&self, newest: &str, most_bytes: u64, most_files: usize) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Ok(about) = entry.metadata()
                && !name.starts_with(PART)
            {
                files.push((about.modified().ok(), about.len(), name));
            }
        }
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, size, _)| size).sum();
        let mut count = files.len();
        for (_, size, name) in files.into_iter().filter(|(.., name)| name != newest) {
            if bytes <= most_bytes && count <= most_files {
                break;
            }
            fs::remove_file(self.directory.join(name))?;
            bytes -= size;
            count -= 1;
        }
        Ok(())
    }
}

/// Why files did not reach the sandbox.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("the files are not here any more: send them again")]
    Gone,
    #[error("the files could not be read")]
    Read(#[source] io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the server failed")]
    Server(#[source] tokio::task::JoinError),
}

impl Place<'_> {
    /// Writes an archive into the sandbox.
    pub(super) async fn send(&self, archive: &Path, to: &str) -> Result<(), SendError> {
        let from = archive.to_owned();
        let opened =
            tokio::task::spawn_blocking(move || File::open(from)).await.map_err(SendError::Server)?;
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SendError::Gone,
            _ => SendError::Read(error),
        })?;
        let operation = FileOperation::Write {
            path: to.into(),
            mode: WriteMode::Truncate,
            permissions: Some(0o600),
            parents: true,
        };
        let call = FileCall { user: Some("root".into()), operation, as_root: Some(true) };
        let mut writer = self.sandbox.files().write(call).await?;
        loop {
            let read = tokio::task::spawn_blocking(move || piece(&mut file).map(|bytes| (file, bytes)));
            let (same, bytes) = read.await.map_err(SendError::Server)?.map_err(SendError::Read)?;
            if bytes.is_empty() {
                break;
            }
            writer.write(bytes).await?;
            file = same;
        }
        writer.finish().await?;
        Ok(())
    }
}

fn piece(file: &mut File) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(PIECE);
    file.take(PIECE as u64).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeRandom;

    use super::*;

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }

    fn contexts() -> (tempfile::TempDir, Contexts) {
        let directory = tempfile::tempdir().unwrap();
        let contexts = Contexts { directory: directory.path().join("a").join("b") };
        (directory, contexts)
    }

    fn names(contexts: &Contexts) -> Vec<String> {
        let entries = fs::read_dir(&contexts.directory).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_arrived_whole_is_there_and_nothing_else() {
        let (_directory, contexts) = contexts();
        let random = FakeRandom::new(1);
        contexts.keep("one", &random, b"abc".as_slice()).unwrap();
        contexts.keep("one", &random, b"abcd".as_slice()).unwrap();
        contexts.keep("two", &random, Broken).unwrap_err();
        assert!(contexts.has("one") && !contexts.has("two"));
        assert_eq!(fs::read(contexts.path("one")).unwrap(), b"abcd");
        fs::write(contexts.directory.join("part-x"), "half").unwrap();
        contexts.clear();
        assert_eq!(names(&contexts), ["one"]);
    }

    #[test]
    fn the_oldest_make_room() {
        let (_directory, contexts) = contexts();
        let random = FakeRandom::new(1);
        for name in ["a", "b", "c"] {
            contexts.keep(name, &random, b"1234".as_slice()).unwrap();
        }
        let times = [("a", 30), ("b", 10), ("c", 20)];
        for (name, seconds) in times {
            let file = File::options().write(true).open(contexts.path(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        }
        contexts.make_room("a", 8, 9).unwrap();
        assert_eq!(names(&contexts), ["a", "c"]);
        contexts.make_room("c", 1, 9).unwrap();
        assert_eq!(names(&contexts), ["c"]);
    }
}
