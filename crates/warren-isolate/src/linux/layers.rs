//! A root's layers as detached mounts: no path, no place in any mount table, gone with the last
//! descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, open_tree,
};
use warren_core::{Mount, MountAccess, RootState, RootTree, Shown};

use super::userns::{self, Mapping, UserNamespaceError};
use super::{remove, sys};

/// A layer or mount could not be made ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum LayerError {
    #[error("make the writable layer `{}`", path.display())]
    Writable { path: PathBuf, source: io::Error },
    #[error("open the layer `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error(
        "map the ids of `{}`: its file system must allow id-mapped mounts (ext4, XFS and btrfs do, tmpfs from Linux 6.3 on)",
        path.display()
    )]
    Map { path: PathBuf, source: io::Error },
    #[error("mount source `{}`", path.display())]
    Source { path: PathBuf, source: io::Error },
    #[error("mount source `{}` is neither a file nor a directory", path.display())]
    SourceKind { path: PathBuf },
    #[error("`{}` is read-only and must be one directory", at.display())]
    ManyLayers { at: PathBuf },
    #[error("`{}` is the machine's own and would be shown without what hides its private files", path.display())]
    Unhidden { path: PathBuf },
    #[error("map the ids of the mounts")]
    MountIds(#[source] UserNamespaceError),
}

/// One overlay's read-only parts.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) at: PathBuf,
    pub(super) lowers: Vec<OwnedFd>,
    /// The host's own directory below them, if it is shown.
    pub(super) shown: Option<ShownLayers>,
}

/// A directory of the host, shown without its private files.
#[derive(Debug)]
pub(crate) struct ShownLayers {
    pub(super) hidden: OwnedFd,
    pub(super) machine: OwnedFd,
    pub(super) mapped: bool,
}

/// A tree without a writable layer.
#[derive(Debug)]
pub(super) enum ReadOnlyTree {
    /// A directory of the host, and where the sandbox sees it.
    Shown(PathBuf, ShownLayers),
    Bind(Bind),
}

/// A host directory or file for the sandbox.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) at: PathBuf,
    pub(super) source: OwnedFd,
    pub(super) directory: bool,
}

const SAFE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const LAYER: u64 = SAFE | libc::MOUNT_ATTR_RDONLY;

/// Never used as an ordinary layer: root inside could read files that only the host's root may.
const MACHINE: &str = "/usr";

/// Opens a tree's layers, ids mapped through `namespace`.
pub(super) fn open(tree: &RootTree, namespace: BorrowedFd<'_>) -> Result<Tree, LayerError> {
    let (layers, shown) = Shown::part(&tree.lowers);
    let lowers = layers.iter().map(|path| mapped(path, namespace)).collect::<Result<_, _>>()?;
    let shown = shown.map(|shown| open_shown(shown, namespace)).transpose()?;
    Ok(Tree { at: tree.at.clone(), lowers, shown })
}

/// Opens a tree without a writable layer: one directory, mounted as it is, or one of the host's.
pub(super) fn show(tree: &RootTree, namespace: BorrowedFd<'_>) -> Result<ReadOnlyTree, LayerError> {
    match Shown::part(&tree.lowers) {
        ([], Some(shown)) => Ok(ReadOnlyTree::Shown(tree.at.clone(), open_shown(shown, namespace)?)),
        ([path], None) => {
            let source = mapped(path, namespace)?;
            Ok(ReadOnlyTree::Bind(Bind { at: tree.at.clone(), source, directory: true }))
        }
        _ => Err(LayerError::ManyLayers { at: tree.at.clone() }),
    }
}

/// The host's directory may be on a file system without id mapping, such as the overlay of a
/// container. Its files then seem to belong to nobody, and root inside has no special rights to
/// them.
fn open_shown(shown: Shown<'_>, namespace: BorrowedFd<'_>) -> Result<ShownLayers, LayerError> {
    let path = shown.machine;
    let failed = |errno: Errno| LayerError::Open { path: path.to_owned(), source: errno.into() };
    let hidden = mapped(shown.hidden, namespace)?;
    let machine = clone_mount(path).map_err(failed)?;
    let is_mapped = match sys::set_mount(machine.as_fd(), LAYER, Some(namespace)) {
        Ok(()) => true,
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            sys::set_mount(machine.as_fd(), LAYER, None).map_err(failed)?;
            false
        }
        Err(errno) => return Err(LayerError::Map { path: path.to_owned(), source: errno.into() }),
    };
    Ok(ShownLayers { hidden, machine, mapped: is_mapped })
}

/// Makes a tree's private writable layer. A kept layer gets a new work directory only.
pub(super) fn make_writable(
    place: &Path,
    number: usize,
    tree: &RootTree,
    state: RootState,
) -> Result<(), LayerError> {
    let work = place.join(work(number));
    let make = || {
        let upper = place.join(upper(number));
        match (fs::DirBuilder::new().mode(0o755).create(&upper), state) {
            (Err(error), RootState::Kept) if error.kind() == io::ErrorKind::AlreadyExists => {}
            (made, _) => {
                made?;
                // A merged directory takes its appearance from the upper one: this is the root's.
                Appearance::above(tree.lowers.first().map(PathBuf::as_path))?.give(&upper)?;
            }
        }
        // A volatile overlay leaves a mark in the work directory that keeps it from being mounted
        // again: the kernel cannot know what a crash may have lost.
        if state == RootState::Kept && !remove::remove_tree(&work, || {}) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        fs::DirBuilder::new().mode(0o700).create(&work)
    };
    make().map_err(|source| LayerError::Writable { path: place.to_owned(), source })
}

/// Mode and owner of a layer's root. A merged directory takes them from the topmost layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Appearance {
    mode: u32,
    user: u32,
    group: u32,
}

impl Appearance {
    pub(super) fn of(layer: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(layer)?;
        Ok(Self { mode: found.permissions().mode() & 0o7777, user: found.uid(), group: found.gid() })
    }

    /// The appearance of an empty writable layer: that of the layer below if a sandbox wrote it.
    pub(super) fn above(below: Option<&Path>) -> io::Result<Self> {
        let written = |path: &&Path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"upper-"))
        };
        below.filter(written).map_or(Ok(Self { mode: 0o755, user: 0, group: 0 }), Self::of)
    }

    pub(super) fn give(self, layer: &Path) -> io::Result<()> {
        chown(layer, Some(self.user), Some(self.group))?;
        fs::set_permissions(layer, fs::Permissions::from_mode(self.mode))
    }
}

/// Another mount of a sandbox's own directory, with its ids mapped.
pub(super) fn open_area(directory: &Path, namespace: BorrowedFd<'_>) -> Result<OwnedFd, LayerError> {
    let area = clone_mount(directory)
        .map_err(|errno| LayerError::Open { path: directory.to_owned(), source: errno.into() })?;
    map_area(area.as_fd(), directory, namespace)?;
    Ok(area)
}

/// Removes the writable layers in a directory.
pub(super) fn empty(place: BorrowedFd<'_>) -> io::Result<()> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()));
    for entry in fs::read_dir(&path)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(b"upper-") && !remove::remove_tree(&path.join(name), || {}) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
    }
    Ok(())
}

/// Another mount of a directory, attached nowhere.
pub(crate) fn clone_mount(directory: &Path) -> Result<OwnedFd, Errno> {
    open_tree(CWD, directory, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
}

/// The writable layer of the tree with this number, in the sandbox's area.
pub(super) fn upper(number: usize) -> String {
    format!("upper-{number}")
}

/// The work directory that the kernel needs beside it.
pub(super) fn work(number: usize) -> String {
    format!("work-{number}")
}

/// Writes a small file into the fresh writable layer of the root. Not for a kept layer, where the
/// sandbox may have put links.
pub(super) fn seed_file(place: &Path, path: &str, content: &str) -> Result<(), LayerError> {
    let file = place.join(upper(0)).join(path);
    let seed = || {
        if let Some(parent) = file.parent() {
            fs::DirBuilder::new().mode(0o755).recursive(true).create(parent)?;
        }
        fs::write(&file, content)?;
        chown(&file, Some(0), Some(0))
    };
    seed().map_err(|source| LayerError::Writable { path: file.clone(), source })
}

/// Maps the ids of a sandbox's own area, after the host has written its files there.
pub(super) fn map_area(
    mount: BorrowedFd<'_>,
    path: &Path,
    namespace: BorrowedFd<'_>,
) -> Result<(), LayerError> {
    sys::set_mount(mount, SAFE, Some(namespace))
        .map_err(|errno| LayerError::Map { path: path.to_owned(), source: errno.into() })
}

fn mapped(path: &Path, namespace: BorrowedFd<'_>) -> Result<OwnedFd, LayerError> {
    if path.starts_with(MACHINE) {
        return Err(LayerError::Unhidden { path: path.to_owned() });
    }
    let mount = clone_mount(path)
        .map_err(|errno| LayerError::Open { path: path.to_owned(), source: errno.into() })?;
    sys::set_mount(mount.as_fd(), LAYER, Some(namespace))
        .map_err(|errno| LayerError::Map { path: path.to_owned(), source: errno.into() })?;
    Ok(mount)
}

/// Opens the source of a mount. The path was canonicalised and allowed before, so a link in it was
/// put there since and is refused. On the mount, the source's owner becomes the sandbox's user; all
/// other owners become nobody.
pub(super) fn bind(mount: &Mount, user: (u32, u32), id_base: u32) -> Result<Bind, LayerError> {
    let path = &mount.source;
    let failed = |errno: Errno| LayerError::Source { path: path.clone(), source: errno.into() };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve).map_err(failed)?;
    let found = fs::File::from(
        place.try_clone().map_err(|source| LayerError::Source { path: path.clone(), source })?,
    )
    .metadata()
    .map_err(|source| LayerError::Source { path: path.clone(), source })?;
    if !found.is_dir() && !found.is_file() {
        return Err(LayerError::SourceKind { path: path.clone() });
    }
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let source = open_tree(&place, "", clone).map_err(failed)?;
    let map = |owner, id| Mapping { inside: owner, outside: id_base + id, count: 1 };
    let namespace =
        userns::make(map(found.uid(), user.0), map(found.gid(), user.1)).map_err(LayerError::MountIds)?;
    let access = if mount.access == MountAccess::ReadOnly { libc::MOUNT_ATTR_RDONLY } else { 0 };
    sys::set_mount(source.as_fd(), SAFE | access, Some(namespace.as_fd()))
        .map_err(|errno| LayerError::Map { path: path.clone(), source: errno.into() })?;
    Ok(Bind { at: mount.target.clone(), source, directory: found.is_dir() })
}

/// Makes the `/dev` that is cloned for each sandbox: a tmpfs that never changes again.
pub(super) fn prepare_dev() -> Result<OwnedFd, Errno> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let dev = small_tmpfs("64k", flags)?;
    for (name, major, minor) in
        [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)]
    {
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(
            &dev,
            name,
            rustix::fs::FileType::CharacterDevice,
            mode,
            rustix::fs::makedev(major, minor),
        )?;
        rustix::fs::chmodat(&dev, name, mode, AtFlags::empty())?;
    }
    for (target, name) in [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ] {
        rustix::fs::symlinkat(target, &dev, name)?;
    }
    for name in ["pts", "shm", "mqueue"] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
    }
    sys::set_mount(dev.as_fd(), libc::MOUNT_ATTR_RDONLY, None)?;
    Ok(dev)
}

/// A new tmpfs for a few files, as a detached mount.
pub(super) fn small_tmpfs(size: &str, flags: MountAttrFlags) -> Result<OwnedFd, Errno> {
    mount_new("tmpfs", [("mode", "0755"), ("size", size), ("nr_inodes", "64")], flags)
}

/// Mounts a file system with these options, attached nowhere.
pub(super) fn mount_new(
    kind: &str,
    options: impl IntoIterator<Item = (&'static str, impl rustix::path::Arg)>,
    flags: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// Another mount of a prepared tmpfs, with ids mapped so that its files belong to the sandbox's
/// root.
pub(super) fn clone_prepared(
    prepared: &OwnedFd,
    namespace: BorrowedFd<'_>,
    prepare: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = match open_tree(prepared, "", clone) {
        // Linux before 6.15 does not clone a mount that is attached nowhere.
        Err(Errno::INVAL) => prepare()?,
        answer => answer?,
    };
    // tmpfs takes id mappings from Linux 6.3 on. Without, the files belong to nobody, and still
    // work.
    match sys::set_mount(tree.as_fd(), 0, Some(namespace)) {
        Ok(()) | Err(Errno::INVAL) => Ok(tree),
        Err(errno) => Err(errno),
    }
}
