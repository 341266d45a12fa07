//! The data directory: where things are, who holds them, and how to dial an agent.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use warren_core::{SandboxId, Shown};

use super::claims::Claims;
use super::seal::sys::make_subvolume;
use super::starter::Place;
use crate::data_dir::{DataDir, DataDirError, instance};

/// The pause between two attempts to get a lock that somebody has.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

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
    #[error("use the Docker engine at `{at}`: {why}")]
    Engine { at: String, why: String },
    #[error("start a background thread")]
    Thread(#[source] io::Error),
}

/// The data directory. Its layout is in the documentation of `linux`.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    root: PathBuf,
    /// Holds the sandboxes and their gate.
    place: PathBuf,
    instance: String,
    ranges: Claims,
    subvolumes: bool,
    /// The part of a sandbox's directory with the agent's socket, if the sandbox can write there.
    shared: Option<&'static str>,
    /// Sandboxes that this process is making: their directories are locked and have no record yet.
    making: Mutex<HashSet<SandboxId>>,
}

/// Says that a sandbox is being made by this process, until this is dropped.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    data: &'a DataDirectory,
    id: SandboxId,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.data.making.lock().remove(&self.id);
    }
}

pub(crate) const SOCKET: &str = "agent.sock";

/// The pause between two looks whether remains are gone.
const PAUSE: Duration = Duration::from_millis(2);

impl DataDirectory {
    /// With `subvolumes`, which only btrfs has, each sandbox's directory is one.
    pub(crate) fn open(root: &Path, place: &Place, subvolumes: bool) -> Result<Self, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Directory { path, source }
        };
        let root = DataDir::examine(root, &[] as &[&Path])?.claim()?;
        let shared = place.shared;
        let ranges = Claims::id_ranges(root.join("ranges"), place);
        let place = root.join(place.path());
        // Only root may enter: files of sandboxes can have set-id bits, which the host would obey.
        let parts =
            [place.join("sandboxes"), place.join("trash"), root.join("ranges"), root.join("projects")];
        for path in parts {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed(&path))?;
        }
        let instance = instance(&root).map_err(failed(&root))?;
        Ok(Self { root, place, instance, ranges, subvolumes, shared, making: Mutex::default() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// True if agents make their sockets themselves, where their sandboxes can write.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn ranges(&self) -> &Claims {
        &self.ranges
    }

    pub(crate) fn sandbox(&self, id: &SandboxId) -> PathBuf {
        self.place.join("sandboxes").join(id.as_str())
    }

    pub(crate) fn trash(&self, id: &SandboxId) -> PathBuf {
        self.place.join("trash").join(id.as_str())
    }

    /// True if a path of the host holds the data directory or is part of it. Mounted in a sandbox,
    /// it would give away the keys and all files. The same for the machine's own template, which
    /// other sandboxes stand on.
    pub(super) fn overlaps(&self, source: &Path) -> bool {
        let template = Path::new(Shown::PLACE);
        let same = |found: fs::Metadata| {
            self.root
                .ancestors()
                .chain(template.ancestors().filter(|_| template.exists()))
                .filter_map(|path| fs::metadata(path).ok())
                .any(|above| (above.dev(), above.ino()) == (found.dev(), found.ino()))
        };
        let mut pool = self.root.clone().into_os_string();
        pool.push(".pool");
        let is_within = [self.root.as_path(), template].iter().any(|kept| source.starts_with(kept));
        is_within || source == Path::new(&pool) || fs::metadata(source).is_ok_and(same)
    }

    /// Ids of all directories of sandboxes.
    pub(crate) fn sandboxes(&self) -> io::Result<Vec<SandboxId>> {
        ids_in(&self.place.join("sandboxes"))
    }

    /// Ids of all directories of destroyed sandboxes.
    pub(crate) fn trashed(&self) -> io::Result<Vec<SandboxId>> {
        ids_in(&self.place.join("trash"))
    }

    /// To be said before a sandbox is registered.
    pub(crate) fn begin(&self, id: &SandboxId) -> Making<'_> {
        self.making.lock().insert(id.clone());
        Making { data: self, id: id.clone() }
    }

    /// True while this process is making the sandbox.
    pub(crate) fn is_making(&self, id: &SandboxId) -> bool {
        self.making.lock().contains(id)
    }

    /// Waits until nothing is left of an earlier sandbox of this id, which moved away and is back:
    /// whoever removes its remains ends the group of that name. Answers whether nothing is.
    pub(super) fn await_removal(&self, id: &SandboxId, patience: Duration) -> bool {
        let trash = self.trash(id);
        let deadline = Instant::now() + patience;
        while trash.symlink_metadata().is_ok() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Makes a new sandbox's directory and takes the lock on it.
    pub(crate) fn register(&self, id: &SandboxId) -> io::Result<Lock> {
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
        let parent = fs::File::open(self.place.join("sandboxes"))?;
        make_subvolume(parent.as_fd(), id.as_str())?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
    }

    /// While this is held exclusively, no sandbox's directory exists without its lock.
    pub(crate) fn gate(&self, how: FlockOperation) -> io::Result<Lock> {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let gate = rustix::fs::open(self.place.join("gate"), flags, Mode::from_raw_mode(0o600))?;
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

    pub(crate) fn dial(&self, id: &SandboxId) -> Result<OwnedFd, DialError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(self.sandbox(id), flags, Mode::empty()).map_err(|errno| match errno {
                Errno::NOENT => DialError::NotFound,
                errno => DialError::Failed(errno.into()),
            })?;
        match self.shared {
            None => connect(&address(&directory).map_err(DialError::Failed)?),
            Some(part) => connect_confined(&directory, part),
        }
    }
}

/// As [`connect`], to a socket that sandbox code may have replaced by anything: no link is
/// followed, and nothing but the very file that was found is dialed.
fn connect_confined(directory: &OwnedFd, part: &str) -> Result<OwnedFd, DialError> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let path = Path::new(part).join(SOCKET);
    let socket =
        rustix::fs::openat2(directory, &path, flags, Mode::empty(), resolve).map_err(
            |errno| match errno {
                Errno::NOENT => DialError::Ended,
                errno => DialError::Failed(errno.into()),
            },
        )?;
    let found = rustix::fs::fstat(&socket).map_err(|errno| DialError::Failed(errno.into()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(DialError::Ended);
    }
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", socket.as_raw_fd()))
        .map_err(|errno| DialError::Failed(errno.into()))?;
    connect(&address)
}

/// The reason why an agent cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
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
fn connect(address: &SocketAddrUnix) -> Result<OwnedFd, DialError> {
    let failed = |errno: Errno| DialError::Failed(errno.into());
    let socket = stream_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).map_err(DialError::Failed)?;
    match rustix::net::connect(&socket, address) {
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
pub(crate) struct Lock(OwnedFd);

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
pub(crate) fn try_lock(directory: &Path) -> io::Result<Option<Lock>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::open(directory, flags, Mode::empty())?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(lock))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits for a lock on a file, which is made if need be.
pub(crate) fn await_lock(file: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(file, flags, Mode::RUSR | Mode::WUSR)?;
    let deadline = Instant::now() + patience;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(LOCK_PAUSE),
            Err(errno) => return Err(errno.into()),
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The place of `native`.
    const HERE: Place = Place { below: &[], shared: None, elsewhere: false };

    #[test]
    fn a_link_in_the_place_of_an_agents_socket_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(scratch.path(), flags, Mode::empty()).unwrap();
        let part = scratch.path().join("agent");
        let dial = || connect_confined(&directory, "agent");
        assert!(matches!(dial(), Err(DialError::Ended)), "nothing is there");
        let _host = UnixListener::bind(scratch.path().join("host.sock")).unwrap();
        fs::create_dir(&part).unwrap();
        symlink(scratch.path().join("host.sock"), part.join(SOCKET)).unwrap();
        assert!(matches!(dial(), Err(DialError::Failed(error)) if error.raw_os_error() == Some(libc::ELOOP)));
        fs::remove_file(part.join(SOCKET)).unwrap();
        fs::write(part.join(SOCKET), "").unwrap();
        assert!(matches!(dial(), Err(DialError::Ended)), "a file is no agent");
        fs::remove_file(part.join(SOCKET)).unwrap();
        let _agent = UnixListener::bind(part.join(SOCKET)).unwrap();
        drop(dial().unwrap());
        fs::rename(&part, scratch.path().join("elsewhere")).unwrap();
        symlink(scratch.path().join("elsewhere"), &part).unwrap();
        assert!(matches!(dial(), Err(DialError::Failed(_))), "nor is one above it");
    }

    #[test]
    fn a_sandbox_is_being_made_until_its_maker_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(&folder.path().join("data"), &HERE, false).unwrap();
        let (one, other) = (SandboxId::from_random([1; 16]), SandboxId::from_random([2; 16]));
        let making = data.begin(&one);
        assert!(data.is_making(&one) && !data.is_making(&other));
        drop(making);
        assert!(!data.is_making(&one));
    }

    #[test]
    fn an_id_is_free_when_the_remains_of_its_earlier_life_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(&folder.path().join("data"), &HERE, false).unwrap();
        let id = SandboxId::from_random([1; 16]);
        assert!(data.await_removal(&id, Duration::ZERO), "a new id waits for nothing");
        let trash = data.trash(&id);
        fs::create_dir(&trash).unwrap();
        assert!(!data.await_removal(&id, PAUSE));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(5 * PAUSE);
                fs::remove_dir(&trash).unwrap();
            });
            assert!(data.await_removal(&id, Duration::from_secs(60)));
        });
        assert!(!trash.exists());
    }

    #[test]
    fn what_others_stand_on_is_not_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(&folder.path().join("data"), &HERE, false).unwrap();
        for kept in [data.root(), &data.root().join("sandboxes"), folder.path(), Path::new("/")] {
            assert!(data.overlaps(kept), "{}", kept.display());
        }
        assert!(data.overlaps(&Path::new(Shown::PLACE).join("usr.json")));
        let own = folder.path().join("own");
        fs::create_dir(&own).unwrap();
        assert!(!data.overlaps(&own));
    }
}
