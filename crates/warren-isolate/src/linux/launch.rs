//! The agent's binary as a child of this process, which is told what to do over a control socket.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use warren_core::{CreateRequest, IsolationError, IsolationErrorKind, OwnerBond};
use warren_wire::guest::{BootFailure, BootReport, MAX_PAYLOAD};

use super::create::{BOOT_PATIENCE, layer};
use super::sys::{self, Program};
use super::{Backend, Hold, clones};

/// The socket on which a child is given its plan.
#[derive(Debug)]
pub(crate) struct Control(UnixStream);

impl Backend {
    /// Clones a child into new namespaces and a control group, where it executes the agent's
    /// binary. `hold` keeps it. Returns its number too.
    pub(crate) fn launch(
        &self,
        mode: &str,
        mut inherited: Vec<RawFd>,
        flags: libc::c_int,
        cgroup: Option<&OwnedFd>,
        hold: &mut Hold,
    ) -> Result<(u32, Control), IsolationError> {
        let (control, theirs) = UnixStream::pair().map_err(|error| layer("control socket", error))?;
        inherited.push(theirs.as_raw_fd());
        let arguments = ["warren-guest".to_owned(), mode.to_owned(), theirs.as_raw_fd().to_string()];
        let program = Program {
            executable: self.agent.as_fd(),
            arguments: arguments.into_iter().filter_map(|text| CString::new(text).ok()).collect(),
            null: self.null.as_fd(),
            inherited,
        };
        let cgroup = cgroup.map(AsFd::as_fd);
        let spawn = || sys::spawn(&program, flags.unsigned_abs().into(), cgroup);
        let child = clones::outwait(Errno::TXTBSY, spawn)
            .map_err(|errno| layer("namespaces", io::Error::from(errno)))?;
        let pid = child.pid;
        hold.child = Some(child);
        Ok((pid, Control(control)))
    }

    /// The end of the lifeline for a sandbox that dies with this process.
    pub(crate) fn lifeline(&self, owner: OwnerBond) -> Option<BorrowedFd<'_>> {
        match owner {
            OwnerBond::DiesWithOwner => Some(self.lifeline.theirs.as_fd()),
            OwnerBond::Outlives => None,
        }
    }

    /// Puts the request's limits on the sandbox's group.
    pub(crate) fn limit(&self, request: &CreateRequest) -> Result<(), IsolationError> {
        let limited = self.cgroups.limit(request.id.as_str(), &request.spec.limits);
        limited.map_err(|error| layer("cgroup", error))
    }
}

impl Control {
    /// Sends the plan and waits for the one answer.
    pub(crate) fn converse(self, plan: &impl minicbor::Encode<()>) -> Result<(), IsolationError> {
        let Self(mut control) = self;
        let packet = minicbor::to_vec(plan).map_err(|error| layer("boot plan", io::Error::other(error)))?;
        let mut exchange = || -> io::Result<Vec<u8>> {
            control.set_read_timeout(Some(BOOT_PATIENCE))?;
            control.set_write_timeout(Some(BOOT_PATIENCE))?;
            control.write_all(&u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes())?;
            control.write_all(&packet)?;
            let mut length = [0; 4];
            control.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            if length > MAX_PAYLOAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut report = vec![0; length];
            control.read_exact(&mut report)?;
            Ok(report)
        };
        let report = exchange().map_err(|error| layer("the agent's start", error))?;
        match minicbor::decode(&report).map_err(|error| layer("boot report", io::Error::other(error)))? {
            BootReport::Ready => Ok(()),
            BootReport::Failed(failure) => Err(refused(failure)),
        }
    }
}

/// The kernel's error for a filter that cannot be compiled (`ENOTSUPP`).
const NO_ROOM_FOR_FILTERS: i32 = 524;

fn refused(failure: BootFailure) -> IsolationError {
    if failure.errno == Some(NO_ROOM_FOR_FILTERS) {
        let message = "load the sandbox's filter: the kernel's memory for compiled filters is used up, by whatever programs of \
                       this machine; raise it with `sysctl net.core.bpf_jit_limit=1073741824`";
        return IsolationError::caused(IsolationErrorKind::Exhausted, message, failure);
    }
    layer(&failure.step.clone(), failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_room_for_filters_is_said_to_be_full() {
        let failure = |errno| BootFailure { step: "seccomp".to_owned(), detail: "load".to_owned(), errno };
        let full = refused(failure(Some(524)));
        assert_eq!(full.kind, IsolationErrorKind::Exhausted);
        assert!(full.to_string().contains("sysctl net.core.bpf_jit_limit="), "{full}");
        assert_eq!(refused(failure(Some(libc::EINVAL))).kind, IsolationErrorKind::Layer);
    }
}
