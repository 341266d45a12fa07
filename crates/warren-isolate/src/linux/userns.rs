//! User namespaces with a mapping. They are made before the process that will live in them, because
//! the ids of layers are mapped through them first.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use super::sys::NamespaceHolder;

/// A namespace could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{action}")]
pub(super) struct UserNamespaceError {
    action: &'static str,
    source: io::Error,
}

/// One line of a mapping: `count` ids from `inside` on are the host's from `outside` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) inside: u32,
    pub(super) outside: u32,
    pub(super) count: u32,
}

impl Mapping {
    /// A sandbox's range without its last id, which is its agent's. Nobody inside can have that
    /// user, so nobody can act on the agent.
    pub(super) fn of_tenants(base: u32) -> Self {
        Self { inside: 0, outside: base, count: 65_535 }
    }

    fn line(self) -> String {
        format!("{} {} {}", self.inside, self.outside, self.count)
    }
}

/// Makes a user namespace with these mappings. It belongs to the first user it maps: if all
/// belonged to the host's root, sandboxes would share its limits on things the kernel counts by
/// user.
pub(super) fn make(users: Mapping, groups: Mapping) -> Result<OwnedFd, UserNamespaceError> {
    let failed = |action| move |source: io::Error| UserNamespaceError { action, source };
    let holder = NamespaceHolder::new(libc::CLONE_NEWUSER as u64, users.outside)
        .map_err(io::Error::from)
        .map_err(failed("make a user namespace"))?;
    let proc = format!("/proc/{}", holder.pid());
    fs::write(format!("{proc}/uid_map"), users.line()).map_err(failed("map users"))?;
    fs::write(format!("{proc}/gid_map"), groups.line()).map_err(failed("map groups"))?;
    let namespace = fs::File::open(format!("{proc}/ns/user")).map_err(failed("open the user namespace"))?;
    Ok(namespace.into())
}
