//! Directories of others, seen as the writable layer of a sandbox: `upper-0` of a directory.
//!
//! They are mounted read-only in a mount table that one thread has for itself. The machine's own
//! table never changes, and a killed process leaves no mount behind.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};

use super::layers::{clone_mount, mount_new, upper};
use super::seal::exchange::attach;
use super::seal::sys::unshare_mounts;
use super::sys;

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// The thread that mounts. The first call starts it, a drop ends it.
#[derive(Debug)]
pub(crate) struct Window {
    /// A directory to begin in.
    place: PathBuf,
    orders: Mutex<Option<Sender<Order>>>,
}

#[derive(Debug)]
enum Order {
    Show { name: String, directory: OwnedFd, shown: SyncSender<io::Result<OwnedFd>> },
    Hide { name: String },
}

impl Window {
    pub(crate) fn new(place: PathBuf) -> Self {
        Self { place, orders: Mutex::default() }
    }

    /// A directory in which this one is the writable layer. It is there until it is hidden, or
    /// another is shown by its name.
    pub(crate) fn show(&self, name: &str, directory: &Path) -> io::Result<OwnedFd> {
        let directory = clone_mount(directory)?;
        sys::set_mount(directory.as_fd(), READ_ONLY, None)?;
        let (shown, answer) = sync_channel(1);
        let mut orders = self.orders.lock();
        let sender = match orders.take() {
            Some(sender) => sender,
            None => start(&self.place)?,
        };
        let sent = sender.send(Order::Show { name: name.to_owned(), directory, shown });
        sent.map_err(|_| gone())?;
        *orders = Some(sender);
        drop(orders);
        answer.recv().map_err(|_| gone())?
    }

    pub(crate) fn hide(&self, name: &str) {
        if let Some(sender) = &*self.orders.lock() {
            // A thread that has ended shows nothing.
            drop(sender.send(Order::Hide { name: name.to_owned() }));
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that mounts ended")
}

fn start(place: &Path) -> io::Result<Sender<Order>> {
    let (sender, orders) = channel();
    let (ready, entered) = sync_channel(1);
    let place = place.to_owned();
    std::thread::Builder::new().name("warren-window".to_owned()).spawn(move || {
        let apart = live_apart(&place);
        let is_apart = apart.is_ok();
        drop(ready.send(apart));
        if is_apart {
            work(&orders);
        }
    })?;
    entered.recv().map_err(|_| gone())??;
    Ok(sender)
}

/// Gives this thread a mount table with nothing in it but an empty file system.
fn live_apart(place: &Path) -> io::Result<()> {
    unshare_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let empty = mount_new("tmpfs", [("mode", "0700"), ("size", "16m")], flags)?;
    attach(&empty, rustix::fs::openat(CWD, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, "")?;
    rustix::process::chdir(place)?;
    // The old root comes to lie on the new one, where it is taken away.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

fn work(orders: &Receiver<Order>) {
    while let Ok(order) = orders.recv() {
        match order {
            Order::Show { name, directory, shown } => {
                // Who asked is still there: he waits.
                drop(shown.send(show(&name, &directory).map_err(io::Error::from)));
            }
            Order::Hide { name } => hide(&name),
        }
    }
}

fn show(name: &str, directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    hide(name);
    let layer = format!("{name}/{}", upper(0));
    for made in [name, &layer] {
        rustix::fs::mkdirat(CWD, made, Mode::RWXU)?;
    }
    attach(directory, CWD, &layer)?;
    rustix::fs::openat(CWD, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Takes away what is shown by a name, if anything is.
fn hide(name: &str) {
    let layer = format!("{name}/{}", upper(0));
    let _ = unmount(layer.as_str(), UnmountFlags::DETACH);
    for made in [&layer, name] {
        let _ = rustix::fs::unlinkat(CWD, made, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(directory: &OwnedFd, at: &str) -> Option<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(directory, at, flags, Mode::empty()).ok()?;
        let entries = rustix::fs::Dir::read_from(&opened).ok()?.flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with('.'));
        Some(names)
    }

    #[test]
    fn a_directory_is_seen_as_a_layer_by_nobody_else_and_cannot_be_written_to() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        for directory in [&one, &two] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join(directory.file_name().unwrap()), "").unwrap();
        }
        let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let window = Window::new(place.path().to_owned());
        let shown = window.show("a", &one).unwrap();
        assert_eq!(names(&shown, "upper-0").unwrap(), ["one"]);
        let write = rustix::fs::mkdirat(&shown, "upper-0/x", Mode::RWXU);
        assert_eq!(write.unwrap_err(), Errno::ROFS);
        assert_eq!(names(&window.show("b", &two).unwrap(), "upper-0").unwrap(), ["two"]);
        assert_eq!(names(&shown, "upper-0").unwrap(), ["one"]);
        assert_eq!(names(&window.show("a", &two).unwrap(), "upper-0").unwrap(), ["two"]);
        window.hide("a");
        assert!(window.show("a", &place.path().join("absent")).is_err());
        assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
    }
}
