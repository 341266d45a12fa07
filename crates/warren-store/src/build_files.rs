use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use warren_core::{BuildFiles, FilesHash, Owner};

/// The most that one owner's archives may take together.
const MOST_BYTES: u64 = 20 << 30;
const MOST_FILES: usize = 1000;

/// How the names of those begin that have not arrived whole.
const PART: &str = "part-";

/// Archives for builds of images, one directory for each owner:
/// `<data>/build-files/<owner>/<hash>`.
#[derive(Debug)]
pub struct BuildFileStore {
    directory: PathBuf,
}

impl BuildFileStore {
    /// Opens the data directory's store, and clears away archives that an earlier process did not
    /// receive to their end.
    pub fn open(data_dir: &Path) -> Self {
        let directory = data_dir.join("build-files");
        // Earlier versions had them elsewhere. Without them clients send theirs again.
        let earlier = data_dir.join("e2b").join("contexts");
        if !directory.exists() && fs::rename(&earlier, &directory).is_ok() {
            fs::remove_dir(data_dir.join("e2b")).ok();
        }
        let owners = fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in owners.flat_map(|owner| fs::read_dir(owner.path()).into_iter().flatten().flatten()) {
            if entry.file_name().to_string_lossy().starts_with(PART) {
                fs::remove_file(entry.path()).ok();
            }
        }
        Self { directory }
    }

    fn of(&self, owner: &Owner) -> PathBuf {
        self.directory.join(owner.as_str())
    }
}

impl BuildFiles for BuildFileStore {
    fn has(&self, owner: &Owner, hash: &FilesHash) -> bool {
        self.of(owner).join(hash.as_str()).is_file()
    }

    fn keep(&self, owner: &Owner, hash: &FilesHash, source: &mut dyn Read) -> io::Result<()> {
        let directory = self.of(owner);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut bits = [0; 16];
        getrandom::fill(&mut bits)?;
        let part = directory.join(format!("{PART}{:032x}", u128::from_be_bytes(bits)));
        let kept = File::create_new(&part).and_then(|mut file| {
            io::copy(source, &mut file)?;
            file.sync_all()?;
            fs::rename(&part, directory.join(hash.as_str()))
        });
        if kept.is_err() {
            fs::remove_file(&part).ok();
        }
        kept?;
        make_room(&directory, hash.as_str(), MOST_BYTES, MOST_FILES)
    }

    fn open(&self, owner: &Owner, hash: &FilesHash) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.of(owner).join(hash.as_str()))?))
    }
}

/// Gives up the oldest while there is too much, and never the one that has just come.
fn make_room(directory: &Path, newest: &str, most_bytes: u64, most_files: usize) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
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
        fs::remove_file(directory.join(name))?;
        bytes -= size;
        count -= 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }

    fn owner() -> Owner {
        Owner::first()
    }

    fn hash(digit: &str) -> FilesHash {
        digit.repeat(64).parse().unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy()[..1].to_owned()).collect();
        names.sort();
        names
    }

    fn read(store: &BuildFileStore, hash: &FilesHash) -> io::Result<String> {
        let mut text = String::new();
        store.open(&owner(), hash)?.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn an_archive_that_arrived_whole_is_there_and_no_other() {
        let data = tempfile::tempdir().unwrap();
        let store = BuildFileStore::open(data.path());
        store.keep(&owner(), &hash("1"), &mut b"abc".as_slice()).unwrap();
        store.keep(&owner(), &hash("1"), &mut b"abcd".as_slice()).unwrap();
        store.keep(&owner(), &hash("2"), &mut Broken).unwrap_err();
        assert!(store.has(&owner(), &hash("1")) && !store.has(&owner(), &hash("2")));
        assert_eq!(read(&store, &hash("1")).unwrap(), "abcd");
        assert_eq!(read(&store, &hash("2")).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(store.of(&owner()).join("part-x"), "half").unwrap();
        let store = BuildFileStore::open(data.path());
        assert_eq!(names(&store.of(&owner())), ["1"]);
    }

    #[test]
    fn archives_of_an_earlier_version_are_found_where_they_were() {
        let data = tempfile::tempdir().unwrap();
        let earlier = data.path().join("e2b/contexts").join(owner().as_str());
        fs::create_dir_all(&earlier).unwrap();
        fs::write(earlier.join(hash("3").as_str()), "old").unwrap();
        let store = BuildFileStore::open(data.path());
        assert_eq!(read(&store, &hash("3")).unwrap(), "old");
        assert!(!data.path().join("e2b").exists());
    }

    #[test]
    fn the_oldest_make_room() {
        let data = tempfile::tempdir().unwrap();
        let store = BuildFileStore::open(data.path());
        let directory = store.of(&owner());
        for (digit, seconds) in [("a", 30), ("b", 10), ("c", 20)] {
            store.keep(&owner(), &hash(digit), &mut b"1234".as_slice()).unwrap();
            let file = File::options().write(true).open(directory.join(hash(digit).as_str())).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        }
        make_room(&directory, hash("a").as_str(), 8, 9).unwrap();
        assert_eq!(names(&directory), ["a", "c"]);
        make_room(&directory, hash("c").as_str(), 1, 9).unwrap();
        assert_eq!(names(&directory), ["c"]);
    }
}
