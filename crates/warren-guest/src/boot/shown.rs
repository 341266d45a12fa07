//! Directories of the machine itself, shown by an overlay that a stranger mounts, see
//! [`ShownMount`].

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use warren_wire::guest::{FdNumber, ShownMount, shown_options};

use super::identity;

/// One directory's mounts, attached to the old root as other layers are.
#[derive(Debug)]
pub(super) struct Shown {
    hidden: OwnedFd,
    machine: OwnedFd,
    is_mapped: bool,
}

impl Shown {
    pub(super) fn take(
        plan: &ShownMount,
        attached: impl Fn(&FdNumber) -> Result<OwnedFd, Errno>,
    ) -> Result<Self, Errno> {
        let (hidden, machine) = (attached(&plan.hidden)?, attached(&plan.machine)?);
        Ok(Self { hidden, machine, is_mapped: plan.mapped })
    }

    /// The overlay, mounted nowhere yet. The working directory is that of the descriptors.
    pub(super) fn overlay(&self, id_base: u32) -> Result<OwnedFd, Errno> {
        identity::as_a_stranger(id_base, || {
            let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
            let name = |layer: &OwnedFd| layer.as_raw_fd().to_string();
            for (key, value) in shown_options(&name(&self.hidden), &name(&self.machine)) {
                fsconfig_set_string(&context, key, value)?;
            }
            fsconfig_create(&context)?;
            let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_RDONLY;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
        })
    }

    /// True if it may be mounted without a stranger where the kernel stacks no more overlays on one
    /// another, as in a container within a container: root inside has no right over files of ids
    /// that are not mapped.
    pub(super) fn is_safe_as_it_is(&self, errno: Errno) -> bool {
        errno == Errno::INVAL && !self.is_mapped
    }

    /// As the layers of another overlay.
    pub(super) fn layers(&self) -> [&OwnedFd; 2] {
        [&self.hidden, &self.machine]
    }

    pub(super) fn machine(&self) -> &OwnedFd {
        &self.machine
    }
}
