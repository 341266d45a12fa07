//! Writable layers that sandboxes get when they first need them.
//!
//! Only root inside can write to the machine's own `/usr`, and most sandboxes never do; an overlay
//! with a writable layer would cost each of them more than everything else that is mounted. So a
//! sandbox of another user begins with `/usr` as it is. Before root starts a program or changes a
//! file, the agent asks for the layer, and the overlay is mounted over what is there. Who has old
//! files open keeps them.
//!
//! An agent can ask only the process that made its sandbox. A process that finds a sandbox of
//! another one, which may be gone, gives it the layer at once.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, SocketFlags, SocketType,
};
use rustix::process::Pid;
use warren_core::{CreateRequest, MountAccess, OwnerBond, RootState, RootTree, SandboxId, Shown};

use super::quota::{Area, QuotaKind};
use super::record::Record;
use super::seal::exchange::{self, Plan};
use super::seal::mounts::Mounts;
use super::step::CrashPoint;
use super::{Backend, layers};

/// In a sandbox's directory.
const LOCK: &str = "layer.lock";

/// Longer than the name of any sandbox.
const MOST_BYTES: usize = 256;

/// True if a tree gets its writable layer later: nobody but root can write there, and nothing was
/// written there or is to be mounted below it.
pub(super) fn is_deferred(tree: &RootTree, number: usize, request: &CreateRequest, area: &Area) -> bool {
    let user = request.user.as_deref().and_then(|user| user.split(':').next());
    let is_last = number + 1 == request.root.trees().len();
    tree.access == MountAccess::ReadWrite
        && number > 0
        && is_last
        && is_whole(tree)
        && !matches!(user, None | Some("root" | "0"))
        && area.kind != QuotaKind::Image
        && !request.spec.mounts.iter().any(|mount| mount.target.starts_with(&tree.at))
        && (request.state == RootState::Fresh || !area.path.join(layers::upper(number)).exists())
}

/// True if a tree is a directory of the machine and nothing else.
fn is_whole(tree: &RootTree) -> bool {
    matches!(Shown::part(&tree.lowers), ([], Some(_)))
}

/// The socket on which agents ask. They share one end.
#[derive(Debug)]
pub(super) struct Door {
    ours: OwnedFd,
    pub(super) theirs: OwnedFd,
}

impl Door {
    pub(super) fn new() -> io::Result<Self> {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_passcred(&ours, true)?;
        Ok(Self { ours, theirs })
    }

    /// The next agent that asks. `None` once the door is closed.
    fn next(&self) -> Option<Asked> {
        loop {
            let mut bytes = [0; MOST_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let count = match rustix::net::recvmsg(&self.ours, &mut parts, &mut ancillary, flags) {
                Ok(received) if received.bytes > 0 => received.bytes,
                Err(Errno::INTR) => continue,
                _ => return None,
            };
            let (mut lent, mut pid) = (Vec::new(), None);
            for message in ancillary.drain() {
                match message {
                    RecvAncillaryMessage::ScmRights(descriptors) => lent.extend(descriptors),
                    RecvAncillaryMessage::ScmCredentials(sender) => pid = Some(sender.pid),
                    _ => {}
                }
            }
            let id = bytes.get(..count).and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
            if let (Some(id), Some(pid)) = (id, pid) {
                return Some(Asked { id, pid, lent });
            }
        }
    }
}

/// An agent's question.
#[derive(Debug)]
struct Asked {
    id: SandboxId,
    /// The asking process, as the kernel says.
    pid: Pid,
    /// Ends with the answer.
    lent: Vec<OwnedFd>,
}

/// The thread that answers. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Doorkeeper {
    backend: Arc<Backend>,
    thread: Option<JoinHandle<()>>,
}

impl Doorkeeper {
    pub(super) fn start(backend: &Arc<Backend>) -> io::Result<Self> {
        let own = Arc::clone(backend);
        let answer = move || {
            while let Some(Asked { id, pid, lent }) = own.door.next() {
                // An agent speaks for its own sandbox only, and for that one once at a time.
                let record = Record::load(&own.data.sandbox(&id));
                let agent = record.and_then(|record| Pid::from_raw(i32::try_from(record.pid).ok()?));
                if agent == Some(pid) && own.given.lock().insert(id.clone()) {
                    give(&own, id, lent);
                }
            }
        };
        let thread = Builder::new().name("warren-door".to_owned()).spawn(answer)?;
        Ok(Self { backend: Arc::clone(backend), thread: Some(thread) })
    }
}

impl Drop for Doorkeeper {
    fn drop(&mut self) {
        let closed = rustix::net::shutdown(&self.backend.door.ours, Shutdown::Both);
        if let (Ok(()), Some(thread)) = (closed, self.thread.take()) {
            drop(thread.join());
        }
    }
}

/// Gives a running sandbox of another process its layer, without waiting for it.
pub(super) fn adopt(backend: &Arc<Backend>, record: &Record) {
    if record.owner == OwnerBond::Outlives && backend.known.lock().insert(record.id.clone()) {
        give(backend, record.id.clone(), Vec::new());
    }
}

/// As [`adopt`], and waits for it.
pub(super) fn catch_up(backend: &Backend, id: &SandboxId) {
    let is_kept = || {
        let record = Record::load(&backend.data.sandbox(id));
        record.is_some_and(|record| record.owner == OwnerBond::Outlives)
    };
    if !backend.known.lock().contains(id) && is_kept() {
        backend.known.lock().insert(id.clone());
        put_or_say(backend, id);
    }
}

/// On a thread of its own: a sandbox that is being sealed is waited for.
fn give(backend: &Arc<Backend>, id: SandboxId, asked: Vec<OwnedFd>) {
    let own = Arc::clone(backend);
    let work = move || {
        put_or_say(&own, &id);
        own.given.lock().remove(&id);
        drop(asked);
    };
    // Without a thread what was asked with is closed, and root goes on without the layer.
    drop(Builder::new().name("warren-layer".to_owned()).spawn(work));
}

fn put_or_say(backend: &Backend, id: &SandboxId) {
    if let Err(error) = put(backend, id)
        && backend.data.sandbox(id).exists()
    {
        tracing::warn!(sandbox = %id, error = %error, "/usr of a sandbox stays read-only");
    }
}

/// Mounts what is missing.
fn put(backend: &Backend, id: &SandboxId) -> io::Result<()> {
    let _turn = backend.turns.take(id);
    let directory = backend.data.sandbox(id);
    let Some(record) = Record::load(&directory) else { return Ok(()) };
    let _others = lock(&directory)?;
    let open = |name: &str| File::open(format!("/proc/{}/ns/{name}", record.pid)).map(OwnedFd::from);
    let (user, mounts) = (open("user")?, open("mnt")?);
    // Looked at afterwards: what was opened is never another process's with the same number.
    if !record.is_alive() || record.quota == QuotaKind::Image {
        return Ok(());
    }
    let table = Mounts::of(record.pid)?;
    for (number, tree) in record.root.iter().enumerate().skip(1) {
        if !is_whole(tree) || table.is_writable(&tree.at) || table.has_below(&tree.at) {
            continue;
        }
        layers::make_writable(&directory, number, tree, RootState::Kept).map_err(io::Error::other)?;
        backend.passed(CrashPoint::DeferMade);
        let opened = layers::open(tree, user.as_fd()).map_err(io::Error::other)?;
        let (upper, work) = (layers::upper(number), layers::work(number));
        let plan = Plan { at: opened.at, lowers: opened.lowers, shown: opened.shown, upper, work };
        let area = layers::open_area(&directory, user.as_fd()).map_err(io::Error::other)?;
        let trees = exchange::mount_trees(vec![plan], area, record.id_base)?;
        exchange::cover(mounts.try_clone()?, trees)?;
        backend.passed(CrashPoint::DeferMounted);
    }
    Ok(())
}

/// Keeps commands without a server, each a process of its own, from giving the same layer.
fn lock(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(directory.join(LOCK))?;
    file.lock()?;
    Ok(file)
}

/// Keeps a sandbox's root from being changed by two at once. Sandboxes may share a turn.
#[derive(Debug)]
pub(super) struct Turns([Mutex<()>; 64]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Turns {
    pub(super) fn take(&self, id: &SandboxId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        id.as_str().hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % 64).unwrap_or_default();
        self.0[place].lock()
    }
}
