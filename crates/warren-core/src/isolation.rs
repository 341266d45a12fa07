use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capabilities::{Capabilities, Need};
use crate::check::Check;
use crate::failure::Failure;
use crate::id::SandboxId;
use crate::network::NetworkUsage;
use crate::root::{FoundImage, Root, RootKind, RootState, RootTree};
use crate::root_image::RootImage;
use crate::spec::SandboxSpec;

/// Starts isolated roots with the agent as PID 1, and dials them. All that happens inside a sandbox
/// is the agent's work, so a backend knows nothing of processes or files.
///
/// Methods block; callers on an async runtime give them a thread. One caller at a time for one id,
/// but for `dial`, `socket`, `watch`, `usage` and `pulse`, which anybody may call at any time.
///
/// Callers do not ask for anything that [`Capabilities`] deny. If they do, a backend answers
/// [`IsolationErrorKind::Unsupported`] and has done nothing.
pub trait Isolation: Send + Sync {
    /// The backend's name, stored with each sandbox it made.
    fn name(&self) -> &'static str;

    /// The needs of the backend, each with what was found on the machine. May be called at any
    /// time.
    fn probe(&self) -> Vec<Check>;

    fn capabilities(&self) -> &Capabilities;

    /// The half for snapshots; `None` from a backend without layers that can be taken.
    fn layered(&self) -> Option<&dyn Layered> {
        None
    }

    /// The half for running processes; `None` from a backend that cannot put them on disk.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// Where a directory or file that is to be mounted really is, if it may be. Asked before
    /// anything is built, and again when a sandbox is started again.
    fn mount_source(&self, asked: &Path) -> Result<MountSource, MountRefusal> {
        let _ = asked;
        Err(MountRefusal::NotAllowed)
    }

    /// Finds an image of its own for a sandbox to start on: by its digest, if it has one, and by
    /// its name otherwise. Asked before anything is built. [`IsolationErrorKind::Invalid`] says why
    /// it cannot be used: it is not there, or made for another machine.
    fn image(&self, asked: &RootImage) -> Result<FoundImage, IsolationError> {
        let action = format!("find the image `{asked}`: {}", RootKind::Image.refused());
        Err(IsolationError::new(IsolationErrorKind::Unsupported, action))
    }

    /// Room on the disk that holds the sandboxes' files. Cheap enough to be asked before every
    /// create. `None` if there is no one disk that it can see.
    fn space(&self) -> Result<Option<DiskSpace>, IsolationError> {
        Ok(None)
    }

    /// Makes a sandbox. On success its agent answers; on failure nothing of it is left, and the
    /// error names the layer that could not be set up. Not to be retried with the same id unless it
    /// failed.
    ///
    /// With [`RootState::Kept`] it starts again a sandbox that was halted or found dead, with the
    /// files it had; a failure leaves those as they were.
    fn create(&self, request: CreateRequest) -> Result<Created, IsolationError>;

    /// Gives a sandbox another spec, which differs from the one it was made with in labels and
    /// lifetime only: from then on [`Isolation::list`] tells that one. A lifecycle call. After a
    /// crash it has either.
    fn hand_over(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError>;

    /// A new connection to the sandbox's agent: a connected stream socket. May be called any number
    /// of times. Never waits, since the caller may be a thread that serves others: an agent that
    /// takes no more callers at the moment, because it is frozen or flooded, is
    /// [`IsolationErrorKind::Busy`].
    fn dial(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError>;

    /// Dialing is a few system calls that wait for nobody, not even for a disk or a daemon, so that
    /// a thread which serves requests may do it.
    fn dials_at_once(&self) -> bool {
        false
    }

    /// Brings a sandbox that another process made up to date, and waits for it, so that whoever
    /// dials next finds it whole. For commands: who watches a sandbox has done so already.
    fn adopt(&self, _id: &SandboxId) {}

    /// A TCP socket in the sandbox's own network, not connected yet; of version 6 if asked for.
    /// `None` from a backend that cannot: its agent connects then.
    fn socket(&self, id: &SandboxId, v6: bool) -> Result<Option<OwnedFd>, IsolationError> {
        let _ = (id, v6);
        Ok(None)
    }

    /// A descriptor that becomes readable once the sandbox's first process has ended, and at once
    /// if it has already. It may become readable because the backend is away, too: then
    /// [`Isolation::usage`] answers [`IsolationErrorKind::Away`]. The engine calls this once for
    /// each sandbox that it made or found: limits that the kernel does not hold are held from then
    /// on.
    fn watch(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError>;

    /// Stops every process where it stands. Idempotent.
    fn freeze(&self, id: &SandboxId) -> Result<(), IsolationError>;

    /// Lets every process go on. Idempotent.
    fn thaw(&self, id: &SandboxId) -> Result<(), IsolationError>;

    /// Ends every process and gives back all but the files, which [`RootState::Kept`] starts from.
    /// When it returns, no process of the sandbox runs. Idempotent, and right for a sandbox that
    /// was found dead.
    fn halt(&self, id: &SandboxId) -> Result<(), IsolationError>;

    /// Ends every process and gives back all that the sandbox held. When it returns, the sandbox's
    /// processes are doomed and it is no longer listed; what takes time goes on in the background.
    /// Its id is free once that is done (see [`Isolation::settle`]). A sandbox of which only parts
    /// exist is destroyed like any other; one that is gone is not found.
    fn destroy(&self, id: &SandboxId) -> Result<(), IsolationError>;

    /// Puts on disk what the sandbox has written so far and what the machine needs to find it
    /// again. Anybody may call it at any time.
    fn flush(&self, id: &SandboxId) -> Result<(), IsolationError>;

    /// Waits until background clean-up is done, at most `patience`. Says whether it is.
    fn settle(&self, patience: Duration) -> bool;

    /// The sandboxes that really exist, as the machine itself shows them and not this process's
    /// memory.
    fn list(&self) -> Result<Vec<Found>, IsolationError>;

    /// All figures. May take a walk over the sandbox's files, so it is for callers who want to
    /// know, not for a timer; of a sandbox that has ended, what is still known.
    fn usage(&self, id: &SandboxId) -> Result<Usage, IsolationError>;

    /// The figures that tell whether a sandbox is idle: a fraction of a millisecond, whatever the
    /// sandbox holds.
    fn pulse(&self, id: &SandboxId) -> Result<Pulse, IsolationError> {
        let Usage { cpu_ns, io_bytes, connections, .. } = self.usage(id)?;
        Ok(Pulse { cpu_ns, io_bytes, connections })
    }

    /// Shares the processors evenly among groups of sandboxes, one for each owner, however many
    /// sandboxes a group has. To be called every second or so. A backend that has no way to do so
    /// does nothing.
    fn balance(&self, _groups: &[Vec<SandboxId>]) {}
}

/// All that a backend needs to make one sandbox. The spec has been validated.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    pub id: SandboxId,
    pub spec: SandboxSpec,
    pub root: Root,
    pub state: RootState,
    /// `KEY=VALUE`: the template's variables with the spec's on top. An image's own variables, user
    /// and working directory are the backend's to fill in.
    pub env: Vec<String>,
    pub user: Option<String>,
    pub workdir: Option<PathBuf>,
    pub owner: OwnerBond,
    /// The network namespace to start in, see [`crate::Networks`]. Absent: one of its own with
    /// loopback only.
    pub network: Option<Arc<OwnedFd>>,
    /// The disk limit was asked for and must be hard; a default one holds as well as the machine
    /// can.
    pub disk_limit_required: bool,
    /// The place where [`Memory::suspend`] has put the processes of a sandbox that stood on the
    /// same files: they go on, and no agent is started.
    pub memory: Option<PathBuf>,
}

/// The second half of a backend whose sandboxes stand on layers that can be taken from under them:
/// snapshots, forks and going back. A backend whose [`crate::SnapshotSupport`] is `Sealed` or
/// `Copied` has it, and no other; reached by [`Isolation::layered`].
///
/// Methods block. Each is a lifecycle call: one at a time for one id.
pub trait Layered: Send + Sync {
    /// Turns what a sandbox wrote into a layer. `into` does not exist, and is a place on the
    /// sandboxes' own file system; at success it holds an `upper-<n>` for each writable tree that
    /// was changed, the sandbox's writable layers are empty, and it stands on `below` with the new
    /// layer on top of each changed tree. `below` must be what it stands on now, or equal to it.
    ///
    /// A running sandbox is sealed only if no process but its agent is there and the agent has no
    /// file open; it stands still meanwhile, and one that was frozen stays so. A halted one is
    /// sealed always. Whatever the answer but [`Sealed::Done`], nothing has changed. A crash at any
    /// moment leaves it sealed or not, see [`Found::root`], and perhaps frozen.
    ///
    /// A backend that only copies answers [`Sealed::Unmovable`].
    fn seal(&self, id: &SandboxId, into: &Path, below: &[RootTree]) -> Result<Sealed, IsolationError>;

    /// True if nothing was written to a running sandbox since [`Layered::seal`] last answered that
    /// it was unchanged. Costs next to nothing and never waits: it may be asked on a thread that
    /// serves others. False says nothing.
    fn is_untouched(&self, _id: &SandboxId) -> bool {
        false
    }

    /// The directory with the sandbox's writable layers, `upper-<n>`, for a copy of them. It must
    /// not be written to, and is at rest only while the sandbox is frozen or halted.
    fn writable(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError>;

    /// True if the writable layers hold what the layers below them have, too, because layers of
    /// ours are copied into them before a start. A copy of them then stands on the image alone: a
    /// file that was removed since leaves no trace but its absence. [`Layered::seal`] still answers
    /// [`Sealed::Unchanged`] where nothing was written since the start.
    fn holds_layers(&self) -> bool {
        false
    }

    /// Empties the writable layers of a halted sandbox: somebody has a copy. Idempotent. Of one
    /// that runs it is [`IsolationErrorKind::Invalid`].
    fn clear(&self, id: &SandboxId) -> Result<(), IsolationError>;
}

/// The third half of a backend that can put running processes on disk, in any number of copies
/// later; one whose [`Capabilities::memory_snapshots`] says so has it, and no other. Reached by
/// [`Isolation::memory`].
pub trait Memory: Send + Sync {
    /// Writes all processes of a sandbox into `into`, which does not exist, and ends them here: it
    /// is halted then. Connections to its agent break. Its files are at rest from then on, and
    /// belong to what was written: [`CreateRequest::memory`] goes on with both.
    ///
    /// Only of a running sandbox without a network, see [`Capabilities::memory_snapshots`]. After a
    /// failure it runs on as if nothing had happened, or has ended; its files are kept either way.
    fn suspend(&self, id: &SandboxId, into: &Path) -> Result<(), IsolationError>;
}

/// The outcome of a seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealed {
    /// The layer is made. The sandbox stood still for this long.
    Done { frozen: Duration },
    /// Nothing was written since the writable layers were empty.
    Unchanged,
    /// Somebody works in it. What and who is for people.
    Busy { reason: String },
    /// The writable layers are on a file system of their own, or have to be left where they are.
    Unmovable,
}

/// Something of the host that may be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSource {
    /// Where it really is, links followed.
    pub path: PathBuf,
    pub is_directory: bool,
}

/// Why something of the host is not mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountRefusal {
    /// It is not below a directory that may be mounted; nothing is said of what exists there.
    NotAllowed,
    /// It would be, and is not there.
    Missing,
}

/// Room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DiskSpace {
    pub free_bytes: u64,
    pub total_bytes: u64,
    pub free_inodes: u64,
}

impl Capabilities {
    /// Refuses what cannot be done, as a backend answers it.
    pub fn require(&self, needs: &[Need]) -> Result<(), IsolationError> {
        match self.refuse(needs) {
            Some(refusal) => Err(IsolationError::new(IsolationErrorKind::Unsupported, refusal.to_string())),
            None => Ok(()),
        }
    }
}

impl CreateRequest {
    /// The request that makes a sandbox of an image that its backend has found.
    pub fn on_image(id: SandboxId, spec: &SandboxSpec, owner: OwnerBond, found: FoundImage) -> Self {
        let FoundImage { image, trees } = found;
        Self {
            id,
            spec: SandboxSpec { image: Some(image.clone()), ..spec.clone() },
            root: Root::Image { image, trees },
            state: RootState::Fresh,
            env: spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            user: spec.user.clone(),
            workdir: spec.workdir.clone(),
            owner,
            network: None,
            disk_limit_required: false,
            memory: None,
        }
    }

    /// All that it asks of a backend. Files that were kept have the disk limit that they were made
    /// with.
    pub fn needs(&self) -> Vec<Need> {
        let fresh = self.state == RootState::Fresh;
        let mut needs = Need::of(&self.spec, self.root.kind(), self.disk_limit_required && fresh);
        needs.extend((self.owner == OwnerBond::Outlives).then_some(Need::OutlivesServer));
        needs.extend(self.memory.is_some().then_some(Need::MemorySnapshots));
        needs
    }
}

/// The fate of a sandbox when the process that made it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerBond {
    /// It ends too, at once.
    DiesWithOwner,
    /// It goes on, and is found again by [`Isolation::list`].
    Outlives,
}

/// A sandbox whose agent answers.
#[derive(Debug, Clone)]
pub struct Created {
    pub id: SandboxId,
    /// PID 1 of the sandbox, as the host counts.
    pub pid: u32,
}

/// A sandbox found on the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub id: SandboxId,
    pub pid: Option<u32>,
    pub alive: bool,
    pub frozen: bool,
    pub owner: OwnerBond,
    pub spec: SandboxSpec,
    /// The root it stands on; no trees if that is not known.
    #[serde(skip)]
    pub root: Root,
    pub created_unix_ms: u64,
}

/// Resources that a sandbox uses and has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
    /// The part of the memory that caches files. The kernel frees it when memory is needed.
    #[serde(default)]
    pub memory_cache_bytes: u64,
    pub cpu_ns: u64,
    pub pids: u64,
    /// Bytes and inodes the sandbox alone holds on disk.
    pub disk_bytes: u64,
    pub inodes: u64,
    /// Processes the kernel killed because the memory limit was reached.
    pub oom_kills: u64,
    /// Bytes read from and written to devices, as far as the machine counts them.
    pub io_bytes: u64,
    /// Established TCP connections with somebody outside the sandbox.
    pub connections: u64,
    /// It was ended because it held more than its disk limit. Stays set until it is started again.
    #[serde(default)]
    pub disk_exceeded: bool,
    /// Traffic over its link. Backends leave it empty; absent without a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
}

/// The figures that change while a sandbox does something; see [`Usage`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    pub cpu_ns: u64,
    pub io_bytes: u64,
    pub connections: u64,
}

/// A backend could not do what was asked.
pub type IsolationError = Failure<IsolationErrorKind>;

/// The kind of a [`IsolationError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IsolationErrorKind {
    /// No sandbox of that id.
    NotFound,
    /// A sandbox of that id exists.
    AlreadyExists,
    /// The spec asks for what this machine or backend cannot give.
    Unsupported,
    /// The spec names something that is not there or not allowed, such as a mount source.
    Invalid,
    /// No room: id ranges, disk space, the machine's limits.
    Exhausted,
    /// The agent's queue of callers is full at the moment: the same may work a little later.
    Busy,
    /// A layer of isolation could not be set up; nothing was started.
    Layer,
    /// The sandbox ended while it was being used.
    Ended,
    /// The backend itself cannot be asked: a daemon that it needs is away. Nothing is known of the
    /// sandbox, least of all that it has ended.
    Away,
    /// The host failed.
    Host,
}
