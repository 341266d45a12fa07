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
use super::shown::Shown;
use super::{files, sys};

/// Every layer of the plan, attached to the old root: Linux before 6.15 takes no others for an
/// overlay, and a mount that was never attached costs the kernel a grace period of its own when it
/// is let go. These all leave with the old root.
pub(super) struct Layers {
    /// For each tree, the topmost first.
    lowers: Vec<Vec<OwnedFd>>,
    /// For each tree, what of the machine itself lies below these.
    shown: Vec<Option<Shown>>,
    /// Trees without a writable layer, and where they are seen.
    read_only: Vec<(String, Shown)>,
    writable: OwnedFd,
    id_base: u32,
    /// A directory of the old root that is not used any more.
    place: String,
}

impl Layers {
    pub(super) fn take(plan: &BootPlan, place: &str) -> Result<Self, Refusal> {
        let attached = |number: &FdNumber| {
            let layer = sys::inherit(*number)?;
            attach(&layer, CWD, place).map(|()| layer)
        };
        rustix::process::chdir("/proc/self/fd").step("overlay", "go to the descriptors")?;
        let lowers = plan.trees.iter().map(|tree| tree.lowers.iter().map(attached).collect());
        let shown = |mount| Shown::take(mount, attached);
        let below = plan.trees.iter().map(|tree| tree.shown.as_ref().map(shown).transpose());
        let read_only =
            plan.shown.iter().map(|tree| Ok((tree.at.to_text().into_owned(), shown(&tree.mount)?)));
        Ok(Self {
            lowers: lowers.collect::<Result<_, Errno>>().step("overlay", "take the layers")?,
            shown: below.collect::<Result<_, Errno>>().step("overlay", "take the machine's directories")?,
            read_only: read_only
                .collect::<Result<_, Errno>>()
                .step("overlay", "take the machine's directories")?,
            writable: attached(&plan.writable).step("overlay", "take the writable layer")?,
            id_base: plan.id_base,
            place: place.to_owned(),
        })
    }

    /// Mounts one tree's overlay, still detached.
    pub(super) fn mount(&self, number: usize, at: &str) -> Result<OwnedFd, Refusal> {
        let shown = self.shown.get(number).and_then(Option::as_ref);
        let mounted = match shown {
            None => self.create(number, &[]),
            Some(shown) => match self.create_above(number, shown) {
                Err(errno) if shown.is_safe_as_it_is(errno) => self.create(number, &shown.layers()),
                answer => answer,
            },
        };
        mounted.step("overlay", format!("mount `{at}`"))
    }

    fn create_above(&self, number: usize, shown: &Shown) -> Result<OwnedFd, Errno> {
        let overlay = shown.overlay(self.id_base)?;
        attach(&overlay, CWD, &self.place)?;
        self.create(number, &[&overlay])
    }

    /// Attaches what has no writable layer below the root.
    pub(super) fn show(&self, root: &OwnedFd) -> Result<(), Refusal> {
        for (number, (at, _)) in self.read_only.iter().enumerate() {
            let target = files::mount_point(root, at, true).step("overlay", format!("open `{at}`"))?;
            self.show_at(number, &target, "")?;
        }
        Ok(())
    }

    pub(super) fn count_shown(&self) -> usize {
        self.read_only.len()
    }

    /// Attaches one of those at a path below `directory`.
    pub(super) fn show_at(&self, number: usize, directory: &OwnedFd, path: &str) -> Result<(), Refusal> {
        let Some((at, shown)) = self.read_only.get(number) else { return Ok(()) };
        match shown.overlay(self.id_base) {
            Err(errno) if shown.is_safe_as_it_is(errno) => attach(shown.machine(), directory, path),
            answer => answer.and_then(|overlay| attach(&overlay, directory, path)),
        }
        .step("overlay", format!("show `{at}`"))
    }

    /// `lowest` are below the tree's own layers.
    fn create(&self, number: usize, lowest: &[&OwnedFd]) -> Result<OwnedFd, Errno> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        // Named by descriptor, because they have no path, and because the sandbox's own mountinfo
        // shows these names. Relative to the working directory, because the kernel takes 255 bytes
        // of each.
        let name = |layer: &OwnedFd| layer.as_raw_fd().to_string();
        let lowers = self.lowers.get(number).into_iter().flatten().chain(lowest.iter().copied());
        let lowers: Vec<String> = lowers.map(name).collect();
        let writable = name(&self.writable);
        let (upper, work) = (format!("{writable}/upper-{number}"), format!("{writable}/work-{number}"));
        for (key, value) in overlay_options(&lowers, upper, work) {
            fsconfig_set_string(&context, key, value)?;
        }
        // A power cut ends sandboxes anyway, and what is called durable is synced as such: no sync
        // on unmount.
        fsconfig_set_flag(&context, "volatile")?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
    }
}
