//! The overlays that a root is made of: read-only layers below, one writable layer on top of each.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use warren_wire::guest::{BootPlan, FdNumber, overlay_options};

use super::report::{Refusal, StepResult};
use super::root::attach;
use super::sys;

/// Every layer of the plan, attached to the old root: Linux before 6.15 takes no others for an overlay, and a mount that was
/// never attached costs the kernel a grace period of its own when it is let go. These all leave with the old root.
pub(super) struct Layers {
    /// For each tree, the topmost first.
    lowers: Vec<Vec<OwnedFd>>,
    writable: OwnedFd,
}

impl Layers {
    pub(super) fn take(plan: &BootPlan) -> Result<Self, Refusal> {
        let attached = |number: &FdNumber| {
            let layer = sys::inherit(*number)?;
            // The old root's /dev is not used any more.
            attach(&layer, CWD, "/dev").map(|()| layer)
        };
        rustix::process::chdir("/proc/self/fd").step("overlay", "go to the descriptors")?;
        let lowers = plan.trees.iter().map(|tree| tree.lowers.iter().map(attached).collect());
        Ok(Self {
            lowers: lowers.collect::<Result<_, Errno>>().step("overlay", "take the layers")?,
            writable: attached(&plan.writable).step("overlay", "take the writable layer")?,
        })
    }

    /// Mounts one tree's overlay, still detached.
    pub(super) fn mount(&self, number: usize, at: &str) -> Result<OwnedFd, Refusal> {
        self.create(number).step("overlay", format!("mount `{at}`"))
    }

    fn create(&self, number: usize) -> Result<OwnedFd, Errno> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        // Named by descriptor, because they have no path, and because the sandbox's own mountinfo shows these names. Relative
        // to the working directory, because the kernel takes 255 bytes of each.
        let name = |layer: &OwnedFd| layer.as_raw_fd().to_string();
        let lowers: Vec<String> = self.lowers.get(number).into_iter().flatten().map(name).collect();
        let writable = name(&self.writable);
        let (upper, work) = (format!("{writable}/upper-{number}"), format!("{writable}/work-{number}"));
        for (key, value) in overlay_options(&lowers, upper, work) {
            fsconfig_set_string(&context, key, value)?;
        }
        // A power cut ends sandboxes anyway, and what is called durable is synced as such: no sync on unmount.
        fsconfig_set_flag(&context, "volatile")?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
    }
}
