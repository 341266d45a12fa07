//! The rights of the thread that serves a call.
//!
//! Only the thread changes: the agent's others keep theirs, and a file call needs no process of its
//! own. There is no way back, so the thread must end with the call.

use rustix::process::{getegid, geteuid, getgid, getgroups, getuid};
use rustix::thread::{CapabilitySet, Gid, Uid};
use warren_wire::guest::{Failure, FailureCode};

use super::sys;
use crate::identity::Identity;

/// The owner of new files, where that is not the user that the thread acts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewOwner {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
}

/// Keeps root's rights to every file, on behalf of `identity`, which owns everything that is made.
pub(super) fn assume_root_for(identity: &Identity) -> Result<NewOwner, Failure> {
    let root = Identity { uid: 0, gid: 0, groups: Vec::new(), ..identity.clone() };
    assume(&root)?;
    Ok(NewOwner { uid: Uid::from_raw(identity.uid), gid: Gid::from_raw(identity.gid) })
}

/// Makes the kernel judge this thread's file access as it would judge `identity`'s.
pub(super) fn assume(identity: &Identity) -> Result<(), Failure> {
    let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    // Groups first: the right to set them goes with the user.
    let switched = rustix::thread::set_thread_groups(&groups).is_ok()
        && (sys::set_fs_gid(identity.gid) || set_effective_gid(identity.gid))
        && (sys::set_fs_uid(identity.uid) || set_effective_uid(identity.uid))
        && (identity.uid == 0 || drop_capabilities());
    if switched || is_own(identity) {
        return Ok(());
    }
    let message = format!("act as user {}:{}: the agent may not change users", identity.uid, identity.gid);
    Err(Failure::new(FailureCode::PermissionDenied, message))
}

/// For gVisor's kernel, which has no ids for files alone. The other ids stay, so that nobody with
/// the new one may send signals to the thread.
fn set_effective_gid(gid: u32) -> bool {
    rustix::thread::set_thread_res_gid(getgid(), Gid::from_raw(gid), getgid()).is_ok()
}

/// As [`set_effective_gid`].
fn set_effective_uid(uid: u32) -> bool {
    rustix::thread::set_thread_res_uid(getuid(), Uid::from_raw(uid), getuid()).is_ok()
}

/// An agent that may not change users can still serve the one it runs as, whose groups it must not
/// exceed.
fn is_own(identity: &Identity) -> bool {
    let same = (identity.uid, identity.gid) == (geteuid().as_raw(), getegid().as_raw());
    let groups = getgroups().unwrap_or_default();
    same && (identity.uid != 0 || groups.iter().all(|gid| identity.groups.contains(&gid.as_raw())))
}

/// The kernel drops the file capabilities with the user id, unless the process was set up to keep
/// them. No other capability has a place in a user's file call either.
fn drop_capabilities() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|mut sets| {
        sets.effective = CapabilitySet::empty();
        rustix::thread::set_capabilities(None, sets).is_ok()
    })
}
