//! Exchanging the root of a running sandbox while it is frozen.
//!
//! A thread of its own does it, because a thread in a sandbox's mount namespace no longer sees the
//! host. It mounts the new overlays, enters the sandbox and waits there for the word to go.
//!
//! Linux before 6.15 takes only attached mounts as layers. There another thread mounts the overlays
//! in a copy of this process's namespace, with which the attached layers go.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    unmount,
};
use warren_wire::guest::{overlay_options, shown_options};

use super::mounts::{Cover, Mounts};
use super::sys;
use crate::linux::layers::{ShownLayers, mount_new};
use crate::linux::step::{CrashPoint, Steps};

/// Far more than crashes in a row could leave.
const MOST_COVERS: usize = 16;

/// An overlay that is to be mounted.
#[derive(Debug)]
pub(in crate::linux) struct Plan {
    /// Absolute, as seen inside.
    pub(in crate::linux) at: PathBuf,
    /// The topmost first.
    pub(in crate::linux) lowers: Vec<OwnedFd>,
    /// The host's own directory below them, if it is shown.
    pub(in crate::linux) shown: Option<ShownLayers>,
    /// Below the sandbox's area.
    pub(in crate::linux) upper: String,
    pub(in crate::linux) work: String,
}

/// An overlay that is mounted nowhere yet.
#[derive(Debug)]
pub(in crate::linux) struct Tree {
    pub(in crate::linux) at: PathBuf,
    mount: OwnedFd,
}

/// Mounts the overlays, with the rights of the sandbox whose ids begin at `id_base`.
pub(in crate::linux) fn mount_trees(plans: Vec<Plan>, area: OwnedFd, id_base: u32) -> io::Result<Vec<Tree>> {
    let (answer, trees) = channel();
    std::thread::Builder::new().name("warren-overlay".to_owned()).spawn(move || {
        // The caller does not wait for the end of this thread and its namespace.
        drop(answer.send(mount_here(&plans, &area, id_base).map_err(io::Error::from)));
    })?;
    trees.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that mounts ended")))
}

/// The place of layers while they are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layers {
    Detached,
    Attached,
}

/// Set once this kernel has refused layers that are attached nowhere, and taken the same attached.
static MUST_ATTACH: AtomicBool = AtomicBool::new(false);

fn mount_here(plans: &[Plan], area: &OwnedFd, id_base: u32) -> Result<Vec<Tree>, Errno> {
    sys::unshare_directories()?;
    match mount_detached(plans, area, id_base) {
        Err(Errno::INVAL) => mount_attached(plans, area, id_base),
        answer => answer,
    }
}

/// Mounts the overlays on layers as they are. Refused by Linux before 6.15. The thread has
/// directories of its own, and acts as the sandbox's root from now on.
fn mount_detached(plans: &[Plan], area: &OwnedFd, id_base: u32) -> Result<Vec<Tree>, Errno> {
    if MUST_ATTACH.load(Ordering::Relaxed) {
        return Err(Errno::INVAL);
    }
    // Names relative to it are short, and tell nothing in the sandbox's mount table.
    rustix::process::chdir("/proc/self/fd")?;
    sys::assume_file_ids(id_base)?;
    mount_all(plans, Layers::Detached, area, id_base)
}

fn mount_attached(plans: &[Plan], area: &OwnedFd, id_base: u32) -> Result<Vec<Tree>, Errno> {
    sys::unshare_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    rustix::process::chdir("/proc/self/fd")?;
    sys::assume_file_ids(id_base)?;
    // They go with the namespace.
    let shown = plans.iter().filter_map(|plan| plan.shown.as_ref());
    let shown = shown.flat_map(|layers| [&layers.hidden, &layers.machine]);
    for layer in plans.iter().flat_map(|plan| &plan.lowers).chain(shown).chain([area]) {
        attach(layer, CWD, "/dev")?;
    }
    let trees = mount_all(plans, Layers::Attached, area, id_base)?;
    MUST_ATTACH.store(true, Ordering::Relaxed);
    Ok(trees)
}

fn mount_all(plans: &[Plan], layers: Layers, area: &OwnedFd, id_base: u32) -> Result<Vec<Tree>, Errno> {
    let mount =
        |plan: &Plan| Ok(Tree { mount: mount_tree(plan, layers, area, id_base)?, at: plan.at.clone() });
    plans.iter().map(mount).collect()
}

/// Mounts a tree as the agent does at the start, see [`warren_wire::guest::ShownMount`].
fn mount_tree(plan: &Plan, layers: Layers, area: &OwnedFd, id_base: u32) -> Result<OwnedFd, Errno> {
    let Some(shown) = &plan.shown else { return mount_overlay(plan, &[], area) };
    let guarded = || {
        let overlay = sys::as_a_stranger(id_base, || mount_shown(shown))?;
        if layers == Layers::Attached {
            attach(&overlay, CWD, "/dev")?;
        }
        mount_overlay(plan, &[&overlay], area)
    };
    match guarded() {
        // Overlays cannot be stacked any higher. Without id mapping root inside has no rights to
        // these files anyway.
        Err(Errno::INVAL) if !shown.mapped => mount_overlay(plan, &[&shown.hidden, &shown.machine], area),
        answer => answer,
    }
}

fn mount_shown(shown: &ShownLayers) -> Result<OwnedFd, Errno> {
    let name = |layer: &OwnedFd| layer.as_raw_fd().to_string();
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_RDONLY;
    mount_new("overlay", shown_options(&name(&shown.hidden), &name(&shown.machine)), flags)
}

/// `lowest` are below the tree's own layers.
fn mount_overlay(plan: &Plan, lowest: &[&OwnedFd], area: &OwnedFd) -> Result<OwnedFd, Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let lowers = plan.lowers.iter().chain(lowest.iter().copied());
    let lowers: Vec<String> = lowers.map(|lower| lower.as_raw_fd().to_string()).collect();
    let area = area.as_raw_fd();
    let (upper, work) = (format!("{area}/{}", plan.upper), format!("{area}/{}", plan.work));
    for (key, value) in overlay_options(&lowers, upper, work) {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_set_flag(&context, "volatile")?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// Attaches trees over what is at their places, in the sandbox with this mount namespace.
pub(in crate::linux) fn cover(namespace: OwnedFd, trees: Vec<Tree>) -> io::Result<()> {
    let attach_all = move || -> Result<(), Errno> {
        sys::unshare_directories()?;
        sys::enter_mounts(&namespace)?;
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        trees.iter().try_for_each(|tree| attach(&tree.mount, open_inside(&root, &tree.at)?, ""))
    };
    let thread = std::thread::Builder::new().name("warren-cover".to_owned()).spawn(attach_all)?;
    let done = thread.join();
    Ok(done.map_err(|_| io::Error::other("the thread in the sandbox panicked"))??)
}

/// A thread that mounts the new trees and waits inside the sandbox. If this is dropped, it ends
/// without having changed anything there.
#[derive(Debug)]
pub(super) struct Mover {
    go: SyncSender<Vec<PathBuf>>,
    done: Receiver<io::Result<()>>,
}

/// The layers of new trees, and the area with their writable ones.
type Opened = (Vec<Plan>, OwnedFd);

/// A sandbox whose trees are to be exchanged, and its new trees.
#[derive(Debug)]
pub(super) struct Errand {
    /// The sandbox's first process.
    pub(super) pid: u32,
    /// The first one is the root.
    pub(super) plans: Vec<Plan>,
    pub(super) area: OwnedFd,
    pub(super) id_base: u32,
}

impl Mover {
    /// Starts the thread, without waiting until it is ready.
    pub(super) fn start(errand: Errand, steps: Steps) -> io::Result<Self> {
        let namespace = OwnedFd::from(fs::File::open(format!("/proc/{}/ns/mnt", errand.pid))?);
        let (go, word) = sync_channel::<Vec<PathBuf>>(0);
        let (answer, done) = channel();
        std::thread::Builder::new().name("warren-mover".to_owned()).spawn(move || {
            match errand.mount_and_enter(&namespace) {
                Ok((trees, _layers)) => {
                    if answer.send(Ok(())).is_ok() {
                        wait_and_move(&word, &answer, &trees, steps);
                    }
                }
                Err(error) => drop(answer.send(Err(error))),
            }
        })?;
        Ok(Self { go, done })
    }

    /// Waits until the new trees are mounted and the thread is in the sandbox.
    pub(super) fn ready(&self) -> io::Result<()> {
        self.answer()
    }

    /// Puts the new trees in place of the old ones, with all mounts on those. After an error
    /// everything is as it was.
    pub(super) fn go(self, standing: Vec<PathBuf>) -> io::Result<()> {
        self.go.send(standing).map_err(|_| io::Error::other("the thread in the sandbox ended"))?;
        self.answer()
    }

    fn answer(&self) -> io::Result<()> {
        self.done.recv().map_err(|_| io::Error::other("the thread in the sandbox ended"))?
    }
}

impl Errand {
    /// The layers are answered too: closing them makes the kernel wait for all its processors, so
    /// it is done when nobody waits for this thread.
    fn mount_and_enter(self, namespace: &OwnedFd) -> io::Result<(Vec<Tree>, Option<Opened>)> {
        let Self { plans, area, id_base, .. } = self;
        sys::unshare_directories()?;
        let (trees, layers) = match mount_detached(&plans, &area, id_base) {
            // Not here: to leave a namespace of its own would make this thread wait for its end.
            Err(Errno::INVAL) => (mount_trees(plans, area, id_base)?, None),
            answer => (answer?, Some((plans, area))),
        };
        sys::enter_mounts(namespace)?;
        Ok((trees, layers))
    }
}

fn wait_and_move(
    word: &Receiver<Vec<PathBuf>>,
    answer: &Sender<io::Result<()>>,
    trees: &[Tree],
    steps: Steps,
) {
    if let Ok(standing) = word.recv() {
        let (done, old) = match exchange(trees, &standing, steps) {
            Ok(old) => (Ok(()), Some(old)),
            Err(errno) => (Err(errno.into()), None),
        };
        drop(answer.send(done));
        // Closing the old root makes the kernel forget its cached files, which can take long.
        drop(old);
    }
}

/// Returns a descriptor of the old root.
fn exchange(trees: &[Tree], standing: &[PathBuf], steps: Steps) -> Result<OwnedFd, Errno> {
    let Some((new, others)) = trees.split_first() else { return Err(Errno::INVAL) };
    let old = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    attach(&new.mount, CWD, "/")?;
    steps.passed(CrashPoint::SealAttached);
    let mut moved = Vec::new();
    let done = move_all(&old, &new.mount, others, standing, &mut moved, steps).and_then(|()| {
        steps.passed(CrashPoint::SealMoved);
        rustix::process::fchdir(&new.mount)?;
        rustix::process::pivot_root(".", ".")
    });
    if let Err(errno) = done {
        for path in moved.into_iter().rev() {
            // Nothing can be done if one cannot go back.
            let _ = move_one(&new.mount, &old, path);
        }
        let _ = rustix::process::fchdir(&new.mount).and_then(|()| unmount(".", UnmountFlags::DETACH));
        return Err(errno);
    }
    steps.passed(CrashPoint::SealPivoted);
    unmount(".", UnmountFlags::DETACH).map(|()| old)
}

fn move_all<'a>(
    old: &OwnedFd,
    new: &OwnedFd,
    others: &[Tree],
    standing: &'a [PathBuf],
    moved: &mut Vec<&'a Path>,
    steps: Steps,
) -> Result<(), Errno> {
    for tree in others {
        attach(&tree.mount, open_inside(new, &tree.at)?, "")?;
    }
    for path in standing {
        move_one(old, new, path)?;
        moved.push(path);
        steps.passed(CrashPoint::SealMoving);
    }
    Ok(())
}

/// Removes a mount that covers the root of a sandbox's first process. An interrupted exchange
/// leaves one: the new root if it failed, the old root if it was nearly done. Mounts that were
/// moved to it go back.
pub(super) fn uncover(pid: u32) -> io::Result<()> {
    // Each interrupted exchange leaves one.
    for _ in 0..MOST_COVERS {
        let Some(cover) = Mounts::of(pid)?.cover() else { return Ok(()) };
        let namespace = OwnedFd::from(fs::File::open(format!("/proc/{pid}/ns/mnt"))?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
        let thread = std::thread::Builder::new()
            .name("warren-uncover".to_owned())
            .spawn(move || remove_cover(&namespace, &root, &cover))?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the sandbox panicked")))?;
    }
    Err(io::Error::other("the root of the sandbox is still covered"))
}

fn remove_cover(namespace: &OwnedFd, root: &OwnedFd, cover: &Cover) -> io::Result<()> {
    sys::unshare_directories()?;
    // The root there is the topmost mount of all.
    sys::enter_mounts(namespace)?;
    let top = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let found = rustix::fs::statx(&top, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if found.stx_mnt_id != cover.id {
        return Err(io::Error::other("the root of the sandbox is covered by something else"));
    }
    for path in &cover.moved {
        move_one(&top, root, path)?;
    }
    rustix::process::fchdir(&top)?;
    Ok(unmount(".", UnmountFlags::DETACH)?)
}

fn move_one(from: &OwnedFd, to: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let (mount, place) = (open_inside(from, path)?, open_inside(to, path)?);
    attach(&mount, place, "")
}

/// Opens a path from the kernel's mount table, which has no links in it.
fn open_inside(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Attaches a mount at `path` below `directory`, or on `directory` itself if the path is empty.
pub(in crate::linux) fn attach(
    mount: &OwnedFd,
    directory: impl std::os::fd::AsFd,
    path: &str,
) -> Result<(), Errno> {
    let target =
        if path.is_empty() { MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH } else { MoveMountFlags::empty() };
    move_mount(mount, "", directory, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | target)
}
