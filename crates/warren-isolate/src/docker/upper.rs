//! The directory in which the engine keeps what a sandbox writes: the upper one of its overlay, in
//! the format of our layers.
//!
//! ```text
//! bare ──► filled with layers of ours ──► written to by the sandbox ──► bare
//! ```
//!
//! The sandbox writes its content, so nobody follows a link in it. Layers are copied into it only
//! while the container does not run. The place where the agent is mounted is made beside it, in the
//! layer that the engine makes for mounts of its own, so that it is no file of the sandbox's.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use bollard::models::{ContainerInspectResponse, SystemInfo};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use warren_core::RootTree;

use crate::linux::empty_tree;

/// The one driver whose directories are ours to read.
pub(super) const DRIVER: &str = "overlay2";
/// Settings of the kernel that make upper directories refer to what is below them.
const UNREADABLE: [&str; 2] = ["metacopy", "redirect_dir"];
/// A directory's path that is longer cannot be opened by its name.
const LONGEST_PATH: usize = 3800;
/// The kernel lists no more names of attributes, and has no longer values.
const MOST_BYTES: usize = 64 << 10;

/// Where the engine keeps a container's files.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) upper: PathBuf,
    /// The layer for mounts of its own.
    init: PathBuf,
}

/// An upper directory at one moment: how many entries, and a sum of what tells each from another.
/// Of a file that is the time of its last change, which no program can set. Of a directory it is
/// not: the kernel notes there what it finds out below, when somebody only looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Imprint {
    entries: u64,
    sum: u64,
}

/// Why an engine's upper directories cannot be read; `None` if they can.
pub(super) fn hidden(info: &SystemInfo) -> Option<String> {
    let driver = info.driver.as_deref().unwrap_or("unknown");
    if driver != DRIVER {
        return Some(format!("its storage driver is `{driver}`, and only `{DRIVER}` shows what was written"));
    }
    if maps_ids(info) {
        return Some("it maps the ids of files".to_owned());
    }
    if !info.docker_root_dir.as_deref().is_some_and(|root| Path::new(root).is_dir()) {
        return Some("its directory is not on this machine".to_owned());
    }
    let on = |name: &&&str| {
        let set = std::fs::read_to_string(format!("/sys/module/overlay/parameters/{name}"));
        set.is_ok_and(|set| set.trim() != "N")
    };
    let set = UNREADABLE.iter().find(on)?;
    Some(format!("the kernel's setting `{set}` of overlayfs is on"))
}

/// True if ids inside containers are not those of the machine.
pub(super) fn maps_ids(info: &SystemInfo) -> bool {
    let mapped = |option: &String| option.contains("name=userns") || option.contains("name=rootless");
    info.security_options.iter().flatten().any(mapped)
}

/// Where the engine keeps the files of a container.
pub(super) fn place(seen: &ContainerInspectResponse) -> Option<Place> {
    let driver = seen.graph_driver.as_ref().filter(|driver| driver.name == DRIVER)?;
    let upper = PathBuf::from(driver.data.get("UpperDir")?);
    let init = driver.data.get("LowerDir")?.split(':').next().filter(|path| path.ends_with("-init/diff"))?;
    Some(Place { upper, init: init.into() })
}

impl Place {
    /// Makes the place where the agent is mounted.
    pub(super) fn prepare(&self, mount: &str) -> io::Result<()> {
        let init = open(CWD, &self.init)?;
        match rustix::fs::mkdirat(&init, mount.trim_start_matches('/'), Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => Ok(()),
            made => Ok(made?),
        }
    }
}

/// Takes away all that is in an upper directory, and what was done to itself.
pub(super) fn empty(upper: &Path) -> io::Result<()> {
    let top = open(CWD, upper)?;
    empty_tree(&top)?;
    for name in attribute_names(&top)?.iter().filter(|name| !name.starts_with(b"security.")) {
        rustix::fs::fremovexattr(&top, &name[..])?;
    }
    rustix::fs::fchown(&top, Some(Uid::ROOT), Some(Gid::ROOT))?;
    Ok(rustix::fs::fchmod(&top, Mode::from_raw_mode(0o755))?)
}

/// The layers of ours among the directories of a root, the topmost first.
pub(super) fn layers(trees: &[RootTree]) -> Vec<PathBuf> {
    let ours =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"upper-"));
    trees.first().into_iter().flat_map(|tree| tree.lowers.iter().filter(ours).cloned()).collect()
}

/// How an upper directory looks now.
pub(super) fn imprint(upper: &Path) -> io::Result<Imprint> {
    look(upper, u64::MAX)
}

/// True if nothing was written since. Of much that was written, little is looked at.
pub(super) fn is_as_it_was(upper: &Path, known: Imprint) -> bool {
    // What vanishes while it is looked at has changed; what fails otherwise, fails a copy as well.
    look(upper, known.entries).is_ok_and(|seen| seen == known)
}

/// Looks at no more than one entry above `most`.
fn look(upper: &Path, most: u64) -> io::Result<Imprint> {
    let root = open(CWD, upper)?;
    let mut seen = Imprint { entries: 0, sum: 0 };
    // Paths and not descriptors wait: there may be many. All of them are opened below the root.
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        let directory = if path.as_os_str().is_empty() { root.try_clone()? } else { below(&root, &path)? };
        let own = rustix::fs::fstat(&directory)?;
        let owner = (own.st_ino, own.st_mode, own.st_uid, own.st_gid, own.st_mtime, own.st_mtime_nsec);
        seen.note((owner, attributes(&directory)?));
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            let placed = (own.st_ino, name.to_bytes(), stat.st_ino);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                seen.note(placed);
                let name = std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes());
                waiting.push(path.join::<&std::ffi::OsStr>(name));
            } else {
                seen.note((placed, stat.st_ctime, stat.st_ctime_nsec));
            }
            if seen.entries > most {
                return Ok(seen);
            }
        }
    }
    Ok(seen)
}

impl Imprint {
    fn note(&mut self, facts: impl Hash) {
        let mut hasher = DefaultHasher::new();
        facts.hash(&mut hasher);
        self.sum = self.sum.wrapping_add(hasher.finish());
        self.entries += 1;
    }
}

/// The attributes of a directory that are not the kernel's own notes.
fn attributes(directory: &OwnedFd) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in attribute_names(directory)? {
        if !name.starts_with(b"trusted.overlay.") {
            let mut value = vec![0; MOST_BYTES];
            let length = rustix::fs::fgetxattr(directory, &name[..], &mut value[..])?;
            value.truncate(length);
            found.push((name, value));
        }
    }
    Ok(found)
}

fn attribute_names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = vec![0; MOST_BYTES];
    let length = match rustix::fs::flistxattr(directory, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    names.truncate(length);
    Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

/// A directory below one that programs may be changing: no link on the way is followed.
fn below(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    if path.as_os_str().len() > LONGEST_PATH {
        return Err(Errno::NAMETOOLONG.into());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = rustix::fs::ResolveFlags::BENEATH | rustix::fs::ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?)
}

fn open(at: impl std::os::fd::AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

/// Copies layers into an empty upper directory.
pub(super) fn fill(upper: &Path, layers: &[PathBuf], with: super::FillUpper) -> io::Result<()> {
    let directory = open(CWD, upper)?;
    with(layers, directory.as_fd())?;
    // Files of a sandbox are its own from here on, and a power cut takes them back to nothing else.
    File::from(directory).sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use bollard::models::DriverData;
    use warren_core::MountAccess;

    use super::*;

    #[test]
    fn every_change_to_an_upper_directory_shows() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/file"), "one").unwrap();
        symlink("/", path("link")).unwrap();
        let changes: [(&str, &dyn Fn()); 6] = [
            ("a file is written", &|| fs::write(path("a/b/file"), "two").unwrap()),
            ("a file is made", &|| fs::write(path("a/new"), "").unwrap()),
            ("a file is removed", &|| fs::remove_file(path("a/new")).unwrap()),
            ("a file has another name", &|| fs::rename(path("a/b/file"), path("a/file")).unwrap()),
            ("a directory has another name", &|| fs::rename(path("a/b"), path("a/c")).unwrap()),
            ("rights change", &|| fs::set_permissions(path("a"), fs::Permissions::from_mode(0o700)).unwrap()),
        ];
        for (what, change) in changes {
            let known = imprint(place.path()).unwrap();
            assert!(is_as_it_was(place.path(), known));
            // The kernel's clock of changes has ticks.
            std::thread::sleep(std::time::Duration::from_millis(20));
            change();
            assert!(!is_as_it_was(place.path(), known), "{what}");
        }
    }

    #[test]
    fn an_emptied_directory_is_as_the_engine_made_it() {
        let place = tempfile::tempdir().unwrap();
        let (upper, canary) = (place.path().join("diff"), place.path().join("canary"));
        fs::create_dir_all(upper.join("deep/er")).unwrap();
        fs::create_dir(&canary).unwrap();
        symlink(&canary, upper.join("deep/link")).unwrap();
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o700)).unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        empty(&upper).unwrap();
        assert_eq!(fs::read_dir(&upper).unwrap().count(), 0);
        assert_eq!(fs::metadata(&upper).unwrap().permissions().mode() & 0o7777, 0o755);
        assert!(canary.exists());
    }

    #[test]
    fn only_layers_of_ours_are_copied() {
        let lowers = ["/data/layers/b/upper-0", "/data/layers/a/upper-0", "/var/lib/docker/overlay2/x/diff"];
        let lowers = lowers.map(PathBuf::from).to_vec();
        let tree = RootTree { at: "/".into(), lowers: lowers.clone(), access: MountAccess::ReadWrite };
        assert_eq!(layers(&[tree]), lowers[..2]);
        assert!(layers(&[]).is_empty());
    }

    #[test]
    fn a_place_is_known_only_where_the_engine_has_a_layer_for_its_mounts() {
        let seen = |name: &str, lower: &str| ContainerInspectResponse {
            graph_driver: Some(DriverData {
                name: name.to_owned(),
                data: [("UpperDir", "/e/1/diff"), ("LowerDir", lower)]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            }),
            ..ContainerInspectResponse::default()
        };
        let found = place(&seen(DRIVER, "/e/1-init/diff:/e/0/diff")).unwrap();
        assert_eq!(
            (found.upper.as_path(), found.init.as_path()),
            (Path::new("/e/1/diff"), Path::new("/e/1-init/diff"))
        );
        assert!(place(&seen(DRIVER, "/e/0/diff")).is_none());
        assert!(place(&seen("vfs", "/e/1-init/diff")).is_none());
        assert!(hidden(&SystemInfo { driver: Some("vfs".to_owned()), ..SystemInfo::default() }).is_some());
    }
}
