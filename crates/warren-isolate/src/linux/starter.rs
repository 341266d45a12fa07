//! The one step in which backends of this machine's kernel differ: from a root, a group, a network
//! and a listening socket that are ready to a first process.

use std::fmt;
use std::path::{Path, PathBuf};

use warren_core::{
    Capabilities, Check, CreateRequest, DiskQuota, IsolationError, IsolationErrorKind, SandboxId,
};

use super::create::Parts;
use super::step::CrashPoint;
use super::{Backend, Hold};

/// How a backend of this machine is set up.
#[derive(Debug)]
pub(crate) struct LinuxOptions {
    pub(crate) data_dir: PathBuf,
    pub(crate) prepared_networks: usize,
    pub(crate) subvolumes: bool,
    pub(crate) allowed_mounts: Vec<PathBuf>,
    pub(crate) crash_at: Option<CrashPoint>,
}

/// Where a backend keeps its sandboxes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Directories below the data directory, the outermost first.
    pub(crate) below: &'static [&'static str],
    /// The part of a sandbox's directory with the agent's socket, if the sandbox can write there.
    pub(crate) shared: Option<&'static str>,
    /// Groups are also made by others, in hierarchies that are not used here.
    pub(crate) elsewhere: bool,
}

impl Place {
    /// The path below the data directory.
    pub(crate) fn path(&self) -> PathBuf {
        self.below.iter().collect()
    }

    /// The group above all sandboxes of the backend. Another name for each, because a backend ends
    /// every group that it does not know.
    pub(crate) fn group(&self, instance: &str) -> String {
        self.below.last().map_or_else(|| instance.to_owned(), |name| format!("{instance}.{name}"))
    }
}

/// Starts first processes.
pub(crate) trait Starter: fmt::Debug + Send + Sync {
    /// The backend's name.
    fn name(&self) -> &'static str;

    fn place(&self) -> Place;

    /// Abilities, with the strongest disk limit that the machine offers.
    fn capabilities(&self, disk_quota: DiskQuota) -> Capabilities;

    fn examine(&self, data_dir: &Path) -> Vec<Check>;

    /// True if a sandbox may get writable layers later, see [`super::deferred`].
    fn defers(&self) -> bool {
        false
    }

    /// Makes a first process whose agent answers, and puts the limits on its group before anybody
    /// can use it. Returns its number. After a failure the caller ends the group and `hold`.
    fn start(
        &self,
        backend: &Backend,
        request: &CreateRequest,
        parts: Parts,
        hold: &mut Hold,
    ) -> Result<u32, IsolationError>;

    /// As [`warren_core::Memory::suspend`]. The number of the first process and the sandbox's range
    /// are those of its record; whatever is left running is the caller's to end.
    fn suspend(
        &self,
        _backend: &Backend,
        id: &SandboxId,
        _process: (u32, u32),
        _into: &Path,
    ) -> Result<(), IsolationError> {
        let action = format!("put the processes of {id} on disk");
        Err(IsolationError::new(IsolationErrorKind::Unsupported, action))
    }
}
