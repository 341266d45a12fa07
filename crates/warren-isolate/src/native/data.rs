//! The data directory: where things are, who holds them, and how to dial an agent.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use warren_core::SandboxId;

use super::claims::Claims;
use super::seal::sys::make_subvolume;
use crate::data_dir::{DataDir, DataDirError, instance};

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("use `{}` as data directory", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Refused(#[from] DataDirError),
    #[error("find the control groups")]
    Layout(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("prepare the control groups (is this running as root?)")]
    Cgroups(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("prepare the device directory (is this running as root?)")]
    Dev(#[source] io::Error),
    #[error("make the lifeline of sandboxes")]
    Lifeline(#[source] io::Error),
    #[error("open the data directory to ask how much room there is")]
    Disk(#[source] io::Error),
    #[error("start a background thread")]
    Thread(#[source] io::Error),
}

/// The data directory. Its layout is in the documentation of `native`.
#[derive(Debug)]
pub(super) struct DataDirectory {
    root: PathBuf,
    instance: String,
    ranges: Claims,
    subvolumes: bool,
}

const SOCKET: &str = "agent.sock";

impl DataDirectory {
    /// With `subvolumes`, which only btrfs has, each sandbox's directory is one.
    pub(super) fn open(root: &Path, subvolumes: bool) -> Result<Self, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Directory { path, source }
        };
        let root = DataDir::examine(root, &[] as &[&Path])?.claim()?;
        // Only root may enter: files of sandboxes can have set-id bits, which the host would obey.
        for part in ["sandboxes", "trash", "ranges", "projects"] {
            let path = root.join(part);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed(&path))?;
        }
        let instance = instance(&root).map_err(failed(&root))?;
        let ranges = Claims::id_ranges(root.join("ranges"));
        Ok(Self { root, instance, ranges, subvolumes })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn ranges(&self) -> &Claims {
        &self.ranges
    }

    pub(super) fn sandbox(&self, id: &SandboxId) -> PathBuf {
        self.root.join("sandboxes").join(id.as_str())
    }

    pub(super) fn trash(&self, id: &SandboxId) -> PathBuf {
        self.root.join("trash").join(id.as_str())
    }

    /// True if a path of the host holds the data directory or is part of it. Mounted in a sandbox,
    /// it would give away the keys and all files.
    pub(super) fn overlaps(&self, source: &Path) -> bool {
        let same = |found: fs::Metadata| {
            self.root
                .ancestors()
                .filter_map(|path| fs::metadata(path).ok())
                .any(|above| (above.dev(), above.ino()) == (found.dev(), found.ino()))
        };
        let mut pool = self.root.clone().into_os_string();
        pool.push(".pool");
        source.starts_with(&self.root) || source == Path::new(&pool) || fs::metadata(source).is_ok_and(same)
    }

    /// Ids of all directories of sandboxes.
    pub(super) fn sandboxes(&self) -> io::Result<Vec<SandboxId>> {
        ids_in(&self.root.join("sandboxes"))
    }

    /// Ids of all directories of destroyed sandboxes.
    pub(super) fn trashed(&self) -> io::Result<Vec<SandboxId>> {
        ids_in(&self.root.join("trash"))
    }

    /// Makes a new sandbox's directory and takes the lock on it.
    pub(super) fn register(&self, id: &SandboxId) -> io::Result<Lock> {
        let gate = self.gate(FlockOperation::LockShared)?;
        let directory = self.sandbox(id);
        self.make_directory(id, &directory)?;
        let lock = try_lock(&directory)?.ok_or(io::ErrorKind::WouldBlock)?;
        drop(gate);
        Ok(lock)
    }

    fn make_directory(&self, id: &SandboxId, directory: &Path) -> io::Result<()> {
        if !self.subvolumes {
            return fs::DirBuilder::new().mode(0o700).create(directory);
        }
        let parent = fs::File::open(self.root.join("sandboxes"))?;
        make_subvolume(parent.as_fd(), id.as_str())?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
    }

    /// While this is held exclusively, no sandbox's directory exists without its lock.
    pub(super) fn gate(&self, how: FlockOperation) -> io::Result<Lock> {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let gate = rustix::fs::open(self.root.join("gate"), flags, Mode::from_raw_mode(0o600))?;
        rustix::fs::flock(&gate, how)?;
        Ok(Lock(gate))
    }

    /// The socket on which a sandbox's agent will listen.
    pub(super) fn listen(&self, directory: &Lock) -> io::Result<OwnedFd> {
        match rustix::fs::unlinkat(&directory.0, SOCKET, AtFlags::empty()) {
            // Left from an earlier start.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let socket = stream_socket(SocketFlags::CLOEXEC)?;
        rustix::net::bind(&socket, &address(directory)?)?;
        rustix::net::listen(&socket, 128)?;
        Ok(socket)
    }

    pub(super) fn dial(&self, id: &SandboxId) -> Result<OwnedFd, DialError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(self.sandbox(id), flags, Mode::empty()).map_err(|errno| match errno {
                Errno::NOENT => DialError::NotFound,
                errno => DialError::Failed(errno.into()),
            })?;
        connect(&directory)
    }
}

/// The reason why an agent cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("there is no such sandbox")]
    NotFound,
    #[error("its agent has ended")]
    Ended,
    #[error("its agent takes no more callers: it is frozen, or has too many")]
    Busy,
    #[error("the socket failed")]
    Failed(#[source] io::Error),
}

/// The connection waits in the agent's queue until the agent accepts it. A full queue is an error
/// and never waited for, as the calling thread may serve others too.
fn connect(directory: &OwnedFd) -> Result<OwnedFd, DialError> {
    let failed = |errno: Errno| DialError::Failed(errno.into());
    let address = address(directory).map_err(DialError::Failed)?;
    let socket = stream_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).map_err(DialError::Failed)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {
            rustix::io::ioctl_fionbio(&socket, false).map_err(failed)?;
            Ok(socket)
        }
        Err(Errno::AGAIN) => Err(DialError::Busy),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Err(DialError::Ended),
        Err(errno) => Err(failed(errno)),
    }
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(super) struct Lock(OwnedFd);

impl Drop for Lock {
    /// Closing is not enough: a child that another thread is just cloning has copies of all
    /// descriptors until it executes.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl AsRawFd for Lock {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Takes the lock on a directory; `None` if another holds it.
pub(super) fn try_lock(directory: &Path) -> io::Result<Option<Lock>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::open(directory, flags, Mode::empty())?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(lock))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn open_null() -> Result<OwnedFd, OpenError> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| OpenError::Dev(errno.into()))
}

/// A path through the directory's descriptor, as a socket's address has only 107 bytes.
fn address(directory: &impl AsRawFd) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))?)
}

fn stream_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn ids_in(directory: &Path) -> io::Result<Vec<SandboxId>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(directory)? {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok()));
    }
    Ok(ids)
}
