//! The overlays that a root is made of: read-only layers below, one writable layer on top of each.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use warren_wire::guest::BootPlan;

use super::report::{Refusal, StepResult};
use super::root::attach;
use super::sys;

/// Every layer of the plan. They are dropped when all overlays are mounted, which hold what they need by themselves.
pub(super) struct Layers {
    /// For each tree, the topmost first.
    lowers: Vec<Vec<OwnedFd>>,
    writable: OwnedFd,
    attached: bool,
}

impl Layers {
    pub(super) fn take(plan: &BootPlan) -> Result<Self, Refusal> {
        let inherit = |tree: &[i32]| tree.iter().map(|number| sys::inherit(*number)).collect();
        let lowers = plan.trees.iter().map(|tree| inherit(&tree.lowers)).collect::<Result<_, Errno>>();
        Ok(Self {
            lowers: lowers.step("overlay", "take the layers")?,
            writable: sys::inherit(plan.writable).step("overlay", "take the writable layer")?,
            attached: false,
        })
    }

    /// Mounts one tree's overlay, still detached.
    pub(super) fn mount(&mut self, number: usize, at: &str) -> Result<OwnedFd, Refusal> {
        let mut mounted = self.try_mount(number);
        // Linux before 6.15 takes only layers that are attached somewhere in this mount namespace. The old root's
        // /dev is not used any more, and leaves with it.
        if matches!(mounted, Err(Errno::INVAL)) && !self.attached {
            self.attach_all().step("overlay", "attach the layers")?;
            mounted = self.try_mount(number);
        }
        mounted.step("overlay", format!("mount `{at}`"))
    }

    fn attach_all(&mut self) -> Result<(), Errno> {
        self.attached = true;
        self.lowers.iter().flatten().chain([&self.writable]).try_for_each(|layer| attach(layer, CWD, "/dev"))
    }

    fn try_mount(&self, number: usize) -> Result<OwnedFd, Errno> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        // Named by descriptor, because they have no path, and because the sandbox's own mountinfo shows these names.
        let name = |layer: &OwnedFd| format!("/proc/self/fd/{}", layer.as_raw_fd());
        let lowers: Vec<String> = self.lowers.get(number).into_iter().flatten().map(name).collect();
        let writable = name(&self.writable);
        let options = [
            ("source", "overlay".to_owned()),
            ("lowerdir", lowers.join(":")),
            ("upperdir", format!("{writable}/upper-{number}")),
            ("workdir", format!("{writable}/work-{number}")),
            ("redirect_dir", "nofollow".to_owned()),
            ("metacopy", "off".to_owned()),
            ("index", "off".to_owned()),
            ("xino", "off".to_owned()),
        ];
        for (key, value) in &options {
            fsconfig_set_string(&context, *key, value.as_str())?;
        }
        // A power cut ends sandboxes anyway, and what is called durable is synced as such: no sync on unmount.
        fsconfig_set_flag(&context, "volatile")?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
    }
}
