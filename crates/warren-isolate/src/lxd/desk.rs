//! The directory that a sandbox's agent shares with us: its plan, its lifeline, its socket. The
//! agent can write there until it answers; then everything but the socket is gone and the directory
//! is the host's, so that nothing inside can put anything in the socket's place.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use warren_core::{CreateRequest, OwnerBond};
use warren_wire::guest::{AgentConfig, ServePlan};

use crate::linux::{process_limits, remove_tree, seccomp_program};

/// The part of a sandbox's directory that it shares with its agent.
pub(super) const SHARED: &str = "agent";
pub(super) const SOCKET: &str = "agent.sock";
pub(super) const PLAN: &str = "plan";
const LIFELINE: &str = "lifeline";

/// Where a sandbox finds the agent's program, and the shared directory. Both are right below the
/// root: a mount point there cannot be moved or replaced from inside.
pub(super) const PROGRAM_AT: &str = "/.warren";
pub(super) const AGENT_AT: &str = "/.warren-agent";

/// The shared directory of one start.
#[derive(Debug)]
pub(super) struct Desk {
    shared: PathBuf,
}

impl Desk {
    pub(super) fn of(directory: &Path) -> Self {
        Self { shared: directory.join(SHARED) }
    }

    pub(super) fn shared(&self) -> &Path {
        &self.shared
    }

    /// Makes the directory anew.
    pub(super) fn make(&self) -> io::Result<()> {
        if self.shared.symlink_metadata().is_ok() && !remove_tree(&self.shared, || {}) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        fs::DirBuilder::new().mode(0o700).create(&self.shared)
    }

    /// Writes the plan and hands the directory to the sandbox's root. Returns our end of the
    /// lifeline, if there is one: the agent ends when it is closed.
    pub(super) fn lay(&self, request: &CreateRequest, id_base: u32) -> io::Result<Option<OwnedFd>> {
        let lifeline = match request.owner {
            OwnerBond::DiesWithOwner => Some(self.lifeline()?),
            OwnerBond::Outlives => None,
        };
        let plan = ServePlan {
            agent: AgentConfig {
                env: request.env.iter().map(|entry| entry.as_str().into()).collect(),
                user: request.user.as_deref().map(Into::into),
                cwd: request.workdir.as_ref().map(Into::into),
            },
            rlimits: process_limits(request, request.spec.limits.disk.0),
            seccomp: seccomp_program(request.spec.profile),
            lifeline_at: lifeline.as_ref().map(|_| format!("{AGENT_AT}/{LIFELINE}").as_str().into()),
            ..ServePlan::default()
        };
        let path = self.shared.join(PLAN);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
        io::Write::write_all(&mut file, &minicbor::to_vec(&plan).map_err(io::Error::other)?)?;
        chown(&self.shared, Some(id_base), Some(id_base))?;
        Ok(lifeline)
    }

    /// A pipe that nobody inside can open for writing: it is the host's.
    fn lifeline(&self) -> io::Result<OwnedFd> {
        let path = self.shared.join(LIFELINE);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o444), 0)?;
        // For reading as well, so that the open does not wait for the agent.
        Ok(rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Takes the directory away from the sandbox. Nobody inside can dial its agent.
    pub(super) fn close(&self) -> io::Result<()> {
        chown(&self.shared, Some(0), Some(0))?;
        fs::set_permissions(&self.shared, fs::Permissions::from_mode(0o711))?;
        lchown(self.shared.join(SOCKET), Some(0), Some(0))?;
        for spent in [PLAN, LIFELINE] {
            match fs::remove_file(self.shared.join(spent)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
